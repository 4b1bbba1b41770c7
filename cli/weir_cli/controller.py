"""`weir controller`: runs the controller's process, in or outside the cluster.

It also hands the pipelines' tables to the controller as its history: the controller knows only the
protocol of a history, not the tables.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from weir_cli.history import need_pyarrow
from weir_cli.options import read_duration, read_pairs
from weir_operator.clock import Clock, SystemClock
from weir_operator.errors import TemporaryError
from weir_pipelines.errors import PipelineError

if TYPE_CHECKING:
    from weir_operator.runtime.revision import AgentImage
    from weir_policies.model.season import Season
    from weir_simulator.fitting.history import History


class TablesHistory:
    """The pipelines' tables as the controller reads them: what ended long ago is not used."""

    def __init__(self, tables: Path, clock: Clock) -> None:
        self._tables = tables
        self._clock = clock

    def read(self, app: str, *, operators: Collection[str], node_types: Collection[str]) -> History:
        """Return what is kept of an application."""
        from weir_pipelines.history import read_history

        with _temporarily():
            return read_history(
                self._tables,
                app,
                operators=operators,
                node_types=node_types,
                now=self._clock.now(),
            )

    def seasons(self, app: str) -> Mapping[str, Season]:
        """Return what usually arrives at its operators."""
        from weir_pipelines.history import read_seasons
        from weir_pipelines.store import Tables

        with _temporarily():
            return read_seasons(Tables(self._tables), app, now=self._clock.now())


def open_history(tables: Path) -> TablesHistory:
    """Return the tables in a folder, which may still be empty.

    Raises:
        MissingExtraError: pyarrow is not installed.
    """
    need_pyarrow()
    return TablesHistory(tables, SystemClock())


@contextmanager
def _temporarily() -> Iterator[None]:
    """Turn errors of the tables into temporary errors, with which the controller continues."""
    try:
        yield
    except (PipelineError, OSError) as error:
        raise TemporaryError(str(error)) from error


