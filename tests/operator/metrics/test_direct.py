from __future__ import annotations

import asyncio
import contextlib
import itertools
import threading
import tracemalloc

import aiohttp
import pytest
from aiohttp import web

from tests.operator.bombs import gzipped, noting_threads, peak_memory_of
from tests.operator.http_server import serving
from tests.operator.metrics.builders import FakeReporter
from weir_operator.errors import TemporaryError
from weir_operator.limits import MAX_SERIES
from weir_operator.metrics import direct, names
from weir_operator.metrics.direct import DirectSource, SampleRing

OURS = f'{names.RECORDS_IN}{{weir_app="streams_trips",tm_id="a_0",}}'
READ_LABELS = [label for label in names.LABELS if label not in (names.APP_LABEL, "quantile")]


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

    async def answer(_: web.Request) -> web.Response:
        await asyncio.Event().wait()
        return web.Response()

    async with serving(answer) as url:
        yield url


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


async def test_a_dead_target_is_counted_and_down_while_the_others_are_up(reporter, a_source):
    dead = "http://127.0.0.1:1/metrics"
    source = a_source(Targets(dead, f"{reporter.url}/metrics"))

    await source.scrape()

    ups = {each.labels["instance"]: each.values for each in await seen(source, names.UP)}
    assert ups == {"127.0.0.1:1": (0.0,), reporter.url.removeprefix("http://"): (1.0,)}
    assert source.failures == {dead: 1}
    assert len(await seen(source)) == 1


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


@pytest.fixture
async def a_target():
    """Start targets that answer by a handler; returns their URL."""
    async with contextlib.AsyncExitStack() as stack:
        yield lambda handler: stack.enter_async_context(serving(handler))


def a_page(body, *, encoding="identity"):
    async def answer(_):
        return web.Response(body=body, headers={"Content-Encoding": encoding})

    return answer


async def scrape_and_look(source):
    await source.scrape()
    return await source.window(start=0, end=1e12)


@pytest.mark.parametrize("line", [b"0" * 64, b"", f"{OURS} 5.0".encode()])
async def test_a_page_that_is_a_bomb_costs_a_few_megabytes_and_names_the_limit(
    a_source, a_target, line
):
    url = await a_target(a_page(gzipped(150, line), encoding="gzip"))
    source = a_source(Targets(url))

    peak = await peak_memory_of(
        scrape_and_look(source),
        TemporaryError,
        r"127\.0\.0\.1:\d+: it has more than 4 MiB",
    )

    assert peak < 16 * 2**20


async def test_a_target_with_too_large_a_page_is_left_alone_for_a_while(a_source, a_target):
    asked = []

    async def answer(request):
        asked.append(request)
        return web.Response(body=b"#" * (5 * 2**20))

    source = a_source(Targets(await a_target(answer)))

    for _ in range(3):
        await source.scrape()

    assert len(asked) == 1


async def test_once_a_page_is_small_again_it_is_read(reporter, a_source, monkeypatch):
    monkeypatch.setattr("weir_operator.accounts.FIRST_PAUSE", 0.0)
    monkeypatch.setattr("weir_operator.metrics.direct.MAX_PAGE", 20)
    source = a_source(Targets(reporter.url))
    with pytest.raises(TemporaryError, match="cannot read"):
        await scrape_and_look(source)

    monkeypatch.setattr("weir_operator.metrics.direct.MAX_PAGE", 20_000)
    await scrape_and_look(source)

    assert len(await seen(source)) == 1


async def test_a_target_that_is_gone_holds_nobody_up_and_is_not_remembered(a_source, a_target):
    large = await a_target(a_page(b"#" * (5 * 2**20)))
    dead = "http://127.0.0.1:1"
    targets = Targets(large, dead)
    source = a_source(targets)
    with pytest.raises(TemporaryError, match="cannot read"):
        await scrape_and_look(source)

    targets.urls = []
    await scrape_and_look(source)

    assert source.failures == {}


@pytest.mark.parametrize(
    ("lines", "most", "limit"),
    [
        (
            [OURS.replace("a_0", f"a_{number}") for number in range(3)],
            3,
            "3 series of streams_trips",
        ),
        ([OURS.replace("a_0", "a" * 4000)], 3, "labels of 1024 characters"),
        ([OURS.replace("a_0", "a" * 9000)], MAX_SERIES, "8192 bytes"),
        (
            [OURS.replace("}", ",".join(f'l{n}=""' for n in range(64)) + "}")],
            MAX_SERIES,
            "64 labels",
        ),
    ],
    ids=["series of an app", "labels of an app", "bytes of a line", "labels of a line"],
)
async def test_who_has_too_much_is_told_the_limit(
    reporter, a_source, monkeypatch, lines, most, limit
):
    monkeypatch.setattr("weir_operator.metrics.direct.MAX_SERIES", most)
    reporter.samples = dict.fromkeys(lines, 1.0)
    source = a_source(Targets(reporter.url))

    with pytest.raises(TemporaryError, match=limit):
        await scrape_and_look(source)


