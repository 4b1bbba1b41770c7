"""The loops of one StreamApp over a miniature Flink: see, hold, act, take back."""

import asyncio
import math
from dataclasses import replace

import pytest

from tests.operator.loop.builders import without_samples
from tests.operator.loop.conftest import CHAIN, ONE
from tests.operator.metrics.builders import Load, changed, is_of
from weir_operator.cluster.status.conditions import judge_metrics
from weir_operator.errors import PermanentError, TemporaryError
from weir_operator.loop import evaluate
from weir_operator.loop.evaluate import describe_assumed
from weir_operator.metrics import names
from weir_operator.metrics.source import Window
from weir_operator.wiring import assembly
from weir_policies.kernels.policy import KernelPolicy


def with_nan_busy_time(window: Window) -> Window:
    return changed(
        window,
        lambda series: replace(series, values=(*series.values[:-1], math.nan)),
        where=is_of("match", names.BUSY_MS),
    )


def with_records_from_nothing(window: Window) -> Window:
    return changed(
        window,
        lambda series: replace(series, values=(0.0,) * len(series.times)),
        where=is_of("match", names.RECORDS_IN),
    )


@pytest.mark.parametrize("kind", [TemporaryError, PermanentError])
async def test_a_job_whose_tasks_cannot_be_found_is_told_of_until_they_are(
    stage_of, monkeypatch, kind
):
    stage = stage_of()

    async def fail(job_id):
        raise kind("Expected an answer of Flink 2.x, got a page")

    with monkeypatch.context() as patched:
        patched.setattr(stage, "topology", fail)
        await stage.started()  # with a first tick
        ticks = await stage.ticks(2)
    after = await stage.ticks(1)

    assert [judge_metrics(each).status for each in ticks] == ["Unknown", "False"]
    condition = judge_metrics(ticks[1])
    assert condition.reason == "UnknownLayout"
    assert "got a page" in condition.message
    assert "got a page" in ticks[1].held
    assert after[0].snapshot.problems == ()


@pytest.mark.parametrize("poison", [without_samples, with_nan_busy_time, with_records_from_nothing])
async def test_an_unhealthy_measurement_holds_every_operator_and_teaches_nothing(stage_of, poison):
    stage = await stage_of().started()
    await stage.ticks(2)
    before = {name: manager.state_dict() for name, manager in stage.managers.items()}
    stage.put_under(90, busy=1.0)
    stage.poison = poison

    [tick] = await stage.ticks(1)

    assert tick.snapshot.problems
    assert tick.held != ""
    assert tick.proposals == {}
    assert {name: manager.state_dict() for name, manager in stage.managers.items()} == before
    assert stage.ends("Rescale") == []


async def test_ticks_go_on_measuring_and_hold_while_a_change_is_under_way(stage_of):
    stage = await stage_of().started()
    stage.put_under(90, busy=1.0, latency=2.0)

    granting = await stage.tick()
    meanwhile = await stage.tick()
    await stage.done()

    assert any(verdict.startswith("Granted") for verdict in granting.verdicts.values())
    assert meanwhile.held != ""
    assert meanwhile.snapshot.output.mean == pytest.approx(2.0)
    assert len(stage.ends("Rescale")) == 1


def only(*operators):
    """Return a poison that leaves the series of some operators, whose backlog nobody knows."""

    def poison(window: Window) -> Window:
        return changed(
            window,
            lambda series: None,
            where=lambda series: (
                series.labels.get("weir_operator") not in operators
                or series.name == names.PENDING_RECORDS
            ),
        )

    return poison


async def test_intervals_without_output_after_a_change_are_late_until_records_are_counted(stage_of):
    stage = await stage_of().started()
    stage.put_under(90, busy=1.0, latency=2.0)
    await stage.ticks(1)
    stage.poison = without_samples

    silent = await stage.ticks(2)
    stage.poison = only("gen")
    arriving, windowed = await stage.ticks(2)

    assert len(stage.ends("Rescale")) == 1
    assert [tick.violated for tick in silent] == [True, True]
    assert arriving.violated is True
    assert windowed.violated is None  # it may wait for a window to end


