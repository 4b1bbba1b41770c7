"""What was kept of a job before the controller came, and how the loops go on without it."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import date

import numpy as np
import pytest

from tests.operator.streamapp.builders import a_stream_app
from tests.operator.tuning.tuning_setting import HOURS, TRUTHS, plans, with_other_times
from tests.simulator.fitting.known_job import a_model, a_structure, run_job
from weir_operator.errors import TemporaryError
from weir_operator.tuning.history import HistoryReader, Past
from weir_operator.wiring.assembly import operator_managers
from weir_policies.model.dataflow import Dataflow, Edge
from weir_policies.model.node_types import Deployment
from weir_policies.model.season import HOURS as HOURS_OF_WEEK
from weir_policies.model.season import Season
from weir_policies.testing import an_observation
from weir_simulator.fitting.history import History
from weir_simulator.fitting.samples import Samples

MINUTES = 480
SINCE = tuple(replace(each, time=each.time + 60 * MINUTES) for each in HOURS)
"""What the loop itself has measured, after the history."""
SEASON = Season(rates=tuple(10.0 + hour % 24 for hour in range(HOURS_OF_WEEK)), weeks=2)


def a_history(*, factor=1.0, odd=False):
    """Return the hours before the loop's own; `odd` ones took times that nothing explains."""
    before = run_job(TRUTHS, plans(MINUTES, factor=factor), rng=np.random.default_rng(5)).intervals
    if odd:
        before = tuple(
            with_other_times(each) if (place // 19) % 4 == 3 else each
            for place, each in enumerate(before)
        )
    return History(
        samples=Samples(intervals=before),
        begin=0.0,
        rates={"match": np.full(MINUTES, 20.0), "count": np.full(MINUTES, 20.0)},
        seasons={"match": SEASON},
        used=(date(1970, 1, 1),),
        left_out={},
    )


class Kept:
    """A place where the history of one job lies, or cannot be read."""

    def __init__(self, history):
        self.history = history
        self.asked = []

    def read(self, app, *, operators, node_types):
        self.asked.append((app, tuple(operators), tuple(node_types)))
        if self.history is None:
            raise TemporaryError("expected arrivals of it, got none")
        return self.history

    def seasons(self, app):
        return self.read(app, operators=(), node_types=()).seasons


def past(history):
    return past_of(Kept(history))


def past_of(source):
    return Past(reader=HistoryReader(source), app="streams/trips")


async def test_a_job_is_fitted_to_its_history_and_to_what_was_measured_since(setting_of):
    kept = Kept(a_history())
    setting = setting_of(intervals=SINCE, past=past_of(kept))

    await setting.loop.attempt()

    assert setting.loop.view.model.sentence.endswith(
        "; fitted to 1 days of history, 1970-01-01 to 1970-01-01 (0 left out), and what was "
        "measured since; its traffic begins on 1970-01-01 at 00:00 UTC"
    )
    assert kept.asked == [("streams/trips", ("match", "count"), ("small/1", "large/1"))]
    [(work, _)] = setting.tuner.calls
    assert len(work.rates) == MINUTES + len(HOURS)
    assert set(work.rates[:MINUTES]) == {20.0}
    assert "HistoryUnused" not in setting.reasons


async def test_where_sizes_are_not_told_traffic_is_of_history_and_speed_as_measured(setting_of):
    whole = a_history()
    traffic = replace(whole, samples=Samples(intervals=()), unsized=("small",))
    setting = setting_of(intervals=SINCE, past=past(traffic))
    alone = setting_of(intervals=SINCE)

    await setting.loop.attempt()
    await alone.loop.attempt()

    assert setting.loop.view.model.sentence.endswith(
        "; only the traffic of what ran on small, because history distinguishes pools but not sizes"
    )
    [(work, _)], [(without, _)] = setting.tuner.calls, alone.tuner.calls
    assert len(work.rates) == MINUTES + len(HOURS)
    rates, measured = (
        {each.name: each.service_rate for each in made.experiment.operators}
        for made in (work, without)
    )
    assert rates == measured
    assert "HistoryUnused" not in setting.reasons


@pytest.mark.parametrize("why", ["unsized", "barred"])
async def test_where_history_does_not_tell_of_one_operator_the_traffic_of_all_is_of_it(
    setting_of, why
):
    whole = a_history()
    partly = [
        replace(each, operators={"match": each.operators["match"]}, response_time=math.nan)
        for each in whole.samples.intervals
    ]
    history = replace(whole, samples=Samples(intervals=tuple(partly)), **{why: ("large",)})
    setting = setting_of(intervals=SINCE[:60], past=past(history))

    await setting.loop.attempt()

    assert "fitted to the traffic of 1 days of history" in setting.loop.view.model.sentence
    assert "; only the traffic of what ran on large" in setting.loop.view.model.sentence
    [(work, _)] = setting.tuner.calls
    assert len(work.rates) == MINUTES + 60
    operators = {each.name: each for each in work.experiment.operators}
    assert operators["count"].service_rate == pytest.approx(100, rel=0.05)
    assert operators["match"].usual is not None
    assert "HistoryUnused" not in setting.reasons


async def test_a_tuning_simulates_policies_that_begin_with_the_season(setting_of):
    setting = setting_of(intervals=SINCE, past=past(a_history()))

    await setting.loop.attempt()

    [(work, _)] = setting.tuner.calls
    usual = {each.name: each.usual for each in work.experiment.operators}
    assert usual["count"] is None
    # The trace begins at the epoch, which was a Thursday's midnight.
    assert usual["match"].rates[:24] == SEASON.rates[3 * 24 : 4 * 24]


@pytest.mark.parametrize(
    ("history", "why"),
    [
        (None, "expected arrivals of it, got none"),
        (a_history(odd=True), "it does not match the current measurements: "),
    ],
)
async def test_who_waits_for_samples_is_told_why_history_does_not_do(setting_of, history, why):
    setting = setting_of(intervals=SINCE[:20], past=past(history))

    await setting.loop.attempt()

    model = setting.loop.view.model
    assert model.reason == "TooFewSamples"
    assert f"got 20; wait for more. The history does not help: {why}" in model.sentence


ODD_HOURS = tuple(
    with_other_times(each) if (place // 19) % 4 == 3 else each for place, each in enumerate(SINCE)
)


@pytest.mark.parametrize(
    ("reason", "intervals"),
    [("TooFewSamples", SINCE[:20]), ("BadFit", ODD_HOURS), ("Fitted", SINCE)],
)
async def test_whatever_comes_of_a_fit_says_why_history_is_not_used(setting_of, reason, intervals):
    setting = setting_of(intervals=intervals, past=past(None))

    await setting.loop.attempt()
    await setting.loop.attempt()

    assert setting.loop.view.model.reason == reason
    assert says_that_history_cannot_be_read(setting)


async def test_a_job_that_cannot_be_fitted_says_why_history_is_not_used(setting_of):
    # Records reach count both from match, which is scaled, and past it.
    pairs = (("gen", "match"), ("gen", "count"), ("match", "count"))
    flow = Dataflow(
        operators=("gen", "match", "count"),
        edges=tuple(Edge(source=source, target=target) for source, target in pairs),
    )
    truths = (a_model("gen", service_mean=0.005), *TRUTHS)
    both = [{"gen": each["count"], **each} for each in plans(150)]
    intervals = run_job(truths, both, rng=np.random.default_rng(3)).intervals
    setting = setting_of(intervals=intervals, truths=truths, flow=flow, past=past(None))
    setting.managers["gen"].fixed = Deployment((1, 0))

    await setting.loop.attempt()
    await setting.loop.attempt()

    assert setting.loop.view.model.reason == "CannotFit"
    assert says_that_history_cannot_be_read(setting)


def says_that_history_cannot_be_read(setting):
    """Return whether the condition does, and one event."""
    sentence = setting.loop.view.model.sentence
    told = setting.reasons.count("HistoryUnused") == 1
    return told and sentence.endswith(": expected arrivals of it, got none")


async def test_history_of_another_job_than_the_present_one_is_not_used_and_said_so(setting_of):
    setting = setting_of(intervals=SINCE, past=past(a_history(factor=1.6)))

    await setting.loop.attempt()

    [told] = [each for each in setting.events if each.reason == "HistoryUnused"]
    assert "does not match the current measurements" in told.message
    [(work, _)] = setting.tuner.calls
    assert len(work.rates) == len(HOURS)


async def test_what_was_before_a_drift_is_no_history_of_the_present_job():
    structure = a_structure(*TRUTHS)

    async with past(a_history()).opened(structure, since=60.0 * (MINUTES - 60)) as later:
        assert len(later.samples.intervals) == 60
        assert later.begin == 60 * (MINUTES - 60)
        assert later.rates["match"].size == 60

    with pytest.raises(TemporaryError, match="ends before the job was last changed"):
        async with past(a_history()).opened(structure, since=60.0 * MINUTES):
            pass


async def test_what_ran_where_operators_may_not_run_any_more_is_no_sample_of_the_job():
    moved = replace(TRUTHS[0], node_types=TRUTHS[0].node_types[1:])

    async with past(a_history()).opened(a_structure(moved, TRUTHS[1]), since=0.0) as left:
        assert left.barred == ("small",)
        assert {name for each in left.samples.intervals for name in each.operators} == {"count"}


async def test_policies_that_have_learned_nothing_begin_with_the_season():
    app = a_stream_app(operators=[{"name": "match", "maxReplicas": 4}])
    seasons = await past(a_history()).seasons()

    told = learn_once(operator_managers(app, seasons=seasons)["match"])
    untold = learn_once(operator_managers(app)["match"])

    assert told != untold


def learn_once(manager):
    """Return what the manager's policy knows after an interval."""
    for time in (0.0, 60.0):
        manager.propose(an_observation(time=time))
    return manager.state_dict()["policy"]
