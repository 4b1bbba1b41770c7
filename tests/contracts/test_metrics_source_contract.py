"""What both metrics sources promise, against the same reporters.

The Prometheus source runs against a real server that scrapes the fake reporters each second. It is
started once for all tests, because it takes five seconds to find its targets; a test that changes
a page or ends a reporter has a StreamApp of its own.
"""

from __future__ import annotations

import asyncio
import math
import time
from dataclasses import dataclass, field

import pytest
import pytest_asyncio

from tests.cluster.prometheus_on_kubernetes import scrape_configuration
from tests.dashboards.prometheus_server import NoPrometheusError, free_port, running_scraper
from tests.operator.metrics.builders import FakeReporter
from weir_operator.metrics import names
from weir_operator.metrics.direct import DirectSource
from weir_operator.metrics.prometheus import PrometheusSource
from weir_operator.metrics.prometheus_server import PrometheusServer

pytestmark = pytest.mark.asyncio(loop_scope="module")
module_fixture = pytest_asyncio.fixture(scope="module", loop_scope="module")
own_fixture = pytest_asyncio.fixture(loop_scope="module")


NAMESAKES = ("team/a-trips", "team-a/trips")
"""Flink writes both as `team_a_trips`."""
FORGER = "thieves/forger"
"""Its page says that it is another StreamApp's."""


def series(name: str, *, tm: str, app: str, **labels: str) -> str:
    """Write a series as it stands on a reporter's page."""
    written = {"job_id": "job1", "task_id": "v1", "tm_id": tm, "weir_app": app, **labels}
    return name + "{" + "".join(f'{key}="{value}",' for key, value in written.items()) + "}"


def a_page(app: str, tm: str, **labels: str) -> dict[str, float]:
    return {series(names.RECORDS_IN, tm=tm, app=app, **labels): 100.0}


def address(url: str) -> str:
    return url.removeprefix("http://")


@dataclass
class App:
    """A StreamApp's reporters, and addresses where nobody listens."""

    name: str
    reporters: list[FakeReporter] = field(default_factory=list)
    dead: list[str] = field(default_factory=list)

    @property
    def label(self) -> str:
        """What stands on the pages, as Flink writes it."""
        return names.mangle(self.name)

    @property
    def discovered(self) -> dict[str, str]:
        """What Kubernetes says of the pods."""
        namespace, name = self.name.split("/")
        return {
            "__meta_kubernetes_namespace": namespace,
            "__meta_kubernetes_pod_label_weir_dev_app": name,
            "__meta_kubernetes_pod_label_app_kubernetes_io_managed_by": "weir",
            "__meta_kubernetes_pod_container_port_name": "metrics",
        }

    @property
    def targets(self) -> list[str]:
        return [*(reporter.url for reporter in self.reporters), *self.dead]

    async def listed(self) -> list[str]:
        return self.targets


@module_fixture
async def apps():
    """A StreamApp that stands still, and for each kind of source two that tests change."""
    trips = App("streams/trips", dead=[f"http://127.0.0.1:{free_port()}"])
    marker = {"tm": "a_0", "app": trips.label, "source_id": "s"}
    trips.reporters = [
        FakeReporter(
            {
                **a_page(trips.label, "a_0", weir_operator="match", weir_pool="small"),
                series(names.LATENCY_BUCKET, tm="a_0", app=trips.label, le="100"): 7.0,
                series(names.LATENCY_MARKER, quantile="0.5", **marker): 20.0,
                series(names.LATENCY_MARKER, quantile="0.95", **marker): 90.0,
                series("flink_taskmanager_Status_JVM_Threads_Count", tm="a_0", app=trips.label): 1,
                **a_page("streams_other", "c_0"),
            }
        ),
        FakeReporter(
            {
                **a_page(trips.label, "b_0", weir_operator="count", weir_pool="large"),
                series(names.BUSY_MS, tm="b_0", app=trips.label): math.nan,
            }
        ),
    ]
    found = {"trips": trips}
    for kind in ("direct", "prometheus"):
        for fate in ("changing", "dying"):
            app = App(f"{kind}/{fate}")
            app.reporters = [FakeReporter(a_page(app.label, "a_0"))]
            found[app.name] = app
    for name in NAMESAKES:
        found[name] = App(name, [FakeReporter(a_page(names.mangle(name), f"of_{name}"))])
    claims = (trips.label, trips.name)
    forged = {key: value for claim in claims for key, value in a_page(claim, "forged").items()}
    found[FORGER] = App(FORGER, [FakeReporter(forged)])
    for app in found.values():
        for reporter in app.reporters:
            await reporter.start()
    yield found
    for app in found.values():
        for reporter in app.reporters:
            await reporter.stop()


