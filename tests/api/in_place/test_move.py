"""The commands that `weir adopt` prints move a job to a StreamApp and back, and nothing is lost.

A shell runs them as they are printed. Real are kubectl, the API server, the operator's
CustomResourceDefinition, Flink on both sides, and Weir's controller. The operator is stood in for
by `SuspendingOperator`; Weir's Flink runs as processes of this machine instead of pods.
"""

import asyncio
import json
import re
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from tests.api.client import Kube
from tests.api.controller.conftest import Bench
from tests.api.in_place.conftest import (
    JOB,
    WithService,
    a_flink_deployment,
    parallelism_of,
    split,
)
from tests.operator.flink.output import committed_lines
from tests.operator.runtime.waiting import until
from tests.operator.streamapp.builders import a_manifest
from weir_operator.advise.adopt import AdoptionRequest, show_with
from weir_operator.advise.adoption_plan import describe_move
from weir_operator.advise.flink_deployment import read_deployment
from weir_operator.clock import SystemClock, wait_until
from weir_operator.cluster.app.context import AppDependencies
from weir_operator.cluster.process.process import compile_default_policy
from weir_operator.errors import TemporaryError
from weir_operator.flink.agent import find_agent
from weir_operator.flink.answers import JobState
from weir_operator.flink.commands import Installation
from weir_operator.flink.jars import REPOSITORY, build_jar, find_java, flink_home
from weir_operator.flink.rest import FlinkRest
from weir_operator.runtime.processes.runtime import LocalRuntime
from weir_operator.runtime.settings import LocalSettings

pytestmark = [pytest.mark.kubernetes_api, pytest.mark.flink, pytest.mark.timeout(1200)]

READINGS = REPOSITORY / "tests/operator/runtime/unmodified/Readings.java"
RECORDS = 12000
RATE = 120
CONFIG = {
    "execution.checkpointing.interval": "1 s",
    # Started fast, and silent for a while on a busy machine.
    "env.java.opts.all": "-XX:TieredStopAtLevel=1",
    "heartbeat.timeout": "120000",
    "heartbeat.rpc-failure-threshold": "-1",
}


@pytest.fixture(scope="module")
def readings_jar(tmp_path_factory):
    folder = tmp_path_factory.mktemp("jars")
    return Path(build_jar([READINGS], folder / "readings.jar", entry_class="Readings"))


class SuspendingOperator:
    """Does what the operator does when `spec.job.state` changes: see `AbstractJobReconciler`.

    Suspended, it stops the job with a savepoint and leaves the JobManager. Running again, it starts
    from the savepoint in its status or, if the nonce has changed, from `initialSavepointPath`.
    """

    def __init__(self, kube: Kube, path, rest, jar, *, arguments):
        self.kube, self.path, self.rest, self.jar = kube, path, rest, jar
        self.arguments = arguments
        self.job, self.nonce = JOB, None
        self.starts: list[str | None] = []
        self.runs, self.savepoint = False, None

    async def start(self, savepoint=None):
        await self.rest.run_jar(
            await self.rest.upload_jar(str(self.jar)),
            job_id=self.job,
            arguments=self.arguments,
            parallelism=2,
            savepoint_path=savepoint,
        )
        self.runs = True
        self.starts.append(savepoint)

    async def run(self):
        while True:
            with suppress(TemporaryError):
                await self._reconcile()
            await asyncio.sleep(0.2)

    async def _reconcile(self):
        found = (await self.kube.get(self.path)).body
        job = found["spec"]["job"]
        if job["state"] == "suspended" and self.runs:
            trigger = uuid.uuid4().hex
            await self.rest.stop_with_savepoint(self.job, trigger_id=trigger)

            async def path():
                kept = await self.rest.savepoint_status(self.job, trigger)
                return kept.path if kept else None

            self.savepoint = await until(path)
            self.runs = False
        if job["state"] == "running" and not self.runs:
            nonce = job.get("savepointRedeployNonce")
            start = job["initialSavepointPath"] if nonce != self.nonce else self.savepoint
            self.nonce, self.job = nonce, uuid.uuid4().hex
            assert job["upgradeMode"] == "savepoint", "another mode could drop the state"
            await self.start(start)
        status = {
            "lifecycleState": "STABLE" if self.runs else "SUSPENDED",
            "observedGeneration": found["metadata"]["generation"],
            "jobStatus": {
                "state": "RUNNING" if self.runs else "FINISHED",
                "jobId": self.job,
                "upgradeSavepointPath": self.savepoint,
            },
        }
        await self.kube.merge(f"{self.path}/status", {"status": status})


