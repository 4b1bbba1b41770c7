"""What passes the edges of a job, interval by interval, and how much of its scatter is noise.

Of the records that an operator takes in, one interval passes on more and another fewer: they are
few, buffers and windows give some of them out later, and what they are like moves with the hour.
Counting alone makes the variance of a sum as large as its mean, however many intervals are summed.
The ratio of the two, the dispersion, holds what goes beyond: it is the largest that stretches of
any length show, so that a share which is higher for hours every day is noise and no drift.

Differences are relative to what was expected and not logarithms: an operator with windows gives out
nothing in most intervals, and its mean must be what was fitted.

Source: McCullagh, Nelder, "Generalized Linear Models" (1989), section 4.5 (dispersion of counts).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from weir_policies.model.dataflow import Dataflow, Edge
from weir_simulator.fitting.samples import IntervalSample

LEAST_SECONDS = 86_400.0
"""Measured seconds from which on noise is known: without a night, a day looks like a drift."""
LEAST_STRETCHES = 8
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
    """How what passes an edge scatters around what its selectivity lets expect."""

    dispersion: float
    """Variance of the records that passed over their mean; 1 where they are independent."""
    typical: float
    """Records that passed in the mean interval."""

    def variance(self, expected: float) -> float:
        """Return that of passed / expected in an interval that lets so many records expect.

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
    if sum(each.seconds for each in passages) < LEAST_SECONDS:
        return None
    passed = np.array([each.passed for each in passages])
    expected = np.array([each.taken for each in passages]) * selectivity
    dispersion, length = 1.0, 1
    while (stretches := passed.size // length) >= LEAST_STRETCHES:
        whole = stretches * length
        hoped = expected[:whole].reshape(stretches, length).sum(axis=1)
        misses = passed[:whole].reshape(stretches, length).sum(axis=1) - hoped
        dispersion = max(dispersion, float(np.mean(misses**2 / np.maximum(hoped, FEW))))
        length *= 2
    return PassageNoise(dispersion=dispersion, typical=float(expected.mean()))
