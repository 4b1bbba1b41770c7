"""What a worker does: tunes, forecasts how the best may fare, trains policies that learn."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from weir_operator.tuning.work import Forecast, TuningAnswer, TuningWork
from weir_policies import registry
from weir_policies.model.arrays import Floats
from weir_simulator.experiment import Experiment
from weir_simulator.fitting.refit import with_trace
from weir_simulator.run import simulate
from weir_simulator.state import AT_CHANGE, AT_PRICE, AT_TIME, RESTART
from weir_simulator.trace_files import write_trace
from weir_simulator.traces import as_trace
from weir_simulator.training import train_policies
from weir_simulator.tuning.order import apply_point
from weir_simulator.tuning.tune import tune

RARE = 0.99
"""Part of all stretches that keep what is forecast."""
FORECAST_SEEDS = 3


def do_work(work: TuningWork, folder: Path, *, stop: threading.Event) -> TuningAnswer:
    """Return what comes of the work.

    Args:
        work: What to do.
        folder: Where the trace and the study are kept.
        stop: Ends the search with the best so far.

    Raises:
        SimulatorError: The work cannot be done.
        WeirPolicyError: The policy cannot take the experiment.
    """
    trace = folder / "trace.txt"
    write_trace(trace, as_trace(work.rates))
    order = work.order.model_copy(
        update={"experiment": with_trace(work.order.experiment, trace=trace)}
    )
    result = tune(order, should_stop=stop.is_set, study=folder / "study")
    best = apply_point(order.experiment, result.best)
    seeds = range(order.seed, order.seed + FORECAST_SEEDS)
    trained = {}
    if work.train and registry.learns_by_trying(best.policy.name):
        trained = {
            name: dict(state)
            for name, state in train_policies(best, slots=work.train, seed=order.seed).items()
        }
    return TuningAnswer(
        result=result, forecast=forecast(best, seeds=seeds, intervals=work.watch), trained=trained
    )


def forecast(experiment: Experiment, *, seeds: Sequence[int], intervals: int) -> Forecast:
    """Return what a stretch of so many slots hardly ever exceeds.

    Args:
        experiment: With the weights and budgets in question.
        seeds: Of the runs that are looked at.
        intervals: Slots; a trace that is shorter is one stretch.
    """
    late, money, restarts = [], [], []
    for seed in seeds:
        history = simulate(experiment, seed=seed, history=True).history
        violated = history[:, AT_TIME] > experiment.objective.response_time
        late.append(_means_of_stretches(violated.astype(np.float64), intervals))
        money.append(_means_of_stretches(history[:, AT_PRICE], intervals))
        restarted = history[:, AT_CHANGE] == RESTART
        restarts.append(_means_of_stretches(restarted.astype(np.float64), intervals))
    return Forecast(
        intervals=intervals,
        violations=float(np.quantile(np.concatenate(late), RARE)),
        money=float(np.quantile(np.concatenate(money), RARE)),
        restarts=float(np.quantile(np.concatenate(restarts), RARE)),
    )


def _means_of_stretches(values: Floats, length: int) -> Floats:
    """Return the mean of every stretch of so many neighbours."""
    length = min(length, values.size)
    sums = np.concatenate(([0.0], np.cumsum(values)))
    return (sums[length:] - sums[:-length]) / length
