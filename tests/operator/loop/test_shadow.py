"""What following the advice would have come to, while nothing is touched."""

import json
import math

import pytest

from weir_operator.loop.shadow import DAYS_KEPT
from weir_operator.loop.tick import Bill

QUEUEING = {"interval": "5s", "policy": {"name": "queueing"}}
DAY = 86_400.0


async def test_a_bill_adds_up_what_is_paid_and_what_the_advised_deployment_would_cost(stage_of):
    stage = await stage_of(mode="Advise", operatorManager=QUEUEING).started()
    stage.put_under(150, busy=1.0, latency=2.0)

    first, second = await stage.ticks(2)

    # Five seconds of four replicas at 0.04 an hour each, and half a core for the JobManager; from
    # the second tick on the advised job is the larger one.
    assert first.bill.paid == pytest.approx(5 * (4 * 0.04 + 0.02) / 3600)
    assert first.bill.advised == first.bill.paid
    assert second.bill.paid == pytest.approx(2 * first.bill.paid)
    assert second.bill.advised > second.bill.paid
    assert second.bill.restarts == 1


async def test_the_advised_job_keeps_a_bound_that_the_real_one_exceeds(stage_of):
    stage = await stage_of(mode="Advise", operatorManager=QUEUEING).started()
    stage.put_under(150, busy=1.0, latency=2.0)

    ticks = await stage.ticks(6)

    assert [tick.violated for tick in ticks] == [True] * 6
    assert ticks[-1].bill.judged == 6
    assert ticks[-1].bill.violations == 1  # before the first advice could be followed


async def test_a_late_sink_is_a_violation_of_the_bill(stage_of):
    objective = {"responseTime": "500ms", "paths": [{"sink": "out", "responseTime": "50ms"}]}
    stage = await stage_of(mode="Advise", operatorManager=QUEUEING, objective=objective).started()
    stage.put_under(20, latency=0.1)

    tick = await stage.tick()

    assert tick.violated
    assert tick.bill.judged == 1
    assert tick.bill.violations == 1


async def test_imagining_teaches_the_managers_nothing(stage_of):
    advised = await stage_of(mode="Advise", operatorManager=QUEUEING).started()
    advised.put_under(150, busy=1.0, latency=2.0)
    await advised.ticks(2)
    before = {name: manager.state_dict() for name, manager in advised.managers.items()}
    observation = (await advised.tick()).proposals["match"].observation
    after_tick = advised.managers["match"].state_dict()

    advised.managers["match"].imagine(observation)

    assert before.keys() == advised.managers.keys()
    assert advised.managers["match"].state_dict() == after_tick


async def test_the_bill_outlives_the_controller(stage_of):
    stage = await stage_of(mode="Advise", operatorManager=QUEUEING).started()
    stage.put_under(150, busy=1.0, latency=2.0)
    await stage.ticks(1)
    stage.clock.time += 300
    [last] = await stage.ticks(1)

    again = await stage.started()
    [next_tick] = await again.ticks(1)

    assert next_tick.bill.seconds > last.bill.seconds
    assert next_tick.bill.advised > last.bill.advised


@pytest.mark.parametrize("content", ["{", "[" * 100_000])
async def test_a_forecast_that_cannot_be_read_begins_again(stage_of, content):
    stage = stage_of(mode="Advise", operatorManager=QUEUEING)
    (stage.folder / "forecast.json").write_text(content)
    await stage.started()

    [tick] = await stage.ticks(1)

    assert tick.bill.seconds == 5


async def test_the_forecast_is_told_after_a_quarter_of_an_hour_and_then_once_a_day(stage_of):
    stage = await stage_of(mode="Advise", operatorManager=QUEUEING).started()

    await stage.ticks(2)
    early = stage.reasons.count("SavingsForecast")
    stage.clock.time += 900
    await stage.ticks(2)

    assert early == 0
    assert stage.reasons.count("SavingsForecast") == 1


async def test_only_the_last_days_are_kept(stage_of):
    stage = stage_of(mode="Advise", operatorManager=QUEUEING)
    stage.clock.time = 100 * DAY
    days = {str(day): [DAY, 10.0, 9.0, 1, 10, 0] for day in range(100 - DAYS_KEPT, 100)}
    key = {"version": 2, "policy": "queueing", "resetNonce": 0}
    state = {**key, "deployments": None, "tokens": None, "days": days}
    (stage.folder / "forecast.json").write_text(json.dumps(state))
    await stage.started()

    [tick] = await stage.ticks(1)

    assert tick.bill.seconds == (DAYS_KEPT - 1) * DAY + 5


async def test_a_reset_forgets_the_bill_too(stage_of):
    stage = await stage_of(mode="Advise", operatorManager=QUEUEING).started()
    await stage.ticks(3)
    stage.ask(reset_nonce=1)

    [tick] = await stage.ticks(1)

    assert tick.bill.seconds == 5


async def test_a_reset_that_no_controller_saw_forgets_the_bill_too(stage_of):
    stage = await stage_of(mode="Advise", operatorManager=QUEUEING).started()
    stage.clock.time += 300
    await stage.ticks(3)
    later = stage_of(mode="Advise", operatorManager=QUEUEING, resetNonce=1)

    [tick] = await (await later.started()).ticks(1)

    assert later.folder == stage.folder
    assert tick.bill.seconds == 5


async def test_mode_auto_has_no_forecast(stage_of):
    stage = await stage_of(operatorManager=QUEUEING).started()

    [tick] = await stage.ticks(1)

    assert tick.bill is None


def test_after_a_day_a_bill_is_said_per_day_with_restarts_and_violations():
    bill = Bill(seconds=2 * DAY, paid=2410.0, advised=10.0, restarts=9, judged=200, violations=3)

    assert bill.saved_a_day == pytest.approx(1200)
    for figure in ("1,200.00", "4.5", "1.5%", "2 days"):
        assert figure in bill.sentence


def test_before_a_day_nothing_is_said_of_one():
    bill = Bill(seconds=7200.0, paid=0.32, advised=0.244, restarts=1, judged=200, violations=3)

    assert math.isnan(bill.saved_a_day)
    for figure in ("2 h", "0.244", "0.32", "1 restart", "1.5%"):
        assert figure in bill.sentence


def test_ten_seconds_make_no_forecast_but_say_when_there_is_one():
    bill = Bill(seconds=10.0, paid=0.001, advised=0.002, restarts=1, judged=1, violations=1)

    assert "10 s" in bill.sentence
    assert "15 min" in bill.sentence
    assert "0.00" not in bill.sentence


def test_a_dearer_advice_says_so_and_nothing_seen_says_nothing():
    dearer = Bill(seconds=DAY, paid=8.0, advised=10.0, restarts=1)

    assert dearer.saved_a_day == pytest.approx(-2)
    assert "2.00 more" in dearer.sentence
    assert "unknown" in dearer.sentence
    assert Bill().sentence == ""
