"""What would touch a foreign job refuses, at every gate."""

import math
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from tests.operator.advise.conftest import recorded_flink
from tests.operator.advise.fakes import (
    FakeCluster,
    a_pod,
    blue_green_objects,
    flink_deployment_objects,
)
from tests.operator.loop.builders import a_snapshot
from tests.operator.rescale.fakes import FakeClock, MemoryStatusStore
from tests.operator.streamapp.builders import a_stream_app
from weir_operator.advise.advice import (
    advise,
    cost_of_pods,
    memory_of_pods,
    pods_under_weir,
    share_cost,
)
from weir_operator.advise.flink import ExternalFlink
from weir_operator.advise.read_only import (
    ExternalJobs,
    ExternalRuntime,
    ExternalStore,
    ForeignJobError,
)
from weir_operator.advise.view import external_app
from weir_operator.advise.watch import WHOLE_LOOK_EVERY, JobWatch
from weir_operator.errors import PermanentError, TemporaryError
from weir_operator.loop.bounds import cost_per_hour, prices
from weir_operator.loop.events import Notices
from weir_operator.loop.gather import dataflow_of
from weir_operator.loop.proposals import Proposal
from weir_operator.loop.shadow import Advisor
from weir_operator.loop.tick import Tick
from weir_operator.rescale.status import AppStatus
from weir_operator.runtime.protocol import ReplicaSpec
from weir_operator.streamapp.world import job_manager_price, pool_named
from weir_operator.wiring import assembly
from weir_policies.kernels.staying import stay
from weir_policies.model.node_types import Deployment
from weir_policies.policy import Expectation, Observation

RECORDED = Path(__file__).parent / "recorded"
JOB = "5" * 32
APP = a_stream_app(
    mode="Advise",
    flink={"ref": {"kind": "FlinkDeployment", "name": "trips"}},
    nodePools=[
        {
            "name": "small",
            "nodeSelector": {"weir.dev/pool": "small"},
            "price": "0.04",
            "memory": "1Gi",
        },
        {
            "name": "large",
            "nodeSelector": {"weir.dev/pool": "large"},
            "price": "0.10",
            "memory": "1Gi",
        },
    ],
)


@pytest.fixture
async def watch(flink):
    watch = JobWatch(APP, FakeCluster(flink_deployment_objects(port=flink.port)))
    await watch.refresh()
    yield watch
    await watch.close()


async def test_the_client_sends_nothing_but_get(flink):
    async with ExternalFlink(f"http://127.0.0.1:{flink.port}") as client:
        for change in (
            client.cancel(JOB),
            client.stop_with_savepoint(JOB, trigger_id="t"),
            client.run_jar("x.jar", job_id=JOB),
            client.dispose_savepoint("/savepoint"),
        ):
            with pytest.raises(PermanentError):
                await change

    assert flink.asked == []


@pytest.mark.parametrize(("shown", "interval"), [(60_000, 60.0), (2**63 - 1, math.inf)])
async def test_how_often_the_job_makes_checkpoints_is_read(flink, shown, interval):
    flink.given[f"/jobs/{JOB}/checkpoints/config"] = {"mode": "exactly_once", "interval": shown}

    async with ExternalFlink(f"http://127.0.0.1:{flink.port}") as client:
        assert await client.checkpoint_interval(JOB) == interval


async def test_the_runtime_shows_the_replicas_and_refuses_every_change(watch):
    runtime = ExternalRuntime(watch)
    spec = ReplicaSpec(operator="score-slow", pool="small", size="1")

    assert len(await runtime.replicas()) == 6
    assert not await runtime.ensure_job_manager()
    for change in (runtime.start([spec]), runtime.stop(["tm-a"]), runtime.resize({"tm-a": "1"})):
        with pytest.raises(ForeignJobError):
            await change


async def test_the_jobs_client_refuses_as_well(watch, flink):
    jobs = ExternalJobs(ExternalRuntime(watch), watch)
    flink.asked.clear()

    with pytest.raises(PermanentError):
        await jobs.cancel(JOB)

    assert flink.asked == []


async def test_a_job_that_has_not_changed_costs_one_question_a_look(watch, flink):
    flink.asked.clear()

    again = await watch.refresh()
    quick = list(flink.asked)
    for _ in range(WHOLE_LOOK_EVERY):
        await watch.refresh()

    assert again is not None
    assert len(quick) == 1
    assert len(flink.asked) > 1 + WHOLE_LOOK_EVERY  # now and then everything is looked at


