from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

from weir_policies import registry
from weir_policies.errors import ParameterError
from weir_policies.model.node_types import Deployment, NodeType, ReplicaMemory
from weir_policies.testing import a_model, a_transition, an_observation


def of_memory(managed: int, *, cores: int = 1, **changes: Any) -> NodeType:
    """Return a node type with so much memory, in a pool of its own."""
    fields: dict[str, Any] = {
        "name": f"small-{managed}/{cores}",
        "pool": f"small-{managed}",
        "speedup": float(cores),
        "price": 0.04 * cores + 0.00002 * managed,
        "memory": ReplicaMemory(managed=managed, heap=500),
    }
    return NodeType(**fields | changes)


# Out of order: levels are amounts, not places.
TYPES = (of_memory(512), of_memory(256), of_memory(1024))
LOW, MIDDLE, HIGH = (0, 1, 0), (1, 0, 0), (0, 0, 1)


def build(**parameters):
    """Return a policy that plans for replicas that are always busy, as DS2 does by default."""
    given = {"target_utilisation": 1.0, "boundary": 0.0} | parameters
    return registry.build("justin", rng=np.random.default_rng(7), parameters=given)


def build_default():
    return registry.build("justin", rng=np.random.default_rng(7))


def see(level, count, rate, *, each, hits, node_types=TYPES, **changes):
    """Return an interval of replicas of one node type, each of which can process so much."""
    done = min(rate, each * count)
    fields = {
        "model": a_model(node_types=node_types),
        "processed": done,
        "utilisation": (done / count / each,) * count,
        "miss_share": 1 - hits,
    }
    deployment = Deployment(tuple(place * count for place in level))
    return an_observation(deployment=deployment, rate=rate, **fields | changes)


def live(policy, *seen):
    """Let the policy see intervals of a minute; return its last decision."""
    for before, after in itertools.pairwise([seen[0], *seen]):
        policy.learn(a_transition(before, after))
    return policy.decide(seen[-1])


def some(level, count):
    return Deployment(tuple(place * count for place in level))


SHORT = see(LOW, 2, 350.0, each=100.0, hits=0.6)
"""Two replicas of the least memory that process 200 of 350 records/s."""


def test_memory_is_raised_before_replicas_are_added_where_misses_are_many():
    decision = live(build(), SHORT)

    assert decision.target == some(MIDDLE, 2)
    assert "more memory is tried first" in decision.reason


def test_replicas_are_added_where_most_reads_hit_the_cache():
    decision = live(build(), see(LOW, 2, 350.0, each=100.0, hits=0.8))

    assert decision.target == some(LOW, 4)


def test_nothing_changes_while_ds2_wants_nothing_else_however_many_reads_miss():
    decision = live(build(), see(LOW, 2, 150.0, each=100.0, hits=0.1))

    assert decision.target == some(LOW, 2)


def test_memory_is_raised_as_well_where_replicas_could_go():
    # As in the authors' program, which asks whether DS2 wants another number.
    decision = live(build(), see(LOW, 4, 150.0, each=100.0, hits=0.6))

    assert decision.target == some(MIDDLE, 4)


def test_memory_is_raised_again_while_it_helps():
    better = see(MIDDLE, 2, 350.0, each=120.0, hits=0.7)

    assert live(build(), SHORT, better).target == some(HIGH, 2)


@pytest.mark.parametrize(
    "helped",
    [
        pytest.param({"each": 104.0, "hits": 0.7}, id="the operator processes hardly more"),
        pytest.param({"each": 120.0, "hits": 0.95}, id="nearly all reads hit"),
    ],
)
def test_replicas_follow_where_memory_helped_but_more_would_not_be_worth_it(helped):
    decision = live(build(), SHORT, see(MIDDLE, 2, 350.0, **helped))

    assert decision.target == some(MIDDLE, math.ceil(350.0 / helped["each"]))


def test_memory_goes_back_where_more_did_not_help():
    decision = live(build(), SHORT, see(MIDDLE, 2, 350.0, each=120.0, hits=0.64))

    assert decision.target == some(LOW, 3)
    assert "more did not help" in decision.reason


