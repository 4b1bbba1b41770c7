"""What may change later, and by which way."""

from __future__ import annotations

import copy

import pytest

from tests.operator.streamapp.builders import a_manifest

pytestmark = pytest.mark.kubernetes_api

CONDITION = {
    "type": "Ready",
    "status": "True",
    "reason": "JobRuns",
    "message": "The job runs.",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}


@pytest.fixture
async def app(kube):
    """A StreamApp as the server keeps it."""
    answer = await kube.create(kube.stream_apps, a_manifest(operators=[{"name": "match"}]))
    assert answer.status == 201, answer.message
    return answer.body


@pytest.fixture
def path(kube, app):
    return f"{kube.stream_apps}/{app['metadata']['name']}"


async def test_max_parallelism_cannot_change(kube, app, path):
    answer = await kube.merge(path, {"spec": {"flink": {"maxParallelism": 360}}})

    assert answer.status == 422
    assert "spec.flink.maxParallelism" in answer.message
    assert "expected the value of the first start" in answer.message


async def test_max_parallelism_cannot_be_left_out_later_to_get_the_default(kube):
    made = await kube.create(
        kube.stream_apps, a_manifest(flink={"image": "trips:1", "maxParallelism": 128})
    )

    later = copy.deepcopy(made.body)
    del later["spec"]["flink"]["maxParallelism"]
    answer = await kube.replace(f"{kube.stream_apps}/trips", later)

    assert answer.status == 422
    assert "spec.flink.maxParallelism" in answer.message


async def test_everything_else_of_the_job_may_change(kube, app, path):
    answer = await kube.merge(
        path,
        {
            "spec": {
                "mode": "Advise",
                "state": "Suspended",
                "flink": {"image": "trips:2", "job": {"args": ["--window", "5m"]}},
                "resetNonce": 7,
            }
        },
    )

    assert answer.status == 200, answer.message
    assert answer.body["metadata"]["generation"] == app["metadata"]["generation"] + 1


async def test_a_change_is_judged_like_a_new_manifest(kube, app, path):
    answer = await kube.merge(path, {"spec": {"operators": [{"name": "match", "pools": ["big"]}]}})

    assert answer.status == 422
    assert "expected pools to name node pools of spec.nodePools" in answer.message


async def test_a_spec_written_with_the_status_is_ignored(kube, app, path):
    answer = await kube.merge(
        f"{path}/status", {"spec": {"mode": "Off"}, "status": {"replicas": 5}}
    )

    assert answer.status == 200, answer.message
    assert answer.body["spec"]["mode"] == "Auto"
    assert answer.body["status"] == {"replicas": 5}
    assert answer.body["metadata"]["generation"] == app["metadata"]["generation"]


async def test_a_whole_status_is_kept_as_it_is_written(kube, app, path):
    status = {
        "observedGeneration": 1,
        "conditions": [CONDITION],
        "replicas": 3,
        "rate": "120/s",
        "responseTime": "45ms",
        "objective": "200ms mean",
        "costPerHour": "0.31",
        "lastAction": "Rescaled match to 3 replicas: the rate doubled.",
        "restartsLastDay": 2,
        "window": "peak",
        "advice": "Would have saved 1.20 a day with 3 restarts.",
        "operators": [
            {
                "name": "match",
                "replicas": 3,
                "deployment": {"small/1": 3},
                "target": {"small/1": 4},
                "rate": "120/s",
                "responseTime": "45ms",
                "budget": "60ms",
                "policy": "planner",
                "decision": {
                    "id": "42-match",
                    "time": "2026-01-01T00:00:00Z",
                    "outcome": "Denied",
                    "message": "No token is left.",
                },
            }
        ],
        "rescale": '{"id":"7","steps":[{"name":"Savepoint","at":1.5,"paths":["s3://b/1"]}]}',
        "controller": {"job_id": "ab", "deployments": {"match": {"small/1": 3}}, "failed": []},
    }

    answer = await kube.merge(f"{path}/status", {"status": status})

    assert answer.status == 200, answer.message
    assert answer.body["status"] == status


@pytest.mark.parametrize(
    ("part", "field"),
    [
        ({"lastAction": "x" * 1025}, "status.lastAction"),
        ({"conditions": [CONDITION | {"reason": ""}]}, "status.conditions[0].reason"),
        ({"conditions": [CONDITION | {"reason": "two words"}]}, "status.conditions[0].reason"),
        ({"conditions": [CONDITION | {"message": "x" * 1025}]}, "status.conditions[0].message"),
        ({"conditions": [CONDITION, CONDITION]}, "status.conditions[1]"),
        ({"conditions": [{"type": "Ready"}]}, "status.conditions[0].reason"),
        ({"operators": [{"name": f"o{n}"} for n in range(101)]}, "status.operators"),
        ({"replicas": -1}, "status.replicas"),
    ],
)
async def test_a_status_stays_within_its_bounds(kube, app, path, part, field):
    answer = await kube.merge(f"{path}/status", {"status": part})

    assert answer.status == 422
    assert field in answer.message


async def test_managers_of_different_conditions_do_not_step_on_each_other(kube, app, path):
    """Server-side apply merges the list by its key, `type`."""
    about = {key: app[key] for key in ("apiVersion", "kind")} | {
        "metadata": {"name": app["metadata"]["name"]}
    }
    paused = CONDITION | {"type": "Paused"}

    await kube.apply(f"{path}/status", about | {"status": {"conditions": [CONDITION]}}, manager="a")
    answer = await kube.apply(
        f"{path}/status", about | {"status": {"conditions": [paused]}}, manager="b"
    )

    assert answer.status == 200, answer.message
    assert [each["type"] for each in answer.body["status"]["conditions"]] == ["Ready", "Paused"]
