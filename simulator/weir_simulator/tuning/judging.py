"""Compares what a search found with the current settings, on seeds that the search did not use.

Two points are compared part by part of the trace and seed by seed: both have the same traffic
there, so their difference varies much less than either of them. It varies for two reasons:

- *Traffic*: the trace is one of many possible ones. Neighbouring parts are correlated, so they are
  joined to stretches, each long enough to be nearly independent of the next.
- *Chance*: with each seed, a learning policy ends in another state and keeps it for the whole
  trace. So only the number of seeds shows how large this effect is, not the number of stretches.

The variances of both means are added up, as for two crossed random effects (Searle, Casella,
McCulloch, Variance Components, 1992), and the degrees of freedom are Satterthwaite's (Biometrics
Bulletin 2, 1946). What is left to neither counts in both, on the safe side.

A short trace may have no two stretches that are nearly independent. Then each run can have traffic
of its own, made up from the trace's changes (`resampling`). A run is then one draw of traffic and
chance together, and the question is what another run would be, so the scatter of the runs counts
and not that of their mean.

Whether a point meets a limit is judged with the same method, on its own share instead of a
difference. Lower cost and each limit must all hold with the required confidence; several conditions
need no higher confidence (Berger's intersection-union test, Technometrics 24, 1982).

A search's best is the luckiest of many, hence the fresh seeds and the choice among a few of its
best. That choice is again one among lucky ones, hence Bonferroni's correction.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import stdtr

from weir_policies.application_manager.search.protocol import Limits, TrialOutcome
from weir_policies.model.arrays import Floats
from weir_simulator.tuning.evaluation import MONEY, RECONFIGURATIONS, VIOLATIONS, RunResult
from weir_simulator.tuning.order import Estimate, Prediction

LONG_ENOUGH = 5.0
"""Correlation times that a stretch lasts: the means of neighbours are then correlated by a tenth,
and an autoregressive series of any correlation time is mistaken for a difference as seldom as is
asked for (`test_judging`). With two, clearly more often."""
MAX_STRETCHES = 20
"""More of them say little more: 19 degrees of freedom are nearly a normal law's."""
MIN_STRETCHES = 5
"""Fewer do not show their own scatter well, so shorter ones are used and count less."""
MIN_COUNTED = 2.0
"""Independent stretches below which a trace says nothing about other traffic."""
MIN_SEEDS = 2
ROUNDING = 1e-12
"""Relative deviation from its mean up to which a series is constant."""


class Spread(NamedTuple):
    """How far a mean may be from the truth."""

    error: float
    """Its standard error."""
    freedom: float
    """Degrees of freedom of that error."""


class Judged:
    """A point's runs on the judging seeds, by parts of the trace.

    Args:
        runs: At least one, each with a seed of its own; all over as many slots.
        resampled: Whether each run has traffic of its own; else all have the trace.
    """

    def __init__(self, runs: Sequence[RunResult], *, resampled: bool = False) -> None:
        self.resampled = resampled
        self.parts: Floats = np.stack([run.parts for run in runs])
        """Money, violations and reconfigurations, `(s, n, 3)`."""
        self.lengths = runs[0].lengths
        """Slots of each part, `(n,)`."""

    @property
    def outcome(self) -> TrialOutcome:
        """Means over the slots and the seeds."""
        weights = self.lengths / self.lengths.sum()
        means = [float(each) for each in weights @ self.parts.mean(axis=0)]
        return TrialOutcome(
            money=means[MONEY],
            violations=min(means[VIOLATIONS], 1.0),
            reconfigurations=min(means[RECONFIGURATIONS], 1.0),
        )

    @property
    def prediction(self) -> Prediction:
        """Means and their standard errors."""
        outcome = self.outcome
        return Prediction(
            money=self._estimate(outcome.money, MONEY),
            violations=self._estimate(outcome.violations, VIOLATIONS),
            reconfigurations=self._estimate(outcome.reconfigurations, RECONFIGURATIONS),
        )

    def _estimate(self, mean: float, column: int) -> Estimate:
        spread = self.spread(self.parts[:, :, column])
        return Estimate(mean=mean, standard_error=None if spread is None else spread.error)

    def spread(self, values: Floats) -> Spread | None:
        """Return how far the mean of values by seed and part, `(s, n)`, may be from the truth.

        On made-up traffic, from another run. `None` where there are too few to say it.
        """
        if self.resampled:
            return spread_of_runs(values, self.lengths)
        return spread_of_mean(values, self.lengths)


