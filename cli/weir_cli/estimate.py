"""`weir estimate`: what a job's scaling would have cost, from metrics that are there already."""

from __future__ import annotations

import asyncio
import json
import math
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.console import Console
from rich.progress import MofNCompleteColumn, TimeRemainingColumn
from rich.table import Table

from weir_cli.options import (
    DEFAULT_STATE,
    State,
    find_experiment,
    find_records,
    progress_bar,
    read_duration,
    read_pairs,
    read_time,
)
from weir_operator.errors import PermanentError
from weir_policies import registry

if TYPE_CHECKING:
    from weir_operator.metrics.prometheus_server import PrometheusServer
    from weir_policies.model.node_types import NodeType
    from weir_simulator.bill.bill import Bill
    from weir_simulator.bill.job import JobHistory
    from weir_simulator.bill.measured import Measured
    from weir_simulator.bill.slots import SlotTable
    from weir_simulator.experiment import Objective

DEFAULT_POLICY = "planner"
DEFAULT_DAYS = 14.0
DAY = 86_400.0
SLOT = 60.0
"""Seconds between two decisions, as a StreamApp has it by default."""
TODAY = "taskmanagers"
"""Pool of the node types where none are given."""
CORE_PARTS = (("1", 1.0), ("500m", 0.5), ("250m", 0.25))
"""Sizes that a replica may have, as parts of a slot of today's TaskManagers."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """Where a job's history is, and which part of it."""

    source: str | None
    connect: Callable[[], PrometheusServer] | None
    """Connects to a server; `None` where `source` says where the history is."""
    job: str
    labels: Mapping[str, str]
    since: float | None
    """Unix seconds; `None` is `days` before the end."""
    until: float | None
    """`None` is the end of what is there."""
    days: float
    flink: str | None
    state: Path


