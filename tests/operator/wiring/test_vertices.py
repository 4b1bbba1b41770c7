"""The operators of a job are found in what its program builds."""

from __future__ import annotations

import math
from graphlib import TopologicalSorter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weir_operator.errors import PermanentError
from weir_operator.flink.job_graph import NO_LIMIT, Plan, PlannedVertex
from weir_operator.limits import MAX_VERTICES
from weir_operator.streamapp import world
from weir_operator.streamapp.loading import parse_manifest
from weir_operator.wiring.vertices import (
    describe_parallelism,
    discover_operators,
    group_vertices,
    separate_vertices,
    share_operators,
    vertices_of,
)

CHAIN = (("source", "parse"), ("parse", "count"), ("count", "sink"), ("sink", "commit"))


def a_plan(*edges, agent="ready", groups=(), pins_itself=False, joins=True, limits=None, uids=None):
    names = list(dict.fromkeys(name for edge in edges for name in edge))
    return Plan(
        groups=frozenset(groups),
        agent=agent,
        vertices=tuple(
            PlannedVertex(
                operator=name,
                id=f"{number:032x}",
                parallelism=1,
                limit=(limits or {}).get(name, NO_LIMIT),
                name=f"{name.title()} -> Map",
                uids=(uids or {}).get(name, ()),
            )
            for number, name in enumerate(names)
        ),
        edges=edges,
        pins_itself=pins_itself,
        joins=joins,
    )


def an_app(*operators, paths=(), most=128, limit=None):
    return parse_manifest(
        {
            "apiVersion": "weir.dev/v1alpha1",
            "kind": "StreamApp",
            "metadata": {"name": "trips"},
            "spec": {
                "flink": {"job": {"jar": "trips.jar"}, "maxParallelism": most},
                "objective": {
                    "responseTime": "500ms",
                    "paths": [{"sink": sink, "responseTime": "100ms"} for sink in paths],
                },
                "nodePools": [
                    {
                        "name": "any",
                        "sizes": ["500m", "1"],
                        **({} if limit is None else {"maxReplicas": limit}),
                    }
                ],
                "operators": list(operators),
            },
        }
    )


def found(app, plan, known=()):
    return vertices_of(discover_operators(app, plan, known))


def test_a_vertex_named_as_the_whole_job_is_not_taken_for_separated():
    assert set(found(an_app(), a_plan(("source", "job"), ("job", "sink")), ("job",))) == {"job"}


def test_a_sink_with_a_bound_of_its_own_is_an_operator_of_its_own():
    operators = found(an_app(paths=["sink"]), a_plan(*CHAIN))

    assert operators["sink"] == ("sink",)


def test_what_is_listed_is_as_listed_and_the_others_share():
    app = an_app(
        {"name": "count", "maxReplicas": 4}, {"name": "ends", "vertices": ["sink", "commit"]}
    )

    discovered = discover_operators(app, a_plan(*CHAIN), ())

    assert vertices_of(discovered) == {
        "source-and-1-more": ("source", "parse"),
        "count": ("count",),
        "ends": ("sink", "commit"),
    }
    assert world.operator_named(discovered, "count").max_replicas == 4


def test_a_star_joins_all_that_no_operator_names():
    app = an_app({"name": "whole", "vertices": ["*"]})

    assert found(app, a_plan(*CHAIN), known=["count"]) == {
        "whole": ("source", "parse", "count", "sink", "commit")
    }


@pytest.mark.parametrize("asked", ["count", f"{2:032x}", "my uid", "Count -> Map", "count-map"])
def test_a_vertex_is_named_by_name_id_uid_functions_or_as_in_an_advice(asked):
    plan = a_plan(*CHAIN, uids={"count": ("my uid",)})

    assert found(an_app({"name": "hot", "vertices": [asked]}), plan)["hot"] == ("count",)


def test_an_operator_has_no_more_replicas_than_its_vertices_can_have():
    plan = a_plan(*CHAIN, limits={"count": 1, "parse": 6})

    app = discover_operators(an_app({"name": "count", "maxReplicas": 5}, most=8), plan, ())

    assert [each.max_replicas for each in app.spec.operators] == [6, 1, 8]


