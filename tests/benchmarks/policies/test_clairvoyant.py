"""The clairvoyant optimum against every course there is, on a trace short enough to try them."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest

from benchmarks.policies.clairvoyant import ClairvoyantError, least_cost
from tests.simulator.builders import an_experiment
from weir_policies.model.queueing import predict_means
from weir_simulator.beliefs import true_models

RATES = [100.0, 420.0, 90.0, 80.0, 600.0, 100.0]


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "trace.txt"
    path.write_text("".join(f"{rate}\n" for rate in RATES))
    return path


def try_all_courses(experiment):
    """Return the least mean cost over all courses of deployments."""
    (model,) = true_models(experiment)
    deployments = [
        counts
        for counts in itertools.product(range(model.max_replicas + 1), repeat=2)
        if 1 <= sum(counts) <= model.max_replicas
    ]
    prices = [each.price for each in model.node_types]
    top = model.max_replicas * experiment.dearest
    stay = np.array(
        [
            [
                0.6 * (predict_means(model, np.array([counts]), rate)[0][0] > 0.05)
                + 0.2 * np.dot(counts, prices) / top
                for counts in deployments
            ]
            for rate in RATES
        ]
    )
    best = stay[0]
    for costs in stay[1:]:
        best = np.minimum(best, best.min() + 0.2) + costs
    return best.min() / len(RATES)


def test_it_is_the_least_of_all_courses_mixes_of_node_types_included(trace):
    experiment = an_experiment(
        operators=[{"name": "op", "serviceRate": 200, "scv": 0.5, "maxReplicas": 5}],
        trace={"file": str(trace)},
    )

    assert least_cost(experiment) == pytest.approx(try_all_courses(experiment))


def test_what_it_cannot_solve_is_refused(trace):
    experiment = an_experiment(trace={"file": str(trace)}, sharing="Proportional")

    with pytest.raises(ClairvoyantError, match="shares equally"):
        least_cost(experiment)
