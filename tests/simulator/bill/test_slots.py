"""Samples added up to slots, page by page."""

import numpy as np
import pytest

from weir_simulator.bill import slots
from weir_simulator.bill.metrics import Role
from weir_simulator.bill.slots import SlotTable, UnusableMetricsError

NAME = "flink_taskmanager_job_task_numRecordsOut"
BUSY = "flink_taskmanager_job_task_accumulateBusyTimeMs"
LABELS = {"job_name": "trips", "task_name": "match", "tm_id": "tm"}


def a_table(minutes=10):
    return SlotTable(begin=0.0, end=60.0 * minutes, slot=60.0)


def add(table, times, values, *, name=NAME, **labels):
    table.add(name, {**LABELS, **labels}, np.array(times, float), np.array(values, float))


def joined(table, role=Role.RECORDS_OUT):
    return table.join(list(table.tracks(role)))


def test_pages_add_up_to_what_the_whole_does():
    times = np.arange(0, 601, 25.0)
    whole, paged = a_table(), a_table()
    add(whole, times, 3 * times)
    for page in np.array_split(times, 5):
        add(paged, page, 3 * page)

    assert joined(whole)[0] == pytest.approx(np.full(10, 180.0))
    for one, other in zip(joined(whole), joined(paged), strict=True):
        assert one == pytest.approx(other)


def test_a_fall_and_a_hole_cover_nothing():
    table = a_table()
    add(table, [0, 60, 120, 180, 560], [0, 60, 10, 70, 400])

    amounts, covered = joined(table)

    assert covered == pytest.approx([60, 0, 60, 0, 0, 0, 0, 0, 0, 0])
    assert amounts[:3] == pytest.approx([60, 0, 60])


def test_values_that_are_no_numbers_are_left_out():
    table = a_table()
    add(table, [0, 30, 60, 90, 120], [0, np.nan, 60, np.inf, 120])

    amounts, covered = joined(table)

    assert amounts[:2] == pytest.approx([60, 60])
    assert covered[:2] == pytest.approx([60, 60])


def test_a_pair_of_servers_counts_once():
    table = a_table()
    times = np.arange(0, 601, 30.0)
    add(table, times, times, prometheus_replica="a")
    add(table, times[:-3] + 7, times[:-3] + 7, prometheus_replica="b")

    amounts, covered = joined(table)

    assert amounts / covered == pytest.approx(np.ones(10))
    assert covered.max() <= 61


def test_a_dead_process_at_a_gateway_takes_nothing_from_the_one_that_runs():
    table = a_table()
    times = np.arange(0, 601, 30.0)
    add(table, times, np.minimum(times, 120), tm_id="dead")
    add(table, times[5:], times[5:] - 150, tm_id="alive")

    amounts, covered = joined(table)

    assert (amounts / covered)[3:] == pytest.approx(np.ones(7))


def test_busy_time_that_is_set_back_is_no_restart():
    table = a_table()
    add(table, [0, 60, 120, 180], [0, 8000, 5000, 9000], name=BUSY)

    amounts, covered = joined(table, Role.BUSY)

    assert covered[:3] == pytest.approx([60, 60, 60])
    assert amounts[:3].sum() == pytest.approx(9000)
    assert not next(table.tracks(Role.BUSY)).falls


def test_averages_count_with_the_mean_of_neighbours():
    table = a_table()
    add(
        table,
        [0, 60, 120],
        [100, 300, 300],
        name="flink_taskmanager_job_task_numRecordsOutPerSecond",
    )

    amounts, _ = joined(table, Role.RATE_OUT)

    assert amounts[:2] == pytest.approx([200 * 60, 300 * 60])


def test_more_than_fits_in_memory_is_refused_with_a_remedy(monkeypatch):
    monkeypatch.setattr(slots, "MOST_HELD", 15)
    table = a_table()
    times = np.arange(0, 601, 60.0)
    add(table, times, times)

    with pytest.raises(UnusableMetricsError, match="2 series; ask for fewer days with --days"):
        add(table, times, times, subtask_index="1")
