"""A switchback experiment: blocks of time in which one side or the other decides, and what it says.

Blocks come in pairs, one for each side. Which side is first is drawn for each pair, so that a
load that rises or falls over a pair favours neither. The first quarter of each block is wash-out:
the job still is in the other side's deployment, or restarts, or works off a backlog, so nothing in
it is judged.

A fixed baseline costs the same under every load, and Weir's cost follows the load, so most of the
spread of their costs over the pairs is that of the load. Costs per hour are therefore taken at the
mean rate of all blocks that count, by a straight line through the costs of each side over the rate
at the sources. The sides have lines of their own, because only one of them may follow the load
(Lin). The relative cost is the ratio of the two costs, what a bill would show, with Fieller's
interval for a ratio. Without known rates, the lines are level. Shares of late intervals and
restarts are compared as the mean of the paired differences.

All intervals are those of Student's t over the pairs, with the residuals of the two sides of a pair
kept together: noise that lasts over a pair is the same on both sides. With the order drawn at
random, the differences of two pairs are uncorrelated, also under a load with trend and
autocorrelation. A randomisation interval would assume no more but the pairing, yet with few pairs
it cannot exclude anything: six pairs have 64 orders.

Knows no clock, no job and no policy.

Sources: Bojinov, Simchi-Levi, Zhao, Design and analysis of switchback experiments, Management
Science 2023 (blocks, wash-out); Lin, Agnostic notes on regression adjustments to experimental data,
Annals of Applied Statistics 2013 (a line for each side); Fieller, Some problems in interval
estimation, Journal of the Royal Statistical Society B 1954.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache

import numpy as np
from numpy.typing import NDArray

WASH_OUT = 0.25
"""Part of each block, its first, that is not judged."""
COVERED = 0.5
"""Part of the judged time of a block that must have been measured for its pair to count."""
MIN_PAIRS = 2
"""Pairs below which nothing can be estimated."""
INTERVAL_PAIRS = 4
"""Pairs below which there are no intervals: with fewer, they would leave out next to nothing."""
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
    rate: float = math.nan
    """Records/s that arrived at the sources on average; NaN where unknown."""
    refused: int = 0
    """Intervals of a block of the baseline in which it was refused, so Weir decided."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Effect:
    """A difference between the sides, Weir's less the baseline's, with its interval."""

    mean: float
    low: float
    """NaN, as `high`, with fewer than `INTERVAL_PAIRS` pairs; where all pairs are equal, which says
    nothing of chance; and where the interval has no end."""
    high: float

    @property
    def found(self) -> bool:
        """Whether the interval leaves out that there is no difference."""
        return self.low > 0 or self.high < 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison(Effect):
    """The two sides, and the difference between them."""

    weir: float
    baseline: float


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
    cost: Comparison
    """Currency per hour, at the mean rate of the blocks that count."""
    late: Comparison
    """Share of intervals over the bound, the mean over blocks."""
    restarts: Comparison
    """Per hour, the mean over blocks."""


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
    relative, cost = _compare_costs(weir, baseline)
    return ExperimentResult(
        pairs=len(counted),
        left_out=len(begun) - len(counted),
        relative_cost=relative,
        cost=cost,
        late=_compare_means(weir, baseline, lambda each: each.late / each.measured, most=1.0),
        restarts=_compare_means(
            weir, baseline, lambda each: 3600 * each.restarts / each.seconds, most=math.inf
        ),
    )


def _pair(blocks: Mapping[int, BlockTotals], pair: int) -> tuple[BlockTotals, BlockTotals]:
    return blocks[2 * pair], blocks[2 * pair + 1]


def _compare_means(
    weir: Sequence[BlockTotals],
    baseline: Sequence[BlockTotals],
    of: Callable[[BlockTotals], float],
    *,
    most: float,
) -> Comparison:
    """Compare the means over pairs of what lies in [0, `most`]."""
    left, right = (np.array([of(each) for each in side]) for side in (weir, baseline))
    differences = left - right
    mean = float(np.mean(differences))
    error = float(np.std(differences, ddof=1)) / math.sqrt(differences.size)
    half = _half_width(error, pairs=differences.size, freedom=differences.size - 1, scale=most)
    return Comparison(
        weir=float(np.mean(left)),
        baseline=float(np.mean(right)),
        mean=mean,
        low=max(mean - half, -most),
        high=min(mean + half, most),
    )


