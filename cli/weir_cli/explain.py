"""`weir explain`: shows why a decision was made, from the decision records."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from weir_cli.options import find_records, read_time

DAY = 86_400.0
MAX_TUNINGS = 5
"""Tunings that are shown, the newest first."""


def explain(
    app: Annotated[str, typer.Argument(help="The StreamApp, as NAME or NAMESPACE/NAME.")],
    at: Annotated[
        str | None,
        typer.Option(
            help="Show the newest decisions before this time, such as 2026-05-04T17:05:00 "
            "(UTC), 17:05:00 (today) or -90s (90 s ago). Default: now."
        ),
    ] = None,
    operator: Annotated[str | None, typer.Option(help="Show only this operator.")] = None,
    state: Annotated[Path, typer.Option(help="Folder of Weir's state.")] = Path(".weir"),
    as_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False,
) -> None:
    """Show measurements, candidates, expectations and results of decisions.

    If weights and latency budgets were tuned, the last tunings come first, each with the reason why
    it was kept or rolled back. The last line says how long changes waited for TaskManagers in the
    day before, and what an earlier start could have saved.
    """
    from weir_operator.loop.record import RecordStore
    from weir_operator.reporting.explanation import explain_at, to_plain
    from weir_operator.tuning.store import TUNINGS, read_tunings

    path = find_records(state, app)
    now = datetime.now(UTC).timestamp()
    until = now if at is None else read_time(at, now, "--at")
    tunings = read_tunings(path.with_name(TUNINGS))
    records = RecordStore(path, read_only=True)
    try:
        explanations = explain_at(records, until=until, operator=operator, tunings=tunings)
        if as_json:
            typer.echo(json.dumps([to_plain(each) for each in explanations], indent=1))
            return
        from rich.console import Console

        from weir_operator.reporting.explanation import (
            describe_waits,
            render_explanations,
            render_tunings,
        )

        versions = () if tunings is None else tunings.latest(MAX_TUNINGS, until=until)
        if versions:
            Console().print(render_tunings(app, versions))
        Console().print(render_explanations(app, explanations))
        since = until - DAY
        changes = [each for each in records.changes(since=since) if each.created <= until]
        if waits := describe_waits(changes, records.ticks(since=since, until=until)):
            Console().print(f"Last day: {waits}", highlight=False, markup=False)
    finally:
        records.close()
