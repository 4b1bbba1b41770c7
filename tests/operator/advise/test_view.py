"""A stock job as Weir sees it, from what Flink 2.3 answered for one."""

import itertools
import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from tests.operator.streamapp.builders import a_stream_app
from weir_operator.advise.flink import read_counters
from weir_operator.advise.view import (
    PodPlace,
    external_app,
    name_vertices,
    size_of,
    unknown_operators,
    view_job,
)
from weir_operator.errors import PermanentError, TemporaryError
from weir_operator.flink import answers
from weir_operator.limits import MAX_VERTICES
from weir_operator.streamapp import world
from weir_operator.streamapp.models import Mode
from weir_operator.wiring import assembly

RECORDED = Path(__file__).parent / "recorded"
VERTICES = ("source", "score", "sink")
POOLS = [
    {"name": "small", "sizes": ["250m", "1000m"], "price": "0.04"},
    {"name": "large", "sizes": ["2"], "price": "0.05", "maxReplicas": 1},
]
REF = {"ref": {"kind": "FlinkDeployment", "name": "trips"}}


def recorded(name):
    return json.loads((RECORDED / f"{name}.json").read_text())


def an_app(**spec):
    return a_stream_app(**{"mode": "Advise", "flink": REF, "nodePools": POOLS, **spec})


def a_job():
    return answers.read_job(recorded("job"))


def a_view(app, *, cores=2.0, pool="small", job=None):
    job = job or a_job()
    ids = [vertex.id for vertex in job.vertices]
    subtasks = [answers.read_subtasks(recorded(f"vertex-{name}")) for name in VERTICES]
    places = {"tm-a": PodPlace(pool=pool, cores=cores)}
    return view_job(
        job,
        dict(zip(ids, subtasks, strict=True)),
        places,
        pools=app.spec.node_pools,
        url="http://flink",
    )


def test_every_vertex_is_an_operator_and_every_subtask_a_replica():
    view = a_view(an_app())

    assert view.topology.operators == ("source-numbers", "score-slow", "nowhere-writer")
    assert [replica.id for replica in view.replicas][:3] == [
        "source-numbers-0",
        "source-numbers-1",
        "score-slow-0",
    ]
    assert view.max_parallelism == 128


def test_the_edges_are_those_of_the_job():
    topology = a_view(an_app()).topology

    assert [(edge.source, edge.target, edge.keyed) for edge in topology.edges] == [
        ("score-slow", "nowhere-writer", False),
        ("source-numbers", "score-slow", True),
    ]
    assert topology.sources == ("source-numbers",)


def test_a_task_is_taken_to_have_had_one_core_at_most_under_the_pools_own_word_for_it():
    assert a_view(an_app(), cores=4.0).deployments["score-slow"] == {"small/1000m": 2}


def test_a_task_on_half_a_core_has_half_a_core():
    assert a_view(an_app(), cores=0.5).deployments["score-slow"] == {"small/500m": 2}


def test_a_job_whose_tasks_wait_for_slots_cannot_be_seen_yet():
    app = an_app()
    job = a_job()
    subtasks = {
        vertex.id: answers.read_subtasks(
            {"subtasks": [{"subtask": 0, "status": "SCHEDULED", "taskmanager-id": "(unassigned)"}]}
        )
        for vertex in job.vertices
    }

    with pytest.raises(TemporaryError, match="'Source: Numbers'"):
        view_job(job, subtasks, {}, pools=app.spec.node_pools, url="")


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["Map", "Map", "Map 2", "→"], ("map", "map-3", "map-2", "vertex")),
        (["Sum(a) " * 12] * 2, (("sum-a-" * 10 + "sum"), "sum-a-" * 10 + "s-2")),
        (["Map", "Map 2", "Map", "Map"], ("map", "map-2", "map-3", "map-4")),
        (["x" * 70, "x" * 70, "x" * 61 + "-2"], ("x" * 63, "x" * 61 + "-3", "x" * 61 + "-2")),
        (["a.b", "a-b", "a b"], ("a-b", "a-b-2", "a-b-3")),
    ],
)
def test_vertices_have_names_of_their_own_that_are_short_enough(names, expected):
    job = a_job()
    [first, *_] = job.vertices
    vertices = tuple(replace(first, name=name) for name in names)

    assert name_vertices(replace(job, vertices=vertices)) == expected


def test_the_app_has_the_jobs_operators_and_room_for_what_runs_today():
    app = an_app()

    seen = external_app(app, a_view(app, cores=0.5, pool="large"))

    assert world.operator_names(seen) == ("source-numbers", "score-slow", "nowhere-writer")
    types = {each.name: each for each in world.node_types(seen, "score-slow")}
    assert "large/500m" in types
    assert types["large/500m"].pool_limit == 2  # as many as run there, though the manifest has 1
    assert assembly.operator_managers(seen).keys() == set(world.operator_names(seen))
    assert seen.spec.flink.max_parallelism == 128


