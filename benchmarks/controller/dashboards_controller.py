"""The controller's process of `dashboards`: Weir's own, over Flink's processes on this machine.

A cluster's controller and `weir local` differ in where Flink runs, which is a seam. So one
StreamApp of the API server gets real Flink without a node. At the end every process is ended.
"""

from __future__ import annotations

import asyncio
import math
import sys
from pathlib import Path

from weir_operator.external.metrics import PrometheusFor
from weir_operator.fence import Guard
from weir_operator.flink.commands import Installation
from weir_operator.flink.jars import find_java, flink_home
from weir_operator.kubernetes.api.client import KubernetesApi
from weir_operator.kubernetes.api.objects import Resource
from weir_operator.kubernetes.process.logs import send_logs_to_stderr
from weir_operator.kubernetes.process.running import run_controller
from weir_operator.kubernetes.process.settings import ControllerSettings
from weir_operator.metrics.direct import DirectSource
from weir_operator.metrics.source import MetricsSource
from weir_operator.rescale.flink import FlinkJobs
from weir_operator.runtime.kubernetes.nodes import NodeNotices
from weir_operator.runtime.local.runtime import LocalRuntime
from weir_operator.runtime.protocol import Runtime
from weir_operator.runtime.settings import LocalSettings
from weir_operator.streamapp import world
from weir_operator.streamapp.loading import find_jar, load_manifest
from weir_operator.streamapp.models import StreamApp

_MIB = 2**20


class LocalDependencies:
    """`AppDependencies` on this machine."""

    def __init__(self, runtime: LocalRuntime, manifest: Path) -> None:
        """Take over where Flink runs, and the folder from which a jar's path starts."""
        self._runtime = runtime
        self._manifest = manifest

    def runtime(self, app: StreamApp, resource: Resource, guard: Guard) -> Runtime:
        """Return where its Flink runs.

        Raises:
            PermanentError: There is no such jar on this machine.
        """
        find_jar(app, self._manifest)
        return self._runtime

    def jobs(self, runtime: Runtime, guard: Guard) -> FlinkJobs:
        """Return the jobs that run there."""
        return FlinkJobs(runtime, guard)

    def source(self, app: StreamApp, runtime: Runtime) -> MetricsSource:
        """Return where its samples come from, begun."""

        async def targets() -> list[str]:
            replicas = await runtime.replicas()
            return [runtime.job_manager_metrics_url, *(each.metrics_url for each in replicas)]

        source = DirectSource(targets, f"{app.metadata.namespace}.{app.metadata.name}")
        source.start()
        return source

    def prometheus(self) -> PrometheusFor | None:
        """Return that no job of somebody else is measured here."""
        return None


def settings_of(manifest: Path, state: Path) -> LocalSettings:
    """Return how the StreamApp of a file runs on this machine."""
    app = load_manifest(manifest)
    return LocalSettings(
        root=state / "flink",
        namespace=app.metadata.namespace,
        name=app.metadata.name,
        installation=Installation(java=Path(find_java()), flink_home=Path(flink_home())),
        job_jar=find_jar(app, manifest),
        cache=state / "cache",
        speeds={
            each.name: each.speedup
            for name in world.operator_names(app)
            for each in world.node_types(app, name)
        },
        pool_memory={
            pool.name: math.floor(pool.memory.bytes / _MIB) for pool in app.spec.node_pools
        },
        max_parallelism=app.spec.flink.max_parallelism,
    )


async def work(manifest: Path, state: Path, port: int) -> None:
    """Run the controller until it is told to end, then end Flink too."""
    settings = settings_of(manifest, state)
    runtime = await LocalRuntime.open(settings)
    api = await KubernetesApi.connect()
    try:
        await run_controller(
            ControllerSettings(
                identity="dashboards",
                own_namespace=settings.namespace,
                state=state / "weir",
                health_port=port,
                health_host="127.0.0.1",
            ),
            api=api,
            dependencies=LocalDependencies(runtime, manifest),
            nodes=NodeNotices(api),
            open_lease_api=KubernetesApi.unconnected,
        )
    finally:
        await api.close()
        await (await LocalRuntime.open(settings)).close()


if __name__ == "__main__":
    send_logs_to_stderr(as_json=True)
    asyncio.run(work(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])))
