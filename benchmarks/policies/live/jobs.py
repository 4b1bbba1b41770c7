"""The jobs and traces of the match, and how either side is set up for them.

Three jobs and three traces are those of the judged pairs. Two other jobs and three other traces are
for developing, and are never reported: whoever changes a policy looks at these alone.

Time passes `FASTER` times faster than in the traces, for both sides alike: every period that Weir's
manifest or Flink's autoscaler has by default is as much shorter, and neither has any other setting.
What a restart takes does not pass faster, for either.

Both sides have one node pool of one size. Source and sink stay at one replica: the trace has one
split. Service times are CPU: what takes a core of speed 1 90 ms takes `quotas.CORE` of that of the
machine's own, and the quotas make it slow again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from benchmarks.flink.flink_autoscaler import adaptive_scheduler
from benchmarks.policies.live.quotas import CORE
from weir_operator.flink.configuration import RECOMMENDED
from weir_operator.flink.jars import JARS, REPOSITORY
from weir_operator.streamapp.flink import JobManager
from weir_operator.streamapp.managers import ApplicationManager, Fallback, OperatorManager
from weir_operator.streamapp.quantities import Cpu, Duration
from weir_simulator.traces import Trace, TraceKind, as_trace, cut, read_trace, synthesise

SHARED = REPOSITORY.parent / "shared" / "traces"
PUBLISHED: Mapping[str, tuple[TraceKind, int]] = {
    "taxi": (TraceKind.TAXI, 14_340),
    "tweets": (TraceKind.TWEETS, 60_480),
    "taxi-morning": (TraceKind.TAXI, 11_850),
    "tweets-morning": (TraceKind.TWEETS, 30_600),
}
"""A published trace and the line of it from which on runs are compared: late evening, a day of
bursts; two mornings for developing."""
MEMORY_PRICE = 0.0044
"""Currency per GiB and hour: a ninth of a CPU's, as container services charge."""
INTERVAL = 5
"""Seconds of a control interval of Weir's, and of an interval that is judged."""
FASTER = OperatorManager().interval.seconds / INTERVAL
"""How many times faster time passes: 12. A minute takes 5 s."""
MINUTES = 5
"""Of a published trace that are one point of ours, with straight lines between the points: what
varies from minute to minute beyond a Poisson process is gone in 5 s."""
MIN_RATE = 0.08
"""Of a rate, as a share of the peak: so many records are due in every interval that is judged."""
ENDS = ("source", "sink")
MAX_REPLICAS = 4
"""Of an operator that is scaled: what the peak needs at the usual 70 % of a core."""
POOL, SIZE = "std", "1"
PRICE = 0.04
"""Currency per CPU and hour."""
FETCHED_EVERY = 10.0
"""Flink's default of the time between two fetches of what its REST interface shows, seconds."""
MEMORY = 1024
"""MiB of a TaskManager and of the JobManager."""
MANAGED = 128
"""MiB of a TaskManager that a job with RocksDB gets for it."""
MAX_PARALLELISM = 720
"""Key groups: many divisors, of which the autoscaler takes one as parallelism behind keys."""
JVM = "-XX:TieredStopAtLevel=1"
"""Replicas that run for minutes: with the first compiler alone they start quickly."""


@dataclass(frozen=True, kw_only=True, slots=True)
class App:
    """A job, and how it is run for the comparison."""

    name: str
    example: str
    """Whose jar it is."""
    entry_class: str
    work: Mapping[str, float]
    """Seconds of a core of speed 1 per record of the source, by scaled operator."""
    arguments: tuple[str, ...]
    most: int
    """Records/s at the peak of a trace."""
    bound: str
    managed: tuple[str, ...]
    """Operators that have managed memory."""
    config: Mapping[str, str]
    ledger: bool
    """Whether the job keeps one, by which lost and doubled records are counted."""