def test_what_the_manifest_says_of_an_operator_is_kept():
    written = {"name": "score-slow", "maxReplicas": 1, "pools": ["large"]}
    app = an_app(operators=[written])

    seen = world.operator_named(external_app(app, a_view(app)), "score-slow")

    assert seen.max_replicas == 2  # it has two today
    assert seen.pools == ("large", "small")


def test_an_operator_that_the_job_lacks_is_named_beside_those_that_it_has():
    app = an_app(operators=[{"name": "scoer"}])
    view = a_view(app)

    sentence = unknown_operators(app, view)

    assert "source-numbers, score-slow, nowhere-writer), got scoer" in sentence
    assert "scoer" not in world.operator_names(external_app(app, view))
    assert unknown_operators(an_app(), view) == ""


@pytest.mark.parametrize(("written", "asked"), [("planner", "queueing"), ("ds2", "ds2")])
def test_the_planner_alone_gives_way_to_what_answers_within_minutes(written, asked):
    app = an_app(operatorManager={"policy": {"name": written}})

    seen = external_app(app, a_view(app))

    assert seen.spec.operator_manager.policy.name == asked
    assert seen.spec.mode is Mode.ADVISE


def test_a_view_of_the_next_run_is_served_by_the_same_loops():
    app = an_app()
    first = a_view(app)

    again = replace(first, id="another")

    assert again.is_like(first)


def test_a_job_with_another_vertex_or_on_another_pool_needs_loops_of_its_own():
    app = an_app()
    first = a_view(app)
    job = a_job()
    renamed = replace(job, vertices=(*job.vertices[:2], replace(job.vertices[2], name="Files")))

    assert not a_view(app, job=renamed).is_like(first)
    assert not a_view(app, pool="large").is_like(first)


@pytest.mark.parametrize(("cores", "text"), [(1.0, "1"), (0.5, "500m"), (0.0004, "1m"), (2, "2")])
def test_a_size_is_written_as_in_a_manifest(cores, text):
    assert size_of(cores) == text


def test_counters_say_how_old_they_are():
    first, second = read_counters(recorded("vertex-score"))

    assert (first.index, second.index) == (0, 1)
    assert (first.records_in, first.records_out, first.busy_ms) == (1712, 1711, 17383)
    # Its idle, busy and held-back times add up to 14 ms less than it has been running.
    assert first.lag == pytest.approx(0.014)


def test_a_subtask_that_cannot_tell_its_busy_time_cannot_tell_its_age():
    answer = recorded("vertex-source")
    for subtask in answer["subtasks"]:
        subtask["metrics"]["accumulated-busy-time"] = "NaN"

    assert all(math.isnan(each.lag) for each in read_counters(answer))


def test_a_subtask_that_does_not_run_or_was_not_counted_yet_says_nothing():
    answer = recorded("vertex-score")
    answer["subtasks"][0]["status"] = "FAILED"
    answer["subtasks"][1]["metrics"]["read-records-complete"] = False

    assert read_counters(answer) == ()


def test_task_managers_are_found_by_where_they_listen():
    (host,) = answers.read_task_managers(recorded("taskmanagers"))

    assert (host.id, host.host, host.slots, host.cores) == ("tm-a", "127.0.0.1", 2, 1)


def test_a_job_whose_graph_flink_has_not_read_yet_is_looked_at_again():
    job = replace(a_job(), vertices=())

    with pytest.raises(TemporaryError):
        view_job(job, {}, {}, pools=an_app().spec.node_pools, url="http://flink")


def a_large_job(number, *, names, forward=False):
    """Return the job of so many vertices in a row."""
    ids = [f"{index:032x}" for index in range(number)]
    return replace(
        a_job(),
        vertices=tuple(
            replace(a_job().vertices[0], id=each, name=names[index % len(names)])
            for index, each in enumerate(ids)
        ),
        edges=tuple(
            answers.Edge(
                source=source, target=target, ship_strategy="FORWARD" if forward else "HASH"
            )
            for source, target in itertools.pairwise(ids)
        ),
    )


@pytest.mark.parametrize("forward", [False, True])
@pytest.mark.parametrize("names", [["Map"], ["m" * 90], [f"{'m' * 90}{n}" for n in range(9)]])
def test_the_largest_job_is_seen_whatever_its_names(names, forward):
    job = a_large_job(MAX_VERTICES, names=names, forward=forward)
    tasks = answers.read_subtasks(recorded("vertex-score"))
    subtasks = dict.fromkeys((vertex.id for vertex in job.vertices), tasks)
    places = {"tm-a": PodPlace(pool="small", cores=1.0)}

    view = view_job(
        job, subtasks, places, pools=an_app().spec.node_pools, url="http://flink", in_place=forward
    )

    assert len(view.deployments) == (1 if forward else len(job.vertices))


def test_a_job_with_more_vertices_is_refused_before_anything_is_made_of_it():
    answer = recorded("job")
    answer["vertices"] = answer["vertices"][:1] * (MAX_VERTICES + 1)

    with pytest.raises(PermanentError, match="at most 1,000 vertices, got 1,001"):
        answers.read_job(answer)
