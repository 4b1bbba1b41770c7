"""The rates of an experiment: its trace, read or made up, and the stretch that is used."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import numpy as np

from weir_simulator.experiment import TraceSource
from weir_simulator.trace_files import read_trace
from weir_simulator.trace_synthesis import synthesise
from weir_simulator.traces import Trace, cut

MADE_UP_SLOTS = 10_080
"""Length of a made-up trace that names none: a week of minutes."""


def arrival_rates(source: TraceSource) -> Trace:
    """Return the records/s of each slot, shape `(n,)`; not to be written to.

    Raises:
        TraceError: The file cannot be read or holds no trace, or the stretch leaves it.
    """
    if source.kind is not None:
        slots = MADE_UP_SLOTS if source.slots is None else source.slots
        # What comes before the start is made up too, so that the time of day is right.
        rng = np.random.default_rng(source.seed)
        whole = synthesise(source.kind, slots=source.start + slots, rng=rng)
    elif source.file is not None:
        whole = _read(source.file, source.file.stat().st_mtime_ns if source.file.exists() else 0)
    else:
        raise TypeError("Expected a trace from a file or of a kind, which TraceSource promises")
    slots = whole.size - source.start if source.slots is None else source.slots
    return cut(whole, start=source.start, slots=slots)


@lru_cache(maxsize=4)
def _read(file: Path, _changed: int) -> Trace:
    """Read a trace once for a check and a run, again when the file has changed."""
    return read_trace(file)
