"""Weir in mode Auto beside a job that it does not run, on a Flink that it did not start.

The Flink Kubernetes Operator and its API server are stood in for by an object in memory: a
FlinkDeployment that reports a running job, and the service before Flink. There are no pods. From
Flink 2.0 on, Weir sends the parallelism to the job itself, so nothing is missing.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from copy import deepcopy
from pathlib import Path
from unittest.mock import patch

from benchmarks.policies.live.jobs import (
    FASTER,
    FETCHED_EVERY,
    MEMORY,
    SIZE,
    App,
    describe_in_place,
)
from weir_operator.advise import app as external
from weir_operator.advise import in_place
from weir_operator.advise.flink_deployment import GROUP_VERSION, PATH
from weir_operator.advise.view import name_vertices
from weir_operator.api.client import KubernetesApi, NotFoundError
from weir_operator.api.objects import Body
from weir_operator.clock import SystemClock
from weir_operator.flink.answers import JobDetails
from weir_operator.loop.events import Event
from weir_operator.loop.record import TolerantRecords
from weir_operator.rescale.status import FileStatusStore
from weir_operator.runtime.processes.processes import LOOPBACK
from weir_operator.streamapp.loading import parse_manifest

PERIODS = {
    in_place: ("FLOW_PERIOD", "TRIGGERED_AGAIN"),
    external: ("LOOK_EVERY", "LOOK_AGAIN"),
}
"""Periods of Weir's that no manifest sets."""


class OneDeployment(KubernetesApi):
    """A namespace that holds one FlinkDeployment and its service."""

    def __init__(self, name: str, *, port: int) -> None:
        self._path = PATH.format("default", name)
        resource = {"cpu": float(SIZE), "memory": f"{MEMORY}m"}
        self._objects: dict[str, Body] = {
            self._path: {
                "apiVersion": GROUP_VERSION,
                "kind": "FlinkDeployment",
                "metadata": {"name": name, "namespace": "default", "resourceVersion": "1"},
                "spec": {
                    "flinkConfiguration": {"jobmanager.scheduler": "adaptive"},
                    "jobManager": {"resource": resource},
                    "taskManager": {"resource": resource},
                    "job": {"upgradeMode": "savepoint", "state": "running"},
                },
                "status": {"jobStatus": {"state": "RUNNING"}},
            },
            f"/api/v1/namespaces/default/services/{name}-rest": {
                "metadata": {"name": f"{name}-rest", "namespace": "default"},
                "spec": {"clusterIP": LOOPBACK, "ports": [{"name": "rest", "port": port}]},
            },
        }

    async def get(self, path: str) -> Body:
        if path not in self._objects:
            raise NotFoundError(f"There is no {path}")
        return deepcopy(self._objects[path])

    async def list(self, path: str, labels: str = "", fields: str = "") -> tuple[Body, ...]:
        return ()

    async def apply(
        self,
        path: str,
        body: Body,
        manager: str = "weir",
        *,
        force: bool = True,
        dry_run: bool = False,
    ) -> Body:
        kept = self._objects[path]
        if not dry_run:
            kept["spec"]["flinkConfiguration"] |= body["spec"]["flinkConfiguration"]
            kept["metadata"]["resourceVersion"] = str(int(kept["metadata"]["resourceVersion"]) + 1)
        return deepcopy(kept)


@asynccontextmanager
async def run_weir_in_place(
    app: App, job: JobDetails, folder: Path, *, port: int
) -> AsyncIterator[Callable[[], None]]:
    """Run Weir beside a job until the block is left; give a check that it still runs."""
    folder.mkdir(parents=True)
    api = OneDeployment(app.name, port=port)
    clock, stop = SystemClock(), asyncio.Event()
    log = (folder / "events.txt").open("w")

    def write(event: Event) -> None:
        print(f"{event.time:.1f} {event.reason}: {event.message}", file=log, flush=True)

    records = TolerantRecords(
        folder / "records.sqlite", lambda reason, message: print(reason, message, file=log)
    )
    around = external.ExternalDependencies(
        api=api,
        writer=api,
        store=FileStatusStore(folder / "status.json"),
        records=records,
        folder=folder,
        prometheus=None,
        clock=clock,
        on_found=lambda settings, prices: None,
        on_tick=lambda tick: None,
        on_advice=lambda advice: None,
        on_event=write,
        poll_every=FETCHED_EVERY / FASTER,
    )
    shorter = [
        patch.object(module, name, getattr(module, name) / FASTER)
        for module, names in PERIODS.items()
        for name in names
    ]
    for each in shorter:
        each.start()
    manifest = parse_manifest(describe_in_place(app, name_vertices(job)))
    running = asyncio.create_task(external.ExternalApp(manifest, around).run(stop))

    def check() -> None:
        if running.done():
            running.result()

    try:
        yield check
    finally:
        stop.set()
        await running
        records.close()
        log.close()
        for each in shorter:
            each.stop()