async def test_an_interval_after_a_change_in_which_nothing_arrived_is_not_late(stage_of):
    stage = await stage_of().started()
    stage.put_under(90, busy=1.0, latency=2.0)
    await stage.ticks(1)
    stage.poison = without_samples
    await stage.ticks(1)
    stage.put_under(0)
    stage.poison = only("gen")

    [tick] = await stage.ticks(1)

    assert tick.violated is None


async def test_a_controller_that_finds_a_running_job_judges_no_gap(stage_of):
    stage = await stage_of().started()
    stage.controller = stage.controller_over(stage.lifecycle)
    stage.poison = without_samples

    [tick] = await stage.ticks(1)

    assert tick.violated is None


async def test_loops_that_are_made_after_a_change_judge_its_gap(stage_of):
    stage = await stage_of().started()
    after = stage.controller_over(stage.lifecycle)
    stage.put_under(90, busy=1.0, latency=2.0)
    await stage.ticks(1)
    stage.controller = after
    stage.poison = without_samples

    [tick] = await stage.ticks(1)

    assert len(stage.ends("Rescale")) == 1
    assert tick.violated is True


def from_the_last_second(window: Window) -> Window:
    """What a source has that began to scrape only then."""
    return changed(
        window,
        lambda series: replace(series, times=series.times[-2:], values=series.values[-2:]),
        where=lambda series: "task_id" in series.labels,
    )


@pytest.mark.parametrize(
    ("has_run", "poison", "held"),
    [
        (60.0, None, ""),
        # The machines' series are as old as the window.
        (60.0, from_the_last_second, "The job has just been restarted"),
        (11.0, None, "The job has just been restarted"),
        (0.0, None, "The job has just been restarted"),
    ],
)
async def test_a_controller_that_finds_a_running_job_decides_once_enough_of_it_was_measured(
    stage_of, has_run, poison, held
):
    stage = await stage_of().started()
    stage.running_for = has_run
    stage.controller = stage.controller_over(stage.lifecycle)
    stage.poison = poison

    [tick] = await stage.ticks(1)

    assert tick.held == held
    assert set(tick.proposals) == (set() if held else {"match", "count"})


async def first_window_of(stage, monkeypatch):
    """Run new loops until they ask for samples; return of when."""
    stop, asked = asyncio.Event(), []

    async def window(*, start, end):
        asked.append((start, end))
        stop.set()
        return await asyncio.Event().wait()

    monkeypatch.setattr(stage, "window", window)
    await stage.controller_over(stage.lifecycle).run(stop)
    return asked


async def test_the_first_interval_is_a_whole_one_however_soon_its_tick_is_due(
    stage_of, monkeypatch
):
    stage = await stage_of().started()
    stage.clock.time = 1001.0
    stage.phase = 0.6  # of 5 s: due at 1003

    assert await first_window_of(stage, monkeypatch) == [(998.0, 1003.0)]


async def test_no_time_is_judged_twice_after_an_edit_of_the_interval(stage_of, monkeypatch):
    stage = await stage_of().started()
    [*_, last] = await stage.ticks(4)
    stage.app = stage_of(operatorManager={"interval": "20s"}).app
    stage.clock.time += 1.0
    stage.phase = 0.75  # of 20 s: due at 1035

    [(start, end)] = await first_window_of(stage, monkeypatch)

    assert start == last.snapshot.now
    assert end == 1035.0


async def test_a_policy_learns_what_came_of_the_restart_that_it_asked_for(stage_of, monkeypatch):
    lessons = []
    monkeypatch.setattr(KernelPolicy, "learn", lambda _, transition: lessons.append(transition))
    stage = await stage_of().started()
    stage.put_under(90, busy=1.0, latency=2.0)
    granting = await stage.tick()
    await stage.tick()
    await stage.done()
    stage.put_under(90, busy=0.5, latency=0.1)

    await stage.ticks(3)

    granted = {name for name, said in granting.verdicts.items() if said.startswith("Granted")}
    learned = [each for each in lessons if each.cost.reconfiguration > 0]
    assert {each.observation.model.name for each in learned} == granted
    assert {each.cost.violation for each in learned} == {1.0}  # records came late meanwhile


