from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from weir_policies import registry
from weir_policies.kernels.explaining import explain_rule
from weir_policies.model.cost import kind_of_change
from weir_policies.model.node_types import Deployment, NodeType
from weir_policies.model.queueing import predict_means
from weir_policies.policy import (
    ChangeKind,
    CostParts,
    Observation,
    OperatorModel,
    Sharing,
    Transition,
)
from weir_policies.testing import a_model, an_observation

BUDGET = 0.05
SLOW = NodeType(name="slow", pool="slow", speedup=1.0, price=1.0)
FAST = NodeType(name="fast", pool="fast", speedup=2.0, price=2.1)
MODEL = a_model(node_types=(SLOW, FAST), max_replicas=12, keyed=True)
"""100 records/s per replica of speedup 1."""
TWO_SLOW = Deployment((2, 0))


def a_planner(**parameters):
    return registry.build("planner", rng=np.random.default_rng(7), parameters=parameters)


def observe(model: OperatorModel, deployment, rate, tick=0, *, truth=None, **changes):
    """Return what is measured of an operator that behaves as `truth` says, a minute per tick."""
    truth = model if truth is None else truth
    times, _ = predict_means(truth, np.array([deployment.counts]), rate)
    busy = tuple(
        rate / deployment.size * truth.service_mean / node_type.speedup
        for count, node_type in zip(deployment.counts, truth.node_types, strict=True)
        for _ in range(count)
    )
    fields = {
        "model": model,
        "deployment": deployment,
        "rate": rate,
        "time": 60.0 * tick,
        "time_of_week": (60.0 * tick / 604_800) % 1,
        "response_time": float(times[0]),
        "utilisation": busy,
        "budget": BUDGET,
    }
    return an_observation(**fields | changes)


def an_interval(before: Observation, after: Observation) -> Transition:
    change = kind_of_change(before.deployment, after.deployment, before.model.node_types)
    violated = not after.response_time <= after.budget
    return Transition(
        observation=before,
        proposed=after.deployment,
        enacted=after.deployment,
        cost=CostParts(
            violation=float(violated),
            resources=0.1,
            reconfiguration=float(change is ChangeKind.RESCALE),
        ),
        next_observation=after,
    )


def follow(policy, rates, *, model=MODEL, truth=None, start=TWO_SLOW, **changes):
    """Let a policy scale through the rates; return its observations and decisions."""
    seen = observe(model, start, rates[0], truth=truth, **changes)
    observations, decisions = [seen], []
    for tick, rate in enumerate(rates[1:], start=1):
        decisions.append(policy.decide(seen))
        target = decisions[-1].target
        following = observe(model, target, float(rate), tick, truth=truth, **changes)
        policy.learn(an_interval(seen, following))
        seen = following
        observations.append(seen)
    decisions.append(policy.decide(seen))
    return observations, decisions


def share_of_violations(observations):
    return np.mean([not each.response_time <= each.budget for each in observations])


def steady(rate, ticks, *, noise=0.03, seed=5):
    return rate * np.random.default_rng(seed).lognormal(0, noise, ticks)


def days(count, *, low=100.0, high=700.0):
    """Return the rates of days with a peak at noon, a value per minute."""
    hours = np.arange(count * 1440) / 60
    shape = (1 - np.cos(hours * math.pi / 12)) / 2
    noise = np.random.default_rng(3).lognormal(0, 0.02, hours.size)
    return (low + (high - low) * shape) * noise


def test_at_first_it_jumps_at_once_to_what_the_present_rate_with_headroom_needs():
    decision = a_planner().decide(observe(MODEL, Deployment((1, 0)), 600.0))

    (time,), (busy,) = predict_means(MODEL, np.array([decision.target.counts]), 600.0 * 1.1 * 1.1)
    assert time <= BUDGET
    assert busy < 1
    assert "no plan yet" in decision.reason


def test_at_first_it_takes_nothing_away():
    large = Deployment((0, 10))

    decision = a_planner().decide(observe(MODEL, large, 50.0))

    assert decision.target == large


