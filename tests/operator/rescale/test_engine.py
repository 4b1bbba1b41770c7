"""The engine against a miniature Flink: order, crashes at every step, and the ways back."""

import math

import pytest

from tests.operator.rescale.bench import ONE, Bench
from tests.operator.rescale.fakes import (
    ControllerDied,
    FakeWorld,
)
from weir_operator.errors import PermanentError, TemporaryError
from weir_operator.flink.job_graph import JobGraph
from weir_operator.flink.scripts import SQL
from weir_operator.rescale.journal import Kind, Step, plan
from weir_operator.rescale.replicas import deployments_of

TWO = {"match": {"small/250m": 1, "large/1": 1}}


async def test_a_first_start_submits_the_job_at_the_target():
    bench = Bench(arguments=("--x", "1"))

    end = await bench.change(ONE, Kind.START)

    assert end.step is Step.DONE
    assert bench.store.load().deployments == ONE
    assert bench.runs_with == (
        *("--x", "1", "--weir.parallelism.match", "1", "--weir.maxParallelism", "720"),
    )


async def test_a_program_that_knows_nothing_of_weir_gets_no_arguments_of_weirs():
    bench = Bench(arguments=("--x", "1"))
    bench.world.by_agent = True

    await bench.change(ONE, Kind.START)

    [job] = bench.world.running()
    assert bench.runs_with == ("--x", "1")
    assert bench.world.jobs[job].configuration == {
        "weir.pin": "true",
        "weir.parallelism.match": "1",
        "parallelism.default": "2",
    }


async def test_a_job_that_the_agent_cannot_pin_any_more_runs_on():
    bench = await Bench().started()
    bench.world.by_agent = PermanentError("the agent stepped back")
    running = bench.world.running()

    end = await bench.change(TWO)

    assert end.step is not Step.DONE
    assert "the agent stepped back" in (end.failure or "")
    assert bench.world.running() == running


async def test_a_script_that_is_no_job_is_refused_while_the_old_one_runs():
    bench = Bench(spec={"entry_class": SQL, "whole_job": "match"})
    bench.world.graph = JobGraph()
    await bench.started()
    running, alive = bench.world.running(), set(bench.world.alive)
    bench.world.graph = None

    end = await bench.change(TWO)

    assert end.step is not Step.DONE
    assert "builds no job" in (end.failure or "")
    assert bench.world.running() == running
    assert set(bench.world.alive) == alive


async def test_who_is_to_go_is_announced_while_the_job_runs():
    bench = await Bench().started()
    await bench.change(TWO)
    before = set(bench.world.alive)

    await bench.change({"match": {"large/1": 1}})

    gone = before - set(bench.world.alive)
    assert len(gone) == 1
    assert gone <= bench.world.about_to_go


async def test_taskmanagers_that_are_added_have_run_a_task_before_the_job_is_stopped():
    bench = await Bench().started()
    before = set(bench.world.alive)
    bench.world.warm_up_takes = 2.0

    end = await bench.change(TWO)

    assert bench.world.warmed_up == [tuple(set(bench.world.alive) - before)]
    assert end.times[str(Step.STOP)] >= bench.world.warms_up_until
    assert bench.exact()


async def test_no_taskmanager_runs_a_task_before_the_job_where_none_is_added():
    bench = await Bench().started()
    await bench.change(TWO)
    bench.world.warmed_up.clear()

    await bench.change(ONE)

    assert bench.world.warmed_up == []


async def test_a_warm_up_that_does_not_begin_or_end_costs_nothing_but_time():
    bench = await Bench().started()
    bench.world.no_warm_up = "the program is not installed"
    refused = await bench.change(TWO)
    bench.world.no_warm_up, bench.world.warm_up_takes = "", math.inf

    hangs = await bench.change({"match": {"small/250m": 2, "large/1": 1}})

    assert refused.step is hangs.step is Step.DONE
    assert bench.exact()


