"""Replays recorded intervals, decision by decision beside the recorded ones: `weir replay`.

Two deployments pass through the same recorded load: the one that ran, and a shadow deployment that
follows the replay's own decisions (`shadow`). The model predicts the response time of both, so that
they can be compared; what was measured stands beside it. Before a given time, the replay does not
follow its decisions: the policy sees what was recorded, and learns from it.

Not known here: the gap of a restart and the backlog after it, which the model does not carry; what
had been learned before the records begin; and other operators than those that the job had.

Knows neither files nor manifests.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from weir_operator.loop.application_manager import ApplicationManager
from weir_operator.loop.decision_records import DecisionRecord, JobTick, LearningOutcome, LoopStart
from weir_operator.loop.managers import Managers
from weir_operator.loop.operator_manager import ObservedOperator
from weir_operator.loop.shadow import HOUR, RealInterval, ShadowDeployment, ShadowInterval
from weir_operator.rescale.journal import DeploymentMap, Kind, RescaleJournal
from weir_policies.application_manager.restart_budget import RestartTokens
from weir_policies.errors import StateError
from weir_policies.model.dataflow import Dataflow
from weir_policies.model.node_types import Deployment
from weir_policies.model.queueing import predict
from weir_policies.policy import Observation

GAP = 1.0
"""Seconds between the end of an interval and the begin of the next one from which they count as not
recorded."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Terms:
    """With what intervals are decided again, from a start of the loops on."""

    managers: Managers
    am: ApplicationManager
    bound: float
    """The objective, seconds."""
    shares: bool
    """Whether the objective differs from the recorded one, so that budgets are shared again."""
    cost: Callable[[DeploymentMap], float]
    """Returns currency per hour, the JobManager's included."""
    most_replicas: int | None = None
    """See `Observation`; it depends on the policy."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Choice:
    """What was decided for one operator, or would have been."""

    deployment: Mapping[str, int]
    """In which it was decided, by node type."""
    target: Mapping[str, int]
    granted: bool
    """Whether the change was carried out; `False` where there was none."""
    reason: str
    verdict: str

    @property
    def changes(self) -> bool:
        """Whether another deployment is proposed."""
        return self.target != self.deployment


@dataclass(frozen=True, kw_only=True, slots=True)
class ReplayedDecision:
    """One decision of an operator, beside what was decided."""

    operator: str
    policy: str
    """That decided."""
    rate: float
    """Records/s that arrived."""
    was: Choice
    would: Choice


@dataclass(frozen=True, kw_only=True, slots=True)
class ReplaySide:
    """What an interval was with one of the two deployments."""

    deployments: DeploymentMap
    cost: float
    """Currency, over the interval."""
    response_time: float = math.nan
    """Predicted, seconds: the statistic that the objective bounds; NaN where it is not known."""
    late: bool | None = None
    """Whether a bound is predicted to be exceeded, the objective's or a single sink's; `None` where
    it is not known."""
    restart: bool = False
    """Whether the job restarts for what was granted; that of the recorded job is in its changes."""
    resize: bool = False

    @property
    def replicas(self) -> int:
        """Replicas of all operators."""
        return sum(sum(counts.values()) for counts in self.deployments.values())


@dataclass(frozen=True, kw_only=True, slots=True)
class ReplayedInterval:
    """One interval with both deployments."""

    time: float
    """Unix seconds of its end."""
    seconds: float
    held: str
    """Why nothing could be decided; empty where it could."""
    bound: float
    """The objective that both are judged by, seconds."""
    rate: float
    """Records/s that arrived at the sources."""
    measured: float
    """Seconds, of the recorded job: the statistic that the objective bounds."""
    late: bool | None
    """Whether the recorded job was measured above a bound; `None` where it is not known."""
    was: ReplaySide
    would: ReplaySide
    decisions: tuple[ReplayedDecision, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class ReplayTotals:
    """What all intervals come to with one of the two deployments."""

    cost: float
    late: int
    """Intervals predicted above a bound, of those that are predicted for both."""
    restarts: int
    resizes: int
    replicas: float
    """On average over the time."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Totals:
    """What a replay comes to."""

    seconds: float
    intervals: int
    undecided: int
    """Intervals on which nothing could be decided, for lack of measurements for instance."""
    predicted: int
    """Intervals whose response time is predicted for both."""
    measured: int
    """Intervals of the recorded job of which it is known whether they exceeded the bound."""
    measured_late: int
    comparable: int
    """Decisions in equal deployments."""
    equal: int
    """Of those, the ones with equal targets."""
    was: ReplayTotals
    would: ReplayTotals


