"""`weir tune`: finds weights and latency budgets that meet the objective at the lowest cost."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, TypeVar, get_args

import typer
from rich.console import Console
from rich.progress import TimeElapsedColumn
from rich.table import Table

from weir_cli.history import HistoryApp, HistoryFolder, fit_to_history
from weir_cli.options import (
    DEFAULT_STATE,
    FileOrApp,
    State,
    find_experiment,
    progress_bar,
    read_duration,
)
from weir_policies.application_manager.search.protocol import Algorithm, SurrogateName
from weir_simulator.errors import ExperimentError
from weir_simulator.experiment import Experiment
from weir_simulator.experiment_files import load_experiment, write_experiment
from weir_simulator.reports import tuning
from weir_simulator.section import MAX_SEED
from weir_simulator.tuning.order import (
    Constraints,
    Evaluation,
    TuningRequest,
    TuningResult,
    apply_tuning,
    share_of_restarts,
    write_document,
)
from weir_simulator.tuning.warm_starts import read_warm_start, tuning_in_force

Name = TypeVar("Name", bound=str)
DEFAULT_OUT = Path(".weir/tuning")
TUNED = "tuned.yaml"


def tune(
    source: FileOrApp,
    algorithm: Annotated[
        str, typer.Option(help=f"Search algorithm: {', '.join(get_args(Algorithm))}.")
    ] = "joint",
    evaluations: Annotated[
        int,
        typer.Option(
            help="Maximum number of simulations; a short one counts as a fraction.",
            min=1,
            max=100_000,
        ),
    ] = 25,
    seed: Annotated[int, typer.Option(help="Seed of the search.", min=0, max=MAX_SEED // 2)] = 1,
    surrogate: Annotated[
        str,
        typer.Option(help=f"Model of outcomes: {', '.join(get_args(SurrogateName))}."),
    ] = "numpy",
    warm_start: Annotated[
        list[Path] | None,
        typer.Option(
            help="Start from this result or study; may be repeated.",
            metavar="FILE|STUDY",
        ),
    ] = None,
    slots: Annotated[
        int | None, typer.Option(help="Slots of a full simulation. Default: the trace.", min=1)
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(help="Number of processes. Default: one per processor.", min=1, max=1000),
    ] = None,
    violations: Annotated[
        float, typer.Option(help="Percentage of slots that may miss the bound.", min=0, max=100)
    ] = 5.0,
    restarts: Annotated[
        float | None,
        typer.Option(help="Maximum restarts per day. Default: in a tenth of the slots.", min=0),
    ] = None,
    deadline: Annotated[
        str | None, typer.Option(help="Stop after this time, such as 10m, with the best so far.")
    ] = None,
    study: Annotated[
        Path | None,
        typer.Option(help="Folder in which to save every simulation, and from which to resume."),
    ] = None,
    history: HistoryFolder = None,
    history_app: HistoryApp = None,
    out: Annotated[Path, typer.Option(help="Folder for the result.")] = DEFAULT_OUT,
    state: State = DEFAULT_STATE,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Find the weights and latency budgets that meet an objective at the lowest cost.

    Ctrl-C ends the search and keeps the best so far.
    """
    experiment = load_experiment(find_experiment(source, state))
    experiment = fit_to_history(experiment, source, tables=history, app=history_app, out=out)
    order = TuningRequest(
        experiment=experiment,
        constraints=_constrain(experiment, violations, restarts),
        algorithm=_read_name(algorithm, "--algorithm", get_args(Algorithm)),
        surrogate=_read_name(surrogate, "--surrogate", get_args(SurrogateName)),
        evaluations=evaluations,
        slots=slots,
        seed=seed,
        workers=workers,
        deadline=None if deadline is None else read_duration(deadline, "--deadline"),
        incumbent=tuning_in_force(experiment),
        warm_starts=tuple(read_warm_start(each, experiment) for each in warm_start or ()),
    )
    result = _search(order, study)
    tuned = out / TUNED
    write_experiment(
        apply_tuning(experiment, result.best),
        tuned,
        remarks=(f"{Path(source).name} with the weights and budgets that weir tune found.",),
    )
    if as_json:
        typer.echo(write_document(result))
        return
    Console().print(_table(order, result))
    typer.echo(tuning.verdict(order, result))
    typer.echo(tuned)


def _read_name(text: str, option: str, known: tuple[Name, ...]) -> Name:
    """Return the one of several names that an option says."""
    for name in known:
        if name == text:
            return name
    raise ExperimentError(
        (f"{option}: expected one of {', '.join(known)}, got {text!r}; choose one of those",)
    )


def _constrain(experiment: Experiment, violations: float, restarts: float | None) -> Constraints:
    """Return the constraints; violations are in percent, restarts per day."""
    if restarts is None:
        return Constraints(max_violations=violations / 100)
    return Constraints(
        max_violations=violations / 100,
        max_reconfigurations=share_of_restarts(restarts, experiment.slot),
    )


def _search(order: TuningRequest, study: Path | None) -> TuningResult:
    """Tune behind a progress bar on stderr that says the best so far."""
    # Imported here: a file with a mistake is refused before the simulator is compiled.
    from weir_simulator.tuning.tune import tune as find_best

    seen: list[Evaluation] = []
    with progress_bar(TimeElapsedColumn()) as progress, _stop_at_ctrl_c() as stop:
        task = progress.add_task("Searching", total=order.evaluations)

        def show(evaluation: Evaluation) -> None:
            seen.append(evaluation)
            words = tuning.best_so_far(order, seen)
            progress.update(task, advance=evaluation.fidelity, description=words)

        result = find_best(order, on_evaluation=show, should_stop=stop.is_set, study=study)
        progress.update(task, completed=order.evaluations, description="Searched")
    return result


@contextmanager
def _stop_at_ctrl_c() -> Iterator[threading.Event]:
    """Turn the first Ctrl-C into an event; the second one ends the program as usual."""
    stop = threading.Event()

    def note(*_: object) -> None:
        stop.set()
        signal.signal(signal.SIGINT, signal.default_int_handler)

    before = signal.signal(signal.SIGINT, note)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, before)


def _table(order: TuningRequest, result: TuningResult) -> Table:
    table = Table(title="tuned", title_justify="left", title_style="bold", box=None)
    table.add_column("")
    for column in ("before", "tuned", "allowed"):
        table.add_column(column, justify="right", no_wrap=True)
    for row in (*tuning.outcomes(order, result), *tuning.settings(result)):
        table.add_row(row.label, row.before, row.after, row.allowed)
    return table