def test_memory_that_helped_is_judged_whenever_ds2_wants_other_replicas_again():
    enough = see(MIDDLE, 2, 190.0, each=120.0, hits=0.62)
    policy = build()

    assert live(policy, SHORT, enough, enough).target == some(MIDDLE, 2)
    assert live(policy, enough, see(MIDDLE, 2, 350.0, each=120.0, hits=0.62)).target == some(LOW, 3)


def test_after_a_change_of_replicas_only_the_hit_rate_counts_again():
    policy = build()
    grown = see(MIDDLE, 3, 500.0, each=120.0, hits=0.62)

    assert live(policy, SHORT, see(MIDDLE, 2, 350.0, each=120.0, hits=0.66), grown).target == some(
        HIGH, 3
    )


def test_replicas_are_added_at_the_largest_amount():
    decision = live(build(), see(HIGH, 2, 350.0, each=100.0, hits=0.3))

    assert decision.target == some(HIGH, 4)


def test_an_operator_without_state_is_left_to_ds2():
    stateless = see(MIDDLE, 2, 350.0, each=100.0, hits=1.0)
    unknown = see(MIDDLE, 2, 350.0, each=100.0, hits=math.nan)

    assert live(build(), stateless).target == some(MIDDLE, 4)
    assert live(build(), unknown).target == some(MIDDLE, 4)


def test_without_a_choice_of_memory_it_is_ds2():
    alike = see((1,), 2, 350.0, each=100.0, hits=0.1, node_types=(of_memory(512, memory=None),))
    ds2 = registry.build("ds2", rng=np.random.default_rng(7))

    assert live(build(), alike).target == ds2.decide(alike).target == Deployment((4,))


def test_an_amount_without_room_is_passed_over():
    types = (of_memory(512, pool_limit=0), *TYPES[1:])

    decision = live(build(), see(LOW, 2, 350.0, each=100.0, hits=0.6, node_types=types))

    assert decision.target == some(LOW, 4)


def test_replicas_keep_their_place_among_the_sizes_of_the_other_amount():
    types = tuple(
        of_memory(managed, cores=cores, pool=f"small-{managed}")
        for managed in (256, 512)
        for cores in (1, 2)
    )
    mixed = see((1, 2, 0, 0), 1, 700.0, each=100.0, hits=0.5, node_types=types)
    mixed = an_observation(
        model=mixed.model,
        deployment=Deployment((1, 2, 0, 0)),
        rate=700.0,
        processed=300.0,
        utilisation=(1.0,) * 3,
        miss_share=0.5,
    )

    assert live(build(), mixed).target == Deployment((0, 0, 1, 2))


def test_nothing_changes_where_nothing_was_processed():
    idle = see(LOW, 2, 350.0, each=100.0, hits=0.6, processed=0.0, utilisation=(0.0, 0.0))

    assert live(build(), idle).target == some(LOW, 2)


@pytest.mark.parametrize(("rate", "count"), [(850.0, 17), (790.0, 10), (210.0, 10), (150.0, 3)])
def test_it_plans_for_half_busy_replicas_once_they_are_far_from_that(rate, count):
    wide = a_model(node_types=TYPES, max_replicas=20)

    decision = live(build_default(), see(HIGH, 10, rate, each=100.0, hits=0.9, model=wide))

    assert decision.target == some(HIGH, count)


def test_within_the_band_its_reason_is_how_busy_the_replicas_are():
    # 10 of them are busy for 79 %; at a target of 50 %, 15.8 would be.
    decision = live(build_default(), see(HIGH, 10, 790.0, each=100.0, hits=0.9))

    assert "79 %" in decision.reason
    assert "need" not in decision.reason


@pytest.mark.parametrize(("size", "hits"), [(4, 0.9), (10, 0.9), (10, 0.1)])
def test_its_reason_names_all_that_are_needed_though_fewer_may_run(size, hits):
    # 1,500 records/s take 30 replicas at a target of 50 %; the model allows 10.
    decision = live(build_default(), see(LOW, size, 1500.0, each=100.0, hits=hits))

    assert decision.target == some(LOW, 10)
    assert "30 replicas" in decision.reason


def test_its_thresholds_are_settings():
    hits = see(LOW, 2, 350.0, each=100.0, hits=0.85)

    assert live(build(min_hit_rate=0.9), hits).target == some(MIDDLE, 2)
    with pytest.raises(ParameterError):
        build(min_hit_rate=1.5)