def _compare_costs(
    weir: Sequence[BlockTotals], baseline: Sequence[BlockTotals]
) -> tuple[Effect, Comparison]:
    """Return the ratio less one, and the comparison, of the costs per hour at the mean rate."""
    pairs = len(weir)
    rates = np.array([[each.rate for each in side] for side in (weir, baseline)])  # 2 x pairs
    centred = rates - rates.mean(axis=1, keepdims=True)
    spread = np.sum(centred**2, axis=1)
    # With three pairs, a line would leave a single degree of freedom.
    sloped = pairs >= INTERVAL_PAIRS and bool(np.all(spread > (_EQUAL * rates.mean()) ** 2))
    weights, residuals = np.full((2, pairs), 1 / pairs), np.empty((2, pairs))
    costs = np.array(
        [[3600 * each.cost / each.seconds for each in side] for side in (weir, baseline)]
    )
    for side in range(2):
        residuals[side] = costs[side] - costs[side].mean()
        if sloped:
            # The cost that the line has at the mean rate of both sides, as weights of the costs.
            away = rates.mean() - rates[side].mean()
            weights[side] += away * centred[side] / spread[side]
            residuals[side] -= centred[side] * (centred[side] @ costs[side]) / spread[side]
    left, right = (float(each) for each in np.sum(weights * costs, axis=1))
    freedom = pairs - 1 - sloped
    covariance = (residuals @ residuals.T) / freedom * (weights @ weights.T)
    error = math.sqrt(max(0.0, covariance[0, 0] - 2 * covariance[0, 1] + covariance[1, 1]))
    half = _half_width(error, pairs=pairs, freedom=freedom, scale=right)
    cost = Comparison(
        weir=left,
        baseline=right,
        mean=left - right,
        low=left - right - half,
        high=left - right + half,
    )
    return _ratio(left, right, covariance, pairs=pairs, freedom=freedom), cost


_EQUAL = 1e-9
"""Relative spread below which values are equal but for rounding."""


def _ratio(left: float, right: float, covariance: Floats, *, pairs: int, freedom: int) -> Effect:
    """Return `left / right - 1` with Fieller's interval: what a t-test does not exclude."""
    if right <= 0:  # what costs nothing has no ratio
        return Effect(mean=math.nan, low=math.nan, high=math.nan)
    ratio = left / right
    away = np.array([1.0, -ratio])
    error = math.sqrt(max(0.0, float(away @ covariance @ away)))
    if math.isnan(_half_width(error, pairs=pairs, freedom=freedom, scale=right)):
        return Effect(mean=ratio - 1, low=math.nan, high=math.nan)
    chance = _quantile(freedom) ** 2 * covariance
    square = right**2 - chance[1, 1]
    linear = left * right - chance[0, 1]
    root = linear**2 - square * (left**2 - chance[0, 0])
    if square <= 0 or root < 0:  # the baseline's cost is not told from nothing
        return Effect(mean=ratio - 1, low=math.nan, high=math.nan)
    low, high = ((linear + sign * math.sqrt(root)) / square for sign in (-1, 1))
    return Effect(mean=ratio - 1, low=max(low, 0.0) - 1, high=high - 1)


def _half_width(error: float, *, pairs: int, freedom: int, scale: float) -> float:
    """Return half the width of an interval; NaN where there is none."""
    # Equal but for rounding: their spread would be that of the rounding.
    tiny = _EQUAL * (scale if math.isfinite(scale) else 1.0)
    if pairs < INTERVAL_PAIRS or error <= tiny:
        return math.nan
    return _quantile(freedom) * error


@cache
def _quantile(freedom: int) -> float:
    """Return the quantile of Student's t for `CONFIDENCE`."""
    # Imported here: the loops, which only need the design, do without scipy. Of scipy.stats, this
    # would need one formula, for 50 MiB.
    from scipy.special import stdtrit

    return float(stdtrit(freedom, (1 + CONFIDENCE) / 2))


def is_missed_too_often(late: int, *, share: float, intervals: float) -> bool:
    """Return whether the objective was missed too often in a block of the baseline.

    It was if more intervals exceeded the bound than `share` of all intervals of a block, and at
    least three: a single slow interval says nothing. Of a block of 60 intervals and 5 %, these are
    four.

    Args:
        late: Intervals of the block so far that exceeded the bound in the baseline's deployment,
            those of the wash-out included.
        share: Of intervals that may exceed the bound, in [0, 1].
        intervals: Of a whole block.
    """
    return late >= MIN_LATE and late > share * intervals
