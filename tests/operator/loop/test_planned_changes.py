"""What fails is tried less and less often, by whatever path and in whichever life."""

from itertools import pairwise

import pytest

from tests.operator.loop.builders import without_samples
from tests.operator.loop.job_stage import TWO, Stage
from tests.operator.metrics.builders import Load
from tests.operator.rescale.bench import ONE
from tests.operator.rescale.fakes import FakeClock, MemoryStatusStore
from tests.operator.streamapp.builders import a_stream_app
from weir_operator.loop.directives import Directives, Pause, directives_of
from weir_operator.loop.planned_changes import PATIENT, URGENT, Retries
from weir_operator.rescale.closing import close_change
from weir_operator.rescale.journal import Kind, Step, plan
from weir_operator.rescale.status import AppStatus, FailedDeployment, add_failed
from weir_operator.streamapp.managers import Allowed, Fallback, FallbackDeployment
from weir_operator.streamapp.models import Mode
from weir_operator.streamapp.quantities import Duration

DAY = 86_400.0
HOUR = 3600.0
THREE = {"match": {"small/250m": 3}}


@pytest.fixture
def stage():
    return Stage()


async def with_a_manifest_that_never_runs(stage):
    """Bring up two replicas; the manifest then allows one, with which the job does not run."""
    await stage.lifecycle(initial=TWO).bring_up()
    stage.world.broken_totals = {1}
    stage.directives = Directives(edition="mended once")


def rolled_back(stage):
    return [
        each
        for each in stage.changes
        if each.kind is Kind.RESCALE and each.step is Step.ROLLED_BACK
    ]


async def test_a_manifest_that_never_comes_to_run_stops_the_job_a_few_times_a_day(stage):
    await with_a_manifest_that_never_runs(stage)
    end = stage.clock.time + DAY

    while stage.clock.time < end:
        life = stage.lifecycle(max_replicas=1)  # by another controller, or another life of it
        for _ in range(20):
            stage.clock.time += 30
            await life.heal()

    tries = [each.created for each in rolled_back(stage)]
    pauses = [after - before for before, after in pairwise(tries)]
    assert 4 <= len(tries) <= 8
    assert all(after >= 1.9 * before for before, after in pairwise(pauses[:4])), pauses
    assert max(pauses) <= 6 * HOUR + 60
    assert stage.exact()


async def test_another_spec_is_tried_at_once(stage):
    await with_a_manifest_that_never_runs(stage)
    life = stage.lifecycle(max_replicas=1)
    for _ in range(3):
        await life.heal()
    before = len(rolled_back(stage))
    stage.directives = Directives(edition="mended twice")

    await life.heal()

    assert (before, len(rolled_back(stage))) == (1, 2)


async def test_the_first_look_of_a_new_release_forgets_nothing(stage):
    await with_a_manifest_that_never_runs(stage)
    stage.directives = Directives()
    life = stage.lifecycle(max_replicas=1)
    await life.heal()
    stage.directives = Directives(edition="known from now on")

    await life.heal()

    assert len(rolled_back(stage)) == 1


async def test_a_lost_job_is_started_however_often_it_was_lost(stage):
    lifecycle = await stage.running()

    for _ in range(10):
        [job] = stage.world.running()
        stage.world.jobs[job].state = "FAILED"
        await lifecycle.heal()

    assert stage.reasons.count("JobLost") == 10
    assert len(stage.world.running()) == 1


def a_change(*, source=ONE, target=ONE, replace=("tm-1",)):
    return plan(
        kind=Kind.RESCALE,
        reason="Replicas leave before they are lost",
        now=0.0,
        source=source,
        target=target,
        old_job="a" * 32,
        replace=replace,
    )


async def pauses_after(step, pauses, *, tries):
    """Return how long each of so many tries that ended so was waited for."""
    store, clock, waited = MemoryStatusStore(), FakeClock(), []
    journal = a_change()
    for _ in range(tries):
        # Another controller each time.
        await Retries(store, clock).note(journal, journal.at(step, clock.now()), pauses)
        began = clock.time
        while not Retries(store, clock).allows(journal):
            clock.time += 1.0
        waited.append(clock.time - began)
    return waited


async def test_what_left_the_job_alone_is_tried_again_soon_where_it_hurries():
    assert await pauses_after(Step.ABANDONED, URGENT, tries=6) == [5, 10, 20, 40, 60, 60]


async def test_what_stopped_the_job_in_vain_is_not_repeated_often_however_it_hurries():
    waited = await pauses_after(Step.ROLLED_BACK, URGENT, tries=14)

    assert waited[:4] == [5, 10, 20, 40]
    assert waited[-1] == 6 * HOUR


async def test_a_change_that_was_made_ends_all_waiting():
    store, clock = MemoryStatusStore(), FakeClock()
    retries, journal = Retries(store, clock), a_change()
    await retries.note(journal, journal.at(Step.ROLLED_BACK, 0.0), PATIENT)
    other = a_change(replace=("tm-2",))

    await retries.note(other, other.at(Step.DONE, 0.0), PATIENT)

    assert retries.allows(journal)


