"""How long a StreamApp waits after a run that failed."""

from __future__ import annotations

import pytest

from weir_operator.kubernetes.app.task import (
    FIRST_PAUSE,
    LONGEST_MID_CHANGE,
    LONGEST_PAUSE,
    LOOK_ELSEWHERE,
    choose_pause,
    is_mid_change,
)
from weir_operator.rescale.journal import Step


def pauses(kind, times, *, mid_change):
    pause, taken = FIRST_PAUSE, []
    for _ in range(times):
        pause = choose_pause(kind, pause, mid_change=mid_change)
        taken.append(pause)
    return taken


@pytest.mark.parametrize("kind", ["permanent", "temporary", "defect"])
def test_a_change_that_is_unfinished_is_gone_on_with_soon_whatever_the_error(kind):
    taken = pauses(kind, 10, mid_change=True)

    assert taken[0] == 2 * FIRST_PAUSE
    assert max(taken) == LONGEST_MID_CHANGE


def test_a_permanent_error_is_tried_again_late_where_no_change_is_under_way():
    assert pauses("permanent", 2, mid_change=False) == [LONGEST_PAUSE, LONGEST_PAUSE]


def test_who_must_not_act_any_more_looks_soon_who_is_to():
    assert pauses("fenced", 3, mid_change=True) == 3 * [FIRST_PAUSE]


def test_other_pauses_grow_to_their_bounds():
    assert max(pauses("temporary", 10, mid_change=False)) == LONGEST_PAUSE
    assert max(pauses("elsewhere", 10, mid_change=False)) == LOOK_ELSEWHERE


@pytest.mark.parametrize(
    ("rescale", "expected"),
    [
        ({"step": str(Step.STOP)}, True),
        ({"step": str(Step.VERIFY)}, True),
        ({"step": str(Step.DONE)}, False),
        ({"step": str(Step.FAILED)}, False),
        ({"step": ["damaged"]}, False),
        ("damaged", False),
        (None, False),
    ],
)
def test_whether_a_change_is_unfinished_is_read_from_the_status(rescale, expected):
    assert is_mid_change({"rescale": rescale}) is expected
