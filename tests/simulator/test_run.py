import pytest

from tests.simulator.builders import an_experiment
from weir_simulator.run import simulate


def run(**changes):
    policy = changes.pop("policy", None)
    parameters = changes.pop("parameters", None)
    trace = {"kind": "taxi", "slots": 3000}
    experiment = an_experiment(**{"trace": trace, **changes})
    return simulate(experiment, seed=1, policy=policy, parameters=parameters)


def test_rate_levels_reach_a_policy_that_was_given_no_parameters():
    named = run(policy="ql-pds", parameters={"levels": 4, "max_rate": 300.0})
    from_experiment = run(policy="ql-pds", rate={"levels": 4, "max": 300.0})

    assert from_experiment.average_cost == named.average_cost
    assert from_experiment.average_cost != run(policy="ql-pds").average_cost


def test_what_a_policy_was_given_wins_over_the_experiments_rate_levels():
    given = run(policy="ql-pds", parameters={"levels": 4}, rate={"levels": 9, "max": 300.0})

    assert given.average_cost == run(policy="ql-pds", rate={"levels": 4, "max": 300.0}).average_cost


def test_the_parts_add_up():
    weights = {"violations": 0.6, "resources": 0.2, "reconfigurations": 0.2}

    result = run(policy="ql-pds", weights=weights)

    operator = an_experiment().operators[0]
    maximum = an_experiment().dearest * operator.max_replicas
    assert result.average_cost == pytest.approx(
        0.6 * result.violations / 100
        + 0.2 * result.resources / maximum
        + 0.2 * result.reconfigurations / 100
    )
    assert sum(result.replicas.values()) >= 1
    assert result.curve[-1] == pytest.approx(result.average_cost)


def test_a_change_in_the_world_happens_in_its_slot():
    calm = {"trace": {"kind": "taxi", "slots": 400}}
    dearer = {"changes": [{"slot": 200, "prices": {"t1": 10.0}}]}

    before = run(policy="hold", **calm)
    after = run(policy="hold", world=dearer, **calm)

    assert after.resources == pytest.approx(before.resources * (1 + 10) / 2)


def test_losses_cost_time_and_no_replicas():
    world = {"lossProbability": 0.05, "downtime": "30s", "provisioningDelay": "2m"}
    slots = {"trace": {"kind": "taxi", "slots": 500}}

    calm, rough = run(policy="hold", **slots), run(policy="hold", world=world, **slots)

    assert rough.losses > 0
    assert rough.violations > calm.violations
    assert rough.replicas == calm.replicas


@pytest.mark.parametrize("policy", ["lohrmann-fastest", "drs-fastest"])
def test_a_dataflow_is_scaled_as_a_whole(policy):
    operators = [
        {"name": name, "serviceRate": rate, "scv": 1.0, "maxReplicas": 12}
        for name, rate in (("slow", 100), ("quick", 1000))
    ]
    experiment = an_experiment(
        operators=operators,
        edges=[["quick", "slow"]],
        node_types=[{"name": "t1", "speedup": 1.0, "price": 1.0}],
        objective={"responseTime": "100ms"},
        trace={"kind": "taxi", "slots": 2000},
    )

    scaled = simulate(experiment, seed=1, policy=policy)
    held = simulate(experiment, seed=1, policy="hold")

    # Both size for the rate that was, without headroom, so a rise is a violation.
    assert scaled.violations < held.violations / 2
    assert scaled.resources < 24
