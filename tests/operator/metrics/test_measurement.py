from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from tests.operator.metrics.builders import (
    Load,
    a_counter,
    a_layout,
    a_layout_of,
    a_replica,
    a_window,
    changed,
    is_of,
)
from weir_operator.metrics import names
from weir_operator.metrics.measurement import measure, waited
from weir_operator.metrics.source import Series, Window
from weir_operator.metrics.values import ServiceFrom
from weir_policies.model.dataflow import Edge

STEADY = {
    "gen": Load(rate=100, busy=0.1, pending=500),
    "match": Load(rate=100, busy=0.8, service_mean=0.015, service_scv=0.5, age=0.040),
    "count": Load(rate=100, busy=0.3, service_mean=0.003, service_scv=0.0, age=0.075),
    "out": Load(rate=100, busy=0.1, service_mean=0.001, age=0.085, latency=0.09),
}


def cut(series: Series, start: int, stop: int) -> Series:
    return replace(series, times=series.times[start:stop], values=series.values[start:stop])


def test_a_steady_job_is_measured_as_it_was_made():
    layout = a_layout(replicas={"match": 2})

    measurement = measure(a_window(layout, STEADY), layout)

    match = measurement.operators["match"]
    assert match.arrival_rate == pytest.approx(100)
    assert match.processed_rate == pytest.approx(100)
    assert match.selectivity == pytest.approx(1)
    assert match.utilisation == pytest.approx((0.8, 0.8))
    assert [replica.processed_rate for replica in match.replicas] == pytest.approx([50, 50])
    assert match.service_mean == pytest.approx(0.015)
    assert match.replicas[0].service_variance == pytest.approx(0.5 * 0.015**2)
    assert {replica.service_from for replica in match.replicas} == {ServiceFrom.HELPER}
    assert match.expected == 2
    assert measurement.backlog == 500
    assert measurement.newest == 1060


def test_response_times_of_operators_add_up_to_the_age_at_the_sink():
    layout = a_layout()

    operators = measure(a_window(layout, STEADY), layout).operators

    assert operators["match"].response_time == pytest.approx(0.040 + 0.015)
    assert operators["count"].response_time == pytest.approx(0.075 - 0.055 + 0.003)
    assert operators["out"].response_time == pytest.approx(0.085 - 0.078 + 0.001)
    assert math.isnan(operators["gen"].response_time)


def test_source_to_sink_comes_from_the_sinks_counters_and_buckets():
    layout = a_layout(replicas={"out": 2})

    measured = measure(a_window(layout, STEADY), layout)

    assert measured.end_to_end == measured.sinks["out"]
    assert measured.end_to_end.throughput == pytest.approx(100)
    assert measured.end_to_end.mean == pytest.approx(0.09)
    # Of exponential latencies these are 62, 270 and 414 ms; buckets end at 50, 100, 200, 500 ms.
    assert measured.end_to_end.quantiles["p50"] == pytest.approx(0.062, abs=0.005)
    quantiles = measured.end_to_end.quantiles
    assert 0.2 < quantiles["p95"] < quantiles["p99"] < 0.5


def test_records_later_than_the_last_bucket_make_a_quantile_infinite():
    loads = STEADY | {"out": Load(rate=100, latency=20.0)}
    layout = a_layout()

    end_to_end = measure(a_window(layout, loads), layout).end_to_end

    assert end_to_end.quantiles["p50"] == math.inf
    assert end_to_end.mean == pytest.approx(20.0)


def test_a_sink_without_buckets_has_a_mean_and_no_quantiles():
    layout = a_layout()
    window = changed(
        a_window(layout, STEADY), lambda _: None, where=is_of("out", names.LATENCY_BUCKET)
    )

    end_to_end = measure(window, layout).end_to_end

    assert end_to_end.mean == pytest.approx(0.09)
    assert math.isnan(end_to_end.quantiles["p95"])


def test_under_back_pressure_the_demand_is_seen_in_the_sources_backlog():
    loads = STEADY | {
        "gen": Load(rate=60, pending=500, pending_growth=40, back_pressure=0.7),
        "match": Load(rate=60, busy=1.0),
        "count": Load(rate=60),
        "out": Load(rate=60),
    }
    layout = a_layout()

    operators = measure(a_window(layout, loads), layout).operators

    assert operators["gen"].back_pressure == pytest.approx(0.7)
    assert operators["gen"].backlog == 500 + 60 * 40
    assert operators["gen"].backlog_growth == pytest.approx(40)
    assert operators["match"].processed_rate == pytest.approx(60)
    for name in layout.flow.operators:
        assert operators[name].arrival_rate == pytest.approx(100)


