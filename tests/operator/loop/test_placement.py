"""The next best deployment where pools have no room."""

from weir_operator.loop.planned_changes import fit_into_room, fit_to_manifest, move_leaving
from weir_operator.runtime.protocol import Replica
from weir_policies.model.node_types import NodeType
from weir_policies.testing import a_model

TYPES = (
    NodeType(name="small/1", pool="small", speedup=1.0, price=0.04),
    NodeType(name="large/1", pool="large", speedup=1.6, price=0.07, pool_limit=1),
    NodeType(name="large/2", pool="large", speedup=3.2, price=0.14, pool_limit=1),
)
MODELS = {name: a_model(name=name, node_types=TYPES, max_replicas=4) for name in ("match", "count")}


def replicas(operator, pool, *, stand=0, pend=0):
    return [
        Replica(
            id=f"{operator}-{pool}-{number}",
            operator=operator,
            pool=pool,
            size="1",
            started=0.0,
            metrics_url="",
            pending="" if number < stand else "no node takes it",
        )
        for number in range(stand + pend)
    ]


def test_an_operator_with_nowhere_to_go_waits():
    wanted = {"match": {"small/1": 2}}

    found = fit_into_room(
        wanted,
        replicas("match", "small", pend=2),
        [("match", "small"), ("match", "large")],
        MODELS,
    )

    assert found == wanted


def test_an_operator_that_never_changes_stays_as_it_is():
    wanted = {"gen": {"small/1": 1}}

    found = fit_into_room(wanted, replicas("gen", "small", pend=1), [("gen", "small")], MODELS)

    assert found == wanted


def test_a_full_pool_that_holds_all_that_is_wanted_changes_nothing():
    wanted = {"match": {"small/1": 1, "large/1": 1}}

    found = fit_into_room(wanted, replicas("match", "small", stand=1), [("match", "small")], MODELS)

    assert found == wanted


def test_sizes_and_pools_that_the_manifest_has_no_more_become_the_fastest_that_is_left():
    running = {"match": {"small/250m": 2, "gone/1": 1}}

    found = fit_to_manifest(running, {"match": {"small/1": 1}}, MODELS)

    assert found == {"match": {"small/1": 2, "large/2": 1}}


def test_what_is_beyond_the_limits_of_the_manifest_goes_slowest_first():
    running = {"match": {"small/1": 4, "large/1": 1, "large/2": 1}}

    found = fit_to_manifest(running, {"match": {"small/1": 1}}, MODELS)

    assert sum(found["match"].values()) == 4
    assert sum(n for name, n in found["match"].items() if name.startswith("large")) == 1


def test_fixed_and_new_operators_have_what_the_manifest_says_and_others_are_left_out():
    running = {"gen": {"small/1": 3}, "old": {"small/1": 1}, "match": {"small/1": 2}}
    initial = {"gen": {"small/1": 1}, "match": {"small/1": 1}, "count": {"small/1": 1}}

    found = fit_to_manifest(running, initial, MODELS)

    assert found == {"gen": {"small/1": 1}, "match": {"small/1": 2}, "count": {"small/1": 1}}


def test_replicas_that_leave_a_full_pool_move_to_the_fastest_with_room():
    found = move_leaving(
        {"match": {"small/1": 3}, "count": {"small/1": 1}},
        [*replicas("match", "small", stand=2), *replicas("count", "small", stand=1)],
        [("match", "small")],
        MODELS,
    )

    # The pool of two sizes takes one; the other has nowhere to go.
    assert found == {"match": {"small/1": 2, "large/2": 1}, "count": {"small/1": 1}}


def test_replicas_of_an_operator_that_never_changes_wait_for_room_in_their_pool():
    deployed = {"gen": {"small/1": 1}}

    found = move_leaving(deployed, replicas("gen", "small", stand=1), [("gen", "small")], MODELS)

    assert found == deployed
