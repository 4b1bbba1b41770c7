"""What the chart grants and lets through where nobody asks for more."""

from __future__ import annotations

import pytest

from tests.helm.samples import SAMPLES, container, of_kind
from weir_operator.runtime.pods.configuration import RPC_PORT

READING = {"get", "list"}
INSIDE = {"namespace": "weir"}
ELSEWHERE = {"namespace": "kube-system"}
OUTSIDE = {"namespace": None}


def test_the_default_installation_changes_nothing_beyond_its_own_namespace(render):
    objects = render()

    bound = {each["roleRef"]["name"] for each in of_kind(objects, "ClusterRoleBinding")}
    rules = [
        rule
        for each in of_kind(objects, "ClusterRole")
        if each["metadata"]["name"] in bound
        for rule in each["rules"]
    ]
    assert [(rule["resources"], {*rule["verbs"]}) for rule in rules] == [(["nodes"], READING)]
    assert {each["metadata"]["namespace"] for each in of_kind(objects, "RoleBinding")} == {"weir"}
    assert [arg for arg in container(objects)["args"] if "namespace" in arg] == ["--namespace=weir"]


def test_all_namespaces_are_watched_where_that_is_asked_for_in_words(render):
    objects = render({"watchNamespaces": ["*"]})

    bound = {each["roleRef"]["name"] for each in of_kind(objects, "ClusterRoleBinding")}
    assert bound == {"weir-release-weir", "weir-release-weir-nodes"}
    assert not [arg for arg in container(objects)["args"] if "namespace" in arg]


def lets_out(policy, port, to, *, protocol="TCP"):
    """Return whether a NetworkPolicy lets its pods reach a port of a pod or of an address."""

    def is_port(rule):
        asked = [(each["port"], each.get("protocol", "TCP")) for each in rule["ports"]]
        return (port, protocol) in asked

    def is_peer(peer):
        if "ipBlock" in peer:
            return to["namespace"] is None
        if to["namespace"] is None:
            return False
        selector = peer["namespaceSelector"]
        return all(
            each == {**each, "key": "kubernetes.io/metadata.name", "operator": "In"}
            and to["namespace"] in each["values"]
            for each in selector.get("matchExpressions", [])
        )

    return any(
        is_port(rule) and ("to" not in rule or any(map(is_peer, rule["to"])))
        for rule in policy["spec"]["egress"]
    )


def test_the_controller_reaches_what_it_needs_and_no_other_port(render):
    [policy] = of_kind(render(), "NetworkPolicy")

    assert policy["spec"]["policyTypes"] == ["Ingress", "Egress"]
    for port in (53, 5353):
        assert lets_out(policy, port, ELSEWHERE, protocol="UDP"), "names"
    assert lets_out(policy, 6443, OUTSIDE), "the API server, which is no pod"
    for port in (8081, 9249, RPC_PORT):  # the last for the probe of Flink's own policy
        assert lets_out(policy, port, INSIDE), "Flink"
        assert not lets_out(policy, port, ELSEWHERE), "somebody else's Flink"
        assert not lets_out(policy, port, OUTSIDE)
    for port in (80, 2379, 9090, 10250):
        assert not lets_out(policy, port, ELSEWHERE), port


def test_flink_is_reached_wherever_it_is_watched(render):
    [named] = of_kind(render(SAMPLES["two namespaces"]), "NetworkPolicy")
    [all_of_them] = of_kind(render({"watchNamespaces": ["*"]}), "NetworkPolicy")

    assert lets_out(named, 8081, {"namespace": "rides"})
    assert not lets_out(named, 8081, INSIDE)
    assert lets_out(all_of_them, 8081, {"namespace": "anywhere"})


@pytest.mark.parametrize(
    ("url", "port", "place"),
    [
        ("http://prometheus-operated.monitoring:9090", 9090, ELSEWHERE),
        ("http://mimir-nginx.mimir.svc:80/prometheus", 8080, ELSEWHERE),
        ("http://thanos-query.monitoring.svc.cluster.local:9090", 10902, ELSEWHERE),
        ("https://prometheus.example:9091/north", 9091, OUTSIDE),
        ("https://prometheus.example.com/north", 443, OUTSIDE),
        ("http://user:1@prometheus.example.com", 80, OUTSIDE),
        ("http://[2001:db8::5]:9095", 9095, OUTSIDE),
    ],
)
def test_prometheus_is_reached_inside_and_outside_the_cluster(render, url, port, place):
    [policy] = of_kind(render({"prometheus": {"url": url}}), "NetworkPolicy")

    assert lets_out(policy, port, place)


def test_egress_is_unbounded_where_it_is_switched_off(render):
    [policy] = of_kind(render({"networkPolicy": {"egress": {"enabled": False}}}), "NetworkPolicy")

    assert policy["spec"]["policyTypes"] == ["Ingress"]
    assert "egress" not in policy["spec"]


def test_the_removal_may_stop_the_controllers_deployment_and_nothing_else(render):
    objects = render()

    [role] = [
        each for each in of_kind(objects, "Role") if each["metadata"]["name"].endswith("-removal")
    ]
    assert [
        (rule["resources"], rule.get("resourceNames"), rule["verbs"]) for rule in role["rules"]
    ] == [
        (["deployments"], ["release-weir"], ["get"]),
        (["deployments/scale"], ["release-weir"], ["patch"]),
        (["pods"], None, ["list"]),
    ]
    [job] = of_kind(objects, "Job")
    assert job["metadata"]["annotations"]["helm.sh/hook"] == "pre-delete"
    [removal] = job["spec"]["template"]["spec"]["containers"]
    assert removal["args"] == ["controller", "--stop-deployment=release-weir", "--stop-limit=210s"]


def test_roles_made_by_hand_come_without_a_hook(render):
    objects = render({"rbac": {"create": False}})

    assert of_kind(objects, "Job") == []