def controller(
    namespace: Annotated[
        list[str] | None,
        typer.Option(help="Manage the StreamApps of this namespace; repeatable. Default: all."),
    ] = None,
    state: Annotated[
        Path, typer.Option(help="Folder for decision records and learned state.")
    ] = Path("/var/lib/weir"),
    prometheus: Annotated[
        str | None,
        typer.Option(
            help="Read metrics from this Prometheus server. Default: scrape the pods.",
            envvar="WEIR_PROMETHEUS",
        ),
    ] = None,
    prometheus_token_file: Annotated[
        Path | None, typer.Option(help="File with the bearer token for Prometheus.")
    ] = None,
    prometheus_basic_auth: Annotated[
        Path | None,
        typer.Option(
            help="Folder with the files username and password for Prometheus.", metavar="DIR"
        ),
    ] = None,
    prometheus_header: Annotated[
        list[str] | None,
        typer.Option(
            help="KEY=VALUE header of every request, such as X-Scope-OrgID=team-a; repeatable."
        ),
    ] = None,
    prometheus_ca: Annotated[
        Path | None, typer.Option(help="CA bundle to check Prometheus' certificate against.")
    ] = None,
    prometheus_label: Annotated[
        list[str] | None,
        typer.Option(help="KEY=VALUE label that all series must have; repeatable."),
    ] = None,
    health_port: Annotated[
        int, typer.Option(help="Port of /healthz, /readyz and /metrics.", min=0, max=65535)
    ] = 8080,
    restarts_per_hour: Annotated[
        int | None,
        typer.Option(
            help="Maximum restarts per hour for scaling, over all StreamApps. Default: no limit.",
            min=1,
        ),
    ] = None,
    tuner_job: Annotated[
        Path | None,
        typer.Option(help="File with the Job from which tunings are created. Default: no tunings."),
    ] = None,
    tuner_namespace: Annotated[
        str, typer.Option(help="Namespace of these Jobs.", envvar="POD_NAMESPACE")
    ] = "default",
    tuner_deadline: Annotated[
        str,
        typer.Option(
            help=("Time limit of such a Job, such as 30m. Its search gets at most 60 % of it.")
        ),
    ] = "30m",
    agent_image: Annotated[
        str | None,
        typer.Option(
            help="Weir's image, from which Flink's pods copy Weir's agent. Default: no agent."
        ),
    ] = None,
    history: Annotated[
        Path | None,
        typer.Option(help="Folder of the tables of `weir pipelines`.", metavar="DIR"),
    ] = None,
    pod_name: Annotated[
        str | None,
        typer.Option(help="Unique name of this process.", envvar="POD_NAME"),
    ] = None,
    pod_namespace: Annotated[
        str, typer.Option(help="Namespace of the Lease.", envvar="POD_NAMESPACE")
    ] = "default",
    stop_deployment: Annotated[
        str | None,
        typer.Option(
            help=(
                "Run no controller: scale this Deployment of controllers to 0, and wait until its "
                "pods have ended. The chart does it before it is uninstalled."
            )
        ),
    ] = None,
    stop_limit: Annotated[str, typer.Option(help="Time limit of that wait.")] = "3m",
    json_logs: Annotated[bool, typer.Option("--json-logs", help="Log as JSON lines.")] = False,
) -> None:
    """Run the controller: manage StreamApps on the cluster.

    It uses the cluster that it runs in, otherwise the one that KUBECONFIG names. Several
    controllers may run: one is active, the others stand by.
    """
    import asyncio
    import tempfile

    from weir_operator.cluster.process.logs import send_logs
    from weir_operator.cluster.process.running import allow_open_files, run_on_cluster
    from weir_operator.cluster.process.settings import (
        ControllerSettings,
        PrometheusAccess,
        TunerAccess,
    )
    from weir_operator.errors import PermanentError
    from weir_operator.runtime.files import storing
    from weir_operator.tuning.job import read_job

    send_logs(as_json=json_logs)
    if stop_deployment is not None:
        limit = read_duration(stop_limit, "--stop-limit")
        asyncio.run(_stop(stop_deployment, pod_namespace, limit))
        return
    if prometheus_token_file is not None and prometheus_basic_auth is not None:
        raise PermanentError(
            "--prometheus-basic-auth: expected no --prometheus-token-file together with it; "
            "remove one"
        )
    allow_open_files()
    access = None
    if prometheus is not None:
        access = PrometheusAccess(
            url=prometheus,
            token_file=prometheus_token_file,
            password_folder=prometheus_basic_auth,
            headers=read_pairs("--prometheus-header", prometheus_header),
            ca_file=prometheus_ca,
            labels=read_pairs("--prometheus-label", prometheus_label),
        )
    settings = ControllerSettings(
        history=None if history is None else open_history(history),
        agent=None if agent_image is None else _agent_of(agent_image),
        identity=pod_name or _make_identity(),
        own_namespace=pod_namespace,
        state=state,
        namespaces=tuple(namespace or ()),
        prometheus=access,
        health_port=health_port,
        restarts_per_hour=restarts_per_hour,
        tuner=None
        if tuner_job is None
        else TunerAccess(
            template=read_job(tuner_job),
            namespace=tuner_namespace,
            deadline=read_duration(tuner_deadline, "--tuner-deadline"),
        ),
    )
    with storing(state):
        state.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=state):
            pass  # of a folder that is there, making it says nothing
    asyncio.run(run_on_cluster(settings))


async def _stop(deployment: str, namespace: str, limit: float) -> None:
    from weir_operator.api.client import KubernetesApi
    from weir_operator.cluster.process.removal import stop_controllers

    api = await KubernetesApi.connect()
    try:
        await stop_controllers(
            api, namespace=namespace, deployment=deployment, limit=limit, clock=SystemClock()
        )
    finally:
        await api.close()


def _agent_of(image: str) -> AgentImage:
    """Return where the agent is, with the digest of the jar that came with this Weir."""
    from weir_operator.errors import PermanentError
    from weir_operator.flink.agent import digest_of, find_agent
    from weir_operator.runtime.revision import AgentImage

    jar = find_agent()
    if jar is None:
        raise PermanentError(
            "--agent-image: expected Weir's agent beside this Weir, got nothing; leave out the "
            "option, or run `make jars`"
        )
    return AgentImage(image=image, digest=digest_of(jar))


def _make_identity() -> str:
    """Return a name for a process that is no pod."""
    import socket
    import uuid

    return f"{socket.gethostname()}-{uuid.uuid4().hex[:8]}"
