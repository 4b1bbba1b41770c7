"""Judges what a search found against what is in force, on seeds that the search has not seen.

Two points are compared stretch by stretch of the trace, each the mean over the seeds: both met the
same traffic there, so their difference varies much less than either of them. A search's best is the
luckiest of many, hence the fresh seeds and the choice among a few of its best.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.stats import t as student

from weir_policies.application_manager.search.promise import Limits, Outcome
from weir_policies.model.arrays import Floats
from weir_simulator.tuning.evaluation import MONEY, RECONFIGURATIONS, VIOLATIONS, Measured
from weir_simulator.tuning.order import Estimate, Prediction


class Judged:
    """A point's runs on the judging seeds, by stretches.

    Args:
        runs: At least one; all over the same slots.
    """

    def __init__(self, runs: Sequence[Measured]) -> None:
        self.stretches: Floats = np.mean([run.stretches for run in runs], axis=0)
        """Money, violations and reconfigurations, mean over the seeds, `(b, 3)`."""
        self._weights = runs[0].lengths / runs[0].lengths.sum()

    @property
    def outcome(self) -> Outcome:
        """Means over the slots."""
        means = [float(each) for each in self._weights @ self.stretches]
        return Outcome(
            money=means[MONEY],
            violations=min(means[VIOLATIONS], 1.0),
            reconfigurations=min(means[RECONFIGURATIONS], 1.0),
        )

    @property
    def prediction(self) -> Prediction:
        """Means and their standard errors."""
        outcome = self.outcome
        errors = [standard_error(self.stretches[:, column]) for column in range(3)]
        return Prediction(
            money=Estimate(mean=outcome.money, standard_error=errors[MONEY]),
            violations=Estimate(mean=outcome.violations, standard_error=errors[VIOLATIONS]),
            reconfigurations=Estimate(
                mean=outcome.reconfigurations, standard_error=errors[RECONFIGURATIONS]
            ),
        )


def standard_error(values: Floats) -> float:
    """Return that of the mean of nearly independent values, `(b,)`; 0 for a single one."""
    return 0.0 if values.size < 2 else float(values.std(ddof=1) / math.sqrt(values.size))


def certainty_of_less(ours: Floats, theirs: Floats) -> float:
    """Return the probability that the mean of `ours` is below that of `theirs`, paired, `(b,)`.

    Student's t of the differences; where they do not vary, their sign alone says it.
    """
    differences = ours - theirs
    mean, error = float(differences.mean()), standard_error(differences)
    if error == 0:
        return 0.5 if mean == 0 else float(mean < 0)
    return float(student.cdf(-mean / error, df=differences.size - 1))


def is_better(ours: Judged, theirs: Judged, limits: Limits, *, confidence: float) -> bool:
    """Return whether ours should replace theirs.

    Where theirs keeps the limits, ours must keep them and cost less. Where theirs does not, ours
    must leave them by less, and either that or its saving must be sure to the given confidence.
    """
    ours_excess, theirs_excess = ours.outcome.excess(limits), theirs.outcome.excess(limits)
    saves = certainty_of_less(ours.stretches[:, MONEY], theirs.stretches[:, MONEY])
    if theirs_excess == 0:
        return ours_excess == 0 and saves >= confidence
    broken = []
    if theirs.outcome.violations > limits.violations:
        broken.append(VIOLATIONS)
    if theirs.outcome.reconfigurations > limits.reconfigurations:
        broken.append(RECONFIGURATIONS)
    less = certainty_of_less(
        ours.stretches[:, broken].sum(axis=1), theirs.stretches[:, broken].sum(axis=1)
    )
    return ours_excess < theirs_excess and max(less, saves) >= confidence
