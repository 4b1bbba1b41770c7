"""What the API server refuses of a pod template for its types, labels or quantities."""

from __future__ import annotations

from typing import Any

import pytest

from weir_operator.runtime.kubernetes.template_fields import find_wrong_texts, find_wrong_types

HERE = ("podTemplate",)
UNKNOWN_FIELD = "aFieldOfANewerKubernetes"


def in_container(**fields):
    return {"spec": {"containers": [{"name": "a", "image": "a", **fields}]}}


SPREAD = {
    "topologyKey": "zone",
    "maxSkew": 1,
    "whenUnsatisfiable": "ScheduleAnyway",
    "labelSelector": {"matchLabels": {"a": "b/c"}},
}
RIGHT: dict[str, Any] = {
    "metadata": {
        "creationTimestamp": None,
        "labels": {"team": "rides", "example.com/team": "", "a.b-c_D": "1.2_3-X"},
        "annotations": {"Example.com/Notes": "any text at all, ü"},
    },
    "spec": {
        "terminationGracePeriodSeconds": 30,
        "enableServiceLinks": False,
        "nodeSelector": {"disk": "fast"},
        UNKNOWN_FIELD: [1],
        "volumes": [
            {"name": "v", "emptyDir": {"sizeLimit": "1Gi"}},
            {"name": "w", "emptyDir": {}},
            {
                "name": "x",
                "csi": {"driver": "a.example.com", "volumeAttributes": {"limits": "any"}},
            },
        ],
        "containers": [
            {
                "name": "a",
                "image": "a",
                "env": [{"name": "A", "value": "1"}],
                "resources": {"limits": {"cpu": 1, "memory": "1.5Gi"}, "requests": {"cpu": "1e-1"}},
                "livenessProbe": {"httpGet": {"port": 80}, "periodSeconds": 2},
                "readinessProbe": {"httpGet": {"port": "http"}},
            }
        ],
        "affinity": {
            "podAntiAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {
                        "weight": 1,
                        "podAffinityTerm": {
                            "topologyKey": "zone",
                            "labelSelector": {"matchLabels": {"app": "trips"}},
                        },
                    }
                ]
            }
        },
    },
}
WRONG_TYPES = [
    (in_container(env=[{"name": "A", "value": 5}]), "spec.containers.0.env.0.value", "text"),
    (in_container(env=[{"name": "A", "value": True}]), "spec.containers.0.env.0.value", "text"),
    (in_container(env={"A": "5"}), "spec.containers.0.env", "a list"),
    (in_container(args="--fast"), "spec.containers.0.args", "a list"),
    (in_container(command=["sleep", 5]), "spec.containers.0.command.1", "text"),
    (in_container(stdin="yes"), "spec.containers.0.stdin", "true or false"),
    ({"spec": {"terminationGracePeriodSeconds": "30"}}, "spec.terminationGracePeriodSeconds",
     "a whole number"),
    ({"spec": {"terminationGracePeriodSeconds": 30.5}}, "spec.terminationGracePeriodSeconds",
     "a whole number"),
    ({"spec": {"priority": True}}, "spec.priority", "a whole number"),
    ({"spec": {"affinity": "none"}}, "spec.affinity", "a mapping"),
    ({"spec": {"nodeSelector": ["disk"]}}, "spec.nodeSelector", "a mapping"),
    ({"metadata": {"labels": {"team": 5}}}, "metadata.labels.team", "text"),
    ({"metadata": {"annotations": {"a": ["b"]}}}, "metadata.annotations.a", "text"),
]  # fmt: skip
WRONG_TEXTS = [
    ({"metadata": {"labels": {"team": "a b"}}}, "metadata.labels.team", "a b"),
    ({"metadata": {"labels": {"team": "-a"}}}, "metadata.labels.team", "-a"),
    ({"metadata": {"labels": {"team": "a\n"}}}, "metadata.labels.team", "a\n"),
    ({"metadata": {"labels": {"team": "a" * 64}}}, "metadata.labels.team", "a" * 64),
    ({"metadata": {"labels": {"a team": "a"}}}, "metadata.labels", "a team"),
    ({"metadata": {"labels": {"Example.com/team": "a"}}}, "metadata.labels", "Example.com/team"),
    ({"metadata": {"labels": {"a/b/c": "a"}}}, "metadata.labels", "a/b/c"),
    ({"metadata": {"annotations": {"": "a"}}}, "metadata.annotations", ""),
    ({"spec": {"nodeSelector": {"disk": "very fast"}}}, "spec.nodeSelector.disk", "very fast"),
    ({"spec": {"topologySpreadConstraints": [SPREAD]}},
     "spec.topologySpreadConstraints.0.labelSelector.matchLabels.a", "b/c"),
    (in_container(resources={"limits": {"memory": "1 Gi"}}),
     "spec.containers.0.resources.limits.memory", "1 Gi"),
    (in_container(resources={"limits": {"memory": "much"}}),
     "spec.containers.0.resources.limits.memory", "much"),
    ({"spec": {"volumes": [{"name": "v", "emptyDir": {"sizeLimit": "1GB"}}]}},
     "spec.volumes.0.emptyDir.sizeLimit", "1GB"),
]  # fmt: skip


def joined(path):
    return ".".join(map(str, path[1:]))


def test_a_right_template_passes():
    assert list(find_wrong_types(RIGHT, HERE)) == []
    assert list(find_wrong_texts(RIGHT, HERE)) == []


@pytest.mark.parametrize(("template", "path", "expected"), WRONG_TYPES)
def test_a_field_of_another_type_is_found(template, path, expected):
    [mistake] = find_wrong_types(template, HERE)

    assert (joined(mistake.path), mistake.expected) == (path, expected)
    assert mistake.remedy


@pytest.mark.parametrize(("template", "path", "got"), WRONG_TEXTS)
def test_a_text_that_kubernetes_does_not_take_is_found(template, path, got):
    [mistake] = find_wrong_texts(template, HERE)

    assert (joined(mistake.path), mistake.got) == (path, got)
    assert mistake.remedy
