"""The loops obey what people ask of them while they run: pauses, periods, fallback, resets."""

import pytest

from tests.operator.loop.builders import without_samples
from tests.operator.loop.conftest import ONE
from tests.operator.metrics.builders import Load
from weir_operator.errors import TemporaryError
from weir_operator.loop.directives import Pause
from weir_operator.loop.restart_limits import SharedRestarts
from weir_operator.rescale.journal import Step
from weir_operator.streamapp.managers import Allowed, Fallback, FallbackDeployment
from weir_operator.streamapp.models import Mode, State
from weir_operator.streamapp.quantities import Duration
from weir_policies.application_manager.restart_budget import RestartBudget

PAUSED = Pause(source="weir.dev/paused", allows=Allowed.NOTHING, until=None)
NO_SCALE_OUT = Pause(source="weir.dev/paused-scale-out", allows=Allowed.SCALE_IN, until=None)


async def overloaded(stage):
    await stage.started()
    stage.put_under(150, busy=1.0, latency=2.0)
    return stage


@pytest.mark.parametrize("pause", [PAUSED, NO_SCALE_OUT])
async def test_a_pause_denies_what_goes_in_its_direction_and_says_so(stage_of, pause):
    stage = await overloaded(stage_of())
    stage.ask(pauses=(pause,))

    [tick] = await stage.ticks(1)

    assert stage.ends("Rescale") == []
    assert pause.source in tick.verdicts["match"]
    assert [guard.name for guard in tick.guards] == [pause.source]


async def test_a_pause_of_scaling_in_lets_the_job_scale_out(stage_of):
    stage = await overloaded(stage_of())
    stage.ask(
        pauses=(Pause(source="weir.dev/paused-scale-in", allows=Allowed.SCALE_OUT, until=None),)
    )

    await stage.ticks(1)

    assert len(stage.ends("Rescale")) == 1


async def test_the_beginning_and_the_end_of_a_pause_are_told_once_each(stage_of):
    stage = await stage_of().started()
    stage.ask(pauses=(PAUSED,))
    await stage.ticks(3)
    stage.ask(pauses=())

    await stage.ticks(2)

    assert stage.reasons.count("ScalingPaused") == 1
    assert stage.reasons.count("ScalingResumed") == 1


async def test_scaling_goes_on_after_a_pause(stage_of):
    stage = await overloaded(stage_of())
    stage.ask(pauses=(PAUSED,))
    await stage.ticks(1)
    stage.ask(pauses=())

    await stage.ticks(1)

    assert len(stage.ends("Rescale")) == 1


async def test_a_mode_that_changes_takes_hold_at_the_next_tick(stage_of):
    stage = await overloaded(stage_of(mode="Off"))
    [off] = await stage.ticks(1)
    stage.ask(mode=Mode.ADVISE)
    [advising] = await stage.ticks(1)
    stage.ask(mode=Mode.AUTO)

    await stage.ticks(1)

    assert "spec.mode" in off.held
    assert off.proposals == {}
    assert all("spec.mode" in verdict for verdict in advising.verdicts.values())
    assert len(stage.ends("Rescale")) == 1


async def test_another_autoscaler_refuses_scaling_in_every_direction(stage_of):
    stage = await overloaded(stage_of())
    stage.ask(refused="HorizontalPodAutoscaler streams/trips scales the same job")

    [tick] = await stage.ticks(1)

    assert stage.ends("Rescale") == []
    assert tick.verdicts["match"].count("HorizontalPodAutoscaler streams/trips") == 1


async def test_metrics_that_stay_unhealthy_lead_to_the_fallback_and_back_to_normal(stage_of):
    stage = await stage_of().started()
    largest = Fallback(after=Duration("10s"), deployment=FallbackDeployment.LARGEST)
    stage.ask(fallback=largest)
    stage.poison = without_samples

    await stage.ticks(5)
    [change] = stage.ends("Rescale")
    stage.poison = None
    ticks = await stage.ticks(3)

    assert change.target["match"] == {"small/1": 1, "large/2": 5}
    assert FallbackDeployment.LARGEST in change.reason
    assert stage.reasons.count("FallbackTaken") == 1
    assert stage.reasons.count("FallbackEnded") == 1
    assert ticks[-1].held == ""
    assert set(ticks[-1].proposals) == {"match", "count"}


async def test_a_metrics_source_that_does_not_answer_counts_as_unhealthy(stage_of):
    def away(window):
        raise TemporaryError("Prometheus does not answer")

    stage = await stage_of().started()
    named = Fallback(
        after=Duration("10s"),
        deployment=FallbackDeployment.NAMED,
        named={"match": {"large/1": 4}},
    )
    stage.ask(fallback=named)
    stage.poison = away

    for _ in range(4):
        with pytest.raises(TemporaryError):
            await stage.tick()
        await stage.done()

    assert stage.store.load().deployments["match"] == {"large/1": 4}
    assert len(stage.ends("Rescale")) == 1


