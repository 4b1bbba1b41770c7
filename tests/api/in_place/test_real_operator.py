"""The Flink Kubernetes Operator itself takes what Weir writes, and what `weir adopt` prints.

It scales the running job, and stops it with a savepoint for a move.

Its jars come from Maven Central. It runs as a process beside a real API server, where it makes the
objects of a Flink that nobody starts; the real Flink that it then finds at the address of that
Flink's service runs on this machine. It has a job under the id that the operator chose.

`make versions` runs this with Flink 1.x, whose answers this release of the operator can read.
There, Weir leaves it to the operator to tell the job.
"""

import asyncio
import json
import re
import subprocess
from contextlib import asynccontextmanager

import pytest

from tests.api.in_place.conftest import (
    WithService,
    a_flink_deployment,
    definition_of,
    parallelism_of,
    split,
)
from tests.api.in_place.test_change_in_place import READINGS, RECORDS, Scaled
from tests.operator.runtime.waiting import until
from tests.operator.streamapp.builders import a_manifest
from weir_operator.advise.adopt import AdoptionRequest, show_with
from weir_operator.advise.adoption_plan import describe_move
from weir_operator.advise.flink_deployment import OVERRIDES
from weir_operator.flink.answers import JobState
from weir_operator.flink.jars import REPOSITORY, build_jar, find_java
from weir_operator.flink.rest import FlinkRest
from weir_operator.rescale.journal import Step

pytestmark = [
    pytest.mark.long,
    pytest.mark.kubernetes_api,
    pytest.mark.flink,
    pytest.mark.timeout(900),
]

RUNNABLE = "1.7.0"
"""The newest release of the operator that is in Maven Central as a program."""
POM = f"""\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>dev.weir</groupId><artifactId>operator</artifactId><version>1</version>
  <dependencies><dependency>
    <groupId>org.apache.flink</groupId>
    <artifactId>flink-kubernetes-operator</artifactId>
    <version>{RUNNABLE}</version>
  </dependency></dependencies>
</project>
"""
OPENED = ("java.lang", "java.util", "java.util.concurrent", "java.net", "java.io", "java.time")


@pytest.fixture(scope="module")
def operator_jars():
    """The operator and everything that it needs, of Maven Central."""
    folder = REPOSITORY / f"build/downloads/flink-kubernetes-operator-{RUNNABLE}"
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        pom = folder.with_suffix(".xml")
        pom.write_text(POM)
        command = ["mvn", "-q", "-B", "-f", str(pom), "dependency:copy-dependencies"]
        subprocess.run(
            [*command, f"-DoutputDirectory={folder}", "-DincludeScope=runtime"],
            check=True,
            timeout=600,
        )
    return folder


@asynccontextmanager
async def running_operator(jars, kube, folder):
    """Run the operator for the namespace of a test."""
    folder.mkdir()
    (folder / "flink-conf.yaml").write_text(
        "kubernetes.operator.reconcile.interval: 3 s\n"
        "kubernetes.operator.health.probe.enabled: false\n"
        "kubernetes.operator.observer.progress-check.interval: 1 s\n"
        "kubernetes.operator.observer.rest-ready.delay: 1 s\n"
        f"kubernetes.operator.watched.namespaces: {kube.namespace}\n"
        "kubernetes.operator.job.upgrade.inplace-scaling.enabled: true\n"
    )
    (folder / "hosts").write_text(
        f"127.0.0.1 localhost trips-rest.{kube.namespace} trips-rest.{kube.namespace}.svc\n"
    )
    log = (folder / "operator.log").open("w")
    process = subprocess.Popen(
        [
            str(find_java()),
            "-Xmx400m",
            f"-Djdk.net.hosts.file={folder / 'hosts'}",
            *(f"--add-opens=java.base/{each}=ALL-UNNAMED" for each in OPENED),
            *("-cp", f"{jars}/*", "org.apache.flink.kubernetes.operator.FlinkOperator"),
        ],
        env={
            "KUBECONFIG": str(kube.kubeconfig),
            "FLINK_CONF_DIR": str(folder),
            "OPERATOR_NAMESPACE": kube.namespace,
            "HOME": str(folder),
            "PATH": "/usr/bin:/bin",
        },
        stdout=log,
        stderr=subprocess.STDOUT,
        cwd=folder,
    )
    try:
        yield process
    finally:
        process.terminate()
        await asyncio.to_thread(process.wait)
        log.close()


