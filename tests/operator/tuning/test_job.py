"""Tunings as Jobs, against an API server in memory whose Jobs end as a test says."""

import asyncio
import base64
import io
from typing import cast

import pytest

from tests.operator.api.memory_api import MemoryApi
from tests.operator.rescale.fakes import FakeClock
from tests.operator.tuning.fakes import a_request, an_answer
from weir_operator.api.client import KubernetesApi, NotFoundError
from weir_operator.errors import PermanentError, TemporaryError
from weir_operator.tuning.job import JobTuner, read_job
from weir_operator.tuning.protocol import (
    TuningLostError,
    TuningRefusedError,
    unpack_request,
    write_frames,
)

JOBS = "/apis/batch/v1/namespaces/weir/jobs"
MAPS = "/api/v1/namespaces/weir/configmaps"
PODS = "/api/v1/namespaces/weir/pods"
TEMPLATE = {
    "spec": {"template": {"spec": {"containers": [{"name": "tuner", "image": "example/tuner"}]}}}
}
ANSWER = an_answer({"op": 0.05})
RUNNING = None
COMPLETE = {"type": "Complete", "status": "True"}
TOO_LATE = {
    "type": "Failed", "status": "True", "reason": "DeadlineExceeded", "message": "was too late",
}  # fmt: skip
BROKEN = {
    "type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "message": "it failed",
}  # fmt: skip


def framed(answer=ANSWER):
    out = io.StringIO()
    write_frames(answer.model_dump_json(by_alias=True), out)
    return out.getvalue()


class Cluster(MemoryApi):
    """Keeps objects; a Job that was let go ends at the next look, with its pod."""

    def __init__(self, ends=COMPLETE, *, log="", exit_code=0, said=""):
        super().__init__()
        self.ends = ends
        self.log = log or framed()
        self.exit_code = exit_code
        self.said = said
        self.logs = {}
        self.silent = 0

    async def get(self, path):
        self.away = self.silent > 0
        self.silent -= self.away
        job = await super().get(path)
        if job["spec"].get("suspend") or not self.ends:
            return job
        uid = job["metadata"]["uid"]
        self.add_pod(f"of-{uid}", uid=uid, log=self.log, exit_code=self.exit_code, said=self.said)
        return self.put(path, {**job, "status": {"conditions": [self.ends]}})

    async def list(self, path, labels="", fields=""):
        label, wanted = labels.split("=")
        found = await super().list(path)
        return tuple(each for each in found if each["metadata"]["labels"].get(label) == wanted)

    async def delete(self, path, grace=None):
        self.calls.append(("delete", path))
        self.objects.pop(path, None)

    async def read_log(self, path, *, container, most):
        assert path in self.objects
        assert container == "tuner"
        return self.logs[path][:most]

    def add_pod(self, name, *, uid, log, exit_code=0, said=""):
        ended = {"state": {"terminated": {"exitCode": exit_code, "message": said}}}
        phase = "Failed" if exit_code else "Succeeded"
        self.put(
            f"{PODS}/{name}",
            {
                "metadata": {"name": name, "labels": {"batch.kubernetes.io/controller-uid": uid}},
                "status": {"phase": phase, "containerStatuses": [ended]},
            },
        )
        self.logs[f"{PODS}/{name}"] = log

    @property
    def asked(self):
        """What was asked for of Jobs and of their work."""
        return [(verb, path) for verb, path in self.calls if verb != "list"]

    @property
    def jobs(self):
        return [path for path in self.objects if path.startswith(JOBS)]


def tuner_on(cluster, *, clock=None, deadline=600.0, app="streams/trips"):
    return JobTuner(
        cast(KubernetesApi, cluster),
        TEMPLATE,
        namespace="weir",
        app=app,
        deadline=deadline,
        clock=clock or FakeClock(),
    )


async def test_the_work_is_there_before_the_job_may_run_and_the_answer_comes_from_its_log():
    cluster = Cluster()

    answer = await tuner_on(cluster).tune(a_request(), name="v1")

    assert answer == ANSWER
    [job] = [path for verb, path in cluster.asked if verb == "patch"]
    work = f"{MAPS}/{job.rpartition('/')[2]}"
    assert cluster.asked == [
        ("create", JOBS), ("create", MAPS), ("patch", job), ("get", job), ("delete", job),
    ]  # fmt: skip
    packed = base64.b64decode(cluster.objects[work]["binaryData"]["work.json.gz"])
    assert unpack_request(packed) == a_request()


