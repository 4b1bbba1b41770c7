"""The file for `kubectl apply` is taken by the API server, whole and by itself."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.api.assets import MissingProgramError
from tests.api.client import APPLY_PATCH
from tests.helm.program import find_or_build_helm

pytestmark = pytest.mark.kubernetes_api

REPOSITORY = Path(__file__).parents[2]
GROUPS = {"v1": "/api/v1"}
CLUSTER_WIDE = {"Namespace", "ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition"}
PLURALS = {"NetworkPolicy": "networkpolicies"}


def path_of(each):
    """Return where an object of the manifest is."""
    version, kind = each["apiVersion"], each["kind"]
    plural = PLURALS.get(kind, f"{kind.lower()}s")
    group = GROUPS.get(version, f"/apis/{version}")
    if kind in CLUSTER_WIDE:
        return f"{group}/{plural}/{each['metadata']['name']}"
    return f"{group}/namespaces/{each['metadata']['namespace']}/{plural}/{each['metadata']['name']}"


async def try_to_apply(kube, each):
    query = "dryRun=All&fieldManager=test&force=true"
    return await kube.ask("PATCH", f"{path_of(each)}?{query}", each, content_type=APPLY_PATCH)


async def test_the_api_server_takes_every_object_of_the_manifest(kube):
    try:
        helm = find_or_build_helm()
    except MissingProgramError as error:
        pytest.skip(str(error))
    printed = subprocess.run(
        [REPOSITORY / "scripts/manifest"],
        env={**os.environ, "HELM": str(helm)}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    objects = [each for each in yaml.safe_load_all(printed.stdout) if each]
    namespace, *others = objects
    assert namespace["kind"] == "Namespace"
    assert {"Deployment", "CustomResourceDefinition", "Role"} <= {each["kind"] for each in others}
    assert not [
        each for each in others if "helm.sh/hook" in each["metadata"].get("annotations", {})
    ]

    # Dry runs need the namespace; what is made here is not used by anything.
    made = await kube.apply(path_of(namespace), namespace)
    answers = {path_of(each): await try_to_apply(kube, each) for each in others}
    await kube.delete(path_of(namespace))

    assert made.status in (200, 201)
    assert {path: each.message for path, each in answers.items() if each.status >= 400} == {}
