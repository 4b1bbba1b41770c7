"""The simulator that was fitted to a job, as an experiment file that people can tune and price.

It is written at every good fit, so that `weir tune` and `weir frontier` work on what runs, without
being told of it. Nothing here reads it: the slow loop fits anew each time.
"""

from __future__ import annotations

from pathlib import Path

from weir_operator.runtime.files import storing
from weir_operator.tuning.work import TuningWork
from weir_simulator.experiment import TraceSource
from weir_simulator.experiment_writing import write_experiment
from weir_simulator.trace_files import write_trace
from weir_simulator.traces import as_trace
from weir_simulator.tuning.order import apply_point

FOLDER = "fitted"


def find_fitted(folder: Path) -> Path:
    """Return where the experiment of the StreamApp with this folder is, if there is one."""
    return folder / FOLDER / "experiment.yaml"


def write_fitted(folder: Path, work: TuningWork) -> None:
    """Write the experiment of a work with what is in force, and its trace beside it.

    Args:
        folder: Of the StreamApp's state.
        work: What a tuner is asked for.

    Raises:
        TemporaryError: The disk is full.
        SimulatorError: The files cannot be written for another reason.
    """
    path = find_fitted(folder)
    trace = path.with_name("trace.txt")
    experiment, incumbent = work.order.experiment, work.order.incumbent
    if incumbent is not None:
        experiment = apply_point(experiment, incumbent)
    with storing(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
    write_trace(trace, as_trace(work.rates))
    write_experiment(
        experiment.model_copy(update={"trace": TraceSource(file=trace)}),
        path,
        remarks=("Fitted to what was measured; written anew at every fit.",),
    )
