"""A job whose operators are found is run, separated, upgraded and resumed without a loss."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import cast

import pytest

from tests.operator.rescale.fakes import FakeClock, FakeWorld, JobsOf, MemoryStatusStore
from tests.operator.wiring.test_vertices import CHAIN, a_plan, an_app
from weir_operator.errors import JobFailedError, PermanentError, TemporaryError
from weir_operator.flink.job_graph import JobGraph, Plan
from weir_operator.loop.directives import directives_of
from weir_operator.loop.lifecycle import Health
from weir_operator.loop.record import TolerantRecords
from weir_operator.metrics.source import MetricsSource
from weir_operator.rescale.flink import FlinkJobs
from weir_operator.wiring import assembly, discovery
from weir_operator.wiring.discovery import OperatorsChangedError
from weir_operator.wiring.loops import Dependencies, assemble
from weir_operator.wiring.vertices import separate_vertices

ALL = "source parse count sink commit"


class CrashError(BaseException):
    """The controller dies."""


class Stage:
    """A StreamApp whose loops are made as `weir local` makes them."""

    def __init__(self, folder, app):
        self.folder = folder
        self.app = app
        self.clock = FakeClock()
        self.world = FakeWorld(self.clock)
        self.world.plan = a_plan(*CHAIN)
        self.world.by_agent = True
        self.store = MemoryStatusStore()
        self.records = TolerantRecords(folder / "records.sqlite", lambda reason, message: None)
        self.events = []
        self.plan = None
        self.arguments = ()

    @property
    def job(self):
        return assembly.job_spec(self.app, beside=self.folder, extra=self.arguments)

    def directives(self):
        revision = assembly.revision_of(self.app, self.job)
        return replace(directives_of(self.app), revision=revision)

    def lifecycle(self):
        around = Dependencies(
            runtime=self.world,
            jobs=cast(FlinkJobs, JobsOf(self.world)),
            store=self.store,
            source=cast(MetricsSource, None),
            records=self.records,
            folder=self.folder,
            clock=self.clock,
            on_tick=lambda tick: None,
            on_event=self.events.append,
            on_change=lambda change: None,
            directives=self.directives,
        )
        return assemble(self.app, around, job=self.job, plan=self.plan).lifecycle

    async def settled(self):
        """Return loops that fit the job, made as often as that takes."""
        for _ in range(4):
            lifecycle = self.lifecycle()
            try:
                await lifecycle.bring_up()
                assert await lifecycle.heal() is Health.RUNS
            except OperatorsChangedError as change:
                self.plan = change.plan
                continue
            return lifecycle
        raise AssertionError("the loops are made again and again")

    async def separate(self, lifecycle, *busy):
        assert self.world.plan is not None
        target, vertices = separate_vertices(
            self.app, self.world.plan, self.store.load().deployments, {}, busy
        )
        return await lifecycle.change(target, "busy", vertices=vertices)

    @property
    def joined(self):
        """What the job that runs was told of its vertices."""
        status = self.store.load()
        assert status.job_id is not None
        told = self.world.jobs[status.job_id].configuration
        own = {name: told.get(f"weir.vertices.{name}", name) for name in status.deployments}
        assert {key.split(".")[2] for key in told if key.startswith("weir.parallelism.")} == {*own}
        return own


@pytest.fixture
def stage_of(tmp_path):
    stages = []

    def build(*operators):
        stages.append(Stage(tmp_path, an_app(*operators)))
        return stages[-1]

    yield build
    for stage in stages:
        stage.records.close()


async def test_a_job_without_operators_starts_as_one_and_says_what_is_in_it(stage_of):
    stage = stage_of()

    await stage.settled()

    assert stage.store.load().deployments == {"job": {"any/1": 1}}
    assert stage.joined == {"job": ALL}
    [event] = [each for each in stage.events if each.reason == "OperatorsFound"]
    assert "job (source, parse, count, sink, commit)" in event.message


async def test_a_separated_vertex_is_followed_by_the_loops_and_no_record_is_lost(stage_of):
    stage = stage_of()
    lifecycle = await stage.settled()
    before = stage.store.load().revision
    stage.world.process(50)

    await stage.separate(lifecycle, "count")
    with pytest.raises(OperatorsChangedError):
        await lifecycle.heal()
    await stage.settled()

    assert stage.joined == {
        "source-and-1-more": "source parse",
        "count": "count",
        "sink-and-1-more": "sink commit",
    }
    stage.world.process(50)
    assert stage.world.lost_and_doubled() == (0, 0)
    after = stage.store.load().revision
    assert (before.id, before.vertices) != (after.id, after.vertices)
    assert before.id == after.id  # no upgrade: no other JobManager


async def test_a_separation_that_does_not_run_is_rolled_back_to_the_operators_of_before(stage_of):
    stage = stage_of()
    lifecycle = await stage.settled()
    stage.world.process(50)
    stage.world.broken_totals.add(3)

    await stage.separate(lifecycle, "count")

    assert await lifecycle.heal() is Health.RUNS
    assert stage.joined == {"job": ALL}
    assert stage.store.load().refused_revision is None, "the program that runs is not refused"
    stage.world.process(50)
    assert stage.world.lost_and_doubled() == (0, 0)


@pytest.mark.parametrize("deed", range(12))
async def test_a_controller_that_dies_in_a_separation_is_followed_by_one_that_ends_it(
    stage_of, deed
):
    stage = stage_of()
    lifecycle = await stage.settled()
    stage.world.process(50)
    left = deed

    def die():
        nonlocal left
        left -= 1
        if left < 0:
            stage.world.on_deed = lambda: None
            raise CrashError

    stage.world.on_deed = die
    with contextlib.suppress(CrashError):
        await stage.separate(lifecycle, "count")
    stage.world.on_deed = lambda: None
    stage.plan = None
    await stage.settled()

    assert set(stage.joined) in ({"job"}, {"source-and-1-more", "count", "sink-and-1-more"})
    stage.world.process(50)
    assert stage.world.lost_and_doubled() == (0, 0)


async def test_an_upgrade_to_a_program_with_other_vertices_takes_those(stage_of):
    stage = stage_of()
    lifecycle = await stage.settled()
    await stage.separate(lifecycle, "count")
    await stage.settled()
    stage.world.process(50)
    stage.arguments = ("--new",)
    stage.world.plan = a_plan(("source", "count"), ("count", "filter"), ("filter", "sink"))

    await stage.settled()
    stage.clock.time += 60
    await stage.settled()

    assert stage.joined == {
        "source": "source",
        "count": "count",
        "filter-and-1-more": "filter sink",
    }
    stage.world.process(50)
    assert stage.world.lost_and_doubled() == (0, 0)


async def test_a_refused_upgrade_to_a_program_with_other_vertices_is_not_tried_again(stage_of):
    stage = stage_of()
    await stage.settled()
    stage.world.process(50)
    stage.arguments = ("--new",)
    new = a_plan(("source", "count"), ("count", "filter"), ("filter", "sink"))
    stage.world.plans[stage.arguments] = new
    stage.world.broken_revisions.add(stage.directives().revision.id)

    await stage.settled()
    stage.world.broken_revisions.clear()
    jobs = len(stage.world.jobs)
    stage.clock.time += 86400
    await stage.settled()

    assert stage.store.load().refused_revision is not None
    assert len(stage.world.jobs) == jobs
    stage.world.process(50)
    assert stage.world.lost_and_doubled() == (0, 0)


GRAPH = JobGraph(managed={"hot": True})


class TriedFlink:
    """The REST interface of a JobManager that is tried."""

    def __init__(self, rest_url, *, timeout):
        assert rest_url == "http://trial:8081"

    async def __aenter__(self):
        return self

    async def __aexit__(self, *raised):
        """Nothing is held."""

    async def version(self):
        return "2.3.0"


@pytest.fixture
def programs(monkeypatch):
    """What the program of the other revision builds: a plan, or an error."""
    built: list[Plan | PermanentError] = []
    asked = [0]

    async def read(rest, jar, program):
        assert program.arguments[:1] == ("--new",)
        found = built[min(asked.pop(), len(built) - 1)]
        asked.append(1)
        if isinstance(found, Exception):
            raise found
        return found

    async def graph(rest, jar, program, *, operators, whole_job):
        assert (jar, operators, whole_job) == ("trial.jar", ("hot",), None)
        return GRAPH

    monkeypatch.setattr(discovery, "FlinkRest", TriedFlink)
    monkeypatch.setattr(discovery, "read_plan", read)
    monkeypatch.setattr(discovery, "read_graph", graph)
    return built


@pytest.mark.parametrize(
    ("built", "sentence"),
    [
        (PermanentError("Expected the job's program to build a job, got no file"), "got no file"),
        (a_plan(*CHAIN).model_copy(update={"not_restartable": "a batch job"}), "got a batch job"),
        (a_plan(("source", "sink")), "source, sink"),
        (a_plan(*CHAIN, limits={"count": 0}), "expected at most 0"),
    ],
)
async def test_an_upgrade_whose_program_does_not_run_leaves_the_job_alone(
    stage_of, programs, built, sentence
):
    stage = stage_of({"name": "hot", "vertices": ["count"]})
    await stage.settled()
    [job] = stage.world.jobs
    stage.world.tries = True
    stage.arguments = ("--new",)
    stage.world.plans[()] = a_plan(*CHAIN)
    programs.append(built)

    await stage.settled()

    assert list(stage.world.jobs) == [job]
    assert stage.world.jobs[job].state == "RUNNING"
    [event] = [each for each in stage.events if each.reason == "ChangeAbandoned"]
    assert sentence in event.message
    assert event.message.endswith("the job was left as it is")


async def test_an_upgrade_to_a_program_that_needs_all_of_its_arguments_is_let_through(
    stage_of, programs
):
    stage = stage_of({"name": "hot", "vertices": ALL.split()})
    await stage.settled()
    stage.world.tries = True
    stage.arguments = ("--new",)
    programs += [PermanentError("--weir.parallelism.hot is missing"), a_plan(*CHAIN)]

    await stage.settled()

    assert len(stage.world.jobs) == 2


async def an_upgraded_job(stage_of, programs):
    """Return what was a job in pods, once its upgrade, whose plan could be read, has ended."""
    stage = stage_of({"name": "hot", "vertices": ALL.split()})
    await stage.settled()
    stage.world.process(50)
    stage.world.tries = True
    stage.arguments = ("--new",)
    programs.append(a_plan(*CHAIN))
    await stage.settled()
    stage.world.process(50)
    assert len(stage.world.jobs) == 2
    assert stage.world.lost_and_doubled() == (0, 0)
    return stage


async def test_an_upgrade_whose_graph_was_read_before_the_stop_starts_all_its_pods_at_once(
    stage_of, programs
):
    stage = await an_upgraded_job(stage_of, programs)

    revision = stage.store.load().revision
    assert revision is not None
    assert stage.world.begun == [revision.id]
    assert revision.graph == GRAPH


@pytest.mark.parametrize("error", [TemporaryError("a catalog is away"), PermanentError("no graph")])
async def test_a_graph_that_cannot_be_read_before_the_stop_is_read_after_it(
    stage_of, programs, monkeypatch, error
):
    async def unread(rest, jar, program, *, operators, whole_job):
        raise error

    monkeypatch.setattr(discovery, "read_graph", unread)

    stage = await an_upgraded_job(stage_of, programs)

    assert stage.world.begun == []


async def test_an_upgrade_of_a_program_that_cannot_be_read_without_its_arguments_is_let_through(
    stage_of, programs
):
    stage = stage_of()
    stage.world.plan = None
    await stage.settled()
    stage.world.tries = True
    stage.arguments = ("--new",)
    programs.append(PermanentError("--parallelism.count is missing"))

    await stage.settled()

    assert len(stage.world.jobs) == 2


async def test_operators_that_do_not_fit_are_refused_before_the_job_is_touched(stage_of):
    stage = stage_of()
    await stage.settled()
    [job] = stage.world.jobs
    stage.app = an_app({"name": "hot", "vertices": ["coutn"]})

    with pytest.raises(PermanentError, match="source, parse, count, sink, commit"):
        await stage.settled()

    assert list(stage.world.jobs) == [job]
    assert stage.world.jobs[job].state == "RUNNING"


async def test_operators_that_never_fitted_start_nothing(stage_of):
    stage = stage_of({"name": "hot", "vertices": ["coutn"]})

    with pytest.raises((PermanentError, JobFailedError), match="coutn"):
        await stage.settled()

    assert stage.world.jobs == {}
    assert stage.store.load().job_id is None


async def test_a_job_that_cannot_be_restarted_is_refused_before_anything_starts(stage_of):
    stage = stage_of()
    stage.world.plan = a_plan(*CHAIN).model_copy(update={"not_restartable": "a batch job"})

    with pytest.raises(PermanentError, match="got a batch job"):
        await stage.settled()

    assert stage.world.jobs == {}
    assert stage.store.load().job_id is None


async def test_a_program_that_submits_several_jobs_is_refused_before_anything_starts(stage_of):
    stage = stage_of()
    stage.world.plan = a_plan(*CHAIN).model_copy(update={"several_jobs": True})

    with pytest.raises(PermanentError, match="expected a program that submits one job"):
        await stage.settled()

    assert stage.world.jobs == {}


async def test_a_flink_that_is_too_old_is_refused_before_a_job_is_submitted(stage_of):
    stage = stage_of()
    stage.world.flink_version = "1.17.2"

    with pytest.raises(PermanentError, match=r"got 1\.17\.2"):
        await stage.settled()

    assert stage.world.jobs == {}
    assert stage.store.load().job_id is None


async def test_a_first_start_whose_program_cannot_be_read_says_so_in_an_event(stage_of):
    stage = stage_of()
    stage.world.plan = None
    stage.world.unread = "Expected the job's program to build a job, got no file 'trace'"

    await stage.settled()

    [event] = [each for each in stage.events if each.reason == "PlanNotRead"]
    assert stage.world.unread in event.message
    assert event.severity == "Warning"
    assert stage.store.load().deployments == {"job": {"any/1": 1}}


async def test_a_job_that_runs_already_is_kept_although_it_would_be_refused_now(stage_of):
    stage = stage_of()
    await stage.settled()
    assert stage.world.plan is not None
    stage.world.plan = stage.world.plan.model_copy(update={"not_restartable": "a batch job"})

    await stage.settled()

    assert len(stage.world.jobs) == 1


async def test_without_an_agent_the_whole_job_is_one_operator_as_before(stage_of):
    stage = stage_of()
    stage.world.plan = a_plan(*CHAIN, agent="absent")

    await stage.settled()

    assert stage.store.load().deployments == {"job": {"any/1": 1}}
    assert stage.world.jobs[stage.store.load().job_id].configuration == {}


async def test_a_program_that_cannot_be_read_for_a_while_joins_nothing(stage_of):
    stage = stage_of()
    lifecycle = await stage.settled()
    await stage.separate(lifecycle, "count")
    lifecycle = await stage.settled()
    deployments = stage.store.load().deployments
    stage.world.plan = None

    assert await lifecycle.heal() is Health.RUNS
    stage.plan = None
    await stage.settled()

    assert stage.store.load().deployments == deployments
    assert len(stage.world.running()) == 1


@pytest.mark.parametrize("agent", ["absent", "it stepped back"])
async def test_a_controller_that_starts_while_the_agent_is_gone_joins_nothing(stage_of, agent):
    stage = stage_of()
    lifecycle = await stage.settled()
    await stage.separate(lifecycle, "count")
    await stage.settled()
    before, jobs = stage.store.load(), list(stage.world.jobs)
    stage.world.plan = a_plan(*CHAIN, agent=agent)
    stage.world.by_agent = PermanentError("The JobManager has no agent of Weir's")
    stage.plan = None

    lifecycle = await stage.settled()
    stage.clock.time += 3600
    await stage.settled()

    now = stage.store.load()
    assert (now.deployments, now.revision) == (before.deployments, before.revision)
    assert list(stage.world.jobs) == jobs
    assert lifecycle.fits(before.deployments)


async def test_a_job_that_was_suspended_keeps_its_operators_over_a_start_of_the_controller(
    stage_of,
):
    stage = stage_of()
    lifecycle = await stage.settled()
    await stage.separate(lifecycle, "count")
    lifecycle = await stage.settled()
    deployments = stage.store.load().deployments
    await lifecycle.suspend()
    stage.plan = None

    await stage.settled()

    assert stage.store.load().deployments == deployments
    assert set(stage.joined) == set(deployments)
    stage.world.process(50)
    assert stage.world.lost_and_doubled() == (0, 0)
