"""Several StreamApps ask one Prometheus server."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import threading
import time

import pytest
from aiohttp import web

from tests.operator.bombs import gzipped, peak_memory_of
from tests.operator.http_server import serving
from weir_operator.errors import TemporaryError
from weir_operator.limits import INLINE, Limit, read_json
from weir_operator.metrics import prometheus_server
from weir_operator.metrics.prometheus import PrometheusSource
from weir_operator.metrics.prometheus_server import AT_ONCE, PrometheusServer, read_matrix


class Answering:
    """A server that has one sample of each of some StreamApps."""

    def __init__(self, *apps, status=200, large="", bomb=0, **besides):
        self.apps = apps
        self.status = status
        self.large = large
        """The one with a thousand series."""
        self.bomb = gzipped(bomb) if bomb else None
        """Sent in the place of an answer."""
        self.besides = besides
        """What an answer says beside its data."""
        self.queries = []

    async def answer(self, request):
        query = request.query["query"]
        self.queries.append(query)
        if self.bomb is not None:
            return web.Response(body=self.bomb, headers={"Content-Encoding": "gzip"})
        result = [
            {
                "metric": {"__name__": "up", "weir_app": app, "partition": str(number)},
                "values": [[time, "1"] for time in (95.0, 105.0, 155.0, 165.0)],
            }
            for number, app in enumerate(self.apps)
            if app in query
            for _ in range(1000 if app == self.large else 1)
        ]
        answer = {"status": "success", "data": {"resultType": "matrix", "result": result}}
        return web.json_response(answer | self.besides, status=self.status)


@pytest.fixture
async def connected():
    """Connect to a server that answers so; returns the connection."""
    async with contextlib.AsyncExitStack() as stack:

        async def connect(answering):
            server = PrometheusServer(await stack.enter_async_context(serving(answering.answer)))
            stack.push_async_callback(server.close)
            return server

        yield connect


def ask(server, app, *, start=100.0, end=160.0):
    source = PrometheusSource(server, label="weir_app", value=app)
    return source.window(start=start, end=end)


async def test_each_streamapp_asks_for_its_own_series(connected):
    answering = Answering("one", "two")
    server = await connected(answering)

    one, two = await asyncio.gather(ask(server, "one"), ask(server, "two"))

    assert [each.labels["weir_app"] for each in (*one.series, *two.series)] == ["one", "two"]
    assert all(query.count("weir_app=") == 1 for query in answering.queries)


async def test_an_answer_is_cut_to_the_window(connected):
    window = await ask(await connected(Answering("one")), "one")

    assert window.series[0].times == (105.0, 155.0)


@pytest.mark.parametrize("status", [422, 503])
async def test_a_refusal_is_told(connected, status):
    answering = Answering("one", status=status)
    server = await connected(answering)

    with pytest.raises(TemporaryError, match=f"status {status}"):
        await ask(server, "one")
    assert len(answering.queries) == 1


async def test_an_app_with_too_much_takes_nothing_from_the_others(connected, monkeypatch):
    monkeypatch.setattr(
        "weir_operator.metrics.prometheus_server.PROMETHEUS_ANSWER", Limit(bytes=2000, values=2000)
    )
    apps = [f"app{number}" for number in range(8)]
    server = await connected(Answering(*apps, large="app5"))

    found = await asyncio.gather(*(ask(server, app) for app in apps), return_exceptions=True)

    refused = {app for app, each in zip(apps, found, strict=True) if isinstance(each, Exception)}
    assert refused == {"app5"}
    assert "0.0019" in str(found[5])


async def test_an_app_of_more_series_than_are_read_is_told_the_limit(connected, monkeypatch):
    monkeypatch.setattr("weir_operator.metrics.prometheus.MAX_SERIES", 1)
    server = await connected(Answering("one", "one"))

    with pytest.raises(TemporaryError, match="has of one: it has more than 1 series"):
        await ask(server, "one")


@pytest.mark.parametrize("besides", [{"isPartial": True}, {"warnings": ["a store is away"]}])
async def test_an_answer_that_says_that_something_is_missing_is_no_answer(connected, besides):
    server = await connected(Answering("one", **besides))

    with pytest.raises(TemporaryError, match="answered only in part"):
        await ask(server, "one")


@pytest.mark.parametrize("besides", [{"isPartial": False}, {"warnings": []}, {"infos": ["slow"]}])
async def test_an_answer_that_says_it_is_whole_is_taken(connected, besides):
    server = await connected(Answering("one", **besides))

    assert await ask(server, "one")


async def test_answers_of_all_servers_are_parsed_one_after_the_other(connected, monkeypatch):
    at_once, most = 0, 0

    def read(content, limit):
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        time.sleep(0.02)
        at_once -= 1
        return read_json(content, limit)

    monkeypatch.setattr(prometheus_server, "read_json", read)
    servers = [await connected(Answering("one")) for _ in range(8)]

    await asyncio.gather(*(ask(server, "one") for server in servers))

    assert most == 1


async def test_a_bomb_is_not_blown_up(connected):
    answering = Answering("one", bomb=150)
    server = await connected(answering)

    peak = await peak_memory_of(ask(server, "one"), TemporaryError, "more than 16 MiB")

    assert peak < 48 * 2**20


class Dripping:
    """A server that sends a byte now and then."""

    def __init__(self, *, pause):
        self.pause = pause
        self.asked = 0

    async def answer(self, request):
        self.asked += 1
        response = web.StreamResponse()
        await response.prepare(request)
        with contextlib.suppress(ConnectionError):
            while True:
                await response.write(b" ")
                await asyncio.sleep(self.pause)
        return response


async def test_nobody_waits_for_all_the_others_at_a_server_that_hangs():
    dripping = Dripping(pause=60.0)

    async with serving(dripping.answer) as url:
        server = PrometheusServer(url, timeout=0.1)
        told = await asyncio.gather(
            *(ask(server, f"app{number}") for number in range(200)), return_exceptions=True
        )
        await server.close()

    assert all(isinstance(each, TemporaryError) for each in told)
    sentences = {re.sub("[0-9.]+ s", "N s", str(each).partition(" at ")[2]) for each in told}
    assert {each.partition(" ")[2] for each in sentences} == {
        "did not answer within N s",
        "was not asked within N s: the queries of other StreamApps come first",
    }
    assert dripping.asked < 100


async def test_a_caller_that_is_cancelled_leaves_its_place_to_nobody_while_its_thread_reads(
    monkeypatch,
):
    fetch, counting = PrometheusServer._fetch, threading.Lock()
    live = most = 0

    def fetch_and_count(*arguments):
        nonlocal live, most
        with counting:
            live += 1
            most = max(most, live)
        try:
            return fetch(*arguments)
        finally:
            with counting:
                live -= 1

    monkeypatch.setattr(PrometheusServer, "_fetch", fetch_and_count)

    async with serving(Dripping(pause=0.05).answer) as url:
        server = PrometheusServer(url, timeout=0.5)
        callers = []
        for number in range(16):
            callers.append(asyncio.create_task(ask(server, f"app{number}")))
            await asyncio.sleep(0.05)
            if number >= 2:
                callers[number - 2].cancel()
        await asyncio.gather(*callers, return_exceptions=True)
        await server.close()

    assert most == AT_ONCE


async def test_a_slow_answer_is_told_with_the_seconds_that_it_was_waited_for():
    async with serving(Dripping(pause=0.02).answer) as url:
        server = PrometheusServer(url, timeout=0.3)
        with pytest.raises(TemporaryError) as told:
            await ask(server, "one")
        await server.close()

    [seconds] = re.findall("did not answer within ([0-9.]+) s", str(told.value))
    assert float(seconds) >= 0.6


@pytest.mark.parametrize("count", [0, 1, 2, 20_000])
def test_a_large_answer_is_parsed_in_pieces_to_the_same_values(count, monkeypatch):
    parsed = []

    def read(content, limit):
        parsed.append(len(content))
        return read_json(content, limit)

    monkeypatch.setattr(prometheus_server, "read_json", read)
    series = [
        {
            "metric": {"__name__": "up", "tm_id": f"tm-{number}", "job": '},{"metric":{"é":'},
            "values": [[number, "1"], [number + 1, "NaN"]],
        }
        for number in range(count)
    ]
    answer = {"status": "success", "data": {"result": series}, "warnings": ["a"]}
    content = json.dumps(answer, separators=(",", ":")).encode()

    assert read_matrix(content) == answer
    assert max(parsed) < INLINE + 1024