async def test_a_job_is_limited_and_owns_its_work():
    cluster = Cluster(RUNNING)
    tuning = asyncio.create_task(tuner_on(cluster, clock=Patient()).tune(a_request(), name="v1"))
    await until(lambda: ("patch", *cluster.jobs) in cluster.asked)

    job = cluster.objects[cluster.jobs[0]]
    (work,) = [each for path, each in cluster.objects.items() if path.startswith(MAPS)]
    tuning.cancel()
    await asyncio.wait({tuning})

    assert job["spec"]["activeDeadlineSeconds"] == 600
    assert job["spec"]["backoffLimit"] == 0
    assert job["spec"]["suspend"] is False
    assert work["metadata"]["ownerReferences"][0]["uid"] == job["metadata"]["uid"]
    assert TEMPLATE["spec"].keys() == {"template"}  # untouched, for the next one


async def test_cancelling_removes_the_job():
    cluster = Cluster(RUNNING)
    tuning = asyncio.create_task(tuner_on(cluster, clock=Patient()).tune(a_request(), name="v1"))
    await until(lambda: any(verb == "get" for verb, _ in cluster.asked))

    tuning.cancel()
    await asyncio.wait({tuning})

    assert tuning.cancelled()
    assert cluster.jobs == []


async def test_a_controller_that_died_meanwhile_finds_its_job_and_takes_its_answer():
    cluster = Cluster(RUNNING)
    first = Dying(cluster)
    with pytest.raises(PermanentError, match="died"):
        await tuner_on(first).tune(a_request(), name="v1")
    cluster.ends = COMPLETE
    cluster.calls.clear()

    answer = await tuner_on(cluster).tune(a_request(), name="v1")

    assert answer == ANSWER
    assert [verb for verb, _ in cluster.asked] == ["create", "get", "get", "delete"]


async def test_a_job_that_has_other_work_gives_way_to_the_next_attempt():
    cluster = Cluster(RUNNING)
    with pytest.raises(PermanentError, match="died"):
        await tuner_on(Dying(cluster)).tune(a_request(slots=100), name="v1")
    cluster.ends = COMPLETE

    with pytest.raises(TuningLostError, match="got another's"):
        await tuner_on(cluster).tune(a_request(), name="v1")

    assert await tuner_on(cluster).tune(a_request(), name="v1") == ANSWER


# The second has the same CRC-32 as streams/trips.
OTHERS = ["streams/trips2", "evil/acaccaccacacacacaaccaaaaaaccacacaaaaaaaaaaaa"]


@pytest.mark.parametrize("app", OTHERS)
async def test_streamapps_tune_at_once_whatever_their_names(app):
    cluster = Cluster(RUNNING)
    with pytest.raises(PermanentError, match="died"):
        await tuner_on(Dying(cluster)).tune(a_request(slots=100), name="v1")
    (first,) = cluster.jobs
    cluster.ends = COMPLETE

    assert await tuner_on(cluster, app=app).tune(a_request(), name="v1") == ANSWER

    assert cluster.jobs == [first]


@pytest.mark.parametrize("owner", [{"weir.dev/streamapp": "evil/trips"}, {}])
async def test_a_job_of_somebody_else_is_left_alone_whatever_its_name(owner):
    cluster = Cluster(RUNNING)
    with pytest.raises(PermanentError, match="died"):
        await tuner_on(Dying(cluster)).tune(a_request(), name="v1")
    (job,) = cluster.jobs
    cluster.objects[job]["metadata"]["annotations"] = owner

    with pytest.raises(TemporaryError, match="to be of streams/trips"):
        await tuner_on(cluster).tune(a_request(), name="v1")

    assert cluster.jobs == [job]


@pytest.mark.parametrize("error", [asyncio.CancelledError, NotFoundError])
async def test_a_job_whose_owner_was_not_seen_yet_is_not_deleted(error):
    cluster = Cluster(RUNNING)
    with pytest.raises(PermanentError, match="died"):
        await tuner_on(Dying(cluster)).tune(a_request(), name="v1")
    (job,) = cluster.jobs
    cluster.objects[job]["metadata"]["annotations"] = {"weir.dev/streamapp": "evil/trips"}

    with pytest.raises((asyncio.CancelledError, TuningLostError)):
        await tuner_on(Dying(cluster, error("ended"))).tune(a_request(), name="v1")

    assert cluster.jobs == [job]


