"""Samples of a foreign job: out of Flink's REST interface, and out of stock reporters' series."""

import asyncio
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from tests.operator.advise.fakes import FakeCluster
from tests.operator.rescale.fakes import TurnTakingClock
from tests.operator.streamapp.builders import a_stream_app
from weir_operator.advise.flink import ExternalFlink, read_counters
from weir_operator.advise.metrics import ExternalMetrics, FlinkSampler, relabel
from weir_operator.advise.view import PodPlace, view_job
from weir_operator.advise.watch import JobWatch
from weir_operator.errors import TemporaryError
from weir_operator.flink import answers
from weir_operator.loop.gather import layout_of
from weir_operator.metrics import names
from weir_operator.metrics.measurement import measure
from weir_operator.metrics.source import Series, Window

RECORDED = Path(__file__).parent / "recorded"
APP = a_stream_app(mode="Advise", flink={"ref": {"kind": "FlinkDeployment", "name": "trips"}})
JOB = answers.read_job(json.loads((RECORDED / "job.json").read_text()))
SOURCE, SCORE, SINK = (vertex.id for vertex in JOB.vertices)
ANSWERS = {
    vertex: json.loads((RECORDED / f"vertex-{name}.json").read_text())
    for vertex, name in zip((SOURCE, SCORE, SINK), ("source", "score", "sink"), strict=True)
}
VIEW = view_job(
    JOB,
    {vertex: answers.read_subtasks(answer) for vertex, answer in ANSWERS.items()},
    {"tm-a": PodPlace(pool="small", cores=1.0)},
    pools=APP.spec.node_pools,
    url="http://flink",
)
LAYOUT = layout_of(JOB.id, VIEW.topology, VIEW.replicas)


class SteadyFlink:
    """Answers as Flink does: counters that rise with the clock, gathered every ten seconds."""

    def __init__(self, clock):
        self.clock = clock
        self.began = clock.now()
        self.ids = {}
        self.values = {}
        self.asked = []

    async def counters(self, job_id, vertex):
        lag = (self.clock.now() - self.began) % 10
        seconds = self.clock.now() - self.began - lag
        answer = json.loads(json.dumps(ANSWERS[vertex]))
        for subtask in answer["subtasks"]:
            counted = subtask["metrics"]
            counted["read-records"] = 0 if vertex == SOURCE else 20 * seconds
            counted["write-records"] = 0 if vertex == SINK else 20 * seconds
            counted["accumulated-busy-time"] = 200 * seconds
            counted["accumulated-idle-time"] = 800 * seconds
            counted["accumulated-backpressured-time"] = 0
            subtask["status-duration"]["RUNNING"] = 1000 * (seconds + lag)
        return read_counters(answer)

    async def metric_ids(self, job_id, vertex):
        return self.ids.get(vertex, ())

    async def metrics(self, job_id, vertex, ids):
        self.asked += ids
        return {each: self.values[each] for each in ids}


@pytest.fixture
def clock():
    return TurnTakingClock()


@pytest.fixture
def flink(clock):
    return SteadyFlink(clock)


@pytest.fixture
def watch(flink):
    watch = JobWatch(APP, FakeCluster({}))
    watch.job, watch.flink = VIEW, cast(ExternalFlink, flink)
    return watch


async def sampled(watch, clock, *, seconds, every):
    sampler = FlinkSampler(watch, clock=clock, period=10.0)
    for _ in range(0, seconds, every):
        await sampler.sample()
        clock.time += every
    return sampler


async def test_rates_are_exact_though_answers_are_up_to_ten_seconds_old(watch, clock):
    start = clock.now()
    sampler = await sampled(watch, clock, seconds=66, every=7)

    measured = measure(sampler.window(start=start, end=clock.now()), LAYOUT)

    score = measured.operators["score-slow"]
    assert measured.operators["source-numbers"].arrival_rate == pytest.approx(40)
    assert score.processed_rate == pytest.approx(40)
    assert score.utilisation == pytest.approx((0.2, 0.2))
    assert score.service_mean == pytest.approx(0.010)


async def test_an_answer_that_is_not_as_expected_does_not_end_the_sampling(
    watch, clock, flink, monkeypatch
):
    answer, odd = flink.counters, [KeyError("subtasks"), AttributeError("None")]

    async def counters(job_id, vertex):
        if odd:
            raise odd.pop()
        return await answer(job_id, vertex)

    monkeypatch.setattr(flink, "counters", counters)
    sampler = FlinkSampler(watch, clock=clock, period=10.0)
    start = clock.now()
    sampler.start()
    try:
        async with asyncio.timeout(10.0):
            while not sampler.window(start=start, end=clock.now()).series:
                await asyncio.sleep(0)
    finally:
        await sampler.close()

    assert odd == []