_TRIPS = App(
    name="trips",
    example="trips",
    entry_class="example.Trips",
    work={"match": 0.090, "aggregate": 0.060},
    arguments=(
        *("--service.match-ms", f"{90 * CORE:g}"),
        *("--service.aggregate-ms", f"{60 * CORE:g}"),
    ),
    most=24,
    bound="1500ms",
    managed=(),
    config={},
    ledger=True,
)
APPS: Mapping[str, App] = MappingProxyType(
    {
        "trips": _TRIPS,
        "hotitems": App(
            name="hotitems",
            example="hotitems",
            entry_class="example.HotItems",
            work={"bid": 0.090, "count": 0.060},
            # A bid is counted in five windows.
            arguments=(
                *("--service.bid-ms", f"{90 * CORE:g}"),
                *("--service.count-ms", f"{60 * CORE / 5:g}"),
            ),
            most=24,
            bound="2s",
            managed=("count", "sink"),
            config={"state.backend.type": "rocksdb"},
            ledger=False,
        ),
        # An external service that answers after 90 ms on average: its caller waits, and burns
        # nothing. `aggregate` still does.
        "calls": replace(
            _TRIPS,
            name="calls",
            arguments=(
                *("--work.match", "wait", "--service.match-ms", "90"),
                *("--service.aggregate-ms", f"{60 * CORE:g}"),
            ),
        ),
    }
)
# Their second operator is the slow one, and the bounds are others.
_LATE: Mapping[str, Any] = {"work": {"match": 0.050, "aggregate": 0.120}, "most": 22}
DEVELOPMENT: Mapping[str, App] = MappingProxyType(
    {
        "fares": replace(
            _TRIPS,
            name="fares",
            arguments=(
                *("--service.match-ms", f"{50 * CORE:g}"),
                *("--service.aggregate-ms", f"{120 * CORE:g}", "--scv.aggregate", "1.0"),
            ),
            bound="1200ms",
            **_LATE,
        ),
        "lookups": replace(
            _TRIPS,
            name="lookups",
            arguments=(
                *("--service.match-ms", f"{50 * CORE:g}"),
                *("--work.aggregate", "wait", "--service.aggregate-ms", "120"),
            ),
            bound="2s",
            **_LATE,
        ),
    }
)
CROWD, STEPS = "crowd", "steps"
TRACES = ("taxi", "tweets", CROWD)
DEVELOPMENT_TRACES = ("taxi-morning", "tweets-morning", STEPS)


def count_slots(app: App) -> int:
    """Return how many TaskManagers, of one slot each, run the job at its widest."""
    return MAX_REPLICAS * len(app.work) + len(ENDS)


