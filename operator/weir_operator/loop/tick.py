"""What one tick of a StreamApp's loops measured, decided and began, and when the first is due."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from weir_operator.loop.evaluate import Snapshot
from weir_operator.loop.guards import Guard
from weir_operator.loop.proposals import Proposal
from weir_operator.loop.shadow import Bill
from weir_operator.loop.tuned import TuningView
from weir_operator.rescale.status import FullPool
from weir_operator.runtime.protocol import Deployments
from weir_policies.policy import Observation


@dataclass(frozen=True, kw_only=True, slots=True)
class Tick:
    """One tick, as the reports show it."""

    snapshot: Snapshot
    violated: bool | None
    """Whether a bound of the objective was exceeded; `None` where that is unknown."""
    deployments: Deployments
    budgets: Mapping[str, float]
    observations: Mapping[str, Observation] = field(default_factory=dict)
    """Of all operators; empty where the tick held."""
    proposals: Mapping[str, Proposal]
    """Empty where the tick held."""
    verdicts: Mapping[str, str]
    held: str
    """Why nothing was decided, one sentence; empty where it was."""
    infeasible: str = ""
    """Why the objective cannot be kept, one sentence; empty if it can, or if unknown."""
    missed: str = ""
    """What is done about an objective that is missed in interval after interval, or why nothing is;
    empty where it is not."""
    failing: str = ""
    """That the job fails again and again, and why, one sentence; empty where it does not."""
    capped: str = ""
    """What `objective.maxCostPerHour` does not pay for, one sentence; empty where it pays for all,
    or where the tick held."""
    assumed: str = ""
    """Which service times were not measured, one sentence; empty where all were."""
    guards: tuple[Guard, ...] = ()
    """Pauses and blocked periods that hold now."""
    full: tuple[FullPool, ...] = ()
    """Pools that had no room for an operator's replicas a while ago."""
    bill: Bill | None = None
    """In mode Advise, what following the decisions would have come to."""
    restarts_left: float = math.nan
    """Restarts that the budget allows now; NaN where no budget is kept."""
    restarts: bool = False
    """Whether what operators were granted takes a restart of the job."""
    tuning: TuningView | None = None
    """How the tuning of the Operator Managers stands; `None` where nothing is tuned."""


def find_first_wait(now: float, interval: float, phase: float | None) -> float:
    """Return the seconds until the first tick: an interval, or until its place within one."""
    return interval if phase is None else (phase * interval - now) % interval


def find_first_window(
    now: float, interval: float, phase: float | None, *, judged_until: float
) -> tuple[float, float]:
    """Return when the first interval begins, and when its tick is due, Unix seconds.

    It may begin before the loops do, because its samples may be there. It begins where other loops
    ended to judge, less than two intervals before: with an interval of another length, or for a
    change of the job. If less than half is left, that is joined to the next interval.

    Args:
        now: When the loops begin.
        interval: Seconds between two ticks.
        phase: See `LoopSettings.phase`.
        judged_until: The time of the last tick before, at most `now`; `-inf` without.
    """
    due = now + find_first_wait(now, interval, phase)
    start = due - interval
    if judged_until > start - interval:
        start = judged_until
    if due - start < interval / 2:
        due += interval
    return start, due
