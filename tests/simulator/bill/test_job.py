"""From the metrics of a job to its history: what is derived, what is said, what is refused."""

import dataclasses
import re

import numpy as np
import pytest

from benchmarks.policies.made_up_job import BEGIN, DAY, TASK, MadeUpJob, MadeUpSeries, Run
from weir_simulator.bill.job import derive_job
from weir_simulator.bill.measured import sample_job
from weir_simulator.bill.slots import SlotTable, UnusableMetricsError
from weir_simulator.bill.topology import Edges

HOUR = 3600.0


def read(series, *, end=DAY, job=""):
    table = SlotTable(begin=BEGIN, end=BEGIN + end, slot=60.0, job=job)
    for each in sorted(series, key=lambda each: each.times[0]):
        table.add(each.name, each.labels, each.times, each.values)
    return table


def derive(*jobs, **asked):
    return derive_job(read([each for job in jobs for each in job.series()]), **asked)


def relabelled(series, **labels):
    return dataclasses.replace(series, labels={**series.labels, **labels})


def test_rates_work_and_edges_are_those_of_the_job():
    history = derive(MadeUpJob())

    assert history.name == "trips"
    assert history.edges.pairs == (("source-trips", "match"), ("match", "sink-out"))
    by_name = {each.name: each for each in history.vertices}
    work = np.nansum(by_name["match"].busy) / np.nansum(by_name["match"].taken)
    assert work == pytest.approx(8e-4, rel=0.02)
    assert np.nanmean(by_name["source-trips"].taken) == pytest.approx(1120, rel=0.02)
    assert {int(each) for each in history.task_managers} == {1}
    assert (history.slots_each, history.restarts) == (2, ())


def test_a_restart_with_a_new_id_is_the_same_job_and_its_stop_is_counted():
    runs = (
        Run(end=6 * HOUR, job_id="a1"),
        Run(begin=6 * HOUR + 240, end=12 * HOUR, job_id="b2", parallelism=4),
    )

    history = derive(MadeUpJob(runs=runs))

    [(time, gap)] = history.restarts
    assert (time - BEGIN, gap) == (6 * HOUR + 240, 240)
    assert history.stopped.sum() * 60 == pytest.approx(gap, abs=90)
    match = next(each for each in history.vertices if each.name == "match")
    assert {int(each) for each in match.parallelism if each} == {2, 4}
    assert {int(each) for each in history.task_managers if each} == {1, 2}


def test_counters_that_fall_under_one_label_are_a_restart():
    def plain(series):  # the scrape drops what is different after a restart
        return relabelled(series, job_id="", task_attempt_num="", tm_id="tm")

    runs = (Run(end=6 * HOUR, job_id="a1"), Run(begin=6 * HOUR + 60, end=12 * HOUR, job_id="b2"))
    before, after = (list(MadeUpJob(runs=(run,)).series()) for run in runs)
    table = read([])
    for series in (*map(plain, before), *map(plain, after)):
        table.add(series.name, series.labels, series.times, series.values)

    history = derive_job(table)

    assert len(history.restarts) == 1
    assert np.nanmax(history.sources[0].taken) < 3000


def test_two_jobs_of_one_name_at_once_are_refused_and_told_apart_by_id():
    two = [MadeUpJob(runs=(Run(end=DAY, job_id=each),)) for each in ("a1", "b2")]

    with pytest.raises(UnusableMetricsError, match=r"got 2 of the name .* with the ids a1, b2"):
        derive(*two, job="trips")

    assert derive(*two, job_id="b2").task_managers.max() == 1
    assert derive(*two, job="b2").task_managers.max() == 1


def test_several_jobs_are_listed_where_none_is_named():
    jobs = MadeUpJob(), MadeUpJob(name="fraud", runs=(Run(end=DAY, job_id="f"),))

    with pytest.raises(UnusableMetricsError, match="--job: expected one of fraud, trips, got none"):
        derive(*jobs)

    assert derive(*jobs, job="fraud").name == "fraud"


def test_a_pair_of_servers_changes_nothing():
    job = MadeUpJob(runs=(Run(end=6 * HOUR),))
    once = derive_job(read(job.series()))

    pair = [relabelled(each, replica=server) for each in job.series() for server in ("a", "b")]
    twice = derive_job(read(pair))

    for one, other in zip(once.vertices, twice.vertices, strict=True):
        assert one.taken == pytest.approx(other.taken, nan_ok=True)
    assert (once.restarts, once.slots_each) == (twice.restarts, twice.slots_each)


