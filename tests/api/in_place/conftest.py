"""A FlinkDeployment on a real API server, and beside it the Flink that its operator would run.

The definition is the Flink Kubernetes Operator's own, from Maven Central. The operator itself is
stood in for by `StandInOperator`: its image cannot be had where these tests run. There are no pods,
so the service before Flink's REST interface is stood in for, too.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import zipfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest
import yaml

from benchmarks.flink.plain_flink import PlainFlink
from tests.api.assets import MissingProgramError
from tests.docs.kubectl import find_or_build_kubectl
from tests.operator.advise.fakes import a_service
from tests.operator.runtime.waiting import until
from weir_operator.advise.flink import ExternalFlink, ScaledFlink
from weir_operator.advise.flink_deployment import PATH, read_flink_deployment
from weir_operator.api.client import KubernetesApi
from weir_operator.errors import WeirError
from weir_operator.flink.jars import REPOSITORY
from weir_operator.flink.versions import read_version

collect_ignore = [] if "/1." in os.environ.get("WEIR_FLINK_HOME", "") else ["test_real_operator.py"]
"""The newest operator that runs here reads answers of Flink 1.x alone."""
OPERATOR = "1.10.0"
"""The newest release of the operator whose parts are in Maven Central."""
JOB = "5" * 32


def definition_of(plural: str) -> dict[str, object]:
    """Return the operator's CustomResourceDefinition of a kind."""
    folder = REPOSITORY / "build/downloads"
    jar = folder / f"flink-kubernetes-operator-api-{OPERATOR}.jar"
    if not jar.exists():
        artifact = f"org.apache.flink:flink-kubernetes-operator-api:{OPERATOR}:jar"
        command = ["mvn", "-q", "-B", "dependency:copy", f"-Dartifact={artifact}"]
        subprocess.run([*command, f"-DoutputDirectory={folder}"], check=True, timeout=300)
    with zipfile.ZipFile(jar) as archive:
        text = archive.read(f"META-INF/fabric8/{plural}.flink.apache.org-v1.yml")
    return dict(yaml.safe_load(text))


@pytest.fixture(scope="session")
def flink_deployment_definition():
    """The operator's CustomResourceDefinition of FlinkDeployments."""
    return definition_of("flinkdeployments")


def a_flink_deployment(**configuration: str) -> dict[str, object]:
    """Return a FlinkDeployment of a job with the adaptive scheduler."""
    return {
        "apiVersion": "flink.apache.org/v1beta1",
        "kind": "FlinkDeployment",
        "metadata": {"name": "trips"},
        "spec": {
            "image": "example/trips:1.4",
            "flinkVersion": "v1_20",  # the newest that this release of the operator knows
            "serviceAccount": "flink",
            "flinkConfiguration": {
                "jobmanager.scheduler": "adaptive",
                "taskmanager.numberOfTaskSlots": "4",
                **configuration,
            },
            "jobManager": {"resource": {"cpu": 1, "memory": "1024m"}},
            "taskManager": {"resource": {"cpu": 2, "memory": "2048m"}},
            "job": {
                "jarURI": "local:///opt/flink/usrlib/trips.jar",
                "parallelism": 2,
                "upgradeMode": "savepoint",
                "state": "running",
            },
        },
    }


@pytest.fixture
async def flink_deployments(kube, flink_deployment_definition):
    """The path of the namespace's FlinkDeployments, one of which is `trips`."""
    made = await kube.create(
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", flink_deployment_definition
    )
    assert made.status in (201, 409), made.message
    path = PATH.format(kube.namespace, "")[:-1]
    while (await kube.get(path)).status != 200:
        await asyncio.sleep(0.05)
    made = await kube.create(path, a_flink_deployment())
    assert made.status == 201, made.message
    # As the operator reports a job that runs.
    reported = {"status": {"jobStatus": {"state": "RUNNING"}}}
    told = await kube.merge(f"{path}/trips/status", reported)
    assert told.status == 200, told.message
    return path


class WithService(KubernetesApi):
    """The API server's client, to which the service before Flink is on this machine."""

    def __init__(self, api, port):
        self._api = api
        self._port = port

    async def list(self, path, labels="", fields=""):
        return await self._api.list(path, labels, fields)

    async def apply(self, path, body, manager="weir", *, force=True, dry_run=False):
        return await self._api.apply(path, body, manager, force=force, dry_run=dry_run)

    async def get(self, path):
        if path.endswith("/services/trips-rest"):
            return a_service(port=self._port)
        return await self._api.get(path)


