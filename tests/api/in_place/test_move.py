"""`weir adopt --move`: a FlinkDeployment's job moves to a StreamApp and back, and nothing is lost.

Real are the API server, the operator's CustomResourceDefinition, Flink on both sides, and Weir's
controller. The operator is stood in for by `SuspendingOperator`; Weir's Flink runs as processes of
this machine instead of pods.
"""

import asyncio
import json
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from tests.api.client import Kube
from tests.api.control_plane import ADMIN, GUEST
from tests.api.controller.conftest import Bench
from tests.api.in_place.conftest import (
    JOB,
    WithService,
    a_flink_deployment,
    parallelism_of,
    until,
)
from weir_operator.clock import SystemClock, wait_until
from weir_operator.errors import PermanentError, TemporaryError
from weir_operator.external.adopt import MoveRequest, move_with
from weir_operator.external.moving import MOVE, Moved, Mover
from weir_operator.flink.agent import find_agent
from weir_operator.flink.answers import JobState
from weir_operator.flink.commands import Installation
from weir_operator.flink.jars import REPOSITORY, build_jar, find_java, flink_home
from weir_operator.flink.rest import FlinkRest
from weir_operator.flink.testing import committed_lines
from weir_operator.kubernetes.process.dependencies import ClusterDependencies
from weir_operator.kubernetes.process.process import compile_default_policy
from weir_operator.runtime.local.runtime import LocalRuntime
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


class Cluster(WithService):
    """An administrator's client that finds Flink, and also changes things."""

    async def create(self, path, body):
        return await self._api.create(path, body)

    async def patch(self, path, body):
        return await self._api.patch(path, body)

    async def delete(self, path, *, uid=None):
        await self._api.delete(path, uid=uid)


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
        self.takes_savepoints = True

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
        if job["state"] == "suspended" and self.runs and self.takes_savepoints:
            trigger = uuid.uuid4().hex
            folder = found["spec"]["flinkConfiguration"]["execution.checkpointing.savepoint-dir"]
            await self.rest.stop_with_savepoint(self.job, trigger_id=trigger, directory=folder)

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


class HurriedClock(SystemClock):
    """The machine's clock, which goes past every time limit while waiting is in vain."""

    def __init__(self, is_in_vain):
        self._is_in_vain, self._ahead = is_in_vain, 0.0

    def monotonic(self):
        return super().monotonic() + self._ahead

    async def sleep(self, seconds):
        await super().sleep(seconds)
        if await self._is_in_vain():
            self._ahead += 1000.0


class Cast:
    """Who plays in a test: the operator, the user who moves the job, and what they say."""

    def __init__(self, kube, api, operator, folder):
        self.kube, self.api, self.operator, self.folder = kube, api, operator, folder
        self.said: list[str] = []

    @property
    def path(self):
        return self.operator.path

    def request(self):
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
        file = self.folder / "streamapp.yaml"
        file.write_text(json.dumps(manifest))
        return MoveRequest(
            namespace=self.kube.namespace,
            name="trips",
            objective="1s",
            manifest=file,
            timeout=300.0,
        )

    async def move(self, clock=None):
        return await move_with(
            self.api,
            self.request(),
            say=self.said.append,
            clock=clock or SystemClock(),
            period=0.2,
        )

    def mover(self):
        return Mover(
            self.api,
            self.kube.namespace,
            "trips",
            clock=SystemClock(),
            say=self.said.append,
            timeout=300.0,
            period=0.2,
        )

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
            yield Cast(kube, Cluster(api, adaptive_flink.ports[0]), operator, tmp_path)
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


