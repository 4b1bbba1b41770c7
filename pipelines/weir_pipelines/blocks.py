"""Series in blocks of whole operators, so that a block's minutes fit into a processor's cache."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date

import numpy as np

from weir_pipelines.samples import Labels, Samples, Stretches, day_number
from weir_pipelines.series_minutes import SeriesMinutes, measure_series
from weir_pipelines.settings import ArrivalSettings

TOGETHER = 64
"""Series of a block, about: an operator with more of them is a block of its own."""


def measure_blocks(
    samples: Samples, labels: Labels, day: date, settings: ArrivalSettings
) -> Iterator[tuple[Labels, SeriesMinutes]]:
    """Yield some operators' series of which anything is known, and what each did in each minute.

    Args:
        samples: Of the day and its margins.
        labels: Of their series, sorted by operator before all else.
        day: Which day.
        settings: Where a gap begins.
    """
    stretches = Stretches(samples)
    for block in split_operators(labels):
        minutes = measure_series(
            stretches.of(block.series), block.series.size, day_number(day), settings
        )
        known = np.logical_or.reduce(minutes.present, axis=1)
        if known.any():
            yield block.take(known), minutes.take(known)


def split_operators(labels: Labels) -> Iterator[Labels]:
    """Yield the labels of whole operators, about `TOGETHER` series at a time."""
    begin = 0
    for end in (*labels.group("operator").starts[1:].tolist(), labels.series.size):
        if end - begin >= TOGETHER or end == labels.series.size:
            yield labels.take(slice(begin, end))
            begin = end