async def test_another_reset_nonce_forgets_what_was_learned(stage_of):
    stage = await stage_of().started()
    untaught = {name: manager.state_dict() for name, manager in stage.managers.items()}
    await stage.ticks(3)
    taught = {name: manager.state_dict() for name, manager in stage.managers.items()}
    measured = stage.records.intervals()
    stage.poison = without_samples
    stage.ask(reset_nonce=1)

    await stage.ticks(1)

    assert taught["match"]["belief"] != untaught["match"]["belief"]
    for name, manager in stage.managers.items():
        assert manager.state_dict()["belief"]["services"] == {}, name
    assert measured != ()
    assert stage.records.intervals() == ()
    assert "LearnedForgotten" in stage.reasons


async def test_a_restart_beyond_the_budget_of_all_apps_is_denied_and_takes_no_token(stage_of):
    stage = stage_of()
    stage.shared = SharedRestarts(RestartBudget(size=1), clock=stage.clock)
    stage.shared.take()  # another StreamApp took the only token
    await overloaded(stage)

    [tick] = await stage.ticks(1)

    assert "match" in tick.proposals
    assert stage.ends("Rescale") == []
    assert stage.store.load().restart_tokens.get("restarts", []) == []


async def test_an_app_that_restarts_takes_a_token_of_all_apps(stage_of):
    stage = stage_of()
    stage.shared = SharedRestarts(RestartBudget(size=1), clock=stage.clock)
    await overloaded(stage)

    await stage.ticks(1)

    assert len(stage.ends("Rescale")) == 1
    assert stage.shared.refuse(urgent=True) is not None


async def test_what_binds_an_operator_is_said(stage_of):
    operators = [
        {"name": "gen", "fixed": ONE},
        {"name": "match", "maxReplicas": 1, "initial": {"large/2": 1}, "pools": ["large"]},
        {"name": "count", "fixed": ONE},
        {"name": "out", "fixed": ONE},
    ]
    stage = await stage_of(operators=operators).started()
    stage.put_under(400, busy=1.0, latency=2.0)

    ticks = await stage.ticks(3)

    assert "maxReplicas = 1" in ticks[-1].verdicts["match"]


ONE_LARGE = [
    {"name": "gen", "fixed": ONE},
    {"name": "match", "maxReplicas": 1, "initial": {"large/1": 1}, "pools": ["large"]},
    {"name": "count", "fixed": ONE},
    {"name": "out", "fixed": ONE},
]


async def test_sizes_that_a_node_refuses_in_place_become_a_restart_with_the_reason(stage_of):
    stage = await stage_of(operators=ONE_LARGE).started()
    [before] = [key for key, each in stage.world.alive.items() if each.operator == "match"]
    stage.world.refuse_sizes = True
    stage.put_under(75, busy=0.95, latency=2.0)

    await stage.ticks(1)

    [change] = stage.ends("Rescale")
    assert stage.store.load().deployments["match"] == {"large/2": 1}
    assert before not in stage.world.alive
    assert "The node is full" in change.reason
    assert len(stage.store.load().restart_tokens["restarts"]) == 1


async def test_a_refused_size_waits_where_no_restart_is_left(stage_of):
    stage = await stage_of(
        operators=ONE_LARGE, applicationManager={"restartBudget": {"size": 1, "refillEvery": "1h"}}
    ).started()
    spent = RestartBudget(size=1).fill(stage.clock.now())
    tokens = spent.take(RestartBudget(size=1), stage.clock.now()).to_dict()
    await stage.store.save(stage.store.load().model_copy(update={"restart_tokens": tokens}))
    stage.world.refuse_sizes = True
    stage.put_under(75, busy=0.95, latency=2.0)

    await stage.ticks(4)

    assert stage.ends("Rescale") == []
    assert stage.reasons.count("ResizeRefused") == 1
    assert stage.reasons.count("ResizeWaits") == 1


async def test_a_pool_without_room_is_avoided_for_a_while_and_the_next_best_is_taken(stage_of):
    stage = await overloaded(stage_of())
    stage.world.full_pools = {"large": 0}
    await stage.ticks(1)
    [abandoned] = stage.ends("Rescale")

    await stage.ticks(2)

    assert abandoned.step is Step.ABANDONED
    assert "PoolFull" in stage.reasons
    assert {each.pool for each in stage.store.load().full} == {"large"}
    match = stage.store.load().deployments["match"]
    assert {node_type.split("/")[0] for node_type in match} == {"small"}
    assert sum(match.values()) > 1


async def test_a_suspended_app_decides_nothing(stage_of):
    stage = await stage_of().started()
    stage.ask(state=State.SUSPENDED)

    [tick] = await stage.ticks(1)

    assert "spec.state" in tick.held
    assert tick.violated is None
    assert tick.proposals == {}


async def test_scaling_out_that_would_only_feed_a_saturated_fixed_operator_is_denied(stage_of):
    stage = await stage_of().started()
    stage.put_under(
        150, busy=1.0, latency=2.0, out=Load(rate=150, busy=1.0, service_mean=0.006, latency=2.0)
    )

    [tick] = await stage.ticks(1)

    assert stage.ends("Rescale") == []
    assert "match" in tick.proposals
    assert "out, " in tick.verdicts["match"]
