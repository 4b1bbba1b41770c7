"""A real API server takes every object that the chart renders, under restricted pod security."""

from __future__ import annotations

import pytest

from tests.api.client import APPLY_PATCH
from tests.helm.samples import SAMPLES, of_kind

pytestmark = pytest.mark.kubernetes_api

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
RBAC = "/apis/rbac.authorization.k8s.io/v1"

PATHS = {
    "ClusterRole": f"{RBAC}/clusterroles",
    "ClusterRoleBinding": f"{RBAC}/clusterrolebindings",
    "ConfigMap": "/api/v1/namespaces/{}/configmaps",
    "CustomResourceDefinition": CRDS,
    "Deployment": "/apis/apps/v1/namespaces/{}/deployments",
    "CronJob": "/apis/batch/v1/namespaces/{}/cronjobs",
    "Job": "/apis/batch/v1/namespaces/{}/jobs",
    "NetworkPolicy": "/apis/networking.k8s.io/v1/namespaces/{}/networkpolicies",
    "PersistentVolumeClaim": "/api/v1/namespaces/{}/persistentvolumeclaims",
    "Pod": "/api/v1/namespaces/{}/pods",
    "PodDisruptionBudget": "/apis/policy/v1/namespaces/{}/poddisruptionbudgets",
    "PodMonitor": "/apis/monitoring.coreos.com/v1/namespaces/{}/podmonitors",
    "PrometheusRule": "/apis/monitoring.coreos.com/v1/namespaces/{}/prometheusrules",
    "Role": f"{RBAC}/namespaces/{{}}/roles",
    "RoleBinding": f"{RBAC}/namespaces/{{}}/rolebindings",
    "Service": "/api/v1/namespaces/{}/services",
    "ServiceAccount": "/api/v1/namespaces/{}/serviceaccounts",
}
"""Where objects of a kind are made."""


@pytest.fixture
async def prepared(kube):
    """An API server with the samples' namespaces and stubs of the Prometheus operator's CRDs."""
    namespaces = "/api/v1/namespaces"
    restricted = {"pod-security.kubernetes.io/enforce": "restricted"}
    for name in ("weir", "streams", "rides"):
        await kube.create(namespaces, {"metadata": {"name": name, "labels": restricted}})
    for kind in ("PodMonitor", "PrometheusRule"):
        await kube.create(CRDS, a_stub_of(kind))
    for kind in ("PodMonitor", "PrometheusRule"):
        while (await kube.get(PATHS[kind].format("weir"))).status != 200:
            pass  # each look is a request that takes its time
    return kube


def a_stub_of(kind):
    """Return a CRD of the Prometheus operator that takes any fields."""
    plural = f"{kind.lower()}s"
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.monitoring.coreos.com"},
        "spec": {
            "group": "monitoring.coreos.com",
            "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural, "singular": kind.lower()},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {
                        "openAPIV3Schema": {"type": "object", "properties": {"spec": anything}}
                    },
                }
            ],
        },
    }


async def dry_run(kube, thing):
    """Apply an object without keeping it; an unknown field is an error."""
    collection = PATHS[thing["kind"]].format(thing["metadata"].get("namespace", ""))
    return await kube.ask(
        "PATCH",
        f"{collection}/{thing['metadata']['name']}"
        "?fieldManager=helm&force=true&dryRun=All&fieldValidation=Strict",
        thing,
        content_type=APPLY_PATCH,
    )


@pytest.mark.parametrize("sample", SAMPLES)
async def test_every_object_is_accepted(prepared, render, sample):
    objects = render(SAMPLES[sample])

    answers = [(each["kind"], await dry_run(prepared, each)) for each in objects]

    refused = [
        (kind, answer.message) for kind, answer in answers if answer.status not in (200, 201)
    ]
    assert refused == []
    assert len(answers) > 5


@pytest.mark.parametrize("sample", SAMPLES)
async def test_the_pods_keep_restricted_pod_security(prepared, render, sample):
    objects = render(SAMPLES[sample])
    [deployment] = of_kind(objects, "Deployment")
    template = deployment["spec"]["template"]
    metadata = {"name": "controller", "namespace": "weir", "labels": template["metadata"]["labels"]}
    controller = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}

    answer = await dry_run(prepared, controller)

    assert answer.status == 201, answer.message


async def test_a_pod_that_may_gain_rights_would_have_been_refused(prepared, render):
    [test_pod] = of_kind(render(), "Pod")
    test_pod["spec"]["containers"][0]["securityContext"]["allowPrivilegeEscalation"] = True

    answer = await dry_run(prepared, test_pod)

    assert answer.status == 403
    assert "violates PodSecurity" in answer.message
