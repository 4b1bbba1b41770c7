"""The slow loop while its job changes: a drift, a reset, another mode, more traffic than before."""

from dataclasses import replace
from itertools import count

import numpy as np
import pytest

from tests.operator.controller.tuning_setting import HOURS, TRUTHS, Setting, plans
from weir_simulator.fitting.testing import run_job


@pytest.fixture
def setting_of(tmp_path):
    settings = []
    number = count()

    def build(*answers, **fields):
        folder = tmp_path / str(next(number))
        folder.mkdir()
        settings.append(Setting(folder, *answers, **fields))
        return settings[-1]

    yield build
    for setting in settings:
        setting.records.close()


async def test_a_restarted_controller_does_not_fit_to_what_was_before_a_drift(setting_of):
    setting = setting_of()
    await setting.loop.attempt()
    let_drift(setting)

    setting.open()
    await setting.loop.attempt()

    assert setting.state.fit_since >= HOURS[-1].time
    assert setting.loop.view.model.reason == "TooFewSamples"


def let_drift(setting):
    """Let the job take longer for every record than it did when it was fitted."""
    slower = run_job(TRUTHS, plans(20, factor=1.4), rng=np.random.default_rng(6)).intervals
    for sample in slower:
        setting.see(late=False, sample=replace(sample, time=HOURS[-1].time + sample.time))
    assert setting.loop.view.model.reason == "Drift"
