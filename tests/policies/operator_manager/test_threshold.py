import numpy as np
import pytest

from weir_policies import registry
from weir_policies.model.node_types import Deployment, NodeType
from weir_policies.policy import NEEDED
from weir_policies.testing import a_model, an_observation


def decide(name, counts, *utilisation, parameters=None, **changes):
    policy = registry.build(name, rng=np.random.default_rng(7), parameters=parameters)
    deployment = Deployment(counts)
    busy = utilisation if len(utilisation) == deployment.size else utilisation * deployment.size
    return policy.decide(an_observation(deployment=deployment, utilisation=busy, **changes))


@pytest.mark.parametrize(
    ("name", "counts", "utilisation", "target"),
    [
        ("threshold-cheapest", (2, 0, 0), 0.76, (3, 0, 0)),
        ("threshold-fastest", (0, 0, 2), 0.76, (0, 0, 3)),
        ("threshold-fastest", (2, 0, 0), 0.76, (2, 0, 1)),
        ("threshold-cheapest", (2, 0, 0), 0.75, (2, 0, 0)),
        ("threshold-cheapest", (10, 0, 0), 0.99, (10, 0, 0)),
        # 0.37 * 3/2 = 0.555 is below 0.75 * 0.75 = 0.5625; 0.38 * 3/2 is not.
        ("threshold-cheapest", (3, 0, 0), 0.37, (2, 0, 0)),
        ("threshold-cheapest", (3, 0, 0), 0.38, (3, 0, 0)),
        ("threshold-cheapest", (1, 0, 0), 0.01, (1, 0, 0)),
        ("threshold-cheapest", (1, 2, 0), 0.1, (0, 2, 0)),
        ("threshold-cheapest", (0, 2, 1), 0.1, (0, 2, 0)),
    ],
    ids=[
        "above adds the cheapest",
        "above adds the fastest",
        "whatever is there already",
        "at the threshold stays",
        "full stays",
        "idle removes",
        "not idle enough stays",
        "the last one stays",
        "of the chosen type",
        "or the dearest where there is none",
    ],
)
def test_the_rule(name, counts, utilisation, target):
    decision = decide(name, counts, utilisation)

    assert decision.target == Deployment(target)


def test_the_worst_replica_decides():
    assert decide("threshold-cheapest", (3, 0, 0), 0.1, 0.9, 0.1).target == Deployment((4, 0, 0))


def test_a_full_pool_passes_its_replica_on_to_the_next_in_order():
    cheap, dear = (
        NodeType(name=pool, pool=pool, speedup=1.0, price=price, pool_limit=limit)
        for pool, price, limit in (("cheap", 0.01, 2), ("dear", 0.05, None))
    )

    decision = decide("threshold-cheapest", (2, 0), 0.9, model=a_model(node_types=(cheap, dear)))

    assert decision.target == Deployment((2, 1))


def test_the_first_of_equally_cheap_types_is_chosen():
    twins = tuple(NodeType(name=pool, pool=pool, speedup=1.0, price=0.01) for pool in "ab")

    decision = decide("threshold-cheapest", (0, 1), 0.9, model=a_model(node_types=twins))

    assert decision.target == Deployment((1, 1))


def test_the_threshold_of_the_paper_can_be_asked_for():
    decision = decide("threshold-cheapest", (2, 0, 0), 0.72, parameters={"utilisation": 0.7})

    assert decision.target == Deployment((3, 0, 0))


def test_needs_are_more_urgent_than_savings_and_grow_with_the_distance():
    near, far, saving = (
        decide("threshold-cheapest", (3, 0, 0), busy).urgency for busy in (0.8, 0.95, 0.1)
    )

    assert 0 < saving < NEEDED <= near < far


def choose_at_random(counts, busy, *, model=None):
    """Return the targets of many policies that differ by their generator alone."""
    targets = set()
    for seed in range(60):
        policy = registry.build("threshold-random", rng=np.random.default_rng(seed))
        deployment = Deployment(counts)
        changes = {} if model is None else {"model": model}
        seen = an_observation(
            deployment=deployment, utilisation=(busy,) * deployment.size, **changes
        )
        targets.add(policy.decide(seen).target.counts)
    return targets


def test_the_random_rule_adds_any_node_type():
    assert choose_at_random((2, 0, 0), 0.9) == {(3, 0, 0), (2, 1, 0), (2, 0, 1)}


def test_the_random_rule_removes_only_what_is_there():
    assert choose_at_random((2, 0, 3), 0.1) == {(1, 0, 3), (2, 0, 2)}


def test_the_random_rule_adds_only_where_there_is_room():
    types = tuple(
        NodeType(name=pool, pool=pool, speedup=1.0, price=0.01, pool_limit=limit)
        for pool, limit in (("a", 2), ("b", 3), ("c", None))
    )

    chosen = choose_at_random((2, 0, 0), 0.9, model=a_model(node_types=types))

    assert chosen == {(2, 1, 0), (2, 0, 1)}