async def test_work_that_was_left_over_is_replaced():
    cluster = Cluster()
    await tuner_on(cluster).tune(a_request(slots=100), name="v1")  # its work goes later

    await tuner_on(cluster).tune(a_request(), name="v1")

    (work,) = [each for path, each in cluster.objects.items() if path.startswith(MAPS)]
    assert unpack_request(base64.b64decode(work["binaryData"]["work.json.gz"])) == a_request()


@pytest.mark.parametrize("log", ["Numba compiles", framed()[:-40] + "\n"])
async def test_a_log_without_a_whole_answer_is_a_lost_tuning_and_is_not_read_again(log):
    cluster = Cluster(log=log)

    with pytest.raises(TuningLostError, match="Expected"):
        await tuner_on(cluster).tune(a_request(), name="v1")

    assert cluster.jobs == []


async def test_the_pod_of_an_earlier_job_of_the_same_name_is_not_asked():
    cluster = Cluster()
    cluster.add_pod("earlier", uid="uid-0", log="old")

    assert await tuner_on(cluster).tune(a_request(), name="v1") == ANSWER


async def test_work_that_the_pod_refused_is_refused_with_its_sentence():
    cluster = Cluster(BROKEN, exit_code=3, said="a warning\nExpected at most 200 slots\n")

    with pytest.raises(TuningRefusedError, match=r"^Expected at most 200 slots$"):
        await tuner_on(cluster).tune(a_request(), name="v1")

    assert cluster.jobs == []


@pytest.mark.parametrize(("ends", "exit_code"), [(TOO_LATE, 137), (BROKEN, 1)])
async def test_a_job_that_failed_otherwise_is_a_lost_tuning_that_says_why(ends, exit_code):
    cluster = Cluster(ends, exit_code=exit_code, said="Killed")

    with pytest.raises(TuningLostError, match=ends["message"]):
        await tuner_on(cluster).tune(a_request(), name="v1")

    assert cluster.jobs == []


async def test_a_job_that_nobody_ends_is_given_up_after_its_deadline():
    cluster, clock = Cluster(RUNNING), FakeClock(now=0.0)

    with pytest.raises(TuningLostError, match="to end in time"):
        await tuner_on(cluster, clock=clock, deadline=600.0).tune(a_request(), name="v1")

    assert 600 < clock.now() < 700
    assert cluster.jobs == []


async def test_an_api_server_that_is_away_for_a_while_costs_nothing():
    cluster = Cluster()
    cluster.silent = 3

    assert await tuner_on(cluster).tune(a_request(), name="v1") == ANSWER


async def test_a_job_that_somebody_removed_is_a_lost_tuning():
    cluster = Cluster(RUNNING)
    tuning = asyncio.create_task(tuner_on(cluster, clock=Patient()).tune(a_request(), name="v1"))
    await until(lambda: any(verb == "get" for verb, _ in cluster.asked))

    await cluster.delete(cluster.jobs[0])

    with pytest.raises(TuningLostError, match="no longer exists"):
        await tuning


async def test_work_that_fits_into_no_config_map_is_refused_before_anything_is_made():
    cluster = Cluster()
    rates = tuple(float(f"{(7919 * i) % 99991}.{i % 97}") for i in range(200_000))
    large = a_request().model_copy(update={"rates": rates})

    with pytest.raises(TuningRefusedError, match="fit to fewer days"):
        await tuner_on(cluster).tune(large, name="v1")

    assert cluster.asked == []


@pytest.mark.parametrize(
    "text",
    [
        "",
        "kind: Job",
        ": :",
        "spec: {template: {spec: {containers: [{name: other, image: example/other}]}}}",
    ],
)
def test_a_template_that_is_no_job_with_a_tuner_is_refused(tmp_path, text):
    path = tmp_path / "job.yaml"
    path.write_text(text)

    with pytest.raises(PermanentError, match="--tuner-job: expected a"):
        read_job(path)


class Patient(FakeClock):
    """Lets the others have a turn in every sleep."""

    async def sleep(self, seconds):
        await asyncio.sleep(0)


class Dying:
    """The way of a controller to the cluster that dies when it first looks at its Job."""

    def __init__(self, cluster, error=None):
        self._cluster = cluster
        self._error = error or PermanentError("died")

    async def get(self, path):
        raise self._error

    def __getattr__(self, name):
        return getattr(self._cluster, name)


async def until(holds):
    async with asyncio.timeout(30):
        while not holds():
            await asyncio.sleep(0)
