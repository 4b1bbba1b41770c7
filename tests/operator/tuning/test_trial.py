"""When reality is worse than a tuning was forecast to be."""

import json
from dataclasses import replace

import pytest

from tests.operator.tuning.fakes import an_answer
from tests.operator.tuning.tuning_setting import BUDGETS, HOLD
from weir_operator.loop.verify import Verdict
from weir_operator.tuning.store import Standing
from weir_operator.tuning.trial import MODEL_ERROR, TuningTrial, judge_trial
from weir_simulator.tuning.order import Constraints, Forecast

FORECAST = Forecast(intervals=60, violations=0.05, money=2.0, restarts=0.05)
ANY = 1.0
"""Share of intervals with a restart, where the objective bounds none."""


@pytest.mark.parametrize(
    ("trial", "verdict"),
    [
        (TuningTrial(intervals=10, late=1, money=15.0), Verdict.WAIT),
        (TuningTrial(intervals=60, late=3, money=90.0), Verdict.KEEP),
        (TuningTrial(intervals=60, late=4, money=90.0), Verdict.KEEP),
        (TuningTrial(intervals=7, late=5, money=10.0), Verdict.ROLL_BACK),
        (TuningTrial(intervals=30, late=0, money=300.0), Verdict.WAIT),
        (
            TuningTrial(intervals=60, late=0, money=60 * 2.0 * MODEL_ERROR * 1.01),
            Verdict.ROLL_BACK,
        ),
    ],
)
def test_violations_end_a_trial_at_once_and_costs_at_its_end(trial, verdict):
    assert judge_trial(trial, FORECAST, most_restarts=ANY)[0] is verdict


@pytest.mark.parametrize(
    ("restarts", "forecast", "allowed", "verdict"),
    [
        (4, 0.05, 1 / 60, Verdict.WAIT),
        (5, 0.05, 1 / 60, Verdict.ROLL_BACK),
        (5, 0.05, 0.1, Verdict.WAIT),
        (8, 0.05, 0.1, Verdict.ROLL_BACK),
        (2, 0.0, 0.0, Verdict.ROLL_BACK),
        (10, 0.05, ANY, Verdict.WAIT),
    ],
)
def test_restarts_end_a_trial_where_they_exceed_forecast_and_objective(
    restarts, forecast, allowed, verdict
):
    trial = TuningTrial(intervals=10, money=10.0, restarts=restarts)
    expected = FORECAST.model_copy(update={"restarts": forecast})

    assert judge_trial(trial, expected, most_restarts=allowed)[0] is verdict


def test_a_forecast_of_so_many_intervals_is_of_no_fewer_by_rounding():
    forecast = Forecast(intervals=22, violations=15 / 22, money=2.0)

    verdict, _ = judge_trial(TuningTrial(intervals=20, late=16), forecast, most_restarts=ANY)

    assert verdict is Verdict.WAIT


def test_a_verdict_says_what_was_measured_and_what_was_expected():
    _, reason = judge_trial(TuningTrial(intervals=7, late=5), FORECAST, most_restarts=ANY)
    _, restarting = judge_trial(TuningTrial(intervals=7, restarts=5), FORECAST, most_restarts=0.0)

    for told in (reason, restarting):
        assert "5 of 7 intervals" in told
        assert "4 of 60" in told
    assert reason != restarting


def test_a_trial_adds_up():
    trial = TuningTrial().with_interval(late=True, money=2.0, restarted=False)

    assert trial.with_interval(late=False, money=4.0, restarted=True) == TuningTrial(
        intervals=2, late=1, money=6.0, restarts=1
    )


CALM = replace(HOLD, constraints=Constraints(max_reconfigurations=0.25))
"""One restart in a trial of four intervals."""


async def test_a_tuning_that_restarts_in_every_interval_is_taken_back(setting_of):
    setting = setting_of(an_answer(BUDGETS), terms=CALM)
    await setting.loop.attempt()

    setting.note(late=False, restarts=True, times=3)

    assert setting.version(1).standing is Standing.ROLLED_BACK
    assert "3 of 3 intervals" in setting.events[-1].message


async def test_where_the_objective_allows_any_restarts_it_is_kept(setting_of):
    restless = replace(HOLD, constraints=Constraints(max_reconfigurations=ANY))
    setting = setting_of(an_answer(BUDGETS), terms=restless)
    await setting.loop.attempt()

    setting.note(late=False, restarts=True, times=4)

    assert setting.version(1).standing is Standing.KEPT


async def test_a_trial_that_began_before_restarts_were_judged_goes_on(setting_of):
    setting = setting_of(an_answer(BUDGETS), terms=CALM)
    await setting.loop.attempt()
    file = setting.folder / "tuning.json"
    kept = json.loads(file.read_text())
    for version in kept["versions"]:
        del version["forecast"]["restarts"], version["trial"]["restarts"]
    file.write_text(json.dumps(kept))

    setting.open()
    setting.note(late=False, restarts=True, times=4)

    assert setting.loop.view.version == 1
    assert setting.version(1).standing is Standing.KEPT
