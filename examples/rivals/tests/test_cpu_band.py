from __future__ import annotations

import itertools

import numpy as np
import pytest

from weir_policies import registry
from weir_policies.errors import ParameterError
from weir_policies.model.node_types import Deployment, NodeType
from weir_policies.testing import a_model, a_transition, an_observation

MINUTE = 60.0


def build(**parameters):
    return registry.build("cpu-band", rng=np.random.default_rng(7), parameters=parameters)


def live(policy, busy, counts=(0, 2, 0), **changes):
    """Let the policy see intervals in which replicas were that busy; return its last decision."""
    here = Deployment(counts)
    seen = [
        an_observation(deployment=here, utilisation=(each,) * here.size, **changes) for each in busy
    ]
    for before, after in itertools.pairwise(seen):
        policy.learn(a_transition(before, after))
    return policy.decide(seen[-1])


def test_fifteen_minutes_above_the_band_double_the_replicas():
    early = live(build(), [0.5] + [0.8] * 14)
    in_time = live(build(), [0.5] + [0.8] * 15)

    assert early.target == Deployment((0, 2, 0))
    assert "80 % busy, at least 75 % for 14 min of the 15 min" in early.reason
    assert in_time.target == Deployment((0, 4, 0))


def test_six_hours_below_the_band_halve_the_replicas_rounded_up():
    early = live(build(), [0.5] + [0.05] * 359, counts=(0, 5, 0))
    in_time = live(build(), [0.5] + [0.05] * 360, counts=(0, 5, 0))

    assert early.target == Deployment((0, 5, 0))
    assert in_time.target == Deployment((0, 3, 0))


def test_the_time_counts_and_not_the_number_of_intervals():
    two_of_ten_minutes = live(build(), [0.5, 0.8, 0.8], interval=10 * MINUTE)
    one_of_ten_minutes = live(build(), [0.5, 0.8], interval=10 * MINUTE)

    assert two_of_ten_minutes.target == Deployment((0, 4, 0))
    assert one_of_ten_minutes.target == Deployment((0, 2, 0))


def test_a_minute_inside_the_band_begins_the_count_again():
    decision = live(build(), [0.5] + [0.8] * 14 + [0.7] + [0.8] * 14)

    assert decision.target == Deployment((0, 2, 0))


def test_the_edges_belong_to_the_documented_sides():
    at_high = live(build(), [0.5] + [0.75] * 15)
    at_low = live(build(), [0.5] + [0.1] * 400)

    assert at_high.target == Deployment((0, 4, 0))
    assert at_low.target == Deployment((0, 2, 0))


def test_the_busiest_replica_speaks_for_all():
    policy = build()
    seen = an_observation(deployment=Deployment((0, 3, 0)), utilisation=(0.1, 0.9, 0.1))
    for _ in range(15):
        policy.learn(a_transition(seen, seen))

    assert policy.decide(seen).target == Deployment((0, 6, 0))


def test_a_change_of_the_deployment_begins_the_count_again():
    policy = build()
    live(policy, [0.5] + [0.8] * 15)
    smaller = an_observation(deployment=Deployment((0, 2, 0)), utilisation=(0.8,) * 2)
    larger = an_observation(deployment=Deployment((0, 4, 0)), utilisation=(0.8,) * 4)
    policy.learn(a_transition(smaller, larger))

    assert policy.decide(larger).target == larger.deployment


def test_doubling_stops_at_the_most_replicas_and_at_the_limit_of_the_pool():
    limited = tuple(
        NodeType(name=name, pool=name, speedup=1.0, price=price, pool_limit=limit)
        for name, price, limit in (("a", 0.1, None), ("b", 0.1, 5), ("c", 0.1, None))
    )

    at_most = live(build(), [0.5] + [0.8] * 15, counts=(0, 6, 0))
    in_pool = live(build(), [0.5] + [0.8] * 15, counts=(0, 4, 0), model=a_model(node_types=limited))

    assert at_most.target == Deployment((0, 10, 0))
    assert in_pool.target == Deployment((0, 5, 0))


def test_a_full_operator_says_that_there_is_no_room():
    decision = live(build(), [0.5] + [0.8] * 15, counts=(0, 10, 0))

    assert decision.target == Deployment((0, 10, 0))
    assert "no other number of replicas" in decision.reason


def test_of_a_mix_the_most_used_node_type_is_scaled():
    more = live(build(), [0.5] + [0.8] * 15, counts=(1, 0, 2))
    less = live(build(), [0.5] + [0.05] * 360, counts=(1, 0, 3))

    assert more.target == Deployment((1, 0, 5))
    assert less.target == Deployment((1, 0, 1))


def test_it_keeps_the_least_replicas():
    decision = live(build(least_replicas=4), [0.5] + [0.05] * 360, counts=(0, 5, 0))

    assert decision.target == Deployment((0, 4, 0))


@pytest.mark.parametrize(
    "wrong", [{"low": 0.8}, {"high": 1.1}, {"high_after": 0}, {"least_replicas": 1.5}], ids=str
)
def test_parameters_out_of_range_are_refused(wrong):
    with pytest.raises(ParameterError, match=next(iter(wrong))):
        build(**wrong)
