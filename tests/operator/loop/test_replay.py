"""Recorded intervals decided again: open loop as it was, closed loop as it would have been."""

import math
import sqlite3
from contextlib import closing
from dataclasses import replace
from itertools import pairwise

import pytest

from weir_operator.errors import PermanentError
from weir_operator.loop.decision_records import LearningOutcome, LoopStart
from weir_operator.loop.operator_manager import OperatorManager
from weir_operator.wiring import assembly
from weir_operator.wiring.replay import ReplayRequest, replay_records
from weir_policies.errors import StateError, UnknownPolicyError
from weir_policies.model.dataflow import Edge

QUEUEING = {"interval": "5s", "policy": {"name": "queueing"}}


async def a_recording(stage_of, *, loads=((60, 0.9), (150, 1.0), (20, 0.2)), ticks=8, **spec):
    """Return a stage after some ticks of each load, and the path of its records."""
    stage = stage_of(operatorManager=QUEUEING, **spec)
    await stage.started()
    stage.memory.restore(0.0)
    for rate, busy in loads:
        stage.put_under(rate, busy=busy, latency=0.1)
        await stage.ticks(ticks)
    return stage, stage.folder / "records.sqlite"


@pytest.mark.parametrize("policy", ["queueing", "planner", "ql", "drs-cheapest"])
async def test_the_recorded_policy_decides_on_recorded_observations_as_it_did(stage_of, policy):
    manager = {"interval": "5s", "policy": {"name": policy}}
    stage = stage_of(operatorManager=manager)
    await stage.started()
    stage.memory.restore(0.0)
    for rate, busy in ((60, 0.9), (150, 1.0), (20, 0.2)):
        stage.put_under(rate, busy=busy, latency=0.1)
        await stage.ticks(6)

    replay = replay_records(
        stage.folder / "records.sqlite", ReplayRequest(app="trips"), follow_from=math.inf
    )

    decided = [each for interval in replay.intervals for each in interval.decisions]
    assert len(decided) >= 20
    assert [each.would.target for each in decided] == [each.was.target for each in decided]
    assert [each.would.reason for each in decided] == [each.was.reason for each in decided]
    assert any(each.was.granted for each in decided)


async def test_a_replay_that_follows_its_decisions_comes_to_the_same_job(stage_of):
    _, path = await a_recording(stage_of)

    replay = replay_records(path, ReplayRequest(app="trips"))

    totals = replay.totals
    assert totals.comparable == totals.equal > 20
    assert totals.would.restarts == totals.was.restarts >= 1
    assert replay.intervals[-1].would.deployments == replay.intervals[-1].was.deployments
    # While the recorded job restarts, the replay's runs already.
    assert totals.would.cost == pytest.approx(totals.was.cost, rel=0.2)


async def test_a_tighter_objective_costs_more_and_a_wider_one_less(stage_of):
    _, path = await a_recording(stage_of)

    tight = replay_records(path, ReplayRequest(app="trips", objective="80ms"))
    wide = replay_records(path, ReplayRequest(app="trips", objective="5s"))

    assert tight.bound == 0.08
    assert tight.was_bound == 0.5
    assert tight.totals.would.cost > wide.totals.would.cost
    assert tight.totals.would.late <= tight.totals.was.late
    # What was measured is judged by the new objective, too: 100 ms are more than 80.
    assert tight.totals.measured_late > wide.totals.measured_late == 0


async def test_a_policy_that_never_changes_anything_costs_what_the_first_deployment_does(stage_of):
    _, path = await a_recording(stage_of)

    replay = replay_records(path, ReplayRequest(app="trips", policy="hold"))

    first = replay.intervals[0].was
    assert replay.totals.would.restarts == 0
    assert all(each.would.deployments == first.deployments for each in replay.intervals)
    assert replay.totals.would.cost == pytest.approx(
        first.cost / replay.intervals[0].seconds * replay.totals.seconds
    )
    assert replay.totals.would.late > replay.totals.was.late


