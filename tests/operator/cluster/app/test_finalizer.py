"""What keeps a deleted StreamApp, and for how long."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.operator.streamapp.builders import a_manifest
from weir_operator.api.client import RefusedByKubernetesError
from weir_operator.api.objects import Resource
from weir_operator.cluster.app.context import ControllerContext
from weir_operator.cluster.app.finalizer import SAVEPOINT_TIMEOUT, finalize_app
from weir_operator.cluster.status.telemetry import Telemetry


class RefusingApi:
    """An API server with a policy that refuses all writes of a status."""

    def __init__(self, body):
        self._body = body

    async def get(self, path):
        return self._body

    async def replace(self, path, body):
        raise RefusedByKubernetesError("a policy refuses it", 422)


@pytest.fixture
def resource():
    manifest = a_manifest()
    manifest["metadata"] |= {
        "namespace": "streams",
        "uid": "1",
        "generation": 1,
        "resourceVersion": "7",
    }
    return Resource.of(manifest)


@pytest.fixture
def posted():
    return []


@pytest.fixture
def context(resource, posted, tmp_path):
    body = {"metadata": {"uid": "1", "resourceVersion": "7"}, "spec": {}}
    parts: Any = SimpleNamespace(
        api=RefusingApi(body),
        fence=SimpleNamespace(home="weir/weir-controller", term="one/1", check=lambda: None),
        events=SimpleNamespace(post=lambda _, reason, message: posted.append((reason, message))),
        telemetry=Telemetry(),
        state=tmp_path,
    )
    return cast("ControllerContext", parts)


async def test_a_deletion_waits_for_a_status_that_a_policy_refuses(context, resource, posted):
    with pytest.raises(RefusedByKubernetesError):
        await finalize_app(context, resource, deleted_for=SAVEPOINT_TIMEOUT - 1.0)

    assert posted == [("DeletionWaits", "a policy refuses it")]


async def test_it_does_not_wait_for_ever(context, resource, posted):
    await finalize_app(context, resource, deleted_for=SAVEPOINT_TIMEOUT + 1.0)

    [(reason, message)] = posted
    assert reason == "FinalSavepointFailed"
    assert "a policy refuses it" in message
