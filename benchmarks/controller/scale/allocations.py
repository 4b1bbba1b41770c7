"""What a process has allocated: by the line of Weir that asked for it, or by its allocator."""

from __future__ import annotations

import ctypes
import gc
import json
import os
import re
import signal
import sys
import tempfile
import tracemalloc
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FrameType

TRACED = "WEIR_SCALE_TRACED"
"""Environment variable: the file to which a controller writes what its lines have allocated."""
COUNTED = "WEIR_SCALE_COUNTED"
"""Environment variable: the file to which a controller writes what its allocator holds."""
HELD = "held for small objects"
USED = "of it: in use by objects"
OBJECTS = "objects that the garbage collector follows"
FRAMES = 16
"""Callers that are kept of each allocation, to find a line of Weir among them."""


def trace_into(file: Path) -> None:
    """Trace allocations from now on; write them to a file at each SIGUSR2.

    The file has bytes by name: `package/module.py:line` of what Python allocated, and `SQLite`.
    """
    tracemalloc.start(FRAMES)
    _write_at_signal(file, _traced)


def count_into(file: Path) -> None:
    """Write `HELD`, `USED` (bytes) and `OBJECTS` to a file at each SIGUSR2.

    Not in a process that is traced: there, Python does not tell of its allocator.
    """
    _write_at_signal(file, _counted)


def _write_at_signal(file: Path, find: Callable[[], Mapping[str, int]]) -> None:
    def write(number: int, frame: FrameType | None) -> None:
        gc.collect()
        partial = file.with_suffix(".partial")
        partial.write_text(json.dumps(find()))
        partial.rename(file)

    signal.signal(signal.SIGUSR2, write)


def _traced() -> Mapping[str, int]:
    found: Counter[str] = Counter()
    for trace in tracemalloc.take_snapshot().traces:
        found[_place_of(trace.traceback)] += trace.size
    found["SQLite"] = _sqlite_memory()
    return found


def _counted() -> Mapping[str, int]:
    """Return the bytes of the arenas for objects of at most 512 bytes, and those of the objects.

    Python prints these numbers to the error output, and nowhere else.

    Raises:
        RuntimeError: It does not.
    """
    with tempfile.TemporaryFile("w+") as file:
        kept = os.dup(sys.stderr.fileno())
        os.dup2(file.fileno(), sys.stderr.fileno())
        try:
            sys._debugmallocstats()
        finally:
            os.dup2(kept, sys.stderr.fileno())
            os.close(kept)
        file.seek(0)
        text = file.read()
    held, used = (
        re.search(rf"{name} *= *([\d,]+)", text)
        for name in ("bytes/arena", "bytes in allocated blocks")
    )
    if held is None or used is None:
        raise RuntimeError(f"Expected CPython's statistics of its allocator, got {text[:200]!r}")
    return {
        HELD: int(held[1].replace(",", "")),
        USED: int(used[1].replace(",", "")),
        OBJECTS: len(gc.get_objects()),
    }


def _place_of(traceback: tracemalloc.Traceback) -> str:
    """Return the innermost line of Weir, else the innermost of a library."""
    frames = list(reversed(traceback))  # the innermost first
    chosen = next((each for each in frames if "/weir_" in each.filename), frames[0])
    path = Path(chosen.filename)
    parts = path.parts
    start = next(
        (place for place, part in enumerate(parts) if part.startswith("weir_")),
        parts.index("site-packages") + 1 if "site-packages" in parts else len(parts) - 2,
    )
    return f"{'/'.join(parts[start:])}:{chosen.lineno}"


def _sqlite_memory() -> int:
    """Return the bytes that SQLite holds, in the library that Python uses."""
    library = ctypes.CDLL("libsqlite3.so.0")
    library.sqlite3_memory_used.restype = ctypes.c_int64
    return int(library.sqlite3_memory_used())
