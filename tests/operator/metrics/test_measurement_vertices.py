"""Operators of several vertices, and jobs whose input Flink does not count, are measured right."""

from __future__ import annotations

import pytest

from tests.operator.metrics.builders import (
    a_counter,
    a_gauge,
    a_layout_of,
    a_replica,
)
from weir_operator.metrics import names
from weir_operator.metrics.measurement import measure
from weir_operator.metrics.quality import ProblemKind, judge
from weir_operator.metrics.source import Window


def test_an_operator_of_several_vertices_counts_at_its_ends_and_is_as_busy_as_its_busiest():
    layout = a_layout_of(
        a_replica("tm-0", "work"),
        fed={"work": "gen"},
        entries={"work": frozenset({"v1"})},
        exits={"work": frozenset({"v2"})},
    )
    times = (0.0, 10.0)
    series = [
        a_counter(name, {"job_id": "job1", "task_id": vertex, "tm_id": "tm_0"}, rate, times)
        for name, vertex, rate in (
            (names.RECORDS_IN, "v1", 100),
            (names.RECORDS_OUT, "v1", 300),
            (names.BUSY_MS, "v1", 200),
            (names.RECORDS_IN, "v2", 300),
            (names.RECORDS_OUT, "v2", 30),
            (names.BUSY_MS, "v2", 900),
        )
    ]

    work = measure(Window(start=0, end=10, series=tuple(series)), layout).operators["work"]

    assert work.processed_rate == 100
    assert work.emitted_rate == 30
    assert work.utilisation == pytest.approx((0.9,))


def test_a_job_of_one_chain_is_measured_by_the_input_of_its_functions():
    layout = a_layout_of(a_replica("tm-0", "job"))
    labels = {"job_id": "job1", "task_id": "v1", "tm_id": "tm_0"}
    times = (0.0, 10.0)
    series = (
        a_counter(names.RECORDS_IN, labels, 0, times),
        a_counter(names.RECORDS_OUT, labels, 0, times),
        a_counter(names.OPERATOR_RECORDS_IN, labels | {"operator_id": "sink"}, 40, times),
    )

    job = measure(Window(start=0, end=10, series=series), layout).operators["job"]

    assert job.arrival_rate == 40


def test_a_job_that_is_one_operator_is_as_late_as_its_last_vertex_says():
    layout = a_layout_of(
        a_replica("tm-0", "job"),
        entries={"job": frozenset({"v1"})},
        exits={"job": frozenset({"v3"})},
    )
    times = (0.0, 10.0)
    series = [
        a_counter(name, {"job_id": "job1", "task_id": vertex, "tm_id": "tm_0"}, rate, times)
        for vertex, taken, busy in (("v1", 0, 10), ("v2", 50, 500), ("v3", 50, 100))
        for name, rate in (
            (names.RECORDS_IN, taken),
            (names.RECORDS_OUT, 50),
            (names.BUSY_MS, busy),
        )
    ]
    markers = [
        a_gauge(
            names.LATENCY_MARKER,
            {
                "job_id": "job1",
                "task_id": vertex,
                "tm_id": "tm_0",
                "operator_id": vertex,
                "quantile": names.MARKER_QUANTILE,
            },
            age,
            times,
        )
        for vertex, age in (("v2", 20.0), ("v3", 300.0))
    ]

    job = measure(Window(start=0, end=10, series=(*series, *markers)), layout)

    assert job.end_to_end.mean == pytest.approx(0.300 + 0.010)


def a_lone_operator(*, drained):
    replicas = a_replica("tm-0", "job"), a_replica("tm-1", "job")
    return a_layout_of(*replicas, drained=frozenset({"tm-1"} if drained else ()))


def one_replica_that_works(end):
    labels = {"job_id": "job1", "task_id": "v1", "tm_id": "tm_0"}
    times = tuple(float(time) for time in range(0, end + 1, 10))
    series = (
        a_counter(names.RECORDS_IN, labels, 0, times),
        a_counter(names.RECORDS_OUT, labels, 40, times),
        a_counter(names.BUSY_MS, labels, 400, times),
    )
    return Window(start=0, end=end, series=series)


def test_a_replica_whose_tasks_have_come_to_their_end_takes_in_nothing_and_is_no_fault():
    layout = a_lone_operator(drained=True)

    measured = measure(one_replica_that_works(60), layout)

    assert measured.operators["job"].arrival_rate == pytest.approx(40)
    assert measured.operators["job"].utilisation == pytest.approx((0.4, 0.0))
    assert judge(measured, None, layout, 60.0, stale_after=10.0) == ()


def test_a_replica_that_is_silent_without_having_come_to_its_end_is_a_fault():
    layout = a_lone_operator(drained=False)

    [problem] = judge(
        measure(one_replica_that_works(60), layout), None, layout, 60.0, stale_after=10.0
    )

    assert problem.kind is ProblemKind.PARTIAL
