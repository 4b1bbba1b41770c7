"""The only writer of a status: conflicts, other controllers, crashes."""

from __future__ import annotations

import pytest

from tests.operator.api.memory_api import MemoryApi
from tests.operator.cluster.process.two_controllers import PATH, OpenFence
from weir_operator.api.leader import LeaseLostError
from weir_operator.api.objects import Resource
from weir_operator.cluster.status import store
from weir_operator.cluster.status.store import KubernetesStatusStore, StatusClient
from weir_operator.errors import PermanentError, TemporaryError
from weir_operator.rescale.journal import Kind, plan
from weir_operator.rescale.status import STATE_VERSION, AppStatus


@pytest.fixture
def api():
    api = MemoryApi()
    api.put(PATH, {"metadata": {"namespace": "streams", "name": "trips", "uid": "u1"}, "spec": {}})
    return api


async def open_writer(api, term="one/1", fence=None):
    writer = StatusClient(api, Resource.of(api.objects[PATH]), fence or OpenFence(term))
    await writer.open()
    return writer


def a_status(**changes):
    journal = plan(
        kind=Kind.START, reason="first", now=1.0, source={}, target={"a": {"s/1": 1}}, old_job=None
    )
    return AppStatus(**{"job_id": "j1", "rescale": journal, **changes})


async def test_what_was_saved_is_read_by_the_next_controller(api):
    store = KubernetesStatusStore(await open_writer(api))
    status = a_status(deployments={"a": {"s/1": 2}}, restore_path="s3://p", savepoints=("s3://p",))

    await store.save(status)

    assert KubernetesStatusStore(await open_writer(api, "two/1")).load() == status


@pytest.mark.parametrize(
    ("version", "sentence"),
    [
        (STATE_VERSION + 1, f"got version {STATE_VERSION + 1}, .* install that version"),
        ("2", "as a whole number, got '2'; remove status.controller"),
        (1.5, "as a whole number, got 1.5; remove status.controller"),
        (None, "as a whole number, got None; remove status.controller"),
    ],
)
async def test_a_state_of_another_version_is_left_alone_and_the_sentence_says_what_to_do(
    api, version, sentence
):
    store = KubernetesStatusStore(await open_writer(api))
    await store.save(a_status())
    api.objects[PATH]["status"]["controller"]["version"] = version

    with pytest.raises(PermanentError, match=sentence):
        KubernetesStatusStore(await open_writer(api, "two/1"))

    assert api.objects[PATH]["status"]["controller"]["job_id"] == "j1"


async def test_a_state_from_before_there_were_versions_is_read(api):
    store = KubernetesStatusStore(await open_writer(api))
    status = a_status()
    await store.save(status)
    del api.objects[PATH]["status"]["controller"]["version"]

    assert KubernetesStatusStore(await open_writer(api, "two/1")).load() == status


async def test_what_is_saved_has_the_version_of_who_saves_it(api):
    store = KubernetesStatusStore(await open_writer(api))
    await store.save(a_status())
    api.objects[PATH]["status"]["controller"]["version"] = STATE_VERSION - 1

    store = KubernetesStatusStore(await open_writer(api, "two/1"))
    await store.save(store.load().model_copy(update={"job_id": "j2"}))

    assert api.objects[PATH]["status"]["controller"]["version"] == STATE_VERSION


async def test_a_state_that_cannot_be_read_is_given_up_only_with_a_way_to_the_jobs_own(api):
    store = KubernetesStatusStore(await open_writer(api))
    await store.save(a_status(restore_path="s3://bucket/savepoint-1"))
    status = api.objects[PATH]["status"]
    status["rescale"] = status["rescale"].replace('"kind":"Start"', '"kind":"Unheard"')

    with pytest.raises(PermanentError, match=r"initialSavepoint.*s3://bucket/savepoint-1"):
        KubernetesStatusStore(await open_writer(api, "two/1"))


async def test_a_pool_that_an_operator_left_is_no_longer_in_the_status(api):
    store = KubernetesStatusStore(await open_writer(api))
    await store.save(a_status(deployments={"a": {"small/1": 2}}))

    await store.save(a_status(deployments={"a": {"large/1": 1}}))

    assert api.objects[PATH]["status"]["controller"]["deployments"] == {"a": {"large/1": 1}}


