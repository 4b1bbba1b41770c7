"""A switchback experiment: blocks of time in which one side or the other decides, and what it says.

Blocks come in pairs, one for each side. Which side is first is drawn for each pair, so that a
load that rises or falls over a pair favours neither. The first quarter of each block is wash-out:
the job still is in the other side's deployment, or restarts, or works off a backlog, so nothing in
it is judged.

The estimate is the mean of the paired differences with the interval of Student's t. With the order
drawn at random, the differences of two pairs are uncorrelated and their distribution is symmetric
around the effect if the sides do not differ, also under a load with trend and autocorrelation; that
is what the interval assumes. A randomisation interval would assume no more but the pairing, yet
with few pairs it cannot exclude anything: six pairs have 64 orders. Costs are compared as the
logarithm of their ratio, because a saving is a share of what the load makes necessary.

Knows no clock, no job and no policy.

Source: Bojinov, Simchi-Levi, Zhao, Design and analysis of switchback experiments, Management
Science 2023 (blocks, wash-out); paired t-test as in `scipy.stats.ttest_1samp`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

WASH_OUT = 0.25
"""Part of each block, its first, that is not judged."""
COVERED = 0.5
"""Part of the judged time of a block that must have been measured for its pair to count."""
MIN_PAIRS = 2
"""Pairs below which nothing can be estimated."""
CONFIDENCE = 0.95
MIN_LATE = 3
"""Intervals over the bound below which the objective never counts as missed too often."""

Floats = NDArray[np.float64]


class Side(StrEnum):
    """Who decides in a block."""

    WEIR = "Weir"
    BASELINE = "Baseline"


@dataclass(frozen=True, kw_only=True, slots=True)
class BlockPosition:
    """Where a time lies in an experiment."""

    block: int
    """From zero on; the blocks 2n and 2n + 1 are a pair."""
    side: Side
    judged: bool
    """Whether it is after the wash-out."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Design:
    """Which side decides when."""

    block: float
    """Seconds."""
    pairs: int
    seed: int
    """Of the order of the sides."""

    @property
    def seconds(self) -> float:
        """Length of the experiment."""
        return 2 * self.pairs * self.block

    @property
    def sides(self) -> tuple[Side, ...]:
        """The side of each block."""
        first = np.random.default_rng(self.seed).integers(2, size=self.pairs)
        order = (Side.WEIR, Side.BASELINE)
        return tuple(side for each in first for side in (order[each], order[1 - each]))

    def place(self, begin: float, end: float) -> BlockPosition | None:
        """Return where a time lies; `None` where it is not within one block.

        Args:
            begin: Seconds since the begin of the experiment.
            end: The same; equal to `begin` for a moment, which belongs to the block that begins.
        """
        block = math.floor(begin / self.block)
        if not 0 <= block < 2 * self.pairs or end > (block + 1) * self.block:
            return None
        judged = begin >= (block + WASH_OUT) * self.block
        return BlockPosition(block=block, side=self.sides[block], judged=judged)


@dataclass(frozen=True, kw_only=True, slots=True)
class BlockTotals:
    """What was measured in the judged time of one block."""

    side: Side
    seconds: float = 0.0
    cost: float = 0.0
    """Currency."""
    measured: int = 0
    """Intervals of which it is known whether they exceeded the bound."""
    measured_seconds: float = 0.0
    """How long these were together."""
    late: int = 0
    """Those that did."""
    restarts: int = 0
    refused: int = 0
    """Intervals of a block of the baseline in which it was refused, so Weir decided."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Effect:
    """A difference between the sides, Weir's less the baseline's, with its interval."""

    mean: float
    low: float
    """NaN, as `high`, where all pairs are equal or only one counts: they say nothing of chance."""
    high: float

    @property
    def found(self) -> bool:
        """Whether the interval leaves out that there is no difference."""
        return self.low > 0 or self.high < 0


@dataclass(frozen=True, kw_only=True, slots=True)
class ExperimentResult:
    """What an experiment has come to."""

    pairs: int
    """Those that count."""
    left_out: int
    """Pairs that were begun and do not count: too little of a block was measured, or the baseline
    was refused."""
    relative_cost: Effect
    """Part of the baseline's cost by which Weir's is higher: -0.2 is a saving of 20 %."""
    cost: Effect
    """Currency per hour."""
    late: Effect
    """Share of intervals over the bound."""
    restarts: Effect
    """Per hour."""


def estimate(blocks: Mapping[int, BlockTotals], design: Design) -> ExperimentResult | None:
    """Return what the blocks say; `None` where fewer than `MIN_PAIRS` pairs count.

    Args:
        blocks: By their number; blocks without any judged time may be missing.
        design: Of the experiment.
    """
    shortest = COVERED * (1 - WASH_OUT) * design.block
    full = {
        number: each
        for number, each in blocks.items()
        if each.measured_seconds >= shortest and not each.refused
    }
    begun = {number // 2 for number in blocks}
    counted = sorted(pair for pair in begun if {2 * pair, 2 * pair + 1} <= full.keys())
    if len(counted) < MIN_PAIRS:
        return None
    weir, baseline = (
        [each for pair in counted for each in _pair(full, pair) if each.side is side]
        for side in (Side.WEIR, Side.BASELINE)
    )
    hourly = [
        np.array([3600 * each.cost / each.seconds for each in side]) for side in (weir, baseline)
    ]
    late = [np.array([each.late / each.measured for each in side]) for side in (weir, baseline)]
    restarts = [
        np.array([3600 * each.restarts / each.seconds for each in side])
        for side in (weir, baseline)
    ]
    with np.errstate(divide="ignore", invalid="ignore"):  # what costs nothing has no ratio
        ratio = _effect(np.log(hourly[0]) - np.log(hourly[1]))
    return ExperimentResult(
        pairs=len(counted),
        left_out=len(begun) - len(counted),
        relative_cost=Effect(
            mean=math.expm1(ratio.mean), low=math.expm1(ratio.low), high=math.expm1(ratio.high)
        ),
        cost=_effect(hourly[0] - hourly[1]),
        late=_effect(late[0] - late[1]),
        restarts=_effect(restarts[0] - restarts[1]),
    )


def _pair(blocks: Mapping[int, BlockTotals], pair: int) -> tuple[BlockTotals, BlockTotals]:
    return blocks[2 * pair], blocks[2 * pair + 1]


def _effect(differences: Floats) -> Effect:
    """Return the mean of one difference per pair, with its interval."""
    # Imported here: the loops, which only need the design, do without scipy's distributions.
    from scipy.stats import ttest_1samp

    mean = float(np.mean(differences))
    # Equal but for rounding: their spread would be that of the rounding.
    if not math.isfinite(mean) or np.ptp(differences) <= 1e-12 * max(1.0, abs(mean)):
        return Effect(mean=mean, low=math.nan, high=math.nan)
    interval = ttest_1samp(differences, 0.0).confidence_interval(CONFIDENCE)
    return Effect(mean=mean, low=float(interval.low), high=float(interval.high))


def is_missed_too_often(late: int, *, share: float, intervals: float) -> bool:
    """Return whether the objective was missed too often in a block of the baseline.

    It was if more intervals exceeded the bound than `share` of all intervals of a block, and at
    least three: a single slow interval says nothing. Of a block of 60 intervals and 5 %, these are
    four.

    Args:
        late: Intervals of the block so far that exceeded the bound, those of the wash-out left out.
        share: Of intervals that may exceed the bound, in [0, 1].
        intervals: Of a whole block.
    """
    return late >= MIN_LATE and late > share * intervals
