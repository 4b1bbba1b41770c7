"""What `kubectl` shows of StreamApps: explanations, columns, names."""

from __future__ import annotations

import pytest

from tests.operator.streamapp.builders import a_manifest

pytestmark = pytest.mark.kubernetes_api

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


async def test_columns_answer_what_people_ask_first(kube):
    await kube.create(kube.stream_apps, a_manifest())
    await kube.merge(
        f"{kube.stream_apps}/trips/status",
        {
            "status": {
                "conditions": [
                    {
                        "type": kind,
                        "status": status,
                        "reason": "Test",
                        "message": "",
                        "lastTransitionTime": "2026-01-01T00:00:00Z",
                    }
                    for kind, status in (("MetricsHealthy", "False"), ("Ready", "True"))
                ],
                "replicas": 3,
                "rate": "120/s",
                "responseTime": "45ms",
                "objective": "200ms mean",
                "costPerHour": "0.31",
                "lastAction": "Rescaled match 2 -> 3 in 12 s",
                "restartsLastDay": 2,
            }
        },
    )

    table = (await kube.get(kube.stream_apps, accept=TABLE)).body

    columns = table["columnDefinitions"]
    (row,) = table["rows"]
    shown = {
        column["name"]: value
        for column, value in zip(columns, row["cells"], strict=True)
        if column["priority"] == 0
    }
    age = shown.pop("Age")
    assert age
    assert shown == {
        "Name": "trips",
        "Mode": "Auto",
        "Ready": "True",
        "Reason": "Test",
        "Replicas": 3,
        "Rate": "120/s",
        "Response": "45ms",
        "Objective": "200ms mean",
        "Cost/h": "0.31",
        "Last Action": "Rescaled match 2 -> 3 in 12 s",
    }
    wide = {
        column["name"]: value
        for column, value in zip(columns, row["cells"], strict=True)
        if column["priority"] > 0
    }
    assert wide == {"State": "Running", "Metrics": "False", "Policy": "planner", "Restarts/d": 2}


async def test_there_is_a_short_name_and_a_category(kube):
    answer = await kube.get("/apis/weir.dev/v1alpha1")

    (apps, status) = sorted(answer.body["resources"], key=lambda each: each["name"])
    assert apps["shortNames"] == ["sapp"]
    assert apps["categories"] == ["weir"]
    assert status["name"] == "streamapps/status"


async def test_the_definition_is_established_without_a_complaint(kube):
    answer = await kube.get(
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/streamapps.weir.dev"
    )

    conditions = {each["type"]: each["status"] for each in answer.body["status"]["conditions"]}
    assert conditions["Established"] == "True"
    assert "NonStructuralSchema" not in conditions
