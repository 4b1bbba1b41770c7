import multiprocessing

import pytest

from tests.simulator.builders import an_experiment
from weir_simulator.arrivals import arrival_rates
from weir_simulator.errors import TuningError
from weir_simulator.tuning.evaluation import SimulationRun
from weir_simulator.tuning.tune import naive_tuning, never
from weir_simulator.tuning.workers import Workers

EXPERIMENT = an_experiment(policy={"name": "hold"})
RUNS = [SimulationRun(point=naive_tuning(EXPERIMENT), slots=10, seed=seed) for seed in (1, 2)]


@pytest.fixture
def workers():
    with Workers(EXPERIMENT, arrival_rates(EXPERIMENT.trace), count=2) as opened:
        yield opened


def end_all():
    for process in multiprocessing.active_children():
        process.kill()


def test_processes_that_end_when_it_is_to_stop_are_replaced_for_what_comes_after(workers):
    def end_all_and_stop():
        end_all()
        return True

    stopped = workers.evaluate(RUNS, should_stop=end_all_and_stop)
    after = workers.evaluate(RUNS, should_stop=never)

    assert stopped == [None, None]
    assert [each.slots for each in after] == [10, 10]


def test_processes_that_end_otherwise_are_told_of(workers):
    def end_all_and_go_on():
        end_all()
        return False

    with pytest.raises(TuningError, match="killed an evaluation"):
        workers.evaluate(RUNS, should_stop=end_all_and_go_on)
