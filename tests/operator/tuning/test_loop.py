"""The slow loop: it fits, tunes, takes what is better, and takes back what reality refutes."""

import asyncio
from dataclasses import replace

import numpy as np
import pytest

from tests.operator.tuning.fakes import an_answer
from tests.operator.tuning.tuning_setting import (
    BUDGETS,
    HOLD,
    HOURS,
    TRUTHS,
    plans,
    with_other_times,
)
from tests.simulator.fitting.known_job import run_job
from weir_operator.errors import TemporaryError
from weir_operator.loop.arbitrate import UNTUNED
from weir_operator.loop.directives import Directives
from weir_operator.streamapp.models import Mode, State
from weir_operator.tuning.fitting import find_fitted
from weir_operator.tuning.protocol import TuningLostError
from weir_operator.tuning.requests import resembles
from weir_operator.tuning.store import Standing, TuningStore
from weir_policies import registry
from weir_policies.model.dataflow import Dataflow
from weir_policies.model.objective import Statistic
from weir_policies.policy import CostWeights
from weir_simulator.arrivals import arrival_rates
from weir_simulator.experiment import Objective, PathBound
from weir_simulator.experiment_files import load_experiment


async def test_a_percentile_and_a_single_sink_are_bounded_in_what_is_tuned(setting_of):
    objective = Objective(
        response_time=0.5,
        statistic=Statistic.P95,
        paths=(PathBound(sink="match", response_time=0.2),),
    )
    setting = setting_of(terms=replace(HOLD, objective=objective))
    setting.sharing.tail = 2.0  # as measured

    await setting.loop.attempt()

    [(work, _)] = setting.tuner.calls
    assert work.experiment.objective == objective.model_copy(update={"tail": 2.0})


async def test_until_there_is_a_fit_the_objective_is_shared_without_tuning(setting_of):
    setting = setting_of(intervals=HOURS[:10])

    await setting.loop.attempt()

    model = setting.loop.view.model
    assert (model.fitted, model.reason) == (None, "TooFewSamples")
    assert setting.tuner.calls == []
    assert setting.sharing.tuned == UNTUNED


async def test_a_good_fit_says_how_good_it_is_and_is_tuned_for_the_job_as_it_is(setting_of):
    setting = setting_of()

    await setting.loop.attempt()

    model = setting.loop.view.model
    assert (model.fitted, model.reason) == (True, "Fitted")
    assert "Held-out stretches of 19 min are predicted" in model.sentence
    [(work, _)] = setting.tuner.calls
    operators = {each.name: each for each in work.experiment.operators}
    assert 1 / operators["match"].service_rate == pytest.approx(0.02, rel=0.05)
    assert work.experiment.objective.response_time == 0.5
    assert len(work.rates) == len(HOURS)
    assert work.incumbent.budgets.keys() == {"match", "count"}


