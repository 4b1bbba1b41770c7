"""The verdict of the metrics goes back only where nothing but the change explains the harm."""

import math

import pytest

from weir_operator.loop.verify import (
    ChangeSoFar,
    MeasuredInterval,
    Verdict,
    judge_change,
)

GAP = MeasuredInterval(rate=50.0, response_time=2.0)


def interval(response_time, rate=50.0):
    return MeasuredInterval(rate=rate, response_time=response_time)


def judged(*after, expected=0.2, before=0.3):
    change = ChangeSoFar(
        bound=0.5,
        expected=expected,
        before=interval(before),
        since=(GAP, GAP, *after),
    )
    return judge_change(change)[0]


@pytest.mark.parametrize(
    ("after", "verdict"),
    [
        pytest.param([], Verdict.WAIT, id="the gap itself is not judged"),
        pytest.param([interval(0.2)], Verdict.KEEP, id="it does what was expected"),
        pytest.param([interval(0.9)] * 2, Verdict.WAIT, id="two bad intervals are no proof"),
        pytest.param([interval(0.9)] * 3, Verdict.ROLL_BACK, id="three are"),
        pytest.param([interval(0.9, rate=80)] * 3, Verdict.KEEP, id="the load has grown"),
        pytest.param([interval(0.4)] * 3, Verdict.KEEP, id="worse, but within the bound"),
        pytest.param([interval(math.nan)] * 3, Verdict.KEEP, id="nothing measured, nothing said"),
    ],
)
def test_a_change_is_judged_by_its_expectation_and_by_what_was_before(after, verdict):
    assert judged(*after) is verdict


def test_a_change_that_was_no_worse_than_before_is_kept():
    assert judged(*[interval(0.9)] * 3, before=1.5) is Verdict.KEEP


def test_a_change_without_expectation_is_kept():
    assert judged(*[interval(0.9)] * 3, expected=math.nan) is Verdict.KEEP
