"""What one tick saw, for tests that care for little of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from weir_operator.loop.gather import Snapshot
from weir_operator.metrics.measurement import measure_output
from weir_operator.metrics.source import Window

NOTHING, _ = measure_output(Window(start=0.0, end=60.0, series=()))
"""What came out of a job that was not measured."""


def without_samples(window: Window) -> Window:
    """Return the window of a source that has nothing."""
    return Window(start=window.start, end=window.end, series=())


def a_snapshot(**changes: Any) -> Snapshot:
    """Return a settled minute in which nothing was measured."""
    snapshot = Snapshot(
        start=0.0,
        now=60.0,
        output=NOTHING,
        app=None,
        problems=(),
        replicas=(),
        dataflow=None,
        settled=True,
    )
    return replace(snapshot, **changes)