def test_samples_of_an_earlier_run_are_ignored_after_a_rescale():
    before, after = a_layout("job1"), a_layout("job2", replicas={"match": 2})
    old = a_window(before, STEADY, start=1000, end=1030)
    faster = {name: replace(load, rate=200.0) for name, load in STEADY.items()}
    new = a_window(after, faster, start=1035, end=1060)
    window = Window(start=1000, end=1060, series=old.series + new.series)

    measured = measure(window, after)

    assert measured.job_id == "job2"
    assert measured.operators["match"].processed_rate == pytest.approx(200)
    assert measured.operators["match"].replicas[0].span == 25
    assert measured.end_to_end.throughput == pytest.approx(200)


def test_a_run_without_samples_yet_is_unknown_and_not_idle():
    window = a_window(a_layout("job1"), STEADY)

    measured = measure(window, a_layout("job2"))

    assert math.isnan(measured.newest)
    for operator in measured.operators.values():
        assert math.isnan(operator.arrival_rate)
        assert all(map(math.isnan, operator.utilisation))
    assert math.isnan(measured.end_to_end.mean)
    assert math.isnan(measured.end_to_end.throughput)


def test_a_counter_that_restarted_in_the_window_gives_its_true_rate():
    layout = a_layout()
    window = changed(
        a_window(layout, STEADY),
        lambda each: replace(each, values=(*each.values[:6], *each.values[:7])),
        where=is_of("match", names.RECORDS_IN),
    )

    match = measure(window, layout).operators["match"]

    # 5 steps of 500 records, a restart that shows 1000, 6 steps more, in 60 s.
    assert match.processed_rate == pytest.approx((11 * 500 + 1000) / 60)


def test_a_restarted_task_is_measured_by_its_new_attempt():
    layout = a_layout()
    task = {"job_id": "job1", "task_id": "v-match", "tm_id": "app_match_small_0"}
    first = a_counter(names.RECORDS_IN, task | {"task_attempt_num": "0"}, 10, (0.0, 30.0))
    second = a_counter(names.RECORDS_IN, task | {"task_attempt_num": "1"}, 70, (35.0, 60.0), base=0)
    window = Window(start=0, end=60, series=(first, second))

    match = measure(window, layout).operators["match"]

    assert match.processed_rate == pytest.approx(70)


def test_a_replica_that_began_inside_the_window_is_judged_by_its_own_time():
    layout = a_layout(replicas={"match": 2})
    window = changed(
        a_window(layout, STEADY),
        lambda each: cut(each, 9, 13) if each.labels["tm_id"].endswith("_1") else each,
        where=is_of("match"),
    )

    match = measure(window, layout).operators["match"]

    assert [replica.span for replica in match.replicas] == [60, 15]
    assert match.processed_rate == pytest.approx(100)
    assert match.service_mean == pytest.approx(0.015)


def test_one_sample_tells_no_rate():
    layout = a_layout()
    window = changed(a_window(layout, STEADY), lambda each: cut(each, 12, 13), where=is_of("match"))

    match = measure(window, layout).operators["match"]

    assert math.isnan(match.processed_rate)
    assert match.replicas[0].last_sample == 1060


def test_a_missing_replica_makes_the_sum_unknown_and_leaves_the_others_known():
    layout = a_layout(replicas={"match": 2})
    window = changed(
        a_window(layout, STEADY),
        lambda each: None if each.labels["tm_id"].endswith("_1") else each,
        where=is_of("match"),
    )

    match = measure(window, layout).operators["match"]

    assert match.expected == 2
    assert math.isnan(match.processed_rate)
    assert match.utilisation[0] == pytest.approx(0.8)
    assert math.isnan(match.utilisation[1])
    assert match.service_mean == pytest.approx(0.015)


def test_a_value_that_is_no_number_is_named_with_its_replica():
    layout = a_layout()
    window = changed(
        a_window(layout, STEADY),
        lambda each: replace(each, values=(*each.values[:-1], math.nan)),
        where=is_of("match", names.RECORDS_IN),
    )

    replica = measure(window, layout).operators["match"].replicas[0]

    assert replica.poisoned == (names.RECORDS_IN,)
    assert replica.processed_rate == pytest.approx(100)


