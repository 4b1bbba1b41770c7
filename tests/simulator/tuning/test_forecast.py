"""What a stretch of simulated traffic hardly ever exceeds."""

from types import SimpleNamespace

import numpy as np
import pytest

from tests.simulator.builders import an_experiment
from weir_simulator.state import AT_CHANGE, AT_PRICE, AT_TIME, HISTORY, RESIZE, RESTART
from weir_simulator.tuning import evaluation


def test_a_forecast_is_of_the_worst_stretches_and_a_resize_is_no_restart(monkeypatch):
    experiment = an_experiment()
    history = np.zeros((100, HISTORY))
    history[:, AT_PRICE] = 2.0
    history[50:52, AT_TIME] = 2 * experiment.objective.response_time
    history[:, AT_CHANGE] = RESIZE
    history[20:40:4, AT_CHANGE] = RESTART
    monkeypatch.setattr(evaluation, "simulate", lambda *_, **__: SimpleNamespace(history=history))

    forecast = evaluation.forecast(experiment, seeds=(1, 2), intervals=10)

    assert forecast.violations == pytest.approx(0.2)
    assert forecast.restarts == pytest.approx(0.3)
    assert forecast.money == pytest.approx(2.0)
