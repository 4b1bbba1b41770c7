"""How often a tuning is mistaken for better: policies that learn, simulated with many seeds.

There is no difference between groups of seeds of one and the same point, so that whatever is called
surely better there is a mistake.
"""

from dataclasses import replace

import numpy as np
import pytest

from tests.simulator.builders import an_experiment
from weir_policies.application_manager.search.protocol import Limits, rank
from weir_policies.policy import CostWeights
from weir_simulator.arrivals import arrival_rates
from weir_simulator.tuning.evaluation import SimulationRun, evaluate
from weir_simulator.tuning.judging import Judged, is_better, required_of_each
from weir_simulator.tuning.tune import JUDGING_SEEDS_OF_LEARNERS, naive_tuning

ANYTHING = Limits(violations=1.0, reconfigurations=1.0)
SLOTS = 600
LONG = 6000
"""Slots within which these policies learn what a weight means."""
SEEDS = 240
PAIRS = 400


@pytest.fixture(scope="module", params=["ql", "ql-pds"])
def simulated(request):
    """Return a function that simulates a point: so many seeds, so many slots, its weights."""
    experiment = an_experiment(
        trace={"kind": "taxi", "slots": LONG},
        policy={"name": request.param, "parameters": {}},
        believed={"serviceError": [0.05, 0.1], "speedupError": 0.2},
    )
    trace = arrival_rates(experiment.trace)
    naive = naive_tuning(experiment)

    def simulate(count, slots, weights=naive.weights):
        point = replace(naive, weights=weights)
        return [
            evaluate(experiment, trace, SimulationRun(point=point, slots=slots, seed=seed))
            for seed in range(count)
        ]

    return simulate


@pytest.fixture(scope="module")
def runs(simulated):
    return simulated(SEEDS, SLOTS)


def groups(runs, count, rng):
    """Return so many points that are the same but for their seeds."""
    drawn = rng.permutation(len(runs))[: count * JUDGING_SEEDS_OF_LEARNERS].reshape(count, -1)
    return [Judged([runs[place] for place in places]) for places in drawn]


def test_what_is_no_better_is_called_so_no_more_often_than_the_confidence_allows(runs):
    rng = np.random.default_rng(6)

    pairs = (groups(runs, 2, rng) for _ in range(PAIRS))
    mistaken = sum(is_better(ours, theirs, ANYTHING, confidence=0.95) for ours, theirs in pairs)

    assert mistaken <= 0.05 * PAIRS


def test_nor_is_the_luckiest_of_three(runs):
    rng = np.random.default_rng(7)
    required, mistaken = required_of_each(0.95, 3), 0

    for _ in range(PAIRS):
        theirs, *others = groups(runs, 4, rng)
        luckiest = min(others, key=lambda each: rank(each.outcome, ANYTHING))
        mistaken += is_better(luckiest, theirs, ANYTHING, confidence=required)

    assert mistaken <= 0.05 * PAIRS


def test_weights_by_which_resources_matter_are_surely_cheaper(simulated):
    thrifty = CostWeights(violation=0.05, resources=0.9, reconfiguration=0.05)

    ours = Judged(simulated(JUDGING_SEEDS_OF_LEARNERS, LONG, thrifty))
    theirs = Judged(simulated(JUDGING_SEEDS_OF_LEARNERS, LONG))

    assert is_better(ours, theirs, ANYTHING, confidence=required_of_each(0.95, 3))
