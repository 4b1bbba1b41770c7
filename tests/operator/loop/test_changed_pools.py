"""Another place for replicas moves them by a rescale; what failed is tried again once mended."""

import pytest

from tests.operator.loop.job_stage import Stage
from tests.operator.rescale.bench import ONE
from weir_operator.errors import JobFailedError
from weir_operator.flink.job_graph import JobGraph
from weir_operator.loop.directives import Directives
from weir_operator.rescale.journal import Kind, Step, plan
from weir_operator.rescale.replicas import deployments_of
from weir_operator.runtime.places import Place
from weir_operator.runtime.revision import Revision

HERE = {"weir.dev/pool": "small"}
THERE = {"weir.dev/pool": "other"}


def a_revision(selector=None, *, memory=1024, managed=0, image="trips:1", job_manager=None):
    """Return what the job is to be made of, with pool `small` at these nodes."""
    return Revision(
        parallelism_arguments={"match": "--weir.parallelism.match"},
        processes={"image": image},
        job_manager=Place(memory=1024, cpu="500m") if job_manager is None else job_manager,
        places={"small": Place(node_selector=selector or HERE, memory=memory)},
        managed_memory={"match": managed} if managed else {},
    )


@pytest.fixture
def stage():
    made = Stage()
    made.directives = Directives(revision=a_revision())
    return made


def ask(stage, revision):
    stage.directives = Directives(revision=revision)


@pytest.mark.parametrize(
    "changed",
    [a_revision(THERE), a_revision(memory=2048), a_revision(managed=256)],
    ids=["nodeSelector", "memory", "managedMemory"],
)
async def test_replicas_of_a_changed_pool_are_replaced_by_one_rescale(stage, changed):
    lifecycle = await stage.running()
    [before] = stage.world.alive
    ask(stage, changed)

    await lifecycle.heal()
    await lifecycle.heal()

    [after] = stage.world.alive.values()
    assert after.id != before
    assert after.place == changed.place_id("match", "small")
    assert [each.kind for each in stage.changes if each.step is Step.DONE] == [
        Kind.START,
        Kind.RESCALE,
    ]
    assert stage.store.load().revision == changed
    assert stage.exact()


async def test_the_graph_that_memory_follows_from_is_read_once_for_each_revision(stage):
    graph = JobGraph(managed={"match": False}, streams=(("match", "match", 1),))
    stage.world.graph = graph
    lifecycle = await stage.running()

    for revision in (a_revision(), a_revision(memory=2048), a_revision(image="trips:2")):
        ask(stage, revision)
        await lifecycle.heal()
        await lifecycle.heal()
        assert stage.store.load().revision == revision.model_copy(update={"graph": graph})
        assert stage.world.used.graph == graph

    # The first start and the upgrade; neither looks nor another pool are a reason.
    assert len(stage.world.read) == 2
    assert stage.world.read[0][:2] == ("--weir.parallelism.match", "1")
    assert stage.reasons.count("RescaleDone") == stage.reasons.count("UpgradeDone") == 1
    assert stage.exact()


async def test_a_graph_that_cannot_be_read_stops_nothing(stage):
    await stage.running()

    revision = stage.store.load().revision
    assert revision is not None
    assert revision.graph is None
    assert stage.exact()


async def test_a_job_that_goes_back_has_the_graph_of_what_it_goes_back_to(stage):
    first = stage.world.graph = JobGraph(managed={"match": False})
    lifecycle = await stage.running()
    stage.world.graph = JobGraph(managed={"match": True})
    wrong = a_revision(image="trips:2")
    stage.world.broken_revisions = {wrong.id}
    ask(stage, wrong)

    await lifecycle.heal()

    assert "RolledBack" in stage.reasons
    assert stage.world.used.graph == first
    revision = stage.store.load().revision
    assert revision is not None
    assert revision.graph == first


async def test_a_pool_that_nobody_uses_changes_without_a_restart(stage):
    lifecycle = await stage.running()
    [job] = stage.world.running()
    changed = a_revision()
    changed = changed.model_copy(update={"places": {**changed.places, "new": Place(memory=512)}})
    ask(stage, changed)

    await lifecycle.heal()

    assert stage.world.running() == [job]
    assert stage.store.load().revision == changed


async def test_a_job_manager_that_does_not_start_is_refused_until_the_manifest_changes(stage):
    lifecycle = await stage.running()
    wrong = a_revision(job_manager=Place(memory=1024, cpu="500m", node_selector=THERE))
    stage.world.deaf_revisions = {wrong.id}
    ask(stage, wrong)

    for _ in range(5):
        await lifecycle.heal()
        stage.clock.time += 3600

    assert stage.reasons.count("RolledBack") == 1
    assert stage.store.load().revision == a_revision()

    ask(stage, a_revision(job_manager=Place(memory=2048, cpu="500m")))
    await lifecycle.heal()

    assert stage.reasons.count("UpgradeDone") == 1
    assert stage.exact()


async def test_a_place_that_no_node_offers_leaves_the_job_and_its_template_as_they_are(stage):
    lifecycle = await stage.running()
    [job], [before] = stage.world.running(), list(stage.world.alive)
    wrong = a_revision(THERE)
    stage.world.lost_places = {wrong.place_id("match", "small")}
    ask(stage, wrong)

    await lifecycle.heal()

    assert stage.world.running() == [job]
    assert list(stage.world.alive) == [before]
    assert stage.world.used == a_revision(), "what replaces a lost replica is made as before"
    assert "PoolFull" in stage.reasons


async def test_what_was_abandoned_is_tried_again_less_and_less_often(stage):
    lifecycle = await stage.running()
    wrong = a_revision(THERE)
    stage.world.lost_places = {wrong.place_id("match", "small")}
    ask(stage, wrong)

    for _ in range(60):
        await lifecycle.heal()
        stage.clock.time += 30

    assert 3 <= stage.reasons.count("ChangeAbandoned") <= 5


async def test_a_start_whose_place_was_mended_does_not_wait_for_what_it_left(stage):
    wrong = a_revision(THERE)
    stage.world.lost_places = {wrong.place_id("match", "small")}
    stage.world.full_pools = {"large": 0}
    ask(stage, wrong)
    with pytest.raises(JobFailedError):
        await stage.lifecycle().bring_up()
    stage.clock.time += 600  # the pool counts as full no more
    ask(stage, a_revision())

    await stage.lifecycle().bring_up()

    [replica] = stage.world.alive.values()
    assert replica.place == a_revision().place_id("match", "small")
    assert deployments_of([replica]) == ONE


async def test_a_start_that_waits_is_begun_again_with_the_mended_manifest(stage):
    wrong = a_revision(image="tripps:1")
    journal = plan(
        kind=Kind.START,
        reason="run",
        now=0.0,
        source={},
        target=ONE,
        old_job=None,
        restore_path="file:/savepoints/given",
        revision=wrong,
    )
    await stage.store.save(stage.store.load().model_copy(update={"rescale": journal}))
    stage.world.positions["file:/savepoints/given"] = 7
    stage.world.broken_revisions = {wrong.id}

    await stage.lifecycle(initial_savepoint="file:/savepoints/given").bring_up()

    assert stage.store.load().revision == a_revision()
    assert stage.world.jobs[stage.world.running()[0]].position == 7
