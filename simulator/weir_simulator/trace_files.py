"""Arrival traces on disk: plain text, one number per line, one line per slot."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import numpy as np

from weir_simulator.errors import TraceError
from weir_simulator.traces import Trace, as_trace


def read_trace(path: Path) -> Trace:
    """Read a trace.

    Raises:
        TraceError: The file cannot be read, has no lines, or one of them is not a finite number
            >= 0; the message names file, line and content.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise TraceError(f"Trace {path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise TraceError(f"Trace {path} is not text; give one number per line") from error
    if not lines:
        raise TraceError(f"Trace {path} is empty; give one number per line, one line per slot")
    try:
        return as_trace(np.array(lines, dtype=np.float64))
    except (ValueError, TraceError):
        # The fast way does not know the line: look for it one by one.
        for number, line in enumerate(lines, start=1):
            _refuse_wrong(path, number, line)
        raise


def write_trace(path: Path, trace: Trace) -> None:
    """Write a trace so that reading it gives the same numbers, replacing the file at once.

    Raises:
        TraceError: The file cannot be written; what was there before is left as it was.
    """
    # `repr` is the shortest text that reads back exactly; integers are written as such.
    text = "".join(f"{value!r}\n".replace(".0\n", "\n") for value in trace.tolist())
    temporary = None
    try:
        with tempfile.NamedTemporaryFile(
            "w", encoding="utf-8", dir=path.parent, prefix=f".{path.name}.", delete=False
        ) as file:
            temporary = Path(file.name)
            file.write(text)
        # A temporary file is readable by its owner only: give it what a new file would have had.
        temporary.chmod(0o666 & ~_umask())
        temporary.replace(path)
    except OSError as error:
        if temporary is not None:
            temporary.unlink(missing_ok=True)
        raise TraceError(f"Trace {path} cannot be written: {error.strerror}") from error


def _refuse_wrong(path: Path, number: int, line: str) -> None:
    try:
        as_trace([float(line)])
    except (ValueError, TraceError) as error:
        raise TraceError(
            f"Trace {path}, line {number}: {_shortened(line)!r} is not a rate; "
            "give one finite number of records/s, 0 or more, per line"
        ) from error


def _shortened(line: str) -> str:
    return line if len(line) <= 40 else f"{line[:37]}..."


def _umask() -> int:
    # The mask can only be read by setting it.
    mask = os.umask(0)
    os.umask(mask)
    return mask
