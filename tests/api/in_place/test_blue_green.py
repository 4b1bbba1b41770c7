"""A FlinkBlueGreenDeployment on a real API server, read with the rights that the chart grants.

Its definition is not in Maven Central, so it is made of the operator's own FlinkDeployment, which
its template has, and of the states that its status can have.
"""

import asyncio

import pytest

from tests.api.control_plane import GUEST
from tests.api.controller.test_controller_with_the_charts_rights import grant, rights
from tests.api.in_place.conftest import a_flink_deployment
from tests.operator.streamapp.builders import a_manifest
from weir_operator.advise.flink_deployment import GROUP_VERSION, refusals
from weir_operator.advise.reference import find_reference
from weir_operator.errors import TemporaryError
from weir_operator.streamapp.loading import parse_manifest

pytestmark = pytest.mark.kubernetes_api

KIND = "FlinkBlueGreenDeployment"
STATES = ["INITIALIZING_BLUE"] + [
    f"{what}_{colour}"
    for what in ("ACTIVE", "SAVEPOINTING", "TRANSITIONING_TO")
    for colour in ("BLUE", "GREEN")
]


@pytest.fixture
def blue_green_definition(flink_deployment_definition):
    """The CustomResourceDefinition."""
    [version] = flink_deployment_definition["spec"]["versions"]
    spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
    template = {"type": "object", "properties": {"spec": spec}}
    state = {"type": "string", "enum": STATES}
    schema = {
        "type": "object",
        "properties": {
            "spec": {"type": "object", "properties": {"template": template}},
            "status": {"type": "object", "properties": {"blueGreenState": state}},
        },
    }
    names = {"kind": KIND, "plural": f"{KIND.lower()}s", "singular": KIND.lower()}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{KIND.lower()}s.flink.apache.org"},
        "spec": {
            "group": "flink.apache.org",
            "names": names,
            "scope": "Namespaced",
            "versions": [
                {
                    "name": "v1beta1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                    "subresources": {"status": {}},
                }
            ],
        },
    }


@pytest.fixture
async def blue_green(kube, flink_deployments, blue_green_definition):
    """The path of a FlinkBlueGreenDeployment `trips`, whose two FlinkDeployments exist."""
    made = await kube.create(
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", blue_green_definition
    )
    assert made.status in (201, 409), made.message
    path = f"/apis/{GROUP_VERSION}/namespaces/{kube.namespace}/{KIND.lower()}s"
    while (await kube.get(path)).status != 200:
        await asyncio.sleep(0.05)
    deployment = a_flink_deployment()
    parent = {
        "apiVersion": GROUP_VERSION,
        "kind": KIND,
        "metadata": {"name": "trips"},
        "spec": {"template": {"spec": deployment["spec"]}},
    }
    made = await kube.create(path, parent)
    assert made.status == 201, made.message
    owner = {
        "apiVersion": GROUP_VERSION,
        "kind": KIND,
        "name": "trips",
        "uid": made.body["metadata"]["uid"],
    }
    for name in ("trips-blue", "trips-green"):
        metadata = {"name": name, "ownerReferences": [owner]}
        child = await kube.create(flink_deployments, {**deployment, "metadata": metadata})
        assert child.status == 201, child.message
        service = {
            "metadata": {"name": f"{name}-rest"},
            "spec": {"ports": [{"name": "rest", "port": 8081}]},
        }
        await kube.create(f"/api/v1/namespaces/{kube.namespace}/services", service)
    return f"{path}/trips"


def an_app(kube, mode="Advise"):
    manifest = a_manifest(mode=mode, flink={"ref": {"kind": KIND, "name": "trips"}})
    manifest["metadata"]["namespace"] = kube.namespace
    return manifest


async def test_the_active_flink_deployment_is_found_with_the_charts_rights(
    kube, connected, blue_green
):
    await grant(kube, rights(kube.namespace))
    api, app, found = await connected(GUEST), parse_manifest(an_app(kube)), {}
    waits = []

    for state in STATES:
        told = await kube.merge(f"{blue_green}/status", {"status": {"blueGreenState": state}})
        assert told.status == 200, told.message
        try:
            found[state] = await find_reference(api, app)
        except TemporaryError as error:
            waits.append(str(error))

    assert {state: each.name for state, each in found.items()} == {
        "ACTIVE_BLUE": "trips-blue",
        "ACTIVE_GREEN": "trips-green",
    }
    assert all("Weir waits until" in sentence for sentence in waits)
    assert len({each.rest_url for each in found.values()}) == 2
    for each in found.values():
        assert each.deployment is not None
        assert any("is a part of" in sentence for sentence in refusals(each.deployment))


async def test_the_api_server_takes_advice_alone_for_a_blue_green_deployment(kube):
    refused = await kube.create(kube.stream_apps, an_app(kube, "Auto"))
    taken = await kube.create(kube.stream_apps, an_app(kube))

    assert refused.status == 422
    assert "would start a second cluster for each change" in refused.message
    assert taken.status == 201, taken.message
