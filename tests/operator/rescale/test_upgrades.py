"""The engine takes a job to another revision, and back where that does not run."""

import pytest

from tests.operator.rescale.bench import NAMES, ONE, Bench
from tests.operator.rescale.fakes import (
    ControllerDied,
)
from weir_operator.errors import NotInProgramError, PodsPendingError
from weir_operator.flink.job_graph import JobGraph
from weir_operator.rescale.journal import Kind, Step
from weir_operator.runtime.places import Place
from weir_operator.runtime.revision import AgentImage, Revision

OLD = Revision(arguments=("--window", "5m"), parallelism_arguments=NAMES)
NEW = Revision(arguments=("--window", "9m"), parallelism_arguments=NAMES)
GRAPH = JobGraph(managed={"match": False})
PLACED = {"places": {"small": Place(memory=1024)}}
"""How a revision that runs in pods differs."""
TRIED = {**PLACED, "graph": GRAPH}
"""The same of one whose program was read before the job is stopped for it."""


async def a_job_of_the_old_revision():
    """Return a job that runs, with an engine that knows only the new manifest."""
    return await Bench(arguments=NEW.arguments).started(revision=OLD)


def revisions(bench):
    return {replica.revision for replica in bench.world.alive.values()}


async def test_a_first_start_and_every_rescale_run_the_revision_that_the_status_names():
    bench = await a_job_of_the_old_revision()

    await bench.change({"match": {"small/250m": 2}})

    assert bench.runs_with[:2] == OLD.arguments
    assert revisions(bench) == {OLD.id}
    assert bench.store.load().revision == OLD
    assert bench.exact()


async def test_a_revision_that_does_not_run_is_rolled_back_from_the_same_savepoint():
    bench = await a_job_of_the_old_revision()
    bench.world.broken_revisions = {NEW.id}

    end = await bench.change(ONE, Kind.UPGRADE, revision=NEW)

    status = bench.store.load()
    assert end.step is Step.ROLLED_BACK
    assert bench.runs_with[:2] == OLD.arguments
    assert revisions(bench) == {OLD.id}
    assert (status.revision, status.refused_revision) == (OLD, NEW.id)
    assert status.failed == ()
    assert bench.exact()


async def test_a_revision_whose_job_manager_does_not_start_goes_back_to_the_agent_of_before():
    had = AgentImage(image="example/weir:1", digest="1" * 64)
    bench = await Bench(arguments=NEW.arguments).started(
        revision=OLD.model_copy(update={"agent": had})
    )
    bench.world.deaf_revisions = {NEW.id}
    bench.world.agents.clear()

    end = await bench.change(ONE, Kind.UPGRADE, revision=NEW)

    assert end.step is Step.ROLLED_BACK
    assert "its image cannot be pulled" in str(end.failure)
    assert bench.runs_with[:2] == OLD.arguments
    assert bench.world.agents[0] is None, "a newer Weir's"
    assert bench.world.agents[-1] == had
    assert bench.exact()


async def test_an_upgrade_whose_savepoint_fails_leaves_the_job_as_it_is():
    bench = await a_job_of_the_old_revision()
    [job] = bench.world.running()
    bench.world.savepoints_hang = True

    end = await bench.change(ONE, Kind.UPGRADE, revision=NEW)

    assert end.step is Step.ABANDONED
    assert bench.world.running() == [job]
    assert bench.store.load().revision == OLD
    assert bench.store.load().refused_revision is None


async def a_job_in_pods(monkeypatch):
    """Return a job that runs in pods, and what is done with its processes from now on."""
    bench = Bench(arguments=NEW.arguments)
    bench.world.graph = GRAPH
    await bench.started(revision=OLD.model_copy(update=PLACED))
    deeds = []

    def note(name):
        do = getattr(bench.world, name)

        async def noted(*given):
            if not given or given[0]:
                deeds.append((name, bench.world.used.graph))
            return await do(*given)

        monkeypatch.setattr(bench.world, name, noted)

    for name in ("start", "stop", "begin_job_manager", "ensure_job_manager"):
        note(name)
    return bench, deeds


