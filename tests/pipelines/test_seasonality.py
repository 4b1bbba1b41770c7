import datetime
import math

import pytest

from weir_pipelines.seasonality import average_hours, find_regimes, profile_hours

MONDAY = datetime.date(2026, 3, 2)
HOURS = "app STRING, day DATE, operator STRING, hour INT, rate DOUBLE, week_hour INT"


def usual(day, hour):
    """Days have a peak at noon, weekends half of it."""
    weekend = 0.5 if day.weekday() >= 5 else 1.0
    return weekend * (100 + 50 * math.sin(math.pi * (hour - 6) / 12)) * (1 + 0.01 * (hour % 3))


def weeks(spark, *, days=29, change=lambda day, hour: 1.0):
    """Return the hours of some days from a Monday on."""
    rows = []
    for n in range(days):
        day = MONDAY + datetime.timedelta(days=n)
        for hour in range(24):
            week_hour = 24 * day.weekday() + hour
            rate = usual(day, hour) * (1 + 0.02 * ((n * 7 + hour * 3) % 5 - 2)) * change(n, hour)
            rows.append(("app", day, "read", hour, rate, week_hour))
    return spark.createDataFrame(rows, HOURS)


def as_of(spark, *days):
    rows = [("app", MONDAY + datetime.timedelta(days=n)) for n in days]
    return spark.createDataFrame(rows, "app STRING, day DATE")


def test_a_profile_has_each_hour_of_the_week_with_how_far_it_varies(spark):
    rows = profile_hours(weeks(spark), as_of(spark, 28)).collect()

    by_hour = {row.hour: row for row in rows}
    noon, sunday = by_hour[12], by_hour[6 * 24 + 12]
    assert len(by_hour) == 168
    assert noon.usual == pytest.approx(150, rel=0.03)
    assert sunday.usual == pytest.approx(75, rel=0.03)
    assert noon.low < noon.usual < noon.high
    assert (noon.days, sunday.days) == (5, 4)


def test_another_level_is_told_with_its_factor(spark):
    doubled = weeks(spark, change=lambda day, hour: 2.0 if day == 28 else 1.0)

    [row] = find_regimes(doubled, as_of(spark, 28)).collect()

    assert row.changed
    assert row.low < row.factor < row.high
    assert row.factor == pytest.approx(2.0, rel=0.05)


@pytest.mark.parametrize(
    "change",
    [
        lambda day, hour: 1.0,
        lambda day, hour: 5.0 if day == 28 and hour in (3, 4) else 1.0,
        lambda day, hour: 1.1 if day == 28 else 1.0,
    ],
    ids=["a day like others", "a burst", "a little more"],
)
def test_what_is_no_other_level_is_not_told_as_one(spark, change):
    [row] = find_regimes(weeks(spark, change=change), as_of(spark, 28)).collect()

    assert not row.changed


def test_a_sunday_is_no_new_regime_once_sundays_are_known(spark):
    [row] = find_regimes(weeks(spark), as_of(spark, 27)).collect()

    assert not row.changed
    assert row.factor == pytest.approx(1.0, rel=0.1)


def test_the_third_weekend_is_judged_by_the_weekends_before(spark):
    hours = weeks(spark, change=lambda day, hour: 0.4 if day == 19 else 1.0)

    [row] = find_regimes(hours, as_of(spark, 19)).collect()

    assert row.changed
    assert row.factor == pytest.approx(0.4, rel=0.05)


def test_an_hour_is_averaged_over_minutes_that_are_covered(spark):
    columns = (
        "app STRING, day DATE, operator STRING, minute BIGINT, arrived DOUBLE, completeness DOUBLE"
    )
    rows = [("app", MONDAY, "read", 7200 + 60 * n, 10.0, 1.0) for n in range(40)]
    rows += [("app", MONDAY, "read", 7200 + 60 * n, 99.0, 0.1) for n in range(40, 60)]
    rows += [("app", MONDAY, "read", 10_800 + 60 * n, 10.0, 1.0) for n in range(20)]

    [row] = average_hours(spark.createDataFrame(rows, columns)).collect()

    assert (row.hour, row.rate, row.week_hour) == (2, 10.0, 2)


def test_nothing_is_said_of_a_day_that_has_no_two_like_it_before(spark):
    days = as_of(spark, 0, 5, 6, 7, 12, 13)

    assert find_regimes(weeks(spark, days=14), days).collect() == []
