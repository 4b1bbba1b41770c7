"""What a process has allocated, by the line of Weir that asked for it."""

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
from pathlib import Path
from types import FrameType

TRACED = "WEIR_SCALE_TRACED"
"""Environment variable: the file to which a controller writes what it has allocated."""
HELD = "held for small objects"
USED = "of it: in use by objects"
OBJECTS = "objects that the garbage collector follows"
FRAMES = 16
"""Callers that are kept of each allocation, to find a line of Weir among them."""


def trace_into(file: Path) -> None:
    """Trace allocations from now on; write them to a file at each SIGUSR2.

    The file has bytes by name: `package/module.py:line` of what Python allocated, `SQLite`, and
    `tracing`, which a process that is not traced does not need. Beside them, it has the number of
    `OBJECTS`, and the bytes that Python's allocator of small objects has `HELD` and `USED`.
    """
    tracemalloc.start(FRAMES)

    def write(number: int, frame: FrameType | None) -> None:
        gc.collect()
        found: Counter[str] = Counter()
        for trace in tracemalloc.take_snapshot().traces:
            found[_place_of(trace.traceback)] += trace.size
        found["SQLite"] = _sqlite_memory()
        found["tracing"] = tracemalloc.get_tracemalloc_memory()
        found[HELD], found[USED] = _small_objects()
        found[OBJECTS] = len(gc.get_objects())
        partial = file.with_suffix(".partial")
        partial.write_text(json.dumps(found))
        partial.rename(file)

    signal.signal(signal.SIGUSR2, write)


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


def _small_objects() -> tuple[int, int]:
    """Return the bytes of the arenas for objects of at most 512 bytes, and those of the objects.

    Traces are not among them. Python prints these numbers to the error output, and nowhere else.
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
    return int(held[1].replace(",", "")), int(used[1].replace(",", ""))


def _sqlite_memory() -> int:
    """Return the bytes that SQLite holds, in the library that Python uses."""
    library = ctypes.CDLL("libsqlite3.so.0")
    library.sqlite3_memory_used.restype = ctypes.c_int64
    return int(library.sqlite3_memory_used())