@dataclass(frozen=True, kw_only=True, slots=True)
class Replay:
    """A recording, decided again."""

    app: str
    since: float
    """Unix time from which on the replay followed its own decisions."""
    until: float
    statistic: str
    """What of the response time is bounded."""
    was_policy: str
    was_bound: float
    """Seconds, of the last start of the loops."""
    policy: str
    bound: float
    totals: Totals
    notices: tuple[str, ...]
    """What is not known, a sentence each."""
    intervals: tuple[ReplayedInterval, ...]


@dataclass
class Coverage:
    """What of the time was recorded, and how."""

    gaps: int = 0
    gap_seconds: float = 0.0
    appeared: dict[str, float] = field(default_factory=dict)
    """Unix time at which operators appeared that were not there before."""
    gone: dict[str, float] = field(default_factory=dict)
    policies: dict[str, None] = field(default_factory=dict)
    """Those that decided, in order."""
    infeasible: str = ""
    """Why another objective cannot be kept, one sentence; empty where it can."""
    starts_untrained: bool = False
    """Whether at the first start something was known that the records do not show."""
    dropped: dict[str, None] = field(default_factory=dict)
    """Operators whose learned state did not fit after a later start."""


class Replayer:
    """Takes the recorded intervals of a job one by one."""

    def __init__(self, begin: Callable[[LoopStart], Terms], *, follow_from: float) -> None:
        """Begin with nothing seen.

        Args:
            begin: Returns with what is decided after a start of the loops.
            follow_from: Unix time from which on the replay follows its own decisions; infinite to
                decide on nothing but what was recorded.
        """
        self._begin = begin
        self._follow_from = follow_from
        self._terms: Terms | None = None
        self._shadow: ShadowDeployment | None = None
        self._last: float | None = None
        self._names: set[str] = set()
        self.coverage = Coverage()

    def start(self, start: LoopStart) -> None:
        """Begin again as the recorded loops did; what was learned is kept if they kept it."""
        before, terms = self._terms, self._begin(start)
        shadow = ShadowDeployment(terms.managers, terms.am, cost=terms.cost, learns=True)
        if before is None:
            self.coverage.starts_untrained = start.learned
        elif start.learned:
            dropped = _hand_over(before.managers, terms.managers)
            self.coverage.dropped |= dict.fromkeys(dropped)
        if self._shadow is not None:
            shadow.load_state_dict(self._shadow.state_dict())
        self._terms, self._shadow = terms, shadow

    def take(self, tick: JobTick, records: Sequence[DecisionRecord]) -> ReplayedInterval:
        """Decide an interval again.

        The loops must have been started.
        """
        terms, shadow = self._terms, self._shadow
        if terms is None or shadow is None:
            raise RuntimeError("Expected a start before the first tick, got none")
        follows = tick.time >= self._follow_from
        self._note_coverage(tick, records, follows=follows)
        if not follows or self._is_first(tick):
            shadow.begin_with(RestartTokens.from_dict(dict(tick.tokens)))
        self._last = tick.time
        terms.am.note_output(mean=tick.mean, quantile=tick.response_time, now=tick.time)
        terms.am.sharing.tail = tick.tail
        names = set(tick.operators)
        decided = {each.operator: each for each in records if each.operator in names}
        known = tick.fixed.keys() | decided.keys()
        if tick.held or not decided or not names <= known or not names <= terms.managers.keys():
            interval = self._pass(tick, terms, shadow)
        else:
            interval = self._decide(tick, decided, terms, shadow)
        self._repeat_outcome(tick, decided, terms.managers, follows=follows)
        return interval

    def _is_first(self, tick: JobTick) -> bool:
        """Return whether a tick is the first from which decisions are followed."""
        return self._last is None or self._last < self._follow_from <= tick.time

    def _decide(
        self,
        tick: JobTick,
        decided: Mapping[str, DecisionRecord],
        terms: Terms,
        shadow: ShadowDeployment,
    ) -> ReplayedInterval:
        flow = Dataflow(operators=tick.operators, edges=tick.edges)
        seen = {
            name: replace(each, most_replicas=terms.most_replicas)
            for name, each in (
                *(
                    # Whether another operator restarts the job is decided again.
                    (name, replace(record.observation, restarts_anyway=False))
                    for name, record in decided.items()
                ),
                *tick.fixed.items(),
            )
        }
        if terms.shares:
            seen = self._share_budgets(seen, flow, terms)
        followed = shadow.advance(
            RealInterval(
                now=tick.time,
                length=tick.seconds,
                flow=flow,
                deployments=tick.deployments,
                observations=seen,
                proposals={},
                violated=tick.violated,
                splits=tick.splits,
            ),
            tick.guards,
        )
        ran, followed_times = (
            predict_times(seen, deployments, flow)
            for deployments in (tick.deployments, followed.deployments)
        )
        was = ReplaySide(
            deployments=tick.deployments,
            cost=followed.bill.paid,
            response_time=flow.response_time(ran) * tick.tail,
            late=terms.am.sharing.exceeds(flow, ran),
        )
        would = ReplaySide(
            deployments=followed.deployments,
            cost=followed.bill.advised,
            response_time=flow.response_time(followed_times) * tick.tail,
            late=terms.am.sharing.exceeds(flow, followed_times),
            restart=followed.ruling.restart,
            resize=bool(followed.ruling.granted) and not followed.ruling.restart,
        )
        rate = sum(seen[name].rate for name in flow.sources if name in seen)
        interval = _judged(tick, terms, was=was, would=would, rate=rate)
        return replace(interval, decisions=_compare(decided, followed))

    def _share_budgets(
        self, seen: Mapping[str, Observation], flow: Dataflow, terms: Terms
    ) -> dict[str, Observation]:
        """Return the observations with the budgets of another objective.

        They are shared by what was believed of the operators at that tick.
        """
        operators = {
            name: ObservedOperator(
                model=each.model,
                given=[kind.name for kind in each.model.node_types],
                fixed=terms.managers[name].fixed,
            )
            for name, each in seen.items()
        }
        shares = terms.am.share(flow, operators)
        self.coverage.infeasible = self.coverage.infeasible or shares.infeasible
        return {
            name: replace(each, budget=shares.budgets.get(name, each.budget))
            for name, each in seen.items()
        }

    def _pass(self, tick: JobTick, terms: Terms, shadow: ShadowDeployment) -> ReplayedInterval:
        """Return an interval on which nothing can be decided: both deployments stay, and cost."""
        known = {name for name in tick.deployments if name in terms.managers}
        stay = {name: dict(counts) for name, counts in tick.deployments.items()}
        stay |= shadow.fit({name: stay[name] for name in known})
        hours = tick.seconds / HOUR
        return _judged(
            tick,
            terms,
            was=ReplaySide(deployments=tick.deployments, cost=terms.cost(tick.deployments) * hours),
            would=ReplaySide(deployments=stay, cost=terms.cost(stay) * hours),
            rate=math.nan,
        )

    def _repeat_outcome(
        self,
        tick: JobTick,
        decided: Mapping[str, DecisionRecord],
        managers: Managers,
        *,
        follows: bool,
    ) -> None:
        """Tell the managers what the recorded ones were told.

        Which of their proposals are carried out, the replay has told them where it follows them.
        """
        match tick.lesson:
            case LearningOutcome.ACTED:
                if not follows:
                    granted = [name for name, each in decided.items() if each.change is not None]
                    managers.act(granted)
            case LearningOutcome.WAITED | LearningOutcome.MISSED:
                managers.wait(missed=tick.lesson is LearningOutcome.MISSED)
            case LearningOutcome.SKIPPED:
                managers.skip()
            case LearningOutcome.NOTHING:
                pass

    def _note_coverage(
        self, tick: JobTick, records: Sequence[DecisionRecord], *, follows: bool
    ) -> None:
        names = set(tick.deployments)
        if follows:
            begin = tick.time - tick.seconds
            if self._last is not None and begin - self._last > GAP:
                self.coverage.gaps += 1
                self.coverage.gap_seconds += begin - self._last
            if self._names and names:
                new, old = names - self._names, self._names - names
                self.coverage.appeared |= dict.fromkeys(sorted(new), tick.time)
                self.coverage.gone |= dict.fromkeys(sorted(old), tick.time)
            self.coverage.policies |= dict.fromkeys(each.policy for each in records)
        self._names = names or self._names