def is_better(ours: Judged, theirs: Judged, limits: Limits, *, confidence: float) -> bool:
    """Return whether ours should replace theirs.

    Where theirs keeps the limits, ours must keep each of them and cost less, all to the given
    confidence. Where theirs does not, ours must leave them by less, and either surely miss less of
    what theirs breaks, or surely keep all limits and cost less.
    """
    ours_excess, theirs_excess = ours.outcome.excess(limits), theirs.outcome.excess(limits)
    saves = certainty_of_less(ours, theirs, (MONEY,)) or 0.0
    keeps = certainty_of_keeping(ours, limits) or 0.0
    if theirs_excess == 0:
        return min(saves, keeps) >= confidence
    broken = []
    if theirs.outcome.violations > limits.violations:
        broken.append(VIOLATIONS)
    if theirs.outcome.reconfigurations > limits.reconfigurations:
        broken.append(RECONFIGURATIONS)
    less = certainty_of_less(ours, theirs, broken) or 0.0
    enough = max(less, min(saves, keeps)) >= required_of_each(confidence, 2)
    return ours_excess < theirs_excess and enough


def required_of_each(confidence: float, comparisons: int) -> float:
    """Return how sure each of several comparisons must be for all to be so together.

    Bonferroni's inequality: the chances to be mistaken add up at most.
    """
    return 1 - (1 - confidence) / comparisons


def certainty_of_less(ours: Judged, theirs: Judged, columns: Sequence[int]) -> float | None:
    """Return the probability that ours is less than theirs in the sum of some columns.

    Student's t of the paired differences; where they do not vary, their sign alone says it. `None`
    where too little was simulated to say anything.
    """
    differences = _differences(ours, theirs, columns)
    spread = ours.spread(differences)
    if spread is None:
        return None
    return _probability_below(0.0, differences, ours.lengths, spread, equal=0.5)


def certainty_of_keeping(point: Judged, limits: Limits) -> float | None:
    """Return the probability that a point keeps that limit of which it is least sure.

    `None` where too little was simulated to say anything.
    """
    minimum = 1.0
    for column, limit, _ in _limited(limits):
        certainty = _certainty_of_at_most(limit, point, column)
        if certainty is None:
            return None
        minimum = min(minimum, certainty)
    return minimum


def explain_doubt(ours: Judged, theirs: Judged, limits: Limits) -> str:
    """Return why nothing can be said of what ours saves or keeps, a clause; empty where it can."""
    differences, lengths = _differences(ours, theirs, (MONEY,)), ours.lengths
    seeds, parts = differences.shape
    if seeds < MIN_SEEDS:
        return (
            f"it was simulated with {seeds} seed, but the effect of chance shows only "
            f"with {MIN_SEEDS}"
        )
    unknown = []
    if ours.spread(differences) is None:
        unknown.append((differences, "the difference in cost is autocorrelated"))
    for column, limit, what in _limited(limits):
        if _certainty_of_at_most(limit, ours, column) is None:
            unknown.append((ours.parts[:, :, column], f"{what} are autocorrelated"))
    if not unknown:
        return ""
    slots = float(lengths.sum())
    series, what = unknown[0]
    time = correlation_time(series.mean(axis=0))
    needed = max(MIN_STRETCHES / parts, MIN_COUNTED * LONG_ENOUGH * time / parts) * slots
    return (
        f"{slots:.0f} slots were simulated, and {what} for so long that traffic shows only in "
        f"{math.ceil(needed)}"
    )


def spread_of_mean(values: Floats, lengths: Floats) -> Spread | None:
    """Return how far the mean of values may be from the truth, by seeds and by stretches.

    Args:
        values: By seed and part, `(s, n)`.
        lengths: Slots of each part, `(n,)`.

    Returns:
        `None` where there are too few of either to say it.
    """
    seeds, parts = values.shape
    series = values.mean(axis=0)  # n
    independent = parts / (LONG_ENOUGH * correlation_time(series))
    if seeds < MIN_SEEDS or parts < MIN_STRETCHES or independent < MIN_COUNTED:
        return None
    count = int(min(MAX_STRETCHES, max(MIN_STRETCHES, independent)))
    stretches = _means_of_stretches(series, lengths, count)
    of_traffic = float(stretches.var(ddof=1)) / min(count, independent)
    of_chance = float(np.average(values, axis=1, weights=lengths).var(ddof=1)) / seeds
    if of_traffic + of_chance == 0:
        return Spread(error=0.0, freedom=math.inf)
    freedom = (of_traffic + of_chance) ** 2 / (
        of_traffic**2 / (count - 1) + of_chance**2 / (seeds - 1)
    )
    return Spread(error=math.sqrt(of_traffic + of_chance), freedom=freedom)