async def test_a_change_by_a_person_in_between_is_no_obstacle(api):
    store = KubernetesStatusStore(await open_writer(api))
    await api.patch(PATH, {"metadata": {"annotations": {"weir.dev/paused": "true"}}})

    await store.save(a_status(job_id="j2"))

    assert api.objects[PATH]["status"]["controller"]["job_id"] == "j2"
    assert api.objects[PATH]["metadata"]["annotations"] == {"weir.dev/paused": "true"}


async def test_who_was_refused_once_is_refused_again_though_it_has_read_the_new_status(api):
    old = KubernetesStatusStore(await open_writer(api, "one/1"))
    new = KubernetesStatusStore(await open_writer(api, "two/1"))
    await new.save(a_status(job_id="new"))

    for _ in range(2):
        with pytest.raises(LeaseLostError):
            await old.save(a_status(job_id="old"))

    assert api.objects[PATH]["status"]["controller"]["writer"] == "two/1"


async def test_a_status_that_was_just_read_or_written_is_not_asked_for_before_a_change(api):
    writer = await open_writer(api)
    before = len(api.calls)

    await writer.confirm()

    assert len(api.calls) == before


async def test_a_status_that_was_read_a_while_ago_is_read_before_a_change(api, monkeypatch):
    lost = []
    fence = OpenFence("one/1")
    writer = StatusClient(
        api, Resource.of(api.objects[PATH]), fence, on_lost=lambda: lost.append(1)
    )
    await writer.open()
    await open_writer(api, "two/1")
    monkeypatch.setattr(store, "CONFIRMED_FOR", 0.0)

    with pytest.raises(LeaseLostError, match=r"one/1.*two/1"):
        await writer.confirm()

    assert lost


async def test_a_change_waits_for_an_api_server_that_does_not_answer(api, monkeypatch):
    writer = await open_writer(api)
    api.away = True
    monkeypatch.setattr(store, "CONFIRMED_FOR", 0.0)

    with pytest.raises(TemporaryError):
        await writer.confirm()


async def test_a_person_who_takes_the_term_away_has_the_status_read_again(api):
    writer = await open_writer(api)
    found = api.objects[PATH]
    api.put(PATH, {**found, "status": {}})

    with pytest.raises(LeaseLostError):
        await writer.write({"rate": "1/s"})
    await writer.open()
    await writer.write({"rate": "1/s"})

    assert api.objects[PATH]["status"]["rate"] == "1/s"


async def test_a_new_controller_shuts_the_old_one_out_before_it_writes_anything_itself(api):
    old = KubernetesStatusStore(await open_writer(api, "one/1"))
    await open_writer(api, "two/1")

    with pytest.raises(LeaseLostError):
        await old.save(a_status())


async def test_nothing_is_written_without_the_lease(api):
    fence = OpenFence("one/1")
    store = KubernetesStatusStore(await open_writer(api, fence=fence))
    before = api.count("replace")
    fence.lost = True

    with pytest.raises(LeaseLostError):
        await store.save(a_status())

    assert api.count("replace") == before
    assert store.load() == AppStatus()


async def test_what_could_not_be_written_is_not_remembered_as_written(api):
    store = KubernetesStatusStore(await open_writer(api))
    await store.save(a_status(job_id="j1"))
    api.away = True

    with pytest.raises(TemporaryError):
        await store.save(a_status(job_id="j2"))

    assert store.load().job_id == "j1"


async def test_an_app_of_the_same_name_made_again_is_another_one(api):
    writer = await open_writer(api)
    api.put(PATH, {"metadata": {"namespace": "streams", "name": "trips", "uid": "u2"}, "spec": {}})

    with pytest.raises(TemporaryError):
        await writer.write({"replicas": 1})


async def test_what_is_written_for_people_leaves_the_journal_alone(api):
    writer = await open_writer(api)
    await KubernetesStatusStore(writer).save(a_status())

    await writer.write({"rate": "120/s"})
    await writer.write({"rate": None})

    status = api.objects[PATH]["status"]
    assert '"reason":"first"' in status["rescale"]
    assert "\n" not in status["rescale"], "one line for people"
    assert "rate" not in status


async def test_a_status_that_stands_already_is_not_written_again(api):
    writer = await open_writer(api)
    await writer.write({"rate": "120/s"})
    before = api.count("replace")

    await writer.write({"rate": "120/s"})

    assert api.count("replace") == before


async def test_a_status_that_is_not_weirs_is_refused_with_a_remedy(api):
    writer = await open_writer(api)
    await writer.write({"rescale": '{"id":7}'})

    with pytest.raises(PermanentError, match=r"status\.controller"):
        KubernetesStatusStore(writer)
