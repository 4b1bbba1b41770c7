"""Several StreamApps ask one Prometheus server together."""

from __future__ import annotations

import asyncio
import contextlib
import time

import pytest
from aiohttp import web

from tests.operator.bombs import gzipped, peak_memory_of
from tests.operator.http_server import serving
from weir_operator.errors import TemporaryError
from weir_operator.limits import Limit, read_json
from weir_operator.metrics import prometheus_server
from weir_operator.metrics.prometheus import SharedPrometheusSource
from weir_operator.metrics.prometheus_server import TOGETHER, PrometheusServer


class Answering:
    """A server that has one sample of each of some StreamApps."""

    def __init__(self, *apps, status=200, large="", refused="", bomb=0, **besides):
        self.apps = apps
        self.status = status
        self.large = large
        """The one with a thousand series."""
        self.refused = refused
        """The one for which no query can be executed."""
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
        if self.refused and self.refused in query:
            return web.json_response({"status": "error", "errorType": "execution"}, status=422)
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
    source = SharedPrometheusSource(server, label="weir_app", value=app)
    return source.window(start=start, end=end)


async def test_questions_of_one_moment_are_one_query_and_each_gets_its_own(connected):
    answering = Answering("one", "two")
    server = await connected(answering)

    one, two = await asyncio.gather(ask(server, "one"), ask(server, "two"))

    assert len(answering.queries) == 1
    assert 'weir_app=~"one|two"' in answering.queries[0]
    assert [each.labels["weir_app"] for each in one.series] == ["one"]
    assert [each.labels["weir_app"] for each in two.series] == ["two"]


async def test_a_joint_answer_is_cut_to_the_window_of_each(connected):
    server = await connected(Answering("one", "two"))

    one, two = await asyncio.gather(ask(server, "one"), ask(server, "two", start=90.0, end=170.0))

    assert one.series[0].times == (105.0, 155.0)
    assert two.series[0].times == (95.0, 105.0, 155.0, 165.0)


async def test_a_refusal_is_told_to_everybody_who_asked(connected):
    server = await connected(Answering("one", status=503))

    told = await asyncio.gather(ask(server, "one"), ask(server, "two"), return_exceptions=True)

    assert [type(each) for each in told] == [TemporaryError, TemporaryError]


async def test_what_the_server_cannot_execute_for_one_is_executed_for_the_others(connected):
    apps = [f"app{number}" for number in range(8)]
    answering = Answering(*apps, refused="app5")
    server = await connected(answering)

    found = await asyncio.gather(*(ask(server, app) for app in apps), return_exceptions=True)

    refused = {app for app, each in zip(apps, found, strict=True) if isinstance(each, Exception)}
    assert refused == {"app5"}
    assert "422" in str(found[5])


async def test_questions_about_other_times_are_other_queries(connected):
    answering = Answering("one", "two", "three")
    server = await connected(answering)

    found = await asyncio.gather(
        ask(server, "one"), ask(server, "two", start=-3600.0), ask(server, "three", start=98.0)
    )

    assert sum("one|three" in query for query in answering.queries) == 1
    assert not any("two" in query and "one" in query for query in answering.queries)
    assert [window.series[0].times[-1] for window in found] == [155.0] * 3


async def test_a_crowd_is_asked_about_in_several_queries(connected):
    apps = [f"app{number}" for number in range(TOGETHER + 1)]
    answering = Answering(*apps)
    server = await connected(answering)

    windows = await asyncio.gather(*(ask(server, app) for app in apps))

    assert len(answering.queries) == 2
    assert all(len(window.series) == 1 for window in windows)


async def test_an_app_with_too_much_takes_nothing_from_those_that_were_asked_with_it(
    connected, monkeypatch
):
    monkeypatch.setattr(
        "weir_operator.metrics.prometheus_server.PROMETHEUS_ANSWER", Limit(bytes=2000, values=2000)
    )
    apps = [f"app{number}" for number in range(8)]
    answering = Answering(*apps, large="app5")
    server = await connected(answering)

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


async def test_letting_go_of_one_question_does_no_harm_to_the_others(connected):
    server = await connected(Answering("one", "two"))
    gone = asyncio.create_task(ask(server, "one"))
    stays = asyncio.create_task(ask(server, "two"))
    await asyncio.sleep(0)

    gone.cancel()
    window = await stays

    assert len(window.series) == 1


async def test_closing_lets_go_of_whoever_waits(connected):
    server = await connected(Answering("one"))
    waiting = asyncio.create_task(ask(server, "one"))
    await asyncio.sleep(0)

    await server.close()

    with pytest.raises(asyncio.CancelledError):
        await waiting
