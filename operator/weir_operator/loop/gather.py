"""Reads what one tick needs: samples of the metrics source, replicas, and Flink's plan.

Also defines `Snapshot`, which is what was read.

`Gatherer` remembers what is needed from tick to tick: which replica serves which operator in the
current run, when that run began, and the counters so far.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import structlog

from weir_operator.errors import PermanentError, TemporaryError
from weir_operator.flink.topology import Topology
from weir_operator.loop.directives import LoopSettings
from weir_operator.loop.lifecycle import Lifecycle
from weir_operator.metrics.keys import read_keys
from weir_operator.metrics.measurement import (
    Counted,
    measure,
    measure_busy_vertices,
    measure_output,
)
from weir_operator.metrics.quality import Problem, ProblemKind, judge
from weir_operator.metrics.source import MetricsSource, Window
from weir_operator.metrics.values import AppMeasurement, JobLayout, SinkMeasurement
from weir_operator.rescale.engine import EngineParts
from weir_operator.rescale.status import AppStatus
from weir_operator.runtime.protocol import Replica
from weir_policies.model.dataflow import Dataflow, Edge
from weir_policies.model.keys import KeyShares
from weir_policies.model.objective import Statistic
from weir_simulator.experiment import Objective, PathBound

log = structlog.get_logger()

SETTLED_AFTER = 0.5
"""Part of an interval that a run of the job must have behind it before it is judged: before that,
what is measured is the restart."""
WORKED_OFF = 2.0
"""Intervals of a run that teach nothing of its waiting: they work off the gap before it."""
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


def _selectivity(measured: AppMeasurement | None, operator: str) -> float:
    if measured is None:
        return 1.0
    found = measured.operators[operator].selectivity
    return found if math.isfinite(found) and found >= 0 else 1.0


def sum_of_sources(app: AppMeasurement, topology: Topology | None) -> float:
    """Return the records/s that arrive at all sources together."""
    if topology is None:
        return math.nan
    return sum(app.operators[name].arrival_rate for name in topology.sources)


def layout_of(job_id: str, topology: Topology, replicas: Sequence[Replica]) -> JobLayout:
    """Return who serves what in the present run."""
    several = [name for name, vertices in topology.vertices.items() if len(vertices) > 1]
    return JobLayout(
        job_id=job_id,
        flow=dataflow_of(topology, None),
        replicas={
            name: tuple(each for each in replicas if each.operator == name)
            for name in topology.operators
        },
        entries={name: topology.entries[name] for name in several},
        exits={name: topology.exits[name] for name in several},
        drained=topology.drained,
    )


def _restarted_by(status: AppStatus) -> str:
    """Return the change that restarted the job without giving it another id; empty without."""
    change = status.rescale
    if change is None or not change.in_place or not change.has_submitted:
        return ""
    return change.id


def _was_changed(status: AppStatus, since: float) -> bool:
    change = status.rescale
    if change is None or change.kind.begins or not change.has_submitted:
        return False
    return max(change.times.values()) > since


def _find_first(window: Window, job: str) -> float:
    """Return the Unix time of the first sample of a job's tasks in a window, `inf` without any."""
    times = (
        series.times[0]
        for series in window.series
        if "task_id" in series.labels and series.labels.get("job_id") == job
    )
    return min(times, default=math.inf)


class Gatherer:
    """Sees the job of one StreamApp, tick by tick."""

    def __init__(
        self,
        *,
        settings: LoopSettings,
        parts: EngineParts,
        lifecycle: Lifecycle,
        source: MetricsSource,
    ) -> None:
        self._settings = settings
        self._runtime = parts.runtime
        self._jobs = parts.jobs
        self._lifecycle = lifecycle
        self._source = source
        self._store = parts.store
        self._clock = parts.clock
        self._topology: Topology | None = None
        self._topology_of: tuple[str, str] | None = None
        self._layout_missed, self._layout_error = 0, ""
        self._silent = False
        self._gap = False
        self._run_since = math.inf
        self._previous: AppMeasurement | None = None
        self._counted: Counted | None = None

    async def gather(
        self, start: float, now: float, *, set_by: float = 0.0, vertices_over: float | None = None
    ) -> Snapshot:
        """Measure and judge the interval from `start` to `now`, Unix seconds.

        Args:
            start: When it began, by the clock as it is set now.
            now: When it ends.
            set_by: Seconds by which the clock was set ahead in it, below zero where back.
            vertices_over: Seconds over which to measure how busy vertices are; `None` does not.

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
        if seen_before is None and _was_changed(self._store.load(), start):
            self._gap = True  # other loops changed the job before these began
        output, self._counted = measure_output(window, self._counted)
        settled = now - self._run_since >= SETTLED_AFTER * self._settings.interval
        app: AppMeasurement | None = None
        problems: tuple[Problem, ...] = ()
        if layout is None and self._layout_missed >= LAYOUT_MISSED:
            sentence = f"Which tasks run where is not known: {self._layout_error}."
            problems = (Problem(operator=None, kind=ProblemKind.UNKNOWN_LAYOUT, sentence=sentence),)
        if layout is not None:
            previous, since = self._previous, self._run_since
            self._previous = app = measure(window, layout, previous, since=since, set_by=set_by)
            if settled:  # before, samples are naturally few
                stale_after = self._settings.stale_after
                problems = judge(app, previous, layout, now, stale_after=stale_after, set_by=set_by)
        self._silent = any(each.kind is ProblemKind.PARTIAL for each in problems)
        arriving = math.nan if app is None else sum_of_sources(app, self._topology)
        gap = self._gap and arriving != 0
        self._gap = self._gap and math.isnan(arriving)
        snapshot = Snapshot(
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
            topology=self._topology,
            run=self._topology_of,
            keys=await self._read_keys(),
        )
        if vertices_over is None or snapshot.reason_to_hold:
            return snapshot
        return replace(snapshot, vertices=await self._measure_vertices(snapshot, vertices_over))

    async def _read_keys(self) -> dict[str, KeyShares]:
        job = self._store.load().job_id
        if self._topology is None or self._topology_of is None or self._topology_of[0] != job:
            return {}
        try:
            texts = await self._jobs.key_texts(self._topology_of[0], self._topology)
            return read_keys(texts, self._topology.operators)
        except (TemporaryError, PermanentError) as error:
            log.info("no counts of keys", reason=str(error))
            return {}

    async def _measure_vertices(self, snapshot: Snapshot, span: float) -> dict[str, float] | None:
        """Return how busy each vertex was in the last seconds; `None` if not known yet."""
        job = self._store.load().job_id
        known = self._topology_of
        if self._topology is None or known is None or job is None or known[0] != job:
            return None
        if snapshot.now - self._run_since < span:
            return None
        window = await self._source.window(start=snapshot.now - span, end=snapshot.now)
        return measure_busy_vertices(window, layout_of(job, self._topology, snapshot.replicas))

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
        return layout_of(status.job_id, self._topology, replicas)
