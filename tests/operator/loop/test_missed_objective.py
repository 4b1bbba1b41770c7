"""An objective that stays missed is told, with what is done about it or why nothing is."""

from dataclasses import replace

import pytest

from tests.operator.metrics.builders import Load, changed, is_of
from weir_operator.loop.tick import describe_missed
from weir_operator.metrics import names

TAKES = {"gen": 0.001, "match": 0.003, "count": 0.003, "out": 0.001}
LATE = {"busy": 0.1, "latency": 2.0}
"""A job that is over its bound though no replica has much to do."""


async def test_three_intervals_over_the_bound_are_told_once_with_the_reason_to_stay(stage_of):
    stage = await stage_of(operatorManager={"interval": "5s", "policy": {"name": "hold"}}).started()
    stage.put_under(20, **LATE)

    ticks = await stage.ticks(5)

    assert [bool(tick.missed) for tick in ticks] == [False, False, True, True, True]
    assert stage.reasons.count("ObjectiveMissed") == 1
    assert ticks[2].missed.startswith(
        "3 intervals in a row missed the bound of 500 ms: 2 s on average"
    )
    assert "Weir changes nothing: " in ticks[2].missed


async def test_an_interval_within_the_bound_ends_it(stage_of):
    stage = await stage_of(operatorManager={"interval": "5s", "policy": {"name": "hold"}}).started()
    stage.put_under(20, **LATE)
    await stage.ticks(2)
    stage.put_under(20, busy=0.1)
    await stage.ticks(1)
    stage.put_under(20, **LATE)

    ticks = await stage.ticks(2)

    assert not any(tick.missed for tick in ticks)
    assert "ObjectiveMissed" not in stage.reasons


async def test_a_change_that_is_not_made_is_named_with_what_it_waits_for(stage_of):
    stage = await stage_of(mode="Advise").started()
    stage.put_under(150, busy=1.0, latency=2.0)

    ticks = await stage.ticks(3)

    assert "A change waits: Goes to" in ticks[2].missed
    assert ticks[2].missed.endswith("Only advised: spec.mode is Advise")


async def test_replicas_that_are_not_equally_busy_are_named(stage_of):
    stage = await stage_of(
        operatorManager={"interval": "5s", "policy": {"name": "hold"}},
        operators=[
            {"name": "gen", "fixed": {"small/1": 1}},
            {"name": "match", "initial": {"small/1": 2}},
            {"name": "count", "initial": {"small/1": 1}},
            {"name": "out", "fixed": {"small/1": 1}},
        ],
    ).started()
    stage.put_under(
        20,
        latency=2.0,
        match=Load(rate=20, busy=1.0, age=2.0),
        count=Load(rate=20, busy=0.1, age=2.02),
    )
    stage.poison = rest_one_replica

    ticks = await stage.ticks(3)

    assert "match takes" in ticks[2].missed
    assert "Its records are not spread evenly: another replica is 10 % busy" in ticks[2].missed


def rest_one_replica(window):
    """Make the second replica of match a tenth as busy as the first."""
    busy = [each for each in window.series if is_of("match", names.BUSY_MS)(each)]
    first = busy[0].labels["tm_id"]
    return changed(
        window,
        lambda each: replace(each, values=tuple(value / 10 for value in each.values)),
        where=lambda each: is_of("match", names.BUSY_MS)(each) and each.labels["tm_id"] != first,
    )


async def test_a_model_that_expects_much_less_is_called_wrong(stage_of):
    stage = await stage_of(operatorManager={"interval": "5s", "policy": {"name": "hold"}}).started()
    stage.put_under(20, latency=2.0, count=Load(rate=20, busy=0.2, age=1.0))
    [tick] = await stage.ticks(1)
    count = tick.proposals["count"]
    expected = replace(count.decision.expectation, response_time=0.0056)
    hopeful = replace(count, decision=replace(count.decision, expectation=expected))

    told = describe_missed(replace(tick, proposals={"count": hopeful}), bound=0.5, missed=7)

    assert told.startswith("7 intervals in a row missed the bound of 500 ms")
    assert "The model expects 5.6 ms, so it is wrong here" in told


async def test_a_model_that_was_wrong_for_three_intervals_is_planned_with_no_more(stage_of):
    stage = await stage_of(operatorManager={"interval": "5s", "policy": {"name": "hold"}}).started()
    stage.put_under(
        35,
        latency=0.5,
        match=Load(rate=35, busy=0.7, age=0.4),
        count=Load(rate=35, busy=0.7, age=0.44),
    )

    ticks = await stage.ticks(7)

    # What waits in the first intervals may have been left by the restart.
    taught = [not tick.snapshot.disturbed for tick in ticks]
    corrected = taught.index(True) + 2
    expected = [tick.proposals["match"].decision.expectation.response_time for tick in ticks]
    measured = ticks[0].snapshot.app.operators["match"].response_time
    assert corrected > 2
    assert max(expected[:corrected]) < measured / 3
    assert expected[corrected:] == pytest.approx([measured] * (7 - corrected), rel=0.05)
    assert stage.reasons.count("ModelCorrected") == 1


async def test_a_source_that_reads_slowly_is_named_and_gets_replicas(stage_of):
    stage = await stage_of(
        operators=[{"name": name, "maxReplicas": 4, "initial": {"small/1": 1}} for name in TAKES],
        operatorManager={"interval": "5s", "policy": {"name": "queueing"}},
    ).started()
    slow = Load(rate=100, busy=0.1, helper=False, pending=1e5, pending_growth=80.0)
    stage.loads = {
        name: Load(rate=100, busy=100 * takes, service_mean=takes, helper=False, agent=True,
                   marker=0.01)
        for name, takes in TAKES.items()
    } | {"gen": slow}  # fmt: skip

    ticks = await stage.ticks(12)

    missed = next(tick.missed for tick in ticks if tick.missed)
    assert "gen has no measured response time, and a replica is 10 % busy" in missed
    assert "Operator gen: falls behind by 80 records/s while 10% busy" in missed
    assert any(tick.proposals["gen"].decision.target.size > 1 for tick in ticks if tick.proposals)


async def test_what_waits_at_the_sources_is_told_and_no_fault_of_the_model(stage_of):
    stage = await stage_of(operatorManager={"interval": "5s", "policy": {"name": "hold"}}).started()
    waiting = Load(rate=20, pending=2000)
    stage.put_under(20, latency=2.0, gen=waiting, count=Load(rate=20, busy=0.2, age=1.0))
    [tick] = await stage.ticks(1)
    count = tick.proposals["count"]
    expected = replace(count.decision.expectation, response_time=0.0056)
    hopeful = replace(count, decision=replace(count.decision, expectation=expected))

    told = describe_missed(replace(tick, proposals={"count": hopeful}), bound=0.5, missed=7)

    assert "2,000 records wait at the sources" in told
    assert "wrong" not in told
