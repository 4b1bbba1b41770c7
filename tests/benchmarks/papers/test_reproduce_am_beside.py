"""The deployment that never moves is the cheapest of all that keep the bound."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from benchmarks.papers.reproduce_am_beside import find_cheapest, times_at
from weir_simulator.experiment import Experiment

RATE = 400.0


@pytest.fixture(params=["30ms", "80ms", "200ms"])
def experiment(request):
    """Two operators side by side behind a third, on two node types."""
    return Experiment.model_validate(
        {
            "operators": [
                {"name": "a", "serviceRate": 300, "scv": 0.5, "maxReplicas": 4},
                {"name": "b", "serviceRate": 200, "scv": 1.0, "maxReplicas": 4},
                {"name": "c", "serviceRate": 150, "scv": 0.1, "maxReplicas": 4},
            ],
            "edges": [["a", "b"], ["a", "c"]],
            "nodeTypes": [
                {"name": "t1", "speedup": 1.0, "price": 1.0},
                {"name": "t2", "speedup": 1.4, "price": 1.3},
            ],
            "objective": {"responseTime": request.param},
            "trace": {"kind": "taxi", "slots": 10},
            "policy": {"name": "queueing"},
        },
        strict=False,
    )


def test_no_other_deployment_within_the_bound_is_cheaper(experiment):
    counts = np.array([each for each in itertools.product(range(5), repeat=2) if 0 < sum(each) < 5])
    prices = counts @ np.array([1.0, 1.3])
    times = [times_at(experiment, place, RATE, counts) for place in range(3)]
    bound = experiment.objective.response_time
    cheapest = min(
        prices[a] + prices[b] + prices[c]
        for a, b, c in itertools.product(range(len(counts)), repeat=3)
        if times[0][a] + max(times[1][b], times[2][c]) <= bound
    )

    found = find_cheapest(experiment, RATE)

    assert sum(each.price for each in found) == pytest.approx(cheapest)
