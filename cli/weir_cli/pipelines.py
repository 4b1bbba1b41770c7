"""`weir pipelines`: turns the history of metrics into arrival traces and the input of a fit.

Commands that need Spark start it inside this process, or use executors with `--master`. An export
fetches the days of one application after the other, as far as possible.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Collection, Sequence
from datetime import UTC, date, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from weir_cli.options import read_pairs
from weir_pipelines.errors import InputError, SourceError
from weir_pipelines.settings import EMBEDDED

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from weir_pipelines.export import History
    from weir_pipelines.prometheus import PasswordFromFolder, PrometheusHistory, TokenFromFile
    from weir_pipelines.schemas import ParquetTable
    from weir_pipelines.store import Partition, Tables

Address = Annotated[
    str,
    typer.Option(
        "--tables",
        help="Folder of the tables, or an s3://, gs:// or abfs:// address.",
        metavar="DIR",
    ),
]
Apps = Annotated[
    list[str] | None,
    typer.Option("--app", help="Application, such as streams/trips. Default: all."),
]
First = Annotated[
    str | None, typer.Option("--from", help="First day, such as 2026-03-02. Default: yesterday.")
]
Last = Annotated[str | None, typer.Option("--to", help="Last day. Default: the first.")]
Days = Annotated[
    int | None, typer.Option("--days", help="Use this many days up to yesterday instead.", min=1)
]
CaFile = Annotated[
    Path | None,
    typer.Option(help="File with certificate authorities for the server's certificate."),
]
Master = Annotated[str, typer.Option(help="Spark's master, in Spark's notation.")]
Conf = Annotated[
    list[str] | None, typer.Option("--conf", help="KEY=VALUE of Spark's configuration.")
]
Again = Annotated[bool, typer.Option("--again", help="Export days again that are already there.")]
Replace = Annotated[
    bool, typer.Option("--again", help="Replace days that were imported from other input.")
]
Url = Annotated[str, typer.Option("--prometheus", help="Address of the Prometheus server.")]
Matchers = Annotated[
    list[str] | None,
    typer.Option("--match", help="LABEL=VALUE that all series must have, such as cluster=eu."),
]
Headers = Annotated[
    list[str] | None,
    typer.Option(
        "--header",
        help="KEY=VALUE to send with every request, such as X-Scope-OrgID=team-a for Mimir.",
    ),
]
TokenFile = Annotated[
    Path | None, typer.Option(help="File with a bearer token for the Prometheus server.")
]
PasswordFolder = Annotated[
    Path | None,
    typer.Option(
        "--basic-auth",
        help="Folder with the files username and password for the Prometheus server.",
        metavar="DIR",
    ),
]
KeepDays = Annotated[
    int | None,
    typer.Option(
        "--keep-days",
        help="First delete the samples of older days than this many, once they are "
        "processed; the results stay. Default: delete none.",
        min=1,
    ),
]

DEFAULT_TABLES = ".weir/history"


def read_days(first: str | None, last: str | None, count: int | None) -> list[date]:
    """Return the days from first to last, or so many up to yesterday (UTC); without any, it."""
    yesterday = datetime.now(UTC).date() - timedelta(days=1)
    if count is not None:
        if first is not None or last is not None:
            raise InputError(
                "--days: expected no --from and --to together with it, got one; remove them"
            )
        return [yesterday - timedelta(days=age) for age in reversed(range(count))]
    low = yesterday if first is None else read_day("--from", first)
    high = low if last is None else read_day("--to", last)
    if high < low:
        raise InputError(f"--to: expected {low} or later, got {high}")
    return [low + timedelta(days=n) for n in range((high - low).days + 1)]


def read_day(option: str, text: str) -> date:
    """Return a day as it is written; `option` is the one that gave it, for the message."""
    try:
        return date.fromisoformat(text)
    except ValueError as error:
        raise InputError(f"{option}: expected a day such as 2026-03-02, got {text!r}") from error


def ask_prometheus(
    url: str,
    *,
    matchers: list[str] | None,
    headers: list[str] | None,
    token_file: Path | None,
    password_folder: Path | None,
    ca_file: Path | None,
) -> PrometheusHistory:
    """Return the history of the server that the options describe."""
    from weir_pipelines.prometheus import (
        PasswordFromFolder,
        PrometheusHistory,
        PrometheusSettings,
        TokenFromFile,
    )

    if token_file is not None and password_folder is not None:
        raise InputError("--basic-auth: expected no --token-file together with it; remove one")
    auth: TokenFromFile | PasswordFromFolder | None = None
    if token_file is not None:
        auth = TokenFromFile(token_file)
    if password_folder is not None:
        auth = PasswordFromFolder(password_folder)
    settings = PrometheusSettings(
        url=url,
        matchers=read_pairs("--match", matchers),
        headers=read_pairs("--header", headers),
        auth=auth,
        verify=True if ca_file is None else str(ca_file),
    )
    return PrometheusHistory(settings)


def export_apps(
    history: PrometheusHistory,
    tables: Tables,
    apps: Sequence[str] | None,
    days: Sequence[date],
    *,
    again: bool,
) -> list[str]:
    """Export the applications that are named, or all; return those whose history is not given.

    One that the server refuses must not cost the others their day.
    """
    from weir_pipelines.ingest import begin_of

    end = begin_of(days[-1] + timedelta(days=1))
    failed = []
    for name in apps or history.apps(begin_of(days[0]), end):
        try:
            _export_days(history, tables, name, days, again=again)
        except SourceError as error:
            typer.echo(f"{name}: {error}", err=True)
            failed.append(name)
    return failed


def refuse_failed(failed: Sequence[str]) -> None:
    """End the command with an error that names the applications whose history is missing."""
    if failed:
        raise SourceError(
            f"Expected the whole history, but {', '.join(failed)} is incomplete; the "
            "fetched part is kept, so run the command again once the problems above "
            "are solved"
        )


def _export_days(
    history: History, tables: Tables, name: str, days: Sequence[date], *, again: bool
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
                tables,
                Partition(name, day),
                now=time.time(),
                again=again,
                tell=partial(_show, progress, task),
            )
        typer.echo(f"{name} {day}: {done}")


def _show(progress: Progress, task: TaskID, share: float) -> None:
    progress.update(task, completed=share)


app = typer.Typer(
    help="Turn the history of metrics into arrival traces, service times and profiles.",
    no_args_is_help=True,
    add_completion=False,
)


@app.command("export")
def export(
    url: Url,
    address: Address = DEFAULT_TABLES,
    apps: Apps = None,
    first: First = None,
    last: Last = None,
    days: Days = None,
    matchers: Matchers = None,
    headers: Headers = None,
    token_file: TokenFile = None,
    password_folder: PasswordFolder = None,
    ca_file: CaFile = None,
    again: Again = False,
) -> None:
    """Export whole days of samples from Prometheus; continue an interrupted export."""
    from weir_pipelines.store import Tables

    history = ask_prometheus(
        url,
        matchers=matchers,
        headers=headers,
        token_file=token_file,
        password_folder=password_folder,
        ca_file=ca_file,
    )
    wanted = read_days(first, last, days)
    refuse_failed(export_apps(history, Tables(address), apps, wanted, again=again))


@app.command("import")
def import_files(
    files: Annotated[
        list[Path],
        typer.Argument(help="OpenMetrics text, or remote-written Parquet.", metavar="FILE"),
    ],
    address: Address = DEFAULT_TABLES,
    name: Annotated[
        str | None, typer.Option("--app", help="Application. Default: by the label weir_app.")
    ] = None,
    again: Replace = False,
) -> None:
    """Import samples from files, which together must contain whole days."""
    from weir_pipelines.ingest import DayImport, read_openmetrics, read_written_parquet
    from weir_pipelines.store import Tables

    tables = Tables(address)
    with tempfile.TemporaryDirectory(prefix="weir-import-") as folder:
        days = DayImport(Path(folder), name)
        for file in files:
            read = read_written_parquet if file.suffix == ".parquet" else read_openmetrics
            taken = days.take(read(file))
            if not taken:
                raise InputError(
                    f"{file}: expected samples of Flink's metrics with the label weir_app, "
                    "got none; if the label is missing, name the application with --app"
                )
            typer.echo(f"{file}: {taken:,} samples")
        _tell("imported", days.write(tables, may_replace=again))


@app.command("run")
def run_jobs(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            help="Jobs to run: arrivals, service, quality, seasonality. Default: all.",
            metavar="JOB",
        ),
    ] = None,
    address: Address = DEFAULT_TABLES,
    url: Annotated[
        str | None, typer.Option("--prometheus", help="Export from this server first.")
    ] = None,
    apps: Apps = None,
    first: First = None,
    last: Last = None,
    days: Days = None,
    matchers: Matchers = None,
    headers: Headers = None,
    token_file: TokenFile = None,
    password_folder: PasswordFolder = None,
    ca_file: CaFile = None,
    master: Master = EMBEDDED,
    conf: Conf = None,
    keep_days: KeepDays = None,
) -> None:
    """Process samples into arrival rates, service times, data problems and usual weeks."""
    from weir_pipelines.jobs import JOBS, Work
    from weir_pipelines.session import open_session
    from weir_pipelines.store import Tables

    unknown = sorted(set(names or ()) - set(JOBS))
    if unknown:
        raise InputError(f"JOB: expected some of {', '.join(JOBS)}, got {', '.join(unknown)}")
    chosen = [name for name in JOBS if not names or name in names]
    options = read_pairs("--conf", conf)
    wanted = read_days(first, last, days)
    tables = Tables(address)
    if keep_days is not None:  # before the export, which may need the room
        _prune(tables, keep_days, wanted, apps)
    failed: list[str] = []
    if url is not None:
        history = ask_prometheus(
            url,
            matchers=matchers,
            headers=headers,
            token_file=token_file,
            password_folder=password_folder,
            ca_file=ca_file,
        )
        failed = export_apps(history, tables, apps, wanted, again=False)
        if not _list_days(tables, JOBS[chosen[0]].needs, wanted, apps):
            # A server that has no history yet is no fault: every night of a new cluster is one.
            refuse_failed(failed)
            period = f"{wanted[0]} to {wanted[-1]}"
            typer.echo(f"nothing to process: {history.address} has no samples of {period}")
            return
    _find_days(tables, JOBS[chosen[0]].needs, wanted, apps)  # before Spark is started
    session = open_session(master=master, options=options)
    try:
        for name in chosen:
            work = Work(
                session=session,
                tables=tables,
                partitions=_find_days(tables, JOBS[name].needs, wanted, apps),
            )
            _tell(name, JOBS[name].run(work))
    finally:
        session.stop()
    refuse_failed(failed)


@app.command("events")
def events(
    files: Annotated[
        list[Path], typer.Argument(help="CSV with a header, or Parquet.", metavar="FILE")
    ],
    column: Annotated[str, typer.Option(help="Column with the time of each event.")],
    name: Annotated[str, typer.Option("--app", help="Application name for the log.")],
    time_format: Annotated[
        str | None,
        typer.Option("--format", help="Format of the time, in Spark's notation. Default: ISO."),
    ] = None,
    address: Address = DEFAULT_TABLES,
    again: Replace = False,
    master: Master = EMBEDDED,
    conf: Conf = None,
) -> None:
    """Count the events of a raw log, such as taxi trips, into arrival rates."""
    from weir_pipelines.events import count_events, read_events
    from weir_pipelines.jobs import write_log
    from weir_pipelines.session import open_session
    from weir_pipelines.store import Tables

    session = open_session(master=master, options=read_pairs("--conf", conf))
    try:
        times = read_events(session, files, column=column, time_format=time_format)
        rows = count_events(times, name)
        _tell("events", write_log(Tables(address), rows, may_replace=again))
    finally:
        session.stop()


@app.command("trace")
def trace(
    out: Annotated[Path, typer.Argument(help="Trace to write.", metavar="OUT")],
    name: Annotated[str, typer.Option("--app", help="Application.")],
    operator: Annotated[str, typer.Option(help="Operator at which the records arrive.")],
    address: Address = DEFAULT_TABLES,
    first: Annotated[str | None, typer.Option("--from", help="First day. Default: all.")] = None,
    last: Annotated[str | None, typer.Option("--to", help="Last day. Default: all.")] = None,
    most_filled: Annotated[
        float, typer.Option(help="Maximum share of minutes to fill in.", min=0, max=1)
    ] = 0.1,
) -> None:
    """Write rebuilt arrival rates as a trace that simulations replay."""
    from weir_pipelines.schemas import ARRIVALS
    from weir_pipelines.store import Tables
    from weir_pipelines.traces import read_arrival_trace
    from weir_simulator.traces import write_trace

    tables = Tables(address)
    low = date.min if first is None else read_day("--from", first)
    high = date.max if last is None else read_day("--to", last)
    days = [each for each in tables.partitions(ARRIVALS, name) if low <= each.day <= high]
    if not days:
        raise InputError(
            f"{tables.root}: expected arrivals of {name}, got none; run weir pipelines run arrivals"
        )
    rates, filled = read_arrival_trace(tables, days, operator, most_filled=most_filled)
    write_trace(out, rates)
    typer.echo(f"{out}: {rates.size} slots, {filled:.1%} of them filled in")


def _list_days(
    tables: Tables, table: ParquetTable, wanted: Sequence[date], apps: Collection[str] | None
) -> list[Partition]:
    """Return the wanted days that a table has, of the applications that are named, or of all."""
    return [
        each
        for each in tables.partitions(table)
        if each.day in wanted and (not apps or each.app in apps)
    ]


def _find_days(
    tables: Tables, table: ParquetTable, wanted: Sequence[date], apps: Collection[str] | None
) -> list[Partition]:
    """Return the same, of which there must be some."""
    found = _list_days(tables, table, wanted, apps)
    if not found:
        raise InputError(
            f"{tables.root}: expected {table.name} of {wanted[0]} to {wanted[-1]}, got none; "
            "export or import samples first, or name other days with --from and --to"
        )
    return found


def _prune(
    tables: Tables, keep_days: int, wanted: Sequence[date], apps: Collection[str] | None
) -> None:
    """Remove samples of days before the last so many and before those that are worked up now."""
    from weir_pipelines.store import prune_samples

    [yesterday] = read_days(None, None, 1)
    first = min(wanted[0], yesterday - timedelta(days=keep_days - 1))
    # The day before the first completes its first minute.
    pruned = prune_samples(tables, before=first - timedelta(days=1), apps=apps)
    _tell("samples removed", pruned.removed)
    _tell(
        "kept old samples, because this day or a neighbouring day is not processed yet", pruned.kept
    )


def _tell(what: str, partitions: Sequence[Partition]) -> None:
    for each in partitions:
        typer.echo(f"{each.app} {each.day}: {what}")
