"""`weir pipelines`: from the history of metrics to arrival traces and what a fit needs.

Commands that need Spark start it inside this process, or reach executors with `--master`.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from weir_pipelines.errors import InputError

if TYPE_CHECKING:
    from weir_pipelines.export import History
    from weir_pipelines.store import Partition, Store

app = typer.Typer(
    help="Turn the history of metrics into arrival traces, service times and profiles.",
    no_args_is_help=True,
    add_completion=False,
)

Tables = Annotated[Path, typer.Option("--tables", help="Folder of the tables.")]
Apps = Annotated[
    list[str] | None,
    typer.Option("--app", help="Application, as the label weir_app has it. Default: all."),
]
First = Annotated[
    str | None, typer.Option("--from", help="First day, such as 2026-03-02. Default: yesterday.")
]
Last = Annotated[str | None, typer.Option("--to", help="Last day. Default: the first.")]
Days = Annotated[
    int | None, typer.Option("--days", help="So many days up to yesterday instead.", min=1)
]
CaFile = Annotated[
    Path | None, typer.Option(help="File with the certificates to check the server's against.")
]
Master = Annotated[str, typer.Option(help="Where Spark runs, as Spark has it.")]
Conf = Annotated[
    list[str] | None, typer.Option("--conf", help="KEY=VALUE of Spark's own configuration.")
]
Again = Annotated[bool, typer.Option("--again", help="Also days that are there already.")]
Replace = Annotated[
    bool, typer.Option("--again", help="Replace days that are there from other input.")
]
Url = Annotated[str, typer.Option("--prometheus", help="Address of the Prometheus server.")]
Matchers = Annotated[
    list[str] | None,
    typer.Option("--match", help="LABEL=VALUE that all series must have, such as cluster=eu."),
]
TokenFile = Annotated[
    Path | None, typer.Option(help="File with a bearer token for the Prometheus server.")
]

DEFAULT_TABLES = Path(".weir/history")
LOCAL = "local[*]"


@app.command("export")
def export(
    url: Url,
    tables: Tables = DEFAULT_TABLES,
    apps: Apps = None,
    first: First = None,
    last: Last = None,
    days: Days = None,
    matchers: Matchers = None,
    token_file: TokenFile = None,
    ca_file: CaFile = None,
    again: Again = False,
) -> None:
    """Export whole days of samples out of Prometheus; one that broke off goes on."""
    from weir_pipelines.prometheus import PrometheusHistory, PrometheusSettings
    from weir_pipelines.store import Store

    headers = {} if token_file is None else {"Authorization": f"Bearer {_token(token_file)}"}
    history = PrometheusHistory(
        PrometheusSettings(
            url=url,
            matchers=_pairs("--match", matchers),
            headers=headers,
            verify=True if ca_file is None else str(ca_file),
        )
    )
    store = Store(tables)
    for name in apps or history.apps():
        for day in _days(first, last, days):
            _export_day(history, store, name, day, again)


@app.command("import")
def import_files(
    files: Annotated[
        list[Path],
        typer.Argument(help="OpenMetrics text, or remote-written Parquet.", metavar="FILE"),
    ],
    tables: Tables = DEFAULT_TABLES,
    name: Annotated[
        str | None, typer.Option("--app", help="Application. Default: by the label weir_app.")
    ] = None,
    again: Replace = False,
) -> None:
    """Import samples from files, which together must hold each of their days whole."""
    from weir_pipelines.import_files import read_openmetrics, read_written_parquet
    from weir_pipelines.intake import Intake
    from weir_pipelines.store import Store

    intake = Intake(name)
    for file in files:
        read = read_written_parquet if file.suffix == ".parquet" else read_openmetrics
        taken = intake.take(read(file))
        if not taken:
            raise InputError(
                f"{file}: expected samples of Flink's metrics with the label weir_app, got none; "
                "name the application with --app where the label is missing"
            )
        typer.echo(f"{file}: {taken:,} samples")
    _tell("imported", intake.write(Store(tables), may_replace=again))


@app.command("run")
def run_jobs(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            help="Which of arrivals, service, quality, seasonality. Default: all.", metavar="JOB"
        ),
    ] = None,
    tables: Tables = DEFAULT_TABLES,
    url: Annotated[
        str | None, typer.Option("--prometheus", help="Export from this server first.")
    ] = None,
    apps: Apps = None,
    first: First = None,
    last: Last = None,
    days: Days = None,
    matchers: Matchers = None,
    token_file: TokenFile = None,
    ca_file: CaFile = None,
    master: Master = LOCAL,
    conf: Conf = None,
) -> None:
    """Work samples up: into arrival rates, service times, problems, and what is usual."""
    from weir_pipelines.jobs import JOBS, Work
    from weir_pipelines.schemas import Table
    from weir_pipelines.session import open_session
    from weir_pipelines.settings import ArrivalSettings
    from weir_pipelines.store import Store

    unknown = sorted(set(names or ()) - set(JOBS))
    if unknown:
        raise InputError(f"JOB: expected some of {', '.join(JOBS)}, got {', '.join(unknown)}")
    options = _pairs("--conf", conf)
    wanted = _days(first, last, days)
    if url is not None:
        export(url, tables, apps, first, last, days, matchers, token_file, ca_file)
    store = Store(tables)

    def there(table: Table) -> list[Partition]:
        found = [
            each
            for each in store.partitions(table)
            if each.day in wanted and (not apps or each.app in apps)
        ]
        if not found:
            raise InputError(
                f"{tables}: expected {table.name} of {wanted[0]} to {wanted[-1]}, got none; export "
                "or import samples first, or name other days with --from and --to"
            )
        return found

    chosen = [name for name in JOBS if not names or name in names]
    there(JOBS[chosen[0]].needs)  # before Spark is started
    session = open_session(master=master, options=options)
    try:
        for name in chosen:
            work = Work(
                session=session,
                store=store,
                partitions=there(JOBS[name].needs),
                settings=ArrivalSettings(),
            )
            _tell(name, JOBS[name].run(work))
    finally:
        session.stop()


@app.command("events")
def events(
    files: Annotated[
        list[Path], typer.Argument(help="CSV with a header, or Parquet.", metavar="FILE")
    ],
    column: Annotated[str, typer.Option(help="Column that holds the time of an event.")],
    name: Annotated[str, typer.Option("--app", help="What to call the log.")],
    time_format: Annotated[
        str | None,
        typer.Option("--format", help="How a time is written, in Spark's letters. Default: ISO."),
    ] = None,
    tables: Tables = DEFAULT_TABLES,
    again: Replace = False,
    master: Master = LOCAL,
    conf: Conf = None,
) -> None:
    """Count the events of a raw log, such as taxi trips, into arrival rates."""
    from weir_pipelines.events import count_events, read_events
    from weir_pipelines.frames import write_table
    from weir_pipelines.schemas import ARRIVALS
    from weir_pipelines.session import open_session
    from weir_pipelines.store import Store

    session = open_session(master=master, options=_pairs("--conf", conf))
    try:
        times = read_events(session, files, column=column, time_format=time_format)
        rows = count_events(times, name)
        _tell("events", write_table(Store(tables), ARRIVALS, rows, may_replace=again))
    finally:
        session.stop()


@app.command("trace")
def trace(
    out: Annotated[Path, typer.Argument(help="Trace to write.", metavar="OUT")],
    name: Annotated[str, typer.Option("--app", help="Application.")],
    operator: Annotated[str, typer.Option(help="Operator at which the records arrive.")],
    tables: Tables = DEFAULT_TABLES,
    first: Annotated[str | None, typer.Option("--from", help="First day. Default: all.")] = None,
    last: Annotated[str | None, typer.Option("--to", help="Last day. Default: all.")] = None,
    most_filled: Annotated[
        float, typer.Option(help="Share of the minutes that may be filled in.", min=0, max=1)
    ] = 0.1,
) -> None:
    """Write rebuilt arrival rates as a trace that simulations replay."""
    from weir_pipelines.schemas import ARRIVALS
    from weir_pipelines.store import Store
    from weir_pipelines.traces import read_arrival_trace
    from weir_simulator.trace_files import write_trace

    store = Store(tables)
    low = date.min if first is None else _day("--from", first)
    high = date.max if last is None else _day("--to", last)
    days = [
        each for each in store.partitions(ARRIVALS) if each.app == name and low <= each.day <= high
    ]
    if not days:
        raise InputError(
            f"{tables}: expected arrivals of {name}, got none; run weir pipelines run arrivals"
        )
    rebuilt = read_arrival_trace(store, days, operator, most_filled=most_filled)
    write_trace(out, rebuilt.rates)
    typer.echo(f"{out}: {rebuilt.rates.size} slots, {rebuilt.filled:.1%} of them filled in")


def _export_day(history: History, store: Store, name: str, day: date, again: bool) -> None:
    from rich.console import Console
    from rich.progress import Progress

    from weir_pipelines.export import export_day
    from weir_pipelines.store import Partition

    with Progress(console=Console(stderr=True)) as progress:
        task = progress.add_task(f"{name} {day}", total=1.0)
        done = export_day(
            history,
            store,
            Partition(name, day),
            now=time.time(),
            again=again,
            tell=lambda share: progress.update(task, completed=share),
        )
    typer.echo(f"{name} {day}: {done}")


def _tell(what: str, partitions: Sequence[Partition]) -> None:
    for each in partitions:
        typer.echo(f"{each.app} {each.day}: {what}")


def _days(first: str | None, last: str | None, count: int | None) -> list[date]:
    """Return the days from first to last, or so many up to yesterday (UTC); without any, it."""
    yesterday = datetime.now(UTC).date() - timedelta(days=1)
    if count is not None:
        if first is not None or last is not None:
            raise InputError("--days: expected no --from and --to beside it; leave them out")
        return [yesterday - timedelta(days=age) for age in reversed(range(count))]
    low = yesterday if first is None else _day("--from", first)
    high = low if last is None else _day("--to", last)
    if high < low:
        raise InputError(f"--to: expected {low} or later, got {high}")
    return [low + timedelta(days=n) for n in range((high - low).days + 1)]


def _day(option: str, text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError as error:
        raise InputError(f"{option}: expected a day such as 2026-03-02, got {text!r}") from error


def _pairs(option: str, texts: Sequence[str] | None) -> dict[str, str]:
    pairs = {}
    for text in texts or ():
        key, equals, value = text.partition("=")
        if not (key and equals):
            raise InputError(f"{option}: expected KEY=VALUE, got {text!r}")
        pairs[key] = value
    return pairs


def _token(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise InputError(f"--token-file: {file} cannot be read: {error.strerror}") from error
