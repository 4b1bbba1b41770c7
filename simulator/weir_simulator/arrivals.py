"""The rates of an experiment: its trace, read or generated, and the stretch that is used."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import numpy as np

from weir_policies.errors import ParameterError
from weir_simulator.experiment import Experiment, TraceSource
from weir_simulator.traces import Trace, cut, read_trace, synthesise

MADE_UP_SLOTS = 10_080
"""Length of a made-up trace that names none: a week of minutes."""


def arrival_rates(source: TraceSource) -> Trace:
    """Return the records/s of each slot that is used, shape `(n,)`.

    Raises:
        TraceError: The file cannot be read or holds no trace, or the stretch leaves it.
    """
    whole = whole_trace(source)
    slots = max(whole.size - source.start, 1) if source.slots is None else source.slots
    return cut(whole, start=source.start, slots=slots)


def training_rates(experiment: Experiment, policy: str) -> Trace:
    """Return the trace that an offline policy learns from, shape `(n,)`.

    Raises:
        ParameterError: The experiment has none.
        TraceError: It cannot be read.
    """
    if experiment.training is None:
        raise ParameterError(
            f"Expected training, because {policy} learns before it runs, got none: name a trace "
            "that it is not judged on, such as training: {file: last-month.txt}"
        )
    return arrival_rates(experiment.training)


def whole_trace(source: TraceSource) -> Trace:
    """Return the trace from its first slot on, shape `(n,)`; not to be written to.

    A made-up one begins at midnight and is as long as it is used.

    Raises:
        TraceError: The file cannot be read or holds no trace.
    """
    if source.kind is not None:
        slots = MADE_UP_SLOTS if source.slots is None else source.slots
        rng = np.random.default_rng(source.seed)
        return synthesise(source.kind, slots=source.start + slots, rng=rng)
    if source.file is None:
        raise TypeError("Expected a file or a kind, as TraceSource promises")
    changed = source.file.stat().st_mtime_ns if source.file.exists() else 0
    return _read(source.file, changed)


@lru_cache(maxsize=4)
def _read(file: Path, _changed: int) -> Trace:
    """Read a trace once for check and run, again when the file has changed."""
    return read_trace(file)