def test_a_deployment_that_fails_again_waits_twice_as_long_and_is_known_once():
    known: tuple[FailedDeployment, ...] = ()
    now, waited = 0.0, []
    for _ in range(6):
        known = add_failed(known, TWO, first=1800.0, reason="it broke", now=now)
        now = known[-1].until
        waited.append(known[-1].lasts / HOUR)

    assert waited == [0.5, 1, 2, 4, 6, 6]
    assert len(known) == 1
    [second] = add_failed(known, TWO, first=1800.0, reason="it broke", now=now + 2 * DAY)
    assert second.lasts == 1800.0


def test_a_target_with_which_not_even_the_way_back_came_to_run_counts_as_failed():
    change = a_change(source=ONE, target=TWO, replace=()).at(Step.FAILED, 5.0, failure="it broke")

    status, _ = close_change(AppStatus(), change, keep=3, now=10.0)

    assert [each.deployment for each in status.failed] == [TWO]


def test_a_repair_does_not_go_where_a_change_has_failed():
    store, clock = MemoryStatusStore(), FakeClock()
    failed = FailedDeployment(deployment=TWO, until=clock.time + 60, lasts=1800.0, reason="broke")
    store.status = store.load().model_copy(update={"failed": (failed,)})
    retries = Retries(store, clock)

    assert not retries.allows(a_change(source=THREE, target=TWO, replace=()))
    assert retries.allows(a_change(source=TWO, target=TWO)), "replicas are replaced where they are"
    clock.time += 60
    assert retries.allows(a_change(source=THREE, target=TWO, replace=()))


def test_what_only_asks_weir_to_stand_still_is_no_other_spec():
    app = a_stream_app()

    def edition(**changes):
        spec = app.spec.model_copy(update=changes)
        return directives_of(app.model_copy(update={"spec": spec})).edition

    assert edition() == edition(mode=Mode.OFF) != ""
    assert edition() != edition(reset_nonce=1)
    assert edition() != edition(node_pools=app.spec.node_pools * 2)


# -- changes that no operator proposed ------------------------------------------------------------

ONE_AN_HOUR = {"restartBudget": {"size": 1, "refillEvery": "1h"}}
NEVER_SAVE = {"name": "queueing", "settings": {"scale_in_window": 100}}


async def test_a_change_that_did_worse_is_taken_back_as_soon_as_a_restart_can_be_paid(stage_of):
    stage = await stage_of(
        operatorManager={"interval": "5s", "policy": NEVER_SAVE}, applicationManager=ONE_AN_HOUR
    ).started()
    stage.put_under(90, busy=1.0, latency=0.9)
    await stage.ticks(1)
    [change] = stage.ends("Rescale")
    stage.put_under(
        90,
        latency=3.0,
        match=Load(rate=90, busy=0.1, service_mean=0.0125, age=0.01),
        count=Load(rate=90, busy=0.1, service_mean=0.00625, age=0.06),
    )

    await stage.ticks(10)
    held = stage.reasons.count("RollbackBlocked"), len(stage.ends("Rescale"))
    stage.clock.time += HOUR
    await stage.ticks(1)

    assert held == (1, 1)
    [_, back] = stage.ends("Rescale")
    assert back.target == change.source


async def blind(stage, fallback):
    stage.ask(fallback=fallback)
    stage.poison = without_samples
    return await stage.ticks(5)


LARGEST = Fallback(after=Duration("10s"), deployment=FallbackDeployment.LARGEST)


async def test_the_fallback_waits_until_a_restart_can_be_paid(stage_of):
    stage = await stage_of(applicationManager=ONE_AN_HOUR).started()
    now = stage.clock.now()
    spent = stage.am.restarts.fill(now).take(stage.am.restarts, now).to_dict()
    await stage.store.save(stage.store.load().model_copy(update={"restart_tokens": spent}))

    await blind(stage, LARGEST)
    held = stage.reasons.count("FallbackHeld"), stage.ends("Rescale")
    stage.clock.time += HOUR
    await stage.ticks(2)

    assert held == (1, [])
    assert stage.reasons.count("FallbackTaken") == 1
    assert len(stage.ends("Rescale")) == 1
    assert stage.store.load().restart_tokens["tokens"] == 0


async def test_a_fallback_that_failed_is_not_tried_again_at_once(stage_of):
    named = Fallback(
        after=Duration("10s"),
        deployment=FallbackDeployment.NAMED,
        named={"match": {"large/1": 4}},
    )
    stage = await stage_of().started()
    stage.world.broken_totals = {7}  # with which the other three never come to run

    await blind(stage, named)
    stage.poison = None
    await stage.ticks(2)
    await blind(stage, named)

    assert len(stage.ends("Rescale")) == 1
    assert stage.ends("Rescale")[0].step is Step.ROLLED_BACK
    assert stage.reasons.count("FallbackHeld") == 1


async def test_a_fallback_held_by_a_pause_is_taken_when_the_pause_is_over(stage_of):
    stage = await stage_of().started()
    paused = Pause(source="weir.dev/paused", allows=Allowed.NOTHING, until=None)
    stage.ask(pauses=(paused,))
    await blind(stage, LARGEST)
    before = stage.ends("Rescale")
    stage.ask(pauses=())

    await stage.ticks(1)

    assert before == []
    assert len(stage.ends("Rescale")) == 1
