"""When reality is worse than a tuning was forecast to be."""

import pytest

from weir_operator.controller.trial import MODEL_ERROR, Trial, judge_trial
from weir_operator.controller.verdict import Verdict
from weir_operator.tuning.work import Forecast

FORECAST = Forecast(intervals=60, violations=0.05, money=2.0)


@pytest.mark.parametrize(
    ("trial", "verdict"),
    [
        (Trial(intervals=10, late=1, money=15.0), Verdict.WAIT),
        (Trial(intervals=60, late=3, money=90.0), Verdict.KEEP),
        (Trial(intervals=60, late=4, money=90.0), Verdict.KEEP),
        (Trial(intervals=7, late=5, money=10.0), Verdict.GO_BACK),
        (Trial(intervals=30, late=0, money=300.0), Verdict.WAIT),
        (Trial(intervals=60, late=0, money=60 * 2.0 * MODEL_ERROR * 1.01), Verdict.GO_BACK),
    ],
)
def test_violations_end_a_trial_at_once_and_costs_at_its_end(trial, verdict):
    assert judge_trial(trial, FORECAST)[0] is verdict


def test_a_verdict_says_what_was_measured_and_what_was_expected():
    _, reason = judge_trial(Trial(intervals=7, late=5), FORECAST)

    assert reason == ("5 of 7 intervals violated the objective, at most 4 of 60 were expected")


def test_a_trial_adds_up():
    trial = Trial().with_interval(late=True, money=2.0).with_interval(late=False, money=4.0)

    assert trial == Trial(intervals=2, late=1, money=6.0)
