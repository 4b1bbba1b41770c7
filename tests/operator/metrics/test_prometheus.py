"""What the Prometheus source does with answers that no healthy server gives."""

from __future__ import annotations

import asyncio
import base64
import contextlib

import pytest
from aiohttp import web

from tests.operator.http_server import serving
from weir_operator.errors import TemporaryError
from weir_operator.metrics.names import BUSY_MS
from weir_operator.metrics.prometheus import PrometheusSource
from weir_operator.metrics.prometheus_server import PrometheusServer


@pytest.fixture
async def a_server():
    """Start servers that answer every query by one handler; returns their URL."""
    async with contextlib.AsyncExitStack() as stack:
        yield lambda handler: stack.enter_async_context(serving(handler))


async def asked(url, namespace=None, **settings):
    server = PrometheusServer(url, **settings)
    source = PrometheusSource(server, label="weir_app", value="app", namespace=namespace)
    try:
        return await source.window(start=100.0, end=160.0)
    finally:
        await server.close()


@pytest.mark.parametrize(
    ("kind", "told"),
    [("execution", "422, execution"), ("s3cret", "422"), ({"s3cret": 1}, "422"), (None, "422")],
)
async def test_of_a_refusal_only_the_status_and_prometheus_own_word_are_told(a_server, kind, told):
    async def refuse(_):
        return web.json_response({"errorType": kind, "error": "s3cret of somebody"}, status=422)

    with pytest.raises(TemporaryError, match=told) as raised:
        await asked(await a_server(refuse))

    assert "s3cret" not in str(raised.value)


@pytest.mark.parametrize(
    "label", ["prometheus_replica", "__replica__", "replica", "cluster", "container", "pod", "job"]
)
async def test_series_of_a_pair_of_servers_or_of_two_monitors_are_one(a_server, label):
    async def answer(_):
        series = [
            {
                "metric": {"__name__": BUSY_MS, "weir_app": "app", "tm_id": tm_id, label: value},
                "values": [[time + shift, str(time)] for time in (105.0, 115.0)],
            }
            for value, shift in (("a", 0.0), ("b", 1.0))
            for tm_id in ("t0", "t1")
        ]
        return web.json_response({"data": {"result": series}})

    window = await asked(await a_server(answer))

    assert [each.labels for each in window.series] == [
        {"weir_app": "app", "tm_id": "t0"},
        {"weir_app": "app", "tm_id": "t1"},
    ]
    assert all(list(each.times) == sorted(each.times) for each in window.series)


async def test_a_pod_of_another_namespace_does_not_get_in_by_claiming_the_job(a_server):
    async def answer(_):
        series = [
            {
                "metric": {"__name__": BUSY_MS, "tm_id": tm_id} | namespace,
                "values": [[105.0, value], [115.0, value]],
            }
            for tm_id, namespace, value in (
                ("t0", {"namespace": "thieves"}, "9000"),
                ("t0", {"namespace": "streams"}, "20"),
                ("t1", {}, "30"),
            )
        ]
        return web.json_response({"data": {"result": series}})

    window = await asked(await a_server(answer), namespace="streams")

    assert [each.values for each in window.series] == [(20.0, 20.0), (30.0, 30.0)]


async def test_a_redirect_is_not_followed(a_server):
    followed = []

    async def elsewhere(request):
        followed.append(request)
        return web.json_response({"data": {"result": []}})

    target = await a_server(elsewhere)

    async def redirect(_):
        raise web.HTTPTemporaryRedirect(f"{target}/api/v1/query")

    with pytest.raises(TemporaryError, match="307"):
        await asked(await a_server(redirect))

    assert followed == []


@pytest.mark.parametrize(
    "answered",
    [
        b"[" * 100_000,
        b"\xff",
        b"<html>sign in</html>",
        b"{}",
        b'{"data": 1}',
        b'{"data": {"result": [7]}}',
    ],
)
async def test_an_answer_that_is_not_prometheus_is_an_error(a_server, answered):
    async def answer(_):
        return web.Response(body=answered)

    with pytest.raises(TemporaryError):
        await asked(await a_server(answer))


async def test_a_server_that_does_not_answer_is_left_after_the_time_limit(a_server):
    released = asyncio.Event()

    async def hang(_):
        await released.wait()
        return web.Response()

    url = await a_server(hang)

    with pytest.raises(TemporaryError, match=r"did not answer within \d\.\d s"):
        await asked(url, timeout=0.1)

    released.set()


async def test_a_server_that_drips_is_left_for_good(a_server):
    left = asyncio.Event()

    async def drip(request):
        answer = web.StreamResponse(headers={"Content-Length": "100000"})
        await answer.prepare(request)
        try:
            while True:
                await answer.write(b"[")
                await asyncio.sleep(0.05)
        finally:
            left.set()

    url = await a_server(drip)

    with pytest.raises(TemporaryError, match="did not answer within"):
        await asked(url, timeout=0.1)

    await asyncio.wait_for(left.wait(), 5.0)


async def test_user_and_password_reach_the_server_as_they_are_now(a_server):
    seen: list[str] = []

    async def answer(request):
        seen.append(request.headers["Authorization"])
        return web.json_response({"data": {"result": []}})

    passwords = iter(["first", "sécond"])
    server = PrometheusServer(await a_server(answer), password=lambda: ("weir", next(passwords)))
    for _ in range(2):
        await server.series("weir_app", "app", 100.0, 160.0)
    await server.close()

    sent = [base64.b64decode(each.removeprefix("Basic ")).decode() for each in seen]
    assert sent == ["weir:first", "weir:sécond"]


async def test_token_headers_and_matchers_reach_the_server(a_server):
    seen: dict[str, dict[str, str]] = {}

    async def answer(request):
        seen.update(headers=dict(request.headers), query=dict(request.query))
        return web.json_response({"data": {"result": []}})

    url = await a_server(answer)

    await asked(
        url,
        token=lambda: "t0ken",
        headers={"X-Scope-OrgID": "streams"},
        matchers={"cluster": 'a"b'},
    )

    assert seen["headers"]["Authorization"] == "Bearer t0ken"
    assert seen["headers"]["X-Scope-OrgID"] == "streams"
    assert 'cluster="a\\"b",weir_app="app"' in seen["query"]["query"]
    assert seen["query"]["query"].endswith("[60001ms]")
    assert float(seen["query"]["time"]) == 160.0