def spread_of_runs(values: Floats, lengths: Floats) -> Spread | None:
    """Return how far another run may be from the mean of runs that have traffic of their own.

    The prediction interval of a normal law: the scatter of the runs, and that of their mean.

    Args:
        values: By run and part, `(s, n)`.
        lengths: Slots of each part, `(n,)`.

    Returns:
        `None` for a single run.
    """
    runs = len(values)
    if runs < MIN_SEEDS:
        return None
    scatter = float(np.average(values, axis=1, weights=lengths).var(ddof=1))
    if scatter == 0:
        return Spread(error=0.0, freedom=math.inf)
    return Spread(error=math.sqrt(scatter * (1 + 1 / runs)), freedom=runs - 1)


def correlation_time(series: Floats) -> float:
    """Return over how many neighbours a series hangs together; 1 where not at all.

    It is the integrated autocorrelation time, 1 + 2 (r_1 + r_2 + ...), summed for as long as sums
    of two neighbouring terms are positive and fall (Geyer, Statistical Science 7, 1992).

    Args:
        series: At least one value, `(n,)`.
    """
    count = series.size
    deviations = series - series.mean()
    if np.abs(deviations).max() <= ROUNDING * np.abs(series).max():
        return 1.0
    spectrum = np.fft.rfft(deviations, 2 * count)  # padded, so that it is not taken for a circle
    covariances = np.fft.irfft(np.abs(spectrum) ** 2)[:count]
    even = count - count % 2
    pairs = (covariances[:even] / covariances[0]).reshape(-1, 2).sum(axis=1)
    ends = np.flatnonzero(pairs <= 0)
    falling = np.minimum.accumulate(pairs[: ends[0]] if ends.size else pairs)
    return max(1.0, 2 * float(falling.sum()) - 1)


def _limited(limits: Limits) -> tuple[tuple[int, float, str], ...]:
    return (
        (VIOLATIONS, limits.violations, "misses"),
        (RECONFIGURATIONS, limits.reconfigurations, "restarts"),
    )


def _certainty_of_at_most(limit: float, point: Judged, column: int) -> float | None:
    """Return the probability that a point's shares of slots are at most a limit on average.

    What does not vary, such as what never happened, is known. Where what varies says nothing of
    other traffic, it is sure only if even the worst of a few long stretches kept the limit:
    otherwise misses that hang together, as while a policy learns, could never be few enough.
    """
    if limit >= 1:
        return 1.0
    values, lengths = point.parts[:, :, column], point.lengths
    spread = point.spread(values)
    if spread is None:
        series = values.mean(axis=0)
        stretches = _means_of_stretches(series, lengths, min(MIN_STRETCHES, series.size))
        return 1.0 if len(values) >= MIN_SEEDS and stretches.max() <= limit else None
    return _probability_below(limit, values, lengths, spread, equal=1.0)


def _probability_below(
    limit: float, values: Floats, lengths: Floats, spread: Spread, *, equal: float
) -> float:
    """Return the probability that values, `(s, n)`, are below a limit on average, by Student's t.

    Where they do not vary their mean alone says it; `equal` is what a mean at the limit counts for.
    """
    mean = float(np.average(values.mean(axis=0), weights=lengths))
    if spread.error == 0:
        return equal if mean == limit else float(mean < limit)
    return float(stdtr(spread.freedom, (limit - mean) / spread.error))


def _means_of_stretches(series: Floats, lengths: Floats, count: int) -> Floats:
    """Return the means of so many stretches that a series is cut into, `(count,)`."""
    begins = np.linspace(0, series.size, count, endpoint=False).astype(np.int64)
    means: Floats = np.add.reduceat(series * lengths, begins) / np.add.reduceat(lengths, begins)
    return means


def _differences(ours: Judged, theirs: Judged, columns: Sequence[int]) -> Floats:
    """Return by seed and part how much more ours is in the sum of some columns, `(s, n)`."""
    differences: Floats = (ours.parts - theirs.parts)[:, :, list(columns)].sum(axis=2)
    return differences
