"""No change outside a policy gives replicas of one operator different memory (0062)."""

import pytest

from weir_operator.loop.fallback import find_fallback
from weir_operator.loop.placement import fit_into_room, fit_to_manifest, move_leaving
from weir_operator.runtime.protocol import Replica
from weir_operator.streamapp.managers import Fallback, FallbackDeployment
from weir_policies.model.node_types import NodeType, ReplicaMemory
from weir_policies.testing import a_model

LESS, MORE = ReplicaMemory(managed=128, heap=100), ReplicaMemory(managed=512, heap=500)
TYPES = (
    NodeType(name="p-1gi/1", pool="p-1gi", speedup=1.0, price=0.04, memory=LESS),
    NodeType(name="p-2gi/1", pool="p-2gi", speedup=1.0, price=0.05, memory=MORE, pool_limit=3),
    NodeType(name="big-1gi/1", pool="big-1gi", speedup=2.0, price=0.08, memory=LESS),
    NodeType(name="big-2gi/1", pool="big-2gi", speedup=1.5, price=0.09, memory=MORE, pool_limit=1),
)
MODELS = {"match": a_model(node_types=TYPES, max_replicas=6)}


def leaving(pool, count):
    return [
        Replica(id=f"{pool}-{number}", operator="match", pool=pool, size="1", started=0.0,
                metrics_url="", terminating="its node is drained")
        for number in range(count)
    ]  # fmt: skip


def grow(counts):
    largest = Fallback(deployment=FallbackDeployment.LARGEST)
    return find_fallback(largest, {"match": counts}, MODELS, {})["match"]


def leave(counts):
    pool = next(iter(counts)).split("/")[0]
    left = move_leaving(
        {"match": counts}, leaving(pool, counts[f"{pool}/1"]), [("match", pool)], MODELS
    )
    return left["match"]


@pytest.mark.parametrize(
    ("change", "running", "expected"),
    [
        (grow, {"p-1gi/1": 2}, {"p-1gi/1": 2, "big-1gi/1": 4}),
        (grow, {"p-2gi/1": 2}, {"p-2gi/1": 3, "big-2gi/1": 1}),
        (leave, {"p-1gi/1": 2}, {"big-1gi/1": 2}),
        # One place of its memory: the other replica waits for room.
        (leave, {"p-2gi/1": 2}, {"p-2gi/1": 1, "big-2gi/1": 1}),
    ],
)
def test_no_change_outside_a_policy_mixes_amounts(change, running, expected):
    assert change(running) == expected


@pytest.mark.parametrize(
    ("running", "expected"),
    [
        # The pool's sizes got memory: as at a first start, it is the most.
        ({"p/1": 2}, {"p-2gi/1": 2}),
        ({"p/1": 1, "p/2": 1}, {"p-2gi/1": 2}),
        # Another amount in the place of one that is gone.
        ({"p-4gi/1": 2}, {"p-2gi/1": 2}),
        # An amount that stays, and another that goes.
        ({"p-4gi/1": 1, "p-1gi/1": 2}, {"p-1gi/1": 3}),
        ({"p-1gi/1": 2, "gone/1": 1}, {"p-1gi/1": 2, "big-1gi/1": 1}),
        # Pools that had no memory of their own to choose, and now have.
        ({"big-1gi/1": 2, "p-2gi/1": 1}, {"big-1gi/1": 2, "p-1gi/1": 1}),
        ({"big-1gi/1": 1, "p-2gi/1": 1}, {"big-2gi/1": 1, "p-2gi/1": 1}),
        ({"p-1gi/1": 2}, {"p-1gi/1": 2}),
    ],
)
def test_an_edit_of_the_pools_leaves_an_operator_in_its_pool_with_one_amount(running, expected):
    found = fit_to_manifest({"match": running}, {"match": {"p-1gi/1": 1}}, MODELS)["match"]

    assert found == expected
    again = fit_to_manifest({"match": found}, {"match": {"p-1gi/1": 1}}, MODELS)["match"]
    assert again == found


def test_an_operator_goes_back_to_a_pool_whose_sizes_name_no_memory_any_more():
    types = (
        NodeType(name="p/1", pool="p", speedup=1.0, price=0.04),
        NodeType(name="p/2", pool="p", speedup=2.0, price=0.08),
        NodeType(name="big/1", pool="big", speedup=4.0, price=0.08),
    )
    models = {"match": a_model(node_types=types)}

    found = fit_to_manifest({"match": {"p-2gi/1": 2}}, {"match": {"p/1": 1}}, models)

    assert found == {"match": {"p/1": 2}}


def test_an_operator_that_must_leave_its_memory_takes_the_most_of_equally_fast_pools():
    full = [("match", "big-1gi"), ("match", "big-2gi")]
    pending = [
        Replica(id="a", operator="match", pool="big-1gi", size="1", started=0.0, metrics_url="",
                pending="no node takes it")
    ]  # fmt: skip

    found = fit_into_room({"match": {"big-1gi/1": 1}}, pending, full, MODELS)

    assert found == {"match": {"p-2gi/1": 1}}
