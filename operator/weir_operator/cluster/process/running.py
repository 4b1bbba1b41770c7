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
from functools import partial
from pathlib import Path

import structlog

from weir_operator.api.client import KubernetesApi
from weir_operator.api.leader import LeaseLostError
from weir_operator.api.objects import Resource
from weir_operator.clock import SystemClock
from weir_operator.cluster.app.context import AppDependencies, TunerFor
from weir_operator.cluster.process.process import Controller
from weir_operator.cluster.process.settings import ControllerSettings, PrometheusAccess, TunerAccess
from weir_operator.errors import TemporaryError
from weir_operator.fence import Guard
from weir_operator.metrics.prometheus_server import PrometheusServer
from weir_operator.runtime.pods.changes import Changes, count_watches
from weir_operator.runtime.pods.nodes import NodeNotices
from weir_operator.runtime.pods.pods import FlinkPods
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
    """Run controllers until SIGTERM or SIGINT, on this process's cluster or that of KUBECONFIG.

    Raises:
        WeirError: See `run_terms`; also where no cluster can be reached.
    """
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    loop.set_default_executor(ThreadPoolExecutor(THREADS, thread_name_prefix="weir"))
    api = await KubernetesApi.connect()
    nodes = NodeNotices(api, settings.namespaces)
    # Watches would hold the connections that everything else waits for.
    watch_api = KubernetesApi(connections=count_watches(settings.namespaces))
    changes = Changes(watch_api, settings.namespaces)

    def runtime_for(app: StreamApp, resource: Resource, guard: Guard) -> KubernetesRuntime:
        home, agent = settings.own_namespace, settings.agent
        pods = FlinkPods.of(app, uid=resource.uid, controller_namespace=home, agent=agent)
        return KubernetesRuntime(api.guarded(guard), pods, nodes, changes)

    server = None if settings.prometheus is None else _connect(settings.prometheus)
    dependencies = AppDependencies(runtime_for, server)

    def claim_signals() -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop.set)

    def make() -> Controller:
        return Controller(
            api,
            dependencies,
            nodes,
            settings,
            lease_api=KubernetesApi(),
            changes=changes,
            tuner_for=_tuner_for(api, settings.tuner),
        )

    try:
        await run_terms(make, stop, claim_signals=claim_signals)
    finally:
        if server is not None:
            await server.close()
        await watch_api.close()
        await api.close()


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


def _connect(access: PrometheusAccess) -> PrometheusServer:
    token, folder = access.token_file, access.password_folder
    return PrometheusServer(
        access.url,
        token=None if token is None else partial(_read_secret, "--prometheus-token-file", token),
        password=None if folder is None else partial(_read_password, folder),
        headers=access.headers,
        verify=True if access.ca_file is None else str(access.ca_file),
        matchers=access.labels,
    )


def _read_password(folder: Path) -> tuple[str, str]:
    option = "--prometheus-basic-auth"
    return _read_secret(option, folder / "username"), _read_secret(option, folder / "password")


def _read_secret(option: str, file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise TemporaryError(
            f"{option}: expected a secret in {file}, got {error.strerror}; mount the Secret"
        ) from error
