import numpy as np

from weir_policies import registry
from weir_policies.model.node_types import Deployment, NodeType
from weir_policies.testing import a_model, a_transition, an_observation

READY = 20
"""Minutes after a restart: 5 to stabilise and 15 to fill the window."""


def build(**parameters):
    return registry.build("flink-autoscaler", rng=np.random.default_rng(7), parameters=parameters)


def live(policy, rates, counts=(0, 2, 0), **changes):
    """Let the policy see intervals of a minute with these rates; return its last decision.

    A wide replica processes 100 records/s.
    """
    intervals = [
        an_observation(deployment=Deployment(counts), rate=rate, **changes) for rate in rates
    ]
    for seen in intervals:
        policy.learn(a_transition(seen, seen))
    return policy.decide(intervals[-1])


def overloaded(count, rate, **changes):
    """Return what is seen of wide replicas that are always busy and cannot take in all."""
    return {
        "counts": (0, count, 0),
        "processed": 100.0 * count,
        "utilisation": (1.0,) * count,
        "rates": [rate] * READY,
    } | changes


def test_going_up_is_sized_for_the_target_and_the_restart():
    # 210 / 0.7 + 210 x 300 / 1800 = 335 records/s of 200 that are possible: 1.675 x 2 replicas.
    decision = live(build(), **overloaded(2, 210.0))

    assert decision.target == Deployment((0, 4, 0))
    assert (
        "210 records/s arrived recently, and 2 replicas could process 200 records/s"
        in decision.reason
    )


def test_nothing_is_done_before_the_window_after_a_restart_is_full():
    early = live(build(), **overloaded(2, 210.0, rates=[210.0] * (READY - 1)))

    assert early.target == Deployment((0, 2, 0))
    assert "19 of the 20 min" in early.reason


def test_a_restart_empties_the_window():
    policy = build()
    live(policy, **overloaded(2, 210.0))
    two, four = (
        an_observation(
            deployment=Deployment((0, count, 0)),
            rate=500.0,
            processed=100.0 * count,
            utilisation=(1.0,) * count,
        )
        for count in (2, 4)
    )
    policy.learn(a_transition(two, four))
    for _ in range(READY - 2):
        policy.learn(a_transition(four, four))

    before = policy.decide(four)
    policy.learn(a_transition(four, four))

    assert before.target == four.deployment
    assert policy.decide(four).target == Deployment((0, 8, 0))  # 798 / 400 x 4


def test_ninety_five_percent_busy_is_within_the_boundary():
    decision = live(build(), [190.0] * READY)

    assert decision.target == Deployment((0, 2, 0))
    assert "within the bounds" in decision.reason


def test_a_smaller_boundary_reacts_earlier():
    # 190 / 0.7 + 190 / 6 = 303 records/s of 200 that are possible.
    decision = live(build(boundary=0.1), [190.0] * READY)

    assert decision.target == Deployment((0, 4, 0))


def test_the_mean_over_the_window_counts_and_not_what_came_before():
    # Of the last 15 minutes two thirds at 300, one third at 90: 230 records/s.
    rates = [900.0] * 5 + [300.0] * 10 + [90.0] * 5
    changes = overloaded(2, 0.0, rates=rates)

    decision = live(build(), **changes)

    # 230 / 0.7 + 230 / 6 = 367 records/s of 200.
    assert decision.target == Deployment((0, 4, 0))
    assert "230 records/s" in decision.reason


def test_going_down_waits_for_an_hour_and_takes_away_three_fifths_at_most():
    # 100 / 0.7 + 100 / 6 = 160 records/s; 0.32 of the 500 that five replicas could do.
    early = live(build(), [100.0] * (READY + 59), counts=(0, 5, 0))
    in_time = live(build(), [100.0] * (READY + 60), counts=(0, 5, 0))

    assert early.target == Deployment((0, 5, 0))
    assert "2 are enough, and have been for 59 of the 60 min" in early.reason
    assert in_time.target == Deployment((0, 2, 0))


def test_going_down_goes_to_the_most_that_was_recommended_in_the_hour():
    # 150 / 0.7 + 150 / 6 = 239 of 500: three replicas, a quarter of an hour long.
    rates = [100.0] * READY + [150.0] * 15 + [100.0] * 45

    decision = live(build(), rates, counts=(0, 5, 0))

    assert decision.target == Deployment((0, 3, 0))


def test_an_hour_is_begun_again_when_all_replicas_are_needed_in_between():
    rates = [100.0] * READY + [260.0] * 15 + [100.0] * 46

    decision = live(build(), rates, counts=(0, 5, 0))

    # 260 / 0.7 + 260 / 6 = 415 of 500: 4.15, so five replicas.
    assert decision.target == Deployment((0, 5, 0))


def test_an_operator_without_records_shrinks():
    decision = live(build(scale_down_interval=0), [0.0] * READY, counts=(0, 5, 0))

    assert decision.target == Deployment((0, 2, 0))


def test_a_backlog_is_worked_off_in_the_time_to_catch_up():
    # 210 / 0.7 + 210 / 6 + 54,000 / 1800 = 365 records/s, nearly 3.7 replicas; 455 need 4.55.
    little = live(build(), **overloaded(2, 210.0, backlog=54_000.0))
    much = live(build(), **overloaded(2, 210.0, backlog=216_000.0))

    assert little.target == Deployment((0, 4, 0))
    assert much.target == Deployment((0, 5, 0))


def test_nothing_is_taken_away_while_a_backlog_is_worked_off():
    behind = live(build(scale_down_interval=0), [100.0] * READY, counts=(0, 5, 0), backlog=31_000.0)
    little = live(build(scale_down_interval=0), [100.0] * READY, counts=(0, 5, 0), backlog=29_000.0)

    assert behind.target == Deployment((0, 5, 0))
    assert little.target == Deployment((0, 2, 0))


def test_key_groups_are_divided_evenly_where_they_can_be():
    # 300 / 0.7 + 300 / 6 = 479 of 200: five replicas; twelve key groups divide by six.
    aligned = overloaded(2, 300.0, model=a_model(keyed=True, key_groups=12))
    prime = overloaded(2, 300.0, model=a_model(keyed=True, key_groups=11))

    assert live(build(), **aligned).target == Deployment((0, 6, 0))
    # Of eleven groups no number from 5 to 10 takes equal parts; with 4 the fullest holds 3 too.
    assert live(build(), **prime).target == Deployment((0, 4, 0))


def test_parallelism_stops_at_the_most_replicas_and_at_the_limit_of_the_pool():
    limited = tuple(
        NodeType(name=name, pool=name, speedup=1.0, price=0.1, pool_limit=limit)
        for name, limit in (("a", None), ("b", 3), ("c", None))
    )

    at_most = live(build(), **overloaded(2, 2000.0))
    in_pool = live(build(), **overloaded(2, 2000.0, model=a_model(node_types=limited)))

    assert at_most.target == Deployment((0, 10, 0))
    assert in_pool.target == Deployment((0, 3, 0))
    assert "there is room for only 3" in in_pool.reason
