"""What `scale` runs on: a control plane with all StreamApps in it, their jobs, Prometheus.

A StreamApp's job runs before the controller comes: its status says so, and its Deployment and pods
stand in the API server as a controller would have made them. No node runs anything.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import URLError

from benchmarks.controller.scale import world as jobs
from tests.api.client import Kube, session_for
from tests.api.control_plane import ADMIN, ControlPlane
from tests.dashboards.prometheus_server import running_scraper
from weir_operator.clock import SystemClock, wait_until
from weir_operator.runtime.pods import manifests
from weir_operator.runtime.pods.pods import FlinkPods
from weir_operator.streamapp.crd import crd
from weir_operator.streamapp.loading import parse_manifest
from weir_operator.wiring import assembly

SCRAPED_EVERY = 15
"""Seconds between two scrapes of Flink's reporters."""
AT_ONCE = 16
"""Requests to the API server that are under way at once while the stage is set."""
_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def manifest_of(number: int) -> dict[str, Any]:
    """Return a StreamApp in the mode Advise, with the planner as its policy."""
    return {
        "apiVersion": "weir.dev/v1alpha1",
        "kind": "StreamApp",
        "metadata": {"name": jobs.name_of(number), "namespace": jobs.namespace_of(number)},
        "spec": {
            "mode": "Advise",
            "flink": {
                "image": "example/chain:1",
                "job": {"jar": "/opt/flink/usrlib/chain.jar"},
                "storage": {"uri": "s3://flink/state"},
            },
            "objective": {"responseTime": "2s"},
            "nodePools": [
                {"name": jobs.POOL, "sizes": ["500m", "1"], "price": "0.04", "speedup": "1.0"},
                {"name": "large", "sizes": ["1"], "price": "0.06", "speedup": "1.6"},
            ],
            "operators": [{"name": operator} for operator in jobs.OPERATORS],
            "operatorManager": {"interval": "60s", "policy": {"name": "planner"}},
        },
    }


async def set_stage(plane: ControlPlane, apps: int) -> None:
    """Create the CRD, the StreamApps, and what their jobs' objects would be."""
    async with session_for(certificate=plane.certificate, token=ADMIN) as session:
        kube = Kube(session, url=plane.url, namespace="", kubeconfig=Path())
        await define_stream_apps(kube)
        namespaces = sorted({"weir", *(jobs.namespace_of(number) for number in range(apps))})
        for name in namespaces:
            await create(kube, "/api/v1/namespaces", {"metadata": {"name": name}})
        places = iter(range(apps))

        async def work() -> None:
            for number in places:
                await _place(kube, number)

        await asyncio.gather(*(work() for _ in range(AT_ONCE)))


def samples(page: str, name: str) -> Iterator[tuple[dict[str, str], float]]:
    """Yield labels and value of each series of a name on a page of metrics."""
    for line in page.splitlines():
        series, _, value = line.rpartition(" ")
        if series == name:
            yield {}, float(value)
        elif series.startswith(f"{name}{{"):
            pairs = series[len(name) + 1 : -1].rstrip(",").split('",')
            split = (pair.partition("=") for pair in pairs)
            yield {key: text.strip('"') for key, _, text in split}, float(value)


async def _place(kube: Kube, number: int) -> None:
    """Put one StreamApp and the objects of its job into the cluster."""
    manifest = manifest_of(number)
    namespace = jobs.namespace_of(number)
    collection = f"/apis/weir.dev/v1alpha1/namespaces/{namespace}/streamapps"
    made = await create(kube, collection, manifest)
    app = parse_manifest(manifest)
    job = assembly.job_spec(app, beside=Path("/nowhere"))
    revision = assembly.revision_of(app, job)
    status = {
        "controller": {
            "job_id": jobs.job_of(number),
            "deployments": {name: {f"{jobs.POOL}/{jobs.SIZE}": 1} for name in jobs.OPERATORS},
            "revision": revision.model_dump(mode="json"),
        }
    }
    answer = await kube.replace(
        f"{collection}/{jobs.name_of(number)}/status", made | {"status": status}
    )
    if answer.status != 200:
        raise RuntimeError(f"expected the API server to take a status: {answer.message}")
    pods = FlinkPods.of(app, uid=made["metadata"]["uid"], controller_namespace="weir")
    pods = pods.with_revision(revision)
    deployment = manifests.job_manager(pods, "none")
    await create(kube, f"/apis/apps/v1/namespaces/{namespace}/deployments", deployment)
    for operator in jobs.OPERATORS:
        workload = manifests.task_managers(
            pods, operator, jobs.POOL, size=jobs.SIZE, replicas=1, config_map="none"
        )
        template = workload["spec"]["template"]
        pod = {
            "metadata": {**template["metadata"], "name": jobs.pod_of(number, operator)},
            "spec": template["spec"],
        }
        await create(kube, f"/api/v1/namespaces/{namespace}/pods", pod)


async def define_stream_apps(kube: Kube) -> None:
    """Create the CRD and return when StreamApps can be stored."""
    await create(kube, _CRDS, crd())
    while (await kube.get("/apis/weir.dev/v1alpha1/streamapps")).status != 200:
        await asyncio.sleep(0.1)


async def create(kube: Kube, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
    answer = await kube.create(path, body)
    if answer.status != 201:
        raise RuntimeError(f"expected the API server to take {path}: {answer.message}")
    return answer.body


@contextmanager
def running(
    command: Sequence[str], log: Path, environment: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program while the block runs; its words go to a file."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*command],
            stdout=output,
            stderr=output,
            env={**os.environ, **(environment or {})},
        )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextmanager
def running_world(folder: Path, port: int) -> Iterator[str]:
    """Run the jobs' server while the block runs; yield its address."""
    command = (sys.executable, "-m", "benchmarks.controller.scale.world", str(port))
    with running(command, folder / "world.log"):
        yield f"http://127.0.0.1:{port}"


@contextmanager
def running_prometheus(
    folder: Path, port: int, *, world: str, apps: Iterable[int]
) -> Iterator[str]:
    """Run a Prometheus server that scrapes all jobs; yield its address."""
    host = world.removeprefix("http://")
    targets = [
        {
            "targets": [host],
            "labels": {
                "__metrics_path__": f"/metrics/{number}",
                "weir_app": f"{jobs.namespace_of(number)}/{jobs.name_of(number)}",
            },
        }
        for number in apps
    ]
    (folder / "targets.json").write_text(json.dumps(targets))
    job = {
        "job_name": "flink",
        "scrape_interval": f"{SCRAPED_EVERY}s",
        "file_sd_configs": [{"files": [str(folder / "targets.json")]}],
    }
    with running_scraper(folder, job, port=port) as url:
        yield url


async def until_answers(url: str) -> None:
    async def answers() -> bool | None:
        try:
            page = await asyncio.to_thread(urllib.request.urlopen, url, None, 5.0)
        except (URLError, ConnectionError, TimeoutError):
            return None
        with page:
            return True if page.status == 200 else None

    if not await wait_until(answers, clock=SystemClock(), timeout=120):
        raise RuntimeError(f"Expected {url} to answer within two minutes")