class OnThisMachine(ClusterDependencies):
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
    """Run Weir's controller in the namespace."""
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
    compiled, cast, monkeypatch
):
    async with controller(cast, monkeypatch):
        moved = await cast.move()
        app, suspended = await cast.app(), await cast.deployment()
        jobs_of_weir = app["status"]["controller"]["job_id"]
        left = await cast.kube.get(
            f"/apis/apps/v1/namespaces/{cast.kube.namespace}/deployments/trips"
        )

        repeated = await cast.move()
        state = await cast.mover().move_back()
        again = await cast.deployment()

    assert app["spec"]["flink"]["job"]["initialSavepoint"] == moved.savepoint
    assert suspended["status"]["jobStatus"]["upgradeSavepointPath"] == moved.savepoint
    assert suspended["spec"]["job"]["state"] == "suspended"
    record = json.loads(suspended["metadata"]["annotations"][MOVE])
    assert (record["savepoint"], record["done"]) == (moved.savepoint, True)
    assert record["uid"] == app["metadata"]["uid"]
    assert repeated == Moved(savepoint=moved.savepoint, stream_app="trips", already=True)
    assert left.status == 404
    assert jobs_of_weir
    assert record["had_records"]
    assert any("weir adopt trips" in each and "--back" in each for each in cast.said)
    # The StreamApp's job has run, so its own state is newer than that of the FlinkDeployment.
    assert state != moved.savepoint
    assert cast.operator.starts == [None, state]
    assert await cast.app() is None
    assert MOVE not in (again["metadata"].get("annotations") or {})
    assert again["spec"]["job"]["upgradeMode"] == "last-state"
    assert await cast.written() == list(range(RECORDS))


async def test_a_move_that_was_interrupted_continues_and_one_that_fails_is_taken_back(
    cast, monkeypatch
):
    async def die(self, record):
        raise KeyboardInterrupt

    with monkeypatch.context() as interrupted:
        interrupted.setattr(Mover, "_create", die)
        with pytest.raises(KeyboardInterrupt):
            await cast.move()
    begun = json.loads((await cast.deployment())["metadata"]["annotations"][MOVE])
    with pytest.raises(PermanentError, match="not moved: Expected StreamApp trips to run"):
        await cast.move(HurriedClock(cast.app))  # nobody watches StreamApps here

    assert begun["savepoint"] == cast.operator.savepoint
    assert begun["upgrade_mode"] == "last-state"
    assert cast.operator.starts == [None, begun["savepoint"]]
    assert await cast.app() is None
    after = await cast.deployment()
    assert MOVE not in (after["metadata"].get("annotations") or {})
    assert await cast.written() == list(range(RECORDS))


async def test_a_job_that_gives_no_savepoint_runs_on(cast):
    cast.operator.takes_savepoints = False

    async def is_suspended():
        return (await cast.deployment())["spec"]["job"]["state"] == "suspended"

    with pytest.raises(
        PermanentError, match=r"has no savepoint after .*: lifecycleState is STABLE"
    ):
        await cast.move(HurriedClock(is_suspended))

    after = await cast.deployment()
    assert (after["spec"]["job"]["state"], cast.operator.starts) == ("running", [None])
    assert MOVE not in (after["metadata"].get("annotations") or {})
    assert await cast.app() is None


async def test_what_stops_a_move_is_found_before_anything_is_changed(
    kube, flink_deployments, connected
):
    path = f"{flink_deployments}/trips"
    spec = {
        "mode": "Advise",
        "flink": {"ref": {"kind": "FlinkDeployment", "name": "trips"}},
        "objective": {"responseTime": "1s"},
    }
    head = {"apiVersion": "weir.dev/v1alpha1", "kind": "StreamApp"}
    app = {**head, "metadata": {"name": "advice"}, "spec": spec}
    assert (await kube.create(kube.stream_apps, app)).status == 201
    version = (await kube.get(path)).body["metadata"]["resourceVersion"]
    manifest = {**head, "metadata": {"name": "trips"}, "spec": {**spec, "nodePools": [{}]}}

    admin, guest = [
        Mover(
            await connected(token),
            kube.namespace,
            "trips",
            clock=SystemClock(),
            say=print,
            timeout=1.0,
        )
        for token in (ADMIN, GUEST)
    ]
    rights = await guest.find_stops(manifest)
    (other,) = await admin.find_stops(manifest)
    await kube.delete(f"{kube.stream_apps}/advice")
    (invalid,) = await admin.find_stops(manifest)
    with pytest.raises(PermanentError, match="there is no move to take back"):
        await admin.move_back()

    assert "StreamApp advice exists already" in other
    assert "The StreamApp is not valid: spec.nodePools[0].name" in invalid
    assert (await kube.get(path)).body["metadata"]["resourceVersion"] == version
    assert len(rights) == 5
    assert "the right to patch flinkdeployments" in rights[0]
