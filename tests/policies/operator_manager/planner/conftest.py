import numpy as np
import pytest

from tests.simulator.builders import an_experiment
from weir_simulator.experiment import Operator


@pytest.fixture
def experiment(tmp_path):
    """Return a function that makes an experiment of one operator, of rates and a world."""

    def make(rates, **world):
        path = tmp_path / "rates.txt"
        np.savetxt(path, rates)
        operators = (Operator(name="op", service_rate=180, scv=0.5, max_replicas=10),)
        return an_experiment(operators=operators, trace={"file": path}, world=world)

    return make