def test_a_steady_rate_is_served_by_one_deployment_that_keeps_the_budget():
    observations, decisions = follow(a_planner(), steady(400.0, 2000))

    settled = observations[300:]
    assert share_of_violations(settled) == 0
    assert count_changes(decisions[300:]) <= 2  # one to where the plan is when it takes over


def test_what_is_too_large_for_a_steady_rate_is_left_for_something_cheaper():
    large = Deployment((0, 12))

    _, decisions = follow(a_planner(), steady(150.0, 600), start=large)

    assert 1.0 * decisions[-1].target.counts[0] + 2.1 * decisions[-1].target.counts[1] < 6


def test_what_chance_does_to_few_records_moves_it_seldom():
    types = (replace(SLOW, speedup=0.5, price=0.02), replace(FAST, speedup=1.6, price=0.05))
    model = a_model(
        node_types=types, max_replicas=3, service_mean=0.09, keyed=False, sharing=Sharing.BY_LOAD
    )
    moves = []

    for seed in range(6):
        # 70 records an interval: chance moves them by an eighth, and the capacities are near.
        rates = np.random.default_rng(seed).poisson(70, 150) / 5
        seen, _ = follow(
            a_planner(), rates, model=model, start=Deployment((0, 2)), interval=5.0, budget=0.75
        )
        moves.append(sum(one.deployment != two.deployment for one, two in pairwise(seen)))

    assert np.mean(moves) <= 5


def test_a_restart_that_costs_more_is_made_less_often():
    rates = days(4)

    _, cheap = follow(a_planner(reconfiguration_cost=0.05), rates)
    _, dear = follow(a_planner(reconfiguration_cost=1.0), rates)

    assert count_changes(dear) < count_changes(cheap)


def count_changes(decisions):
    return sum(a.target != b.target for a, b in pairwise(decisions))


def test_a_usual_rise_is_met_before_it_comes_once_the_days_are_known():
    observations, _ = follow(a_planner(), days(6, low=60.0, high=900.0))

    later = observations[4 * 1440 :]
    assert share_of_violations(later) < 0.002
    assert mean_price(later) < 0.95 * mean_price(observations[60:1440])


def mean_price(observations):
    return np.mean(
        [
            each.deployment.counts[0] * SLOW.price + each.deployment.counts[1] * FAST.price
            for each in observations
        ]
    )


def test_a_regime_that_changes_for_good_is_followed():
    rates = np.concatenate([steady(150.0, 3000), steady(900.0, 1500, seed=6)])

    observations, _ = follow(a_planner(), rates)

    assert share_of_violations(observations[2900:3100]) < 0.03
    assert share_of_violations(observations[3500:]) < 0.002


def decide_after(observations):
    """Return the last decision of a planner that has stayed through the observations before."""
    policy = a_planner()
    for seen in observations[:-1]:
        policy.decide(seen)
        policy.learn(an_interval(seen, seen))
    return policy.decide(observations[-1])


def test_the_records_of_a_usual_queue_do_not_keep_it_from_scaling_in():
    roomy = Deployment((0, 10))
    calm = [observe(MODEL, roomy, 100.0, tick) for tick in range(30)]
    queues = [replace(seen, backlog=seen.rate * seen.response_time) for seen in calm]

    decision = decide_after(queues)

    assert capacity(decision.target) < capacity(roomy)


def test_more_than_a_usual_queue_keeps_it_from_scaling_in():
    roomy = Deployment((0, 10))
    behind = 1.1 * 100.0 * BUDGET

    decision = decide_after(
        [observe(MODEL, roomy, 100.0, tick, backlog=behind) for tick in range(30)]
    )

    assert decision.target == roomy


@pytest.mark.parametrize("rate", range(50, 250, 10))
def test_a_usual_queue_makes_no_difference(rate):
    def decide(backlog):
        seen = observe(MODEL, TWO_SLOW, float(rate), backlog=backlog)
        return a_planner(catch_up=0.2).decide(seen).target

    assert decide(0.95 * rate * BUDGET) == decide(0.0)
    assert capacity(decide(20 * rate * BUDGET)) > capacity(decide(0.0))


