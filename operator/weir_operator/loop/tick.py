"""What one tick of a StreamApp's loops measured, decided and began, and when the first is due."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from weir_operator.loop.bounds import Guard
from weir_operator.loop.evaluate import Snapshot
from weir_operator.loop.proposals import Proposal
from weir_operator.loop.tuned import TuningView
from weir_operator.metrics.keys import KeyReport
from weir_operator.rescale.status import FullPool
from weir_operator.runtime.protocol import Deployments
from weir_policies.kernels.wording import format_money
from weir_policies.policy import Observation

DAY = 86_400.0
HOUR = 3600.0
FIRST_TOLD_AFTER = 900.0
"""Seconds of advice before which nothing is said of what it comes to: one restart in ten seconds is
no 8,640 a day."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Bill:
    """What was paid and what would have been paid over some time."""

    seconds: float = 0.0
    """Time over which there was something to decide on."""
    paid: float = 0.0
    """Currency, for the job that ran."""
    advised: float = 0.0
    """Currency, for the one that was advised."""
    restarts: int = 0
    """That following the advice would have taken."""
    judged: int = 0
    """Intervals whose response time could be predicted."""
    violations: int = 0
    """Of those, the ones predicted above the bound."""

    def __add__(self, other: Bill) -> Bill:
        """Return both together."""
        return Bill(
            seconds=self.seconds + other.seconds,
            paid=self.paid + other.paid,
            advised=self.advised + other.advised,
            restarts=self.restarts + other.restarts,
            judged=self.judged + other.judged,
            violations=self.violations + other.violations,
        )

    @property
    def saved_a_day(self) -> float:
        """Currency per day; negative where the advice is dearer, NaN before a day was followed."""
        return (self.paid - self.advised) / self.seconds * DAY if self.seconds >= DAY else math.nan

    @property
    def sentence(self) -> str:
        """The forecast for people, or when there is one; empty before anything was seen."""
        if not self.seconds:
            return ""
        seen = _format_span(self.seconds)
        if self.seconds < FIRST_TOLD_AFTER:
            return (
                f"No forecast yet: Weir has simulated the advice for {seen}; it states "
                f"the cost after {_format_span(FIRST_TOLD_AFTER)}, and the cost per day "
                "after a day"
            )
        late = f"{self.violations / self.judged:.1%}" if self.judged else "an unknown share"
        if self.seconds < DAY:
            return (
                f"In the {seen} since the first advice, following it would have cost "
                f"{format_money(self.advised)} instead of {format_money(self.paid)}, with "
                f"{_format_restarts(self.restarts)} and {late} of intervals over the bound; "
                "Weir states the cost per day after a day"
            )
        daily = self.saved_a_day
        money = format_money(abs(daily))
        change = f"have saved {money}" if daily >= 0 else f"have cost {money} more"
        restarts = _format_restarts(self.restarts / self.seconds * DAY)
        return (
            f"Following the advice would {change} a day with {restarts} a day and {late} of "
            f"intervals over the bound (seen for {seen})"
        )


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
    proposals: Mapping[str, Proposal] = field(default_factory=dict)
    """Empty where the tick held, and so are the verdicts."""
    verdicts: Mapping[str, str] = field(default_factory=dict)
    held: str = ""
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
    keys: Mapping[str, KeyReport] = field(default_factory=dict)
    """What is known of the keys of operators, by name; empty where the tick held."""
    skewed: Mapping[str, str] = field(default_factory=dict)
    """What operators of which one replica gets many more records can do about it, one sentence
    each."""
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


def _format_restarts(number: float) -> str:
    figure = f"{number:,.0f}" if number >= 10 or number == round(number) else f"{number:.1f}"
    return f"{figure} restart{'' if figure == '1' else 's'}"


def _format_span(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 2 * HOUR:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / HOUR:.0f} h" if seconds < 2 * DAY else f"{seconds / DAY:.0f} days"
