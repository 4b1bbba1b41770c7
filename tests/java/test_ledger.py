"""The sink's ledger in `examples/trips`: which records arrived, and whether each did once."""

import json

import pytest

pytestmark = pytest.mark.flink


def ledger(ask, *entries):
    summary, size = ask("ledger", *entries)
    return json.loads(summary), int(size)


def test_records_that_arrive_once_each_leave_nothing_to_complain_about(ask):
    summary, _ = ledger(ask, "1:5:1", "0:4:1", "2:5:2")

    assert summary == {
        "checkpoint": 1,
        "distinct": 3,
        "doubled": 0,
        "missing": 0,
        "highest": 2,
        "sequenceErrors": 0,
    }


def test_a_record_that_comes_again_is_doubled_and_not_counted_twice(ask):
    summary, _ = ledger(ask, "0:0:1", "1:0:2", "1:1:1")

    assert (summary["distinct"], summary["doubled"]) == (2, 1)


def test_a_record_that_comes_again_much_later_is_still_known(ask):
    summary, _ = ledger(ask, "0..50000", "save", "17:1:1", "49999:1:2")

    assert (summary["distinct"], summary["doubled"]) == (50_000, 2)


def test_ids_below_the_highest_that_did_not_come_are_missing(ask):
    summary, _ = ledger(ask, "0:0:1", "4:0:2")

    assert (summary["missing"], summary["highest"]) == (3, 4)


def test_a_late_record_fills_its_gap(ask):
    summary, _ = ledger(ask, "0..20000", "20001:1:1", "save", "20000:1:2")

    assert (summary["missing"], summary["doubled"]) == (0, 0)


@pytest.mark.parametrize("number", [1, 2, 4])
def test_a_zone_that_forgets_or_skips_a_number_is_a_sequence_error(ask, number):
    summary, _ = ledger(ask, "0:9:1", "1:9:2", f"2:9:{number}")

    assert summary["sequenceErrors"] == 1


def test_the_order_of_a_zone_outlives_a_savepoint(ask):
    summary, _ = ledger(ask, "0:9:1", "save", "1:9:2")

    assert summary["sequenceErrors"] == 0


def test_the_state_does_not_grow_with_the_records(ask):
    _, small = ledger(ask, "0..20000")
    _, large = ledger(ask, "0..2000000")

    assert large < small + 2048
