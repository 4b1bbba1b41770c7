"""What a process has allocated, by the line of Weir that asked for it."""

from __future__ import annotations

import ctypes
import gc
import json
import signal
import tracemalloc
from collections import Counter
from pathlib import Path
from types import FrameType

TRACED = "WEIR_SCALE_TRACED"
"""Environment variable: the file to which a controller writes what it has allocated."""
FRAMES = 16
"""Callers that are kept of each allocation, to find a line of Weir among them."""


def trace_into(file: Path) -> None:
    """Trace allocations from now on; write them to a file at each SIGUSR2.

    The file has bytes by name: `package/module.py:line` of what Python allocated, `SQLite`, and
    `tracing`, which a process that is not traced does not need.
    """
    tracemalloc.start(FRAMES)

    def write(number: int, frame: FrameType | None) -> None:
        gc.collect()
        found: Counter[str] = Counter()
        for trace in tracemalloc.take_snapshot().traces:
            found[_place_of(trace.traceback)] += trace.size
        found["SQLite"] = _sqlite_memory()
        found["tracing"] = tracemalloc.get_tracemalloc_memory()
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


def _sqlite_memory() -> int:
    """Return the bytes that SQLite holds, in the library that Python uses."""
    library = ctypes.CDLL("libsqlite3.so.0")
    library.sqlite3_memory_used.restype = ctypes.c_int64
    return int(library.sqlite3_memory_used())
