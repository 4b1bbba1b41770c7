"""`weir compare`: compares policies over experiments and seeds."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import MofNCompleteColumn, TimeElapsedColumn
from rich.table import Table

from weir_cli.options import progress_bar
from weir_simulator.comparison import (
    FinishedRun,
    Interval,
    PlannedRun,
    Row,
    by_cost,
    plan_runs,
    rank,
    run_all,
    summarise,
)
from weir_simulator.errors import SimulatorError
from weir_simulator.experiment_files import load_experiment
from weir_simulator.reports import wording
from weir_simulator.reports.comparison import render_comparison

DEFAULT_OUT = Path(".weir/comparison")
REPORT = "report.html"


def compare(
    files: Annotated[list[Path], typer.Argument(help="Experiments to run.", metavar="FILE")],
    policy: Annotated[
        str | None,
        typer.Option(
            help="Policies, separated by commas. Default: each file's own.", metavar="A,B,..."
        ),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for the report.")] = DEFAULT_OUT,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")] = False,
) -> None:
    """Compare policies: run experiments with several policies and seeds in parallel."""
    experiments = {
        name: load_experiment(file) for name, file in zip(_name(files), files, strict=True)
    }
    policies = [each.strip() for each in (policy or "").split(",") if each.strip()]
    rows = summarise(_run(plan_runs(experiments, policies)))
    report = _write(out / REPORT, render_comparison(rows))
    if as_json:
        typer.echo(json.dumps([_to_plain(row) for row in rows], indent=2))
        return
    for name in experiments:
        Console().print(_table(name, [row for row in rows if row.name == name]))
    if len(experiments) > 1:
        Console().print(_standings(rows))
    for row in rows:
        if row.refusal:
            typer.echo(f"{row.name}: {row.policy} rejects this experiment: {row.refusal}")
    typer.echo(report)


def _name(files: Sequence[Path]) -> list[str]:
    """Return what to call each file: its stem, or its path where stems are the same."""
    stems = [file.stem for file in files]
    return [str(file) if stems.count(file.stem) > 1 else file.stem for file in files]


def _run(planned: Sequence[PlannedRun]) -> list[FinishedRun]:
    """Make the runs behind a progress bar on stderr."""
    with progress_bar(MofNCompleteColumn(), TimeElapsedColumn()) as progress:
        task = progress.add_task("Comparing", total=len(planned))

        def show(run: FinishedRun) -> None:
            what = f"{run.planned.name}, {run.planned.policy}, seed {run.planned.seed}"
            progress.update(task, advance=1, description=what)

        finished = run_all(planned, on_finished=show)
        progress.update(task, description="Compared")
    return finished


def _write(report: Path, page: str) -> Path:
    """Write the page, in a folder that is made where it is missing; return its path."""
    try:
        report.parent.mkdir(parents=True, exist_ok=True)
        report.write_text(page, encoding="utf-8")
    except OSError as error:
        raise SimulatorError(
            f"Report {report} cannot be written: {error.strerror}; choose another --out"
        ) from error
    return report


def _table(name: str, rows: Sequence[Row]) -> Table:
    table = Table(title=name, title_justify="left", title_style="bold", box=None)
    table.add_column("policy")
    for column in ("cost", "violations\n%", "reconfigured\n%", "resources"):
        table.add_column(column, justify="right", no_wrap=True)
    for row in by_cost(rows):
        what = row.measured
        if what is None:
            table.add_row(row.policy, "refused", style="yellow")
            continue
        table.add_row(
            row.policy,
            _written(what.cost, 4),
            _written(what.violations, 2),
            _written(what.reconfigurations, 2),
            _written(what.resources, 2),
        )
    return table


def _standings(rows: Sequence[Row]) -> Table:
    table = Table(title="all experiments", title_justify="left", title_style="bold", box=None)
    table.add_column("policy")
    for column in ("cost ÷ lowest,\ngeometric mean", "lowest in", "experiments"):
        table.add_column(column, justify="right", no_wrap=True)
    for standing in rank(rows):
        relative = f"{standing.relative_cost:.3f}" if standing.taken else wording.UNKNOWN
        table.add_row(standing.policy, relative, f"{standing.lowest_in}", f"{standing.taken}")
    return table


def _written(value: Interval, digits: int) -> str:
    return wording.plus_minus(value.mean, value.half_width, digits)


def _to_plain(row: Row) -> dict[str, object]:
    """Return a row as plain JSON values; `halfWidth` is null where there is one seed."""
    plain: dict[str, object] = {
        "experiment": row.name,
        "policy": row.policy,
        "seeds": list(row.seeds),
        "refusal": row.refusal or None,
    }
    what = row.measured
    if what is None:
        return plain
    measures: Mapping[str, Interval] = {
        "averageCost": what.cost,
        "violations": what.violations,
        "reconfigurations": what.reconfigurations,
        "resources": what.resources,
    }
    return plain | {
        **{
            key: {"mean": value.mean, "halfWidth": value.half_width}
            for key, value in measures.items()
        },
        "replicas": dict(what.replicas),
        "slots": what.slots,
        "slotsPerSecond": what.slots_per_second,
    }
