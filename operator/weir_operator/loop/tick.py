"""What one tick of a StreamApp's loops measured, decided and began, and when the first is due.

One interval over the bound is part of any load. Three in a row, none of them disturbed by a change,
are something that people should hear of, also where Weir does nothing (`MissedObjective`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass, field, fields
from typing import Any

from weir_operator.loop.bounds import WORKING_OFF, Floors, Guard
from weir_operator.loop.gather import Snapshot
from weir_operator.loop.proposals import Proposal
from weir_operator.loop.verify import UNMEASURED, MeasuredInterval
from weir_operator.metrics.keys import KeyReport
from weir_operator.metrics.quality import ProblemKind
from weir_operator.metrics.values import OperatorMeasurement
from weir_operator.runtime.protocol import Deployments
from weir_operator.streamapp.models import Mode
from weir_policies.kernels.wording import format_money, format_share, format_time
from weir_policies.model.estimation import WRONG
from weir_policies.policy import ChangeKind, Observation, Tuning
from weir_simulator.fitting.samples import IntervalSample

DAY = 86_400.0
HOUR = 3600.0
FIRST_TOLD_AFTER = 900.0
"""Seconds of advice before which nothing is said of what it comes to: one restart in ten seconds is
no 8,640 a day."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Bill:
    """What was paid and what would have been paid over some time.

    The order of the fields is that in the stored file: a new one goes last, and raises
    `shadow.VERSION`.
    """

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
        both = zip(astuple(self), astuple(other), strict=True)
        return Bill.from_figures(mine + its for mine, its in both)

    @classmethod
    def from_figures(cls, figures: Iterable[float]) -> Bill:
        """Return the bill with these figures, one for each field.

        Raises:
            ValueError: There are more figures or fewer.
        """
        names = (each.name for each in fields(cls))
        given: dict[str, Any] = dict(zip(names, figures, strict=True))
        return cls(**given)

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
class ModelState:
    """Whether the simulator is like the job, as far as is known."""

    fitted: bool | None
    """`None` where too little was measured for a fit."""
    reason: str
    """`Fitting`, `Fitted`, `TooFewSamples`, `BadFit`, `CannotFit` or `Drift`."""
    sentence: str


