"""What Nexmark's benchmark makes of Flink's answers, of its runs, and of what it has kept."""

from __future__ import annotations

from dataclasses import asdict
from itertools import count
from typing import Any

import numpy as np
import pytest

from benchmarks.flink import nexmark
from benchmarks.flink.nexmark import (
    BUSIEST,
    COUNTED_IN,
    POLICIES,
    STATIC,
    NodeJson,
    QueryOutcome,
    VertexCost,
    VertexJson,
    count_at_peak,
    describe,
    figures_of,
    vertex_costs,
)
from benchmarks.policies.live.outcomes import load_outcomes
from weir_simulator.traces import write_trace


def a_vertex(name: str, *, read: float = 0.0, busy: float = 0.0) -> VertexJson:
    """Return what Flink answers of a vertex that has been busy for so many ms."""
    metrics = {"read-records": read, "accumulated-busy-time": busy, "write-records": 0.0}
    return VertexJson(id=f"id-{name}", name=name, metrics=metrics)


def nodes(**inputs: list[str]) -> list[NodeJson]:
    """Return a plan: names of the vertices that feed each."""
    return [
        NodeJson(id=f"id-{name}", inputs=[{"id": f"id-{each}"} for each in feeding])
        for name, feeding in inputs.items()
    ]


JOIN = nodes(source=[], left=["source"], right=["source"], join=["left", "right", "left"])


def costs(first, last, plan, cpu):
    return {each.name: each for each in vertex_costs(first, last, plan, cpu)}


def test_a_vertex_costs_the_cpu_of_its_thread_per_record_that_it_read_meanwhile():
    first = [a_vertex("source"), a_vertex("calc", read=1000)]
    last = [a_vertex("source"), a_vertex("calc", read=5000, busy=100)]
    cpu = {"source (1/1)#0": 9.0, "calc (1/1)#0": 2.0}

    found = costs(first, last, nodes(source=[], calc=["source"]), cpu)

    assert found == {"calc": VertexCost(name="calc", read=4000, service=2.0 / 4000, inputs=())}


def test_threads_that_the_kernel_calls_the_same_share_their_cpu_by_busy_time():
    # The kernel keeps 15 characters of a thread's name.
    early, late = "GlobalWindowAggregate[5]", "GlobalWindowAggregate[10]"
    first = [a_vertex("source"), a_vertex(early, busy=500), a_vertex(late, busy=100)]
    last = [
        a_vertex("source"),
        a_vertex(early, read=100, busy=500 + 300),
        a_vertex(late, read=10, busy=100 + 100),
    ]
    plan = nodes(**{"source": [], early: ["source"], late: [early]})

    found = costs(first, last, plan, {"GlobalWindowAgg": 4.0})

    assert found[early].service * found[early].read == pytest.approx(3.0)
    assert found[late].service * found[late].read == pytest.approx(1.0)


def test_a_vertex_that_hardly_ran_is_taken_to_need_what_the_kernel_counts_in():
    first = [a_vertex("source"), a_vertex("idle"), a_vertex("unread")]
    last = [a_vertex("source"), a_vertex("idle", read=5), a_vertex("unread")]

    found = costs(first, last, nodes(source=[], idle=["source"], unread=["source"]), {})

    assert found["idle"].service == pytest.approx(COUNTED_IN / 5)
    assert found["unread"].service == pytest.approx(COUNTED_IN)


def test_the_source_is_left_out_of_the_costs_and_of_the_edges():
    named = [a_vertex(name) for name in ("source", "left", "right", "join")]

    found = vertex_costs(named, named, JOIN, {"source (1/1)#0": 5.0})

    # Places among the vertices behind the source; the join's second edge from `left` is none.
    assert [(each.name, each.inputs) for each in found] == [
        ("left", ()),
        ("right", ()),
        ("join", (0, 1)),
    ]


def a_cost(name, *, read, service, inputs=()):
    return VertexCost(name=name, read=read, service=service, inputs=inputs)


def test_a_query_is_simulated_with_the_rates_that_its_vertices_had(tmp_path):
    vertices = [
        a_cost("left", read=1000, service=0.001),
        a_cost("right", read=1000, service=0.002),
        a_cost("join", read=500, service=0.01, inputs=(0, 1)),
        a_cost("sink", read=1500, service=0.001, inputs=(2,)),
    ]
    trace = tmp_path / "trace.txt"
    write_trace(trace, np.ones(1))

    experiment = describe(vertices, 1000, trace)

    flow = experiment.dataflow
    rates = flow.spread_rates(dict.fromkeys(flow.sources, 1000.0))
    assert rates == pytest.approx({"v1": 1000, "v2": 1000, "v3": 500, "v4": 1500})
    assert [each.service_rate for each in experiment.operators] == pytest.approx(
        [1000, 500, 100, 1000]
    )
    assert experiment.objective.response_time == pytest.approx(10 * 0.014)


@pytest.mark.parametrize(
    ("needed", "replicas"), [(BUSIEST, 6), (BUSIEST + 0.01, 7), (0.7, 1), (0.71, 2), (1e-6, 1)]
)
def test_a_deployment_for_the_peak_has_the_fewest_replicas_that_are_busy_for_70_percent(
    needed, replicas
):
    assert count_at_peak(needed) == replicas


