"""The records of a live run hold all that its decisions came from."""

import pytest

from tests.decided_again import decide_again
from weir_operator.loop.record import LearningOutcome
from weir_operator.wiring import assembly
from weir_policies.errors import StateError

QUEUEING = {"interval": "5s", "policy": {"name": "queueing"}}


async def a_recording(stage_of, *, loads=((60, 0.9), (150, 1.0), (20, 0.2)), ticks=6, **spec):
    """Return a stage after some ticks of each load."""
    stage = stage_of(**spec)
    await stage.started()
    stage.memory.restore(0.0)
    for rate, busy in loads:
        stage.put_under(rate, busy=busy, latency=0.1)
        await stage.ticks(ticks)
    return stage


@pytest.mark.parametrize("policy", ["queueing", "planner", "ql", "drs-cheapest"])
async def test_every_decision_of_a_run_comes_out_again_from_its_records(stage_of, policy):
    manager = {"interval": "5s", "policy": {"name": policy}}
    stage = await a_recording(stage_of, operatorManager=manager)

    decided = decide_again(stage.folder / "records.sqlite")

    assert len(decided) >= 20
    assert [repr(again) for _, again in decided] == [repr(was) for was, _ in decided]
    assert any(each.change is not None for each in stage.records.decisions(limit=99))


async def test_a_tick_is_recorded_with_what_its_decisions_have_in_common(stage_of):
    stage = await a_recording(stage_of, loads=((150, 1.0),), ticks=2, operatorManager=QUEUEING)

    [*_, first, second] = stage.records.ticks()

    decided = [each.operator for each in stage.records.decisions(until=first.time)]
    assert first.operators == ("gen", "match", "count", "out")
    assert (first.edges[0].source, first.edges[0].target) == ("gen", "match")
    assert set(first.fixed) == {"gen", "out"}
    assert set(decided) == {"match", "count"}
    assert first.lesson is LearningOutcome.ACTED
    assert second.lesson is LearningOutcome.WAITED
    [start] = stage.records.starts()
    assert start.app == assembly.what_decides(stage.app)
    assert start.policy == "queueing"


async def test_what_is_recorded_of_the_manifest_holds_no_environment(stage_of):
    stage = stage_of()

    assert "podTemplate" not in str(assembly.what_decides(stage.app))


@pytest.mark.parametrize("state", [{}, {"belief": None}, {"belief": {"version": 1}}])
async def test_a_damaged_state_is_refused_with_one_error(stage_of, state):
    stage = await stage_of(operatorManager=QUEUEING).started()

    with pytest.raises(StateError):
        stage.managers["match"].load_state_dict(state)