async def test_a_bad_fit_is_not_tuned_with(setting_of):
    slower = run_job(TRUTHS, plans(150), rng=np.random.default_rng(4)).intervals
    mixed = tuple(
        each if (place // 19) % 4 != 3 else with_other_times(other)
        for place, (each, other) in enumerate(zip(HOURS, slower, strict=True))
    )
    setting = setting_of(intervals=mixed)

    await setting.loop.attempt()

    assert (setting.loop.view.model.fitted, setting.loop.view.model.reason) == (False, "BadFit")
    assert setting.reasons == ["ModelUnfitted"]
    assert setting.tuner.calls == []


async def test_a_job_that_the_simulator_cannot_have_is_told_once_and_not_tuned(setting_of):
    apart = [each | {"count": replace(each["count"], rate=20.0)} for each in plans(150)]
    unlike = run_job(TRUTHS, apart, rng=np.random.default_rng(3)).intervals
    setting = setting_of(intervals=unlike, flow=Dataflow(operators=("match", "count")))

    await setting.loop.attempt()
    await setting.loop.attempt()

    assert setting.reasons == ["CannotTune"]
    assert setting.tuner.calls == []


async def test_a_job_of_operators_in_unlike_pools_is_tuned_where_each_may_run(setting_of):
    bound = replace(TRUTHS[1], node_types=TRUTHS[1].node_types[:1])
    setting = setting_of(truths=(TRUTHS[0], bound))

    await setting.loop.attempt()

    [(work, _)] = setting.tuner.calls
    assert [each.pools for each in work.experiment.operators] == [None, ("small",)]
    assert setting.reasons == ["TuningApplied"]


async def test_what_is_better_is_in_force_on_trial_and_told(setting_of):
    setting = setting_of()

    await setting.loop.attempt()

    tuned = setting.sharing.tuned
    assert setting.loop.view.version == 1
    assert tuned.weights.violation == 0.8
    assert tuned.budgets == pytest.approx(BUDGETS, abs=0.02)
    assert setting.version(1).standing is Standing.ON_TRIAL
    assert setting.reasons == ["TuningApplied"]


async def test_what_is_not_better_with_confidence_changes_nothing(setting_of):
    setting = setting_of(an_answer(BUDGETS, better=False))

    await setting.loop.attempt()

    assert setting.sharing.tuned == UNTUNED
    assert setting.reasons == []


async def test_while_one_is_on_trial_no_other_is_looked_for(setting_of):
    setting = setting_of()
    await setting.loop.attempt()

    await setting.loop.attempt()

    assert len(setting.tuner.calls) == 1


async def test_a_trial_that_goes_as_expected_ends_and_the_next_tuning_begins_there(setting_of):
    setting = setting_of()
    await setting.loop.attempt()

    setting.note(late=False, times=4)
    await setting.loop.attempt()

    assert setting.version(1).standing is Standing.REPLACED
    order = setting.tuner.calls[1][0]
    assert order.incumbent is not None
    assert resembles(order.incumbent, setting.version(1).point)
    assert order.warm_starts == ()  # which would be the incumbent once more
    assert setting.state.current == 2
    assert setting.version(2).former == 1


async def test_more_violations_than_expected_take_it_back_to_the_former_version(setting_of):
    setting = setting_of(an_answer(BUDGETS), an_answer({"match": 0.1, "count": 0.3}))
    await setting.loop.attempt()
    setting.note(late=False, times=4)
    await setting.loop.attempt()

    setting.note(late=True, times=2)

    assert setting.loop.view.version == 1
    assert setting.version(2).standing is Standing.ROLLED_BACK
    assert setting.reasons[-1] == "TuningRolledBack"
    assert "2 of 2 intervals violated" in setting.events[-1].message


async def test_what_was_taken_back_is_remembered_and_not_tried_again(setting_of):
    setting = setting_of()
    await setting.loop.attempt()
    setting.note(late=True, times=2)

    await setting.loop.attempt()

    assert setting.sharing.tuned == UNTUNED
    assert setting.reasons[-1] == "TuningKnownToFail"


async def test_a_restarted_controller_goes_on_with_the_version_in_force(setting_of):
    setting = setting_of()
    await setting.loop.attempt()
    before = setting.sharing.tuned

    setting.open()

    assert setting.sharing.tuned == before


async def test_a_tuning_of_another_objective_is_not_gone_on_with(setting_of):
    setting = setting_of()
    await setting.loop.attempt()

    setting.open(key="trips with another objective")

    assert setting.sharing.tuned == UNTUNED


async def test_a_reset_forgets_tunings_and_fits_to_what_comes_then(setting_of):
    setting = setting_of()
    await setting.loop.attempt()
    setting.clock.time = HOURS[-1].time

    setting.loop.forget(1)
    await setting.loop.attempt()

    assert setting.sharing.tuned == UNTUNED
    assert setting.loop.view.model.reason == "TooFewSamples"


@pytest.mark.parametrize(("phase", "minutes"), [(0.0, 0), (0.4, 14)])
async def test_jobs_that_were_measured_before_are_fitted_soon_and_one_by_one(
    setting_of, phase, minutes
):
    waits = await _waits_of(setting_of(phase=phase), maximum=2)

    assert waits == pytest.approx([minutes * 60, 3600])


async def test_a_job_of_which_too_little_was_measured_is_looked_at_again_soon(setting_of):
    waits = await _waits_of(setting_of(intervals=HOURS[:10], phase=0.4), maximum=4)

    assert waits == pytest.approx([14 * 60, 35 * 60, 5 * 60, 5 * 60])


async def test_a_started_controller_fits_to_what_was_measured_before_at_its_first_tick(setting_of):
    setting = setting_of()
    setting.open(seen=False)
    waiting = asyncio.create_task(_waits_of(setting, maximum=2))
    await asyncio.sleep(0)

    setting.note(late=False)
    waits = await waiting

    assert waits == [0, 3600]
    assert setting.loop.view.model.reason == "Fitted"


async def test_a_lost_tuning_is_made_again_under_the_same_name(setting_of):
    setting = setting_of(TuningLostError("The process was killed"), an_answer(BUDGETS))

    await setting.loop.attempt()

    assert [name for _, name in setting.tuner.calls] == ["v1", "v1"]
    assert setting.loop.view.version == 1


@pytest.mark.parametrize(
    ("failure", "told"),
    [
        (TuningLostError("Lost"), "Lost"),
        (TemporaryError("The API server is away"), "The API server is away"),
        (RuntimeError("a defect"), "An unexpected RuntimeError"),
    ],
)
async def test_each_tuning_that_fails_is_told_and_what_is_in_force_stays(setting_of, failure, told):
    setting = setting_of(failure)

    await setting.loop.attempt()
    await setting.loop.attempt()

    assert setting.reasons == ["TuningFailed", "TuningFailed"]
    assert told in setting.events[0].message
    assert told in setting.loop.view.failure
    assert not setting.loop.view.answered
    assert setting.sharing.tuned == UNTUNED


async def test_a_tuner_that_answers_after_a_failure_has_none_any_more(setting_of):
    setting = setting_of(TemporaryError("The API server is away"), an_answer(BUDGETS))

    await setting.loop.attempt()
    await setting.loop.attempt()

    assert setting.loop.view.failure == ""
    assert setting.loop.view.answered


@pytest.mark.parametrize("asked", [{"mode": Mode.OFF}, {"state": State.SUSPENDED}])
async def test_a_job_that_is_let_be_is_not_tuned(setting_of, asked):
    setting = setting_of()
    setting.directives = Directives(**asked)

    await setting.loop.attempt()

    assert setting.tuner.calls == []


async def test_advice_that_nobody_follows_is_fitted_and_neither_tuned_nor_judged(setting_of):
    setting = setting_of()
    await setting.loop.attempt()
    setting.directives = Directives(mode=Mode.ADVISE)

    setting.note(late=True, times=5)
    await setting.loop.attempt()

    assert len(setting.tuner.calls) == 1
    assert setting.version(1).standing is Standing.ON_TRIAL
    assert setting.loop.view.model.reason == "Fitted"


async def test_policies_are_trained_for_advice_too_and_what_was_tuned_besides_is_left(setting_of):
    state = registry.build("hold", rng=np.random.default_rng(1)).state_dict()
    trained = an_answer(BUDGETS).model_copy(update={"trained": {"match": state, "count": state}})
    setting = setting_of(trained, fallback_policy=True)
    setting.directives = Directives(mode=Mode.ADVISE)

    await setting.loop.attempt()

    assert setting.loop.view.in_training == ()
    assert setting.sharing.tuned == UNTUNED


async def test_a_fitted_job_is_left_as_an_experiment_with_what_is_in_force(setting_of):
    setting = setting_of()

    await setting.loop.attempt()

    experiment = load_experiment(find_fitted(setting.folder))
    assert arrival_rates(experiment.trace).size == len(HOURS)
    assert experiment.objective.response_time == 0.5
    assert sum(each.budget or 0 for each in experiment.operators) == pytest.approx(0.5)


async def test_a_trial_whose_end_cannot_be_kept_is_told_and_holds_up_no_tick(
    setting_of, monkeypatch
):
    def fail(self, state):
        raise TemporaryError("Expected to write the tuning, got a full disk")

    setting = setting_of()
    await setting.loop.attempt()
    monkeypatch.setattr(TuningStore, "save", fail)

    setting.note(late=True, times=5)

    assert setting.sharing.tuned == UNTUNED
    assert setting.reasons.count("TrialFailed") == 1


async def test_a_policy_decides_only_once_it_has_been_trained(setting_of):
    state = registry.build("hold", rng=np.random.default_rng(1)).state_dict()
    trained = an_answer(BUDGETS, better=False).model_copy(
        update={"trained": {"match": state, "count": state}}
    )
    setting = setting_of(trained, fallback_policy=True)
    before = setting.loop.view.in_training

    await setting.loop.attempt()

    assert before == ("match", "count")
    assert setting.tuner.calls[0][0].train > 0
    assert setting.loop.view.in_training == ()
    assert setting.reasons == ["PolicyTrained", "PolicyTrained"]


@pytest.mark.parametrize(("mode", "stays"), [(Mode.AUTO, False), (Mode.ADVISE, True)])
async def test_policies_are_trained_for_the_settings_that_will_be_in_force(setting_of, mode, stays):
    setting = setting_of(fallback_policy=True)
    setting.directives = Directives(mode=mode)

    await setting.loop.attempt()

    [(request, _)] = setting.tuner.calls
    assert request.train_incumbent is stays


async def test_policies_are_trained_for_what_stays_where_the_best_may_be_known_to_fail(setting_of):
    setting = setting_of(fallback_policy=True)
    await setting.loop.attempt()
    setting.note(late=True, times=2)

    await setting.loop.attempt()

    assert setting.version(1).standing is Standing.ROLLED_BACK
    assert setting.tuner.calls[-1][0].train_incumbent
    assert setting.sharing.tuned == UNTUNED


@pytest.mark.parametrize("better", [True, False])
async def test_what_was_trained_for_settings_that_are_not_taken_is_dropped(setting_of, better):
    state = registry.build("hold", rng=np.random.default_rng(1)).state_dict()
    answer = an_answer(BUDGETS, better=better).model_copy(
        update={"trained": {"match": state, "count": state}}
    )
    setting = setting_of(answer, fallback_policy=True)

    async def answer_after_the_mode_has_changed(work, *, name):
        setting.directives = Directives(mode=Mode.ADVISE)
        return answer

    setting.tuner.tune = answer_after_the_mode_has_changed

    await setting.loop.attempt()

    assert setting.sharing.tuned == UNTUNED
    assert bool(setting.loop.view.in_training) is better
    assert ("TuningDropped" in setting.reasons) is better


async def _waits_of(setting, *, maximum):
    """Return the seconds before each of the loop's first attempts."""
    waits, waiting = [], asyncio.Event()

    async def sleep(seconds):
        waits.append(seconds)
        if len(waits) == maximum:
            waiting.set()
            await asyncio.Event().wait()

    setting.clock.sleep = sleep
    running = asyncio.create_task(setting.loop.run())
    await waiting.wait()
    running.cancel()
    await asyncio.wait({running})
    return waits


NOTHING = CostWeights(violation=0, resources=0, reconfiguration=0)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"budgets": {"other": 0.1}}, "budgets for"),
        ({"budgets": {"match": 0.1}}, "budgets for"),
        ({"budgets": {**BUDGETS, "third": 0.1}}, "budgets for"),
        ({"budgets": {}}, "budgets for"),
        ({"budgets": {"match": 0.1, "count": 0.51}}, "at most 0.5 s"),
        ({"weights": NOTHING}, "weights with a sum above 0"),
        ({"weights": replace(NOTHING, violation=1e308, resources=1e308)}, "weights"),
    ],
)
@pytest.mark.parametrize("better", [True, False])
async def test_an_answer_that_cannot_be_the_requests_changes_nothing(
    setting_of, wrong, told, better
):
    right = an_answer(BUDGETS, better=better)
    setting = setting_of(right.model_copy(update={"best": replace(right.best, **wrong)}))

    await setting.loop.attempt()

    assert len(setting.tuner.calls) == 2  # the second for the case that the first was damaged
    assert setting.reasons == ["TuningFailed"]
    assert told in setting.loop.view.failure
    assert setting.sharing.tuned == UNTUNED
    assert setting.loop.view.version == 0