@pytest.mark.parametrize(
    ("operators", "said"),
    [
        (
            [{"name": "nobody"}],
            r'operators\["nobody"\].name: expected a vertex of the job \(source, parse, count, '
            r"sink, commit\), got 'nobody'",
        ),
        (
            [{"name": "hot", "vertices": ["coutn"]}],
            r'operators\["hot"\].vertices: expected a vertex of the job \(source, .*got \'coutn\'',
        ),
        (
            [
                {"name": "hot", "vertices": ["count"]},
                {"name": "hotter", "vertices": ["Count -> Map"]},
            ],
            r'operators\["hotter"\].vertices: .* no other operator has, got .*, which hot has',
        ),
        (
            [{"name": "parse", "vertices": ["count"]}],
            r'operators\["parse"\].name: expected a name that no other vertex has',
        ),
        (
            [{"name": "ends", "vertices": ["source", "sink"]}],
            r'operators\["ends"\].vertices: expected vertices that records do not leave and come',
        ),
        (
            [
                {"name": "all", "vertices": [*dict(CHAIN), "commit"]},
                {"name": "x", "vertices": ["*"]},
            ],
            r'operators\["x"\].vertices: expected vertices that are left, got none',
        ),
    ],
    ids=["name", "vertex", "twice", "taken", "circle", "nothing left"],
)
def test_operators_that_do_not_fit_the_job_are_refused_with_the_vertices_that_there_are(
    operators, said
):
    with pytest.raises(PermanentError, match=said):
        discover_operators(an_app(*operators), a_plan(*CHAIN), ())


@pytest.mark.parametrize(
    "plan",
    [
        None,
        a_plan(*CHAIN, agent="absent"),
        a_plan(*CHAIN, agent="The job is a batch job"),
        a_plan(*CHAIN, groups=["count"], pins_itself=True),
        a_plan(*CHAIN, joins=False),
    ],
    ids=["not read", "no agent", "batch", "pins itself", "earlier agent"],
)
def test_where_the_agent_pins_nothing_the_manifest_stands_as_it_is(plan):
    app = an_app()

    assert discover_operators(app, plan, ()) is app
    with pytest.raises(PermanentError, match="vertices: expected"):
        discover_operators(an_app({"name": "hot", "vertices": ["count"]}), plan, ())


WORK = {"source": 0.04, "parse": 0.2, "count": 1.5, "sink": 0.02, "commit": 0.0}


def test_separated_vertices_get_the_replicas_that_their_work_needs_on_the_fastest_nodes():
    app, plan = an_app(), a_plan(*CHAIN)

    target, vertices = separate_vertices(
        app, plan, {"job": {"any/500m": 2, "any/1": 2}}, WORK, ["count", "parse"]
    )

    assert target == {
        "source": {"any/1": 1},
        "parse": {"any/1": 1},
        "count": {"any/1": 2, "any/500m": 1},
        "sink-and-1-more": {"any/1": 1},
    }
    assert vertices == found(app, plan, known=target)


def test_separated_vertices_get_no_more_replicas_than_they_had_or_can_have():
    app, plan = an_app(), a_plan(*CHAIN, limits={"parse": 1})
    busy = WORK | {"parse": 3.0, "count": 20.0}

    target, _ = separate_vertices(app, plan, {"job": {"any/1": 3}}, busy, ["count", "parse"])

    assert target["count"] == {"any/1": 3}
    assert target["parse"] == {"any/1": 1}


def test_an_overloaded_vertex_leaves_with_the_replicas_that_the_policy_asks_for():
    app, plan = an_app(limit=12), a_plan(*CHAIN)
    shared = share_operators(app, plan, found(app, plan))
    assert shared is not None
    measured = {each.id: WORK[each.operator] / 1.76 for each in plan.vertices}
    job = {"job": {"any/1": 1}}

    separation = shared.find_separation(job, measured, {"job": {"any/1": 4}})
    alone = shared.find_separation(job, measured)

    assert separation is not None
    assert alone is not None
    assert separation.target["count"] == {"any/1": 4}
    assert separation.target["parse"] == {"any/1": 1}
    assert alone.target["count"] == {"any/1": 1}


def test_where_that_does_not_fit_it_leaves_with_what_it_needs_for_its_measured_work():
    app, plan = an_app(limit=5), a_plan(*CHAIN)
    shared = share_operators(app, plan, found(app, plan))
    assert shared is not None
    measured = {each.id: WORK[each.operator] / 1.76 for each in plan.vertices}

    separation = shared.find_separation({"job": {"any/1": 1}}, measured, {"job": {"any/1": 4}})

    assert separation is not None
    assert separation.target["count"] == {"any/1": 1}