class Cast:
    """Who plays in a test: the operator, and the user who moves the job."""

    def __init__(self, kube, api, operator, folder):
        self.kube, self.api, self.operator, self.folder = kube, api, operator, folder

    @property
    def path(self):
        return self.operator.path

    async def printed(self):
        """Return what `weir adopt` says for a StreamApp that the user wrote."""
        manifest = {
            "apiVersion": "weir.dev/v1alpha1",
            "kind": "StreamApp",
            "metadata": {"name": "trips"},
            "spec": {
                "mode": "Advise",
                "flink": {
                    "job": {
                        "jar": str(self.operator.jar),
                        "args": self.operator.arguments,
                    },
                    "maxParallelism": 128,
                    "config": CONFIG,
                },
                "rescale": {"startDeadline": "4m", "submitDeadline": "4m"},
                "objective": {"responseTime": "1s"},
                "nodePools": [{"name": "taskmanagers", "sizes": ["1"], "memory": "1Gi"}],
                "operatorManager": {"interval": "5s"},
            },
        }
        file = self.folder / "of the user.yaml"
        file.write_text(json.dumps(manifest))
        request = AdoptionRequest(
            namespace=self.kube.namespace, name="trips", objective="1s", manifest=file
        )
        deployment, found = await show_with(self.api, request)
        assert found.stops == ()
        return describe_move(deployment, found.manifest, str(file))

    async def deployment(self):
        return (await self.kube.get(self.path)).body

    async def app(self):
        found = await self.kube.get(f"{self.kube.stream_apps}/trips")
        return found.body if found.status == 200 else None

    async def written(self):
        """Wait until the job that runs where it was has read all records; return its output."""

        async def finished():
            job = await self.operator.rest.job(self.operator.job)
            return True if job is not None and job.state is JobState.FINISHED else None

        assert await wait_until(finished, clock=SystemClock(), timeout=400.0, period=0.5)
        return sorted(map(int, committed_lines(self.folder / "out")))


@pytest.fixture(scope="module")
def compiled():
    """Compile the policy before a job starts, which would come to its end in the meantime."""
    compile_default_policy()


@pytest.fixture
async def cast(api, kube, flink_deployments, adaptive_flink, readings_jar, tmp_path):
    """A FlinkDeployment whose job runs, with an operator that obeys it; no controller of Weir's."""
    path = f"{flink_deployments}/trips"
    await kube.delete(path)
    made = a_flink_deployment(
        **{"execution.checkpointing.savepoint-dir": f"file://{tmp_path}/savepoints"}
    )
    made["spec"]["job"]["upgradeMode"] = "last-state"  # type: ignore[index]
    made = await kube.create(flink_deployments, made)
    assert made.status == 201, made.message
    await _leave_job_manager(kube, made.body)
    arguments = [str(RECORDS), str(RATE), "1", str(tmp_path / "out")]
    async with FlinkRest(adaptive_flink.url) as rest:
        operator = SuspendingOperator(kube, path, rest, readings_jar, arguments=arguments)
        await operator.start()
        await parallelism_of(rest)
        task = asyncio.create_task(operator.run())
        try:
            yield Cast(kube, WithService(api, adaptive_flink.ports[0]), operator, tmp_path)
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


async def _leave_job_manager(kube, deployment):
    """Create the JobManager's Deployment, which the operator leaves when a job is suspended."""
    meta, labels = deployment["metadata"], {"app": "trips", "component": "jobmanager"}
    owner = {
        "apiVersion": deployment["apiVersion"],
        "kind": deployment["kind"],
        "name": meta["name"],
        "uid": meta["uid"],
    }
    container = {"name": "flink-main-container", "image": "example/trips:1.4"}
    made = await kube.create(
        f"/apis/apps/v1/namespaces/{kube.namespace}/deployments",
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "trips", "ownerReferences": [owner]},
            "spec": {
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
            },
        },
    )
    assert made.status == 201, made.message


