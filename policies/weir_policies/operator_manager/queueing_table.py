"""What `queueing` found out of every deployment, in one table to explain a decision from.

The kernel that decides stops at what cannot win; here the same functions judge all deployments.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from weir_policies.kernels.menus import count_near, list_rows
from weir_policies.kernels.view import View
from weir_policies.model.arrays import Counts, Flags, Floats
from weir_policies.model.deployments import COMPLETE_UP_TO
from weir_policies.model.node_types import Deployment
from weir_policies.operator_manager.queueing_weighing import (
    BUSY,
    FAILS_AT_PEAK,
    FOUND,
    MEAN,
    PRICE,
    RESTARTS,
    SCORE,
    TIME,
    TOO_LITTLE,
    Plan,
    find_case,
    judge_all,
)


class Words(NamedTuple):
    """What stands in the way of a change, for people; `None` where nothing does."""

    strain: str | None
    """Why the operator must not get less capacity."""
    obstacle: str | None
    """Why nothing cheaper is considered while the present deployment fits."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Weighed:
    """All deployments, judged: arrays of shape `(d,)`."""

    plan: Plan
    words: Words
    case: int
    """Which rule decided, of those in `queueing_weighing`."""
    counts: Counts
    """The deployments, `(d, t)`."""
    chosen: int
    """Row of the winner."""
    present: int | None
    """Row of the present deployment; `None` where it is out of bounds."""
    price: Floats
    """Currency per hour."""
    response_time: Floats
    """Mean or percentile at the planned rate, s."""
    utilisation: Floats
    """Of the worst replica while catching up."""
    score: Floats
    """What was minimised; `inf` is ruled out."""
    fails_at_peak: Flags
    """Cheaper, fits now, and would not at the peak rate."""
    too_little: Flags
    """Less capacity than now, in an operator under strain."""
    restarts: Flags
    """Only a restart goes there."""

    @property
    def quantile(self) -> float | None:
        """Percentile that must keep the budget; `None` is the mean."""
        return None if self.plan.quantile == MEAN else self.plan.quantile


def tabulate(plan: Plan, words: Words, target: Deployment, view: View, row: Counts) -> Weighed:
    """Judge all deployments of the only operator of a view.

    Args:
        plan: What they are judged by.
        words: The same for people.
        target: Where the decision goes.
        view: What is known of the operator.
        row: Room for one deployment, `(t,)`, zeros.
    """
    there = np.array(target.counts, dtype=np.int64)
    case = find_case(0, view, plan, there)
    room = 2 * COMPLETE_UP_TO + count_near(view)
    rows = np.zeros((room, row.size), dtype=np.int64)
    counts = np.unique(rows[: list_rows(0, view, row, rows)], axis=0)
    found = np.zeros((len(counts), FOUND))
    judge_all(0, view, plan, case, counts, found)
    here = np.flatnonzero((counts == view.counts[0]).all(axis=1))
    chosen = np.flatnonzero((counts == there).all(axis=1))
    return Weighed(
        plan=plan,
        words=words,
        case=case,
        counts=counts,
        chosen=int(chosen[0]),
        present=int(here[0]) if here.size else None,
        price=found[:, PRICE],
        response_time=found[:, TIME],
        utilisation=found[:, BUSY],
        score=found[:, SCORE],
        fails_at_peak=found[:, FAILS_AT_PEAK] > 0,
        too_little=found[:, TOO_LITTLE] > 0,
        restarts=found[:, RESTARTS] > 0,
    )
