import datetime

import pytest
from pyspark.sql import Row

from tests.pipelines.known_history import arrivals_of
from weir_pipelines.jobs import spark_schema
from weir_pipelines.quality import find_problems
from weir_pipelines.schemas import ARRIVALS

DAY = datetime.date(2026, 3, 2)


def a_minute(operator, minute, **changes):
    return Row(**arrivals_of(minute, operator=operator, app="app", day=DAY, **changes))


@pytest.fixture(scope="module")
def problems(spark):
    whole = [a_minute("whole", 60 * n) for n in range(1440)]
    gaps = [a_minute("gaps", 60 * n, completeness=0.5, faults=["gap"]) for n in (3, 5)]
    nothing = [
        a_minute("magic", 60, taken=0.0),
        a_minute("busy", 60, taken=0.0, given=0.0, utilisation=0.9),
        a_minute("idle", 60, taken=0.0, given=0.0, utilisation=0.1),
        a_minute("unknown", 60, taken=None, given=None, utilisation=0.9),
    ]
    arrivals = spark.createDataFrame([*whole, *gaps, *nothing], spark_schema(ARRIVALS))
    found = find_problems(arrivals).collect()
    return {(row.operator, row.problem): (row.minutes, row.first, row.last) for row in found}


def test_a_whole_day_has_no_problem(problems):
    assert [key for key in problems if key[0] == "whole"] == []


def test_a_fault_is_listed_with_its_minutes(problems):
    assert problems["gaps", "gap"] == (2, 180, 300)
    assert problems["gaps", "incomplete"] == (2, 180, 300)


def test_minutes_without_any_sample_are_counted(problems):
    assert problems["gaps", "unseen"] == (1438, 180, 300)


def test_what_no_job_can_do_is_told(problems):
    assert problems["magic", "recordsFromNothing"] == (1, 60, 60)
    assert problems["busy", "busyWithNothing"] == (1, 60, 60)


@pytest.mark.parametrize("operator", ["idle", "unknown"])
def test_what_is_idle_or_unknown_is_not_impossible(problems, operator):
    assert [problem for name, problem in problems if name == operator] == ["unseen"]