def estimate(
    source: Annotated[
        str | None,
        typer.Argument(
            help=(
                "StreamApp (NAMESPACE/NAME) with records, Parquet of a remote-write receiver, or "
                "the folder of the pipelines' tables. Default: --prometheus."
            ),
            metavar="APP|FILE|DIR",
        ),
    ] = None,
    prometheus: Annotated[
        str | None,
        typer.Option(
            help="Address of the Prometheus server (or Thanos, Mimir, VictoriaMetrics).",
            metavar="URL",
        ),
    ] = None,
    job: Annotated[
        str | None,
        typer.Option(help="Name or id of the job. Default: the only one.", metavar="NAME"),
    ] = None,
    objective: Annotated[
        str | None,
        typer.Option(
            help="Response time that the job must meet, such as 500ms, or p95=500ms.",
            metavar="TIME",
        ),
    ] = None,
    policy: Annotated[
        str, typer.Option(help="Policies, separated by commas.", metavar="A,B,...")
    ] = DEFAULT_POLICY,
    price: Annotated[
        str | None,
        typer.Option(
            help=(
                "Price of a TaskManager per hour, or a file with nodeTypes, the first of which is "
                "a slot of today's. Default: 1, so that costs are TaskManager hours."
            ),
            metavar="NUMBER|FILE",
        ),
    ] = None,
    days: Annotated[
        float, typer.Option(help="Use the days before --end.", min=0.01)
    ] = DEFAULT_DAYS,
    start: Annotated[
        str | None, typer.Option(help="Begin, such as 2026-05-04T00:00:00. Default: --days.")
    ] = None,
    end: Annotated[str | None, typer.Option(help="End. Default: now.")] = None,
    flink: Annotated[
        str | None,
        typer.Option(help="Address of Flink's REST interface, to read the plan.", metavar="URL"),
    ] = None,
    match: Annotated[
        list[str] | None,
        typer.Option(help="LABEL=VALUE that all series must have; repeatable."),
    ] = None,
    header: Annotated[
        list[str] | None,
        typer.Option(help="KEY=VALUE to send with every request; repeatable; as promtool's."),
    ] = None,
    http_config: Annotated[
        Path | None,
        typer.Option(
            "--http.config.file",
            help="Token, password and certificates for the server, as promtool takes them.",
            metavar="FILE",
        ),
    ] = None,
    report: Annotated[
        Path | None, typer.Option(help="Write an HTML page to this file.", metavar="FILE")
    ] = None,
    streamapp: Annotated[
        bool, typer.Option("--streamapp", help="Print the StreamApp to begin with instead.")
    ] = False,
    state: State = DEFAULT_STATE,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Estimate what a job's scaling would have cost by Weir, before anything is installed."""
    from weir_operator.cluster.process.logs import send_logs
    from weir_operator.estimate.access import connect

    send_logs(as_json=False)
    policies = tuple(dict.fromkeys(each.strip() for each in policy.split(",") if each.strip()))
    for each in policies:
        registry.find(each)  # refuses an unknown name before anything is read
    now = time.time()
    until = now if end is None else read_time(end, now, "--end")
    since = until - days * DAY if start is None else read_time(start, now, "--start")
    if not since < until:
        raise PermanentError("--start: expected a time before --end, got a later one; correct it")
    if (source is None) == (prometheus is None):
        raise PermanentError(
            "Expected either --prometheus URL or one APP|FILE|DIR, got "
            f"{'neither' if source is None else 'both'}; name where the metrics are"
        )
    bound = None if objective is None else _read_objective(objective)
    prices = _read_prices(price)
    asked = Asked(
        source=source,
        connect=None
        if prometheus is None
        else partial(connect, prometheus, read_pairs("--header", header), http_config),
        job=job or "",
        labels=read_pairs("--match", match),
        since=None if start is None and prometheus is None else since,
        until=None if end is None and prometheus is None else until,
        days=days,
        flink=flink,
        state=state,
    )
    with progress_bar() as progress:
        task = progress.add_task("Reading", total=1.0)

        def show(part: float) -> None:
            progress.update(task, completed=part)

        measured, aim = _read(asked, prices, bound, show)
        progress.update(task, completed=1.0, description="Read")
    if streamapp:
        typer.echo(_manifest(measured, aim, policies[0]), nl=False)
        return
    bill = _simulate(measured, aim, policies)
    if as_json:
        typer.echo(json.dumps(_to_plain(bill), indent=2, allow_nan=False))
    else:
        _print(bill)
    if report is not None:
        _write_report(report, bill)
        typer.echo(report, err=as_json)


def _read_objective(text: str) -> Objective:
    from weir_policies.model.objective import Statistic
    from weir_simulator.experiment import Objective

    word, equals, rest = text.partition("=")
    statistics = {each.word: each for each in Statistic}
    if equals and word.strip().lower() not in statistics:
        raise PermanentError(
            f"--objective: expected a statistic out of {', '.join(statistics)}, got {word!r}; "
            "write, for example, p95=500ms"
        )
    statistic = statistics[word.strip().lower()] if equals else Statistic.MEAN
    seconds = read_duration(rest if equals else text, "--objective")
    if not seconds > 0:
        raise PermanentError(f"--objective: expected a time above 0, got {text!r}; lengthen it")
    return Objective(response_time=seconds, statistic=statistic)


def _read_prices(text: str | None) -> float | tuple[NodeType, ...]:
    """Return what `--price` says: currency per TaskManager and hour, or the node types in a file.

    The first of these is what the job's subtasks run on.
    """
    if text is None:
        return 1.0
    try:
        number = float(text)
    except ValueError:
        number = -1.0
        if Path(text).is_file():
            return _read_node_types(Path(text))
    if not 0 < number < float("inf"):
        raise PermanentError(
            f"--price: expected a price above 0 or a file with nodeTypes, got {text!r}; correct it"
        )
    return number


def _read_node_types(path: Path) -> tuple[NodeType, ...]:
    """Return the `nodeTypes` of a file, written as in an experiment."""
    import yaml
    from pydantic import TypeAdapter, ValidationError

    from weir_policies.model import node_types as model
    from weir_simulator.experiment import NodeType

    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
        listed = document["nodeTypes"]
        found = TypeAdapter(list[NodeType]).validate_python(listed)
    except (OSError, UnicodeDecodeError, yaml.YAMLError, TypeError, LookupError) as error:
        raise PermanentError(
            f"--price: expected {path} to be YAML with nodeTypes, got {type(error).__name__}; "
            "write nodeTypes: [{name: small/1, speedup: 1, price: 0.05}]"
        ) from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise PermanentError(
            f"--price: {path}: nodeTypes.{where}: {first['msg']}; correct it"
        ) from error
    free = [each.name for each in found if each.price == 0]
    if free or not found:
        raise PermanentError(
            f"--price: {path}: nodeTypes: expected types with prices above 0, got "
            f"{', '.join(free) or 'none'}; add what they cost"
        )
    return tuple(
        model.NodeType(
            name=each.name,
            pool=each.pool_name,
            speedup=each.speedup,
            price=each.price,
            pool_limit=each.pool_limit,
        )
        for each in found
    )


def _is_path(source: str) -> bool:
    path = Path(source)
    return path.exists() or path.suffix == ".parquet" or "://" in source


def _read(
    asked: Asked,
    prices: float | tuple[NodeType, ...],
    bound: Objective | None,
    show: Callable[[float], None],
) -> tuple[Measured, Objective]:
    """Return the job as it ran, and the objective, which a StreamApp has itself."""
    from weir_operator.estimate.prometheus import read_edges
    from weir_simulator.bill.job import derive_job

    if asked.connect is None and not _is_path(str(asked.source)):
        measured, own = _read_streamapp(asked)
        return measured, bound or own
    if bound is None:
        raise PermanentError(
            "--objective: expected the response time that the job must meet, got none; write, "
            "for example, --objective 500ms"
        )
    edges = None if asked.flink is None else asyncio.run(read_edges(asked.flink, job=asked.job))
    if asked.connect is not None:
        table, job, job_id = asyncio.run(_read_server(asked, asked.connect, show))
    else:
        table, job, job_id = _read_file(asked, show), asked.job, ""
    history = derive_job(table, job=job, job_id=job_id, edges=edges)
    return _measure(history, prices), bound


async def _read_server(
    asked: Asked, connect: Callable[[], PrometheusServer], show: Callable[[float], None]
) -> tuple[SlotTable, str, str]:
    """Return the slots of a job, its name and its id; see `read_history`."""
    from weir_operator.estimate.prometheus import read_history

    server = connect()
    try:
        return await read_history(
            server,
            asked.job,
            asked.labels,
            begin=asked.since or 0.0,
            end=asked.until or 0.0,
            slot=SLOT,
            on_read=show,
        )
    finally:
        await server.close()


def _measure(history: JobHistory, prices: float | tuple[NodeType, ...]) -> Measured:
    """Return the job as it ran, at these prices."""
    from weir_policies.model.node_types import NodeType
    from weir_simulator.bill.measured import measure_job

    if isinstance(prices, tuple):
        return measure_job(history, prices, task_manager=prices[0].price * history.slots_each)
    slot_price = prices / history.slots_each
    types = tuple(
        NodeType(name=f"{TODAY}/{size}", pool=TODAY, speedup=part, price=slot_price * part)
        for size, part in CORE_PARTS
    )
    return measure_job(history, types, task_manager=prices)


def _read_file(asked: Asked, show: Callable[[float], None]) -> SlotTable:
    """Return the series in Parquet or tables; without a time, of the last days in them."""
    from weir_cli.history import need_pyarrow

    need_pyarrow()
    from weir_pipelines.raw_series import read_parquet, read_tables
    from weir_simulator.bill.metrics import is_wanted
    from weir_simulator.bill.slots import SlotTable

    source = str(asked.source)
    if Path(source).is_file() or source.endswith(".parquet"):
        found = read_parquet(Path(source), is_wanted=is_wanted, on_read=show)
    else:
        found = list(read_tables(source, asked.job, on_read=show))
    series = [each for each in found if asked.labels.items() <= each.labels.items()]
    if not series:
        raise PermanentError(
            f"{source}: expected samples of Flink's vertices, got none; name another file, or "
            "correct --match"
        )
    end = asked.until or max(float(each.times[-1]) for each in series)
    first = min(float(each.times[0]) for each in series)
    begin = asked.since or max(end - asked.days * DAY, first)
    table = SlotTable(begin=begin, end=end, slot=SLOT, job=asked.job)
    for each in sorted(series, key=lambda each: float(each.times[0])):
        table.add(each.name, each.labels, each.times, each.values)
    return table


def _read_streamapp(asked: Asked) -> tuple[Measured, Objective]:
    from weir_operator.estimate.records import measure_streamapp
    from weir_simulator.experiment_files import load_experiment

    name = str(asked.source)
    records = find_records(asked.state, name)
    experiment = load_experiment(find_experiment(name, asked.state))
    measured = measure_streamapp(
        name, records, experiment, since=asked.since or 0.0, until=asked.until or math.inf
    )
    return measured, experiment.objective


def _simulate(measured: Measured, objective: Objective, policies: Sequence[str]) -> Bill:
    """Fit and simulate behind a progress bar on stderr."""
    from weir_simulator.bill.bill import make_bill
    from weir_simulator.bill.model import fit_job
    from weir_simulator.traces import write_trace

    with (
        tempfile.TemporaryDirectory(prefix="weir-estimate-") as folder,
        progress_bar(MofNCompleteColumn(), TimeRemainingColumn()) as progress,
    ):
        trace = Path(folder) / "trace.txt"
        task = progress.add_task("Fitting", total=None)
        fitted = fit_job(
            measured.samples,
            measured.structure,
            slot=measured.slot,
            objective=objective,
            trace=trace,
        )
        write_trace(trace, fitted.rates)
        progress.update(task, description="Simulating")

        def show(done: int, total: int) -> None:
            progress.update(task, completed=done, total=total)

        bill = make_bill(measured, fitted, policies=policies, on_finished=show)
        progress.update(task, description="Simulated")
    return bill


def _write_report(path: Path, bill: Bill) -> None:
    from weir_simulator.reports.bill import render_bill

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(render_bill(bill), encoding="utf-8")
    except OSError as error:
        raise PermanentError(
            f"--report: expected a file that can be written, got {error.strerror}; choose another"
        ) from error


def _manifest(measured: Measured, objective: Objective, policy: str) -> str:
    import yaml

    from weir_operator.estimate.manifest import describe_streamapp

    namespace, _, name = measured.name.rpartition("/")
    manifest = describe_streamapp(
        name,
        namespace=namespace or "default",
        bound=objective.response_time,
        statistic=objective.statistic.value,
        policy=policy,
        node_types=measured.structure.node_types,
        replicas={each.name: each.max_replicas for each in measured.structure.operators},
    )
    return yaml.safe_dump(manifest, sort_keys=False)


def _print(bill: Bill) -> None:
    from weir_simulator.reports import bill as words

    console = Console()
    console.print(words.describe_time(bill), style="bold", highlight=False)
    table = Table(box=None)
    for column, kind in words.COLUMNS.items():
        justify: Literal["left", "right"] = "right" if kind == "number" else "left"
        table.add_column(column.replace(" ", "\n"), justify=justify, no_wrap=True)
    for row in words.rows(bill, between="\n"):
        table.add_row(*row)
    console.print(table)
    for sentence in words.sentences(bill):
        typer.echo(sentence)


def _to_plain(bill: Bill) -> dict[str, object]:
    """Return the bill as plain JSON values; null where something is not known."""
    from weir_simulator.bill.bill import HOURS_A_MONTH, Range

    def number(value: float) -> float | None:
        return value if math.isfinite(value) else None

    def plain(each: Range) -> dict[str, float | None]:
        return {"value": number(each.value), "low": number(each.low), "high": number(each.high)}

    return {
        "job": bill.job,
        "objective": {"responseTime": bill.bound, "statistic": bill.statistic},
        "begin": bill.begin,
        "hours": bill.hours,
        "fitError": bill.error,
        "lines": [
            {
                "policy": each.name,
                "costPerHour": plain(each.cost),
                "costPerMonth": plain(Range(*(HOURS_A_MONTH * value for value in each.cost))),
                "overObjective": plain(each.over),
                "restartsPerDay": each.restarts,
                "peakTaskManagers": each.peak,
            }
            for each in bill.lines
        ],
        "refusals": dict(bill.refusals),
        "assumptions": [
            {
                "assumed": each.assumed,
                "otherwise": each.otherwise,
                "costPerHour": each.cost,
                "overObjective": each.over,
            }
            for each in bill.assumptions
        ],
        "objectives": [
            {"responseTime": each.bound, "costPerHour": each.cost, "overObjective": each.over}
            for each in bill.objectives
        ],
        "notes": list(bill.notes),
    }