def test_a_deployment_that_falls_behind_does_all_it_can_whatever_the_model_says():
    strained = {"processed": 100.0, "utilisation": (1.0, 1.0), "response_time": 1.0}

    decision = decide_after(
        [
            observe(MODEL, TWO_SLOW, 110.0, tick, backlog=60.0 * (tick + 1), **strained)
            for tick in range(3)
        ]
    )

    # Half as fast as believed: 110 records/s need what is believed to carry 220.
    assert capacity(decision.target) >= 2.2


@pytest.mark.parametrize(("processed", "stays"), [(120.0, True), (110.1, False)])
def test_a_deployment_that_works_off_what_waits_in_time_is_not_left_for_that(processed, stays):
    draining = {"processed": processed, "utilisation": (1.0, 1.0), "response_time": 1.0}

    waits = (200.0, 180.0, 160.0)
    seen = [observe(MODEL, TWO_SLOW, 110.0, t, backlog=b, **draining) for t, b in enumerate(waits)]

    assert (decide_after(seen).target == TWO_SLOW) is stays


def test_a_backlog_asks_for_more_than_the_rate_does():
    policy = a_planner()
    observations, _ = follow(policy, steady(300.0, 400))
    calm = observations[-1]
    behind = replace(calm, backlog=300_000.0)

    without, backlogged = policy.decide(calm), policy.decide(behind)

    assert without.target == calm.deployment
    assert capacity(backlogged.target) > capacity(without.target)


def capacity(deployment):
    return sum(
        count * node_type.speedup
        for count, node_type in zip(deployment, MODEL.node_types, strict=True)
    )


@pytest.mark.parametrize("factor", [0.9, 1.1])
def test_a_wrong_service_time_is_corrected_by_what_is_measured(factor):
    believed = replace(MODEL, service_mean=MODEL.service_mean * factor, service_scv=1.5)
    rates = steady(600.0, 1500)

    observations, _ = follow(a_planner(), rates, model=believed, truth=MODEL)
    exact, _ = follow(a_planner(), rates)

    assert share_of_violations(observations[300:]) == 0
    assert observations[-1].deployment == exact[-1].deployment


def test_where_response_times_leave_the_prediction_it_keeps_replicas_at_most_70_percent_busy():
    policy = a_planner()
    seen = observe(MODEL, Deployment((8, 0)), 500.0)
    for tick in range(1, 200):
        erratic = 0.04 if tick % 2 else 0.004
        following = observe(MODEL, policy.decide(seen).target, 500.0, tick, response_time=erratic)
        policy.learn(an_interval(seen, following))
        seen = following

    decision = policy.decide(seen)

    assert max(seen.utilisation) <= 0.71
    assert "differ from the prediction" in decision.reason


def test_a_resize_within_a_pool_is_taken_where_a_restart_would_not_pay():
    half = NodeType(name="p/1", pool="p", speedup=1.0, price=1.0)
    whole = NodeType(name="p/2", pool="p", speedup=2.0, price=2.0)
    model = a_model(node_types=(half, whole), max_replicas=4, keyed=True)
    policy = a_planner(reconfiguration_cost=1000.0)

    observations, _ = follow(
        policy, days(4, low=100.0, high=450.0), model=model, start=Deployment((0, 4))
    )

    later = observations[2 * 1440 :]
    assert {each.deployment.size for each in later} == {4}
    assert len({each.deployment for each in later}) > 1


def test_pool_limits_are_kept_and_the_other_pool_helps_out():
    limited = replace(FAST, pool_limit=2)
    model = a_model(node_types=(SLOW, limited), max_replicas=12, keyed=True)

    observations, decisions = follow(a_planner(), steady(700.0, 400), model=model)

    assert all(decision.target.counts[1] <= 2 for decision in decisions)
    assert share_of_violations(observations[50:]) == 0


@pytest.mark.parametrize("sharing", Sharing)
def test_the_budget_is_kept_under_every_rule_of_sharing(sharing):
    model = a_model(node_types=(SLOW, FAST), max_replicas=12, keyed=True, sharing=sharing)

    observations, _ = follow(a_planner(corrects=0), steady(600.0, 500), model=model)

    assert share_of_violations(observations[100:]) == 0


