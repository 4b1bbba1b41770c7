"""Lohrmann and DRS, by hand."""

import math
from dataclasses import replace

import numpy as np
import pytest

from weir_policies import registry
from weir_policies.errors import ParameterError, StateError
from weir_policies.kernels.paths import flatten_paths, list_paths
from weir_policies.kernels.policy import VERSION
from weir_policies.kernels.view import empty_view
from weir_policies.model.dataflow import Dataflow, Edge
from weir_policies.model.node_types import Deployment, NodeType
from weir_policies.testing import a_model, a_transition, an_observation

ONE_TYPE = (NodeType(name="t", pool="p", speedup=1.0, price=1.0),)


def decide(name, rate, *, budget=0.05, replicas=2, service=0.01, **parameters):
    policy = registry.build_joint(name, rng=np.random.default_rng(7), parameters=parameters)
    model = a_model(node_types=ONE_TYPE, service_mean=service, service_scv=1.0)
    deployment = Deployment((replicas,))
    seen = an_observation(model=model, deployment=deployment, rate=rate, budget=budget)
    return policy.decide({"match": seen}, Dataflow(operators=("match",)))["match"].target.size


def test_lohrmann_takes_the_fewest_replicas_whose_wait_keeps_the_budget():
    # W(p) = 0.01^2 l / (p - 0.01 l): at 150/s, 30 ms on 2 replicas, 10 ms on 3.
    assert decide("lohrmann-first", 150.0, budget=0.029) == 3
    assert decide("lohrmann-first", 90.0, budget=0.05, replicas=1) == 2
    assert decide("lohrmann-first", 50.0, budget=0.05) == 1


def test_lohrmann_gives_all_it_has_where_that_is_not_enough():
    assert decide("lohrmann-first", 2000.0) == 10


def test_lohrmann_doubles_what_is_saturated():
    assert decide("lohrmann-first", 395.0, replicas=3, budget=10.0) >= 6


def test_published_drs_takes_the_fewest_that_keep_up():
    assert decide("drs-first", 250.0, published=1) == 3
    assert decide("drs-first", 0.0, published=1) == 1


def test_drs_adds_until_the_sojourn_time_keeps_the_budget():
    # M/M/3 at load 2.5 waits 14 ms on top of 10 ms of service, M/M/4 waits 2.1 ms.
    assert decide("drs-first", 250.0, budget=0.025) == 3
    assert decide("drs-first", 250.0, budget=0.020) == 4


def test_drs_gives_all_it_has_where_nothing_keeps_the_budget():
    # A record takes 10 ms of service alone.
    assert decide("drs-first", 250.0, budget=0.005) == 10


def test_paths_of_a_fork_are_all_found():
    view = empty_view(operators=4, node_types=1, max_replicas=3, edges=4)
    view.edges[:] = [[0, 1], [0, 2], [1, 3], [2, 3]]

    paths = list_paths(view)

    assert sorted(paths) == [[0, 1, 3], [0, 2, 3]]
    assert flatten_paths(paths)[:2] == [2, 3]


def test_too_many_paths_are_refused_with_a_remedy():
    stages = 15
    view = empty_view(operators=2 * stages, node_types=1, max_replicas=3, edges=4 * (stages - 1))
    view.edges[:] = [
        [2 * stage + here, 2 * stage + 2 + there]
        for stage in range(stages - 1)
        for here in (0, 1)
        for there in (0, 1)
    ]

    with pytest.raises(ParameterError, match=r"10,000 paths.*decides per operator"):
        list_paths(view)


PAIR = Dataflow(operators=("a", "b"), edges=(Edge(source="a", target="b"),))


def observe_pair(rate, *, budgets, service_of_b=0.01):
    """Return what is seen of two operators in a row, on two replicas each."""
    times = {"a": 0.01, "b": service_of_b}
    return {
        name: an_observation(
            model=a_model(
                name=name, node_types=ONE_TYPE, service_mean=times[name], service_scv=1.0
            ),
            deployment=Deployment((2,)),
            rate=rate,
            budget=budget,
        )
        for name, budget in zip(PAIR.operators, budgets, strict=True)
    }


@pytest.mark.parametrize("name", ["drs-first", "lohrmann-first"])
def test_what_one_operator_does_not_need_of_a_path_another_may_use(name):
    policy = registry.build_joint(name, rng=np.random.default_rng(7))
    halves = observe_pair(150.0, budgets=(0.04, 0.04))
    uneven = observe_pair(150.0, budgets=(0.079, 0.001))

    even, same = policy.decide(halves, PAIR), policy.decide(uneven, PAIR)

    assert {each: even[each].target for each in even} == {each: same[each].target for each in same}


def test_operators_without_an_edge_between_them_have_paths_of_their_own():
    policy = registry.build_joint("drs-first", rng=np.random.default_rng(7))
    apart = Dataflow(operators=PAIR.operators)
    uneven = observe_pair(150.0, budgets=(0.06, 0.011))

    together, alone = policy.decide(uneven, PAIR), policy.decide(uneven, apart)

    assert together["b"].target.size < alone["b"].target.size


def test_an_unknown_service_time_of_one_operator_holds_all():
    policy = registry.build_joint("drs-first", rng=np.random.default_rng(7))
    seen = observe_pair(500.0, budgets=(0.04, 0.04), service_of_b=math.nan)

    decisions = policy.decide(seen, PAIR)

    assert all(decision.target == Deployment((2,)) for decision in decisions.values())
    assert "service mean of b is not known" in decisions["a"].reason


def test_the_order_in_which_node_types_are_listed_does_not_matter():
    small = NodeType(name="s", pool="s", speedup=1.0, price=1.0)
    large = NodeType(name="l", pool="l", speedup=2.0, price=3.0)
    policy = registry.build_joint("drs-cheapest", rng=np.random.default_rng(7))
    seen = {}
    for name, types in {"a": (small, large), "b": (large, small)}.items():
        model = a_model(name=name, node_types=types, service_scv=1.0)
        here = Deployment.from_named({"l": 1}, types)
        seen[name] = an_observation(model=model, deployment=here, rate=250.0, budget=0.02)

    decisions = policy.decide(seen, PAIR)

    for name, decision in decisions.items():
        named = decision.target.named(seen[name].model.node_types)
        assert named["l"] == 1  # what runs stays, what is added is the cheapest
        assert named["s"] >= 2


def test_what_was_learned_of_other_operators_is_not_used():
    parameters = {"centralised": 1, "levels": 4, "max_rate": 400, "first_solve": 1}
    policy = registry.build_joint("mdp", rng=np.random.default_rng(7), parameters=parameters)
    seen = {
        name: replace(each, model=replace(each.model, max_replicas=3))
        for name, each in observe_pair(100.0, budgets=(0.02, 0.02)).items()
    }
    policy.learn({name: a_transition(each, each) for name, each in seen.items()}, PAIR)
    assert "the plan expects" in policy.decide(seen, PAIR)["a"].reason

    alone = policy.decide({"a": seen["a"]}, Dataflow(operators=("a",)))

    assert "no training trace" in alone["a"].reason


def test_the_state_of_another_kind_of_policy_is_refused():
    policy = registry.build_joint("drs-first", rng=np.random.default_rng(7))

    with pytest.raises(StateError, match="a compiled policy for a whole application"):
        policy.load_state_dict({"version": VERSION, "shape": [1, 10]})
