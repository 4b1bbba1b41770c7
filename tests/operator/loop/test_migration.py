"""A replica on a slow node is replaced by one elsewhere, where the StreamApp asks for it."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from tests.operator.loop.am_setting import CURRENT, an_am, rule, wishing
from tests.operator.metrics.builders import changed
from tests.operator.rescale.fakes import FakeClock
from weir_operator.loop.directives import Pause
from weir_operator.loop.proposals import Move
from weir_operator.loop.restart_limits import SharedRestarts, TokenGate
from weir_operator.loop.slow_nodes import IN_A_ROW, WARM_AFTER
from weir_operator.metrics import names
from weir_operator.rescale.journal import Step
from weir_operator.streamapp.managers import Allowed
from weir_operator.streamapp.models import Mode
from weir_policies.application_manager.edf import Adaptation, AdaptationRequest, TokenRules
from weir_policies.application_manager.restart_budget import RestartBudget

ONE, THREE = {"small/1": 1}, {"small/1": 3}
FIXED = [
    {"name": "gen", "fixed": ONE},
    {"name": "match", "fixed": THREE},
    {"name": "count", "fixed": ONE},
    {"name": "out", "fixed": ONE},
]
MIGRATION: dict[str, object] = {"applicationManager": {"arbitration": {"migration": {}}}}
NODES = ("n1", "n2", "n3")


async def with_a_slow_node(stage):
    """Let the replicas of `match` on n2 take three times as long as the others."""
    stage.world.nodes = NODES
    await stage.started()
    stage.clock.time += WARM_AFTER
    stage.put_under(150)
    slow = {names.mangle(each.id) for each in stage.world.alive.values() if each.node == "n2"}

    def slow_down(series):
        return replace(series, values=tuple(3 * each for each in series.values))

    def is_slow(series):
        return series.name == names.SERVICE_US and series.labels.get("tm_id") in slow

    stage.poison = lambda window: changed(window, slow_down, where=is_slow)
    return stage


async def test_a_replica_on_a_slow_node_is_replaced_by_one_elsewhere(stage_of):
    stage = await with_a_slow_node(stage_of(operators=FIXED, **MIGRATION))
    before = set(stage.world.alive)
    deployments = stage.store.load().deployments

    await stage.ticks(IN_A_ROW + 1)

    [end] = stage.ends("Rescale")
    assert end.step is Step.DONE
    assert end.avoid == ("n2",)
    assert (end.source, end.target) == (deployments, deployments)
    assert before - set(stage.world.alive) == set(end.replace)
    [left] = end.replace
    assert all(named in end.reason for named in (left, "n2", "0.33"))
    assert stage.reasons.count("NodeSlow") == 1


async def test_replicas_stay_where_the_stream_app_does_not_ask_for_migration(stage_of):
    stage = await with_a_slow_node(stage_of(operators=FIXED))

    await stage.ticks(IN_A_ROW + 1)

    assert stage.ends("Rescale") == []
    assert "NodeSlow" not in stage.reasons


async def test_advice_says_which_node_is_slow_and_moves_nobody(stage_of):
    stage = await with_a_slow_node(stage_of(operators=FIXED, **MIGRATION))
    stage.ask(mode=Mode.ADVISE)

    ticks = await stage.ticks(IN_A_ROW + 1)

    assert "NodeSlow" in stage.reasons
    assert all("spec.mode" in verdict for verdict in ticks[-1].verdicts.values())
    assert stage.ends("Rescale") == []
    assert stage.store.load().restart_tokens == {}


async def test_a_pause_keeps_a_replica_where_it_is_and_says_so(stage_of):
    stage = await with_a_slow_node(stage_of(operators=FIXED, **MIGRATION))
    stage.ask(pauses=(Pause(source="weir.dev/pause", allows=Allowed.NOTHING, until=None),))

    ticks = await stage.ticks(IN_A_ROW + 1)

    [verdict] = ticks[-1].verdicts.values()
    assert "weir.dev/pause" in verdict
    assert "n2" in verdict
    assert stage.ends("Rescale") == []


def a_move(score):
    request = AdaptationRequest(
        operator="count", kind=Adaptation.MIGRATION, score=score, replica="count-1"
    )
    return Move(request=request, replica="count-1", node="n2", reason="count-1 leaves node n2")


def an_am_with(**more):
    return an_am(restarts=3, **more)


def rule_move(am, *, score=0.6, **more):
    return rule(am, move=a_move(score), **more)


def a_gate(response_time):
    gate = TokenGate(TokenRules(low=0.25, high=0.45, every=10.0))
    gate.note(response_time, 0.0)
    return gate


def test_a_move_takes_a_restart_and_leaves_the_deployment():
    am = an_am_with()

    ruling = rule_move(am)

    assert ruling.move == a_move(0.6)
    assert (ruling.granted, ruling.restart, ruling.tokens.tokens) == ((), True, 2)
    assert ruling.target == CURRENT
    assert set(ruling.verdicts) == {"count"}


def test_a_move_waits_for_what_operators_change():
    ruling = rule_move(an_am_with(), match=wishing(3, urgency=0.7))

    assert ruling.move is None
    assert ruling.granted == ("match",)
    assert "match" in ruling.verdicts["count"]


@pytest.mark.parametrize(("score", "left"), [(0.6, 0), (0.3, 1)], ids=["urgent", "not urgent"])
def test_a_move_without_a_restart_token_is_denied(score, left):
    am = an_am_with()
    tokens = am.restarts.fill(0.0)
    while tokens.tokens > left:
        tokens = tokens.take(am.restarts, 0.0)

    ruling = rule_move(am, score=score, tokens=tokens)

    assert (ruling.move, ruling.granted, ruling.tokens.tokens) == (None, (), left)
    assert ruling.verdicts["count"].startswith("Denied: ")


def test_a_move_waits_for_the_restarts_of_all_stream_apps():
    shared = SharedRestarts(RestartBudget(size=2), clock=FakeClock())
    am = an_am_with(shared=shared)
    am.pay_shared()

    assert rule_move(am, score=0.6).move is not None
    assert rule_move(am, score=0.4).move is None


@pytest.mark.parametrize(
    ("response_time", "moves"),
    [(0.48, True), (0.3, False), (0.1, False), (math.nan, False)],
    ids=["near the bound", "in between", "far below", "unknown"],
)
def test_a_move_needs_a_high_token_of_the_bucket(response_time, moves):
    am = an_am_with(gate=a_gate(response_time))

    first, second = rule_move(am), rule_move(am)

    assert (first.move is not None) is moves
    assert second.move is None


@pytest.mark.parametrize(("score", "granted"), [(0.6, ("match",)), (0.8, ())])
def test_the_one_token_of_the_bucket_goes_by_score(score, granted):
    am = an_am_with(gate=a_gate(0.48))

    ruling = rule_move(am, score=score, match=wishing(3, urgency=0.7))

    assert ruling.granted == granted
    assert (ruling.move is None) is bool(granted)