def test_what_is_left_keeps_its_replicas_where_a_part_of_it_reports_no_work():
    app, plan = an_app(), a_plan(*CHAIN)

    target, _ = separate_vertices(
        app, plan, {"job": {"any/1": 3}}, WORK | {"source": math.nan}, ["count"]
    )

    assert target["source-and-1-more"] == {"any/1": 3}
    assert target["sink-and-1-more"] == {"any/1": 1}


MANY = [f"v{number}" for number in range(16)]


def sixteen_vertices(*, limit=None):
    """Return what shares the job, and what is measured: 8 subtasks, each busy for 1.25 %."""
    app, plan = an_app(limit=limit), a_plan(*pairwise(MANY))
    shared = share_operators(app, plan, found(app, plan))
    assert shared is not None
    return shared, {each.id: 8 * 0.0125 for each in plan.vertices}


def replicas_of(separation):
    return sum(sum(counts.values()) for counts in separation.target.values())


def test_many_vertices_with_little_work_do_not_multiply_the_replicas():
    shared, measured = sixteen_vertices()

    separation = shared.find_separation({"job": {"any/1": 8}}, measured)

    assert separation is not None
    assert set(separation.busy) == {*MANY}
    assert replicas_of(separation) == 16
    assert separation.scales_in


def test_no_more_vertices_are_separated_than_the_pools_hold_and_the_busiest_come_first():
    shared, measured = sixteen_vertices(limit=8)
    [last] = [id_ for id_, name in shared.vertices["job"].items() if name == "v15"]

    separation = shared.find_separation({"job": {"any/1": 8}}, measured | {last: 0.6})

    assert separation is not None
    assert next(iter(separation.busy)) == "v15"
    assert separation.busy.keys() | separation.waiting.keys() == {*MANY}
    assert separation.waiting
    assert replicas_of(separation) <= 8
    assert set(separation.busy) <= set(separation.target)


def test_where_the_pools_have_no_room_at_all_nothing_is_separated():
    shared, measured = sixteen_vertices(limit=1)

    separation = shared.find_separation({"job": {"any/1": 1}}, measured)

    assert separation is not None
    assert separation.busy == {}
    assert separation.target == {"job": {"any/1": 1}}


def test_only_operators_that_the_manifest_does_not_name_are_measured_by_vertex():
    app, plan = an_app({"name": "ends", "vertices": ["sink", "commit"]}), a_plan(*CHAIN)

    shared = share_operators(app, plan, found(app, plan))

    assert shared is not None
    assert list(shared.vertices) == ["source-and-2-more"]
    assert shared.find_busy({f"{1:032x}": 0.4, f"{2:032x}": 0.05, f"{3:032x}": 0.9}) == {
        "parse": 0.4
    }
    assert share_operators(app, plan, {}) is None


@given(st.data())
def test_operators_never_form_a_circle_and_the_same_status_gives_the_same_ones(data):
    names = [f"v{number}" for number in range(data.draw(st.integers(2, 9)))]
    pairs = [(a, b) for i, a in enumerate(names) for b in names[i + 1 :]]
    edges = data.draw(st.lists(st.sampled_from(pairs), unique=True, min_size=1))
    plan = a_plan(*edges)
    busy = data.draw(st.sets(st.sampled_from(plan.operators)))

    vertices = group_vertices(plan, (), busy)

    owner = {vertex: name for name, parts in vertices.items() for vertex in parts}
    feeders: dict[str, set[str]] = {}
    for source, target in edges:
        if owner[source] != owner[target]:
            feeders.setdefault(owner[target], set()).add(owner[source])
    assert sorted(owner) == sorted(plan.operators)
    assert all(vertices[name] == (name,) for name in busy)
    tuple(TopologicalSorter(feeders).static_order())  # which refuses a circle


def test_the_largest_program_is_divided_however_its_vertices_are_connected():
    names = [f"v{number}" for number in range(MAX_VERTICES)]
    edges = [(source, to) for i, source in enumerate(names) for to in names[i + 1 : i + 9]]
    plan = a_plan(*edges)

    vertices = group_vertices(plan, (), {names[100], names[500]})

    assert len(vertices) == 5


def test_the_parallelism_that_a_program_asks_for_is_said_to_be_overridden():
    plan = a_plan(*CHAIN)
    eight = [each.model_copy(update={"parallelism": 8}) for each in plan.vertices]

    assert describe_parallelism(plan) == ""
    assert describe_parallelism(plan.model_copy(update={"vertices": tuple(eight)})).startswith(
        "The program asks for parallelism 8, which Weir overrides"
    )
