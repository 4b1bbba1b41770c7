"""A move and the way back, at every point at which they can be cut off or changed from outside.

The API server is in memory and the clock is a fake; `tests/api/in_place/test_move.py` has real
ones.
"""

import copy
import json

import pytest

from weir_operator.errors import PermanentError, TemporaryError
from weir_operator.external import adopt
from weir_operator.external.adopt import MoveRequest, move_with
from weir_operator.external.adoption_plan import Adoption
from weir_operator.external.flink_deployment import PATH, read_deployment
from weir_operator.external.moving import MOVE, Moved, Mover, MoveRecord
from weir_operator.kubernetes.api.objects import Key
from weir_operator.kubernetes.api.testing import MemoryApi
from weir_operator.rescale.testing import FakeClock
from weir_operator.streamapp.testing import a_manifest

DEPLOYMENT = PATH.format("streams", "trips")
APP = Key("streams", "trips").path
FIRST, OF_WEIR = "s3://bucket/first", "s3://bucket/of-weir"
CHANGES = ("create", "patch", "delete")


class Cluster(MemoryApi):
    """An API server with the operator and Weir behind it, which react to a change at once."""

    def __init__(self):
        super().__init__()
        self.rate = "120/s"
        self.requests = 0
        self.fails_at: int | None = None
        """Which request gets no answer, counted from 0."""
        self.is_lost = False
        """Whether that request is carried out all the same."""
        self.put(
            DEPLOYMENT,
            {
                "metadata": {"name": "trips", "uid": "deployment", "annotations": {}},
                "spec": {"job": {"state": "running", "upgradeMode": "last-state"}},
                "status": {"lifecycleState": "STABLE"},
            },
        )

    async def create(self, path, body):
        if path.endswith("/selfsubjectaccessreviews"):
            return {"status": {"allowed": True}}
        return await self._answer(super().create, path, body)

    async def apply(self, path, body, manager="", *, force=True, dry_run=False):
        assert dry_run
        return body

    async def get(self, path):
        return await self._answer(super().get, path)

    async def patch(self, path, body):
        return await self._answer(super().patch, path, body)

    async def delete(self, path, *, uid=None):
        async def delete():
            self._call("delete", path)
            if path in self.objects and uid in (None, self.objects[path]["metadata"]["uid"]):
                del self.objects[path]

        await self._answer(delete)

    async def _answer(self, request, *given):
        number, self.requests = self.requests, self.requests + 1
        if number == self.fails_at and not self.is_lost:
            raise TemporaryError("The API server cannot be reached")
        answer = await request(*given)
        self.react()
        if number == self.fails_at:
            raise TemporaryError("The API server cannot be reached")
        return answer

    def react(self):
        deployment, app = self.objects[DEPLOYMENT], self.objects.get(APP)
        job = deployment["spec"]["job"]
        runs = job["state"] == "running"
        deployment["status"] = {
            "lifecycleState": "STABLE" if runs else "SUSPENDED",
            "jobStatus": {
                "state": "RUNNING" if runs else "FINISHED",
                "upgradeSavepointPath": "" if runs else FIRST,
            },
        }
        assert not (runs and app and app["spec"].get("state") != "Suspended"), "two jobs run"
        if app is not None:
            suspended = app["spec"].get("state") == "Suspended"
            reason = "JobSuspended" if suspended else "JobRunning"
            ready = {
                "type": "Ready",
                "status": "False" if suspended else "True",
                "reason": reason,
                "message": reason,
            }
            app["status"] = {
                "rate": self.rate,
                "conditions": [ready],
                "controller": {"job_id": "5" * 32}
                | ({"suspended": True, "restore_path": OF_WEIR} if suspended else {}),
            }

    @property
    def app(self):
        return self.objects.get(APP)

    @property
    def job(self):
        return self.objects[DEPLOYMENT]["spec"]["job"]

    @property
    def record(self):
        text = self.objects[DEPLOYMENT]["metadata"]["annotations"].get(MOVE)
        return None if text is None else MoveRecord.model_validate_json(text)

    def note(self, **changes):
        """Change the record as another version of Weir would have written it."""
        annotations = self.objects[DEPLOYMENT]["metadata"]["annotations"]
        annotations[MOVE] = json.dumps(json.loads(annotations[MOVE]) | changes)

    def changes(self):
        return [call for call in self.calls if call[0] in CHANGES]


