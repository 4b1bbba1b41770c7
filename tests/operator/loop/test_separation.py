"""A vertex that has become busy leaves the operator that it shares."""

from __future__ import annotations

from weir_operator.loop.separation import SharedOperators
from weir_operator.runtime.revision import Revision
from weir_operator.streamapp.models import Mode

LONG_ENOUGH = 8
"""Intervals of 5 s after which vertices are measured, and the first of them."""


def separate(deployments, busy):
    target = {
        name: counts
        for operator, counts in deployments.items()
        for name in ([*busy, "rest"] if operator == "match" else [operator])
    }
    return target, {name: (name,) for name in target}


SHARED = SharedOperators(
    vertices={"match": {"v-match": "parse", "v-idle": "side"}}, separate=separate
)


async def a_job_that_shares(stage_of, *, busy=0.5, **spec):
    stage = stage_of(operatorManager={"interval": "5s", "policy": {"name": "hold"}}, **spec)
    stage.shared_operators = SHARED
    stage.world.by_agent = True
    stage.put_under(20, busy=busy)
    await stage.started()
    running = stage.store.load().model_copy(update={"revision": Revision()})
    await stage.store.save(running)
    return stage


async def test_a_busy_vertex_gets_an_operator_of_its_own_in_one_journalled_restart(stage_of):
    stage = await a_job_that_shares(stage_of)

    await stage.ticks(LONG_ENOUGH)

    [change] = stage.ends("Rescale")
    assert set(change.target) == {"gen", "parse", "rest", "count", "out"}
    assert "parse 50%" in change.reason
    status = stage.store.load()
    assert status.deployments == change.target
    assert set(status.revision.vertices) == set(change.target)
    assert [each.verdict for each in stage.records.decisions() if each.change == change.id] == [
        f"Granted: {change.reason}"
    ]


async def test_nothing_is_scaled_before_its_vertices_are_measured(stage_of):
    stage = await a_job_that_shares(stage_of)

    ticks = await stage.ticks(2)

    assert "measures first" in ticks[-1].verdicts["match"]
    assert stage.ends("Rescale") == []


async def test_vertices_that_are_nearly_idle_keep_sharing(stage_of):
    stage = await a_job_that_shares(stage_of, busy=0.05)

    ticks = await stage.ticks(LONG_ENOUGH)

    assert stage.ends("Rescale") == []
    assert "measures first" not in ticks[-1].verdicts.get("match", "")


async def test_advice_names_what_would_be_separated_and_a_pause_holds_it_back(stage_of):
    stage = await a_job_that_shares(stage_of)
    stage.ask(mode=Mode.ADVISE)

    await stage.ticks(LONG_ENOUGH)

    [told] = [each.message for each in stage.events if each.reason == "VerticesBusy"]
    assert "parse 50%" in told
    assert "spec.mode is Advise" in told
    assert stage.ends("Rescale") == []


async def test_a_separation_that_failed_is_not_tried_again_at_once(stage_of):
    stage = await a_job_that_shares(stage_of)
    stage.world.broken_totals.add(5)

    await stage.ticks(LONG_ENOUGH + 6)

    [change] = stage.ends("Rescale")
    assert change.step == "RolledBack"
    assert set(stage.store.load().deployments) == {"gen", "match", "count", "out"}
