"""`weir evaluate`: what the evaluation of a StreamApp has found."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer


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

    `spec.evaluation` in the manifest begins one: in random order, Weir decides in some blocks of
    time, and in others the job keeps a fixed deployment.
    """
    from weir_operator.errors import PermanentError
    from weir_operator.loop.decision_records import RECORDS
    from weir_operator.reporting.evaluation import (
        render_evaluation,
        render_evaluation_page,
        to_plain,
    )
    from weir_operator.runtime.files import storing
    from weir_operator.wiring.evaluation import read_evaluation
    from weir_operator.wiring.loops import state_directory

    path = state_directory(state, app) / RECORDS
    if not path.exists():
        raise PermanentError(
            f"Expected decision records of {app!r} in {state}, found none: name the "
            "StreamApp as NAMESPACE/NAME, and its folder with --state"
        )
    found = read_evaluation(path, app)
    if report is not None:
        with storing(report):
            report.parent.mkdir(parents=True, exist_ok=True)
            report.write_text(render_evaluation_page(found), encoding="utf-8")
    if as_json:
        typer.echo(json.dumps(to_plain(found), indent=1, allow_nan=False))
    else:
        from rich.console import Console

        Console().print(render_evaluation(found))
    if report is not None:
        typer.echo(f"Report: {report}", err=as_json)