async def test_a_job_of_too_many_series_is_told_the_limit(watch, clock, monkeypatch):
    monkeypatch.setattr("weir_operator.advise.metrics.MAX_SERIES", 3)
    start = clock.now()
    sampler = await sampled(watch, clock, seconds=10, every=10)

    with pytest.raises(TemporaryError, match="3 series"):
        sampler.window(start=start, end=clock.now())


async def test_one_gathering_that_is_told_twice_is_one_sample(watch, clock):
    start = clock.now()
    sampler = await sampled(watch, clock, seconds=9, every=3)

    window = sampler.window(start=start, end=clock.now())

    (records,) = [
        series
        for series in window.series
        if series.name == names.RECORDS_IN and series.labels["tm_id"] == "score_slow_0"
    ]
    assert len(records.times) == 1


async def test_what_came_too_late_for_a_window_is_in_the_next_one(watch, clock):
    start = clock.now()
    sampler = await sampled(watch, clock, seconds=60, every=10)

    measured = measure(sampler.window(start=start + 45, end=start + 60), LAYOUT)

    assert measured.operators["score-slow"].processed_rate == pytest.approx(40)


async def test_a_source_tells_its_backlog_and_a_function_when_its_markers_came(watch, clock, flink):
    marker = f"1.latency.source_id.a.operator_id.{SCORE}.operator_subtask_index.1.latency_median"
    backlog = "0.Source__Numbers.pendingRecords"
    flink.ids = {
        SOURCE: (backlog, "0.numRecordsIn", "0.Source__Numbers.numBytesOut"),
        SCORE: (marker, marker.replace("median", "p99"), "0.Score_(slow).numRecordsIn"),
    }
    flink.values = {backlog: 300.0, marker: 40.0}
    sampler = await sampled(watch, clock, seconds=60, every=10)

    measured = measure(sampler.window(start=clock.now() - 60, end=clock.now()), LAYOUT)

    assert set(flink.asked) == {marker, backlog}
    assert measured.backlog == 300
    waits = 300 / 40  # records pending, of which 40 are read each second
    assert measured.operators["score-slow"].response_time == pytest.approx(waits + 0.040 + 0.010)


def stock_series(name, value, **labels):
    """A series as a stock Prometheus reporter and a PodMonitor leave it."""
    machine = {"host": "10_0_0_1", "tm_id": "trips_taskmanager_1_1", "pod": "trips-1", "job": "m"}
    return Series(
        name=name, labels={**machine, **labels}, times=(0.0, 60.0), values=(0.0, 60 * value)
    )


def task_labels(vertex, subtask):
    return {
        "job_id": JOB.id,
        "job_name": "stock",
        "task_id": vertex,
        "task_name": "Score_(slow)",
        "subtask_index": subtask,
        "task_attempt_id": "x",
    }


def test_stock_series_are_told_apart_by_vertex_and_subtask_not_by_task_manager():
    window = Window(
        start=0.0,
        end=60.0,
        series=tuple(
            stock_series(name, value, **task_labels(vertex, subtask))
            for vertex, taken in ((SOURCE, 0.0), (SCORE, 20.0), (SINK, 20.0))
            for subtask in ("0", "1")
            for name, value in (
                (names.RECORDS_IN, taken),
                (names.RECORDS_OUT, 20.0),
                (names.BUSY_MS, 300.0 if subtask == "0" else 100.0),
            )
        ),
    )

    measured = measure(relabel(window, VIEW), LAYOUT)

    assert measured.operators["score-slow"].arrival_rate == pytest.approx(40)
    assert measured.operators["score-slow"].utilisation == pytest.approx((0.3, 0.1))


MACHINE = {names.APP_LABEL, "weir_operator", "weir_pool", "tm_id"}
"""Labels of the process that a replica happens to run in."""
OF_A_REPLICA = [label for label in names.LABELS if label not in MACHINE]


@pytest.mark.parametrize("name", sorted(name for name in names.NAMES if "_job_task_" in name))
def test_series_that_differ_in_one_label_stay_apart(name):
    for label in OF_A_REPLICA:
        own = [task_labels(SCORE, "0") | {label: value} for value in ("0", "1")]
        if label == "task_id":
            own = [task_labels(vertex, "0") for vertex in (SCORE, SINK)]
        window = Window(
            start=0.0, end=60.0, series=tuple(stock_series(name, 1.0, **each) for each in own)
        )

        kept = [each.labels for each in relabel(window, VIEW).series]

        assert kept[0] != kept[1], label


def stock_offsets(*absent):
    """Series of a Kafka source whose two subtasks read twelve partitions."""
    for partition in range(12):
        labels = {"operator_id": "o", "topic": "t", "partition": str(partition)}
        yield stock_series(
            names.PARTITION_OFFSET,
            1.0,
            **task_labels(SOURCE, str(partition % 2)),
            **{label: value for label, value in labels.items() if label not in absent},
        )


