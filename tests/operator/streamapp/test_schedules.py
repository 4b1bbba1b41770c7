"""Schedules of blocked periods that never come."""

import pytest
from pydantic_core import PydanticCustomError

from weir_operator.streamapp.schedules import check_schedule


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