def test_without_the_helper_busy_time_and_markers_stand_in():
    loads = {
        "gen": Load(rate=100, helper=False),
        "match": Load(rate=100, busy=0.8, helper=False, marker=0.020),
        "count": Load(rate=100, busy=0.3, helper=False, marker=0.050),
        "out": Load(rate=100, busy=0.1, helper=False, marker=0.060),
    }
    layout = a_layout()

    measured = measure(a_window(layout, loads), layout)

    match, count = measured.operators["match"], measured.operators["count"]
    assert match.service_mean == pytest.approx(0.008)
    assert math.isnan(match.replicas[0].service_variance)
    assert match.replicas[0].service_from is ServiceFrom.BUSY_TIME
    assert match.response_time == pytest.approx(0.028)
    assert count.response_time == pytest.approx(0.050 - 0.020 + 0.003)
    # Markers pass by the functions: 8 ms of match, 3 of count and 1 of out are not in 60.
    assert measured.end_to_end.mean == pytest.approx(0.072)
    assert math.isnan(measured.end_to_end.quantiles["p95"])
    assert measured.end_to_end.throughput == pytest.approx(100)


def test_a_record_that_waits_at_the_source_is_late_though_markers_do_not_wait():
    loads = {
        "gen": Load(rate=500, helper=False, pending=1000.0, pending_growth=300.0),
        "match": Load(rate=500, busy=0.8, helper=False, marker=0.020),
        "count": Load(rate=500, busy=0.3, helper=False, marker=0.050),
        "out": Load(rate=500, busy=0.1, helper=False, marker=0.060),
    }
    layout = a_layout()

    measured = measure(a_window(layout, loads), layout)

    # 10,000 records wait in the middle of the minute, and 800 arrive each second.
    wait = 10_000 / 800
    work = (0.8 + 0.3 + 0.1) / 500
    assert measured.operators["gen"].source_wait == pytest.approx(wait)
    assert measured.end_to_end.mean == pytest.approx(wait + 0.060 + work)
    match, count = measured.operators["match"], measured.operators["count"]
    assert match.response_time == pytest.approx(wait + 0.020 + 0.8 / 500)
    assert count.response_time == pytest.approx(0.050 - 0.020 + 0.3 / 500)


def measure_backlog(start, previous, *, pending, growth, set_by=0.0):
    layout = a_layout()
    loads = {
        "gen": Load(rate=500, helper=False, pending=pending, pending_growth=growth),
        "match": Load(rate=500, busy=0.8, helper=False, marker=0.020),
        "count": Load(rate=500, busy=0.3, helper=False),
        "out": Load(rate=500, busy=0.1, helper=False),
    }
    window = a_window(layout, loads, start=start, end=start + 60)
    return measure(window, layout, previous, set_by=set_by)


def test_records_have_waited_since_as_many_arrived_as_wait_now():
    first = measure_backlog(1000, None, pending=0, growth=300)
    second = measure_backlog(1060, first, pending=18_000, growth=300)
    third = measure_backlog(1120, second, pending=36_000, growth=-400)

    # 27,000 records of 800 a second wait in the middle, and 24,000 of them came in this minute.
    assert second.operators["gen"].source_wait == pytest.approx(27_000 / 800)
    # 24,000 wait; 3,000 of them came in 30 s at 100 a second, those before at 800.
    assert third.operators["gen"].source_wait == pytest.approx(30 + 21_000 / 800)
    # What came 56 s before 1150 is in the window that began at 1060.
    assert [start for start, _ in third.operators["gen"].arrivals] == [1060, 1120]


def test_what_arrived_before_an_interval_without_samples_is_not_forgotten():
    layout = a_layout()
    before = measure_backlog(1000, None, pending=0, growth=300)
    nothing = measure(Window(start=1060, end=1060, series=()), layout, before)

    after = measure_backlog(1060, nothing, pending=18_000, growth=300)

    assert after.operators["gen"].source_wait == pytest.approx(27_000 / 800)


@pytest.mark.parametrize("set_by", [-500.0, 500.0])
def test_a_clock_that_is_set_changes_no_wait(set_by):
    first = measure_backlog(1000, None, pending=0, growth=300)

    second = measure_backlog(1060 + set_by, first, pending=18_000, growth=300, set_by=set_by)

    assert second.operators["gen"].source_wait == pytest.approx(27_000 / 800)


def test_what_arrived_is_known_of_a_source_that_left_its_operator():
    shared = a_layout_of(a_replica("app-job-small-0", "job"))
    growing = Load(rate=500, helper=False, pending=0, pending_growth=300)
    before = measure(a_window(shared, {"job": growing}, start=1000, end=1060), shared)
    layout = a_layout("job2")
    loads = {name: Load(rate=500, helper=False) for name in STEADY}
    loads["gen"] = replace(growing, pending=18_000)

    measured = measure(a_window(layout, loads, start=1060, end=1080), layout, before)

    # 21,000 records wait at 1070, and 8,000 of them came since 1060.
    assert measured.operators["gen"].source_wait == pytest.approx(21_000 / 800)


