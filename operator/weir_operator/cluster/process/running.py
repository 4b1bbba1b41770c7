"""Runs controllers one after the other in one process, each for its term with the Lease.

A term that is over is never resumed: all its work is cancelled, and a new controller, built only
from the settings, waits for the Lease and reads the statuses. A new process would do the same, but
the kubelet starts one only after pauses that grow to five minutes, and an API server that is
unavailable for half a minute now and then would cost all of them. Whatever else ends a controller
ends the process.
"""

from __future__ import annotations

import asyncio
import resource
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import structlog

from weir_operator.api.client import KubernetesApi
from weir_operator.api.leader import LeaseLostError
from weir_operator.api.objects import Resource
from weir_operator.clock import SystemClock
from weir_operator.cluster.app.context import AppDependencies, TunerFor
from weir_operator.cluster.process.dependencies import ClusterDependencies
from weir_operator.cluster.process.process import Controller
from weir_operator.cluster.process.settings import ControllerSettings, TunerAccess
from weir_operator.fence import Guard
from weir_operator.runtime.pods.changes import Changes, count_watches
from weir_operator.runtime.pods.nodes import NodeNotices
from weir_operator.runtime.pods.runtime import KubernetesRuntime
from weir_operator.streamapp.models import StreamApp
from weir_operator.tuning.job import JobTuner

log = structlog.get_logger()

THREADS = 32
"""For what blocks: queries to Prometheus, compiling. More than Python's default, because one that
hangs must not hold up the others."""


def allow_open_files() -> None:
    """Allow this process to open as many files and sockets as the system permits.

    Many systems allow 1,024 at first. Each StreamApp takes several: its records, its Flink.
    """
    _, maximum = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (maximum, maximum))


async def run_on_cluster(settings: ControllerSettings) -> None:
    """Run a controller on the cluster that this process runs in, or that KUBECONFIG names.

    Raises:
        WeirError: See `run_controller`; also where no cluster can be reached.
    """
    api = await KubernetesApi.connect()
    nodes = NodeNotices(api, settings.namespaces)
    # Watches would hold the connections that everything else waits for.
    watch_api = KubernetesApi.unconnected(connections=count_watches(settings.namespaces))
    changes = Changes(watch_api, settings.namespaces)

    def runtime_for(app: StreamApp, resource: Resource, guard: Guard) -> KubernetesRuntime:
        return KubernetesRuntime.of(
            app,
            uid=resource.uid,
            api=api.guarded(guard),
            nodes=nodes,
            changes=changes,
            controller_namespace=settings.own_namespace,
            agent=settings.agent,
        )

    dependencies = ClusterDependencies(runtime_for, settings.prometheus)
    try:
        await run_controller(
            settings,
            api=api,
            dependencies=dependencies,
            nodes=nodes,
            open_lease_api=KubernetesApi.unconnected,
            changes=changes,
            tuner_for=_tuner_for(api, settings.tuner),
        )
    finally:
        await dependencies.close()
        await watch_api.close()
        await api.close()


async def run_controller(
    settings: ControllerSettings,
    *,
    api: KubernetesApi,
    dependencies: AppDependencies,
    nodes: NodeNotices,
    open_lease_api: Callable[[], KubernetesApi],
    changes: Changes | None = None,
    tuner_for: TunerFor | None = None,
) -> None:
    """Run controllers until SIGTERM or SIGINT.

    Args:
        settings: Of the process.
        api: The API server.
        dependencies: What the loops of StreamApps stand on.
        nodes: What is known of nodes that go.
        open_lease_api: Returns the API server once more, for the Lease of one term alone.
        changes: Watched while it leads; `None` where Flink is not on the API server.
        tuner_for: Makes the tuner of a StreamApp; `None` tunes nothing.

    Raises:
        WeirError: See `run_terms`.
    """
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    loop.set_default_executor(ThreadPoolExecutor(THREADS, thread_name_prefix="weir"))

    def claim_signals() -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop.set)

    def make() -> Controller:
        return Controller(
            api,
            dependencies,
            nodes,
            settings,
            lease_api=open_lease_api(),
            changes=changes,
            tuner_for=tuner_for,
        )

    await run_terms(make, stop, claim_signals=claim_signals)


async def run_terms(
    make: Callable[[], Controller],
    stop: asyncio.Event,
    *,
    claim_signals: Callable[[], None] = lambda: None,
) -> None:
    """Run a controller, and another one whenever its term is over, until `stop` is set.

    Raises:
        DeadControllerError: Passes or watch have stopped.
        WeirError: The API server refuses for good.
    """
    while not stop.is_set():
        try:
            await make().run(stop, claim_signals=claim_signals)
        except LeaseLostError as error:
            log.warning("term over, another one is sought", reason=str(error))
        else:
            return


def _tuner_for(api: KubernetesApi, access: TunerAccess | None) -> TunerFor | None:
    """Return what makes the tuner of a StreamApp; `None` where nothing is tuned."""
    if access is None:
        return None
    return lambda resource, guard: JobTuner(
        api.guarded(guard),
        access.template,
        namespace=access.namespace,
        app=str(resource.key),
        deadline=access.deadline,
        clock=SystemClock(),
    )
