"""What one tick knows of the job: samples and Flink's plan become measurements.

`Gatherer` reads the metrics source and Flink, and remembers what is needed from tick to tick: which
replica serves which operator in the current run, when that run began, and the counters so far. The
functions are pure: they turn samples into the layout of the job, and into the measurements on which
managers decide.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import structlog

from weir_operator.clock import Clock
from weir_operator.errors import PermanentError, TemporaryError
from weir_operator.flink.topology import Topology
from weir_operator.loop.directives import LoopSettings
from weir_operator.loop.lifecycle import Lifecycle
from weir_operator.loop.managers import Managers
from weir_operator.loop.verify import MeasuredInterval
from weir_operator.metrics.layout import JobLayout, OperatorLayout, PlacedReplica
from weir_operator.metrics.measurement import measure
from weir_operator.metrics.output import Counted, measure_output
from weir_operator.metrics.quality import Problem, ProblemKind, QualitySettings, judge
from weir_operator.metrics.source import MetricsSource, Window
from weir_operator.metrics.values import (
    AppMeasurement,
    OperatorMeasurement,
    ServiceFrom,
    SinkMeasurement,
)
from weir_operator.metrics.vertices import measure_busy_vertices
from weir_operator.rescale.flink import FlinkJobs
from weir_operator.rescale.journal import DeploymentMap
from weir_operator.rescale.status import AppStatus, StatusStore
from weir_operator.runtime.protocol import Replica, Runtime
from weir_operator.streamapp.operators import Operator
from weir_policies.model.dataflow import Dataflow, Edge
from weir_policies.model.estimation import ServiceMeasurement
from weir_policies.model.node_types import Deployment
from weir_policies.policy import CostWeights, Observation
from weir_simulator.experiment import PathBound
from weir_simulator.fitting.samples import IntervalSample, OperatorSample

log = structlog.get_logger()

WORKED_OFF = 2.0
"""Intervals of a run that count for nothing: they work off the gap before it."""
LAYOUT_MISSED = 3
"""Intervals in a row in which Flink does not say where tasks run, from which people are told."""


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
    def healthy(self) -> bool:
        """Whether nothing speaks against the measurement; a restart is no fault of the metrics."""
        return not any(problem.kind.holds for problem in self.problems)

    def response(self, statistic: str) -> float:
        """Return the bounded statistic of what users saw, seconds."""
        return _statistic_of(self.end_to_end, statistic)

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
                response = _statistic_of(self.app.sinks[each.sink], each.statistic.word)
                if response > each.response_time:  # NaN exceeds nothing
                    late[each.sink] = response
        return late

    def violates(
        self, bound: float, statistic: str, paths: Sequence[PathBound] = ()
    ) -> bool | None:
        """Return whether the interval exceeded a bound; `None` if that is unknown.

        An interval in which nothing came out while records waited is one: they are late already.
        Until a job that was down says how many wait, they are taken to wait.
        """
        if self.find_late_paths(paths):
            return True
        response = self.response(statistic)
        if not math.isnan(response):
            return response > bound
        if self.app is None or self.app.backlog > 0:
            return True
        return True if self.gap and math.isnan(self.app.backlog) else None


def _statistic_of(seen: SinkMeasurement, statistic: str) -> float:
    return {"mean": seen.mean, "p95": seen.p95, "p99": seen.p99}[statistic]


def layout_of(job_id: str, topology: Topology, replicas: Sequence[Replica]) -> JobLayout:
    """Return who serves what in the present run."""
    return JobLayout(
        job_id=job_id,
        operators={
            name: OperatorLayout(
                replicas=tuple(
                    PlacedReplica(
                        tm_id=replica.id,
                        node_type=replica.node_type,
                        drained=replica.id in topology.drained,
                    )
                    for replica in replicas
                    if replica.operator == name
                ),
                upstream=tuple(edge.source for edge in topology.edges if edge.target == name),
                **_vertices(topology, name),
            )
            for name in topology.operators
        },
    )


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


def measure_job(
    window: Window,
    layout: JobLayout,
    *,
    run_since: float,
    settled: bool,
    previous: AppMeasurement | None,
    now: float,
    set_by: float = 0.0,
    quality: QualitySettings,
) -> tuple[AppMeasurement, tuple[Problem, ...]]:
    """Measure and judge one interval.

    Args:
        window: Its samples.
        layout: The present run.
        run_since: Unix time since when the present run processes records; what its replicas did
            before (restoring, working off the gap's first moment) does not tell how they serve.
        settled: Whether the run is old enough to be judged; before, samples are naturally few.
        previous: The last measurement.
        now: Unix seconds.
        set_by: Seconds by which the clock was set in the interval.
        quality: Where the gate draws its lines.
    """
    measured = measure(_cut(window, run_since), layout, previous, set_by=set_by)
    if not settled:
        return measured, ()
    return measured, judge(measured, previous, layout, now, quality, set_by=set_by)


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


def _restarted_by(status: AppStatus) -> str:
    """Return the change that restarted the job without giving it another id; empty without."""
    change = status.rescale
    if change is None or not change.in_place or not change.has_submitted:
        return ""
    return change.id


def _vertices(topology: Topology, name: str) -> dict[str, frozenset[str]]:
    """Entry and exit vertices of an operator that has several; one alone needs no telling."""
    if len(topology.vertices[name]) == 1:
        return {}
    return {"entry_vertices": topology.entries[name], "exit_vertices": topology.exits[name]}


def _selectivity(measured: AppMeasurement | None, operator: str) -> float:
    if measured is None:
        return 1.0
    found = measured.operators[operator].selectivity
    return found if math.isfinite(found) and found >= 0 else 1.0


def _find_first(window: Window, job: str) -> float:
    """Return the Unix time of the first sample of a job's tasks in a window, `inf` without any."""
    times = (
        series.times[0]
        for series in window.series
        if "task_id" in series.labels and series.labels.get("job_id") == job
    )
    return min(times, default=math.inf)


def _cut(window: Window, since: float) -> Window:
    """Leave out samples from before `since`."""
    if since <= window.start:
        return window
    kept = []
    for series in window.series:
        pairs = [
            (time, value)
            for time, value in zip(series.times, series.values, strict=True)
            if time >= since
        ]
        if pairs:
            times, values = zip(*pairs, strict=True)
            kept.append(replace(series, times=times, values=values))
    return Window(start=since, end=window.end, series=tuple(kept))


class Gatherer:
    """Sees the job of one StreamApp, tick by tick."""

    def __init__(
        self,
        *,
        settings: LoopSettings,
        operators: Mapping[str, Operator],
        runtime: Runtime,
        jobs: FlinkJobs,
        lifecycle: Lifecycle,
        source: MetricsSource,
        managers: Managers,
        store: StatusStore,
        clock: Clock,
    ) -> None:
        self._settings = settings
        self._operators = operators
        self._runtime = runtime
        self._jobs = jobs
        self._lifecycle = lifecycle
        self._source = source
        self._managers = managers
        self._store = store
        self._clock = clock
        self._topology: Topology | None = None
        self._topology_of: tuple[str, str] | None = None
        self._layout_missed, self._layout_error = 0, ""
        self._silent = False
        self._gap = False
        self._run_since = math.inf
        self._previous: AppMeasurement | None = None
        self._counted: Counted | None = None

    async def gather(self, start: float, now: float, *, set_by: float = 0.0) -> Snapshot:
        """Measure and judge the interval from `start` to `now`, Unix seconds.

        Args:
            start: When it began, by the clock as it is set now.
            now: When it ends.
            set_by: Seconds by which the clock was set ahead in it, below zero where back.

        Raises:
            TemporaryError: The metrics source or the runtime does not answer.
        """
        self._run_since += set_by
        replicas = await self._runtime.replicas()
        window = await self._source.window(start=start, end=now)
        seen_before = self._topology_of
        layout = await self._find_layout(replicas, window)
        if layout is None or seen_before not in (None, self._topology_of):
            self._gap = True
        output, self._counted = measure_output(window, self._counted)
        settled = now - self._run_since >= self._settings.settle * self._settings.interval
        app: AppMeasurement | None = None
        problems: tuple[Problem, ...] = ()
        if layout is None and self._layout_missed >= LAYOUT_MISSED:
            sentence = f"Which tasks run where is not known: {self._layout_error}."
            problems = (Problem(operator=None, kind=ProblemKind.UNKNOWN_LAYOUT, sentence=sentence),)
        if layout is not None:
            app, problems = measure_job(
                window,
                layout,
                run_since=self._run_since,
                settled=settled,
                previous=self._previous,
                now=now,
                set_by=set_by,
                quality=self._settings.quality,
            )
            self._previous = app
        self._silent = any(each.kind is ProblemKind.PARTIAL for each in problems)
        arriving = math.nan if app is None else sum_of_sources(app, self._topology)
        gap = self._gap and arriving != 0
        self._gap = self._gap and math.isnan(arriving)
        return Snapshot(
            start=start,
            now=now,
            output=output,
            app=app,
            problems=problems,
            replicas=replicas,
            dataflow=None if self._topology is None else dataflow_of(self._topology, app),
            settled=settled,
            run_since=self._run_since,
            gap=gap,
        )

    async def measure_vertices(self, snapshot: Snapshot, span: float) -> dict[str, float] | None:
        """Return how busy each vertex was in the last seconds, by its id; `None` if not known yet.

        Args:
            snapshot: What the tick saw.
            span: Seconds.

        Raises:
            TemporaryError: The metrics source does not answer.
        """
        job = self._store.load().job_id
        known = self._topology_of
        if self._topology is None or known is None or job is None or known[0] != job:
            return None
        if snapshot.now - self._run_since < span:
            return None
        window = await self._source.window(start=snapshot.now - span, end=snapshot.now)
        return measure_busy_vertices(window, layout_of(job, self._topology, snapshot.replicas))

    def observe(
        self,
        snapshot: Snapshot,
        status: AppStatus,
        budgets: Mapping[str, float],
        weights: CostWeights | None = None,
    ) -> dict[str, Observation]:
        """Give every operator's manager the measurements, and return what it knows.

        Where a pool had no room for more of an operator's replicas, it may have no more there.
        """
        app = snapshot.app
        if app is None:
            return {}
        first = () if self._topology is None else first_behind_sources(self._topology)
        return {
            name: self._managers[name].observe(
                app,
                [replica for replica in snapshot.replicas if replica.operator == name],
                deployment=Deployment.from_named(
                    status.deployments[name], self._managers[name].model.node_types
                ),
                full={
                    each.pool
                    for each in status.full
                    if each.operator == name and each.holds(snapshot.now)
                },
                budget=budgets.get(name, math.nan),
                first=name in first,
                weights=weights,
            )
            for name in app.operators
        }

    def summarise(self, snapshot: Snapshot) -> MeasuredInterval:
        """Return the interval as a change is judged by it."""
        app = snapshot.app
        return MeasuredInterval(
            rate=math.nan if app is None else sum_of_sources(app, self._topology),
            response_time=snapshot.response(self._settings.statistic),
        )

    async def _find_layout(self, replicas: tuple[Replica, ...], window: Window) -> JobLayout | None:
        """Return who serves what, `None` while a change is under way or tasks are being placed."""
        status = self._store.load()
        if self._lifecycle.is_changing or status.job_id is None or status.suspended:
            return None
        run = (status.job_id, _restarted_by(status))
        known = self._topology_of == run
        # A replica that fell silent may have come to its end, which only Flink knows.
        if self._topology is None or not known or self._silent:
            try:
                self._topology = await self._jobs.topology(status.job_id)
            except (TemporaryError, PermanentError) as error:
                log.info("no layout yet", reason=str(error))
                self._layout_missed += 1
                self._layout_error = str(error)
                return None
        self._layout_missed = 0
        if not known:
            first, self._topology_of = self._topology_of is None, run
            self._run_since = self._clock.now()
            if first:
                ran = self._topology.running_for - WORKED_OFF * self._settings.interval
                seen = _find_first(window, status.job_id)
                self._run_since = min(self._run_since, max(self._run_since - ran, seen))
            self._note_edges(self._topology)
        return layout_of(status.job_id, self._topology, replicas)

    def _note_edges(self, topology: Topology) -> None:
        self._managers.wait(missed=False)
        for name, manager in self._managers.items():
            into = [edge for edge in topology.edges if edge.target == name]
            manager.note_edges(
                keyed=any(edge.keyed for edge in into),
                balanced=any(edge.balanced for edge in into),
                sharing=self._operators[name].sharing,
                key_groups=self._settings.max_parallelism,
            )


def sample_of(
    snapshot: Snapshot, deployments: DeploymentMap, *, interval: float
) -> IntervalSample | None:
    """Return an interval as it is fitted to; `None` where its metrics were missing or bad.

    Args:
        snapshot: What the tick saw.
        deployments: What ran.
        interval: Seconds between two ticks.
    """
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
        disturbed=snapshot.now - snapshot.run_since < WORKED_OFF * interval,
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
        services=tuple(
            ServiceMeasurement(
                node_type=replica.node_type,
                records=replica.served,
                mean=replica.service_mean,
                variance=replica.service_variance,
            )
            for replica in measured.replicas
            if replica.served > 0
        ),
        response_time=measured.response_time,
        utilisation=measured.utilisation,
    )
