"""`weir evaluate`: what the evaluation of a StreamApp has found."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from weir_cli.options import find_records, write_page


def evaluate(
    app: Annotated[str, typer.Argument(help="The StreamApp, as NAME or NAMESPACE/NAME.")],
    state: Annotated[Path, typer.Option(help="Folder of Weir's state.")] = Path(".weir"),
    report: Annotated[
        Path | None,
        typer.Option(help="Write an HTML page with charts to this file.", metavar="FILE"),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False,
) -> None:
    """Show what Weir has saved in an evaluation, with confidence intervals.

    `spec.evaluation` in the manifest starts one: Weir and a fixed baseline take turns on the
    running job, in pairs of time blocks in random order.
    """
    from weir_operator.reporting.evaluation import (
        render_evaluation,
        render_evaluation_page,
        to_plain,
    )
    from weir_operator.wiring.evaluation import read_evaluation

    path = find_records(state, app)
    found = read_evaluation(path, app)
    if report is not None:
        write_page(report, render_evaluation_page(found))
    if as_json:
        typer.echo(json.dumps(to_plain(found), indent=1, allow_nan=False))
    else:
        from rich.console import Console

        Console().print(render_evaluation(found))
    if report is not None:
        typer.echo(f"Report: {report}", err=as_json)
