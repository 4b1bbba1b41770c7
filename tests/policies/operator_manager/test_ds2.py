import numpy as np
import pytest

from weir_policies import registry
from weir_policies.model.node_types import Deployment, NodeType
from weir_policies.policy import NEEDED
from weir_policies.testing import a_model, an_observation


def decide(counts, *, parameters=None, **changes):
    policy = registry.build("ds2", rng=np.random.default_rng(7), parameters=parameters)
    return policy.decide(an_observation(deployment=Deployment(counts), **changes))


def test_the_true_rate_ignores_the_time_that_a_replica_waited():
    # 60 records/s in 30 % of the time are 200 records/s of a replica that is always busy.
    decision = decide((0, 1, 0), rate=500.0, processed=60.0, utilisation=(0.3,))

    assert decision.target == Deployment((0, 3, 0))
    assert "true rate of 200 records/s per replica" in decision.reason
    assert decision.expectation.utilisation == pytest.approx(500 / 600)


def test_one_step_goes_all_the_way_back():
    decision = decide((0, 9, 0), rate=90.0, processed=90.0, utilisation=(0.1,) * 9)

    assert decision.target == Deployment((0, 1, 0))
    assert 0 < decision.urgency < NEEDED


def test_a_capacity_that_is_just_enough_is_enough():
    decision = decide((0, 3, 0), rate=0.3, processed=0.1 + 0.2, utilisation=(1.0, 1.0, 1.0))

    assert decision.target == Deployment((0, 3, 0))


def test_the_most_used_node_type_grows_and_shrinks_first():
    more = decide((1, 3, 0), rate=600.0, processed=400.0, utilisation=(1.0,) * 4)
    less = decide((1, 3, 2), rate=100.0, processed=100.0, utilisation=(0.3,) * 6)

    assert more.target == Deployment((1, 5, 0))
    assert less.target == Deployment((1, 0, 1))


def test_a_full_pool_passes_its_replicas_on():
    node_types = tuple(
        NodeType(name=pool, pool=pool, speedup=1.0, price=price, pool_limit=limit)
        for pool, price, limit in (("a", 0.1, 3), ("b", 0.3, None), ("c", 0.2, None))
    )
    model = a_model(node_types=node_types)

    decision = decide((3, 0, 0), model=model, rate=500.0, processed=300.0, utilisation=(1.0,) * 3)

    assert decision.target == Deployment((3, 0, 2))


def test_what_there_is_no_room_for_is_said():
    decision = decide((0, 9, 0), rate=9000.0, processed=900.0, utilisation=(1.0,) * 9)

    assert decision.target == Deployment((0, 10, 0))
    assert "need 90 replicas, but there is room for only 10" in decision.reason


def test_without_a_processed_record_nothing_can_be_said():
    decision = decide((0, 3, 0), rate=50.0, processed=0.0, utilisation=(0.0,) * 3)

    assert decision.target == Deployment((0, 3, 0))
    assert "cannot be measured" in decision.reason


def test_a_backlog_counts_only_where_it_is_asked_for():
    behind = {"rate": 100.0, "processed": 100.0, "utilisation": (1.0,), "backlog": 6000.0}

    plain = decide((0, 1, 0), **behind)
    catching_up = decide((0, 1, 0), parameters={"catch_up": 60}, **behind)

    assert plain.target == Deployment((0, 1, 0))
    assert catching_up.target == Deployment((0, 2, 0))


def test_a_target_utilisation_leaves_room():
    decision = decide(
        (0, 2, 0), parameters={"target_utilisation": 0.5}, rate=200.0, processed=200.0,
        utilisation=(1.0, 1.0),
    )  # fmt: skip

    assert decision.target == Deployment((0, 4, 0))