async def test_before_its_beginning_a_replay_follows_what_was_done(stage_of):
    _, path = await a_recording(stage_of)
    whole = replay_records(path, ReplayRequest(app="trips", policy="hold"))
    later = whole.intervals[-6].time

    replay = replay_records(path, ReplayRequest(app="trips", policy="hold", since=later))

    assert [each.time for each in replay.intervals] == [each.time for each in whole.intervals[-6:]]
    assert replay.intervals[0].would.deployments == replay.intervals[0].was.deployments
    assert whole.intervals[-6].would.deployments != whole.intervals[-6].was.deployments
    assert any("it learns from" in notice for notice in replay.notices)


async def test_intervals_after_the_end_are_left_out(stage_of):
    _, path = await a_recording(stage_of)
    whole = replay_records(path, ReplayRequest(app="trips"))

    replay = replay_records(path, ReplayRequest(app="trips", until=whole.intervals[9].time))

    assert len(replay.intervals) == 10
    assert replay.until == whole.intervals[9].time


async def test_intervals_without_measurements_cost_on_both_sides_and_are_said(stage_of):
    stage, path = await a_recording(stage_of)
    stage.poison = lambda window: type(window)(start=window.start, end=window.end, series=())
    await stage.ticks(3)

    replay = replay_records(path, ReplayRequest(app="trips"))

    blind = replay.intervals[-1]
    assert blind.held
    assert blind.decisions == ()
    assert math.isnan(blind.was.response_time)
    assert blind.was.cost > 0
    assert blind.would.cost > 0
    assert replay.totals.undecided >= 3
    assert any("Nothing could be decided in" in notice for notice in replay.notices)


async def test_time_that_nobody_recorded_counts_on_neither_side(stage_of):
    stage, path = await a_recording(stage_of)
    before = replay_records(path, ReplayRequest(app="trips")).totals.seconds
    stage.clock.time += 600
    again = await stage.started()
    stage.memory.restore(stage.clock.now())
    await again.ticks(5)

    replay = replay_records(path, ReplayRequest(app="trips"))

    assert replay.totals.seconds < before + 100
    assert any("Nothing was recorded for 10:0" in notice for notice in replay.notices)


async def test_what_was_learned_before_the_records_begin_is_said_not_to_be_known(stage_of):
    stage = stage_of(operatorManager=QUEUEING)
    await stage.started()
    stage.learned.save(stage.managers)
    stage.memory.restore(0.0)
    await stage.ticks(6)

    replay = replay_records(stage.folder / "records.sqlite", ReplayRequest(app="trips"))

    assert any("starts untrained" in notice for notice in replay.notices)


async def test_a_policy_that_explores_is_said_to_be_untrained(stage_of):
    _, path = await a_recording(stage_of)

    replay = replay_records(path, ReplayRequest(app="trips", policy="ql"))

    assert any("explores" in notice for notice in replay.notices)
    assert any("default settings" in notice for notice in replay.notices)


async def test_a_job_in_mode_off_has_no_decisions_to_replay(stage_of):
    stage = await stage_of(operatorManager=QUEUEING, mode="Off").started()
    stage.memory.restore(0.0)
    await stage.ticks(4)

    with pytest.raises(PermanentError, match="at least 3 intervals with decisions"):
        replay_records(stage.folder / "records.sqlite", ReplayRequest(app="trips"))