async def dies_while_it_warms_up(bench):
    """Return the change that a controller leaves which dies while TaskManagers are warmed up."""
    bench.world.warm_up_takes = math.inf

    def die():
        if bench.world.warmed_up:
            raise ControllerDied

    bench.world.on_deed = die
    with pytest.raises(ControllerDied):
        await bench.change(TWO)
    bench.world.on_deed = lambda: None
    left = bench.store.load().rescale
    assert left is not None
    return left


async def test_a_warm_up_that_an_earlier_controller_left_ends_before_the_job_is_stopped():
    bench = await Bench().started()
    left = await dies_while_it_warms_up(bench)

    end = await bench.engine().execute(left)

    assert end.step is Step.DONE
    assert bench.exact()


async def test_a_warm_up_that_an_earlier_controller_left_ends_with_a_change_that_is_withdrawn():
    bench = await Bench().started()
    left = await dies_while_it_warms_up(bench)

    end = await bench.engine().execute(left, lambda journal: False)

    assert end.step is Step.ABANDONED
    assert not await bench.world.is_warming_up()
    assert bench.exact()


async def test_a_rescale_goes_on_from_its_savepoint_with_the_new_parallelism():
    bench = await Bench().started()

    end = await bench.change(TWO)

    assert end.step is Step.DONE
    assert bench.exact()
    assert "--weir.parallelism.match 2" in " ".join(bench.runs_with)
    assert sorted(r.node_type for r in await bench.world.replicas()) == ["large/1", "small/250m"]


async def test_the_replica_of_the_pool_that_shrinks_is_the_one_that_ends():
    bench = await Bench().started()
    await bench.change(TWO)

    await bench.change({"match": {"large/1": 1}})

    assert [r.pool for r in await bench.world.replicas()] == ["large"]
    assert bench.exact()


async def test_taskmanagers_that_never_register_leave_the_job_alone():
    bench = await Bench().started()
    bench.world.deaf_pools = {"large"}
    [job] = bench.world.running()

    end = await bench.change(TWO)

    assert end.step is Step.ABANDONED
    assert bench.world.running() == [job]
    assert [r.pool for r in await bench.world.replicas()] == ["small"]
    assert bench.store.load().failed[-1].deployment == TWO


async def test_the_old_job_is_asked_for_once_a_second_while_taskmanagers_start(monkeypatch):
    bench = await Bench().started()
    world, asked = bench.world, []
    [old] = world.running()
    world.slow_until = bench.clock.now() + 20
    progress = world.progress

    async def counted(job_id):
        asked.append(job_id)
        return await progress(job_id)

    monkeypatch.setattr(world, "progress", counted)

    end = await bench.change(TWO)

    assert end.step is Step.DONE
    assert 15 <= asked.count(old) <= 25


async def test_a_target_that_does_not_run_is_rolled_back_from_the_same_savepoint():
    bench = await Bench().started()
    bench.world.broken_totals = {2}

    end = await bench.change(TWO)

    assert end.step is Step.ROLLED_BACK
    assert end.failure is not None
    assert "it broke" in end.failure
    assert bench.store.load().deployments == ONE
    assert bench.exact()


async def test_a_savepoint_that_hangs_gives_way_to_the_newest_checkpoint():
    bench = await Bench().started()
    bench.world.checkpoint()
    bench.world.savepoints_hang = True

    end = await bench.change(TWO)

    assert end.step is Step.DONE
    assert end.by_checkpoint
    assert bench.exact()


async def test_a_savepoint_that_hangs_without_any_checkpoint_leaves_the_job_alone():
    bench = await Bench().started()
    bench.world.savepoints_hang = True

    end = await bench.change(TWO)

    assert end.step is Step.ABANDONED
    assert bench.exact()


async def test_an_answer_that_was_lost_does_not_change_the_outcome():
    bench = await Bench().started()
    bench.world.refuse_calls = 5

    end = await bench.change(TWO)

    assert end.step is Step.DONE
    assert bench.exact()


