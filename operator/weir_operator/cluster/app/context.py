"""What all StreamApps of one controller share, and how each gets its dependencies."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import structlog

from weir_operator.advise.metrics import PrometheusFor
from weir_operator.api.client import KubernetesApi
from weir_operator.api.leader import Fence
from weir_operator.api.objects import Resource
from weir_operator.clock import Clock
from weir_operator.cluster.app.autoscaler_conflicts import AutoscalerConflicts
from weir_operator.cluster.app.health_checks import HealthCheckScheduler
from weir_operator.cluster.status.events import EventPoster
from weir_operator.cluster.status.telemetry import Telemetry
from weir_operator.fence import Guard
from weir_operator.loop.restart_limits import SharedRestarts
from weir_operator.metrics.direct import DirectSource
from weir_operator.metrics.names import APP_LABEL
from weir_operator.metrics.prometheus import PrometheusSource
from weir_operator.metrics.prometheus_server import PrometheusServer
from weir_operator.metrics.source import MetricsSource
from weir_operator.rescale.flink import FlinkJobs
from weir_operator.runtime.protocol import Runtime
from weir_operator.streamapp.models import StreamApp
from weir_operator.tuning.history import HistoryReader
from weir_operator.tuning.protocol import Tuner

log = structlog.get_logger()


TunerFor = Callable[[Resource, Guard], Tuner]
"""Makes the tuner of a StreamApp; the guard is asked before it changes anything."""


RuntimeFor = Callable[[StreamApp, Resource, Guard], Runtime]
"""Makes the runtime of a StreamApp, whose object owns what is started."""


class AppDependencies:
    """Creates what a StreamApp's loops need."""

    def __init__(self, runtime_for: RuntimeFor, server: PrometheusServer | None) -> None:
        """Create it for where Flink runs; without Prometheus, pods are scraped directly."""
        self._runtime_for = runtime_for
        self._server = server

    def runtime(self, app: StreamApp, resource: Resource, guard: Guard) -> Runtime:
        """Return where its Flink runs; `guard` is asked before anything is changed there."""
        return self._runtime_for(app, resource, guard)

    def jobs(self, runtime: Runtime, guard: Guard) -> FlinkJobs:
        """Return the jobs that run there; `guard` is asked before one is changed."""
        return FlinkJobs(runtime, guard)

    def source(self, app: StreamApp, runtime: Runtime) -> MetricsSource:
        """Return the started source of its samples."""
        name = f"{app.metadata.namespace}/{app.metadata.name}"
        if self._server is not None:
            return PrometheusSource(self._server, label=APP_LABEL, value=name)

        async def targets() -> list[str]:
            return [each.metrics_url for each in await runtime.replicas() if each.metrics_url]

        source = DirectSource(targets, name)
        source.start()
        return source

    def prometheus(self) -> PrometheusFor | None:
        """Return how a job that somebody else runs is measured; `None` asks its own Flink."""
        server = self._server
        if server is None:
            return None

        def ask(job_id: str, namespace: str) -> MetricsSource:
            return PrometheusSource(server, label="job_id", value=job_id, namespace=namespace)

        return ask


class PolicyCompiler:
    """Compiles each policy once, in a process outside the event loop.

    The kernels of a policy are the same for all operators that use it, and compiling them again
    costs nothing; but one that Weir does not bring compiled takes up to a minute, and a thousand
    StreamApps that wait for it in a thousand threads would take all threads there are.
    """

    def __init__(self) -> None:
        self._done: set[str] = set()
        self._busy = asyncio.Lock()

    async def ensure(self, policy: str, compile_policy: Callable[[], None]) -> None:
        """Return when the policy called `policy` is compiled."""
        if policy in self._done:
            return
        async with self._busy:
            if policy in self._done:
                return
            began = time.monotonic()
            log.info("compiling", policy=policy, hint="takes a minute where it is new")
            await asyncio.to_thread(compile_policy)
            log.info("compiled", policy=policy, seconds=round(time.monotonic() - began, 1))
            self._done.add(policy)


@dataclass(frozen=True, kw_only=True, slots=True)
class ControllerContext:
    """One controller's shared parts."""

    api: KubernetesApi
    fence: Fence
    dependencies: AppDependencies
    events: EventPoster
    autoscaler_conflicts: AutoscalerConflicts
    telemetry: Telemetry
    clock: Clock
    state: Path
    """Folder of what outlives the process: records, what was learned."""
    tuner_for: TunerFor | None = None
    """Makes the tuner of a StreamApp; `None` tunes nothing."""
    history: HistoryReader | None = None
    """Reads the history of all jobs; `None` if none is configured."""
    shared_restarts: SharedRestarts | None = None
    """The restart budget over all StreamApps; `None` where there is none."""
    compiler: PolicyCompiler = field(default_factory=PolicyCompiler)
    health_checks: HealthCheckScheduler = field(default_factory=HealthCheckScheduler)
    """All StreamApps; the more there are, the less often each is checked."""
