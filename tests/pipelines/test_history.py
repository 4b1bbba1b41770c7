"""Days of the tables become what a simulator is fitted to, and bad ones are left out by name."""

import math
from datetime import UTC, date, datetime

import numpy as np
import pytest

from tests.pipelines.known_history import KnownJob, write_day, write_rows
from weir_pipelines import history as history_module
from weir_pipelines.errors import InputError
from weir_pipelines.history import read_history
from weir_pipelines.schemas import QUALITY
from weir_pipelines.store import Partition, Tables

APP = "streams/trips"
OPERATOR = "match"
NODE_TYPES = ("small/1",)


def rate_of_day(time):
    return 40 + 30 * math.sin(2 * math.pi * time / 86_400)


JOB = KnownJob(rate=rate_of_day)


def day(number):
    return date(2026, 3, number)


def write(root, number, **how):
    write_day(root, Partition(APP, day(number)), JOB, **how)


def read(root, app=APP, now=None, node_types=NODE_TYPES):
    return read_history(root, app, operators=[OPERATOR], node_types=node_types, now=now)


def test_all_days_become_samples_and_a_trace_of_minutes(tmp_path):
    write(tmp_path, 2)
    write(tmp_path, 3)

    history = read(tmp_path)

    assert history.used == (day(2), day(3))
    assert len(history.samples.intervals) == 2 * 288
    assert history.begin == 1_772_409_600.0  # Monday 2 March 2026, midnight
    minutes = history.begin + 60.0 * np.arange(2 * 1440)
    assert history.rates[OPERATOR] == pytest.approx([rate_of_day(each) for each in minutes])


@pytest.mark.parametrize(
    ("node_types", "why"),
    [
        (("small/250m", "small/500m"), "history distinguishes pools but not sizes"),
        (("large/1",), "its operators may no longer run there"),
    ],
    ids=["several sizes", "gone"],
)
def test_of_such_a_pool_the_traffic_is_told_and_that_it_is_all(tmp_path, node_types, why):
    write(tmp_path, 2)

    history = read(tmp_path, node_types=node_types)

    assert history.rates[OPERATOR].size == 1440
    assert not history.samples.intervals
    assert history.sentence == (
        "Days of history used: 1, 2026-03-02 to 2026-03-02; only the traffic of what ran on small, "
        f"because {why}"
    )


def test_a_day_that_is_half_covered_is_left_out_and_said_so(tmp_path):
    write(tmp_path, 2)
    write(tmp_path, 3, minutes=720)

    history = read(tmp_path)

    assert history.used == (day(2),)
    assert history.sentence == (
        "Days of history used: 1, 2026-03-02 to 2026-03-02. Left out: 2026-03-03: only 50% of the "
        "minutes of 'match' are complete"
    )


def test_a_day_without_service_times_is_left_out(tmp_path):
    write(tmp_path, 2)
    write(tmp_path, 3, with_work=False)

    history = read(tmp_path)

    assert history.left_out == {day(3): "no service times, run the job service"}


def test_minutes_that_cannot_be_count_as_not_covered(tmp_path):
    write(tmp_path, 2)
    write(tmp_path, 3)
    wrong = {"operator": OPERATOR, "problem": "recordsFromNothing", "first": 0, "last": 0}
    write_rows(Tables(tmp_path), QUALITY, Partition(APP, day(3)), [{**wrong, "minutes": 288}])

    history = read(tmp_path)

    assert history.left_out == {day(3): "only 80% of the minutes of 'match' are complete"}


def test_the_trace_is_the_last_run_of_days_and_service_times_are_of_all(tmp_path):
    for number in (1, 2, 3, 5, 6):
        write(tmp_path, number)

    history = read(tmp_path)

    assert history.rates[OPERATOR].size == 2 * 1440
    assert len(history.samples.intervals) == 5 * 288
    assert "without a hole between them: 2, from 2026-03-05 on" in history.sentence


def test_history_that_ended_more_than_a_week_ago_is_refused_to_whoever_steers_by_it(tmp_path):
    write(tmp_path, 2)
    near, far = (datetime(2026, 3, number, 12, tzinfo=UTC).timestamp() for number in (9, 10))

    assert read(tmp_path, now=near).used == (day(2),)
    with pytest.raises(InputError, match="within the last 7 days, got 2026-03-02"):
        read(tmp_path, now=far)


def test_days_of_more_than_four_weeks_ago_are_left_out(tmp_path):
    write(tmp_path, 1)
    write(tmp_path, 29)

    history = read(tmp_path)

    assert history.left_out == {day(1): "more than 28 days ago"}


def test_where_samples_would_be_too_many_the_first_days_give_traffic_alone(tmp_path, monkeypatch):
    for number in (1, 2, 3):
        write(tmp_path, number)
    monkeypatch.setattr(history_module, "MAX_SAMPLES", 2 * 288)

    history = read(tmp_path)

    assert history.rates[OPERATOR].size == 3 * 1440
    assert len(history.samples.intervals) == 2 * 288
    assert history.sentence == (
        "Days of history used: 3, 2026-03-01 to 2026-03-03; only the traffic of 1 days, "
        "2026-03-01 to 2026-03-01, because service times of so many operators come only from the "
        "last days"
    )
    assert history.since(history.begin + 86_400).only_traffic == ""


def test_reading_makes_nothing_in_the_folder(tmp_path):
    with pytest.raises(InputError):
        read(tmp_path / "absent")

    assert not (tmp_path / "absent").exists()


def test_an_application_of_which_nothing_is_kept_is_refused_with_what_to_do(tmp_path):
    write(tmp_path, 2)

    with pytest.raises(InputError, match=r"expected arrivals of 'other', got none; run weir pip"):
        read(tmp_path, app="other")


def test_history_without_a_day_of_use_is_refused_with_the_reasons(tmp_path):
    write(tmp_path, 2, minutes=720)

    with pytest.raises(InputError, match="a usable day of 'streams/trips', got 2026-03"):
        read(tmp_path)


def test_the_folders_of_other_applications_are_not_looked_into(tmp_path):
    write(tmp_path, 2)
    for file in tmp_path.glob("*/v1/*/*/*.parquet"):
        foreign = file.parents[2] / "app=other/day=yesterday" / file.name
        foreign.parent.mkdir(parents=True)
        foreign.touch()

    history = read(tmp_path)

    assert history.used == (day(2),)