class OnThisMachine(AppDependencies):
    """Dependencies of a controller whose Flink runs as processes of this machine."""

    def __init__(self, folder, jar):
        super().__init__(self._open, None)
        self._folder, self._jar, self._opened = folder, jar, {}

    def _open(self, app, resource, guard):
        if resource.uid not in self._opened:
            settings = LocalSettings(
                root=self._folder / "flink-of-weir",
                namespace=app.metadata.namespace,
                name=app.metadata.name,
                installation=Installation(java=Path(find_java()), flink_home=Path(flink_home())),
                job_jar=self._jar,
                cache=REPOSITORY / "build/cache",
                speeds={"taskmanagers/1": 1.0},
                max_parallelism=128,
                agent=find_agent(),
                config=CONFIG,
                start_limit=240.0,
            )
            with ThreadPoolExecutor(1) as thread:  # a loop of its own: this one waits
                opening = thread.submit(lambda: asyncio.run(LocalRuntime.open(settings)))
                self._opened[resource.uid] = opening.result()
        return self._opened[resource.uid]

    async def end(self):
        for each in self._opened.values():
            await each.close()


@asynccontextmanager
async def controller(cast, monkeypatch):
    config = str(cast.kube.kubeconfig)
    monkeypatch.setenv("KUBECONFIG", config)
    monkeypatch.setattr("kubernetes.aio.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", config)
    bench = Bench(cast.kube, cast.folder)
    dependencies = OnThisMachine(cast.folder, cast.operator.jar)
    bench.dependencies = dependencies  # type: ignore[assignment]
    bench.start()
    try:
        yield bench
    finally:
        await bench.close()
        await dependencies.end()


async def test_a_job_moves_to_a_streamapp_and_back_and_every_record_is_written_once(
    compiled, cast, shell, monkeypatch
):
    async with controller(cast, monkeypatch):
        there, back = split(await cast.printed())
        moved = await shell(there)
        app, suspended = await cast.app(), await cast.deployment()
        left = await cast.kube.get(
            f"/apis/apps/v1/namespaces/{cast.kube.namespace}/deployments/trips"
        )

        returned = await shell(back)
        again = await cast.deployment()

    first = suspended["status"]["jobStatus"]["upgradeSavepointPath"]
    assert app["spec"]["flink"]["job"]["initialSavepoint"] == first
    assert first in moved.splitlines()
    assert suspended["spec"]["job"]["state"] == "suspended"
    assert left.status == 404
    assert app["status"]["controller"]["job_id"]
    # The StreamApp's job has run, so its own state is newer than that of the FlinkDeployment.
    _, newer = cast.operator.starts
    assert newer != first
    assert newer in returned.splitlines()
    assert await cast.app() is None
    assert again["spec"]["job"]["upgradeMode"] == "last-state"
    assert await cast.written() == list(range(RECORDS))


@pytest.mark.long
async def test_without_a_savepoint_no_streamapp_is_created_and_the_job_runs_again(
    kube, flink_deployments, shell, tmp_path
):
    path = f"{flink_deployments}/trips"
    file = tmp_path / "trips.yaml"
    manifest = a_manifest(flink={"image": "example/trips:1.4", "job": {"jar": "/trips.jar"}})
    file.write_text(json.dumps(manifest))
    deployment = read_deployment((await kube.get(path)).body)
    there, back = split(describe_move(deployment, manifest, str(file)))
    [instead] = re.findall(r"^#   (kubectl .*)$", back, flags=re.MULTILINE)
    ended = {"status": {"lifecycleState": "SUSPENDED", "jobStatus": {"upgradeSavepointPath": ""}}}
    assert (await kube.merge(f"{path}/status", ended)).status == 200

    with pytest.raises(AssertionError, match="SAVEPOINT: is empty, so no savepoint is known"):
        await shell(there)
    suspended = (await kube.get(path)).body["spec"]["job"]["state"]
    await shell(instead)

    assert suspended == "suspended"
    assert (await kube.get(f"{kube.stream_apps}/{manifest['metadata']['name']}")).status == 404
    assert (await kube.get(path)).body["spec"]["job"]["state"] == "running"


async def test_what_the_api_server_refuses_is_said_before_the_job_is_stopped(
    kube, flink_deployments, shell, tmp_path
):
    path = f"{flink_deployments}/trips"
    file = tmp_path / "trips.yaml"
    manifest = a_manifest(mode="Sometimes")
    file.write_text(json.dumps(manifest))
    before = (await kube.get(path)).body
    there, _ = split(describe_move(read_deployment(before), manifest, str(file)))

    with pytest.raises(AssertionError, match='Unsupported value: "Sometimes"'):
        await shell(there)

    assert (await kube.get(path)).body == before
