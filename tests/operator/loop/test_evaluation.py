"""Blocks of Weir and of a baseline by turns, on a job that a controller scales."""

import json

import pytest

from weir_operator.errors import TemporaryError
from weir_operator.loop.evaluation import BEGAN, ENDED, TO_BASELINE, UNREADABLE
from weir_operator.loop.evaluation_store import EVALUATION, EvaluationStore
from weir_operator.streamapp.managers import Evaluation
from weir_operator.streamapp.models import Mode
from weir_operator.wiring.evaluation import read_evaluation
from weir_simulator.switchback import Design, Side

BLOCK = 40.0
TICKS = 8
"""Of a block."""
THREE = {"small/1": 3}
OPERATORS = [
    {"name": "gen", "fixed": {"small/1": 1}},
    {"name": "match", "maxReplicas": 6, "initial": THREE},
    {"name": "count", "maxReplicas": 6, "initial": THREE},
    {"name": "out", "fixed": {"small/1": 1}},
]
ASKED = {"block": "40s", "pairs": 2, "seed": 3, "baseline": {"deployment": "Initial"}}
SIDES = Design(block=BLOCK, pairs=2, seed=3).sides


@pytest.fixture
def evaluated(stage_of):
    """Return a stage whose policy wants fewer replicas than the baseline has."""

    def build(budget=100, block=ASKED["block"]):
        stage = stage_of(
            operators=OPERATORS,
            operatorManager={"interval": "5s", "policy": {"name": "queueing"}},
            evaluation=ASKED | {"block": block},
            applicationManager={"restartBudget": {"size": budget, "refillEvery": "10h"}},
        )
        stage.put_under(20, busy=0.15, latency=0.05)
        return stage

    return build


def replicas(tick):
    return tick.deployments["match"]


def events_of(stage):
    """Return the reasons of the events about an evaluation, in order."""
    return [reason for reason in stage.reasons if reason in (BEGAN, ENDED)]


async def test_the_sides_decide_by_turns_and_weir_at_the_end(evaluated):
    stage = await evaluated().started()

    ticks = await stage.ticks(4 * TICKS + 8)

    in_turn = [each.evaluation.side for each in ticks[:-9]]
    blocks = [in_turn[n * TICKS + 3 : (n + 1) * TICKS - 1] for n in range(4)]
    assert [set(each) for each in blocks] == [{side} for side in SIDES]
    assert all(
        each.deployments["match"] == THREE and each.proposals == {}
        for n, side in enumerate(SIDES)
        if side is Side.BASELINE
        for each in ticks[n * TICKS + 4 : (n + 1) * TICKS - 1]
    )
    assert ticks[-1].evaluation.side is None
    assert ticks[-1].proposals
    assert sum(replicas(ticks[-1]).values()) < 3
    assert events_of(stage) == [BEGAN, ENDED]


async def test_what_was_measured_is_read_from_the_records(evaluated):
    stage = await evaluated().started()
    stage.memory.restore(stage.clock.now())
    await stage.ticks(4 * TICKS + 4)
    stage.records.note(events=stage.events)

    found = read_evaluation(stage.folder / "records.sqlite", "trips")

    assert (found.weir.blocks, found.baseline.blocks) == (2, 2)
    assert found.weir.cost_per_hour < found.baseline.cost_per_hour
    assert found.baseline.restarts == 0
    assert all(each.rate == pytest.approx(20) for each in found.blocks.values())
    assert found.estimate is not None
    assert found.estimate.pairs == 2
    assert found.estimate.relative_cost.mean < 0
    assert found.ended
    assert any(each.reason == TO_BASELINE for each in stage.changes)


async def test_it_ends_when_the_objective_is_missed_with_the_baseline(evaluated):
    stage = await evaluated().started()
    baseline = SIDES.index(Side.BASELINE)
    await stage.ticks(baseline * TICKS + 3)

    stage.put_under(20, busy=0.15, latency=2.0)
    ticks = await stage.ticks(5)

    assert ticks[0].evaluation.side is Side.BASELINE
    assert ticks[-1].evaluation.side is None
    assert events_of(stage) == [BEGAN, ENDED]


async def test_it_ends_within_the_first_quarter_once_the_job_is_in_the_baseline(evaluated):
    stage = await evaluated(block="80s").started()
    sides = Design(block=80, pairs=2, seed=3).sides
    baseline = sides.index(Side.BASELINE)
    await stage.ticks(baseline * 16)

    stage.put_under(20, busy=0.15, latency=2.0)
    ticks = await stage.ticks(16)

    late = [each.evaluation.side for each in ticks]
    assert Side.BASELINE in late
    assert late.index(None) <= 5
    assert events_of(stage) == [BEGAN, ENDED]


async def test_an_end_that_cannot_be_saved_is_saved_at_a_later_tick(evaluated, monkeypatch):
    stage = await evaluated().started()
    await stage.ticks(SIDES.index(Side.BASELINE) * TICKS + 3)
    stage.put_under(20, busy=0.15, latency=2.0)

    with monkeypatch.context() as full:
        full.setattr(EvaluationStore, "save", disk_full)
        await stage.ticks(5)
    unsaved = kept(stage).ended
    await stage.tick()
    stage.controller = stage.controller_over(stage.lifecycle)
    ticks = await stage.ticks(3)

    assert not unsaved
    assert kept(stage).ended
    assert all(each.evaluation.side is None for each in ticks)
    assert events_of(stage) == [BEGAN, ENDED]


