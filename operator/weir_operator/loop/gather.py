"""Reads what one tick needs: samples of the metrics source, replicas, and Flink's plan.

`Gatherer` remembers what is needed from tick to tick: which replica serves which operator in the
current run, when that run began, and the counters so far.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import structlog

from weir_operator.clock import Clock
from weir_operator.errors import PermanentError, TemporaryError
from weir_operator.flink.topology import Topology
from weir_operator.loop.directives import LoopSettings
from weir_operator.loop.evaluate import (
    WORKED_OFF,
    Snapshot,
    dataflow_of,
    sum_of_sources,
)
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
from weir_operator.metrics.values import AppMeasurement, JobLayout
from weir_operator.rescale.flink import FlinkJobs
from weir_operator.rescale.status import AppStatus, StatusStore
from weir_operator.runtime.protocol import Replica, Runtime
from weir_policies.model.keys import KeyShares

log = structlog.get_logger()

SETTLED_AFTER = 0.5
"""Part of an interval that a run of the job must have behind it before it is judged: before that,
what is measured is the restart."""
LAYOUT_MISSED = 3
"""Intervals in a row in which Flink does not say where tasks run, from which people are told."""


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
        runtime: Runtime,
        jobs: FlinkJobs,
        lifecycle: Lifecycle,
        source: MetricsSource,
        store: StatusStore,
        clock: Clock,
    ) -> None:
        self._settings = settings
        self._runtime = runtime
        self._jobs = jobs
        self._lifecycle = lifecycle
        self._source = source
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
