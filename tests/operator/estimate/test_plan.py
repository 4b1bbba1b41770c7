"""The graph of a job from Flink's REST interface."""

import json

import pytest
from aiohttp import web

from tests.operator.http_server import serving
from weir_operator.errors import PermanentError
from weir_operator.estimate.prometheus import read_edges


def a_vertex(name):
    return {
        "id": name, "name": name, "parallelism": 1, "maxParallelism": 128, "status": "RUNNING",
        "tasks": {"RUNNING": 1}, "start-time": 0, "metrics": {},
    }  # fmt: skip


OVERVIEW = {
    "jobs": [
        {"jid": each, "name": name, "state": state, "start-time": 0, "last-modification": 0}
        for each, name, state in (
            ("a1", "trips", "RUNNING"),
            ("a0", "trips", "CANCELED"),
            ("f", "fraud", "RUNNING"),
        )
    ]
}
JOB = {
    "jid": "a1", "name": "trips", "state": "RUNNING", "start-time": 0,
    "timestamps": {"RUNNING": 0}, "vertices": [a_vertex("v1"), a_vertex("v2")],
    "plan": {
        "nodes": [
            {"id": "v1"}, {"id": "v2", "inputs": [{"id": "v1", "ship_strategy": "HASH"}]}
        ]
    },
}  # fmt: skip


async def answer(request):
    body = OVERVIEW if request.path == "/jobs/overview" else JOB
    return web.Response(text=json.dumps(body), content_type="application/json")


async def test_the_edges_are_those_between_the_vertices_of_the_running_job():
    async with serving(answer) as url:
        edges = await read_edges(url, job="trips")

    assert edges.pairs == (("v1", "v2"),)
    assert not edges.guessed


@pytest.mark.parametrize("job", ["", "nonsense"])
async def test_a_job_that_is_not_clear_is_refused_with_those_that_run(job):
    async with serving(answer) as url:
        with pytest.raises(PermanentError, match=r"--flink: expected one running job.*fraud \(f\)"):
            await read_edges(url, job=job)
