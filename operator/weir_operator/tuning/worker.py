"""Does the work of a tuning, in a process of its own: `python -m weir_operator.tuning.worker`.

Reads the work from a file, tunes, forecasts how the best may fare, trains policies that learn, and
writes the answer: to a file, whole or not at all, or framed to standard output (`frames.py`), which
is how it leaves a pod. What was evaluated is kept in the folder, so that the same work goes on
where it was left.

Ends with status 3 and a sentence where the work cannot be done. With `--tied` it ends as soon as
its standard input is closed: then whoever asked for it is gone.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from weir_operator.errors import WeirError
from weir_operator.runtime.files import write_atomically
from weir_operator.tuning.frames import write_frames
from weir_operator.tuning.work import REFUSED, Forecast, TuningAnswer, TuningWork, unpack_work
from weir_policies import registry
from weir_policies.errors import WeirPolicyError
from weir_policies.model.arrays import Floats
from weir_simulator.errors import SimulatorError
from weir_simulator.experiment import Experiment, TraceSource
from weir_simulator.run import simulate
from weir_simulator.state import AT_PRICE, AT_TIME
from weir_simulator.trace_files import write_trace
from weir_simulator.traces import as_trace
from weir_simulator.training import train_policies
from weir_simulator.tuning.order import apply_point
from weir_simulator.tuning.tune import tune

RARE = 0.99
"""Part of all stretches that keep what is forecast."""
FORECAST_SEEDS = 3
POLITE = 10
"""Niceness: what is tuned for runs on the same machine, where there is but one."""


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
        update={
            "experiment": work.order.experiment.model_copy(
                update={"trace": TraceSource(file=trace)}
            )
        }
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
    late, money = [], []
    for seed in seeds:
        history = simulate(experiment, seed=seed, history=True).history
        violated = history[:, AT_TIME] > experiment.objective.response_time
        late.append(_means_of_stretches(violated.astype(np.float64), intervals))
        money.append(_means_of_stretches(history[:, AT_PRICE], intervals))
    return Forecast(
        intervals=intervals,
        violations=float(np.quantile(np.concatenate(late), RARE)),
        money=float(np.quantile(np.concatenate(money), RARE)),
    )


def _means_of_stretches(values: Floats, length: int) -> Floats:
    """Return the mean of every stretch of so many neighbours."""
    length = min(length, values.size)
    sums = np.concatenate(([0.0], np.cumsum(values)))
    return (sums[length:] - sums[:-length]) / length


def main(arguments: Sequence[str]) -> int:
    """Do the work; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m weir_operator.tuning.worker", description=__doc__
    )
    parser.add_argument("work", type=Path, help="file that holds the work")
    parser.add_argument("folder", type=Path, help="folder to work in; the answer is answer.json")
    parser.add_argument("--print", action="store_true", help="print the answer in frames besides")
    parser.add_argument("--tied", action="store_true", help="end when standard input is closed")
    given = parser.parse_args(arguments)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    os.nice(POLITE)
    if given.tied:
        threading.Thread(target=_end_with_the_asker, daemon=True).start()
    try:
        given.folder.mkdir(parents=True, exist_ok=True)
        work = unpack_work(given.work.read_bytes())
        answer = do_work(work, given.folder, stop=stop).model_dump_json(by_alias=True)
        write_atomically(given.folder / "answer.json", answer)
    except (SimulatorError, WeirPolicyError, WeirError) as error:
        print(error, file=sys.stderr)
        return REFUSED
    except OSError as error:
        print(f"Expected to read {given.work} and write {given.folder}: {error}", file=sys.stderr)
        return REFUSED
    if given.print:
        write_frames(answer, sys.stdout)
    return 0


def _end_with_the_asker() -> None:
    """Wait until standard input is closed, then end this process and those that it began."""
    while os.read(0, 1024):
        pass
    os.killpg(os.getpgid(0), signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
