"""Values that cannot be right are refused with the name of the value."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import yaml

from tests.helm.program import CHART

WRONG: Mapping[str, tuple[Mapping[str, Any], str]] = {
    "a value that does not exist": ({"replicaCount": 2}, "replicaCount"),
    "a misspelt value in a section": ({"prometheus": {"adress": "x"}}, "adress"),
    "replicas as text": ({"replicas": "two"}, "/replicas"),
    "fewer than no replicas": ({"replicas": -1}, "/replicas"),
    "a namespace that cannot exist": ({"watchNamespaces": ["My_Streams"]}, "/watchNamespaces/0"),
    "all namespaces and one more": (
        {"watchNamespaces": ["*", "streams"]},
        'watchNamespaces: expected names of namespaces, or "*" alone for all of them, got *, s',
    ),
    "a common label that is a number": ({"commonLabels": {"a": 1}}, "/commonLabels/a"),
    "a name that no object may have": ({"nameOverride": "My_Weir"}, "/nameOverride"),
    "an application without its namespace": (
        {"pipelines": {"apps": ["streams_trips"]}},
        "/pipelines/apps/0",
    ),
    "an empty argument": ({"extraArgs": [""]}, "/extraArgs/0"),
    "a namespace twice": ({"watchNamespaces": ["a", "a"]}, "/watchNamespaces"),
    "no restarts at all": ({"restartsPerHour": 0}, "/restartsPerHour"),
    "an unknown format of logs": ({"logFormat": "xml"}, "/logFormat"),
    "an unknown pull policy": ({"image": {"pullPolicy": "Sometimes"}}, "/image/pullPolicy"),
    "a digest that is none": ({"image": {"digest": "sha256:abc"}}, "/image/digest"),
    "an image without a name": ({"image": {"repository": ""}}, "/image/repository"),
    "a server without a scheme": ({"prometheus": {"url": "prometheus:9090"}}, "/prometheus/url"),
    "a label that Prometheus does not know": (
        {"prometheus": {"url": "http://p", "labels": {"a-b": "c"}}},
        "/prometheus/labels",
    ),
    "the root user": ({"security": {"runAsUser": 0}}, "/security/runAsUser"),
    "a volume that nobody may write to": (
        {"state": {"accessModes": ["ReadOnlyMany"]}},
        "/state/accessModes/0",
    ),
    "a size without a number": ({"state": {"size": "large"}}, "/state/size"),
    "a port out of range": ({"service": {"port": 70000}}, "/service/port"),
    "an address that is no range": (
        {"networkPolicy": {"egress": {"apiServerCIDRs": ["10.0.0.1"]}}},
        "/networkPolicy/egress/apiServerCIDRs/0",
    ),
    "an interval without a unit": (
        {"monitoring": {"podMonitor": {"interval": "30"}}},
        "/monitoring/podMonitor/interval",
    ),
    "a label that is a number": ({"podLabels": {"a": 1}}, "/podLabels/a"),
    "a secret without a name": ({"imagePullSecrets": [{}]}, "/imagePullSecrets/0"),
    "several controllers and one node's volume": (
        {"replicas": 2},
        "replicas: 2 controllers cannot share a state that one node mounts",
    ),
    "executors and one node's volume": (
        {
            "prometheus": {"url": "http://p"},
            "pipelines": {"enabled": True, "executors": {"count": 2}},
        },
        "pipelines.executors.count: 2 executors cannot share tables that one node mounts",
    ),
    "tables that one node mounts for the controller too": (
        {
            "prometheus": {"url": "http://p"},
            "pipelines": {"enabled": True, "tables": {"readByController": True}},
        },
        "the controller and the pipelines cannot share tables that one node mounts",
    ),
    "tables that nobody writes for the controller": (
        {"pipelines": {"tables": {"readByController": True}}},
        "pipelines.tables.readByController: expected tables to read, got none",
    ),
    "history of no server": (
        {"pipelines": {"enabled": True}},
        "pipelines.enabled: expected a Prometheus server",
    ),
    "two tokens": (
        {"prometheus": {"url": "http://p", "tokenFile": "/t", "tokenSecret": {"name": "s"}}},
        "prometheus.tokenFile: expected one token",
    ),
    "a password and a token": (
        {
            "prometheus": {
                "url": "http://p",
                "basicAuthSecret": {"name": "s"},
                "tokenSecret": {"name": "s"},
            }
        },
        "prometheus.basicAuthSecret: expected a password or a token",
    ),
    "the controller's token for other pods": (
        {
            "prometheus": {"url": "http://p", "tokenFile": "/t"},
            "pipelines": {"enabled": True},
        },
        "prometheus.tokenFile: the pods of pipelines",
    ),
    "a password and a token for the history": (
        {
            "pipelines": {
                "prometheus": {
                    "url": "http://p",
                    "basicAuthSecret": {"name": "s"},
                    "tokenSecret": {"name": "s"},
                }
            }
        },
        "pipelines.prometheus.basicAuthSecret: expected a password or a token",
    ),
    "a tenant for no server with history": (
        {"pipelines": {"prometheus": {"headers": {"X-Scope-OrgID": "team-a"}}}},
        "pipelines.prometheus.url: expected the server",
    ),
    "a token for no server": (
        {"prometheus": {"tokenSecret": {"name": "s"}}},
        "prometheus.url: expected the server",
    ),
}


def sections(values: Mapping[str, Any], above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the paths of all sections that have defaults, but amounts, which may be taken away."""
    for name, value in values.items():
        if isinstance(value, dict) and value and name != "resources":
            yield (*above, name)
            yield from sections(value, (*above, name))


