"""No decision makes a StreamApp cost more than `objective.maxCostPerHour`."""

import math
from dataclasses import replace

from tests.operator.loop.am_setting import FLOW, TYPES, an_am, rule, wishing
from weir_operator.loop.bounds import WORKING_OFF, CostCap, floors_at, refuse_target
from weir_operator.loop.directives import Directives
from weir_operator.loop.proposals import Proposal, cut_all, is_short_of_money
from weir_operator.streamapp.managers import Fallback
from weir_operator.streamapp.operators import Operator
from weir_policies.model.node_types import Deployment
from weir_policies.policy import Expectation
from weir_policies.testing import a_decision, a_model, an_observation

PRICES = {each.name: each.price for each in TYPES}
"""A replica of the first node type costs 0.02."""
JOB_MANAGER = 0.01
FULL = {name: {TYPES[0].name: 2} for name in FLOW.operators}
"""Costs 0.08 and the JobManager."""


def a_cap(limit):
    return CostCap(limit, prices=PRICES, job_manager=JOB_MANAGER)


def seeing(*counts, **changes):
    return an_observation(deployment=Deployment((*counts, *(0,) * (3 - len(counts)))), **changes)


def test_operators_share_what_the_job_manager_and_fixed_ones_leave():
    seen = {"match": seeing(1), "count": seeing(1), "sink": seeing(0, 0, 1)}

    limited = a_cap(0.2).limit_observations(seen, ["sink"])

    prices = [limited[name].max_price for name in ("match", "count")]
    assert limited["sink"].max_price is None
    assert math.isclose(sum(each or 0.0 for each in prices), 0.2 - JOB_MANAGER - 0.05)


def test_without_a_limit_nothing_is_limited():
    seen = {"match": seeing(1)}

    assert a_cap(None).limit_observations(seen, []) == seen


def test_a_proposal_is_cut_to_what_the_operator_may_cost():
    seen = seeing(2, max_price=0.08)
    wish = wishing(9, urgency=0.9).decision

    [cut] = cut_all(
        {"match": Proposal(observation=seen, decision=wish)},
        {"match": seen},
        {},
    ).values()

    assert cut.decision.target == Deployment((4, 0, 0))
    assert "a cost of at most 0.08 per hour" in cut.decision.reason


def test_what_is_granted_together_costs_no_more_than_the_limit():
    am = an_am(restarts=3, cap=a_cap(0.13))  # 0.09 now

    ruling = rule(am, match=wishing(4, urgency=0.9), count=wishing(3, urgency=0.8))

    assert ruling.granted == ("match",)
    assert "objective.maxCostPerHour is 0.13" in ruling.verdicts["count"]
    assert a_cap(0.13).cost_of(ruling.target) <= 0.13 + 1e-9


def test_what_saves_makes_way_for_what_costs():
    ruling = rule(
        an_am(restarts=3, cap=a_cap(0.09)),
        match=wishing(3, urgency=0.9),
        count=wishing(1, urgency=0.1),
    )

    assert set(ruling.granted) == {"match", "count"}


def test_where_it_costs_too_much_already_only_savings_are_granted():
    am = an_am(restarts=3, cap=a_cap(0.05))

    ruling = rule(am, match=wishing(1, urgency=0.9), count=wishing(3, urgency=0.9))

    assert ruling.granted == ("match",)


def test_the_limit_counts_more_than_what_is_measured():
    busy = seeing(2, rate=190.0, max_price=0.02, utilisation=(0.95, 0.95))

    assert refuse_target(busy, Deployment((1, 0, 0)), (WORKING_OFF,)) is None
    assert refuse_target(seeing(2), Deployment((1, 0, 0)), (WORKING_OFF,)) is not None


def test_the_fallback_keeps_the_limit():
    models = {name: a_model(name=name) for name in FLOW.operators}
    am = an_am(restarts=3, cap=a_cap(0.2))

    largest = Fallback.model_validate({"deployment": "Largest"}, strict=False)
    target = am.find_fallback(largest, FULL, models, {})

    assert target != FULL
    assert am.cap.cost_of(target) <= 0.2 + 1e-9


def test_a_deployment_to_return_to_that_costs_too_much_is_refused():
    large = {"match": {TYPES[0].name: 9}}

    assert "would cost 0.19 per hour" in str(a_cap(0.1).refuse(large, {"match": {}}))
    assert a_cap(0.1).refuse(large, large) is None  # it costs no more than now
    assert a_cap(0.2).refuse(large, {"match": {}}) is None


def test_it_says_which_floor_it_does_not_pay_for():
    floors = floors_at(
        Directives(operators=(Operator(name="match", min_replicas=6),)), 0.0, ahead=0.0
    )
    cap = a_cap(0.08)
    seen = cap.limit_observations({"match": seeing(1, min_replicas=6), "count": seeing(1)}, [])

    told = cap.describe(seen, [], floors)

    assert "objective.maxCostPerHour = 0.08" in told
    assert "match has a floor of 6 by its minReplicas" in told


def test_it_says_which_floor_it_does_not_pay_for_once_the_cheap_pool_is_full():
    cheap, dear = replace(TYPES[0], pool="cheap", pool_limit=1), replace(TYPES[1], pool="dear")
    model = a_model(node_types=(cheap, dear))
    floors = floors_at(
        Directives(operators=(Operator(name="match", min_replicas=3),)), 0.0, ahead=0.0
    )
    money = cheap.price + 1.5 * dear.price
    cap = a_cap(JOB_MANAGER + money)
    seen = an_observation(model=model, deployment=Deployment((1, 0)), min_replicas=3)

    told = cap.describe(cap.limit_observations({"match": seen}, []), [], floors)

    assert 3 * cheap.price < money
    assert "match has a floor of 3 by its minReplicas" in told


def test_it_says_what_it_keeps_from_enough_replicas():
    cap = a_cap(0.08)
    seen = cap.limit_observations({"match": seeing(1, rate=900.0)}, [])
    busy = Expectation(response_time=math.nan, utilisation=2.0, cost_per_hour=0.06)
    decision = a_decision(target=Deployment((3, 0, 0)), expectation=busy)

    assert is_short_of_money(Proposal(observation=seen["match"], decision=decision))
    assert cap.describe(seen, ["match"], {}) == (
        "objective.maxCostPerHour = 0.08 does not pay for what match would need"
    )
    assert cap.describe(seen, [], {}) == ""
