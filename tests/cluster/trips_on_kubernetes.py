"""The example job on a cluster, steered by hand: no policies, a status in a file."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import yaml

from tests.cluster.conftest import CLAIM, IMAGE, Place
from weir_operator.clock import SystemClock
from weir_operator.errors import TemporaryError
from weir_operator.loop.directives import Directives
from weir_operator.loop.events import Event
from weir_operator.loop.lifecycle import Lifecycle
from weir_operator.rescale.engine import Rescaler
from weir_operator.rescale.flink import FlinkJobs
from weir_operator.rescale.journal import DeploymentMap, RescaleJournal
from weir_operator.rescale.status import FileStatusStore
from weir_operator.runtime.kubernetes.nodes import NodeNotices
from weir_operator.runtime.kubernetes.pods import FlinkPods, Owner
from weir_operator.runtime.kubernetes.runtime import KubernetesRuntime
from weir_operator.runtime.revision import Revision
from weir_operator.streamapp.loading import parse_manifest
from weir_operator.streamapp.models import StreamApp
from weir_operator.wiring import assembly

REPOSITORY = Path(__file__).resolve().parents[2]
NAME = "trips"


def trips_app(
    place: Place, *, rate: float = 10.0, config: Mapping[str, str] | None = None
) -> StreamApp:
    """Return the example's StreamApp as it runs in `place`, with Flink configured so."""
    return parse_manifest(trips_manifest(place, rate=rate, config=config))


def trips_manifest(
    place: Place, *, rate: float = 10.0, config: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Return the same as plain values."""
    manifest: dict[str, Any] = yaml.safe_load(
        (REPOSITORY / "examples/trips/streamapp.yaml").read_text()
    )
    manifest["metadata"] |= {"name": NAME, "namespace": place.namespace}
    flink = manifest["spec"]["flink"]
    flink["image"] = IMAGE
    flink["storage"] = {"claim": CLAIM}
    flink["config"] = dict(config or {})
    flink["jobManager"] = {"cpu": "500m", "memory": "1Gi"}
    flink["job"] |= {"jar": "/opt/flink/usrlib/trips.jar"}
    flink["job"]["args"] = [
        *("--trace", "/opt/flink/usrlib/trace.txt", "--scale", str(rate / 40)),
        *("--at-end", "hold", "--out", f"{place.inside}/out"),
        *("--service.match-ms", "30", "--service.aggregate-ms", "20"),
    ]
    for pool in manifest["spec"]["nodePools"]:
        if pool["name"] == "large":
            pool["nodeSelector"] = {"weir.dev/pool": "large"}
            pool["sizes"] = ["500m", "1"]  # others use the cluster too
    for operator in manifest["spec"]["operators"]:
        if "fixed" not in operator:
            del operator["initial"]
    return manifest


class TripsOnKubernetes:
    """One controller's hold on the job; an async context manager that leaves the job alone."""

    def __init__(self, place: Place, app: StreamApp, initial: DeploymentMap) -> None:
        self._place, self._app, self._initial = place, app, initial
        self.store = FileStatusStore(place.state / "status.json")
        self.clock = SystemClock()
        self.events: list[Event] = []
        self.changes: list[RescaleJournal] = []

    async def __aenter__(self) -> Self:
        """Put together what steers the job."""
        self._stack = AsyncExitStack()
        pods = FlinkPods.of(
            self._app, uid=self._place.owner_uid, controller_namespace=self._place.namespace
        )
        # A ConfigMap stands for the StreamApp: the cluster needs no CRD for these tests.
        owner = Owner(api_version="v1", kind="ConfigMap", name="owner", uid=self._place.owner_uid)
        self.pods = replace(pods, owner=owner)
        self.runtime = KubernetesRuntime(self._place.api, self.pods, NodeNotices(self._place.api))
        self.jobs = FlinkJobs(self.runtime)
        self._stack.push_async_callback(self.jobs.close)
        self.lifecycle = Lifecycle(
            runtime=self.runtime,
            jobs=self.jobs,
            rescaler=Rescaler(
                runtime=self.runtime,
                jobs=self.jobs,
                spec=assembly.job_spec(self._app, beside=self._place.state),
                store=self.store,
                settings=replace(
                    assembly.rescale_settings(self._app),
                    start_deadline=120.0,
                    submit_deadline=90.0,
                ),
                clock=self.clock,
            ),
            store=self.store,
            initial=self._initial,
            initial_savepoint=None,
            clock=self.clock,
            on_event=self.events.append,
            on_change=self.changes.append,
            directives=lambda: Directives(revision=self._revision()),
        )
        return self

    def ask_for(self, app: StreamApp) -> None:
        """Let the manifest be another from the next look on."""
        self._app = app

    def _revision(self) -> Revision:
        job = assembly.job_spec(self._app, beside=self._place.state)
        return assembly.revision_of(self._app, job)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Let go; the job runs on."""
        await self._stack.aclose()

    async def until_running(self, job: str, limit: float = 120.0) -> None:
        """Look after the job until every task of it runs."""
        until = self.clock.now() + limit
        while self.clock.now() < until:
            with suppress(TemporaryError):  # a JobManager that dies answers nothing for a while
                await self.lifecycle.heal()
                progress = await self.jobs.progress(job)
                if progress is not None and progress.running:
                    return
            await asyncio.sleep(0.5)
        raise RuntimeError(f"The job did not run within {limit:g} s")