async def test_operators_that_appear_later_are_taken_as_they_were_deployed(stage_of):
    stage, path = await a_recording(stage_of)
    ticks = list(stage.records.ticks(until=math.inf))
    [start] = stage.records.starts()
    # As after a separation: until then, `count` was a part of `match`.
    one = [each for each in start.app["spec"]["operators"] if each["name"] != "count"]
    early = {**start.app, "spec": {**start.app["spec"], "operators": one}}
    middle = ticks[len(ticks) // 2][0].time
    stage.records.note_start(LoopStart(time=0.0, app=early, policy="queueing", learned=False))
    stage.records.note_start(LoopStart(time=middle, app=start.app, policy="queueing", learned=True))
    for tick, _ in ticks:
        if tick.time < middle:
            without(stage.records, tick, "count")

    replay = replay_records(path, ReplayRequest(app="trips", policy="hold"))

    first = next(each for each in replay.intervals if "count" in each.would.deployments)
    assert first.time == middle
    assert first.would.deployments["count"] == first.was.deployments["count"]
    assert any("count (" in notice and "appeared" in notice for notice in replay.notices)


async def test_learned_state_that_does_not_fit_after_a_start_is_dropped_and_said(
    stage_of, monkeypatch
):
    stage, path = await a_recording(stage_of)
    [start] = stage.records.starts()
    middle = stage.records.tick_times(until=math.inf)[8]
    stage.records.note_start(replace(start, time=middle, learned=True))
    load = OperatorManager.load_state_dict

    def refuse_of_match(manager, state):
        if manager.model.name == "match" and refusals:
            raise refusals.pop()
        load(manager, state)

    refusals = [StateError("Expected version 4, got 3")]
    monkeypatch.setattr(OperatorManager, "load_state_dict", refuse_of_match)

    replay = replay_records(path, ReplayRequest(app="trips"))

    assert not refusals
    assert any("had learned of match did not fit" in notice for notice in replay.notices)
    assert replay.intervals[-1].decisions


@pytest.mark.parametrize("state", [{}, {"belief": None}, {"belief": {"version": 1}}])
async def test_a_damaged_state_is_refused_with_one_error(stage_of, state):
    stage = await stage_of(operatorManager=QUEUEING).started()

    with pytest.raises(StateError):
        stage.managers["match"].load_state_dict(state)


def without(records, tick, name):
    """Rewrite a tick as one of a job without an operator."""
    left = tuple(each for each in tick.operators if each != name)
    edges = tuple(Edge(source=source, target=target) for source, target in pairwise(left))
    deployments = {key: counts for key, counts in tick.deployments.items() if key != name}
    records.note_tick(replace(tick, operators=left, edges=edges, deployments=deployments))


async def test_bad_input_is_refused_with_one_sentence(stage_of):
    _, path = await a_recording(stage_of, ticks=3)

    for asked, error, said in (
        (ReplayRequest(app="trips", policy="nobody"), UnknownPolicyError, "nobody"),
        (ReplayRequest(app="trips", objective="soon"), PermanentError, "--objective: expected"),
        (
            ReplayRequest(app="trips", until=1.0),
            PermanentError,
            "choose an earlier --since or a later",
        ),
        (ReplayRequest(app="trips", since=9e9), PermanentError, "choose an earlier --since"),
    ):
        with pytest.raises(error, match=said):
            replay_records(path, asked)


async def test_records_of_an_older_version_are_refused_with_what_to_do(stage_of):
    _, path = await a_recording(stage_of, ticks=3)
    with closing(sqlite3.connect(path)) as records, records:
        records.execute("DELETE FROM ticks")

    with pytest.raises(PermanentError, match="older version of Weir"):
        replay_records(path, ReplayRequest(app="trips"))


async def test_a_tick_is_recorded_with_what_its_decisions_have_in_common(stage_of):
    stage, _ = await a_recording(stage_of, loads=((150, 1.0),), ticks=2)

    [*_, (first, decisions), (second, _)] = stage.records.ticks(until=math.inf)

    assert first.operators == ("gen", "match", "count", "out")
    assert (first.edges[0].source, first.edges[0].target) == ("gen", "match")
    assert set(first.fixed) == {"gen", "out"}
    assert {each.operator for each in decisions} == {"match", "count"}
    assert first.lesson is LearningOutcome.ACTED
    assert first.tokens["tokens"] == 3
    assert second.held
    assert second.lesson is LearningOutcome.WAITED
    [start] = stage.records.starts()
    assert start.app == assembly.what_decides(stage.app)
    assert start.policy == "queueing"
    assert not start.learned


async def test_what_is_recorded_of_the_manifest_holds_no_environment(stage_of):
    stage = stage_of()

    assert "podTemplate" not in str(assembly.what_decides(stage.app))