def test_ten_types_of_twenty_replicas_are_planned_for():
    types = tuple(
        NodeType(name=f"t{place}", pool=f"t{place}", speedup=0.5 + 0.2 * place, price=1 + place)
        for place in range(10)
    )
    model = a_model(node_types=types, max_replicas=20, keyed=True)
    start = Deployment((2, *[0] * 9))

    observations, _ = follow(a_planner(), steady(900.0, 200), model=model, start=start)

    assert share_of_violations(observations[10:]) == 0


def test_two_hundred_replicas_are_planned_for():
    model = a_model(node_types=(SLOW,), max_replicas=200, keyed=True)

    observations, _ = follow(a_planner(), steady(9000.0, 200), model=model, start=Deployment((2,)))

    assert share_of_violations(observations[10:]) == 0


def test_it_says_what_it_expects_what_that_costs_and_what_a_restart_costs():
    policy = a_planner()
    observations, _ = follow(policy, days(3))

    decision = policy.decide(observations[-1])

    for word in ("expected within", "records/s", "per hour", "a restart"):
        assert word in decision.reason


def first_plan(part_of_interval):
    """Return the interval in which the first plan is made, ticking at this part of each."""
    policy = a_planner()
    seen = observe(MODEL, TWO_SLOW, 300.0, part_of_interval)
    for interval in range(1, 60):
        following = observe(MODEL, TWO_SLOW, 300.0, interval + part_of_interval)
        policy.learn(an_interval(seen, following))
        seen = following
        if "no plan yet" not in policy.decide(seen).reason:
            return interval
    raise AssertionError("Expected a plan within an hour")


def test_first_plans_are_spread_by_the_moment_of_the_tick():
    # A tick a little late (0.0001) or early (0.9999) plans like one on time.
    parts = (0.0, 0.0001, 0.1, 0.2, 0.5, 0.9, 0.9999)

    assert [first_plan(part) for part in parts] == [20, 20, 21, 22, 25, 29, 20]


def test_it_says_which_rule_it_follows_and_what_the_plan_would_have_cost():
    rng = np.random.default_rng(1)
    rates = np.full(3000, 150.0)
    for begin in rng.integers(0, 2900, 8):
        rates[begin : begin + 15] = rng.uniform(300, 600)
    policy = a_planner()
    observations, _ = follow(policy, rates * rng.lognormal(0, 0.03, rates.size))

    reason = policy.decide(observations[-1]).reason

    assert "a margin" in reason
    assert "the plan" in reason