async def test_rescales_of_several_operators_take_one_restart(stage_of):
    stage = await stage_of().started()
    stage.put_under(150, busy=1.0, latency=2.0)

    [tick] = await stage.ticks(1)

    assert tick.restarts
    [change] = stage.ends("Rescale")
    changed_operators = {name for name in CHAIN if change.source[name] != change.target[name]}
    assert changed_operators == {"match", "count"}
    assert stage.store.load().deployments == change.target
    assert len(stage.world.running()) == 1


async def test_the_target_of_a_source_is_cut_to_its_partitions_and_granted(stage_of, monkeypatch):
    monkeypatch.setattr(evaluate, "splits_of", lambda app: {"match": 1.0})
    stage = await stage_of().started()
    stage.put_under(250, busy=1.0, latency=2.0)

    [tick] = await stage.ticks(1)

    [change] = stage.ends("Rescale")
    assert change.target["match"] == {"large/1": 1}
    assert change.target["count"] == {"large/1": 2, "small/500m": 1}
    assert "instead of 6 replicas" in tick.proposals["match"].decision.reason


async def test_a_resize_needs_no_restart(stage_of):
    stage = await stage_of(
        operators=[
            {"name": "gen", "fixed": ONE},
            {"name": "match", "maxReplicas": 1, "initial": {"large/1": 1}, "pools": ["large"]},
            {"name": "count", "fixed": ONE},
            {"name": "out", "fixed": ONE},
        ]
    ).started()
    [job] = stage.world.running()
    stage.put_under(75, busy=0.95, latency=2.0)

    [tick] = await stage.ticks(1)

    assert not tick.restarts
    assert stage.world.running() == [job]
    assert stage.store.load().deployments["match"] == {"large/2": 1}
    assert len(stage.ends("Resize")) == 1
    assert stage.ends("Rescale") == []


async def test_advise_decides_and_records_and_touches_nothing(stage_of):
    stage = await stage_of(mode="Advise").started()
    [job] = stage.world.running()
    before = stage.store.load()
    stage.put_under(150, busy=1.0, latency=2.0)

    [tick] = await stage.ticks(1)

    assert tick.proposals["match"].decision.target != tick.proposals["match"].observation.deployment
    assert all("spec.mode" in verdict for verdict in tick.verdicts.values())
    assert not tick.restarts
    assert [record.operator for record in stage.records.decisions()] == ["match", "count"]
    assert stage.store.load() == before
    assert stage.world.running() == [job]


async def test_a_change_that_did_worse_is_taken_back_and_remembered_as_failed(stage_of):
    never_save = {"name": "queueing", "settings": {"scale_in_window": 100}}
    stage = await stage_of(operatorManager={"interval": "5s", "policy": never_save}).started()
    stage.put_under(90, busy=1.0, latency=0.9)
    await stage.ticks(1)
    [change] = stage.ends("Rescale")
    stage.put_under(
        90,
        latency=3.0,
        # Slow, but not for lack of replicas.
        match=Load(rate=90, busy=0.1, service_mean=0.0125, age=0.01),  # on the faster pool
        count=Load(rate=90, busy=0.1, service_mean=0.00625, age=0.06),
    )

    await stage.ticks(7)

    back = stage.ends("Rescale")[1]
    assert back.target == change.source
    assert back.restore_path != change.restore_path  # with a savepoint of its own
    assert stage.store.load().failed[0].deployment == change.target
    assert "ChangeDidWorse" in stage.reasons


async def test_an_objective_out_of_reach_is_told_with_the_least_possible_bound(stage_of):
    stage = await stage_of(objective={"responseTime": "5ms"}).started()

    taken = await stage.ticks(5)  # what a record takes is learned first

    assert "5 ms" in taken[-1].infeasible
    assert stage.reasons.count("ObjectiveInfeasible") == 1


async def test_a_job_that_is_overloaded_is_scaled_though_its_objective_is_out_of_reach(stage_of):
    stage = await stage_of(objective={"responseTime": "5ms"}).started()
    stage.put_under(90, busy=1.0)

    taken = await stage.ticks(10)

    assert any(tick.infeasible and tick.proposals and not tick.held for tick in taken)
    assert stage.ends("Rescale") != []