def disk_full(store, state):
    """Save nothing."""
    raise TemporaryError("The disk is full")


def kept(stage):
    """Return what the file holds."""
    found = EvaluationStore(stage.folder / EVALUATION).load()
    assert found is not None
    return found


@pytest.mark.parametrize("damaged", [b"", b"{}", b'{"asked": "\xff"}'])
async def test_an_evaluation_whose_state_cannot_be_read_is_over(evaluated, damaged):
    stage = await evaluated().started()
    await stage.ticks(TICKS)

    (stage.folder / EVALUATION).write_bytes(damaged)
    stage.controller = stage.controller_over(stage.lifecycle)
    ticks = await stage.ticks(4 * TICKS)
    stage.controller = stage.controller_over(stage.lifecycle)
    later = await stage.tick()
    stage.ask(evaluation=Evaluation.model_validate_json(json.dumps(ASKED | {"seed": 4})))
    other = await stage.tick()

    assert all(each.evaluation.side is None for each in (*ticks, later))
    assert UNREADABLE in later.evaluation.message
    assert other.evaluation.side is not None
    assert events_of(stage) == [BEGAN, ENDED, BEGAN]


async def test_a_removal_that_fails_is_made_up_for_at_a_later_tick(evaluated, monkeypatch):
    stage = await evaluated().started()
    await stage.ticks(3)
    stage.ask(evaluation=None)

    with monkeypatch.context() as full:
        full.setattr(EvaluationStore, "remove", lambda store: disk_full(store, None))
        await stage.tick()
    await stage.tick()

    assert EvaluationStore(stage.folder / EVALUATION).load() is None
    assert events_of(stage) == [BEGAN, ENDED]


async def test_the_end_is_found_when_the_event_of_the_begin_was_deleted(evaluated):
    stage = await evaluated().started()
    stage.memory.restore(stage.clock.now())
    await stage.ticks(4 * TICKS + 4)
    ended = [each for each in stage.events if each.reason == ENDED]
    stage.records.note(events=ended)

    found = read_evaluation(stage.folder / "records.sqlite", "trips")

    assert found.ended == ended[0].message


async def test_it_ends_at_once_when_it_is_removed(evaluated):
    stage = await evaluated().started()
    await stage.ticks(SIDES.index(Side.BASELINE) * TICKS + 3)

    stage.ask(evaluation=None)
    tick = await stage.tick()

    assert tick.evaluation.side is None
    assert not tick.evaluation.message
    assert tick.proposals


async def test_another_controller_goes_on_where_the_last_one_was(evaluated):
    stage = await evaluated().started()
    await stage.ticks(TICKS + 3)

    stage.controller = stage.controller_over(stage.lifecycle)
    ticks = await stage.ticks(3 * TICKS)

    assert [each.evaluation.side for each in ticks[1:3]] == [SIDES[1]] * 2
    assert ticks[0].evaluation.elapsed is None  # nobody knows who decided
    assert ticks[-1].evaluation.side is None
    assert events_of(stage) == [BEGAN, ENDED]


async def test_what_has_ended_begins_again_only_when_it_is_asked_for_differently(evaluated):
    stage = await evaluated().started()
    await stage.ticks(4 * TICKS + 4)

    again = await stage.tick()
    stage.ask(evaluation=Evaluation.model_validate_json(json.dumps(ASKED | {"seed": 4})))
    other = await stage.tick()

    assert again.evaluation.side is None
    assert other.evaluation.side is not None


async def test_a_baseline_that_the_restart_budget_refuses_waits(evaluated):
    stage = await evaluated(budget=1).started()

    await stage.ticks(4 * TICKS)

    assert stage.reasons.count("EvaluationHeld") >= 1
    assert len(stage.ends("Rescale")) == 1


async def test_weir_decides_while_the_baseline_is_refused(evaluated):
    stage = await evaluated(budget=1).started()
    stage.memory.restore(stage.clock.now())

    ticks = await stage.ticks(4 * TICKS + 4)
    stage.records.note(events=stage.events)
    found = read_evaluation(stage.folder / "records.sqlite", "trips")

    refused = SIDES.index(Side.BASELINE, SIDES.index(Side.WEIR))  # Weir's change took the token
    block = ticks[refused * TICKS + 2 : (refused + 1) * TICKS - 2]
    assert all(each.proposals and each.evaluation.side is Side.WEIR for each in block)
    assert found.blocks[refused].refused > 0
    assert found.estimate is None or found.estimate.pairs < 2


async def test_nothing_is_evaluated_where_weir_only_advises(evaluated):
    stage = await evaluated().started()
    stage.ask(mode=Mode.ADVISE)

    ticks = await stage.ticks(TICKS)

    assert all(each.evaluation.side is None for each in ticks)