async def test_a_size_that_the_node_refuses_leaves_the_job_running_as_it_is():
    bench = await Bench().started()
    [job] = bench.world.running()
    bench.world.refuse_sizes = True

    end = await bench.change({"match": {"small/500m": 1, "large/1": 1}})

    assert end.step is Step.ABANDONED
    assert end.failure == "The node is full"
    assert bench.world.running() == [job]
    assert deployments_of(bench.world.alive.values()) == ONE


async def test_only_as_many_savepoints_stay_as_are_to_be_kept():
    bench = await Bench(keep_savepoints=2).started()

    for target in (TWO, ONE, TWO, ONE):
        await bench.change(target)

    assert len(bench.store.load().savepoints) == 2
    assert len(bench.world.disposed) == 2
    assert bench.world.folders == set(bench.world.running())
    assert bench.store.load().restore_path == bench.store.load().savepoints[-1]
    assert bench.exact()


async def test_the_next_job_waits_until_a_slow_cancellation_has_ended():
    bench = await Bench(via="Checkpoint").started()
    bench.world.checkpoint()
    bench.world.cancel_takes = 5

    end = await bench.change(TWO)

    assert end.step is Step.DONE
    assert bench.exact()


async def test_a_jobmanager_that_never_answers_again_ends_the_change_and_not_in_a_circle():
    bench = await Bench(submit_deadline=1.0, start_deadline=1.0, savepoint_deadline=1.0).started()
    bench.world.refuse_calls = 10_000

    end = await bench.change(TWO)

    assert end.step is Step.FAILED
    assert end.failure


@pytest.mark.parametrize("died_after", range(1, 12))
@pytest.mark.parametrize("broken", [set(), {2}], ids=["forward", "back"])
async def test_a_controller_that_dies_after_any_write_is_resumed_without_loss(died_after, broken):
    bench = await Bench().started()
    bench.world.broken_totals = broken
    bench.store.history.clear()
    bench.store.die_after = died_after

    try:
        await bench.change(TWO)
        died = False
    except ControllerDied:
        died = True
    bench.store.die_after = None
    journal = bench.store.load().rescale
    assert journal is not None
    end = journal if journal.step.is_end else await bench.engine().execute(journal)

    # A rescale writes six times, one that turns back eleven: later deaths meet nobody.
    assert died == (died_after <= (11 if broken else 6))
    assert end.step is (Step.ROLLED_BACK if broken else Step.DONE)
    assert bench.store.load().deployments == (ONE if broken else TWO)
    assert len(bench.world.running()) == 1
    assert bench.exact()


async def test_a_savepoint_that_a_person_gave_is_never_deleted():
    bench = Bench(keep_savepoints=1)
    bench.world.positions["file:/theirs/savepoint-1"] = 40
    given = plan(
        kind=Kind.START,
        reason="a test",
        now=0.0,
        source={},
        target=ONE,
        old_job=None,
        restore_path="file:/theirs/savepoint-1",
    )
    await bench.engine().execute(given)

    for target in (TWO, ONE, TWO):
        bench.world.process(10)
        await bench.change(target)

    assert len(bench.world.disposed) == 2
    assert "file:/theirs/savepoint-1" not in bench.world.disposed


class LosingWorld(FakeWorld):
    """A world whose JobManager is lost once, right when a job is submitted."""

    back_at = None

    async def ensure_job_manager(self):
        if self.back_at is not None and self.clock.time < self.back_at:
            self.clock.time = self.back_at
        return await super().ensure_job_manager()

    async def submit(self, job_id, program, **more):
        if self.back_at is None:
            self.back_at = self.clock.time + 90.0
        if self.clock.time < self.back_at:
            raise TemporaryError("Flink refused the submission (400): ConnectException")
        await super().submit(job_id, program, **more)


async def test_a_jobmanager_lost_right_at_the_submission_is_waited_for_and_costs_no_roll_back():
    bench = await Bench().started()
    world = bench.world
    losing = LosingWorld(bench.clock)
    losing.__dict__.update(world.__dict__)
    bench.world = losing

    end = await bench.change(TWO)

    assert end.step is Step.DONE
    assert bench.exact()
