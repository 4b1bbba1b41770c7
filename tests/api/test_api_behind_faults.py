"""The controller's API client, with a real server behind a bad network."""

from __future__ import annotations

import pytest

from tests.api.fault_proxy import LoseAnswer, Refuse
from weir_operator.errors import TemporaryError
from weir_operator.kubernetes.api.client import (
    ConflictError,
    NotFoundError,
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


async def test_creation_whose_answer_was_lost_is_not_sent_twice(api, proxy, kube, maps):
    proxy.inject(LoseAnswer(method="POST"))

    with pytest.raises(TemporaryError):
        await api.create(maps, a_config_map())

    assert proxy.count("POST", "configmaps") == 1
    assert (await kube.get(f"{maps}/notes")).status == 200
    with pytest.raises(ConflictError):
        await api.create(maps, a_config_map())


async def test_a_replacement_whose_answer_was_lost_ends_as_a_conflict_not_as_a_success(
    api, proxy, kube, maps
):
    """It did happen; whoever asked has to look."""
    read = await api.create(maps, a_config_map(colour="red"))
    proxy.inject(LoseAnswer(method="PUT"))

    with pytest.raises(ConflictError):
        await api.replace(f"{maps}/notes", read | {"data": {"colour": "blue"}})

    assert (await kube.get(f"{maps}/notes")).body["data"] == {"colour": "blue"}


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
