"""A tuning's Job and its work, made of the chart's template with the chart's rights, as a real API
server takes them. No Job runs here: a test says what became of it, and what its log holds.
"""

from __future__ import annotations

import asyncio
import io

import pytest
import yaml

from tests.api.control_plane import GUEST
from tests.api.controller.test_controller_with_the_charts_rights import PATHS, grant
from tests.helm.program import render_chart
from tests.operator.tuning.fakes import a_request, an_answer
from weir_operator.clock import SystemClock
from weir_operator.errors import PermanentError
from weir_operator.tuning import job as tuning_job
from weir_operator.tuning.job import JobTuner
from weir_operator.tuning.protocol import write_frames

pytestmark = pytest.mark.kubernetes_api

NOW = "2026-01-01T00:00:00Z"
ANSWER = an_answer({"op": 0.05})


@pytest.fixture
def rendered(kube):
    """What the chart makes with tunings."""
    return render_chart(kube.namespace, "--set", "tuner.enabled=true")


@pytest.fixture
async def tuner_of(kube, rendered, connected, monkeypatch):
    """Make a tuner that has the rights of the chart's Role `weir-tuner`, and no others."""
    monkeypatch.setattr(tuning_job, "LOOK_EVERY", 0.1)
    of_tuner = [
        each
        for each in rendered
        if each["kind"] in PATHS and each["metadata"]["name"] == "weir-tuner"
    ]
    await grant(kube, of_tuner)
    (template,) = [
        yaml.safe_load(each["data"]["job.yaml"])
        for each in rendered
        if each["kind"] == "ConfigMap" and "job.yaml" in each["data"]
    ]
    guest = await connected(GUEST)
    jobs = f"/apis/batch/v1/namespaces/{kube.namespace}/jobs/none"
    async with asyncio.timeout(30):  # until the API server knows of the Role
        while not await may_delete(guest, jobs):
            await asyncio.sleep(0.1)

    def build(log):
        async def read_log(path, *, container, most):  # here is no kubelet that could
            assert (await guest.list(path.rpartition("/")[0]))[0]["metadata"]["name"] in path
            return log

        monkeypatch.setattr(guest, "read_log", read_log)
        return JobTuner(
            guest,
            template,
            namespace=kube.namespace,
            app="streams/trips",
            deadline=300.0,
            clock=SystemClock(),
        )

    return build


async def may_delete(api, path):
    try:
        await api.delete(path)
    except PermanentError:
        return False
    return True


async def the_job(kube):
    """Return the Job of the namespace, once it may run."""
    path = f"/apis/batch/v1/namespaces/{kube.namespace}/jobs"
    async with asyncio.timeout(60):
        while True:
            jobs = (await kube.get(path)).body["items"]
            if jobs and not jobs[0]["spec"]["suspend"]:
                return path, jobs[0]
            await asyncio.sleep(0.1)


async def end(kube, path, job):
    """Say of a Job and of a pod of it that they are done, as their controllers would."""
    meta = job["spec"]["template"]["metadata"] | {"name": "of-the-tuning"}
    pod = {"metadata": meta, "spec": job["spec"]["template"]["spec"]}
    pods = f"/api/v1/namespaces/{kube.namespace}/pods"
    made = await kube.create(pods, pod)
    assert made.status == 201, made.message
    await kube.merge(f"{pods}/of-the-tuning/status", {"status": {"phase": "Succeeded"}})
    done = [
        {"type": kind, "status": "True", "lastTransitionTime": NOW, "lastProbeTime": NOW}
        for kind in ("SuccessCriteriaMet", "Complete")
    ]
    said = await kube.merge(
        f"{path}/{job['metadata']['name']}/status",
        {
            "status": {
                "startTime": NOW, "completionTime": NOW, "succeeded": 1, "conditions": done,
                "uncountedTerminatedPods": {},
            }
        },
    )  # fmt: skip
    assert said.status == 200, said.message


async def test_a_job_is_made_followed_and_removed_with_the_charts_rights(kube, tuner_of):
    log = io.StringIO()
    write_frames(ANSWER.model_dump_json(by_alias=True), log)
    tuning = asyncio.create_task(tuner_of(log.getvalue()).tune(a_request(), name="v1"))
    path, job = await the_job(kube)
    work = await kube.get(
        f"/api/v1/namespaces/{kube.namespace}/configmaps/{job['metadata']['name']}"
    )

    await end(kube, path, job)

    assert await tuning == ANSWER
    assert (await kube.get(path)).body["items"] == []
    assert work.body["metadata"]["ownerReferences"][0]["uid"] == job["metadata"]["uid"]
    volumes = job["spec"]["template"]["spec"]["volumes"]
    assert {"weir-work", "tmp"} == {each["name"] for each in volumes}