async def test_a_page_of_too_many_series_is_told_the_limit(a_source, a_target):
    line = f'{names.RECORDS_IN}{{weir_app="streams_trips",tm_id="%d",}} 1.0\n'
    url = await a_target(a_page("".join(line % number for number in range(10_001)).encode()))
    source = a_source(Targets(url))

    with pytest.raises(TemporaryError, match="10000 series"):
        await scrape_and_look(source)


@pytest.mark.parametrize("label", ["unread", *READ_LABELS])
async def test_labels_that_change_at_each_scrape_do_not_fill_the_memory(
    a_source, a_target, monkeypatch, label
):
    monkeypatch.setattr("weir_operator.metrics.direct.MAX_SERIES", 50)
    scrapes = itertools.count()

    async def answer(_):
        scrape = next(scrapes)
        others = ",".join(f'l{number}="{scrape}"' for number in range(50))
        line = (
            f'{names.RECORDS_IN}{{weir_app="streams_trips",{others},{label}="{scrape}_%d_%s"}} 1\n'
        )
        return web.Response(text="".join(line % (number, "x" * 2000) for number in range(10)))

    source = a_source(Targets(await a_target(answer)))
    tracemalloc.start()
    try:
        for _ in range(5):
            await source.scrape()
        # What the parser made of the labels, and what the source made of that.
        kept = tracemalloc.take_snapshot().filter_traces(
            [
                tracemalloc.Filter(True, "*/metrics/direct.py"),
                tracemalloc.Filter(True, "*/prometheus_client/*"),
            ]
        )
    finally:
        tracemalloc.stop()

    assert sum(trace.size for trace in kept.traces) < 100_000


async def test_room_of_labels_is_free_again_once_their_series_have_ended(
    reporter, a_source, monkeypatch
):
    monkeypatch.setattr("weir_operator.metrics.direct.MAX_SERIES", 5)
    clock = Clock(0.0)
    source = a_source(Targets(reporter.url), clock=clock, keep=60.0)

    for round_ in range(10):
        clock.now = round_ * 100.0
        reporter.samples = {OURS.replace("a_0", f"{round_}" * 4000): 1.0}
        await source.scrape()

    assert len((await source.window(start=clock.now, end=clock.now)).series) == 2


async def test_the_pages_of_one_app_together_are_bounded(a_source, a_target, monkeypatch):
    monkeypatch.setattr("weir_operator.accounts.MAX_HELD", 2**20)
    large = await a_target(a_page(b"#" * (2 * 2**20)))
    source = a_source(Targets(large))

    with pytest.raises(TemporaryError, match="1 MiB"):
        await scrape_and_look(source)


async def test_a_large_page_is_parsed_beside_the_event_loop(a_source, a_target):
    line = f'{names.RECORDS_IN}{{weir_app="streams_trips",tm_id="%d",task="{"x" * 200}",}} 1.0\n'
    page = "".join(line % number for number in range(9_000)).encode()
    source = a_source(Targets(await a_target(a_page(page))), time_limit=60.0)

    threads: list[threading.Thread] = []
    source._parse = noting_threads(source._parse, threads)

    await source.scrape()

    assert len(await seen(source)) == 9_000
    assert len(threads) == 1
    assert threads[0] is not threading.current_thread()


async def test_an_app_whose_pages_take_long_is_scraped_more_rarely(reporter, a_source, monkeypatch):
    ticks = itertools.count()
    monkeypatch.setattr("weir_operator.metrics.direct.time.thread_time", lambda: 5.0 * next(ticks))
    source = a_source(Targets(reporter.url), period=1.0)
    pauses = []
    second = asyncio.Event()

    async def sleep(seconds):
        pauses.append(seconds)
        if len(pauses) > 1:
            second.set()
            await asyncio.Event().wait()
        while not reporter.scrapes or source._scraping:
            await turn(0)

    turn = asyncio.sleep
    monkeypatch.setattr("weir_operator.metrics.direct.asyncio.sleep", sleep)

    source.start()
    await asyncio.wait_for(second.wait(), 10.0)

    assert pauses[0] <= 1.0
    assert pauses[1] > 50.0


