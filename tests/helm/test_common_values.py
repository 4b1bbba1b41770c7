"""Names, labels and arguments as most charts let people set them."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from tests.helm.samples import SAMPLES, container, of_kind

COMMON = {"cost-centre": "42", "app.kubernetes.io/name": "overruled"}


def label_sets(thing: Any):
    """Yield every `labels` of metadata, templates of pods in it and in ConfigMaps included."""
    if isinstance(thing, dict):
        if "labels" in thing.get("metadata", {}):
            yield thing["metadata"]["labels"]
        for name, part in thing.items():
            if name in ("job.yaml", "pod.yaml"):
                yield from label_sets(yaml.safe_load(part))
            elif name != "data" or thing.get("kind") == "ConfigMap":
                yield from label_sets(part)
    elif isinstance(thing, list):
        for part in thing:
            yield from label_sets(part)


@pytest.mark.parametrize("sample", [*SAMPLES])
def test_every_object_and_pod_has_the_common_labels_and_keeps_its_own(render, sample):
    values = {**SAMPLES[sample], "commonLabels": COMMON}

    objects = [each for each in render(values) if each["kind"] != "CustomResourceDefinition"]

    for each in objects:
        found = list(label_sets(each))
        assert found, each["kind"]
        for labels in found:
            assert labels["cost-centre"] == "42", each["kind"]
            assert labels["app.kubernetes.io/name"] != "overruled", each["kind"]


@pytest.mark.parametrize("sample", ["defaults", "pipelines with executors"])
def test_nothing_is_selected_by_a_common_label(render, sample):
    """Selectors of a Deployment cannot be changed by an upgrade."""
    before = render(SAMPLES[sample])
    after = render({**SAMPLES[sample], "commonLabels": {"cost-centre": "42"}})

    assert selectors(after) == selectors(before)


def selectors(objects):
    [deployment] = of_kind(objects, "Deployment")
    [service] = of_kind(objects, "Service")
    return (
        deployment["spec"]["selector"],
        service["spec"]["selector"],
        [each["spec"] for each in of_kind(objects, "NetworkPolicy")],
        [each["spec"] for each in of_kind(objects, "PodDisruptionBudget")],
    )


def test_the_controllers_own_labels_of_pods_give_way_to_none_of_the_users(render):
    labels = {"app.kubernetes.io/name": "mine", "team": "streams"}

    [deployment] = of_kind(render({"podLabels": labels}), "Deployment")

    found = deployment["spec"]["template"]["metadata"]["labels"]
    assert found["app.kubernetes.io/name"] == "weir"
    assert found["team"] == "streams"


@pytest.mark.parametrize(
    ("values", "name"),
    [
        ({}, "release-weir"),
        ({"nameOverride": "scaler"}, "release-scaler"),
        ({"nameOverride": "lease"}, "release"),
        ({"nameOverride": "scaler", "fullnameOverride": "whole"}, "whole"),
    ],
)
def test_objects_are_named_as_the_values_say(render, values, name):
    objects = render(values)

    [deployment] = of_kind(objects, "Deployment")
    assert deployment["metadata"]["name"] == name
    # Flink's NetworkPolicies let the controller in by this one.
    pod = deployment["spec"]["template"]["metadata"]["labels"]
    assert pod["app.kubernetes.io/name"] == "weir"


def test_arguments_of_the_users_come_last(render):
    values = {"restartsPerHour": 12, "extraArgs": ["--restarts-per-hour=6"]}

    arguments = container(render(values))["args"]

    assert arguments[-1] == "--restarts-per-hour=6"
    assert "--restarts-per-hour=12" in arguments
