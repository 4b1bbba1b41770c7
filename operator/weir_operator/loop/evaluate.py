"""What a tick's measurements say: of the interval, of each operator, and of the last change. Pure.

Samples become measurements, measurements become what managers decide on, and what a job is fitted
to. `gather` reads; nothing here does.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from weir_operator.flink.topology import Topology
from weir_operator.loop.decide import Managers
from weir_operator.loop.verify import MeasuredInterval
from weir_operator.metrics.quality import Problem
from weir_operator.metrics.values import (
    AppMeasurement,
    OperatorMeasurement,
    ServiceFrom,
    SinkMeasurement,
)
from weir_operator.rescale.status import AppStatus
from weir_operator.runtime.protocol import Deployments, Replica
from weir_operator.streamapp.operators import Operator
from weir_policies.model.dataflow import Dataflow, Edge
from weir_policies.model.keys import KeyShares
from weir_policies.model.node_types import Deployment
from weir_policies.model.objective import Statistic
from weir_policies.policy import CostWeights, Observation
from weir_simulator.experiment import Objective, PathBound
from weir_simulator.fitting.samples import IntervalSample, OperatorSample

WORKED_OFF = 2.0
"""Intervals of a run that teach nothing of its waiting: they work off the gap before it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Snapshot:
    """What one tick saw of the job."""

    start: float
    """Unix time at which its interval began."""
    now: float
    output: SinkMeasurement
    """What users saw, over every run of the job in the interval."""
    app: AppMeasurement | None
    """The present run; `None` while it is not known who serves what."""
    problems: tuple[Problem, ...]
    replicas: tuple[Replica, ...]
    dataflow: Dataflow | None
    """The job's graph; `None` before it was ever known."""
    topology: Topology | None = None
    """The plan that it comes from."""
    run: tuple[str, str] | None = None
    """The run that the plan is of: the job's id, and the change that restarted it under that id."""
    vertices: Mapping[str, float] | None = None
    """How busy each vertex was in the last seconds, by its id; `None` where that is not known, or
    was not asked for."""
    keys: Mapping[str, KeyShares] = field(default_factory=dict)
    """What was counted of the keys of an operator; without those of which nothing is known."""
    settled: bool
    """Whether the run is old enough for its samples to show more than its restart."""
    run_since: float = -math.inf
    """Unix time since when the present run processes records, `inf` where there was none yet."""
    gap: bool = False
    """Whether the job was down in the interval, or has counted no records since it was."""

    @property
    def reason_to_hold(self) -> str:
        """Why Weir must not decide on these measurements, one sentence; empty if it may."""
        if self.app is None:
            missing = [problem.sentence for problem in self.problems]
            return missing[0] if missing else "Weir does not know yet where the tasks run"
        if not self.settled:
            return "The job has just been restarted"
        holding = [problem.sentence for problem in self.problems if problem.kind.holds]
        return f"The metrics cannot be trusted: {holding[0]}" if holding else ""

    @property
    def disturbed(self) -> bool:
        """Whether its records still waited for the gap before the run."""
        return self.now - self.run_since < WORKED_OFF * (self.now - self.start)

    @property
    def healthy(self) -> bool:
        """Whether nothing speaks against the measurement; a restart is no fault of the metrics."""
        return not any(problem.kind.holds for problem in self.problems)

    def response(self, statistic: Statistic) -> float:
        """Return a statistic of what users saw, seconds."""
        return self.end_to_end.take(statistic)

    @property
    def end_to_end(self) -> SinkMeasurement:
        """What users saw; by latency markers where no sink counts latencies."""
        if math.isnan(self.output.mean) and self.app is not None:
            return self.app.end_to_end
        return self.output

    def find_late_paths(self, paths: Sequence[PathBound]) -> dict[str, float]:
        """Return the response times that exceed the bound of their own sink, s, by sink.

        A sink at which nothing was measured is judged with all others.
        """
        if self.app is None:
            return {}
        late = {}
        for each in paths:
            if each.sink in self.app.sinks:
                response = self.app.sinks[each.sink].take(each.statistic)
                if response > each.response_time:  # NaN exceeds nothing
                    late[each.sink] = response
        return late

    def violates(self, objective: Objective) -> bool | None:
        """Return whether the interval exceeded a bound; `None` if that is unknown.

        An interval in which nothing came out while records waited is one: they are late already.
        Until a job that was down says how many wait, they are taken to wait.
        """
        if self.find_late_paths(objective.paths):
            return True
        response = self.response(objective.statistic)
        if not math.isnan(response):
            return response > objective.response_time
        if self.app is None or self.app.backlog > 0:
            return True
        return True if self.gap and math.isnan(self.app.backlog) else None


def dataflow_of(topology: Topology, measured: AppMeasurement | None) -> Dataflow:
    """Return the graph of operators, with the selectivities that were measured."""
    return Dataflow(
        operators=topology.operators,
        edges=tuple(
            Edge(
                source=edge.source,
                target=edge.target,
                selectivity=_selectivity(measured, edge.source),
            )
            for edge in topology.edges
        ),
    )


