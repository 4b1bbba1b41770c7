from __future__ import annotations

import itertools

import numpy as np
import pytest

from weir_policies import registry
from weir_policies.errors import ParameterError
from weir_policies.model.node_types import Deployment, NodeType
from weir_policies.testing import a_model, a_transition, an_observation

JUDGED = 5
"""Minutes of metrics that are judged at once."""
SETTLED = 3
"""Minutes after a change that count for nothing, the one of the change among them."""


def build(**parameters):
    return registry.build("dhalion", rng=np.random.default_rng(7), parameters=parameters)


def see(count, *, rate, busy=1.0, **changes):
    """Return an interval of wide replicas, each of which processes 100 records/s."""
    fields = {"processed": min(rate, 100.0 * count), "utilisation": (busy,) * count} | changes
    return an_observation(deployment=Deployment((0, count, 0)), rate=rate, **fields)


def live(policy, seen):
    """Let the policy see intervals of a minute; return its last decision."""
    for before, after in itertools.pairwise([seen[0], *seen]):
        policy.learn(a_transition(before, after))
    return policy.decide(seen[-1])


def test_back_pressure_adds_what_is_missing():
    # 300 arrive and 200 are taken in: held back for a third of the time, 2 x (1 + 1/2) replicas.
    behind = see(2, rate=300.0, backlog=30_000.0)

    early = live(build(), [behind] * (JUDGED - 1))
    in_time = live(build(), [behind] * JUDGED)

    assert early.target == Deployment((0, 2, 0))
    assert "4 of the 5 min" in early.reason
    assert in_time.target == Deployment((0, 3, 0))
    assert "33 % of the time" in in_time.reason


def test_a_step_adds_four_times_the_replicas_at_most():
    model = a_model(max_replicas=40)
    behind = see(2, rate=9000.0, backlog=1e6, model=model)

    assert live(build(), [behind] * JUDGED).target == Deployment((0, 10, 0))


def test_a_utilisation_above_one_is_back_pressure_as_well():
    # Where every interval is a steady state, all that arrives counts as processed.
    over = see(2, rate=300.0, busy=1.5, processed=300.0)

    assert live(build(), [over] * JUDGED).target == Deployment((0, 3, 0))


def test_an_operator_that_gets_less_because_others_hold_it_up_is_no_bottleneck():
    starved = see(2, rate=300.0, processed=150.0, busy=0.9, upstream_backlog=9000.0)

    assert live(build(), [starved] * JUDGED).target == Deployment((0, 2, 0))


def test_less_than_the_noise_is_no_back_pressure():
    nearly = see(2, rate=202.0, backlog=600.0, response_time=3.0)

    assert live(build(), [nearly] * JUDGED).target == Deployment((0, 2, 0))
    assert live(build(noise=0), [nearly] * JUDGED).target == Deployment((0, 3, 0))


def test_a_fifth_is_removed_where_almost_nothing_waits():
    # 200 records/s x 20 ms are 4 records, of which 2 are being served: 0.4 wait at each replica.
    calm = see(5, rate=200.0, busy=0.4)

    decision = live(build(), [calm] * JUDGED)

    assert decision.target == Deployment((0, 4, 0))
    assert "0.4 records waited at each replica" in decision.reason


@pytest.mark.parametrize(
    "busy",
    [
        {"response_time": 0.06},  # 12 records are there, 10 of them wait: 2 at each replica
        {"backlog": 100.0},
        {"upstream_backlog": 100.0},
    ],
    ids=str,
)
def test_nothing_is_removed_while_records_wait_here_or_upstream(busy):
    waiting = see(5, rate=200.0, **{"busy": 0.4} | busy)

    assert live(build(), [waiting] * JUDGED).target == Deployment((0, 5, 0))


def test_the_last_replica_stays():
    assert live(build(), [see(1, rate=1.0, busy=0.01)] * JUDGED).target == Deployment((0, 1, 0))


def test_after_a_change_it_waits_and_judges_only_what_comes_then():
    policy = build()
    behind, calm = see(2, rate=300.0, backlog=30_000.0), see(5, rate=200.0, busy=0.4)
    live(policy, [behind] * JUDGED)
    policy.learn(a_transition(behind, calm))  # the change: its minute is the first of three
    for _ in range(SETTLED + JUDGED - 2):
        policy.learn(a_transition(calm, calm))

    before = policy.decide(calm)
    policy.learn(a_transition(calm, calm))

    assert before.target == calm.deployment
    assert policy.decide(calm).target == Deployment((0, 4, 0))


def test_every_judgement_is_of_metrics_of_its_own():
    behind = see(2, rate=300.0, backlog=30_000.0)
    policy = build()
    live(policy, [behind] * JUDGED)

    assert live(policy, [behind]).target == behind.deployment
    assert live(policy, [behind] * (JUDGED - 1)).target == Deployment((0, 3, 0))


def test_what_there_is_no_room_for_is_left_out():
    types = tuple(
        NodeType(name=name, pool=name, speedup=1.0, price=0.1, pool_limit=limit)
        for name, limit in (("a", None), ("b", 3), ("c", None))
    )
    behind = see(2, rate=500.0, backlog=1e5, model=a_model(node_types=types))

    assert live(build(), [behind] * JUDGED).target == Deployment((0, 3, 0))


@pytest.mark.parametrize(
    "wrong",
    [
        {"interval": 0},
        {"wait": -1},
        {"noise": 1},
        {"pending": -1},
        {"scale_down": 1},
        {"scale_up": 0},
    ],
    ids=str,
)
def test_parameters_out_of_range_are_refused(wrong):
    with pytest.raises(ParameterError, match=next(iter(wrong))):
        build(**wrong)
