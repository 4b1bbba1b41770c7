"""The options with which a command fits its experiment to the history of the pipelines."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Annotated

import typer

from weir_cli.options import is_file
from weir_policies.distribution import install_command
from weir_policies.errors import MissingExtraError
from weir_simulator.errors import ExperimentError, FitError
from weir_simulator.experiment import Experiment, TraceSource

HistoryFolder = Annotated[
    str | None,
    typer.Option(
        "--history",
        help="Fit to all days that `weir pipelines` keeps in these tables.",
        metavar="DIR",
    ),
]
HistoryApp = Annotated[
    str | None,
    typer.Option("--app", help="Application in the history. Default: the StreamApp's."),
]
FITTED = "fitted.yaml"
TRACE = "trace.txt"


def fit_to_history(
    experiment: Experiment, source: str, *, tables: str | None, app: str | None, out: Path
) -> Experiment:
    """Return the experiment fitted to the history of its job; as it is without a folder of tables.

    If history does not show which size replicas had, or they ran where they may not any more,
    only its traffic is used, and the rest stays as it is. The fitted experiment and its trace are
    left in `out`; which days were used, and for what, goes to stderr.

    Args:
        experiment: What the file, or the StreamApp's, says.
        source: The file, or the StreamApp's name.
        tables: Where they are; `None` fits nothing.
        app: Application in the history; `None` is the StreamApp's own.
        out: Folder of what is written.

    Raises:
        ExperimentError: It is not said which application is meant.
        MissingExtraError: pyarrow is not installed.
        InputError: Nothing that could be used is kept of it.
        FitError: The simulator cannot be fitted to what is kept, or fits badly.
    """
    if tables is None:
        if app is not None:
            raise ExperimentError(
                ("--app: expected it together with --history, got no --history; add it",)
            )
        return experiment
    name = app or _label_of(source)
    # Imported here: a file with a mistake is refused before libraries are loaded.
    need_pyarrow()
    from weir_pipelines.history import read_history
    from weir_simulator.experiment_files import write_experiment
    from weir_simulator.fitting.history import fit_history, is_traffic_alone, trace_history
    from weir_simulator.fitting.refit import refit, structure_of, with_seasons
    from weir_simulator.traces import write_trace

    structure = structure_of(experiment)
    history = read_history(
        tables,
        name,
        operators=structure.dataflow.operators,
        node_types=[each.name for each in experiment.node_types],
    ).within(structure)
    typer.echo(history.sentence, err=True)
    try:
        fit = fit_history(history, structure, slot=experiment.slot)
    except FitError:
        if not is_traffic_alone(history, None):
            raise
        fit = None
    if fit is None or is_traffic_alone(history, fit):
        typer.echo("The operators' speeds stay as in the experiment", err=True)
        rates, begin = trace_history(history, structure.dataflow, slot=experiment.slot)
        fitted = experiment.model_copy(update={"trace": TraceSource(file=out / TRACE)})
        remark = f"{Path(source).name} with the traffic of the history of {name}."
    else:
        typer.echo(fit.quality.sentence, err=True)
        rates, begin = fit.rates, fit.begin
        fitted = refit(experiment, fit, trace=out / TRACE)
        remark = f"{Path(source).name} fitted to the history of {name}."
    fitted = with_seasons(fitted, history.seasons, begin=begin)
    write_experiment(fitted, out / FITTED, remarks=(remark,))
    write_trace(out / TRACE, rates)
    return fitted


def _label_of(source: str) -> str:
    """Return the application as which a StreamApp's history is kept."""
    if is_file(source):
        raise ExperimentError(
            (f"--app: expected the application whose history to fit {source} to, got "
"none; name it as in `weir pipelines`, such as streams/trips",)
        )  # fmt: skip
    return source if "/" in source else f"default/{source}"


def need_pyarrow() -> None:
    """Refuse to continue without the library that reads tables.

    Raises:
        MissingExtraError: pyarrow is not installed.
    """
    if importlib.util.find_spec("pyarrow") is None:
        raise MissingExtraError(
            "Expected pyarrow, which --history needs, got no such package; run "
            f"{install_command('history')}"
        )