def test_a_hole_in_the_metrics_is_left_out_and_named():
    job = MadeUpJob()
    holed = []
    for each in job.series():
        kept = (each.times < BEGIN + 5 * HOUR) | (each.times > BEGIN + 8 * HOUR)
        holed.append(dataclasses.replace(each, times=each.times[kept], values=each.values[kept]))

    history = derive_job(read(holed))

    assert history.known.sum() / history.known.size == pytest.approx(21 / 24, abs=0.01)
    assert any(note.startswith("12% of the time has no metrics") for note in history.notes)
    assert history.restarts == ()


def test_a_silent_subtask_makes_its_time_incomplete():
    series = [
        each
        for each in MadeUpJob(runs=(Run(end=6 * HOUR, parallelism=3),)).series()
        if each.labels["subtask_index"] != "1" or "Out" in each.name
    ]
    silent = [
        dataclasses.replace(each, times=each.times[:200], values=each.values[:200])
        if each.labels["subtask_index"] == "1"
        else each
        for each in series
    ]

    history = derive_job(read(silent))

    assert not history.known[-60:].any()


@pytest.mark.parametrize(
    ("missing", "sentence"),
    [
        ("BusyTime", r"accumulateBusyTimeMs or busyTimeMsPerSecond, got none.*filter.includes"),
        ("numRecordsOut", "numRecordsOut or numRecordsOutPerSecond, got none"),
    ],
)
def test_a_missing_metric_is_named_with_the_line_that_adds_it(missing, sentence):
    series = [each for each in MadeUpJob().series() if missing not in each.name]

    with pytest.raises(UnusableMetricsError, match=sentence):
        derive_job(read(series))


def test_without_any_metric_the_reporter_is_named():
    with pytest.raises(UnusableMetricsError, match="PrometheusReporterFactory"):
        derive_job(read([]))


def test_twenty_minutes_are_too_little():
    job = MadeUpJob(runs=(Run(end=1200),))

    with pytest.raises(UnusableMetricsError, match="at least 30 minutes of metrics, got 20"):
        derive(job)


def test_a_job_that_is_back_pressured_all_the_time_says_nothing_of_its_traffic():
    job = MadeUpJob(blocked=0.5)

    with pytest.raises(UnusableMetricsError, match=r"pendingRecords.*more parallelism"):
        derive(job)


def test_with_a_backlog_the_traffic_of_a_blocked_source_is_known():
    job = MadeUpJob(blocked=0.5)
    source = next(each for each in job.series() if "Out" in each.name)
    grown = 50.0 * (source.times - BEGIN)
    waiting = MadeUpSeries(
        name=f"{TASK}operator_pendingRecords",
        labels={**source.labels, "operator_id": "0b"},
        times=source.times,
        values=grown,
    )

    history = derive_job(read([*job.series(), waiting]))

    samples, _ = sample_job(history, "t")
    sample = samples.intervals[100].operators["source-trips"]
    assert sample.arrived - sample.taken == pytest.approx(50)


def test_older_versions_are_read_by_their_averages():
    averages = {
        "numRecordsIn": "numRecordsInPerSecond",
        "numRecordsOut": "numRecordsOutPerSecond",
        "accumulateBusyTimeMs": "busyTimeMsPerSecond",
        "accumulateBackPressuredTimeMs": "backPressuredTimeMsPerSecond",
    }

    def averaged(series):
        return MadeUpSeries(
            name=TASK + averages[series.name.removeprefix(TASK)],
            labels=series.labels,
            times=series.times[1:],
            values=np.diff(series.values) / np.diff(series.times),
        )

    history = derive_job(read([averaged(each) for each in MadeUpJob().series()]))

    match = next(each for each in history.vertices if each.name == "match")
    assert np.nansum(match.busy) / np.nansum(match.taken) == pytest.approx(8e-4, rel=0.02)
    assert any("averages over a minute" in note for note in history.notes)


def test_a_source_without_busy_time_keeps_its_replicas():
    series = [
        dataclasses.replace(each, values=np.full(each.values.size, np.nan))
        if each.labels["task_name"].startswith("Source") and "Busy" in each.name
        else each
        for each in MadeUpJob().series()
    ]

    history = derive_job(read(series))

    assert sample_job(history, "t")[1] == {"source-trips": "reports no busy time"}


