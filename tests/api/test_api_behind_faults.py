"""The controller's API client, with a real server behind a bad network."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.api.control_plane import ADMIN, GUEST
from tests.api.fault_proxy import Cut, Drop, Fault, Hang, LoseAnswer, Refuse, Say
from weir_operator.errors import PermanentError, TemporaryError
from weir_operator.kubernetes.api import client as client_module
from weir_operator.kubernetes.api.client import (
    ATTEMPTS,
    LONGEST_PAUSE,
    ConflictError,
    NotFoundError,
    RefusedByKubernetesError,
)

pytestmark = pytest.mark.kubernetes_api


def a_config_map(name="notes", **data):
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name},
        "data": data,
    }


@pytest.fixture
def maps(kube):
    return f"/api/v1/namespaces/{kube.namespace}/configmaps"


FAULTS: dict[str, Callable[[], Fault]] = {
    "throttled": lambda: Refuse(status=429, retry_after=0),
    "an error": lambda: Refuse(status=500),
    "not available": lambda: Refuse(status=503),
    "no connection": Drop,
    "no answer in time": Hang,
    "a lost answer": LoseAnswer,
    "half an answer": lambda: Cut(after=0),
}


@pytest.mark.parametrize("fault", FAULTS)
async def test_what_is_asked_once_more_is_answered_after_one_fault(api, proxy, kube, maps, fault):
    await kube.create(maps, a_config_map(colour="red"))
    proxy.inject(FAULTS[fault]())

    found = await api.get(f"{maps}/notes")

    assert found["data"] == {"colour": "red"}
    assert proxy.count("GET", "/notes$") == 2


async def test_a_server_that_stays_away_is_a_passing_trouble(api, proxy, maps):
    proxy.inject(Drop(times=None))

    with pytest.raises(TemporaryError, match=r"cannot be reached for GET .*/notes"):
        await api.get(f"{maps}/notes")


async def test_a_server_with_an_error_is_asked_a_few_times(api, proxy, maps):
    proxy.inject(Refuse(status=500, times=None))

    with pytest.raises(TemporaryError, match="a test injected 500"):
        await api.get(f"{maps}/notes")

    assert proxy.count("GET", "/notes$") == ATTEMPTS


async def test_a_server_that_wants_a_long_pause_is_left_alone(api, proxy, maps):
    proxy.inject(Refuse(status=429, retry_after=LONGEST_PAUSE + 1, times=None))

    with pytest.raises(TemporaryError, match="429"):
        await api.get(maps)

    assert proxy.count("GET", "configmaps") == 1


async def test_throttled_creation_is_sent_again_for_it_was_not_looked_at(api, proxy, kube, maps):
    proxy.inject(Refuse(method="POST", status=429, retry_after=0))

    await api.create(maps, a_config_map())

    assert (await kube.get(f"{maps}/notes")).status == 200


async def test_creation_whose_answer_was_lost_is_not_sent_twice(api, proxy, kube, maps):
    proxy.inject(LoseAnswer(method="POST"))

    with pytest.raises(TemporaryError):
        await api.create(maps, a_config_map())

    assert proxy.count("POST", "configmaps") == 1
    assert (await kube.get(f"{maps}/notes")).status == 200
    with pytest.raises(ConflictError):
        await api.create(maps, a_config_map())


async def test_replacing_what_was_changed_in_between_is_a_conflict(api, kube, maps):
    read = await api.create(maps, a_config_map(colour="red"))
    await kube.merge(f"{maps}/notes", {"data": {"colour": "blue"}})

    with pytest.raises(ConflictError):
        await api.replace(f"{maps}/notes", read)

    assert (await kube.get(f"{maps}/notes")).body["data"] == {"colour": "blue"}


async def test_a_replacement_whose_answer_was_lost_ends_as_a_conflict_not_as_a_success(
    api, proxy, kube, maps
):
    """It did happen; whoever asked has to look."""
    read = await api.create(maps, a_config_map(colour="red"))
    proxy.inject(LoseAnswer(method="PUT"))

    with pytest.raises(ConflictError):
        await api.replace(f"{maps}/notes", read | {"data": {"colour": "blue"}})

    assert (await kube.get(f"{maps}/notes")).body["data"] == {"colour": "blue"}


async def test_an_injected_conflict_is_told_and_not_repeated(api, proxy, maps):
    proxy.inject(Refuse(method="PATCH", status=409))

    with pytest.raises(ConflictError):
        await api.patch(f"{maps}/notes", {"data": {"colour": "blue"}})

    assert proxy.count("PATCH", "/notes") == 1


async def test_what_this_manager_leaves_out_is_removed_and_what_others_set_stays(api, kube, maps):
    await api.apply(f"{maps}/notes", a_config_map(colour="red", size="1"))
    await kube.merge(f"{maps}/notes", {"data": {"owner": "somebody"}})

    await api.apply(f"{maps}/notes", a_config_map(colour="blue"))

    data = (await kube.get(f"{maps}/notes")).body["data"]
    assert data == {"colour": "blue", "owner": "somebody"}


async def test_applying_through_lost_answers_makes_one_object(api, proxy, kube, maps):
    proxy.inject(LoseAnswer(method="PATCH"), Refuse(method="PATCH", status=500))

    await api.apply(f"{maps}/notes", a_config_map(colour="red"))

    found = (await kube.get(maps)).body["items"]
    assert [each["data"] for each in found if each["metadata"]["name"] == "notes"] == [
        {"colour": "red"}
    ]


async def test_what_is_gone_needs_no_deletion(api, proxy, maps):
    await api.create(maps, a_config_map())
    proxy.inject(LoseAnswer(method="DELETE"))

    await api.delete(f"{maps}/notes")

    with pytest.raises(NotFoundError):
        await api.get(f"{maps}/notes")
    assert proxy.count("DELETE", "/notes") == 2


async def test_a_list_is_whole_though_a_page_fails(api, proxy, kube, maps, monkeypatch):
    monkeypatch.setattr(client_module, "PAGE", 2)
    for number in range(5):
        marked = a_config_map(f"notes-{number}")
        marked["metadata"]["labels"] = {"weir.dev/app": "trips"}
        await kube.create(maps, marked)
    proxy.inject(Refuse(path="continue=", status=500))

    found = await api.list(maps, labels="weir.dev/app=trips")

    assert [each["metadata"]["name"] for each in found] == [f"notes-{n}" for n in range(5)]
    assert proxy.count("GET", "configmaps") == 4


async def test_something_else_that_listens_there_is_no_api_server(api, proxy, maps):
    proxy.inject(Say(text="<html>Welcome</html>"))

    with pytest.raises(PermanentError, match="something else listening"):
        await api.get(maps)


async def test_what_the_schema_refuses_is_told_in_the_servers_words(api, kube):
    with pytest.raises(RefusedByKubernetesError, match=r"spec\.flink: Required value") as refusal:
        await api.create(
            kube.stream_apps,
            {
                "apiVersion": "weir.dev/v1alpha1",
                "kind": "StreamApp",
                "metadata": {"name": "trips"},
                "spec": {"objective": {"responseTime": "1s"}, "nodePools": [{"name": "small"}]},
            },
        )

    assert refusal.value.status == 422


async def test_missing_rights_are_told_and_not_asked_for_again(connected, proxy, maps):
    guest = await connected(GUEST)

    with pytest.raises(RefusedByKubernetesError, match='User "guest" cannot list'):
        await guest.list(maps)

    assert proxy.count("GET", "configmaps") == 1


async def test_a_token_that_was_replaced_is_read_again(connected, write_kubeconfig, proxy, maps):
    late = await connected("expired")
    write_kubeconfig(ADMIN)

    found = await late.list(maps)

    assert isinstance(found, tuple)
    assert proxy.count("GET", "configmaps") == 2
