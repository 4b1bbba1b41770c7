"""What a job's program builds is known before it runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from weir_operator.errors import NotInProgramError, PermanentError
from weir_operator.flink.jars import REPOSITORY, build_example, build_jar
from weir_operator.flink.job_graph import (
    NO_LIMIT,
    JobGraph,
    is_pinned_by_agent,
    parse_graph,
    parse_plan,
)
from weir_operator.flink.programs import Program, read_graph, read_lines, read_plan

OPERATORS = ("source", "bid", "count", "sink")
LINES = (
    "slot sink false",
    "slot source true",
    "slot source false",
    "slot elsewhere true",
    "stream source sink 2",
    "stream source elsewhere 1",
    "stream source source 1",
)


def test_operators_are_read_and_what_is_none_is_left_out():
    assert parse_graph(LINES, operators=("source", "sink"), whole_job=None) == JobGraph(
        managed={"source": True, "sink": False},
        streams=(("source", "sink", 2), ("source", "source", 1)),
    )


def test_a_job_that_is_one_operator_is_read_as_one():
    assert parse_graph(LINES, operators=("job",), whole_job="job") == JobGraph(
        managed={"job": True}, streams=(("job", "job", 4),)
    )


def test_lines_that_a_job_made_up_are_not_taken_for_a_graph():
    lines = ("slot", "stream source sink many", "slot source", "other source sink 1", "")

    assert parse_graph(lines, operators=("source", "sink"), whole_job=None) == JobGraph()


def test_half_an_answer_is_none():
    assert read_lines("x: weir-graph begin\nweir-graph slot a true", "weir-graph") is None


@pytest.mark.flink
@pytest.mark.asyncio(loop_scope="module")
async def test_a_real_jobmanager_tells_who_uses_managed_memory_and_submits_nothing(
    lone_job_manager,
):
    rest = lone_job_manager
    trace = str(REPOSITORY / "examples/hotitems/trace.txt")
    before = await rest.jars()

    async def read(backend, *arguments):
        return await read_graph(
            rest,
            jar,
            Program(
                entry_class=None,
                arguments=arguments,
                configuration={"state.backend.type": backend, "weir.parallelism.count": "2"},
            ),
            operators=OPERATORS,
            whole_job=None,
        )

    jar = await rest.upload_jar(str(build_example("hotitems")))
    rocksdb = await read("rocksdb", "--trace", trace)
    on_heap = await read("hashmap", "--trace", trace)
    with pytest.raises(PermanentError, match="'trace'"):
        await read("hashmap")
    jobs, jars = await rest.jobs(), await rest.jars()

    assert rocksdb.managed == {"source": False, "bid": False, "count": True, "sink": True}
    assert on_heap.managed == dict.fromkeys(OPERATORS, False)
    assert set(rocksdb.streams) == {
        ("source", "bid", 1),
        ("bid", "count", 1),
        ("count", "sink", 1),
    }
    assert jobs == ()
    assert {*jars} - {*before} == {jar}


@pytest.mark.flink
@pytest.mark.asyncio(loop_scope="module")
async def test_a_real_jobmanager_tells_that_a_program_submits_several_jobs(
    lone_job_manager, tmp_path
):
    rest = lone_job_manager
    source = Path(__file__).parent / "SeveralJobs.java"
    program = build_jar((source,), tmp_path / "several-jobs.jar", entry_class="SeveralJobs")

    async def read(jobs):
        program = Program(entry_class=None, arguments=(jobs,), configuration={})
        plan = await read_plan(rest, jar, program)
        return plan.several_jobs

    jar = await rest.upload_jar(str(program))
    found = {jobs: await read(jobs) for jobs in ("one", "awaited", "two", "tables")}
    submitted = await rest.jobs()

    assert found == {"one": False, "awaited": False, "two": True, "tables": True}
    assert submitted == ()


PLANNED = (
    "slot default false",
    "agent-slot numbers false",
    "agent-slot odd-window true",
    "agent-stream numbers odd-window 1",
    f"vertex numbers {'a' * 32} 1 32768 Source: numbers -> Map",
    f"vertex odd-window {'b' * 32} 1 1 odd window -> Sink: Print",
    "agent ready",
)


def test_a_program_that_names_no_operator_is_read_by_the_agents_operators():
    plan = parse_plan(PLANNED)

    assert plan.operators == ("numbers", "odd-window")
    assert [(each.id[0], each.limit, each.name) for each in plan.vertices] == [
        ("a", NO_LIMIT, "Source: numbers -> Map"),
        ("b", 1, "odd window -> Sink: Print"),
    ]
    assert is_pinned_by_agent(plan, {"numbers": 4, "odd-window": 1})
    assert parse_graph(PLANNED, operators=plan.operators, whole_job=None) == JobGraph(
        managed={"numbers": False, "odd-window": True}, streams=(("numbers", "odd-window", 1),)
    )


@pytest.mark.parametrize(
    "lines",
    [("slot default false", "agent absent"), ("slot default false",), (*LINES, *PLANNED[1:])],
    ids=["no agent", "an old program", "the program pins itself"],
)
def test_the_agent_does_not_pin_what_it_need_not_or_cannot(lines):
    assert not is_pinned_by_agent(parse_plan(lines), {"source": 1, "sink": 1})


@pytest.mark.parametrize(
    ("most", "said"),
    [
        ({"numbers": 1}, r"operators \['numbers', 'odd-window'\], got \['numbers'\]; `weir graph`"),
        ({"number": 1, "odd-window": 1}, r"got \['number', 'odd-window'\]; did you mean 'numbers'"),
        ({"numbers": 1, "odd-window": 2}, r'operators\["odd-window"\].maxReplicas: .* at most 1'),
    ],
)
def test_operators_that_the_agent_cannot_make_are_refused(most, said):
    with pytest.raises(PermanentError, match=said):
        is_pinned_by_agent(parse_plan(PLANNED), most)


@pytest.mark.parametrize("agent", ["absent", "ready"])
def test_an_operator_that_a_program_with_its_own_groups_lacks_is_refused(agent):
    lines = ("slot source false", "slot match true", "slot default false", f"agent {agent}")
    said = r"groups \['match', 'source'\], got \['mach', 'source'\]; did you mean 'match'\?"

    with pytest.raises(NotInProgramError, match=said):
        is_pinned_by_agent(parse_plan(lines), {"source": 1, "mach": 1})
    with pytest.raises(NotInProgramError, match=said):
        parse_graph(lines, operators=("source", "mach"), whole_job=None)


def test_an_agent_that_failed_is_named_with_a_remedy():
    plan = parse_plan((*PLANNED[:-1], "agent failed the id of Map would change"))

    with pytest.raises(PermanentError, match=r"the id of Map would change; leave out"):
        is_pinned_by_agent(plan, {"numbers": 1, "odd-window": 1})


DETAILED = (
    *PLANNED,
    f"uid {'a' * 32} my numbers",
    "edge numbers odd-window",
)


def test_a_plan_tells_uids_edges_and_whether_the_program_pins_itself():
    plan = parse_plan(DETAILED)

    assert plan.vertices[0].uids == ("my numbers",)
    assert plan.edges == (("numbers", "odd-window"),)
    assert not plan.pins_itself
    assert parse_plan((*DETAILED, "pins-itself")).pins_itself


def test_a_job_that_cannot_go_on_from_a_savepoint_is_refused_with_a_remedy():
    plan = parse_plan((*DETAILED, "not-restartable a batch job, of which Flink takes no savepoint"))

    with pytest.raises(PermanentError, match=r"got a batch job, of which .*; run it without Weir"):
        is_pinned_by_agent(plan, {"numbers": 1, "odd-window": 1})


def test_a_program_that_submits_several_jobs_is_refused_with_a_remedy():
    plan = parse_plan((*DETAILED, "several-jobs"))

    assert plan.several_jobs
    with pytest.raises(PermanentError, match=r"expected a program that submits one job, got one"):
        is_pinned_by_agent(plan, {"numbers": 1, "odd-window": 1})


def test_operators_that_several_vertices_share_are_pinned_up_to_their_least_limit():
    plan, whole = parse_plan(DETAILED), {"job": ("numbers", "odd-window")}

    assert is_pinned_by_agent(plan, {"job": 1}, whole)
    with pytest.raises(PermanentError, match="at most 1"):
        is_pinned_by_agent(plan, {"job": 2}, whole)
    with pytest.raises(PermanentError, match=r"program with the vertices .*, got \['numbers'"):
        is_pinned_by_agent(plan, {"job": 1}, {"job": ("numbers",)})
    with pytest.raises(PermanentError, match="no agent"):
        is_pinned_by_agent(parse_plan(("agent absent",)), {"job": 1}, whole)
