from __future__ import annotations

import asyncio

import aiohttp
import pytest
from aiohttp import web

from weir_operator.errors import TemporaryError
from weir_operator.metrics import names
from weir_operator.metrics.direct import DirectSource
from weir_operator.metrics.testing import FakeReporter

OURS = f'{names.RECORDS_IN}{{weir_app="streams_trips",tm_id="a_0",}}'
FOREIGN = f'{names.RECORDS_IN}{{weir_app="other",tm_id="b_0",}}'
UNREAD = 'flink_taskmanager_Status_JVM_Threads_Count{weir_app="streams_trips",}'


class Clock:
    """Unix seconds that a test sets."""

    def __init__(self, now: float) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


class Targets:
    """Reporters that a test adds and takes away, or that cannot be listed."""

    def __init__(self, *urls: str) -> None:
        self.urls = list(urls)
        self.error: Exception | None = None

    async def __call__(self):
        if self.error is not None:
            raise self.error
        return self.urls


@pytest.fixture
async def reporter():
    fake = await FakeReporter({OURS: 5.0}).start()
    yield fake
    await fake.stop()


@pytest.fixture
async def hanging():
    """A target that accepts and never answers."""
    blocked = asyncio.Event()

    async def answer(_: web.Request) -> web.Response:
        await blocked.wait()
        return web.Response()

    application = web.Application()
    application.router.add_get("/metrics", answer)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    yield f"http://{host}:{port}"
    blocked.set()
    await runner.cleanup()


@pytest.fixture
async def a_source():
    """Build sources that are closed after the test."""
    built: list[DirectSource] = []

    def build(targets, *, clock=None, **settings):
        source = DirectSource(targets, "streams/trips", clock=clock or Clock(100.0), **settings)
        built.append(source)
        return source

    yield build
    for source in built:
        await source.close()


async def until(condition, *, limit=10.0):
    """Wait until a condition holds; the limit only ends a test that fails."""
    async with asyncio.timeout(limit):
        while not await condition():
            await asyncio.sleep(0.01)


async def seen(source, name=names.RECORDS_IN):
    window = await source.window(start=0, end=1e12)
    return [series for series in window.series if series.name == name]


async def test_samples_are_stamped_with_the_moment_of_the_scrape(reporter, a_source):
    clock = Clock(100.0)
    source = a_source(Targets(reporter.url), clock=clock)

    await source.scrape()
    clock.now = 101.0
    reporter.samples[OURS] = 8.0
    await source.scrape()

    (series,) = await seen(source)
    assert series.labels == {"weir_app": "streams_trips", "tm_id": "a_0"}
    assert series.times == (100.0, 101.0)
    assert series.values == (5.0, 8.0)


async def test_only_series_of_the_app_that_weir_reads_are_kept(reporter, a_source):
    reporter.samples |= {FOREIGN: 1.0, UNREAD: 1.0}
    source = a_source(Targets(reporter.url))

    await source.scrape()

    window = await source.window(start=0, end=200)
    assert {series.name for series in window.series} == {names.RECORDS_IN, names.UP}
    assert {series.labels["weir_app"] for series in window.series} == {"streams_trips"}


async def test_a_dead_target_is_counted_and_down_while_the_others_are_up(reporter, a_source):
    dead = "http://127.0.0.1:1/metrics"
    source = a_source(Targets(dead, f"{reporter.url}/metrics"))

    await source.scrape()

    ups = {each.labels["instance"]: each.values for each in await seen(source, names.UP)}
    assert ups == {"127.0.0.1:1": (0.0,), reporter.url.removeprefix("http://"): (1.0,)}
    assert source.failures == {dead: 1}
    assert len(await seen(source)) == 1


async def test_a_page_that_is_no_page_of_metrics_is_a_failed_scrape(reporter, a_source):
    reporter.samples = {f"{names.RECORDS_IN}{{weir_app=": 1.0}
    source = a_source(Targets(reporter.url))

    await source.scrape()

    (up,) = await seen(source, names.UP)
    assert up.values == (0.0,)


async def test_a_target_that_hangs_delays_no_other(reporter, hanging, a_source):
    source = a_source(Targets(hanging, reporter.url), period=0.02, time_limit=60.0)

    source.start()

    async def scraped_thrice():
        return reporter.scrapes >= 3

    await until(scraped_thrice)
    assert source.failures == {}


async def test_a_target_that_hangs_is_down_after_its_time_limit(hanging, a_source):
    source = a_source(Targets(hanging), time_limit=0.05)

    await source.scrape()

    (up,) = await seen(source, names.UP)
    assert up.values == (0.0,)


async def test_targets_are_asked_anew_before_every_round(reporter, a_source):
    targets = Targets()
    source = a_source(targets, period=0.02)
    source.start()

    targets.urls.append(reporter.url)

    async def found():
        return bool(await seen(source))

    await until(found)


async def test_targets_that_cannot_be_listed_are_an_error_and_not_silence(a_source):
    targets = Targets()
    targets.error = TemporaryError("the runtime does not answer")
    source = a_source(targets)

    await source.scrape()

    with pytest.raises(TemporaryError, match="the runtime does not answer"):
        await source.window(start=0, end=200)


async def test_samples_from_before_the_targets_were_lost_are_still_given(reporter, a_source):
    targets = Targets(reporter.url)
    source = a_source(targets)
    await source.scrape()
    targets.error = TemporaryError("the runtime does not answer")

    await source.scrape()

    assert len(await seen(source)) == 1


async def test_a_fault_in_the_scraping_itself_reaches_whoever_asks(a_source):
    targets = Targets()
    targets.error = ZeroDivisionError("a bug")
    source = a_source(targets, period=0.01)

    source.start()

    async def raised():
        try:
            await source.window(start=0, end=200)
        except ExceptionGroup as faults:
            return faults.subgroup(ZeroDivisionError) is not None
        return False

    await until(raised)
    with pytest.raises(ExceptionGroup):
        await source.close()


async def test_after_close_nothing_is_scraped(reporter, a_source):
    source = a_source(Targets(reporter.url), period=0.01)
    source.start()

    async def scraped():
        return reporter.scrapes > 0

    await until(scraped)
    await source.close()

    assert not [task for task in asyncio.all_tasks() if task.get_name() == "weir-scrape"]


async def test_no_connection_is_left_however_far_the_first_round_is_when_it_closes(
    reporter, monkeypatch
):
    opened: list[aiohttp.ClientSession] = []
    make = aiohttp.ClientSession

    def open_session(**settings):
        opened.append(make(**settings))
        return opened[-1]

    monkeypatch.setattr(aiohttp, "ClientSession", open_session)
    for turns in range(12):
        source = DirectSource(Targets(reporter.url), "streams/trips")
        source.start()
        for _ in range(turns):
            await asyncio.sleep(0)
        await source.close()

    assert opened
    assert all(session.closed for session in opened)
