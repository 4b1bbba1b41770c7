"""How `weir pipelines` exports: the days of one application after the other, as far as given."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import date, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from weir_cli.pipeline_options import read_pairs, read_token
from weir_pipelines.errors import SourceError

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from weir_pipelines.export import History
    from weir_pipelines.prometheus import PrometheusHistory
    from weir_pipelines.store import Store


def ask_prometheus(
    url: str, matchers: list[str] | None, token_file: Path | None, ca_file: Path | None
) -> PrometheusHistory:
    """Return the history of the server that the options describe."""
    from weir_pipelines.prometheus import PrometheusHistory, PrometheusSettings

    headers = {} if token_file is None else {"Authorization": f"Bearer {read_token(token_file)}"}
    settings = PrometheusSettings(
        url=url,
        matchers=read_pairs("--match", matchers),
        headers=headers,
        verify=True if ca_file is None else str(ca_file),
    )
    return PrometheusHistory(settings)


def export_apps(
    history: PrometheusHistory,
    store: Store,
    apps: Sequence[str] | None,
    days: Sequence[date],
    *,
    again: bool,
) -> list[str]:
    """Export the applications that are named, or all; return those whose history is not given.

    One that the server refuses must not cost the others their day.
    """
    from weir_pipelines.intake import begin_of

    end = begin_of(days[-1] + timedelta(days=1))
    failed = []
    for name in apps or history.apps(begin_of(days[0]), end):
        try:
            _export_days(history, store, name, days, again=again)
        except SourceError as error:
            typer.echo(f"{name}: {error}", err=True)
            failed.append(name)
    return failed


def refuse_failed(failed: Sequence[str]) -> None:
    """End the command with an error that names the applications whose history is missing."""
    if failed:
        raise SourceError(
            f"Expected the whole history, got not all of {', '.join(failed)}; what was fetched is "
            "kept, so run it again once the reasons above are gone"
        )


def _export_days(
    history: History, store: Store, name: str, days: Sequence[date], *, again: bool
) -> None:
    from rich.console import Console
    from rich.progress import Progress

    from weir_pipelines.export import export_day
    from weir_pipelines.store import Partition

    for day in days:
        with Progress(console=Console(stderr=True)) as progress:
            task = progress.add_task(f"{name} {day}", total=1.0)

            done = export_day(
                history,
                store,
                Partition(name, day),
                now=time.time(),
                again=again,
                tell=partial(_show, progress, task),
            )
        typer.echo(f"{name} {day}: {done}")


def _show(progress: Progress, task: TaskID, share: float) -> None:
    progress.update(task, completed=share)