class Operated:
    """A FlinkDeployment whose job the operator has found running."""

    def __init__(self, kube, path, rest, port, job):
        self.kube, self.path, self.rest, self.port, self.job = kube, path, rest, port, job
        self.job_manager = f"/apis/apps/v1/namespaces/{kube.namespace}/deployments/trips"

    async def status(self):
        return (await self.kube.get(self.path)).body.get("status") or {}


@pytest.fixture
async def operated(kube, flink_deployments, adaptive_flink, operator_jars, tmp_path):
    """The operator with the job that it is to look after."""
    jar = build_jar([READINGS], tmp_path / "readings.jar", entry_class="Readings")
    session_jobs = await kube.create(
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition_of("flinksessionjobs")
    )
    assert session_jobs.status in (201, 409), session_jobs.message
    path, port = f"{flink_deployments}/trips", adaptive_flink.ports[0]
    await kube.delete(path)
    made = a_flink_deployment(
        **{
            "rest.port": str(port),
            # The operator's program writes the autoscaler's ConfigMap even where it scales nothing.
            "job.autoscaler.enabled": "false",
            "state.checkpoints.dir": f"file://{tmp_path}/checkpoints",
            "state.savepoints.dir": f"file://{tmp_path}/savepoints",
        }
    )
    made["spec"]["flinkVersion"] = "v1_18"  # type: ignore[index]
    assert (await kube.create(flink_deployments, made)).status == 201

    async with (
        running_operator(operator_jars, kube, tmp_path / "operator") as operator,
        FlinkRest(adaptive_flink.url) as rest,
    ):
        found = Operated(kube, path, rest, port, "")

        async def is_deployed():
            assert operator.poll() is None, (tmp_path / "operator/operator.log").read_text()[-3000:]
            return (await kube.get(found.job_manager)).status == 200

        await until(is_deployed)
        # There is nobody to start pods: the JobManager is the one on this machine.
        ready = {"replicas": 1, "readyReplicas": 1, "availableReplicas": 1, "updatedReplicas": 1}
        await kube.merge(f"{found.job_manager}/status", {"status": ready})

        async def job_id():
            return ((await found.status()).get("jobStatus") or {}).get("jobId")

        found.job = await until(job_id)
        await rest.run_jar(
            await rest.upload_jar(str(jar)),
            job_id=found.job,
            arguments=[str(RECORDS * 10), "150", "2", str(tmp_path / "out")],
            parallelism=2,
        )
        await parallelism_of(rest, found.job)

        async def is_stable():
            return (await found.status()).get("lifecycleState") == "STABLE"

        await until(is_stable)
        yield found


async def test_the_operator_scales_the_running_job_by_what_weir_writes(api, kube, operated):
    scaled = Scaled(WithService(api, operated.port), kube)
    end = await scaled.to(count=3)
    three = await parallelism_of(operated.rest, operated.job)
    after = await operated.status()
    events = await kube.get(f"/api/v1/namespaces/{kube.namespace}/events")
    await scaled.watch.close()

    assert end.step is Step.DONE, end.failure
    assert 3 in three.values()
    said = {each["message"] for each in events.body["items"]}
    assert "In-place scaling triggered" in said
    last = after["reconciliationStatus"]["lastReconciledSpec"]
    assert OVERRIDES in last
    assert after["jobStatus"]["jobId"] == operated.job


async def test_the_operator_stops_the_job_for_a_move_and_the_commands_read_its_savepoint(
    api, kube, operated, shell, tmp_path
):
    file = tmp_path / "trips.yaml"
    job = {"jar": "/opt/flink/usrlib/trips.jar"}
    app = a_manifest(flink={"image": "example/trips:1.4", "job": job, "maxParallelism": 128})
    app["metadata"]["name"] = "trips"
    file.write_text(json.dumps(app))
    request = AdoptionRequest(namespace=kube.namespace, name="trips", objective="1s", manifest=file)
    deployment, found = await show_with(WithService(api, operated.port), request)
    there, _ = split(describe_move(deployment, found.manifest, str(file)))
    # The last one waits for Weir, which does not run here.
    *until_applied, _ = [line for line in there.splitlines() if line and line[0] != "#"]

    said = await shell("\n".join(until_applied))

    stopped = await operated.rest.job(operated.job)
    made = (await kube.get(f"{kube.stream_apps}/trips")).body
    assert found.stops == ()
    [savepoint] = re.findall(r"^file:.*/savepoints/savepoint-.*$", said, flags=re.MULTILINE)
    assert stopped.state is JobState.FINISHED
    assert (await kube.get(operated.job_manager)).status == 404
    assert made["spec"]["flink"]["job"]["initialSavepoint"] == savepoint
