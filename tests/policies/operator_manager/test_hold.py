import numpy as np
import pytest

from weir_policies import registry
from weir_policies.model.node_types import Deployment
from weir_policies.testing import an_observation


@pytest.mark.parametrize("rate", [0.0, 100.0, 9000.0])
def test_it_never_moves_whatever_the_rate(rate):
    observation = an_observation(rate=rate, deployment=Deployment((1, 2, 0)))

    decision = registry.build("hold", rng=np.random.default_rng(7)).decide(observation)

    assert decision.target == observation.deployment
    assert decision.reason.startswith("Stays: ")