@dataclass(frozen=True, kw_only=True, slots=True)
class TuningView:
    """The state of one StreamApp's tuning, for reports."""

    model: ModelState
    tuned: Tuning
    """What the Operator Managers work with."""
    version: int = 0
    """Number of the tuning that `tuned` comes from; 0 where nothing was tuned."""
    since: float = 0.0
    """Unix time at which `tuned` was taken; 0 where nothing was tuned."""
    expected: str = ""
    """What the simulator expects of it, a sentence; empty where nothing was tuned."""
    in_training: tuple[str, ...] = ()
    """Operators whose policy does not decide yet, because it has not been trained."""
    failure: str = ""
    """Why the last tuning could not be made, a sentence; empty where it could, or none was due."""
    answered: bool = False
    """Whether the tuner has ever answered for the job as it is."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Tick:
    """One tick, as the reports show it."""

    snapshot: Snapshot
    violated: bool | None
    """Whether a bound of the objective was exceeded; `None` where that is unknown."""
    deployments: Deployments
    budgets: Mapping[str, float]
    measured: MeasuredInterval = UNMEASURED
    """The interval as a change is judged by it."""
    splits: Mapping[str, float] = field(default_factory=dict)
    """Parts that each source shares among its replicas, by operator; NaN where unknown."""
    sample: IntervalSample | None = None
    """The interval as the job is fitted to it; `None` where its metrics were missing or bad."""
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
    mode: Mode = Mode.AUTO
    guards: tuple[Guard, ...] = ()
    """What forbids scaling now."""
    floors: Floors = field(default_factory=dict)
    """What every deployment must keep."""
    bill: Bill | None = None
    """In mode Advise, what following the decisions would have come to."""
    restarts_left: float = math.nan
    """Restarts that the budget allows now; NaN where no budget is kept."""
    restarts: bool = False
    """Whether what operators were granted takes a restart of the job."""
    tuning: TuningView | None = None
    """How the tuning of the Operator Managers stands; `None` where nothing is tuned."""

    @property
    def asked_guards(self) -> tuple[Guard, ...]:
        """Those of the guards that the manifest or its surroundings ask for."""
        return tuple(each for each in self.guards if each is not WORKING_OFF)


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
    due = now + (interval if phase is None else (phase * interval - now) % interval)
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


MISSED = 3
"""Intervals in a row over the bound that are reported."""
UNEVEN = 0.3
"""Busy share by which replicas differ where their records are not spread evenly."""


class MissedObjective:
    """Counts the intervals that were over the bound."""

    def __init__(self) -> None:
        self._missed = 0
        self._sentences = ""

    def note(self, tick: Tick, bound: float) -> str:
        """Return what to say after a tick; empty where the objective is not missed for long.

        An interval in which nothing was decided changes nothing.
        """
        if tick.violated is False:
            self._missed, self._sentences = 0, ""
        elif tick.violated and not tick.held:
            self._missed += 1
            if self._missed >= MISSED:
                self._sentences = describe_missed(tick, bound, self._missed)
        return self._sentences


def describe_missed(tick: Tick, bound: float, missed: int) -> str:
    """Return why the objective is missed and what is done about it, some sentences."""
    measured = tick.snapshot.end_to_end.mean
    seen = "nothing comes out" if math.isnan(measured) else f"{format_time(measured)} on average"
    said = [f"{missed} intervals in a row missed the bound of {format_time(bound)}: {seen}"]
    app = tick.snapshot.app
    if app is None or not tick.proposals:
        return said[0]
    # Of an operator that is to change, people hear first.
    changing = {
        name: each for name, each in tick.proposals.items() if each.kind is not ChangeKind.NOTHING
    }
    name = max(
        changing or tick.proposals,
        key=lambda each: _pressure(app.operators[each], tick.budgets.get(each)),
    )
    slow = {
        each.operator: each.sentence.removesuffix(".")
        for each in tick.snapshot.problems
        if each.kind is ProblemKind.SOURCE_BUSY_TIME
        and each.operator is not None
        and each.operator in tick.proposals
    }
    # Blame the slow source, not the operator behind it.
    name = next(iter(slow), name)
    operator, proposal = app.operators[name], tick.proposals[name]
    said.append(_describe_operator(operator, tick.budgets.get(name, math.nan)))
    busy = _known_shares(operator)
    if len(busy) > 1 and max(busy) - min(busy) > UNEVEN:
        said.append(
            f"Its records are not spread evenly: another replica is {format_share(min(busy))} "
            "busy. If many records share a key, more replicas do not help"
        )
    stays = proposal.kind is ChangeKind.NOTHING
    expected = proposal.decision.expectation.response_time
    if app.source_wait > bound:
        said += [f"{app.backlog:,.0f} records wait at the sources", *slow.values()]
    elif stays and operator.response_time > WRONG * expected:
        said.append(f"The model expects {format_time(expected)}, so it is wrong here")
    said.append(_describe_action(proposal, tick.verdicts.get(name, "")))
    return ". ".join(said)


def _pressure(operator: OperatorMeasurement, budget: float | None) -> tuple[float, float]:
    """What an operator takes of its budget, then how busy it is; 0 where that is not known."""
    used = operator.response_time / budget if budget else math.nan
    return (0.0 if math.isnan(used) else used, max(_known_shares(operator), default=0.0))


def _known_shares(operator: OperatorMeasurement) -> list[float]:
    return [share for share in operator.utilisation if not math.isnan(share)]


def _describe_operator(operator: OperatorMeasurement, budget: float) -> str:
    if math.isnan(operator.response_time):
        takes = "has no measured response time"
    else:
        of = "" if math.isnan(budget) else f" of a budget of {format_time(budget)}"
        takes = f"takes {format_time(operator.response_time)}{of}"
    shares = _known_shares(operator)
    busy = f", and a replica is {format_share(max(shares))} busy" if shares else ""
    return f"{operator.name} {takes}{busy}"


def _describe_action(proposal: Proposal, verdict: str) -> str:
    if verdict.startswith("Granted"):
        return f"Weir changes it: {proposal.decision.reason}"
    if proposal.kind is not ChangeKind.NOTHING:
        return f"A change waits: {proposal.decision.reason}. {verdict}"
    return f"Weir changes nothing: {proposal.decision.reason}"