def _hand_over(before: Managers, after: Managers) -> list[str]:
    """Give managers what those before them had learned, as the loops restore it at a start.

    Returns:
        The operators whose state does not fit; they start over.
    """
    dropped = []
    for name in before.keys() & after.keys():
        fresh = after[name].state_dict()
        try:
            after[name].load_state_dict(before[name].state_dict())
        except StateError:
            after[name].load_state_dict(fresh)
            dropped.append(name)
    application, fresh_application = before.application_state(), after.application_state()
    if application is not None and fresh_application is not None:
        try:
            after.load_application_state(application)
        except StateError:
            after.load_application_state(fresh_application)
            dropped = list(after.keys())
    return sorted(dropped)


def predict_times(
    seen: Mapping[str, Observation], deployments: DeploymentMap, flow: Dataflow
) -> dict[str, float]:
    """Return the mean response times that the model predicts for deployments under measured rates.

    Args:
        seen: Observations by operator, for the model and the rate of each.
        deployments: Of all operators.
        flow: The dataflow.

    Returns:
        Seconds by operator; infinite where one cannot keep up, NaN where it is not known.
    """
    times = {}
    for name in flow.operators:
        times[name] = math.nan
        if name in seen:
            each = seen[name]
            counts = Deployment.from_named(deployments[name], each.model.node_types).counts
            time = float(predict(each.model, np.array([counts]), each.rate).response_time[0])
            # A source's own time is often not measured, and it is a small part.
            times[name] = 0.0 if math.isnan(time) and name in flow.sources else time
    return times


