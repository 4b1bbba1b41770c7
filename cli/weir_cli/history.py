"""The options by which a command fits its experiment to the history that the pipelines keep."""

from __future__ import annotations

import importlib.util
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from weir_cli.options import is_file
from weir_operator.errors import TemporaryError
from weir_operator.metrics.names import mangle
from weir_pipelines.errors import PipelineError
from weir_policies.errors import MissingExtraError
from weir_simulator.errors import ExperimentError
from weir_simulator.experiment import Experiment

if TYPE_CHECKING:
    from weir_policies.model.season import Season
    from weir_simulator.fitting.history import History

HistoryFolder = Annotated[
    Path | None,
    typer.Option(
        "--history",
        help="Fit to all days that weir pipelines keeps in this folder of tables.",
        metavar="DIR",
    ),
]
HistoryApp = Annotated[
    str | None,
    typer.Option("--app", help="Application in the history. Default: the StreamApp's own."),
]
FITTED = "fitted.yaml"
TRACE = "trace.txt"


def fit_to_history(
    experiment: Experiment, source: str, *, tables: Path | None, app: str | None, out: Path
) -> Experiment:
    """Return the experiment fitted to the history of its job; as it is without a folder of tables.

    The fitted experiment and its trace are left in `out`, and which days were used goes to stderr.

    Args:
        experiment: What the file, or the StreamApp's, says.
        source: The file, or the StreamApp's name.
        tables: Folder of the tables; `None` fits nothing.
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
            raise ExperimentError(("--app: expected --history beside it, got none; add --history",))
        return experiment
    name = app or _label_of(source)
    # Imported here: a file with a mistake is refused before libraries are loaded.
    _need_pyarrow()
    from weir_pipelines.history import read_history
    from weir_simulator.experiment_writing import write_experiment
    from weir_simulator.fitting.history import fit_history
    from weir_simulator.fitting.refit import refit, structure_of, with_seasons
    from weir_simulator.trace_files import write_trace

    structure = structure_of(experiment)
    history = read_history(
        tables,
        name,
        operators=structure.dataflow.operators,
        node_types=[each.name for each in experiment.node_types],
    )
    typer.echo(history.sentence, err=True)
    fit = fit_history(history, structure, slot=experiment.slot)
    typer.echo(fit.quality.sentence, err=True)
    fitted = with_seasons(
        refit(experiment, fit, trace=out / TRACE), history.seasons, begin=fit.begin
    )
    remark = f"{Path(source).name} fitted to the history of {name}."
    write_experiment(fitted, out / FITTED, remarks=(remark,))
    write_trace(out / TRACE, fit.rates)
    return fitted


def _label_of(source: str) -> str:
    """Return the label `weir_app` of a StreamApp's series.

    Raises:
        ExperimentError: It is a file, which belongs to no application.
    """
    if is_file(source):
        raise ExperimentError(
            (f"--app: expected the application whose history {source} is fitted to, got none; "
             "name it as the label weir_app has it, such as streams_trips",)
        )  # fmt: skip
    return mangle(source if "/" in source else f"default/{source}")


class TablesHistory:
    """The pipelines' tables as the controller reads them."""

    def __init__(self, tables: Path) -> None:
        self._tables = tables

    def read(self, app: str, *, operators: Collection[str], node_types: Collection[str]) -> History:
        """Return what is kept of an application.

        Raises:
            TemporaryError: Nothing is kept of it, or it cannot be read.
        """
        from weir_pipelines.history import read_history

        with _temporarily():
            return read_history(self._tables, app, operators=operators, node_types=node_types)

    def seasons(self, app: str) -> Mapping[str, Season]:
        """Return what usually arrives at its operators.

        Raises:
            TemporaryError: It cannot be read.
        """
        from weir_pipelines.seasons import read_seasons
        from weir_pipelines.store import Tables

        with _temporarily():
            return read_seasons(Tables(self._tables), app)


def open_history(tables: Path) -> TablesHistory:
    """Return the tables in a folder, which may still be empty.

    Raises:
        MissingExtraError: pyarrow is not installed.
    """
    _need_pyarrow()
    return TablesHistory(tables)


@contextmanager
def _temporarily() -> Iterator[None]:
    """Turn what can go wrong with tables into what the controller goes on from."""
    try:
        yield
    except (PipelineError, OSError, ValueError) as error:
        raise TemporaryError(f"The history is not used: {error}") from error


def _need_pyarrow() -> None:
    if importlib.util.find_spec("pyarrow") is None:
        raise MissingExtraError(
            "Expected pyarrow for --history, and it is not installed: pip install 'weir[history]'"
        )
