"""Schedules that never come, and periods where the clocks change."""

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from pydantic_core import PydanticCustomError

from weir_simulator.schedules import check_schedule, check_time_zone, find_last_period

BERLIN, SYDNEY = "Europe/Berlin", "Australia/Sydney"
"""Their clocks jump from 2:00 to 3:00 in spring, and from 3:00 back to 2:00 in autumn."""


def at(text, zone, fold=0):
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone), fold=fold).timestamp()


@pytest.mark.parametrize(
    "schedule",
    ["0 17 31 2 *", "0 0 30 feb *", "0 0 31 4,6,9,11 *", "0 0 30-31 2 *", "0 0 31 6/5 *"],
)
def test_a_day_that_no_month_has_is_refused(schedule):
    with pytest.raises(PydanticCustomError, match="never has"):
        check_schedule(schedule)


@pytest.mark.parametrize(
    "schedule",
    [
        "0 17 29 2 *",
        "0 0 31 2,3 *",
        "0 0 31 */2 *",
        "0 0 1,31 feb *",
        "0 0 15/5 2 *",
        "0 0 31 feb-apr *",
        # On Mondays, too.
        "0 0 31 2 1",
    ],
)
def test_a_day_that_comes_is_taken(schedule):
    assert check_schedule(schedule) == schedule


@pytest.mark.parametrize(
    ("zone", "time", "begin"),
    [
        (BERLIN, "2026-03-27T17:30", "2026-03-27T17:00"),
        (BERLIN, "2026-03-30T17:30", "2026-03-30T17:00"),
        (BERLIN, "2026-10-26T17:00", "2026-10-26T17:00"),
        (BERLIN, "2026-10-26T16:59", "2026-10-23T17:00"),  # the Friday before
        (SYDNEY, "2026-04-06T17:00", "2026-04-06T17:00"),
        (SYDNEY, "2026-10-05T16:59", "2026-10-02T17:00"),
    ],
)
def test_a_period_begins_on_the_clocks_of_its_zone_in_summer_and_in_winter(zone, time, begin):
    found = find_last_period("0 17 * * 1-5", zone, 7200.0, at(time, zone))

    assert found is not None
    assert found.begin == at(begin, zone)
    assert found.end - found.begin == 7200.0


@pytest.mark.parametrize(
    ("zone", "day", "before"),
    [(BERLIN, "2026-03-29", "2026-03-28"), (SYDNEY, "2026-10-04", "2026-10-03")],
)
def test_a_beginning_that_the_clocks_skip_comes_when_they_have_jumped(zone, day, before):
    jump = at(f"{day}T03:00", zone)

    found = [
        find_last_period("30 2 * * *", zone, 3600.0, time) for time in (jump - 1, jump, jump + 7200)
    ]

    assert [each and each.begin for each in found] == [at(f"{before}T02:30", zone), jump, jump]


@pytest.mark.parametrize(("zone", "day"), [(BERLIN, "2026-10-25"), (SYDNEY, "2026-04-05")])
@pytest.mark.parametrize(
    ("time", "fold"), [("02:30", 0), ("02:50", 0), ("02:10", 1), ("02:30", 1), ("02:50", 1)]
)
def test_a_beginning_that_the_clocks_show_twice_counts_once(zone, day, time, fold):
    found = find_last_period("30 2 * * *", zone, 3600.0, at(f"{day}T{time}", zone, fold))

    assert found is not None
    assert found.begin == at(f"{day}T02:30", zone, fold=0)
    assert found.end == at(f"{day}T02:30", zone, fold=1)


@pytest.mark.parametrize(
    ("zone", "day", "before"),
    [(BERLIN, "2026-10-25", "2026-10-24"), (SYDNEY, "2026-04-05", "2026-04-04")],
)
def test_a_beginning_after_the_hour_that_clocks_show_twice_does_not_come_before(zone, day, before):
    early = find_last_period("0 3 * * *", zone, 3600.0, at(f"{day}T02:59", zone, fold=1))
    begun = find_last_period("0 3 * * *", zone, 3600.0, at(f"{day}T03:00", zone))

    assert early is not None
    assert begun is not None
    assert early.begin == at(f"{before}T03:00", zone)
    assert begun.begin == at(f"{day}T03:00", zone)


@pytest.mark.parametrize(
    ("zone", "night"), [(BERLIN, "2026-03-28T23:00"), (SYDNEY, "2026-10-03T23:00")]
)
def test_a_period_over_a_change_lasts_as_long_as_any(zone, night):
    begin = at(night, zone)

    found = find_last_period("0 23 * * *", zone, 6 * 3600.0, begin + 5 * 3600)

    assert found is not None
    assert (found.begin, found.end) == (begin, begin + 6 * 3600)


def test_a_schedule_without_a_day_never_begins():
    # A manifest may not have one; one that the API server holds from earlier may.
    assert find_last_period("0 0 30 2 *", "UTC", 60.0, at("2026-01-05T17:00", "UTC")) is None


def test_an_unknown_time_zone_is_refused_with_the_nearest_one():
    with pytest.raises(PydanticCustomError, match="did you mean 'Europe/Berlin'"):
        check_time_zone("Europe/Berln")


def test_the_time_zone_of_a_machine_is_no_time_zone():
    with pytest.raises(PydanticCustomError, match="the name of a time zone"):
        check_time_zone("localtime")
