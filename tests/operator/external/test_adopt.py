"""What `weir adopt` reads of a FlinkDeployment's job, and what it does where it cannot."""

import pytest

from weir_operator.errors import TemporaryError
from weir_operator.external.adopt import MoveRequest, read_adoption, show
from weir_operator.external.flink_deployment import PATH
from weir_operator.external.moving import MOVE, MoveRecord
from weir_operator.external.view import view_job
from weir_operator.external.watch import JobWatch
from weir_operator.flink.answers import JobDetails, JobState, Vertex
from weir_operator.kubernetes.api.client import KubernetesApi
from weir_operator.kubernetes.api.testing import MemoryApi
from weir_operator.rescale.testing import FakeClock
from weir_operator.streamapp.pools import NodePool

DEPLOYMENT = PATH.format("streams", "trips")
REQUEST = MoveRequest(
    namespace="streams", name="trips", objective="1s", manifest=None, timeout=60.0
)


class FlinkWithErrors:
    """Flink's REST interface, of which one question gets no answer."""

    def __init__(self, unanswered):
        self.unanswered = unanswered

    async def version(self):
        return self._answer("version", "2.3.0")

    async def counters(self, job, vertex):
        return self._answer("counters", ())

    async def close(self):
        pass

    def _answer(self, question, answer):
        if question == self.unanswered:
            raise TemporaryError(f"Flink did not answer: {question}")
        return answer


@pytest.fixture
def api():
    api = MemoryApi()
    api.put(
        DEPLOYMENT,
        {
            "metadata": {"name": "trips", "namespace": "streams"},
            "spec": {
                "image": "example/trips:1.4",
                "flinkConfiguration": {"state.savepoints.dir": "s3://bucket/trips"},
                "job": {"jarURI": "local:///opt/flink/usrlib/trips.jar", "state": "running"},
            },
        },
    )
    return api


@pytest.fixture
def job_of(monkeypatch):
    """Let the job run on a Flink that leaves a question without an answer."""

    def run(unanswered):
        async def refresh(watch, *, whole=False):
            watch.flink = FlinkWithErrors(unanswered)
            vertex = Vertex(
                id="a",
                name="a",
                parallelism=1,
                max_parallelism=128,
                slot_sharing_group=None,
                tasks={"RUNNING": 1},
            )
            job = JobDetails(
                id="5" * 32,
                name="trips",
                state=JobState.RUNNING,
                started=0.0,
                vertices=(vertex,),
                edges=(),
            )
            pools = (NodePool(name="taskmanagers"),)
            return view_job(job, {"a": ()}, {}, pools=pools, url="")

        monkeypatch.setattr(JobWatch, "refresh", refresh)

    return run


async def test_a_job_that_cannot_be_reached_stops_the_move_with_the_reason(api):
    _, found, had_records = await read_adoption(api, REQUEST, clock=FakeClock())

    (stop,) = found.stops
    assert "services/trips-rest" in stop
    assert not had_records


@pytest.mark.parametrize("unanswered", ["version", "counters"])
async def test_a_check_that_gets_no_answer_is_not_taken_as_passed(api, job_of, unanswered):
    job_of(unanswered)

    with pytest.raises(TemporaryError, match=f"Flink did not answer: {unanswered}"):
        await read_adoption(api, REQUEST, clock=FakeClock())


async def test_a_moved_job_is_not_said_to_be_let_run_again(api, job_of, monkeypatch):
    async def connect():
        return api

    monkeypatch.setattr(KubernetesApi, "connect", connect)
    record = MoveRecord(
        stream_app={"metadata": {"name": "trips"}},
        upgrade_mode=None,
        savepoint_before="",
        had_records=True,
        done=True,
    )
    deployment = await api.get(DEPLOYMENT)
    deployment["metadata"]["annotations"] = {MOVE: record.model_dump_json()}
    deployment["spec"]["job"]["state"] = "suspended"
    api.put(DEPLOYMENT, deployment)

    _, found = await show(REQUEST)

    (stop,) = found.stops
    assert "was moved already" in stop