def restarting(policy, times, *, late):
    """Let a policy learn from restarts, each followed by an interval that is late or is not."""
    response = {"response_time": 2 * BUDGET} if late else {}
    seen = observe(MODEL, TWO_SLOW, 100.0)
    for tick in range(1, 2 * times + 1):
        there = (Deployment((3, 0)), TWO_SLOW)[tick // 2 % 2]
        following = observe(MODEL, there, 100.0, tick, **response)
        policy.learn(an_interval(seen, following))
        seen = following
    return seen


def test_it_names_a_margin_only_where_it_keeps_one():
    kept, given_up = a_planner(), a_planner()

    with_margin = kept.decide(restarting(kept, 1, late=False)).reason
    without = given_up.decide(restarting(given_up, 6, late=True)).reason

    assert "the current rate plus a margin of" in with_margin
    assert "it sizes for the current rate, 100 records/s" in without


@pytest.mark.parametrize("ticks", [1, 1500])
def test_it_says_that_nothing_carries_the_rate_where_nothing_does(ticks):
    model = replace(MODEL, max_replicas=2)
    policy = a_planner()
    [*_, seen], _ = follow(policy, [300.0] * ticks, model=model)

    possible = policy.decide(seen).reason
    following = replace(seen, rate=1200.0, processed=300.0, response_time=math.inf)
    policy.learn(an_interval(seen, following))
    impossible = policy.decide(following).reason

    assert "no deployment carries more than" not in possible
    assert "no deployment carries more than" in impossible


def test_it_says_over_which_time_costs_were_added_and_why_what_costs_less_is_not_followed():
    policy = a_planner()
    [*_, seen], _ = follow(policy, days(1)[300:421])

    reason = policy.decide(seen).reason

    assert "over the last 2.0 h" in reason
    assert "in the first 3.0 h, costs decide nothing" in reason


def test_replicas_of_two_types_are_exchanged_and_not_removed():
    exchanged = explain_rule(observe(MODEL, TWO_SLOW, 100.0), Deployment((0, 1)), "faster")
    removed = explain_rule(observe(MODEL, TWO_SLOW, 100.0), Deployment((1, 0)), "enough")

    assert exchanged.reason.startswith("Goes to 1 x fast")
    assert removed.reason.startswith("Removes a replica")


def hourly(ticks):
    """Return a rate that is four times as high in 12 minutes of each hour."""
    return np.where(np.arange(ticks) % 60 < 12, 600.0, 150.0) * steady(1.0, ticks)


def test_it_says_that_it_plans_for_a_period_and_how_long_that_is():
    policy = a_planner()
    observations, decisions = follow(policy, hourly(1500))

    reason = decisions[-1].reason

    assert "repeats every 60 min" in reason
    assert "this plan would have cost" in reason
    assert "rule" not in reason

    after = replace(observations[-1], time=observations[-1].time + 60.0 * 2000)
    policy.learn(an_interval(observations[-1], after))
    assert "repeats" not in policy.decide(after).reason


def test_a_restart_for_another_operator_is_joined_before_there_is_a_need_of_ones_own():
    policy = a_planner()
    observations, _ = follow(policy, [135.0, 135.0, 135.0])
    seen = replace(observations[-1], rate=140.0, processed=140.0)

    alone = policy.decide(seen)
    joined = policy.decide(replace(seen, restarts_anyway=True))
    again = policy.decide(seen)

    assert alone.target == TWO_SLOW
    assert joined.target.size > TWO_SLOW.size or joined.target.counts[1] > 0
    assert "restarted for another operator" in joined.reason
    assert repr(again) == repr(alone)


@pytest.mark.parametrize("rate", [250.0, 350.0])
def test_the_less_is_known_of_the_rate_the_larger_is_the_margin_of_a_restart(rate):
    targets = []
    for known in (3, 600):
        policy = a_planner()
        observations, _ = follow(policy, [135.0] * known)
        targets.append(policy.decide(replace(observations[-1], rate=rate, processed=rate)))

    early, late = targets
    assert carries_enough(early, 1.3 * rate)
    assert carries_enough(late, 1.2 * rate)
    assert early.target.size + early.target.counts[1] >= late.target.size + late.target.counts[1]


def carries_enough(decision, rate):
    """Return whether the target is predicted to meet the budget at a rate."""
    times, _ = predict_means(MODEL, np.array([decision.target.counts]), rate)
    return float(times[0]) <= BUDGET


def test_behind_an_operator_that_is_too_slow_it_prepares_for_what_would_arrive():
    policy = a_planner()
    observations, _ = follow(policy, [60.0, 60.0, 60.0])
    held_back = replace(observations[-1], offered_rate=400.0, upstream_backlog=20_000.0)

    decision = policy.decide(held_back)

    assert not carries_enough(policy.decide(observations[-1]), 400.0)
    assert carries_enough(decision, 400.0)


@pytest.mark.parametrize(
    "upstream",
    [
        {"offered_rate": math.nan, "upstream_backlog": 20_000.0},
        {"offered_rate": 400.0, "upstream_backlog": math.nan},
        {"offered_rate": 400.0, "upstream_backlog": 0.0},
    ],
)
def test_without_a_known_backlog_upstream_the_measured_rate_counts(upstream):
    policy = a_planner()
    observations, _ = follow(policy, [60.0, 60.0, 60.0])
    seen = observations[-1]

    decision = policy.decide(replace(seen, **upstream))

    assert decision.target == policy.decide(seen).target


def test_a_backlog_that_grows_needs_more_than_one_that_falls():
    policy = a_planner()
    observations, _ = follow(policy, [150.0, 150.0, 150.0])
    seen = replace(observations[-1], rate=400.0, backlog=20_000.0)

    grows = policy.decide(replace(seen, processed=200.0))
    falls = policy.decide(replace(seen, processed=450.0))

    assert grows.expectation.cost_per_hour > falls.expectation.cost_per_hour
