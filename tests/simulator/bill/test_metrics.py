"""Names and labels as reporters of Flink and their neighbours write them."""

import re

import pytest

from weir_simulator.bill.metrics import Role, is_wanted, promql_pattern, read_metric

FLINK = {
    "job_name": "trips", "job_id": "a1", "task_id": "c0ffee", "task_name": "match",
    "subtask_index": "3", "task_attempt_num": "0", "tm_id": "tm-1", "host": "10_0_0_7",
}  # fmt: skip
RENAMED = {
    "jobName": "trips", "jobId": "a1", "taskId": "c0ffee", "taskName": "match",
    "subtask": "3", "pod": "tm-1",
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "labels"),
    [
        ("flink_taskmanager_job_task_numRecordsIn", FLINK),
        ("flink_taskmanager_job_task_numRecordsIn_total", FLINK),  # OpenTelemetry
        ("flink_taskmanager_job_task_numrecordsin", FLINK),  # a store that lowers names
        ("taskmanager_job_task_numRecordsIn", RENAMED),
        ("flink.taskmanager.job.task.numRecordsIn", FLINK),
        ("myscope:numRecordsIn", RENAMED),
    ],
)
def test_a_vertex_is_read_whatever_reporter_wrote_it(name, labels):
    metric = read_metric(name, labels)

    assert metric is not None
    assert (metric.role, metric.job, metric.job_id) == (Role.RECORDS_IN, "trips", "a1")
    assert (metric.vertex, metric.vertex_name, metric.subtask) == ("c0ffee", "match", 3)
    assert metric.task_manager == "tm-1"


def test_records_of_an_operator_are_not_the_vertex_own():
    labels = {**FLINK, "operator_id": "0b", "operator_name": "Source: trips"}

    metric = read_metric("flink_taskmanager_job_task_operator_numRecordsIn", labels)

    assert metric is not None
    assert metric.role is Role.SOURCE_IN


@pytest.mark.parametrize(
    "name",
    [
        "flink_taskmanager_job_task_numRecordsInErrors",
        "flink_taskmanager_job_task_operator_numRecordsOut",
        "flink_taskmanager_job_task_operator_myGroup_latency",
        "flink_jobmanager_numRunningJobs",
        "up",
    ],
)
def test_other_series_are_left_out(name):
    assert read_metric(name, {**FLINK, "operator_id": "0b"}) is None


def test_a_scope_in_the_name_is_taken_apart_around_the_name_of_the_job():
    name = "host1_taskmanager_tm1_trips_Source__clicks_2_accumulateBusyTimeMs"

    metric = read_metric(name, {}, job="trips")

    assert read_metric(name, {}) is None
    assert metric is not None
    assert (metric.role, metric.vertex_name, metric.subtask) == (Role.BUSY, "Source__clicks", 2)
    assert metric.task_manager == "host1_taskmanager_tm1"


def test_of_latency_markers_the_median_alone_is_read():
    name = "flink_taskmanager_job_latency_source_id_operator_id_operator_subtask_index_latency"
    labels = {"operator_id": "0b", "operator_subtask_index": "1", "job_id": "a1"}

    median = read_metric(name, {**labels, "quantile": "0.5"})

    assert median is not None
    assert (median.role, median.vertex, median.subtask) == (Role.LATENCY, "0b", 1)
    assert read_metric(name, {**labels, "quantile": "0.99"}) is None


def test_the_server_is_asked_for_what_is_read():
    pattern = promql_pattern(Role)

    for name in ("flink_taskmanager_job_task_busyTimeMsPerSecond", "x:numrecordsout"):
        assert re.fullmatch(pattern, name)
        assert is_wanted(name)
    assert not re.fullmatch(pattern, "flink_taskmanager_job_task_numBytesIn")