class StandInOperator:
    """Does what the Flink Kubernetes Operator does when the overrides of a running job change.

    It sends them to the job as resource requirements with a lower bound of 1, see
    `NativeFlinkService.scale` of the operator.
    """

    def __init__(self, api, namespace, url):
        self._api = api
        self._namespace = namespace
        self._url = url

    async def run(self):
        async with ExternalFlink(self._url) as flink, ScaledFlink(self._url) as client:
            while True:
                with suppress(WeirError):
                    await self._reconcile(flink, client)
                await asyncio.sleep(0.3)

    async def _reconcile(self, flink, client):
        wanted = (await read_flink_deployment(self._api, self._namespace, "trips")).overrides
        for job in await flink.jobs():
            if not job.state.is_over and wanted:
                now = await flink.requirements(job.id)
                then = {vertex: wanted.get(vertex, number) for vertex, number in now.items()}
                if then != now:
                    await client.require(job.id, then)


@asynccontextmanager
async def running_operator(api, namespace, url) -> AsyncIterator[StandInOperator]:
    """Run the stand-in beside a test."""
    operator = StandInOperator(api, namespace, url)
    task = asyncio.create_task(operator.run())
    try:
        yield operator
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def split(printed):
    """Return the commands of the move and those of the way back, with their comments."""
    there, back = printed.split("# The way back", 1)
    return there, f"# The way back{back}"


@pytest.fixture(scope="session")
def kubectl():
    """The program, of the API server's version."""
    try:
        return find_or_build_kubectl()
    except MissingProgramError as error:
        pytest.skip(str(error))


@pytest.fixture
async def shell(kubectl, kube, flink_deployments, tmp_path):
    """Run lines as they are, until one fails; returns what was printed."""

    async def run(lines):
        process = await asyncio.create_subprocess_exec(
            *("bash", "-euo", "pipefail", "-c", lines),
            cwd=tmp_path,
            env={
                "PATH": f"{kubectl.parent}:/usr/bin:/bin",
                "KUBECONFIG": str(kube.kubeconfig),
                "HOME": str(tmp_path),
            },
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        said = (await process.communicate())[0].decode()
        assert process.returncode == 0, said
        return said

    async def knows_flink_deployments():
        with suppress(AssertionError):  # for a moment, the API server does not list a new kind
            return await run(f"kubectl get flinkdeployments --namespace {kube.namespace}")

    await until(knows_flink_deployments)
    return run


@pytest.fixture
async def adaptive_flink(request, tmp_path):
    """A Flink with the adaptive scheduler and four slots, which has no job yet.

    Its parameter is the interval of checkpoints.
    """
    async with PlainFlink(
        folder=tmp_path / "flink",
        memory=1280,
        slots=4,
        user={
            "jobmanager.scheduler": "adaptive",
            "jobmanager.adaptive-scheduler.executing.cooldown-after-rescaling": "1 s",
            "jobmanager.adaptive-scheduler.scaling-interval.min": "1 s",
            "execution.buffer-timeout.interval": "5 ms",
            "execution.checkpointing.interval": getattr(request, "param", "1 s"),
            "execution.checkpointing.dir": f"file://{tmp_path}/checkpoints",
            "execution.checkpointing.savepoint-dir": f"file://{tmp_path}/savepoints",
            "taskmanager.memory.managed.size": "0m",
            "taskmanager.cpu.cores": "2.0",
            "web.refresh-interval": "100",
            "web.adaptive-scheduler.rescale-history.size": "10",  # since Flink 2.3
            "metrics.latency.interval": "200",
            "metrics.fetcher.update-interval": "1000",
        },
    ) as flink:
        yield flink


async def keeps_rescale_history(rest):
    """Return whether this Flink has a history of rescales, which `adaptive_flink` turns on."""
    return read_version(await rest.version()) >= (2, 3)


async def parallelism_of(rest, job=JOB):
    """Return what runs: the parallelism by the vertex's name, once every task runs."""

    async def runs():
        found = await rest.job(job)
        return found if found is not None and found.runs else None

    return {vertex.name: vertex.parallelism for vertex in (await until(runs)).vertices}