@module_fixture
async def prometheus_url(apps, tmp_path_factory):
    """A Prometheus server that scrapes all reporters each second, configured as it must be."""
    # The page's own rules, on targets of which Kubernetes would have said the same.
    job = scrape_configuration("1s")["scrape_configs"][0] | {"scrape_timeout": "1s"}
    del job["kubernetes_sd_configs"]
    job["static_configs"] = [
        {"targets": [*map(address, app.targets)], "labels": app.discovered} for app in apps.values()
    ]
    try:
        with running_scraper(tmp_path_factory.mktemp("prometheus"), job) as url:
            yield url
    except NoPrometheusError as error:
        pytest.skip(str(error))


async def until(condition, *, limit: float = 60.0) -> None:
    """Wait until a condition holds; the limit only ends a test that fails."""
    async with asyncio.timeout(limit):
        while not await condition():
            await asyncio.sleep(0.05)


@own_fixture
async def direct_source():
    """Build direct sources that scrape until the test ends."""
    built: list[DirectSource] = []

    def build(app: App) -> DirectSource:
        source = DirectSource(app.listed, app.name)
        source.start()
        built.append(source)
        return source

    yield build
    for source in built:
        await source.close()


@own_fixture
async def prometheus_source(prometheus_url):
    """Build Prometheus sources whose connections are closed when the test ends."""
    servers: list[PrometheusServer] = []

    def build(app: App, **settings) -> PrometheusSource:
        servers.append(PrometheusServer(prometheus_url, **settings))
        return PrometheusSource(servers[-1], label="weir_app", value=app.name)

    yield build
    for server in servers:
        await server.close()


@pytest.fixture(
    params=["direct", pytest.param("prometheus", marks=pytest.mark.prometheus)],
)
def kind(request):
    return request.param


@pytest.fixture
def a_source(request, kind):
    """Build a source of the kind under test."""
    return request.getfixturevalue(f"{kind}_source")


async def last_minute(source):
    now = time.time()
    return await source.window(start=now - 60, end=now)


async def collected(source, app, *, samples=1):
    """Wait until all targets of an app were scraped so often, return the window."""
    window = await last_minute(source)

    async def enough() -> bool:
        nonlocal window
        window = await last_minute(source)
        counts = [len(each.times) for each in window.series if each.name == names.UP]
        return len(counts) == len(app.targets) and min(counts) >= samples

    await until(enough)
    return window


def of_operator(window, operator):
    (found,) = (each for each in window.series if each.labels.get("weir_operator") == operator)
    return found


def up_of(window, url):
    (found,) = (
        each
        for each in window.series
        if each.name == names.UP and each.labels["instance"] == address(url)
    )
    return found


def by_identity(window):
    """Series by name and labels, but for those that name the scrape's own ends and whose it is."""
    scrape = {"instance", "job", "weir_app", "exported_weir_app"}
    return {
        (
            each.name,
            frozenset(item for item in each.labels.items() if item[0] not in scrape),
            each.labels.get("instance") if each.name == names.UP else None,
        ): each
        for each in window.series
    }


async def test_exactly_the_apps_series_that_weir_reads_are_given(a_source, apps, kind):
    trips = apps["trips"]

    window = await collected(a_source(trips), trips)

    assert sorted((each.name, each.labels.get("tm_id", "")) for each in window.series) == sorted(
        [
            (names.RECORDS_IN, "a_0"),
            (names.LATENCY_BUCKET, "a_0"),
            (names.LATENCY_MARKER, "a_0"),
            (names.RECORDS_IN, "b_0"),
            (names.BUSY_MS, "b_0"),
            (names.UP, ""),
            (names.UP, ""),
            (names.UP, ""),
        ]
    )
    label = {"direct": trips.label, "prometheus": trips.name}[kind]
    assert {each.labels["weir_app"] for each in window.series} == {label}


async def test_labels_are_those_of_the_page(a_source, apps):
    trips = apps["trips"]

    match = of_operator(await collected(a_source(trips), trips), "match")

    assert match.labels["tm_id"] == "a_0"
    assert match.labels["weir_pool"] == "small"
    assert match.labels["job_id"] == "job1"