class Scene:
    """A cluster, and the user who moves its job."""

    def __init__(self):
        self.api = Cluster()
        self.said: list[str] = []

    async def move(self):
        request = MoveRequest(
            namespace="streams", name="trips", objective="1s", manifest=None, timeout=60.0
        )
        return await move_with(self.api, request, say=self.said.append, clock=FakeClock())

    async def move_back(self):
        mover = Mover(
            self.api, "streams", "trips", clock=FakeClock(), say=self.said.append, timeout=60.0
        )
        return await mover.move_back()


@pytest.fixture
def scene(monkeypatch):
    async def read(api, request, *, clock=None):
        job = {"jar": "/opt/flink/usrlib/trips.jar"}
        manifest = a_manifest(flink={"job": job, "maxParallelism": 128})
        manifest["metadata"] = {"name": "trips", "namespace": "streams"}
        found = read_deployment(copy.deepcopy(api.objects[DEPLOYMENT]))
        return found, Adoption(manifest=manifest, stops=(), remarks=()), True

    monkeypatch.setattr(adopt, "read_adoption", read)
    return Scene()


async def test_a_move_notes_which_streamapp_it_created_and_that_it_is_done(scene):
    moved = await scene.move()

    assert moved == Moved(savepoint=FIRST, stream_app="trips", already=False)
    assert scene.api.record.uid == scene.api.app["metadata"]["uid"]
    assert scene.api.record.done
    assert scene.api.job["state"] == "suspended"


@pytest.mark.parametrize("change", ["no records", "suspended", "deleted"])
async def test_a_move_that_is_done_is_never_repeated_or_taken_back(scene, change):
    await scene.move()
    if change == "no records":
        scene.api.rate = "0/s"
    elif change == "suspended":
        scene.api.app["spec"]["state"] = "Suspended"
    else:
        del scene.api.objects[APP]
    scene.api.react()
    before = copy.deepcopy(scene.api.objects)
    scene.api.calls.clear()

    moved = await scene.move()

    assert moved == Moved(savepoint=FIRST, stream_app="trips", already=True)
    assert scene.api.changes() == []
    assert scene.api.objects == before


async def test_a_job_that_gets_no_records_is_not_moved_back_but_reported(scene):
    scene.api.rate = "0/s"

    moved = await scene.move()

    assert moved.stream_app == "trips"
    assert scene.api.record.done
    assert scene.said[-1].startswith("Warning: StreamApp trips runs, but no record arrived")


async def test_a_streamapp_that_was_restored_from_another_savepoint_is_stopped_on_the_way_back(
    scene,
):
    await scene.move()
    scene.api.app["spec"]["flink"]["job"] |= {"initialSavepoint": "s3://older", "restoreNonce": 1}

    state = await scene.move_back()

    assert state == OF_WEIR
    assert scene.api.app is None
    assert scene.api.job["state"] == "running"
    assert scene.api.job["initialSavepointPath"] == OF_WEIR
    assert scene.api.job["upgradeMode"] == "last-state"
    assert scene.api.record is None


async def test_beside_another_streamapp_of_the_name_the_flink_deployment_does_not_run(scene):
    await scene.move()
    del scene.api.objects[APP]
    other = a_manifest(flink={"job": {"jar": "a.jar", "initialSavepoint": FIRST}})
    scene.api.put(APP, {**other, "metadata": {"name": "trips", "uid": "another"}})

    with pytest.raises(PermanentError, match=r"expected uid .*, got uid another\."):
        await scene.move_back()

    assert scene.api.job["state"] == "suspended"
    assert scene.api.app["metadata"]["uid"] == "another"
    assert "state" not in scene.api.app["spec"]