def test_what_ran_before_an_upgrade_is_left_out():
    before = MadeUpJob(
        runs=(Run(end=6 * HOUR, job_id="a1"),), vertices=("Source: trips", "old", "Sink: out")
    )
    after = MadeUpJob(runs=(Run(begin=6 * HOUR + 60, end=12 * HOUR, job_id="b2"),))
    renamed = [
        relabelled(each, task_id="0" * 30 + "ff") if each.labels["task_name"] == "old" else each
        for each in before.series()
    ]

    history = derive_job(read([*renamed, *after.series()]))

    assert {each.name for each in history.vertices} == {"match", "sink-out", "source-trips"}
    assert any(re.search(r"other vertices before \(old\)", note) for note in history.notes)
    assert history.begin >= BEGIN + 6 * HOUR


def test_a_plan_comes_before_what_rates_suggest():
    edges = Edges(pairs=((f"{0:032x}", f"{2:032x}"), (f"{0:032x}", f"{1:032x}")))

    history = derive(MadeUpJob(), edges=edges)

    assert set(history.edges.pairs) == {("source-trips", "sink-out"), ("source-trips", "match")}


def test_latency_markers_measure_the_response_time():
    job = MadeUpJob()
    some = next(iter(job.series()))
    markers = [
        MadeUpSeries(
            name="flink_taskmanager_job_latency_source_id_operator_id_operator_subtask_index_latency",
            labels={"job_id": "a1", "operator_id": operator, "quantile": "0.5"},
            times=some.times,
            values=np.full(some.times.size, milliseconds),
        )
        for operator, milliseconds in (("match", 40.0), ("sink", 70.0))
    ]

    history = derive_job(read([*job.series(), *markers]))

    assert np.nanmedian(history.latency) == pytest.approx(0.07)
    assert not any("latency markers" in note for note in history.notes)


def test_operators_of_flattened_names_are_no_vertices():
    def flattened(series, scope):
        subtask, metric = series.labels["subtask_index"], series.name.removeprefix(TASK)
        return MadeUpSeries(
            name=f"host_taskmanager_tm1_trips_{scope}_{subtask}_{metric}",
            labels={},
            times=series.times,
            values=series.values,
        )

    series = list(MadeUpJob().series())
    scopes = [each.labels["task_name"].replace(": ", "__") for each in series]
    vertices = [flattened(*pair) for pair in zip(series, scopes, strict=True)]
    operators = [flattened(each, "filter") for each in series if "num" in each.name]

    history = derive_job(read([*vertices, *operators], job="trips"), job="trips")

    assert {each.name for each in history.vertices} == {"match", "sink-out", "source-trips"}


def test_a_source_takes_in_what_its_own_operator_reads():
    job = MadeUpJob()
    read_by_it = next(each for each in job.series() if each.name.endswith("numRecordsOut"))
    operators = [
        dataclasses.replace(
            read_by_it,
            name=f"{TASK}operator_numRecordsIn",
            labels={**read_by_it.labels, "operator_name": name, "subtask_index": str(subtask)},
            values=read_by_it.values * factor,
        )
        for name, factor in (("Source:_trips", 0.5), ("Split", 3.0))
        for subtask in range(2)
    ]

    history = derive_job(read([*job.series(), *operators]))

    [source] = history.sources
    assert np.nanmean(source.taken) == pytest.approx(np.nanmean(source.given) / 2, rel=0.02)


def test_what_a_gateway_repeats_of_dead_processes_is_no_second_job_and_no_replica():
    before = MadeUpJob(runs=(Run(end=6 * HOUR, job_id="a1", parallelism=6),))
    after = MadeUpJob(runs=(Run(begin=6 * HOUR + 60, end=12 * HOUR, job_id="b2"),))
    repeated = []
    for each in before.series():
        times = np.append(each.times, np.arange(each.times[-1] + 30, BEGIN + 12 * HOUR, 30))
        values = np.append(each.values, np.full(times.size - each.times.size, each.values[-1]))
        repeated.append(dataclasses.replace(each, times=times, values=values))

    history = derive_job(read([*repeated, *after.series()]))

    assert len(history.restarts) == 1
    match = next(each for each in history.vertices if each.name == "match")
    assert {int(each) for each in match.parallelism[380:700]} == {2}
    assert {int(each) for each in history.task_managers[380:700]} == {1}