def finding(graph):
    """Return an `adapt` that finds this graph in the started program."""

    async def adapt(journal):
        if journal.is_back or journal.revision is None or journal.revision.graph == graph:
            return journal
        found = journal.revision.model_copy(update={"graph": graph})
        return journal.model_copy(update={"revision": found})

    return adapt


async def test_an_upgrade_starts_its_task_managers_while_its_job_manager_starts(monkeypatch):
    bench, deeds = await a_job_in_pods(monkeypatch)

    end = await bench.change(ONE, Kind.UPGRADE, revision=NEW.model_copy(update=TRIED))

    assert end.step is Step.DONE
    assert end.started == 1
    names = [name for name, _ in deeds]
    first = names.index("stop")
    assert names[first:][:4] == ["stop", "begin_job_manager", "start", "ensure_job_manager"]
    assert names.count("start") == 1
    assert deeds[names.index("start")][1] == GRAPH, "for whose memory they were made"
    assert bench.exact()


async def test_an_upgrade_whose_program_was_not_read_before_the_stop_reads_it_first(monkeypatch):
    bench, deeds = await a_job_in_pods(monkeypatch)

    end = await bench.change(ONE, Kind.UPGRADE, revision=NEW.model_copy(update=PLACED))

    assert end.step is Step.DONE
    assert "begin_job_manager" not in [name for name, _ in deeds]
    assert [graph for name, graph in deeds if name == "start"] == [GRAPH]
    assert bench.exact()


async def test_task_managers_made_for_another_graph_than_the_started_program_has_are_made_again(
    monkeypatch,
):
    bench, deeds = await a_job_in_pods(monkeypatch)
    other = JobGraph(managed={"match": True})

    monkeypatch.setattr(bench, "adapt", finding(other))
    end = await bench.change(ONE, Kind.UPGRADE, revision=NEW.model_copy(update=TRIED))

    assert end.step is Step.DONE
    assert [graph for name, graph in deeds if name == "start"] == [GRAPH, other]
    assert len(bench.world.alive) == 1
    assert bench.exact()


async def test_an_upgrade_whose_job_manager_gets_no_place_goes_back_to_the_old_one(monkeypatch):
    bench, deeds = await a_job_in_pods(monkeypatch)
    new = NEW.model_copy(update=TRIED)
    bench.world.deaf_revisions = {new.id}

    end = await bench.change(ONE, Kind.UPGRADE, revision=new)

    assert end.step is Step.ROLLED_BACK
    assert "image cannot be pulled" in str(end.failure)
    assert bench.runs_with[:2] == OLD.arguments
    assert [name for name, _ in deeds].count("begin_job_manager") == 1, "the way back waits"
    assert bench.exact()


async def test_on_the_way_back_no_task_manager_takes_the_place_of_the_job_manager_of_before(
    monkeypatch,
):
    bench, _ = await a_job_in_pods(monkeypatch)
    world = bench.world
    world.full_pools = {"small": 1}
    ensure = world.ensure_job_manager

    async def ensure_in_a_full_cluster():
        has_place = world.used.id in (world.answering, *world.begun)
        waiting = [each.id for each in await world.replicas() if each.pending]
        if waiting and not has_place:
            raise PodsPendingError(f"The JobManager is not running: {waiting} took its place", ())
        return await ensure()

    monkeypatch.setattr(world, "ensure_job_manager", ensure_in_a_full_cluster)

    new = NEW.model_copy(update=TRIED)
    end = await bench.change({"match": {"small/250m": 2}}, Kind.UPGRADE, revision=new)

    assert end.step is Step.ROLLED_BACK
    assert "no room" in str(end.failure)
    assert bench.runs_with[:2] == OLD.arguments
    assert bench.exact()


