"""`weir replay`: replays recorded intervals with another policy or another objective."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from weir_cli.options import find_records, read_time, write_page


def replay(
    app: Annotated[str, typer.Argument(help="The StreamApp, as NAME or NAMESPACE/NAME.")],
    policy: Annotated[
        str | None,
        typer.Option(help="Replay with this policy. Default: the recorded one.", metavar="NAME"),
    ] = None,
    objective: Annotated[
        str | None,
        typer.Option(
            help="Replay for this bound on the response time, such as 300ms. Default: the "
            "recorded one."
        ),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            help="Follow the replay's decisions from this time on, such as 2026-05-04T17:05:00 "
            "(UTC), 17:05:00 (today) or -2h (2 hours ago); the policy learns from what was "
            "recorded before. Default: from the first record on."
        ),
    ] = None,
    until: Annotated[
        str | None, typer.Option(help="Stop at this time. Default: at the last record.")
    ] = None,
    state: Annotated[Path, typer.Option(help="Folder of Weir's state.")] = Path(".weir"),
    report: Annotated[
        Path | None,
        typer.Option(help="Write an HTML page with charts of both to this file.", metavar="FILE"),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False,
) -> None:
    """Replay recorded intervals with another policy or objective, or this version of Weir.

    The model predicts the response time of both deployments under the recorded load. It has no gap
    of a restart and no backlog; the output says what else is not known.
    """
    from weir_operator.errors import PermanentError
    from weir_operator.reporting.replay import render_replay, to_plain
    from weir_operator.reporting.replay_page import render_replay_page
    from weir_operator.wiring.replay import ReplayRequest, replay_records

    path = find_records(state, app)
    now = datetime.now(UTC).timestamp()
    request = ReplayRequest(
        app=app,
        policy=policy,
        objective=objective,
        since=-math.inf if since is None else read_time(since, now, "--since"),
        until=math.inf if until is None else read_time(until, now, "--until"),
    )
    if request.since >= request.until:
        raise PermanentError(
            f"--since: expected a time before --until {until}, got {since!r}; choose an earlier one"
        )
    from rich.progress import MofNCompleteColumn

    from weir_cli.options import progress_bar

    with progress_bar(MofNCompleteColumn()) as bar:
        task = bar.add_task("Intervals", total=None)
        found = replay_records(
            path,
            request,
            progress=lambda done, total: bar.update(task, completed=done, total=total),
        )
    if report is not None:
        write_page(report, render_replay_page(found))
    if as_json:
        typer.echo(json.dumps(to_plain(found), indent=1, allow_nan=False))
    else:
        from rich.console import Console

        Console().print(render_replay(found))
    if report is not None:
        typer.echo(f"Report: {report}", err=as_json)
