"""The arrival trace at the sources, and the selectivity of every edge with its noise.

Arrivals count in disturbed intervals too, or every restart would leave a hole in the trace.

On an edge from an operator that feeds several others, the share is measured at the receiver where
that is its only feeder. A receiver with several feeders is taken to get everything that each of
them gives out, as in the live measurement of arrivals.

Of the records that an operator takes in, it passes on more in one interval and fewer in another:
there are few, buffers and windows emit some of them later, and their kind changes over the day.
Counting alone makes the variance of a sum as large as its mean, however many intervals are summed.
The ratio of the two, the dispersion, measures what exceeds that: it is the largest of stretches of
any length, so that a share which is higher for hours every day is noise and no drift.

Differences are relative to the expectation, not logarithms: an operator with windows emits nothing
in most intervals, and its mean must be what was fitted.

Source: McCullagh, Nelder, "Generalized Linear Models" (1989), section 4.5 (dispersion of counts).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from weir_policies.model.arrays import Floats
from weir_policies.model.dataflow import Dataflow, Edge
from weir_simulator.fitting.samples import IntervalSample
from weir_simulator.traces import Trace

MIN_SECONDS = 86_400.0
"""Measured seconds from which on noise is known: without a night, a day looks like a drift."""
MIN_STRETCHES = 8
"""Stretches of one length that tell how they scatter."""
FEW = 1.0
"""Records that are taken to be expected at least: what comes of nearly none proves little."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Passage:
    """An edge in one interval."""

    taken: float
    """Records that its first operator took in; above 0."""
    passed: float
    """Records that went along it."""
    seconds: float
    """How long the interval was."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PassageNoise:
    """How the records that pass an edge scatter around the expectation."""

    dispersion: float
    """Variance of the records that passed over their mean; 1 where they are independent."""
    typical: float
    """Records that passed in the mean interval."""

    def variance(self, expected: float) -> float:
        """Return the variance of passed / expected in an interval with so many expected records.

        More records than are typical make it no smaller: what goes beyond counting is not averaged
        out by more traffic.
        """
        return self.dispersion / max(min(expected, self.typical), FEW)


def find_passage(interval: IntervalSample, edge: Edge, dataflow: Dataflow) -> Passage | None:
    """Return what passed an edge; `None` where it was not measured, or nothing was taken in.

    It is measured at the receiver where that has no other feeder.
    """
    source = interval.operators.get(edge.source)
    if source is None or not source.taken > 0:
        return None
    passed = source.given
    if len(dataflow.into(edge.target)) == 1:
        target = interval.operators.get(edge.target)
        if target is None:
            return None
        passed = target.taken
    if not math.isfinite(passed):
        return None
    return Passage(
        taken=source.taken * interval.seconds,
        passed=passed * interval.seconds,
        seconds=interval.seconds,
    )


def find_passage_noise(passages: Sequence[Passage], selectivity: float) -> PassageNoise | None:
    """Return how passages scatter around a selectivity; `None` where they last less than a day.

    Args:
        passages: Of one edge, in order of time.
        selectivity: Fitted to them.
    """
    if sum(each.seconds for each in passages) < MIN_SECONDS:
        return None
    passed = np.array([each.passed for each in passages])
    expected = np.array([each.taken for each in passages]) * selectivity
    dispersion, length = 1.0, 1
    while (stretches := passed.size // length) >= MIN_STRETCHES:
        whole = stretches * length
        hoped = expected[:whole].reshape(stretches, length).sum(axis=1)
        misses = passed[:whole].reshape(stretches, length).sum(axis=1) - hoped
        dispersion = max(dispersion, float(np.mean(misses**2 / np.maximum(hoped, FEW))))
        length *= 2
    return PassageNoise(dispersion=dispersion, typical=float(expected.mean()))


NEGLIGIBLE = 1e-6
"""Part of a slot that rounding may leave of a neighbour's stretch."""
MAX_JOINED = 18_000.0
"""Seconds of a hole that is filled: what two days of history, each of which may lack a tenth of its
minutes, can lack at the midnight between them. A line through more is traffic that never was."""
MIN_KEPT = 86_400.0
"""Seconds that what follows a longer hole must last to be the trace: less knows no time of day."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ArrivalTrace:
    """Records/s that arrived at one operator, slot by slot without a gap.

    Holes that are too long to be filled part it: it is the last part that lasts a day, or the last
    of all where none does.
    """

    rates: Trace
    """Shape `(slots,)`."""
    filled: int
    """Slots that nothing was measured in, between two that something was."""
    begin: float
    """Unix seconds at which the first slot begins."""


def trace_arrivals(
    intervals: Sequence[IntervalSample], operator: str, *, slot: float
) -> ArrivalTrace | None:
    """Return the arrivals at an operator; `None` where none were measured.

    A slot has the mean of the intervals that lie in it, by how long they do. One without any is
    filled along a straight line from its neighbours.

    Args:
        intervals: In order of time.
        operator: Its name.
        slot: Seconds.
    """
    seen = [
        (each.time - each.seconds, each.time, each.operators[operator].arrived)
        for each in intervals
        if operator in each.operators and math.isfinite(each.operators[operator].arrived)
    ]
    return trace_stretches(np.array(seen), slot=slot) if seen else None


def trace_stretches(stretches: Floats, *, slot: float) -> ArrivalTrace:
    """Return the arrivals that stretches of time had, slot by slot, as `trace_arrivals` does.

    Of stretches with a hole of more than `MAX_JOINED` between them, one part becomes the trace.

    Args:
        stretches: Begin and end, Unix seconds, and records/s between them, shape `(n, 3)`, n >= 1,
            in order of time; what begins before the one before has ended counts from there on.
        slot: Seconds.
    """
    start, end, rate = _choose_part(stretches).T
    start = np.maximum(start, np.append(start[0], np.maximum.accumulate(end)[:-1]))
    length = np.maximum(end - start, 0.0)
    # What had arrived, and how long was measured, at each begin and end in turn.
    times = np.column_stack([start, start + length]).ravel()
    records = np.repeat(np.append(0.0, np.cumsum(rate * length)), 2)[1:-1]
    measured = np.repeat(np.append(0.0, np.cumsum(length)), 2)[1:-1]
    # An interval that ends a little late begins no slot of its own.
    slots = max(round((times[-1] - times[0]) / slot), 1)
    edges = times[0] + slot * np.arange(slots + 1)
    edges[-1] = max(edges[-1], times[-1])
    arrived = np.diff(np.interp(edges, times, records))
    covered = np.diff(np.interp(edges, times, measured))
    known = covered > NEGLIGIBLE * slot
    places = np.arange(slots)
    rates = np.interp(places, places[known], arrived[known] / covered[known])
    return ArrivalTrace(rates=rates, filled=int(slots - known.sum()), begin=float(times[0]))


def _choose_part(stretches: Floats) -> Floats:
    """Return the last stretches without a long hole that last a day, or the last where none do."""
    ends = np.maximum.accumulate(stretches[:, 1])
    holes = np.flatnonzero(stretches[1:, 0] - ends[:-1] > MAX_JOINED)
    parts = np.split(stretches, holes + 1)
    lasting = [each for each in parts if each[:, 1].max() - each[0, 0] >= MIN_KEPT]
    return (lasting or parts)[-1]


def fit_flow(
    intervals: Sequence[IntervalSample], dataflow: Dataflow
) -> tuple[Dataflow, Mapping[tuple[str, str], PassageNoise]]:
    """Fit the edges of a graph to intervals in order of time.

    Returns:
        The graph with fitted selectivities (records on an edge per record that its first operator
        took in), and the noise of each edge that was measured for long enough, by its two
        operators. An edge on which nothing was seen keeps the selectivity that was assumed.
    """
    edges: list[Edge] = []
    noises: dict[tuple[str, str], PassageNoise] = {}
    for edge in dataflow.edges:
        found = (find_passage(interval, edge, dataflow) for interval in intervals)
        passages = [each for each in found if each is not None]
        fitted = edge
        if passages:
            # Summed by NumPy, whose sums of many numbers are more exact.
            passed = np.array([each.passed for each in passages]).sum()
            taken = np.array([each.taken for each in passages]).sum()
            fitted = replace(edge, selectivity=float(passed / taken))
        edges.append(fitted)
        noise = find_passage_noise(passages, fitted.selectivity)
        if noise is not None:
            noises[edge.source, edge.target] = noise
    return Dataflow(operators=dataflow.operators, edges=tuple(edges)), noises