async def test_a_record_without_a_uid_is_known_by_its_savepoint_or_refused(scene):
    await scene.move()
    older = scene.api.record.model_dump(exclude={"uid", "done", "had_records"})
    scene.api.objects[DEPLOYMENT]["metadata"]["annotations"][MOVE] = json.dumps(
        older | {"flows": True}
    )
    scene.api.app["spec"]["flink"]["job"]["initialSavepoint"] = "s3://older"
    with pytest.raises(PermanentError, match=f"initialSavepoint {FIRST}, got .* s3://older"):
        await scene.move_back()
    refused = copy.deepcopy(scene.api.job), scene.api.app is not None

    scene.api.app["spec"]["flink"]["job"]["initialSavepoint"] = FIRST
    state = await scene.move_back()

    assert refused == ({"state": "suspended", "upgradeMode": "savepoint"}, True)
    assert state == OF_WEIR
    assert scene.api.app is None


async def test_a_streamapp_that_is_deleted_during_the_move_is_not_created_again(scene):
    await scene.move()
    scene.api.note(done=False)
    del scene.api.objects[APP]

    with pytest.raises(PermanentError, match="StreamApp trips was deleted during the move"):
        await scene.move()

    assert scene.api.app is None
    assert scene.api.job["state"] == "running"


@pytest.mark.parametrize("is_lost", [False, True])
async def test_one_request_without_an_answer_changes_nothing_about_a_move(scene, is_lost):
    await scene.move()
    requests = scene.api.requests

    for number in range(requests):  # each in turn fails, or is carried out without an answer
        scene.api = Cluster()
        scene.api.fails_at, scene.api.is_lost = number, is_lost
        moved = await scene.move()
        record, app = scene.api.record, scene.api.app

        assert record is not None
        assert app is not None
        assert (moved.savepoint, moved.already) == (FIRST, False)
        assert (record.uid, record.done, record.back) == (app["metadata"]["uid"], True, False)
        assert app["spec"]["flink"]["job"]["initialSavepoint"] == FIRST
    assert requests > 10


@pytest.mark.parametrize("is_lost", [False, True])
async def test_one_request_without_an_answer_changes_nothing_about_the_way_back(scene, is_lost):
    await scene.move()
    moved = copy.deepcopy(scene.api.objects)
    scene.api.requests = 0
    await scene.move_back()
    requests = scene.api.requests

    for number in range(requests):
        scene.api = Cluster()
        scene.api.objects = copy.deepcopy(moved)
        scene.api.fails_at, scene.api.is_lost = number, is_lost

        assert await scene.move_back() == OF_WEIR
        assert (scene.api.app, scene.api.record) == (None, None)
        assert scene.api.job == {
            "state": "running",
            "upgradeMode": "last-state",
            "initialSavepointPath": OF_WEIR,
            "savepointRedeployNonce": 1,
        }
    assert requests > 8


async def test_a_move_without_an_api_server_is_not_taken_back_and_continues(scene, monkeypatch):
    create = Cluster.create

    async def create_and_end(api, path, body):
        answer = await create(api, path, body)
        api.away = path.endswith("/streamapps")
        return answer

    with monkeypatch.context() as ending:
        ending.setattr(Cluster, "create", create_and_end)
        with pytest.raises(TemporaryError, match="run the same command again"):
            await scene.move()
    scene.api.away = False
    left = scene.api.record, scene.api.job["state"]
    moved = await scene.move()

    assert (left[0].back, left[0].done, left[1]) == (False, False, "suspended")
    assert moved == Moved(savepoint=FIRST, stream_app="trips", already=False)
    assert scene.api.record.done
