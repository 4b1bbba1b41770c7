"""The slow loop while its job changes: a drift, a reset, another mode, more traffic than before."""

import asyncio
import math
from dataclasses import replace

import numpy as np
import pytest

from tests.cli.recorded import a_tick
from tests.operator.tuning.fakes import a_request, an_answer
from tests.operator.tuning.tuning_setting import BUDGETS, HOLD, HOURS, RUNS, TRUTHS, plans
from tests.simulator.fitting.known_job import OperatorInterval, run_job
from weir_operator.errors import PermanentError
from weir_operator.loop.arbitrate import UNTUNED
from weir_operator.loop.directives import Directives
from weir_operator.streamapp.models import Mode, State
from weir_operator.tuning.requests import find_shortness
from weir_operator.tuning.store import Standing, TuningStore
from weir_policies import registry
from weir_simulator.fitting import flow
from weir_simulator.tuning.order import Constraints, share_of_restarts


async def test_a_restarted_controller_does_not_fit_to_what_was_before_a_drift(setting_of):
    setting = setting_of()
    await setting.loop.attempt()
    let_drift(setting)

    setting.open()
    await setting.loop.attempt()

    assert setting.state.fit_since >= HOURS[-1].time
    assert setting.loop.view.model.reason == "TooFewSamples"


async def test_a_job_that_passes_on_more_records_is_fitted_again(setting_of, monkeypatch):
    monkeypatch.setattr(flow, "MIN_SECONDS", 60.0 * len(HOURS))
    setting = setting_of()
    await setting.loop.attempt()

    for place in range(20):
        setting.note(late=False, sample=passing_on(HOURS[place], 1.5, minutes=len(HOURS)))

    model = setting.loop.view.model
    assert model.reason == "Drift"
    assert model.sentence.startswith("'match' has passed 1.5")
    assert "'count'" in model.sentence
    assert "ModelDrifted" in setting.reasons


async def test_an_answer_from_before_a_drift_is_dropped_and_told(setting_of):
    setting = setting_of(tuner=SlowTuner())

    tuning = await setting.tuner.begin(setting.loop)
    let_drift(setting)
    await setting.tuner.finish(tuning)

    assert setting.sharing.tuned == UNTUNED
    assert setting.reasons == ["ModelDrifted", "TuningDropped"]


async def test_an_answer_from_before_a_reset_is_dropped_and_told(setting_of):
    setting = setting_of(tuner=SlowTuner())
    setting.clock.time = HOURS[-1].time

    tuning = await setting.tuner.begin(setting.loop)
    setting.loop.forget(1)
    await setting.tuner.finish(tuning)

    assert setting.sharing.tuned == UNTUNED
    assert setting.reasons == ["TuningDropped"]


@pytest.mark.parametrize(
    "asked", [{"mode": Mode.ADVISE}, {"mode": Mode.OFF}, {"state": State.SUSPENDED}]
)
async def test_an_answer_is_dropped_where_the_job_is_not_tuned_any_more(setting_of, asked):
    setting = setting_of(tuner=SlowTuner())

    tuning = await setting.tuner.begin(setting.loop)
    setting.directives = Directives(**asked)
    await setting.tuner.finish(tuning)

    assert setting.sharing.tuned == UNTUNED
    assert setting.reasons == ["TuningDropped"]


async def test_a_restarted_controller_goes_on_with_what_a_reset_has_left(setting_of):
    setting = setting_of()
    await setting.loop.attempt()
    setting.clock.time = HOURS[-1].time
    setting.loop.forget(1)

    setting.open(reset_nonce=1)
    await setting.loop.attempt()

    assert setting.sharing.tuned == UNTUNED
    assert setting.loop.view.model.reason == "TooFewSamples"


async def test_traffic_that_has_grown_ends_a_trial_and_the_next_tuning_sees_it(setting_of):
    setting = setting_of()
    await setting.loop.attempt()
    seen = setting.version(1).most_rate

    for sample in grow():
        setting.note(late=True, sample=sample)
        setting.records.write([a_tick(sample.time, sample=sample)])
    ended = setting.version(1)
    await setting.loop.attempt()

    assert ended.standing is Standing.OVERGROWN
    assert "2 intervals had more traffic" in ended.reason
    assert setting.loop.view.version == 2
    assert setting.version(2).most_rate > 1.1 * seen


async def test_a_tuning_is_out_of_force_while_more_arrives_than_it_has_seen(setting_of):
    setting = setting_of()
    await setting.loop.attempt()
    tuned, seen = setting.sharing.tuned, setting.version(1).most_rate

    def arrives(rate):
        setting.note(late=False, sample=with_rate(HOURS[-1], rate))
        return setting.sharing.tuned

    assert tuned != UNTUNED
    assert arrives(1.05 * seen) == tuned
    assert arrives(1.2 * seen) == UNTUNED
    assert arrives(math.nan) == UNTUNED
    assert arrives(1.05 * seen) == UNTUNED  # as far as it has seen, and no to and fro
    assert arrives(seen) == tuned
    assert arrives(seen) == tuned
    assert setting.reasons.count("TuningOutgrown") == 1
    assert setting.loop.view.version == 1


