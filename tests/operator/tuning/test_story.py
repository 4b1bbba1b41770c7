"""The slow loop with a real tuner: from what was measured to a tuning that is kept or taken back.

What is measured comes of a job in which every record waits in a queue of its own, and the tuning is
what a process or a Job would make of it.
"""

import asyncio
import math
import threading

import numpy as np
import pytest

from tests.operator.tuning.tuning_setting import Setting
from tests.simulator.fitting.known_job import OperatorInterval, a_model, run_job
from weir_operator.tuning.requests import Terms
from weir_operator.tuning.store import Standing
from weir_operator.tuning.worker import run_tuning
from weir_simulator.experiment import Objective
from weir_simulator.tuning.order import Constraints

SLOW_AND_FAST = (a_model("match", service_mean=0.05), a_model("count", service_mean=0.01))
"""Equal shares of a bound are far from the best for these."""
RUNS = {"match": {"small/1": 5}, "count": {"small/1": 2}}
PLANS = [
    {
        name: OperatorInterval(deployment=RUNS[name], rate=25 + 20 * math.sin(slot / 9))
        for name in RUNS
    }
    for slot in range(150)
]
MEASURED = run_job(SLOW_AND_FAST, PLANS, rng=np.random.default_rng(3)).intervals
CHEAP = {"match": {"small/1": 3}, "count": {"small/1": 1}}
TRIAL = 5
"""Intervals."""

pytestmark = pytest.mark.timeout(900)  # kernels that were never compiled may take minutes


class Worker:
    """A tuner that does the work at once."""

    def __init__(self, folder):
        self._folder = folder

    async def tune(self, work, *, name):
        return await asyncio.to_thread(run_tuning, work, self._folder, stop=threading.Event())


@pytest.fixture
def setting(tmp_path):
    setting = Setting(
        tmp_path,
        intervals=MEASURED,
        truths=SLOW_AND_FAST,
        terms=Terms(
            policy="queueing",
            objective=Objective(response_time=0.16),
            evaluations=8,
            watch=TRIAL,
            deadline=86_400.0,  # kernels that are compiled first make the search expect to be late
            constraints=Constraints(max_violations=0.3, max_reconfigurations=1.0),
        ),
        tuner=Worker(tmp_path),
    )
    yield setting
    setting.records.close()


async def test_a_fitted_job_is_tuned_and_what_reality_bears_out_is_kept(setting):
    await setting.loop.attempt()
    promised = setting.version(1)

    setting.note(late=False, sample=MEASURED[-1], deployments=CHEAP, times=TRIAL)

    assert setting.loop.view.model.reason == "Fitted"
    assert promised.standing is Standing.ON_TRIAL
    assert promised.certainty > 0.95
    assert promised.prediction.money.mean < 0.9 * promised.former_prediction.money.mean
    assert promised.budgets["match"] > 2 * promised.budgets["count"]
    assert setting.version(1).standing is Standing.KEPT
    assert setting.loop.view.version == 1