def sum_of_sources(app: AppMeasurement, topology: Topology | None) -> float:
    """Return the records/s that arrive at all sources together."""
    if topology is None:
        return math.nan
    return sum(app.operators[name].arrival_rate for name in topology.sources)


def splits_of(app: AppMeasurement | None) -> dict[str, float]:
    """Return the splits that each source shares among its replicas; NaN where unknown."""
    return {} if app is None else {name: each.splits for name, each in app.operators.items()}


def first_behind_sources(topology: Topology) -> frozenset[str]:
    """Return the operators for which waits what waits at the sources.

    A source that feeds no other operator is the whole job: what waits there waits for it.
    """
    feeding = {edge.source for edge in topology.edges}
    behind = {edge.target for edge in topology.edges if edge.source in topology.sources}
    return frozenset(behind | (set(topology.sources) - feeding))


def describe_assumed(app: AppMeasurement, decided: Collection[str], *, python: bool) -> str:
    """Return where the variance of service times is only assumed, a sentence; empty where not."""
    guessed = sorted(
        name
        for name in decided
        if any(each.service_from is ServiceFrom.BUSY_TIME for each in app.operators[name].replicas)
    )
    if not guessed:
        return ""
    if python:
        cause = "its functions may run in Python processes"
    else:
        cause = "an asynchronous function, an old source, or a job that pins itself without timed"
    return (
        f"Weir cannot measure how long {', '.join(guessed)} takes per record ({cause}). It uses "
        "Flink's busy time and assumes exponential service times; forecasts may be off"
    )


def _selectivity(measured: AppMeasurement | None, operator: str) -> float:
    if measured is None:
        return 1.0
    found = measured.operators[operator].selectivity
    return found if math.isfinite(found) and found >= 0 else 1.0


def note_edges(
    managers: Managers,
    operators: Mapping[str, Operator],
    topology: Topology,
    *,
    key_groups: int,
) -> None:
    """Tell the managers how records reach their operators in a run that has just begun."""
    managers.wait(missed=False)
    for name, manager in managers.items():
        into = [edge for edge in topology.edges if edge.target == name]
        manager.note_edges(
            keyed=any(edge.keyed for edge in into),
            balanced=any(edge.balanced for edge in into),
            sharing=operators[name].sharing,
            key_groups=key_groups,
        )


def observe(
    snapshot: Snapshot,
    managers: Managers,
    status: AppStatus,
    budgets: Mapping[str, float],
    weights: CostWeights | None = None,
    min_replicas: Mapping[str, int] | None = None,
) -> dict[str, Observation]:
    """Give every operator's manager the measurements, and return what it knows.

    Where a pool had no room for more of an operator's replicas, it may have no more there.
    """
    app = snapshot.app
    if app is None:
        return {}
    first = () if snapshot.topology is None else first_behind_sources(snapshot.topology)
    return {
        name: managers[name].observe(
            app,
            [replica for replica in snapshot.replicas if replica.operator == name],
            deployment=Deployment.from_named(
                status.deployments[name], managers[name].model.node_types
            ),
            full={
                each.pool
                for each in status.full
                if each.operator == name and each.holds(snapshot.now)
            },
            budget=budgets.get(name, math.nan),
            first=name in first,
            weights=weights,
            min_replicas=(min_replicas or {}).get(name, 1),
            keys=snapshot.keys.get(name),
            disturbed=snapshot.disturbed,
        )
        for name in app.operators
    }


def summarise(snapshot: Snapshot, statistic: Statistic) -> MeasuredInterval:
    """Return the interval as a change is judged by it."""
    app = snapshot.app
    return MeasuredInterval(
        rate=math.nan if app is None else sum_of_sources(app, snapshot.topology),
        response_time=snapshot.response(statistic),
    )


def sample_of(snapshot: Snapshot, deployments: Deployments) -> IntervalSample | None:
    """Return an interval as it is fitted to; `None` where its metrics were missing or bad."""
    if snapshot.app is None or not snapshot.healthy:
        return None
    return IntervalSample(
        time=snapshot.now,
        seconds=snapshot.now - snapshot.start,
        operators={
            name: sample_of_operator(measured, deployments[name])
            for name, measured in snapshot.app.operators.items()
            if name in deployments
        },
        response_time=snapshot.end_to_end.mean,
        disturbed=snapshot.disturbed,
    )


def sample_of_operator(
    measured: OperatorMeasurement, deployment: Mapping[str, int]
) -> OperatorSample:
    """Return what is fitted of one operator: of replicas that served nothing, no service time."""
    return OperatorSample(
        deployment=dict(deployment),
        arrived=measured.arrival_rate,
        taken=measured.processed_rate,
        given=measured.emitted_rate,
        services=measured.services,
        response_time=measured.response_time,
        utilisation=measured.utilisation,
    )
