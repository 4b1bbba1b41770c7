"""From the metrics source and Flink's plan to what one tick sees of the job.

Keeps what must be known from tick to tick: who serves what in the present run, since when it runs,
and what was counted before.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import structlog

from weir_operator.clock import Clock
from weir_operator.controller.lifecycle import Lifecycle
from weir_operator.controller.observing import (
    Sight,
    dataflow_of,
    first_behind_sources,
    layout_of,
    see,
    sum_of_sources,
)
from weir_operator.controller.operator_manager import Interval, OperatorManager
from weir_operator.controller.settings import LoopSettings
from weir_operator.controller.verdict import Intervals
from weir_operator.errors import PermanentError, TemporaryError
from weir_operator.flink.jobs import FlinkJobs
from weir_operator.flink.topology import Topology
from weir_operator.metrics.layout import JobLayout
from weir_operator.metrics.output import Counted, measure_output
from weir_operator.metrics.quality import ProblemKind
from weir_operator.metrics.seam import MetricsSource
from weir_operator.metrics.values import AppMeasurement
from weir_operator.runtime.seam import Replica, Runtime
from weir_operator.status import AppStatus, StatusStore
from weir_operator.streamapp.operators import Operator
from weir_policies.model.dataflow import Dataflow
from weir_policies.model.node_types import Deployment
from weir_policies.promise import CostWeights, Observation

log = structlog.get_logger()


@dataclass(frozen=True, kw_only=True, slots=True)
class View:
    """What one tick saw."""

    start: float
    """Unix time at which its interval began."""
    now: float
    sight: Sight
    replicas: tuple[Replica, ...]
    flow: Dataflow | None
    """The job's graph; `None` before it was ever known."""
    settled: bool
    """Whether the run is old enough for its samples to tell of more than its restart."""
    run_since: float = -math.inf
    """Unix time since when the present run processes records, `inf` where there was none yet."""

    @property
    def reason_to_hold(self) -> str:
        """Why nothing is to be decided on what was seen, one sentence; empty where it is."""
        if self.sight.app is None:
            return "It is not known yet where the tasks run"
        if not self.settled:
            return "The job has just been restarted"
        holding = [problem.sentence for problem in self.sight.problems if problem.kind.holds]
        return f"The metrics are not to be trusted: {holding[0]}" if holding else ""


class Watcher:
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
        managers: Mapping[str, OperatorManager],
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
        self._topology_of: str | None = None
        self._silent = False
        self._run_since = math.inf
        self._previous: AppMeasurement | None = None
        self._counted: Counted | None = None

    async def look(self, start: float, now: float, *, set_by: float = 0.0) -> View:
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
        layout = await self._find_layout(replicas)
        output, self._counted = measure_output(window, self._counted)
        settled = now - self._run_since >= self._settings.settle * self._settings.interval
        sight = see(
            window,
            layout,
            run_since=self._run_since,
            settled=settled,
            previous=self._previous,
            output=output,
            now=now,
            set_by=set_by,
            quality=self._settings.quality,
        )
        if sight.app is not None:
            self._previous = sight.app
        self._silent = any(each.kind is ProblemKind.PARTIAL for each in sight.problems)
        return View(
            start=start,
            now=now,
            sight=sight,
            replicas=replicas,
            flow=None if self._topology is None else dataflow_of(self._topology, sight.app),
            settled=settled,
            run_since=self._run_since,
        )

    def observe(
        self,
        view: View,
        status: AppStatus,
        budgets: Mapping[str, float],
        weights: CostWeights | None = None,
    ) -> dict[str, Observation]:
        """Let every operator's manager take over what was measured, and return what it knows.

        Where a pool had no room for more of an operator's replicas, it may have no more there.
        """
        app = view.sight.app
        if app is None:
            return {}
        interval = Interval(
            now=view.now,
            length=view.now - max(view.start, self._run_since),
            source_backlog=app.backlog,
        )
        first = () if self._topology is None else first_behind_sources(self._topology)
        return {
            name: self._managers[name].observe(
                measurement,
                [replica for replica in view.replicas if replica.operator == name],
                deployment=Deployment.from_named(
                    status.deployments[name], self._managers[name].model.node_types
                ),
                full={
                    each.pool
                    for each in status.full
                    if each.operator == name and each.holds(view.now)
                },
                budget=budgets.get(name, math.nan),
                first=name in first,
                interval=interval,
                weights=weights,
            )
            for name, measurement in app.operators.items()
        }

    def summarise(self, sight: Sight) -> Intervals:
        """Return the interval as a change is judged by it."""
        app = sight.app
        return Intervals(
            rate=math.nan if app is None else sum_of_sources(app, self._topology),
            response_time=sight.response(self._settings.statistic),
            backlog=math.nan if app is None else app.backlog,
        )

    async def _find_layout(self, replicas: tuple[Replica, ...]) -> JobLayout | None:
        """Return who serves what, `None` while a change is under way or tasks are being placed."""
        status = self._store.load()
        if self._lifecycle.is_changing or status.job_id is None or status.suspended:
            return None
        known = self._topology_of == status.job_id
        # A replica that fell silent may have come to its end, which only Flink can tell.
        if self._topology is None or not known or self._silent:
            try:
                self._topology = await self._jobs.topology(status.job_id)
            except (TemporaryError, PermanentError) as error:
                log.info("no layout yet", reason=str(error))
                return None
        if not known:
            self._topology_of = status.job_id
            self._run_since = self._clock.now()
            self._see_edges(self._topology)
        return layout_of(status.job_id, self._topology, replicas)

    def _see_edges(self, topology: Topology) -> None:
        for name, manager in self._managers.items():
            manager.wait(missed=False)
            into = [edge for edge in topology.edges if edge.target == name]
            manager.see_edges(
                keyed=any(edge.keyed for edge in into),
                balanced=any(edge.balanced for edge in into),
                sharing=self._operators[name].sharing,
                key_groups=self._settings.max_parallelism,
            )