def test_what_came_before_the_first_measurement_has_waited_as_long_as_it_takes_to_read():
    assert waited(1000, 60, ((0, 10),), read=100) == pytest.approx(60 + (1000 - 600) / 100)


def read_slowly(previous, *, replicas=1, rate=100.0, growth=80.0, busy=0.1, back_pressure=0.0):
    """Measure the next minute of a source that is hardly busy."""
    layout = a_layout(replicas={"gen": replicas})
    gen = Load(
        rate=rate, busy=busy, back_pressure=back_pressure, pending=1e6, pending_growth=growth
    )
    loads = {"gen": gen, **{name: Load(rate=rate) for name in ("match", "count", "out")}}
    start = 1000.0 if previous is None else previous.end
    return measure(a_window(layout, loads, start=start, end=start + 60), layout, previous)


def services_of(rounds):
    measured, found = None, []
    for each in rounds:
        measured = read_slowly(measured, **each)
        found.append(round(1000 * measured.operators["gen"].service_mean, 2))
    return found


BEHIND: dict[str, Any] = {}


@pytest.mark.parametrize(
    ("rounds", "milliseconds"),
    {
        "slow from the third interval on": ([BEHIND] * 4, [1, 1, 10, 10]),
        "and when it has caught up": (
            [*[BEHIND] * 3, {"replicas": 2, "rate": 180.0, "growth": 0.0}],
            [1, 1, 10, 10],
        ),
        "until a replica reads more": (
            [*[BEHIND] * 3, {"rate": 500.0, "growth": -400.0}, {"growth": 0.0}],
            [1, 1, 10, 2, 2],
        ),
        "as slow as at first where more replicas read no more": (
            [*[BEHIND] * 3, *[{"replicas": 2}] * 3],
            [1, 1, 10, 10, 10, 10],
        ),
        "not where it kept up between": (
            [*[BEHIND] * 2, {"growth": 0.0}, *[BEHIND] * 2],
            [1, 1, 1, 1, 1],
        ),
        "not where it is busy": ([{"busy": 0.9}] * 4, [9, 9, 9, 9]),
        "not where it waits for room": ([{"back_pressure": 0.6}] * 4, [1, 1, 1, 1]),
    }.values(),
    ids=str,
)
def test_a_source_that_falls_behind_with_time_to_spare_is_as_slow_as_it_reads(rounds, milliseconds):
    assert services_of(rounds) == milliseconds


def test_a_job_of_one_operator_has_the_wait_at_its_source():
    layout = a_layout_of(a_replica("app-gen-small-0", "gen"))
    loads = {"gen": Load(rate=500, busy=0.5, helper=False, marker=0.020, pending=1000)}

    measured = measure(a_window(layout, loads), layout)

    assert measured.end_to_end.mean == pytest.approx(1000 / 500 + 0.020 + 0.001)


def test_the_agent_counts_the_age_of_records_by_markers():
    layout = a_layout(replicas={"match": 2})
    loads = {name: Load(rate=100, helper=False, agent=True, marker=0.060) for name in STEADY}
    loads["match"] = replace(loads["match"], marker=0.020)
    hot = layout.replicas["match"][0].id

    def reshare(series):
        factor = {names.TASK_AGE_N: 1.4, names.TASK_AGE_US: 1.4 * 20}.get(series.name, 1.0)
        if names.mangle(hot) != series.labels["tm_id"]:
            factor = 0.6 if series.name in (names.TASK_AGE_N, names.TASK_AGE_US) else 1.0
        return replace(series, values=tuple(value * factor for value in series.values))

    window = changed(a_window(layout, loads), reshare, where=is_of("match"))

    measured = measure(window, layout)

    # 70 of 100 records take 400 ms to the hot replica, the others 20 ms to the other.
    entered = 0.7 * 0.4 + 0.3 * 0.02
    assert measured.operators["match"].response_time == pytest.approx(entered + 0.02)
    assert measured.end_to_end.mean == pytest.approx(0.060 + 3 * 0.02)