async def test_a_job_that_is_gone_is_waited_for(watch, flink):
    flink.replacing = {'"state":"RUNNING"': '"state":"FINISHED"'}

    with pytest.raises(TemporaryError):
        await watch.refresh()

    assert watch.job is None
    assert await ExternalRuntime(watch).replicas() == ()


async def test_a_cluster_of_two_jobs_is_not_guessed_at(watch, flink):
    two = (RECORDED / "jobs.json").read_text()
    one = two[len('{"jobs":[') : two.rindex("]}")]
    flink.replacing = {one: f"{one},{one}"}

    with pytest.raises(PermanentError, match="stock, stock"):
        await watch.refresh()


async def test_pods_are_asked_for_only_when_other_task_managers_register(flink):
    cluster = FakeCluster(flink_deployment_objects(port=flink.port))
    watch = JobWatch(APP, cluster)
    await watch.refresh()
    asked = len(cluster.asked)

    await watch.refresh()
    again = len(cluster.asked)
    flink.bring_out({'"tm-a"': '"tm-b"'})
    cluster.objects["/api/v1/namespaces/default/pods"].append(a_pod("tm-b", node=None))
    await watch.refresh()
    await watch.close()

    assert again == asked
    assert len(cluster.asked) > again


async def test_the_active_cluster_of_a_pair_is_followed_and_none_over_a_transition(flink):
    async with recorded_flink() as green:
        objects = blue_green_objects("ACTIVE_BLUE", blue=flink.port, green=green.port)
        [parent] = [each for path, each in objects.items() if "bluegreen" in path]
        ref = {"kind": "FlinkBlueGreenDeployment", "name": "trips"}
        watch = JobWatch(a_stream_app(mode="Advise", flink={"ref": ref}), FakeCluster(objects))
        store = ExternalStore(MemoryStatusStore(), watch)
        blue = await watch.refresh()

        parent["status"]["blueGreenState"] = "TRANSITIONING_TO_GREEN"
        with pytest.raises(TemporaryError, match="got TRANSITIONING_TO_GREEN"):
            await watch.refresh()
        between = store.load()
        parent["status"]["blueGreenState"] = "ACTIVE_GREEN"
        flink.asked.clear()
        after = await watch.refresh()
        asked_of_blue = tuple(flink.asked)
        await watch.close()

    assert (between.job_id, between.deployments) == (None, {})
    assert after.is_like(blue)
    assert green.asked
    assert asked_of_blue == ()
    assert {each.metrics_url for each in after.replicas} == {f"http://127.0.0.1:{green.port}"}


async def test_what_is_saved_leaves_the_foreign_job_out(watch):
    inner = MemoryStatusStore()
    store = ExternalStore(inner, watch)
    seen = store.load()

    await store.save(seen.model_copy(update={"restart_tokens": {"left": 2}}))

    assert seen.job_id == JOB
    assert seen.deployments["score-slow"] == {"small/1": 2}
    assert inner.load() == AppStatus(restart_tokens={"left": 2})


def pods_of(watch):
    return (*watch.job.places.values(), *watch.job_managers)


def a_tick(app, managers, view, targets, *, busy=0.2):
    """A tick in which each operator's manager decided for `targets`."""
    proposals = {}
    for name, target in targets.items():
        types = managers[name].model.node_types
        seen = Observation(
            time=0.0,
            time_of_week=0.0,
            interval=60.0,
            model=managers[name].model,
            deployment=Deployment.from_named(view.deployments[name], types),
            rate=40.0,
            processed=40.0,
            response_time=0.01,
            utilisation=(busy, busy),
            backlog=0.0,
            replica_ages=(60.0, 60.0),
            budget=0.05,
        )
        decision = replace(
            stay(seen, f"{name} needs this"),
            target=Deployment.from_named(target, types),
            expectation=Expectation(response_time=0.01, utilisation=0.4, cost_per_hour=0.0),
        )
        proposals[name] = Proposal(observation=seen, decision=decision)
    return Tick(
        snapshot=a_snapshot(dataflow=dataflow_of(view.topology, None)),
        violated=None,
        deployments=view.deployments,
        budgets={},
        proposals=proposals,
    )


