"""The batched loop of the deep policies against the plain loop, which asks the live policy."""

import json

import numpy as np
import pytest

from weir_simulator.arrivals import arrival_rates
from weir_simulator.deep import can_batch, simulate_deep
from weir_simulator.errors import SimulatorError
from weir_simulator.experiment import Experiment
from weir_simulator.plain_loop import run_policies
from weir_simulator.policies import settings_of
from weir_simulator.result import new_outcome, summarise
from weir_simulator.state import AT_CHANGE

DEEP = ("dqn", "dqn-pds", "dqn-pds-plus")
SLOTS = 240


@pytest.fixture(scope="module")
def trace_file(tmp_path_factory):
    slots = np.arange(SLOTS)
    rates = 330 + 250 * np.sin(slots / 30) + np.random.default_rng(4).normal(0, 20, SLOTS)
    file = tmp_path_factory.mktemp("deep") / "trace.txt"
    file.write_text("\n".join(f"{rate:.1f}" for rate in rates))
    return file


@pytest.fixture
def experiment(trace_file):
    def make(**changes):
        speedups = {"t1": 1.0, "t2": 0.7, "t3": 1.3}
        document = {
            "operators": [{"name": "op", "serviceRate": 180, "scv": 0.5, "maxReplicas": 6}],
            "nodeTypes": [
                {"name": name, "speedup": speedup, "price": speedup}
                for name, speedup in speedups.items()
            ],
            "costNormaliser": 2.0,
            "objective": {"responseTime": "50ms"},
            "rate": {"levels": 20, "max": 650},
            "trace": {"file": str(trace_file)},
            "believed": {"serviceError": [0.05, 0.1], "scv": 1.0, "speedupError": 0.2},
        }
        return Experiment.model_validate_json(json.dumps(document | changes))

    return make


def run_alone(experiment, seed, policy, parameters):
    """Run the live policy in the plain loop."""
    trace = arrival_rates(experiment.trace)
    outcome = new_outcome(trace.size, len(experiment.node_types), history=True)
    settings = settings_of(experiment, parameters)
    run_policies(experiment, trace, policy, settings, outcome, seed=seed)
    return summarise(experiment, policy, seed, trace.size, outcome, 1.0)


def outcome_of(result):
    return {
        "cost": result.average_cost,
        "violations": result.violations,
        "reconfigurations": result.reconfigurations,
        "resources": result.resources,
        **result.replicas,
    }


@pytest.mark.parametrize("policy", DEEP)
def test_a_batch_of_runs_gives_what_the_live_policy_gives_in_each(experiment, policy):
    seeds = (3, 8)

    batched = simulate_deep([(experiment(), seed) for seed in seeds], policy=policy, parameters={})

    for seed, result in zip(seeds, batched, strict=True):
        alone = run_alone(experiment(), seed, policy, {})
        assert outcome_of(result) == pytest.approx(outcome_of(alone), rel=1e-9)
        assert result.curve == pytest.approx(alone.curve, rel=1e-9)


def test_a_batch_keeps_what_happened_in_every_slot_where_it_is_asked_to(experiment):
    seeds = (3, 8)

    batched = simulate_deep(
        [(experiment(), seed) for seed in seeds], policy="dqn-pds", parameters={}, history=True
    )

    for seed, result in zip(seeds, batched, strict=True):
        alone = run_alone(experiment(), seed, "dqn-pds", {})
        np.testing.assert_allclose(result.history, alone.history, rtol=1e-9)
        assert result.history[:, AT_CHANGE].any()


def test_what_the_reproduction_asks_for_agrees_as_well(experiment):
    parameters = {"published": 1, "encoding": "reduced2-set", "hidden_layers": 2}

    (batched,) = simulate_deep([(experiment(), 5)], policy="dqn", parameters=parameters)

    alone = run_alone(experiment(), 5, "dqn", parameters)
    assert outcome_of(batched) == pytest.approx(outcome_of(alone), rel=1e-9)


def test_runs_of_a_batch_differ_by_seed_and_by_experiment(experiment):
    dear = experiment(weights={"resources": 2.0})

    first, second, third = simulate_deep(
        [(experiment(), 3), (experiment(), 4), (dear, 3)], policy="dqn", parameters={}
    )

    assert outcome_of(first) != outcome_of(second)
    assert third.average_cost > first.average_cost


def test_changes_on_the_way_change_what_is_paid_and_what_arrives(experiment):
    dearer = {"t1": 100.0, "t2": 100.0, "t3": 100.0}
    changes = [{"slot": 120, "rate": 0.5, "prices": dearer, "speedups": {"t2": 0.9}}]
    changed = experiment(world={"changes": changes})

    (batched,) = simulate_deep([(changed, 3)], policy="dqn-pds", parameters={})

    alone = run_alone(changed, 3, "dqn-pds", {})
    assert outcome_of(batched) == pytest.approx(outcome_of(alone), rel=1e-9)
    (unchanged,) = simulate_deep([(experiment(), 3)], policy="dqn-pds", parameters={})
    assert batched.resources > 10 * unchanged.resources


def test_a_policy_without_a_network_is_refused(experiment):
    with pytest.raises(SimulatorError, match="Expected a policy with a network, got 'ql-pds'"):
        simulate_deep([(experiment(), 1)], policy="ql-pds", parameters={})


def test_a_world_beyond_the_papers_is_refused(experiment):
    beyond = experiment(world={"downtime": "5s"})

    assert can_batch(experiment())
    assert not can_batch(beyond)
    with pytest.raises(SimulatorError, match="batched loop knows no other world"):
        simulate_deep([(beyond, 1)], policy="dqn", parameters={})


def test_runs_of_other_shapes_are_refused(experiment):
    larger = [{"name": "op", "serviceRate": 180, "scv": 0.5, "maxReplicas": 7}]

    with pytest.raises(SimulatorError, match="Expected runs with equal numbers of node types"):
        simulate_deep(
            [(experiment(), 1), (experiment(operators=larger), 1)], policy="dqn", parameters={}
        )


def test_traces_of_other_lengths_are_refused(experiment, trace_file):
    shorter = experiment(trace={"file": str(trace_file), "slots": 100})

    with pytest.raises(SimulatorError, match=r"traces of equal length, got \[100, 240\] slots"):
        simulate_deep([(experiment(), 1), (shorter, 1)], policy="dqn", parameters={})
