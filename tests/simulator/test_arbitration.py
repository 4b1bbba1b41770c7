"""EDF's Application Manager in the simulator: tokens and suspension, downtime and backlog."""

import json

import numpy as np
import pytest
from pydantic import ValidationError

from weir_policies.application_manager.edf import Adaptation, AdaptationRequest
from weir_simulator.arbitration import Arbiter
from weir_simulator.beliefs import true_models
from weir_simulator.experiment import Experiment
from weir_simulator.plain_loop import run_policies
from weir_simulator.policies import settings_of
from weir_simulator.result import new_outcome
from weir_simulator.state import AT_CHANGE, AT_TIME, RESTART

BOUND = 0.05
UP = AdaptationRequest(operator="a", kind=Adaptation.SCALE_OUT, score=0.6)
MORE_UP = AdaptationRequest(operator="b", kind=Adaptation.SCALE_OUT, score=0.8)
DOWN = AdaptationRequest(operator="a", kind=Adaptation.SCALE_IN, score=0.4)


def an_experiment(**changes):
    fields = {
        "operators": [
            {"name": "a", "serviceRate": 100, "scv": 1.0, "maxReplicas": 4},
            {"name": "b", "serviceRate": 120, "scv": 1.0, "maxReplicas": 4},
        ],
        "edges": [["a", "b"]],
        "nodeTypes": [{"name": "t1", "speedup": 1.0, "price": 1.0}],
        "objective": {"responseTime": "50ms"},
        "trace": {"kind": "taxi", "slots": 60, "seed": 2},
        "policy": {"name": "threshold-cheapest", "parameters": {"utilisation": 0.5}},
    }
    return Experiment.model_validate_json(json.dumps(fields | changes))


def history_of(experiment, rates):
    """Return what happened in every slot of a run at these rates."""
    outcome = new_outcome(len(rates), 1, history=True)
    settings = settings_of(experiment, experiment.policy.parameters)
    trace = np.array(rates, dtype=np.float64)
    run_policies(experiment, trace, experiment.policy.name, settings, outcome, seed=1)
    return outcome.history


def tokens_after(*response_times, **bucket):
    arbiter = Arbiter(an_experiment(arbitration={"tokenBucket": bucket}), seed=1)
    for t, response_time in enumerate(response_times):
        arbiter.note(response_time, t)
    return arbiter


def test_without_tokens_no_request_is_denied():
    arbiter = Arbiter(an_experiment(), seed=1)

    assert arbiter.deny([UP, MORE_UP], t=0) == set()


def test_near_the_bound_the_most_urgent_request_for_speed_is_paid():
    arbiter = tokens_after(0.95 * BOUND)

    assert arbiter.deny([UP, MORE_UP], t=0) == {"a"}
    assert arbiter.deny([UP], t=0) == {"a"}


def test_far_below_the_bound_only_a_request_for_less_is_paid():
    arbiter = tokens_after(0.3 * BOUND)

    assert arbiter.deny([MORE_UP], t=0) == {"b"}
    assert arbiter.deny([DOWN], t=0) == set()


def test_a_token_comes_every_two_slots_by_the_mean_of_both():
    arbiter = tokens_after(0.7 * BOUND, 1.5 * BOUND, 0.1 * BOUND)

    assert arbiter.deny([DOWN], t=0) == {"a"}
    assert tokens_after(0.7 * BOUND, 1.8 * BOUND, 0.6 * BOUND).deny([UP], t=0) == set()


def test_of_two_proposals_that_draw_the_same_node_the_more_urgent_one_is_kept():
    alone = Arbiter(an_experiment(arbitration={"nodes": 1}), seed=1)

    assert alone.deny([UP, MORE_UP], t=3) == {"a"}
    assert alone.deny([DOWN, MORE_UP], t=4) == set()
    assert (alone.asked, alone.granted) == (4, 3)


def test_among_many_nodes_proposals_seldom_draw_the_same():
    many = Arbiter(an_experiment(arbitration={"nodes": 50}), seed=1)

    denied = sum(bool(many.deny([UP, MORE_UP], t=t)) for t in range(1000))

    assert 5 <= denied <= 40


def test_budgets_are_profiled_where_the_experiment_says_at_which_rate():
    profiled = an_experiment(objective={"responseTime": "50ms", "profiledAt": 60})

    budgets = profiled.share_bound("full-backup", true_models(profiled))

    assert sum(budgets.values()) == pytest.approx(BOUND, rel=1e-3)
    assert budgets["a"] > budgets["b"]


def test_the_bucket_spares_restarts_and_says_so_in_the_outcome():
    slots = np.arange(120)
    rates = 80 + 60 * np.sin(slots / 6)
    free = history_of(an_experiment(), rates)
    bound = history_of(an_experiment(arbitration={"tokenBucket": {}}), rates)

    restarts = [int((run[:, AT_CHANGE] == RESTART).sum()) for run in (free, bound)]

    assert 0 < restarts[1] < restarts[0]


def test_suspended_managers_wait_until_things_have_settled():
    rates = [300.0] * 12

    at_once = history_of(an_experiment(), rates)
    suspended = history_of(an_experiment(arbitration={"suspension": "2m"}), rates)

    assert list(np.flatnonzero(at_once[:, AT_CHANGE] == RESTART)[:3]) == [0, 1, 2]
    assert list(np.flatnonzero(suspended[:, AT_CHANGE] == RESTART)[:3]) == [0, 3, 6]


def test_what_a_restart_holds_up_is_worked_off_in_the_slots_after_it():
    run = history_of(an_experiment(world={"downtime": "10s"}), [40.0] * 3 + [90.0] * 7)

    [first, *_] = np.flatnonzero(run[:, AT_CHANGE] == RESTART)
    # Records wait 10 s and less after the restart, where a steady slot takes them milliseconds.
    assert run[first + 1, AT_TIME] > 20 * run[-1, AT_TIME]


def test_thresholds_the_wrong_way_round_are_refused():
    with pytest.raises(ValidationError, match="low of at most high"):
        an_experiment(arbitration={"tokenBucket": {"low": 0.9, "high": 0.5}})