async def test_metrics_that_cannot_be_trusted_do_not_take_back_that_it_is_out_of_reach(stage_of):
    stage = await stage_of(objective={"responseTime": "5ms"}).started()
    known = (await stage.ticks(5))[-1]
    # Records vanish from the topic: more than the source reads.
    stage.loads["gen"] = Load(rate=20, busy=0.1, pending=1e6, pending_growth=-1500.0)

    untrusted = (await stage.ticks(2))[-1]

    assert not untrusted.snapshot.healthy
    assert untrusted.infeasible == known.infeasible != ""
    assert stage.reasons.count("ObjectiveInfeasible") == 1


async def test_a_measurement_within_the_bound_takes_back_that_it_is_out_of_reach(stage_of):
    stage = await stage_of(objective={"responseTime": "100ms"}).started()
    stage.put_under(20, latency=0.2, match=Load(rate=20, service_mean=0.9, age=0.01))
    infeasible = (await stage.ticks(3))[-1]
    stage.put_under(20, latency=0.05)

    [within] = await stage.ticks(1)

    assert infeasible.infeasible
    assert within.infeasible == ""


async def test_an_objective_that_only_a_wrong_belief_put_out_of_reach_comes_back(stage_of):
    stage = await stage_of(objective={"responseTime": "100ms"}).started()
    stage.put_under(20, latency=0.2, match=Load(rate=20, service_mean=0.9, age=0.01))
    infeasible = (await stage.ticks(3))[-1]
    stage.put_under(20, latency=0.2)

    taken = await stage.ticks(200)

    assert "Raise spec.objective.responseTime, or add" in infeasible.infeasible
    assert taken[-1].infeasible == ""


async def test_a_job_that_reports_no_backlog_and_no_ages_is_scaled_all_the_same(stage_of):
    stage = await stage_of().started()
    plain = [names.SERVICE_N, names.AGE_N, names.PENDING_RECORDS, names.LATENCY_N]
    stage.poison = lambda window: changed(
        window, lambda series: None, where=lambda series: series.name in plain
    )
    stage.put_under(90, busy=1.0)

    [tick] = await stage.ticks(1)
    await stage.ticks(3)

    assert stage.reasons.count("VarianceAssumed") == 1
    assert judge_metrics(tick).message.endswith(tick.assumed)
    assert "Weir cannot measure how long" in tick.assumed
    assert tick.snapshot.app is not None
    said = describe_assumed(tick.snapshot.app, ["match"], python=True)
    assert said.startswith("Weir cannot measure how long match takes per record")
    assert "It uses Flink's busy time" in said
    assert math.isnan(tick.proposals["match"].observation.response_time)
    assert tick.proposals["match"].observation.backlog == 0.0
    assert stage.store.load().deployments["match"] != ONE


async def test_a_decision_that_cannot_be_recorded_is_taken_all_the_same(stage_of, monkeypatch):
    stage = await stage_of().started()
    stage.put_under(150, busy=1.0, latency=2.0)
    monkeypatch.setattr(stage.kept._store, "write", _raising(TemporaryError("The disk is full")))

    await stage.tick()
    await stage.done()

    assert stage.store.load().deployments != assembly.initial_deployments(stage.app)
    assert stage.reasons.count("RecordsNotKept") == 1


async def test_where_nothing_can_be_recorded_the_job_is_brought_up_all_the_same(
    stage_of, monkeypatch
):
    stage = stage_of()
    monkeypatch.setattr(stage.kept._store, "write", _raising(TemporaryError("The disk is full")))

    await stage.started()

    assert len(stage.world.running()) == 1


async def test_what_was_learned_and_cannot_be_kept_stops_no_decision(stage_of, monkeypatch):
    stage = await stage_of().started()
    stage.put_under(150, busy=1.0, latency=2.0)

    def write(path, text):
        raise TemporaryError("The disk is full")

    monkeypatch.setattr("weir_operator.loop.app_state.write_atomically", write)
    stage.clock.time += 3600  # it is time to keep it

    await stage.ticks(3)

    assert stage.store.load().deployments != assembly.initial_deployments(stage.app)
    assert stage.reasons.count("LearnedNotSaved") == 1


def _raising(error):
    def write(*args, **kwargs):
        raise error

    return write
