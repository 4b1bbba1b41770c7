"""What `weir adopt` reads of a FlinkDeployment's job, and what it does where it cannot."""

import pytest

from tests.operator.api.memory_api import MemoryApi
from tests.operator.flink.builders import a_job
from tests.operator.streamapp.builders import a_manifest
from weir_operator.advise.adopt import AdoptionRequest, show_with
from weir_operator.advise.flink_deployment import PATH
from weir_operator.advise.view import view_job
from weir_operator.advise.watch import JobWatch
from weir_operator.api.client import RefusedByKubernetesError
from weir_operator.api.objects import Key
from weir_operator.errors import TemporaryError
from weir_operator.streamapp.pools import NodePool

DEPLOYMENT = PATH.format("streams", "trips")
REQUEST = AdoptionRequest(namespace="streams", name="trips", objective="1s", manifest=None)


class FlinkWithErrors:
    """Flink's REST interface, of which one question gets no answer."""

    def __init__(self, unanswered):
        self.unanswered = unanswered

    async def version(self):
        return self._answer("version", "2.3.0")

    async def configuration(self):
        return self._answer("configuration", {})

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
            pools = (NodePool(name="taskmanagers"),)
            return view_job(a_job("a"), {"a": ()}, {}, pools=pools, url="")

        monkeypatch.setattr(JobWatch, "refresh", refresh)

    return run


async def test_a_job_that_cannot_be_reached_stops_the_move_with_the_reason(api):
    _, found = await show_with(api, REQUEST)

    (stop,) = found.stops
    assert "services/trips-rest" in stop


async def test_a_check_that_gets_no_answer_is_not_taken_as_passed(api, job_of):
    job_of("version")

    with pytest.raises(TemporaryError, match="Flink did not answer: version"):
        await show_with(api, REQUEST)


async def test_a_moved_job_is_first_of_all_said_to_run_elsewhere(api):
    deployment = await api.get(DEPLOYMENT)
    deployment["spec"]["job"]["state"] = "suspended"
    api.put(DEPLOYMENT, deployment)
    manifest = a_manifest()
    manifest["metadata"]["name"] = "trips"
    api.put(Key("streams", "trips").path, manifest)

    _, found = await show_with(api, REQUEST)

    elsewhere, suspended = found.stops
    assert "StreamApp trips exists already" in elsewhere
    assert "if a StreamApp runs this job now, leave it" in suspended


@pytest.mark.parametrize(
    ("error", "stops"),
    [
        (None, 0),
        (RefusedByKubernetesError("savepointRedeployNonce: field not declared", 500), 1),
        (RefusedByKubernetesError("may not patch", 403), 0),
    ],
)
async def test_an_operator_that_could_not_take_the_job_back_stops_the_move(
    api, job_of, monkeypatch, error, stops
):
    async def apply(path, body, manager="weir", *, force=True, dry_run=False):
        assert (path, dry_run) == (DEPLOYMENT, True)
        if error is not None:
            raise error
        return body

    job_of("")
    monkeypatch.setattr(api, "apply", apply)

    _, found = await show_with(api, REQUEST)

    assert len(found.stops) == stops
    assert all("upgrade it and its CRDs" in each for each in found.stops)


async def test_a_streamapp_that_is_not_valid_stops_the_move(api, job_of):
    deployment = await api.get(DEPLOYMENT)
    deployment["spec"]["job"]["args"] = ["a"] * 2000
    api.put(DEPLOYMENT, deployment)
    job_of("")

    _, found = await show_with(api, REQUEST)

    assert any("The StreamApp is not valid: spec.flink.job.args" in each for each in found.stops)