async def test_samples_lie_in_the_window_in_order_of_time(a_source, apps):
    source = a_source(apps["trips"])
    whole = await collected(source, apps["trips"], samples=4)
    times = of_operator(whole, "match").times

    part = await source.window(start=times[1], end=times[2])

    assert of_operator(part, "match").times == times[1:3]
    for each in whole.series:
        assert list(each.times) == sorted(set(each.times))
        assert len(each.values) == len(each.times)


async def test_a_change_on_the_page_becomes_a_later_sample(a_source, apps, kind):
    app = apps[f"{kind}/changing"]
    source = a_source(app)
    await collected(source, app)

    (page,) = (reporter.samples for reporter in app.reporters)
    page.update(dict.fromkeys(page, 160.0))

    async def changed():
        window = await last_minute(source)
        (records,) = (each for each in window.series if each.name == names.RECORDS_IN)
        return (records.values[0], records.values[-1]) == (100.0, 160.0)

    await until(changed)


async def test_a_target_where_nobody_listens_is_down_and_the_others_are_up(a_source, apps):
    trips = apps["trips"]

    window = await collected(a_source(trips), trips)

    assert [up_of(window, url).values[-1] for url in trips.targets] == [1.0, 1.0, 0.0]


async def test_a_target_that_dies_is_down_and_its_series_end(a_source, apps, kind):
    app = apps[f"{kind}/dying"]
    source = a_source(app)
    await collected(source, app)
    (reporter,) = app.reporters

    await reporter.stop()

    async def down():
        return up_of(await last_minute(source), reporter.url).values[-1] == 0.0

    await until(down)
    window = await last_minute(source)
    (records,) = (each for each in window.series if each.name == names.RECORDS_IN)
    assert records.times[-1] < up_of(window, reporter.url).times[-1]


async def test_nan_on_the_page_is_nan_in_the_sample(a_source, apps):
    trips = apps["trips"]

    window = await collected(a_source(trips), trips)

    (busy,) = (each for each in window.series if each.name == names.BUSY_MS)
    assert all(map(math.isnan, busy.values))


@pytest.mark.prometheus
async def test_both_sources_give_the_same_series_and_values(direct_source, prometheus_source, apps):
    trips = apps["trips"]

    ours = by_identity(await collected(direct_source(trips), trips))
    theirs = by_identity(await collected(prometheus_source(trips), trips))

    assert ours.keys() == theirs.keys()
    for identity, each in ours.items():
        # The pages stand still, so the moments of the scrapes do not matter. NaN is no equal of
        # itself, its text is.
        assert set(map(str, each.values)) == set(map(str, theirs[identity].values))


@pytest.mark.prometheus
@pytest.mark.parametrize("name", NAMESAKES)
async def test_apps_whose_names_flink_writes_alike_are_kept_apart(prometheus_source, apps, name):
    window = await collected(prometheus_source(apps[name]), apps[name])

    counted = [each for each in window.series if each.name == names.RECORDS_IN]
    assert [each.labels["tm_id"] for each in counted] == [f"of_{name}"]


@pytest.mark.prometheus
async def test_a_page_that_claims_to_be_another_apps_is_not_believed(prometheus_source, apps):
    forger, trips = apps[FORGER], apps["trips"]

    await collected(prometheus_source(forger), forger)  # its page was scraped
    window = await collected(prometheus_source(trips), trips)

    assert {each.labels.get("tm_id") for each in window.series} == {"a_0", "b_0", None}


@pytest.mark.prometheus
async def test_a_window_in_pieces_is_the_window_in_one(prometheus_source, apps, monkeypatch):
    trips = apps["trips"]
    source = prometheus_source(trips)
    found = await collected(source, trips, samples=3)
    begin = found.end - 5.0  # of several pieces, each of which is a question
    whole = await source.window(start=begin, end=found.end)
    monkeypatch.setattr("weir_operator.metrics.prometheus.CHUNK", 0.7)

    pieces = await prometheus_source(trips).window(start=begin, end=found.end)

    times = {identity: each.times for identity, each in by_identity(pieces).items()}
    assert times == {identity: each.times for identity, each in by_identity(whole).items()}
    assert max(map(len, times.values())) >= 2


@pytest.mark.prometheus
async def test_more_matchers_narrow_what_prometheus_gives(prometheus_source, apps):
    trips = apps["trips"]
    await collected(prometheus_source(trips), trips)

    window = await last_minute(prometheus_source(trips, matchers={"weir_pool": "large"}))

    assert [each.labels["tm_id"] for each in window.series] == ["b_0"]
