"""What the loops of a StreamApp on Kubernetes need: its pods, and the source of its samples."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from weir_operator.advise.metrics import PrometheusFor
from weir_operator.api.objects import Resource
from weir_operator.cluster.process.settings import PrometheusAccess
from weir_operator.errors import TemporaryError
from weir_operator.fence import Guard
from weir_operator.metrics.direct import DirectSource
from weir_operator.metrics.names import APP_LABEL
from weir_operator.metrics.prometheus import PrometheusSource
from weir_operator.metrics.prometheus_server import PrometheusServer
from weir_operator.metrics.source import MetricsSource
from weir_operator.rescale.flink import FlinkJobs
from weir_operator.runtime.protocol import Runtime
from weir_operator.streamapp.models import StreamApp

RuntimeFor = Callable[[StreamApp, Resource, Guard], Runtime]
"""Makes the runtime of a StreamApp, whose object owns what is started."""


class ClusterDependencies:
    """`AppDependencies` on a real cluster."""

    def __init__(self, runtime_for: RuntimeFor, prometheus: PrometheusAccess | None) -> None:
        """Create it for where Flink runs; without Prometheus, pods are scraped directly."""
        self._runtime_for = runtime_for
        self._server = None if prometheus is None else _connect(prometheus)

    async def close(self) -> None:
        """Release the connections to Prometheus."""
        if self._server is not None:
            await self._server.close()

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
            replicas = await runtime.replicas()
            return [
                runtime.job_manager_metrics_url,
                *(each.metrics_url for each in replicas if each.metrics_url),
            ]

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


def _connect(access: PrometheusAccess) -> PrometheusServer:
    token, folder = access.token_file, access.password_folder

    def read_token() -> str:
        return "" if token is None else _read_secret("--prometheus-token-file", token)

    def read_password() -> tuple[str, str]:
        if folder is None:
            return "", ""
        option = "--prometheus-basic-auth"
        return _read_secret(option, folder / "username"), _read_secret(option, folder / "password")

    return PrometheusServer(
        access.url,
        token=None if token is None else read_token,
        password=None if folder is None else read_password,
        headers=access.headers,
        verify=True if access.ca_file is None else str(access.ca_file),
        matchers=access.labels,
    )


def _read_secret(option: str, file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise TemporaryError(
            f"{option}: expected a secret in {file}, got {error.strerror}; mount the Secret"
        ) from error