async def test_task_managers_of_another_graph_are_made_again_though_the_controller_dies_meanwhile(
    monkeypatch,
):
    bench, deeds = await a_job_in_pods(monkeypatch)
    other = JobGraph(managed={"match": True})

    def die():
        journal = bench.store.load().rescale
        if journal is not None and journal.revision is not None and journal.revision.graph == other:
            raise ControllerDied

    monkeypatch.setattr(bench, "adapt", finding(other))
    bench.store.on_save = die
    with pytest.raises(ControllerDied):
        await bench.change(ONE, Kind.UPGRADE, revision=NEW.model_copy(update=TRIED))
    bench.store.on_save = lambda: None
    journal = bench.store.load().rescale
    assert journal is not None

    end = await bench.engine().execute(journal)

    assert end.step is Step.DONE
    assert [graph for name, graph in deeds if name == "start"] == [GRAPH, other]
    assert bench.exact()


@pytest.mark.parametrize(
    "placed", [{}, PLACED, TRIED], ids=["on one machine", "in pods", "in pods, tried before"]
)
@pytest.mark.parametrize("broken", [False, True])
@pytest.mark.parametrize("step", range(1, 12))
async def test_an_upgrade_resumed_after_a_crash_at_any_step_ends_as_if_there_was_none(
    step, broken, placed
):
    old, new = (each.model_copy(update=placed) for each in (OLD, NEW))
    bench = Bench(arguments=new.arguments)
    bench.world.graph = GRAPH if placed else None
    await bench.started(revision=old)
    bench.world.broken_revisions = {new.id} if broken else set()
    bench.store.die_after = len(bench.store.history) + step

    try:
        await bench.change(ONE, Kind.UPGRADE, revision=new)
    except ControllerDied:
        bench.store.die_after = None
        journal = bench.store.load().rescale
        assert journal is not None
        await bench.engine().execute(journal)

    assert bench.runs_with[:2] == (old if broken else new).arguments
    assert revisions(bench) == {(old if broken else new).id}
    assert len(bench.world.alive) == 1
    assert bench.exact()


@pytest.mark.parametrize("broken", [False, True])
@pytest.mark.parametrize("deed", range(1, 6))
async def test_an_upgrade_whose_controller_dies_right_after_a_deed_ends_as_if_it_had_not(
    deed, broken
):
    old, new = (each.model_copy(update=TRIED) for each in (OLD, NEW))
    bench = Bench(arguments=new.arguments)
    await bench.started(revision=old)
    bench.world.broken_revisions = {new.id} if broken else set()
    left = deed

    def die():
        nonlocal left
        left -= 1
        if left == 0:
            raise ControllerDied

    bench.world.on_deed = die
    with pytest.raises(ControllerDied):
        await bench.change(ONE, Kind.UPGRADE, revision=new)
    journal = bench.store.load().rescale
    assert journal is not None
    await bench.engine().execute(journal)

    assert bench.runs_with[:2] == (old if broken else new).arguments
    assert revisions(bench) == {(old if broken else new).id}
    assert len(bench.world.alive) == 1
    assert bench.exact()


async def test_only_one_revision_is_kept_in_the_status_between_upgrades():
    bench = await a_job_of_the_old_revision()

    await bench.change(ONE, Kind.UPGRADE, revision=NEW)

    journal = bench.store.load().rescale
    assert journal is not None
    assert journal.revision is None


@pytest.mark.parametrize(
    "missing",
    [
        "expected a class of the job's jar, got 'example.Tripz'",
        "expected the program's slot sharing groups ['match'], got ['mach']",
    ],
)
async def test_what_the_program_lacks_is_found_before_a_task_manager_is_started(
    monkeypatch, missing
):
    bench = Bench(arguments=NEW.arguments)
    revision = NEW.model_copy(update={"places": {"small": Place(memory=1024)}})

    async def read_graph(program, **more):
        raise NotInProgramError(missing)

    monkeypatch.setattr(bench.world, "read_graph", read_graph)

    end = await bench.change(ONE, Kind.START, revision=revision)

    assert end.step is Step.FAILED
    assert end.failure == missing
    assert bench.world.alive == {}