def _judged(
    tick: JobTick, terms: Terms, *, was: ReplaySide, would: ReplaySide, rate: float
) -> ReplayedInterval:
    late = tick.violated
    if terms.shares and not math.isnan(tick.response_time):
        late = tick.sinks_late or tick.response_time > terms.bound
    return ReplayedInterval(
        time=tick.time,
        seconds=tick.seconds,
        held=tick.held,
        bound=terms.bound,
        rate=rate,
        measured=tick.response_time,
        late=late,
        was=was,
        would=would,
    )


def _compare(
    decided: Mapping[str, DecisionRecord], followed: ShadowInterval
) -> tuple[ReplayedDecision, ...]:
    found = []
    for name, proposal in followed.proposals.items():
        record = decided.get(name)
        if record is None:
            continue
        types = record.observation.model.node_types
        found.append(
            ReplayedDecision(
                operator=name,
                policy=record.policy,
                rate=record.observation.rate,
                was=Choice(
                    deployment=record.observation.deployment.named(types),
                    target=record.decision.target.named(types),
                    granted=record.change is not None,
                    reason=record.decision.reason,
                    verdict=record.verdict,
                ),
                would=Choice(
                    deployment=proposal.observation.deployment.named(types),
                    target=proposal.decision.target.named(types),
                    granted=name in followed.ruling.granted,
                    reason=proposal.decision.reason,
                    verdict=followed.ruling.verdicts.get(name, ""),
                ),
            )
        )
    return tuple(found)


def add_up(intervals: Sequence[ReplayedInterval], changes: Sequence[RescaleJournal]) -> Totals:
    """Return what intervals come to.

    Args:
        intervals: Oldest first, at least one.
        changes: Of the recorded job in the same time. What is no scaling (upgrades, recoveries,
            separated operators) would have happened in both, and counts for neither.
    """
    seconds = sum(each.seconds for each in intervals)
    both = [
        each
        for each in intervals
        if not (math.isnan(each.was.response_time) or math.isnan(each.would.response_time))
    ]
    measured = [each.late for each in intervals if each.late is not None]
    decisions = [decision for each in intervals for decision in each.decisions]
    comparable = [each for each in decisions if each.was.deployment == each.would.deployment]
    scaled = [each for each in changes if each.source.keys() == each.target.keys()]
    restarts = sum(each.kind is Kind.RESCALE and each.has_submitted for each in scaled)
    resizes = sum(each.kind is Kind.RESIZE for each in scaled)

    def total(
        side: Callable[[ReplayedInterval], ReplaySide], restarts: int, resizes: int
    ) -> ReplayTotals:
        replicas = sum(side(each).replicas * each.seconds for each in intervals)
        return ReplayTotals(
            cost=sum(side(each).cost for each in intervals),
            late=sum(side(each).late is True for each in both),
            restarts=restarts,
            resizes=resizes,
            replicas=replicas / seconds if seconds else math.nan,
        )

    return Totals(
        seconds=seconds,
        intervals=len(intervals),
        undecided=sum(not each.decisions for each in intervals),
        predicted=len(both),
        measured=len(measured),
        measured_late=sum(measured),
        comparable=len(comparable),
        equal=sum(each.was.target == each.would.target for each in comparable),
        was=total(lambda each: each.was, restarts, resizes),
        would=total(
            lambda each: each.would,
            sum(each.would.restart for each in intervals),
            sum(each.would.resize for each in intervals),
        ),
    )