async def test_a_rush_in_a_trial_does_not_end_it(setting_of):
    setting = setting_of()
    await setting.loop.attempt()

    setting.note(late=True, sample=grow()[0])
    setting.note(late=False)

    assert setting.loop.view.version == 1
    await setting.loop.attempt()
    assert len(setting.tuner.calls) == 1


async def test_a_trace_too_short_to_show_few_restarts_is_not_tuned_on_yet(setting_of):
    a_day = share_of_restarts(24, 60.0)
    setting = setting_of(terms=terms_of(a_day))

    await setting.loop.attempt()

    assert setting.loop.view.model.reason == "Fitted"
    assert setting.tuner.calls == []
    assert setting.reasons == ["TuningWaits"]
    assert "150 intervals" in setting.events[0].message
    assert "takes 600" in setting.events[0].message


@pytest.mark.parametrize("share", [1.0, 10 / 150, 0.0])
async def test_a_trace_with_room_for_ten_restarts_or_for_none_is_tuned_on(setting_of, share):
    setting = setting_of(terms=terms_of(share))

    await setting.loop.attempt()

    assert setting.loop.view.version == 1


async def test_policies_are_trained_before_a_trace_is_long_enough_to_tune_on(setting_of):
    state = registry.build("hold", rng=np.random.default_rng(1)).state_dict()
    trained = an_answer(BUDGETS).model_copy(update={"trained": {"match": state, "count": state}})
    setting = setting_of(trained, fallback_policy=True, terms=terms_of(0.01))

    await setting.loop.attempt()

    assert setting.loop.view.in_training == ()
    assert setting.sharing.tuned == UNTUNED


def test_where_hardly_a_restart_is_allowed_half_of_what_is_fitted_to_suffices():
    work = a_request(slots=5760)
    rare = Constraints(max_reconfigurations=share_of_restarts(1, 60.0))
    work = work.model_copy(update={"constraints": rare})
    shorter = work.model_copy(update={"rates": work.rates[1:]})

    assert find_shortness(work, most_intervals=11_520) == ""
    assert "takes 5760" in find_shortness(shorter, most_intervals=11_520)


def terms_of(share):
    """Return terms that allow a restart in a share of the slots."""
    return replace(HOLD, constraints=Constraints(max_reconfigurations=share))


def with_rate(sample, rate):
    """Return an interval in which so many records/s arrived at the source."""
    source = replace(sample.operators["match"], arrived=rate)
    return replace(sample, operators={**sample.operators, "match": source})


def grow():
    """Return intervals of a job to which twice as much comes as ever did."""
    busy = OperatorInterval(deployment={"small/1": 6}, rate=90.0)
    after = run_job(TRUTHS, [dict.fromkeys(RUNS, busy)] * 40, rng=np.random.default_rng(5))
    return [replace(each, time=HOURS[-1].time + each.time) for each in after.intervals]


class SlowTuner:
    """Answers when a test lets it."""

    def __init__(self):
        self._asked, self._let = asyncio.Event(), asyncio.Event()

    async def tune(self, work, *, name):
        self._asked.set()
        await self._let.wait()
        return an_answer(BUDGETS)

    async def begin(self, loop):
        """Return a tuning that waits for its answer."""
        tuning = asyncio.create_task(loop.attempt())
        await self._asked.wait()
        return tuning

    async def finish(self, tuning):
        """Answer, and wait for what comes of it."""
        self._let.set()
        await tuning


def passing_on(sample, factor, *, minutes):
    """Return an interval so much later, with so many times the records at `count`."""
    count = sample.operators["count"]
    more = replace(count, arrived=factor * count.arrived, taken=factor * count.taken)
    return replace(
        sample,
        time=sample.time + 60.0 * minutes,
        operators={**sample.operators, "count": more},
    )


def let_drift(setting):
    """Let the job take longer for every record than it did when it was fitted."""
    slower = run_job(TRUTHS, plans(20, factor=1.4), rng=np.random.default_rng(6)).intervals
    for sample in slower:
        setting.note(late=False, sample=replace(sample, time=HOURS[-1].time + sample.time))
    assert setting.loop.view.model.reason == "Drift"


def test_a_folder_of_tunings_that_cannot_be_made_is_told_in_a_sentence(tmp_path):
    (tmp_path / "state").write_text("a file where the folder should be")
    store = TuningStore(tmp_path / "state" / "tuning.json", key={})

    with pytest.raises(PermanentError, match=r"tuning\.json"):
        store.save(store.fresh())