def make_rates(kind: str, lines: int) -> Trace:
    """Return rates as shares of the peak; a line, `INTERVAL` long, is a minute of the trace."""
    line = np.arange(lines)
    if kind == CROWD:
        rates = 0.3 + 0.12 * np.sin(2 * np.pi * line / lines)
        since = line - lines // 2
        rates *= 1 + np.where(since >= 0, np.exp(-np.maximum(since, 0) / 12), 0.0)
        rates *= np.where(line >= lines * 3 // 4, 0.5, 1.0)
    elif kind == STEPS:
        rates = np.array([0.25, 0.5, 1.0, 0.5, 0.25, 0.6])[6 * line // lines]
    else:
        published, begin = PUBLISHED[kind]
        points = lines // MINUTES + 2
        file, minutes = SHARED / f"{published}.txt", points * MINUTES
        if file.exists():
            whole = read_trace(file)
        else:
            whole = synthesise(published, slots=begin + minutes, rng=np.random.default_rng(5))
        means = cut(whole, start=begin, slots=minutes).reshape(points, MINUTES).mean(axis=1)
        rates = np.interp(line, MINUTES * np.arange(points), means)
    return as_trace(np.maximum(rates / rates.max(), MIN_RATE))


def job_arguments(app: App, *, trace: Path, out: Path, seed: int) -> list[str]:
    """Return the program's arguments, equal for both sides."""
    return [
        *("--trace", str(trace), "--scale", str(app.most), "--slot-seconds", str(INTERVAL)),
        *("--seed", str(seed), "--out", str(out), "--work", "limited"),
        *app.arguments,
    ]


def describe(app: App, *, arguments: list[str]) -> dict[str, Any]:
    """Return the StreamApp: what a user must say, and shorter periods."""
    node_type = f"{POOL}/{SIZE}"
    operators: list[dict[str, Any]] = [
        {"name": "source", "maxReplicas": 1, "fixed": {node_type: 1}},
        *({"name": name, "maxReplicas": MAX_REPLICAS} for name in app.work),
        {"name": "sink", "maxReplicas": 1, "fixed": {node_type: 1}},
    ]
    for operator in operators:
        if operator["name"] in app.managed:
            operator["managedMemory"] = f"{MANAGED}Mi"
    flink = {
        "job": {
            "jar": str(JARS / f"{app.example}.jar"),
            "entryClass": app.entry_class,
            "args": arguments,
        },
        "maxParallelism": MAX_PARALLELISM,
        "config": {"env.java.opts.all": JVM, **app.config},
    }
    return _describe(app, flink=flink, operators=operators)


def describe_in_place(app: App, names: Sequence[str]) -> dict[str, Any]:
    """Return the StreamApp of the same job where a FlinkDeployment runs it.

    Args:
        app: The job.
        names: Of its vertices, as Weir writes them.
    """
    most = [MAX_REPLICAS if each in app.work else 1 for each in names]
    return _describe(
        app,
        flink={"ref": {"kind": "FlinkDeployment", "name": app.name}},
        operators=[
            {"name": name, "maxReplicas": count} for name, count in zip(names, most, strict=True)
        ],
    )


def _describe(
    app: App, *, flink: Mapping[str, Any], operators: list[dict[str, Any]]
) -> dict[str, Any]:
    manager = ApplicationManager()
    return {
        "apiVersion": "weir.dev/v1alpha1",
        "kind": "StreamApp",
        "metadata": {"name": app.name},
        "spec": {
            "flink": dict(flink),
            "objective": {"responseTime": app.bound, "catchUp": _shorter("5m")},
            "nodePools": [
                {"name": POOL, "sizes": [SIZE], "memory": f"{MEMORY}Mi", "price": str(PRICE)}
            ],
            "operators": operators,
            "operatorManager": {"interval": _shorter(OperatorManager().interval.text)},
            "applicationManager": {
                "interval": _shorter(manager.interval.text),
                "restartBudget": {
                    "refillEvery": _shorter(manager.restart_budget.refill_every.text)
                },
            },
            "fallback": {"after": _shorter(Fallback().after.text)},
        },
    }


def _shorter(duration: str) -> str:
    return f"{Duration(duration).seconds / FASTER:g}s"


def flink_configuration(app: App, folder: Path) -> dict[str, str]:
    """Return the keys of the Flink on which a job is scaled in place, by either side."""
    return {
        **RECOMMENDED,
        "metrics.fetcher.update-interval": f"{round(1000 * FETCHED_EVERY / FASTER)}",
        **adaptive_scheduler(FASTER),
        "pipeline.max-parallelism": str(MAX_PARALLELISM),
        "taskmanager.memory.managed.size": f"{MANAGED if app.managed else 0}m",
        "execution.checkpointing.dir": (folder / "checkpoints").as_uri(),
        "execution.checkpointing.savepoint-dir": (folder / "savepoints").as_uri(),
        # As Weir's replicas: a replica of one core sizes itself for one.
        "env.java.opts.all": JVM,
        "env.java.opts.taskmanager": "-XX:ActiveProcessorCount=1",
        **app.config,
    }


def autoscaler_settings(not_scaled: list[str]) -> dict[str, str]:
    """Return what a user of the autoscaler must say; the rest is its default."""
    return {
        "job.autoscaler.enabled": "true",
        "job.autoscaler.vertex.max-parallelism": str(MAX_REPLICAS),
        "job.autoscaler.vertex.exclude.ids": ";".join(not_scaled),
    }


def price_of(replicas: float) -> float:
    """Return the currency per hour of what is requested: CPU and memory, JobManager included."""
    cores = replicas * Cpu(SIZE).cores + JobManager().cpu.cores
    return PRICE * cores + MEMORY_PRICE * MEMORY / 1024 * (replicas + 1)