def test_a_replica_counts_in_the_time_of_markers_by_its_records():
    layout = a_layout(replicas={"match": 2})
    loads = {
        "gen": Load(rate=100, helper=False),
        "match": Load(rate=100, busy=0.5, helper=False, marker=0.020),
        "count": Load(rate=100, busy=0.3, helper=False),
        "out": Load(rate=100, busy=0.1, helper=False),
    }
    hot = layout.replicas["match"][0].id

    def reshare(series):
        factor = {names.RECORDS_IN: 1.4, names.LATENCY_MARKER: 20.0}.get(series.name, 1.0)
        if names.mangle(hot) != series.labels["tm_id"]:
            factor = {names.RECORDS_IN: 0.6}.get(series.name, 1.0)
        return replace(series, values=tuple(value * factor for value in series.values))

    window = changed(a_window(layout, loads), reshare, where=is_of("match"))

    measured = measure(window, layout)

    # 70 of 100 records take 400 ms to the hot replica, the others 20 ms to the other.
    work = measured.operators["match"].service_mean
    assert measured.operators["match"].response_time == pytest.approx(0.7 * 0.4 + 0.3 * 0.02 + work)


def test_without_the_helper_the_agents_sample_tells_mean_and_variance():
    loads = {name: Load(rate=100, helper=False, agent=True) for name in STEADY}
    loads["match"] = Load(rate=100, service_scv=0.5, helper=False, agent=True, other=0.5)

    app = measure(a_window(a_layout(), loads), a_layout())

    match = app.operators["match"]
    assert match.replicas[0].service_from is ServiceFrom.AGENT
    # Half of the time belongs to no record, so 5 ms to each of the hundred a second.
    assert match.service_mean == pytest.approx(0.025)
    assert match.replicas[0].service_variance == pytest.approx(0.5 * 0.02**2)
    assert match.replicas[0].served == pytest.approx(match.replicas[0].span * 100)


def test_a_task_whose_records_the_agent_does_not_time_has_its_busy_time():
    loads = {name: Load(rate=100, helper=False, agent=True) for name in STEADY}
    window = a_window(a_layout(), loads)
    silent = [
        replace(each, values=(0.0,) * len(each.values))
        if each.name in (names.TASK_SERVICE_N, names.TASK_SERVICE_US, names.TASK_SERVICE_US2)
        else each
        for each in window.series
    ]

    app = measure(replace(window, series=tuple(silent)), a_layout())

    assert app.operators["match"].replicas[0].service_from is ServiceFrom.BUSY_TIME


def test_a_branch_that_rests_does_not_hide_how_late_the_job_is_by_its_markers():
    ends = [("gen", "match"), ("gen", "count"), ("match", "out"), ("count", "out")]
    edges = tuple(Edge(source=source, target=target) for source, target in ends)
    chain = a_layout()
    layout = replace(chain, flow=replace(chain.flow, edges=edges))
    loads = {
        "gen": Load(rate=100, helper=False),
        "match": Load(rate=100, busy=0.8, helper=False, marker=0.020),
        "count": Load(rate=0, helper=False, marker=0.001),
        "out": Load(rate=100, busy=0.1, helper=False, marker=0.060),
    }

    measured = measure(a_window(layout, loads), layout)

    assert measured.end_to_end.mean == pytest.approx(0.069)
    assert measured.operators["out"].response_time == pytest.approx(0.060 - 0.020 + 0.001)


def test_what_a_job_does_not_report_is_unknown():
    loads = {name: Load(rate=100, helper=False) for name in STEADY}
    layout = a_layout()

    measured = measure(a_window(layout, loads), layout)

    assert math.isnan(measured.backlog)
    assert math.isnan(measured.operators["match"].response_time)
    assert math.isnan(measured.end_to_end.mean)
    assert measured.operators["match"].arrival_rate == pytest.approx(100)


def test_clocks_that_differ_by_more_than_the_wait_give_no_negative_wait():
    loads = STEADY | {"count": replace(STEADY["count"], age=0.01)}
    layout = a_layout()

    count = measure(a_window(layout, loads), layout).operators["count"]

    assert count.response_time == pytest.approx(0.003)
    assert count.queue_records == 0


def test_an_idle_job_is_idle_and_its_times_are_unknown():
    loads = {name: replace(load, rate=0.0, busy=0.0) for name, load in STEADY.items()}
    layout = a_layout()

    measured = measure(a_window(layout, loads), layout)

    match = measured.operators["match"]
    assert match.arrival_rate == match.processed_rate == 0
    assert match.utilisation == (0,)
    assert math.isnan(match.service_mean)
    assert math.isnan(match.response_time)
    assert measured.end_to_end.throughput == 0
    assert math.isnan(measured.end_to_end.quantiles["p95"])
