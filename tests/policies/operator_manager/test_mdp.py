"""The 2018 policies on problems small enough to know the answer."""

import json

import numpy as np
import pytest

from weir_policies import registry
from weir_policies.errors import ParameterError
from weir_policies.model.node_types import Deployment
from weir_policies.testing import a_transition, an_observation
from weir_simulator.experiment import Experiment
from weir_simulator.run import simulate

CHAIN = [
    {"name": "a", "serviceRate": 100, "scv": 0.0, "maxReplicas": 3},
    {"name": "b", "serviceRate": 60, "scv": 0.0, "maxReplicas": 3},
]


def build(name, **parameters):
    return registry.build(name, rng=np.random.default_rng(7), parameters=parameters)


def live(policy, *, rate, ticks, start=(0, 2, 0)):
    """Let a policy have its way at one rate; return where it ends."""
    deployment = Deployment(start)
    observation = an_observation(deployment=deployment, rate=rate)
    for tick in range(ticks):
        target = policy.decide(observation).target
        following = an_observation(deployment=target, rate=rate, time=60.0 * tick)
        policy.learn(a_transition(observation, following))
        observation = following
    return observation.deployment


def an_experiment(tmp_path, **changes):
    np.savetxt(tmp_path / "steps.txt", np.tile(np.repeat([40.0, 150.0], 300), 5))
    fields = {
        "operators": CHAIN,
        "edges": [["a", "b"]],
        "nodeTypes": [{"name": "t", "speedup": 1.0, "price": 1.0}],
        "objective": {"responseTime": "200ms"},
        "rate": {"levels": 10, "max": 200},
        "trace": {"file": str(tmp_path / "steps.txt")},
        "training": {"file": str(tmp_path / "steps.txt")},
    }
    return Experiment.model_validate_json(json.dumps(fields | changes))


@pytest.mark.parametrize("known", [0, 1])
def test_learning_ends_at_the_fewest_replicas_that_keep_the_utilisation(known):
    # 230/s at 10 ms a record: 4 replicas are busy by 0.575, 3 by 0.767.
    policy = build("mdp-rl", known=known, node_type=1, max_rate=600.0)

    end = live(policy, rate=230.0, ticks=900)

    assert end == Deployment((0, 4, 0))


def test_another_bound_of_the_utilisation_is_another_plan():
    policy = build("mdp-rl", known=1, node_type=1, max_rate=600.0, max_utilisation=0.8)

    end = live(policy, rate=230.0, ticks=300)

    assert end == Deployment((0, 3, 0))


def test_replicas_of_other_types_leave_first():
    policy = build("mdp-rl", known=1, node_type=1, max_rate=600.0)

    end = live(policy, rate=20.0, ticks=300, start=(2, 1, 1))

    assert end == Deployment((0, 1, 0))


def test_without_a_training_trace_a_plan_is_awaited():
    policy = build("mdp", node_type=1, max_rate=600.0, first_solve=50)

    early = live(policy, rate=230.0, ticks=49)
    reason = policy.decide(an_observation(rate=230.0)).reason
    late = live(policy, rate=230.0, ticks=60)

    assert early == Deployment((0, 2, 0))
    assert "49 of the 50 intervals" in reason
    assert late == Deployment((0, 4, 0))


def test_a_node_type_that_does_not_exist_is_refused():
    policy = build("mdp-rl", node_type=3)

    with pytest.raises(ParameterError, match=r"node_type of mdp-rl below 3, .* got 3; give"):
        policy.decide(an_observation())


@pytest.mark.parametrize(
    "policy", [("mdp", {}), ("mdp-rl", {"known": 1}), ("mdp-rl", {"known": 0})], ids=str
)
def test_centralised_control_costs_no_more_than_decentralised(tmp_path, policy):
    experiment = an_experiment(tmp_path)
    name, parameters = policy

    central = simulate(experiment, seed=1, policy=name, parameters=parameters | {"centralised": 1})
    apart = simulate(experiment, seed=1, policy=name, parameters=parameters)

    assert central.reconfigurations > 0
    assert central.average_cost <= 1.05 * apart.average_cost


@pytest.mark.parametrize(
    "policy", [("mdp", {}), ("mdp-rl", {"known": 1}), ("mdp-rl", {"known": 0})], ids=str
)
def test_end_to_end_one_operator_may_be_slow_where_the_others_make_up_for_it(tmp_path, policy):
    # 20 and 5 ms of service against 40 ms: no deployment keeps `slow` within its half.
    operators = [
        {"name": "slow", "serviceRate": 50, "scv": 0.0, "maxReplicas": 5},
        {"name": "fast", "serviceRate": 200, "scv": 0.0, "maxReplicas": 3},
    ]
    np.savetxt(tmp_path / "even.txt", np.full(2000, 100.0))
    trace = {"file": str(tmp_path / "even.txt")}
    experiment = an_experiment(
        tmp_path, operators=operators, edges=[["slow", "fast"]],
        objective={"responseTime": "40ms"}, trace=trace, training=trace,
    )  # fmt: skip
    name, parameters = policy

    each, path = (
        simulate(
            experiment, seed=1, policy=name,
            parameters=parameters | {"centralised": 1, "end_to_end": end_to_end},
        )
        for end_to_end in (0, 1)
    )  # fmt: skip

    assert each.violations > 90
    assert path.violations < 10


def test_a_joint_plan_beyond_reach_is_refused(tmp_path):
    operators = [operator | {"maxReplicas": 200} for operator in CHAIN]
    experiment = an_experiment(tmp_path, operators=operators)

    with pytest.raises(ParameterError, match=r"3,600,000 pairs .* give centralised = 0"):
        simulate(experiment, seed=1, policy="mdp-rl", parameters={"centralised": 1})