def an_outcome(query: str = "q0", **fields: Any) -> QueryOutcome:
    money = dict.fromkeys((STATIC, *POLICIES), 4.0)
    given: dict[str, Any] = {
        "query": query,
        "done": 3,
        "lost": 0,
        "wrong": 0,
        "compared": 100,
        "events": 60_000,
        "cpu": 2.0,
        "vertices": [],
        "cost": dict.fromkeys((STATIC, *POLICIES), 0.1),
        "money": money,
        "violations": dict.fromkeys((STATIC, *POLICIES), 0.0),
        "load": 1.0,
        "commit": None,
    }
    return QueryOutcome(**given | fields)


def by_name(outcomes):
    return {each.figure: each for each in figures_of(outcomes)}


def test_the_rate_per_core_is_of_the_cpu_that_the_vertices_took():
    figures = by_name([an_outcome("q0"), an_outcome("q1", events=1000, cpu=0.5)])

    assert figures["q0: rate per core"].value == 30_000
    assert figures["q1: rate per core"].value == 2000


@pytest.mark.parametrize(
    ("fields", "done", "exact"),
    [
        ({}, True, True),
        ({"done": 2}, False, True),
        ({"lost": 1}, True, False),
        ({"wrong": 1}, True, False),
        ({"compared": 0}, True, False),
    ],
    ids=["all is well", "a change failed", "a row is lost", "a row is wrong", "nothing to compare"],
)
def test_one_query_that_fails_fails_the_goal_of_all(fields, done, exact):
    figures = by_name([an_outcome("q0"), an_outcome("q1", **fields)])

    assert figures["changes that succeeded"].holds is done
    assert figures["rows lost or wrong after the changes"].holds is exact


@pytest.mark.parametrize(("second", "ratio", "holds"), [(0.2, 1.0, True), (0.4, 2**0.5, False)])
def test_costs_are_compared_by_the_geometric_mean_of_their_ratios(second, ratio, holds):
    costs = dict.fromkeys((STATIC, *POLICIES), 0.1)
    outcomes = [
        an_outcome("q0", cost=costs | {"planner": 0.05}),
        an_outcome("q1", cost=costs | {"planner": second}),
    ]

    figure = by_name(outcomes)["planner / ds2: cost, geometric mean of 2 queries"]

    assert figure.value == pytest.approx(ratio)
    assert figure.holds is holds


def test_violations_and_load_are_means_over_the_queries():
    late = dict.fromkeys((STATIC, *POLICIES), 0.0) | {"ds2": 3.0}
    figures = by_name([an_outcome("q0", load=2.0), an_outcome("q1", violations=late, load=5.0)])

    assert figures["minutes beyond the bound with ds2"].value == 1.5
    assert figures["load average beside the runs, mean"].value == 3.5


@pytest.fixture
def measured(tmp_path, monkeypatch):
    """Let runs be made up: of each call, a query has one lost row more than of the last."""
    lost = count()

    async def rescale(query, jar):
        return 3, next(lost), 0, 100

    async def race(query, jar):
        return 1000, 0.5, [a_cost("calc", read=1000, service=0.0005)]

    policies = dict.fromkeys((STATIC, *POLICIES), 1.0)
    monkeypatch.setattr(nexmark, "FOLDER", tmp_path)
    monkeypatch.setattr(nexmark, "build_example", lambda name: tmp_path / f"{name}.jar")
    monkeypatch.setattr(nexmark, "_rescale", rescale)
    monkeypatch.setattr(nexmark, "_race", race)
    monkeypatch.setattr(nexmark, "compare_policies", lambda *_: (policies, policies, policies))
    written: list[Any] = []
    monkeypatch.setattr(nexmark, "write_outcomes", lambda name, told: written.append(told))
    return written


def run_queries(monkeypatch, queries):
    monkeypatch.setenv("NEXMARK_QUERIES", queries)
    return {each.figure: each.value for each in nexmark.run()}


def test_figures_are_of_all_queries_that_earlier_calls_ran(measured, monkeypatch):
    run_queries(monkeypatch, "q11")

    figures = run_queries(monkeypatch, "q2")

    assert figures["changes that succeeded"] == 6
    assert figures["q2: rate per core"] == figures["q11: rate per core"] == 2000
    assert [each["query"] for each in measured[-1]] == ["q2", "q11"]  # in Nexmark's order


def test_a_query_that_is_run_again_replaces_what_was_kept_of_it(measured, monkeypatch):
    run_queries(monkeypatch, "q2,q3")

    figures = run_queries(monkeypatch, "q2")

    assert [(each["query"], each["lost"]) for each in measured[-1]] == [("q2", 2), ("q3", 1)]
    assert figures["rows lost or wrong after the changes"] == 3


def test_an_outcome_is_kept_whole(measured, monkeypatch, tmp_path):
    run_queries(monkeypatch, "q2")

    [kept] = load_outcomes(tmp_path / "outcomes", QueryOutcome)

    assert asdict(kept) == measured[-1][0]
    assert kept.per_core == 2000
