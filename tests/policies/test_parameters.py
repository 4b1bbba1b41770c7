import math

import numpy as np
import pytest

from weir_policies import registry
from weir_policies.errors import ParameterError

WRONG: dict[str, dict[str, tuple[object, ...]]] = {
    "dqn": {
        "encoding": ("tiny", 3),
        "hidden_layers": (0,),
        "batch": (1.5,),
        "least_epsilon": (2,),
    },
    "flink-autoscaler": {
        "target_utilisation": (0,),
        "boundary": (-0.1,),
        "metrics_window": (0, 1e9),
        "max_scale_down": (1.1,),
        "catch_up": (-1,),
    },
    "full-backup": {"alpha": (0,), "gamma": (1,), "node_type": (0.5,)},
    "heinze-cheapest": {"utilisation": (0,), "gamma": (1,), "alpha": (2,), "published": (3,)},
    "model-based": {"eager": (0.5,), "period": (0,), "growth": (0.9,), "sweeps": (0,)},
    "planner": {"catch_up": (0,), "reconfiguration_cost": (-0.1,), "corrects": (2,)},
    "ql": {"gamma": (1,), "least_alpha": (2,), "least_epsilon": (-0.1,)},
    "ql-edf": {"alpha": (0, 1.5), "epsilon": (-0.1,), "gamma": (1,)},
    "ql-fa": {"gamma": (1,), "least_alpha": (2,), "least_epsilon": (-0.1,)},
    "queueing": {
        "headroom": (-1, math.nan),
        "utilisation_cap": (1.0,),
        "catch_up": (0,),
        "minimum_saving": (1,),
        "scale_in_window": (0, 2.5),
        "quantile": (1,),
    },
    "threshold-cheapest": {
        "utilisation": (0, 1.5, "high", True, None),
        "scale_in_fraction": (-0.1,),
    },
    "value-iteration": {"gamma": (1,), "tolerance": (0,), "first_solve": (1.5,), "published": (2,)},
    "window-max": {"window": (0, 2.5), "factor": (0,)},
}


@pytest.mark.parametrize(
    ("policy", "name", "value"),
    [
        (policy, name, value)
        for policy, parameters in WRONG.items()
        for name, values in parameters.items()
        for value in values
    ],
)
def test_a_parameter_out_of_its_range_is_refused_by_name(policy, name, value):
    with pytest.raises(ParameterError, match=rf"\b{name}\b"):
        registry.build(policy, rng=np.random.default_rng(7), parameters={name: value})


def test_a_batch_that_the_memory_does_not_hold_is_refused():
    with pytest.raises(ParameterError, match="Expected batch of at most memory = 32, got 64"):
        registry.build("dqn", rng=np.random.default_rng(1), parameters={"batch": 64, "memory": 32})