async def test_the_bill_now_is_that_of_the_pods_and_the_bill_advised_that_of_weir(watch):
    app, view = external_app(APP, watch.job), watch.job
    managers = assembly.operator_managers(app)
    targets = {name: {"small/1": 1} for name in managers}
    targets["score-slow"] = {"large/1": 2}

    advice = advise(
        a_tick(app, managers, view, targets),
        view,
        managers,
        app=app,
        pods=pods_of(watch),
    )

    assert advice is not None
    assert advice.cost_now == pytest.approx(2 * 0.04 + 1 * 0.04)
    assert advice.cost_advised == pytest.approx(0.02 + 2 * 0.04 + 2 * 0.10)
    assert advice.response_time == pytest.approx(0.03)
    four_and_the_job_manager = 4 + app.spec.flink.job_manager.memory.bytes / 2**30
    assert advice.message == (
        "With Weir 0.3 per hour instead of 0.12, 0.18 more at the current traffic; "
        f"{four_and_the_job_manager:.3g} GiB of memory instead of 3 GiB (not included in the "
        "cost); expected response time 30 ms"
    )


async def test_an_operator_that_could_not_be_measured_stays_as_it_is(watch):
    app, view = external_app(APP, watch.job), watch.job
    managers = assembly.operator_managers(app)
    tick = a_tick(app, managers, view, {"score-slow": {"small/1": 1}})

    advice = advise(tick, view, managers, app=app, pods=pods_of(watch))

    assert advice is not None
    left = {**view.deployments, "score-slow": {"small/1": 1}}
    assert advice.cost_advised == pytest.approx(cost_of_pods(app, pods_under_weir(app, left)))
    assert "expected" not in advice.message


async def test_the_replicas_of_today_cost_together_what_the_pods_do(watch):
    app, view = external_app(APP, watch.job), watch.job

    prices = share_cost(app, view, 0.08)

    assert cost_per_hour(view.deployments, prices, job_manager=0.04) == pytest.approx(0.12)


async def test_the_forecast_counts_as_paid_what_the_pods_cost(watch, tmp_path):
    app, view = external_app(APP, watch.job), watch.job
    managers = assembly.operator_managers(app)
    flow = dataflow_of(view.topology, None)
    hour = a_snapshot(now=3600.0, dataflow=flow)
    tick = Tick(snapshot=hour, violated=None, deployments=view.deployments, budgets={})

    advisor = Advisor(
        managers,
        assembly.application_manager(app),
        tmp_path / "forecast.json",
        policy="stay",
        reset_nonce=0,
        cost=partial(cost_per_hour, prices=prices(app), job_manager=job_manager_price(app)),
        paid=lambda: cost_of_pods(app, pods_of(watch)),
    )
    bill = advisor.follow(tick, flow, Notices(lambda event: None, FakeClock()))

    assert bill.paid == pytest.approx(0.12)
    assert bill.advised == bill.paid, "nothing was advised before"


async def test_the_forecast_and_the_advice_have_one_price_for_the_job_under_weir(watch):
    app = external_app(APP, watch.job)
    deployments = {"source-numbers": {"small/1": 1}, "score-slow": {"large/1": 2, "small/1": 1}}

    pods = pods_under_weir(app, deployments)

    assert cost_of_pods(app, pods) == pytest.approx(
        cost_per_hour(deployments, prices(app), job_manager=job_manager_price(app))
    )
    assert memory_of_pods(pods) == sum(
        [pool_named(app, "small").memory.bytes] * 2
        + [pool_named(app, "large").memory.bytes] * 2
        + [app.spec.flink.job_manager.memory.bytes]
    )


async def test_nothing_is_advised_that_the_measured_work_forbids(watch):
    app, view = external_app(APP, watch.job), watch.job
    managers = assembly.operator_managers(app)
    tick = a_tick(app, managers, view, {"score-slow": {"small/1": 1}}, busy=0.9)

    advice = advise(tick, view, managers, app=app, pods=pods_of(watch))

    assert advice is not None
    as_now = pods_under_weir(app, view.deployments)
    assert advice.cost_advised == pytest.approx(cost_of_pods(app, as_now))


async def test_memory_that_a_pod_does_not_say_is_left_out(watch):
    app, view = external_app(APP, watch.job), watch.job
    managers = assembly.operator_managers(app)
    silent = tuple(replace(each, memory=math.nan) for each in pods_of(watch))

    advice = advise(a_tick(app, managers, view, {}), view, managers, app=app, pods=silent)

    assert advice is not None
    assert "memory" not in advice.message