def splits_of(window):
    return measure(relabel(window, VIEW), LAYOUT).operators["source-numbers"].splits


def test_a_kafka_source_has_the_partitions_that_its_reporters_name():
    assert splits_of(Window(start=0.0, end=60.0, series=tuple(stock_offsets()))) == 12


@pytest.mark.parametrize("absent", [("topic",), ("partition",), ("topic", "partition")])
def test_partitions_that_are_not_told_apart_are_not_known_rather_than_one(absent):
    window = Window(start=0.0, end=60.0, series=tuple(stock_offsets(*absent)))

    assert math.isnan(splits_of(window))


async def test_a_kafka_source_has_the_partitions_that_flink_itself_names(watch, clock, flink):
    offsets = [
        f"{number % 2}.Source__Numbers.KafkaSourceReader"
        f".topic.{topic}.partition.{number}.currentOffset"
        for topic in ("trips", "fares")
        for number in range(6)
    ]
    others = ["0.Source__Numbers.KafkaSourceReader.commitsSucceeded", "0.currentOffset"]
    flink.ids = {SOURCE: (*offsets, *others), SCORE: tuple(offsets)}
    flink.values = dict.fromkeys(offsets, 7.0)
    sampler = await sampled(watch, clock, seconds=60, every=10)

    measured = measure(sampler.window(start=clock.now() - 60, end=clock.now()), LAYOUT)

    assert measured.operators["source-numbers"].splits == 12


async def test_a_source_of_several_kafka_clusters_has_the_partitions_of_all(watch, clock, flink):
    offsets = [
        f"{number % 2}.Source__Numbers.DynamicKafkaSource.kafkaCluster.{cluster}"
        f".KafkaSourceReader.topic.trips.partition.{number}.currentOffset"
        for cluster in ("east", "west.2")
        for number in range(6)
    ]
    flink.ids = {SOURCE: tuple(offsets)}
    flink.values = dict.fromkeys(offsets, 7.0)
    sampler = await sampled(watch, clock, seconds=60, every=10)

    measured = measure(sampler.window(start=clock.now() - 60, end=clock.now()), LAYOUT)

    assert measured.operators["source-numbers"].splits == 12


def test_series_that_are_of_no_replica_are_left_out():
    window = Window(
        start=0.0,
        end=60.0,
        series=(
            stock_series(names.GC_MS, 1.0),
            stock_series(names.RECORDS_IN, 1.0, **task_labels("another-vertex", "0")),
        ),
    )

    assert relabel(window, VIEW).series == ()


class Prometheus:
    """A Prometheus with these series, whatever is asked."""

    def __init__(self, series, closed):
        self.series = series
        self.closed = closed

    async def window(self, *, start, end):
        return Window(start=start, end=end, series=self.series)

    async def close(self):
        self.closed.append(self)


async def test_prometheus_is_asked_for_the_run_that_is_there_now(watch, clock):
    asked: list[tuple[str, str]] = []
    closed: list[Prometheus] = []
    series = stock_series(names.RECORDS_IN, 20.0, **task_labels(SCORE, "0"))

    def prometheus(job_id, namespace):
        asked.append((job_id, namespace))
        return Prometheus((series,), closed)

    metrics = ExternalMetrics(watch=watch, prometheus=prometheus, clock=clock)
    window = await metrics.window(start=0.0, end=60.0)
    await metrics.window(start=60.0, end=120.0)
    await metrics.close()

    assert [each.labels["tm_id"] for each in window.series] == ["score_slow_0"]
    assert asked == [(JOB.id, watch.namespace)]
    assert len(closed) == 1


async def test_an_id_that_several_jobs_have_is_not_asked_of_prometheus(watch, clock):
    watch.job = replace(watch.job, id="0" * 32)

    def prometheus(job_id, namespace):
        raise AssertionError(f"Expected no question for {job_id}")

    metrics = ExternalMetrics(watch=watch, prometheus=prometheus, clock=clock)
    window = await metrics.window(start=0.0, end=60.0)
    await metrics.close()

    assert window.series == ()


async def test_flink_itself_is_asked_where_prometheus_has_nothing_of_the_job(watch, clock):
    metrics = ExternalMetrics(
        watch=watch, prometheus=lambda job_id, namespace: Prometheus((), []), clock=clock
    )
    start = clock.now()

    silent = await metrics.window(start=start, end=start)
    await clock.sleep(60)
    told = await metrics.window(start=start, end=clock.now())
    await metrics.close()

    assert silent.series == ()
    assert {each.labels.get("task_id") for each in told.series} >= {SOURCE, SCORE, SINK}


async def test_a_job_that_is_not_known_has_no_samples(watch, clock):
    watch.job = None

    window = await ExternalMetrics(watch=watch, prometheus=None, clock=clock).window(
        start=0.0, end=1.0
    )

    assert window.series == ()