@pytest.mark.parametrize(
    ("body", "encoding"),
    [
        *((b"page", other) for other in ("br", "zstd", "nonsense")),
        *((gzipped(1)[cut], "gzip") for cut in (slice(40), slice(0), slice(20, None))),
    ],
    ids=["br", "zstd", "nonsense", "cut off", "empty", "without its beginning"],
)
async def test_a_page_that_cannot_be_unpacked_is_a_failed_scrape(
    a_source, a_target, body, encoding
):
    source = a_source(Targets(await a_target(a_page(body, encoding=encoding))))

    await source.scrape()

    (up,) = await seen(source, names.UP)
    assert up.values == (0.0,)


async def test_a_page_that_the_parser_does_not_survive_is_a_failed_scrape(
    reporter, a_source, monkeypatch
):
    def parse(text):
        raise IndexError(text)

    monkeypatch.setattr("weir_operator.metrics.direct.text_string_to_metric_families", parse)
    source = a_source(Targets(reporter.url))

    await source.scrape()

    (up,) = await seen(source, names.UP)
    assert up.values == (0.0,)


async def test_a_redirect_is_not_followed(reporter, a_source, a_target):
    async def redirect(_):
        raise web.HTTPTemporaryRedirect(f"{reporter.url}/metrics")

    source = a_source(Targets(await a_target(redirect)))

    await source.scrape()

    (up,) = await seen(source, names.UP)
    assert up.values == (0.0,)
    assert reporter.scrapes == 0


async def test_targets_that_cannot_be_listed_are_an_error_and_not_silence(a_source):
    targets = Targets()
    targets.error = TemporaryError("the runtime does not answer")
    source = a_source(targets)

    await source.scrape()

    with pytest.raises(TemporaryError, match="the runtime"):
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
        except TemporaryError as error:
            return "ZeroDivisionError: a bug" in str(error)
        return False

    await until(raised)


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


async def test_a_defect_in_listing_the_targets_ends_no_later_round(reporter, a_source):
    listed = 0

    async def targets():
        nonlocal listed
        listed += 1
        if listed == 2:
            raise KeyError("items")
        return [reporter.url]

    source = a_source(targets, period=0.01)
    source.start()

    async def listed_again():
        return listed > 4

    await until(listed_again)
    assert await seen(source)


async def test_a_target_that_does_not_listen_yet_is_named_only_if_it_stays_so(a_source, caplog):
    caplog.set_level("INFO")
    source = a_source(Targets("http://127.0.0.1:9/metrics"))

    for _ in range(direct.UNHEARD - 1):
        await source.scrape()
    early = [each for each in caplog.messages if "is not scraped" in each]
    for _ in range(3):
        await source.scrape()

    assert early == []
    assert len([each for each in caplog.messages if "is not scraped" in each]) == 1


def test_a_series_without_a_sample_inside_is_left_out():
    ring = SampleRing(keep=100)
    ring.add(1.0, [("x", {}, 1.0)])

    assert ring.window(2.0, 3.0).series == ()


def test_samples_older_than_the_ring_keeps_are_dropped():
    ring = SampleRing(keep=10)
    ring.add(1.0, [("gone", {}, 1.0), ("x", {}, 1.0)])
    ring.add(5.0, [("x", {}, 2.0)])
    ring.add(12.0, [("x", {}, 3.0)])

    (series,) = ring.window(0.0, 100.0).series

    assert series.times == (5.0, 12.0)


def test_after_the_clock_was_set_back_samples_go_on():
    ring = SampleRing(keep=100)
    for time in (50.0, 60.0, 20.0, 21.0):
        ring.add(time, [("x", {}, time)])

    (series,) = ring.window(0.0, 100.0).series

    assert series.times == (20.0, 21.0)


def test_a_series_that_has_ended_is_forgotten_and_leaves_its_place_to_another():
    ring = SampleRing(keep=10, most=1)
    ring.add(1.0, [("gone", {}, 1.0)])

    assert ring.add(5.0, [("new", {}, 1.0)]) == 1
    assert ring.add(12.0, [("new", {}, 2.0)]) == 0

    assert [each.name for each in ring.window(0.0, 100.0).series] == ["new"]


def test_a_series_too_many_takes_nothing_from_those_that_are_there():
    ring = SampleRing(keep=100, most=2)
    ring.add(1.0, [("a", {}, 1.0), ("b", {}, 1.0)])

    left_out = ring.add(2.0, [("c", {}, 2.0), ("b", {}, 2.0), ("d", {}, 2.0)])

    assert left_out == 2
    assert {each.name: each.times for each in ring.window(0.0, 9.0).series} == {
        "a": (1.0,),
        "b": (1.0, 2.0),
    }
