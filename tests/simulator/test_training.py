import json

import numpy as np

from tests.simulator.builders import an_experiment
from weir_policies import registry
from weir_policies.model.node_types import Deployment
from weir_policies.testing import an_observation
from weir_simulator.beliefs import believed_models
from weir_simulator.training import train_policies

LEARNER = "ql-pds-plus"
SLOTS = 40  # longer than the trace, which begins again


def trained(*, slots=SLOTS, seed=1):
    experiment = an_experiment(policy={"name": LEARNER})
    return train_policies(experiment, slots=slots, seed=seed).operators["op"].state_dict()


def fresh():
    return registry.build(LEARNER, rng=np.random.default_rng(0))


def test_what_was_learned_survives_the_way_to_a_live_policy():
    state = trained()
    live = fresh()

    live.load_state_dict(json.loads(json.dumps(state)))

    assert json.dumps(live.state_dict()) == json.dumps(state)
    assert live.decide(an_observation()).reason


def test_each_slot_that_is_lived_through_teaches():
    short, long = trained(), trained(slots=SLOTS + 20)

    assert json.dumps(short["memory"]) != json.dumps(long["memory"])


def test_policies_that_explore_are_trained_first_and_those_that_plan_are_not():
    assert registry.find("ql").learns_by_trying
    assert not registry.find("planner").learns_by_trying


def test_a_policy_for_all_operators_is_trained_once_and_goes_to_a_live_one():
    parameters = {"centralised": 1, "max_rate": 400, "levels": 4}
    experiment = an_experiment(policy={"name": "mdp-rl", "parameters": parameters})

    learned = train_policies(experiment, slots=SLOTS, seed=1)

    live = registry.build_joint("mdp-rl", rng=np.random.default_rng(0), parameters=parameters)
    assert learned.application is not None
    live.load_state_dict(json.loads(json.dumps(learned.application.state_dict())))
    assert learned.operators == {}
    seen = {"op": an_observation(model=experiment_model(experiment), deployment=Deployment((1, 0)))}
    reason = live.decide(seen, experiment.dataflow)["op"].reason
    assert f"after learning from {SLOTS - 1} intervals" in reason


def experiment_model(experiment):
    [model] = believed_models(experiment, np.random.default_rng(0))
    return model