SECTIONS = list(sections(yaml.safe_load((CHART / "values.yaml").read_text())))


@pytest.mark.parametrize("path", SECTIONS, ids=".".join)
def test_values_of_an_older_chart_are_refused_with_the_option_that_helps(try_to_render, path):
    values: Any = None
    for name in reversed(path):
        values = {name: values}

    rendered = try_to_render(values)

    assert rendered.returncode != 0
    assert f"{'.'.join(path)}: expected a section, got nothing" in rendered.stderr
    assert "--reset-then-reuse-values" in rendered.stderr


@pytest.mark.parametrize("mistake", WRONG)
def test_a_wrong_value_is_refused_by_its_name(try_to_render, mistake):
    values, named = WRONG[mistake]

    rendered = try_to_render(values)

    assert rendered.returncode != 0
    assert named in rendered.stderr


@pytest.mark.parametrize(
    "schedule",
    [
        "nightly",
        "",
        "20 1 * *",
        "0 20 1 * * *",
        "75 1 * * *",
        "20 24 * * *",
        "50-10 1 * * *",
        "*/0 1 * * *",
        "20, 1 * * *",
        "20 1 * FOO BAR",
        "20 1 1 * *",
        "20 1 * JAN *",
        "20 1 * * MON-FRI",
        "* * * * *",
        "*/1 1 * * *",
        "00-59/01 * * * *",
        "@reboot",
    ],
)
def test_a_schedule_that_is_none_or_leaves_days_out_is_refused_in_one_sentence(
    try_to_render, schedule
):
    rendered = try_to_render({"pipelines": {"schedule": schedule}})

    assert rendered.returncode != 0
    [sentence] = [line for line in rendered.stderr.splitlines() if "pipelines.schedule" in line]
    assert sentence.endswith(
        "pipelines.schedule: expected minute and hour of a run on every day, such as 20 1 * * * or "
        f'@daily, got "{schedule}": a rarer one leaves holes in the history, one in every minute '
        "leaves no pause"
    )


def test_an_older_kubernetes_is_refused(helm):
    rendered = helm("template", "release", CHART, "--kube-version", "1.32.0")

    assert rendered.returncode != 0
    assert "chart requires kubeVersion: >=1.33.0" in rendered.stderr


def test_every_section_of_the_schema_is_closed_and_described():
    schema = json.loads((CHART / "values.schema.json").read_text())

    sections = [(path, part) for path, part in _parts(schema) if "properties" in part]

    assert len(sections) > 10
    assert [path for path, part in sections if part.get("additionalProperties") is not False] == []
    values = [each for _, part in sections for each in part["properties"].items()]
    undescribed = [
        name for name, value in values if not {"description", "$ref", "pattern"} & value.keys()
    ]
    assert undescribed == []


def test_schema_and_defaults_name_the_same_values():
    schema = json.loads((CHART / "values.schema.json").read_text())
    defaults = yaml.safe_load((CHART / "values.yaml").read_text())

    _compare(schema, defaults, ())


def _compare(schema: Mapping[str, Any], values: Mapping[str, Any], path: tuple[str, ...]) -> None:
    known = set(schema["properties"]) - {"global"}  # Helm's own, for charts of charts
    # Limits and affinities have names that Kubernetes gave them; most are not set by default.
    if {"resources", "affinity"} & {*path}:
        assert set(values) <= known, path
        return
    assert set(values) == known, path
    for name, value in values.items():
        if isinstance(value, Mapping) and "properties" in schema["properties"][name]:
            _compare(schema["properties"][name], value, (*path, name))


def _parts(schema: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield a schema and all within it, each with its path."""
    if isinstance(schema, dict):
        yield path, schema
        for name, part in schema.items():
            yield from _parts(part, f"{path}/{name}")
