import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.operator.flink.builders import a_job
from weir_operator.errors import PermanentError, TemporaryError
from weir_operator.flink import answers
from weir_operator.flink.answers import Subtask
from weir_operator.flink.topology import (
    OperatorEdge,
    build_topology,
    group_vertices,
    idle_operators,
)

RECORDED = Path(__file__).parent / "recorded"


def on(*task_managers):
    return tuple(
        Subtask(index=index, status="RUNNING", task_manager=each)
        for index, each in enumerate(task_managers)
    )


def test_a_recorded_job_is_found_operator_by_operator():
    job = answers.read_job(json.loads((RECORDED / "job.json").read_text()))
    vertices = json.loads((RECORDED / "vertices.json").read_text())
    subtasks = {id_: answers.read_subtasks(answer) for id_, answer in vertices.items()}
    managers = answers.read_task_managers(json.loads((RECORDED / "taskmanagers.json").read_text()))
    operator_of = {each.id: each.id.split("-")[1] for each in managers}

    topology = build_topology(job, subtasks, operator_of)

    assert topology.operators == ("numbers", "work")
    assert topology.sources == ("numbers",)
    assert topology.edges == (
        OperatorEdge(source="numbers", target="work", keyed=True, balanced=False),
    )
    assert [vertex.parallelism for vertex in topology.vertices["work"]] == [2]
    assert topology.running_for == 4.111


def test_streams_inside_an_operator_are_no_edges_and_parallel_streams_are_one():
    job = a_job(
        ["read", "parse", "count", "write"],
        [
            ("read", "parse", "FORWARD"),
            ("parse", "count", "HASH"),
            ("read", "count", "REBALANCE"),
            ("count", "write", "FORWARD"),
        ],
    )
    subtasks = {"read": on("a"), "parse": on("a"), "count": on("b"), "write": on("c")}

    topology = build_topology(job, subtasks, {"a": "in", "b": "work", "c": "out"})

    assert topology.edges == (
        OperatorEdge(source="in", target="work", keyed=True, balanced=True),
        OperatorEdge(source="work", target="out", keyed=False, balanced=False),
    )
    assert [vertex.name for vertex in topology.vertices["in"]] == ["read", "parse"]
    keyed = [(operator, vertex.name) for operator, vertex in topology.keyed]
    assert keyed == [("in", "parse"), ("work", "count")]


def test_a_vertex_on_task_managers_of_two_operators_names_the_remedy():
    job = a_job(["map"], [])

    with pytest.raises(PermanentError, match=r"'map'.*\['in', 'out'\].*weir graph.*Weir\.pin"):
        build_topology(job, {"map": on("a", "c")}, {"a": "in", "c": "out"})


@pytest.mark.parametrize("task_manager", [None, "stranger"])
def test_a_subtask_without_a_known_task_manager_is_worth_another_look(task_manager):
    job = a_job(["map"], [])

    with pytest.raises(TemporaryError, match="Subtask 0 of 'map'"):
        build_topology(job, {"map": on(task_manager)}, {"a": "in"})


def test_an_operator_without_tasks_is_named():
    topology = build_topology(a_job(["map"], []), {"map": on("a")}, {"a": "in"})

    sentence = idle_operators(topology, ["in", "out"])

    assert idle_operators(topology, ["in", "in"]) is None
    assert sentence is not None
    assert "['out']" in sentence
    assert "Weir.pin" in sentence


def test_a_task_manager_whose_subtask_of_the_first_vertex_has_ended_is_drained():
    job = a_job(["read", "parse"], [("read", "parse", "FORWARD")])
    reads, parses = on("a", "b"), on("a", "b")
    ended = replace(reads[1], status="FINISHED")

    topology = build_topology(
        job, {"read": (reads[0], ended), "parse": parses}, {"a": "job", "b": "job"}
    )

    assert topology.drained == {"b"}


@pytest.mark.parametrize(
    ("status", "running_for"), [("RUNNING", 3.0), ("FINISHED", 60.0), ("INITIALIZING", 0.0)]
)
def test_a_job_runs_since_the_last_of_its_tasks_that_have_not_ended(status, running_for):
    job = a_job(["read", "parse"], [("read", "parse", "FORWARD")])
    old = replace(on("a")[0], running_for=60.0)
    other = replace(old, status=status, running_for=3.0 if status == "RUNNING" else 0.0)

    topology = build_topology(job, {"read": (other,), "parse": (old,)}, {"a": "job"})

    assert topology.running_for == running_for


def test_a_vertex_runs_though_one_of_its_subtasks_has_come_to_its_own_end():
    [vertex] = a_job(["read"], []).vertices

    assert replace(vertex, parallelism=2, tasks={"RUNNING": 1, "FINISHED": 1}).is_running
    assert not replace(vertex, parallelism=2, tasks={"RUNNING": 1, "SCHEDULED": 1}).is_running


def test_an_operator_of_several_vertices_takes_in_and_gives_at_its_ends():
    job = a_job(
        ("source", "parse", "audit", "count", "sink"),
        (
            ("source", "parse", "HASH"),
            ("parse", "audit", "REBALANCE"),
            ("parse", "count", "HASH"),
            ("count", "sink", "REBALANCE"),
        ),
    )
    operator_of = dict.fromkeys(("source", "parse", "audit"), "first") | {
        "count": "second",
        "sink": "second",
    }

    topology = group_vertices(job, operator_of)

    assert topology.entries == {"first": {"source"}, "second": {"count"}}
    assert topology.exits == {"first": {"parse"}, "second": {"sink"}}
