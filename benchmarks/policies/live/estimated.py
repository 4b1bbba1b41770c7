"""An estimate against what came: `weir estimate` of one stretch, then Weir on the next one.

Flink's own autoscaler scales a job of the match (`jobs.py`) through the first stretch, and a real
Prometheus scrapes it. `weir estimate` says from that what the default policy would cost, and how
often it would be over the bound. Then `weir local` runs the job through the stretch that follows,
from cold, without settings.

Time passes `FASTER` times faster than in the traces, but `weir estimate` decides once a minute. So
its history is slowed down: times, counters of time, and the bound are `FASTER` times what they
were. Vertices are as busy as they were, and a restart takes `FASTER` times as long.

Costs are those of TaskManagers. A call runs the pairs of a job and a trace that are missing, at
most `LIVE_PAIRS` of them. `benchmarks/results/live-estimate` keeps the runs of one policy.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import islice, product
from pathlib import Path

import numpy as np
import yaml
from pydantic import TypeAdapter

from benchmarks.figures import Figure, at_least, at_most
from benchmarks.flink.flink_autoscaler import build_autoscaler
from benchmarks.policies.live.jobs import (
    APPS,
    FASTER,
    INTERVAL,
    MEMORY,
    MEMORY_PRICE,
    POOL,
    PRICE,
    SIZE,
    TRACES,
    App,
    count_slots,
    make_rates,
)
from benchmarks.policies.live.processors import account
from benchmarks.policies.live.series import max_pairs, require_one_policy, run_on_a_quiet_machine
from benchmarks.policies.live.sides import (
    Samples,
    judge_run,
    prepare,
    run_in_place,
    run_weir,
    start_of,
)
from benchmarks.policies.made_up_job import BEGIN, MadeUpSeries, serving, write_blocks
from benchmarks.results import (
    BUILD,
    begin,
    load_outcomes,
    measured_trees,
    store_outcome,
)
from benchmarks.results import FOLDER as RESULTS
from weir_operator.cluster.process.process import compile_default_policy
from weir_operator.errors import TemporaryError
from weir_operator.flink.configuration import PROMETHEUS_REPORTER
from weir_operator.flink.jars import build_example
from weir_operator.limits import Json
from weir_operator.runtime.processes.processes import LOOPBACK, free_ports
from weir_operator.streamapp.quantities import Duration
from weir_simulator.bill.metrics import is_wanted
from weir_simulator.traces import Trace

FIRST, NEXT = 900, 300
"""Seconds of the stretch that is estimated from, and of the one that follows."""
SCRAPED_EVERY = 30.0
"""Seconds of the trace between two scrapes."""
TASK_MANAGER = PRICE * float(SIZE) + MEMORY_PRICE * MEMORY / 1024
"""Currency per hour."""
COST_WITHIN = 0.1
"""Goal: by how much an estimated cost may differ, as a share of the live one."""
MAX_MEAN_ERROR = 2.0
"""Goal: mean error of the share over the bound, percentage points."""
MAX_UNDERESTIMATE = 0.2
"""Goal: by how much an estimated cost may be too low, as a share of the live one."""
PAIRS_PER_MISS = 9
"""Goal: one pair in so many may miss."""
KEPT = RESULTS / "live-estimate"
WANTED = "flink_taskmanager_job_.*(numRecords|Time|pendingRecords|latency).*"
"""Names of metrics that an estimate may read."""

_LINE = re.compile(r'^\{__name__="(?P<name>[^"]+)", (?P<labels>.*)\} (?P<value>\S+) (?P<time>\d+)$')
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True, kw_only=True, slots=True)
class Estimate:
    """What a bill says of one way of scaling."""

    cost: float
    """Currency per hour."""
    over: float
    """Share of the time over the bound, in [0, 1]."""
    over_low: float
    over_high: float
    """The ends of its range."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """What came of a run."""

    cost: float
    """Currency per hour."""
    over: float
    """Share of the intervals over the bound, in [0, 1]."""
    restarts: int


@dataclass(frozen=True, kw_only=True, slots=True)
class EstimateOutcome:
    """What came of a pair."""

    job: str
    trace: str
    date: str
    commit: str | None
    trees: Mapping[str, str]
    """Git's, of the code that ran."""
    load: float
    """Processes that wanted the processors, mean over the last five minutes."""
    used: float
    """Share of the processors' time that both runs and the estimate used."""
    others: float
    """That of other processes meanwhile."""
    first: Run
    """Under Flink's autoscaler."""
    first_estimated: Estimate
    """The same as it was, by the bill."""
    estimated: Estimate
    """By the default policy."""
    live: Run
    """Under Weir, on the stretch that followed."""

    @property
    def pair(self) -> tuple[str, str]:
        return self.job, self.trace


def run() -> list[Figure]:
    """Make the pairs that are missing; return the figures of all."""
    kept = load_outcomes(KEPT, read_outcome)
    require_one_policy(kept)
    done = {each.pair for each in kept}
    missing = (pair for pair in product(APPS, TRACES) if pair not in done)
    chosen = list(islice(missing, max_pairs()))
    autoscaler = build_autoscaler()
    compile_default_policy()  # as a controller that is installed has
    for app in APPS.values():
        build_example(app.example)
    for job, trace in chosen:
        outcome = run_on_a_quiet_machine(partial(run_pair, APPS[job], trace, autoscaler))
        store_outcome(KEPT / f"{job}-{trace}.json", asdict(outcome))
    return list(figures_of(load_outcomes(KEPT, read_outcome)))


def read_outcome(**fields: object) -> EstimateOutcome:
    """Return an outcome of its fields in JSON."""
    return TypeAdapter(EstimateOutcome).validate_python(fields)


def run_pair(
    app: App, trace: str, autoscaler: Path, *, first: int = FIRST, following: int = NEXT
) -> EstimateOutcome:
    """Estimate from one stretch, and run Weir through the next; both in seconds."""
    folder = BUILD / "live-estimate" / f"{app.name}-{trace}"
    shutil.rmtree(folder, ignore_errors=True)
    rates = make_rates(trace, (first + following) // INTERVAL)
    begun = begin()
    with account() as use:
        first_run, series = _observe(
            app, rates[: first // INTERVAL], folder / "first", autoscaler, seconds=first
        )
        bill = _estimate(app, series, folder, seconds=first)
        live = _run_weir(app, rates[first // INTERVAL :], folder / "next", seconds=following)
        load, used = os.getloadavg()[1], use()
    was, policy = bill
    return EstimateOutcome(
        job=app.name,
        trace=trace,
        date=begun.date,
        commit=begun.commit,
        trees=measured_trees("policies", "simulator", "operator", "java"),
        load=round(load, 2),
        used=round(used.run, 4),
        others=round(used.others, 4),
        first=first_run,
        first_estimated=was,
        estimated=policy,
        live=live,
    )


def _observe(
    app: App, rates: Trace, folder: Path, autoscaler: Path, *, seconds: int
) -> tuple[Run, list[MadeUpSeries]]:
    """Run the job under Flink's autoscaler; return what came, and what Prometheus has of it."""
    arguments = prepare(app, rates, folder, seed=1)
    ports = free_ports(count_slots(app) + 1)  # and the JobManager
    listed = ",".join(map(str, ports))
    reporter = {
        "metrics.reporter.prom.factory.class": PROMETHEUS_REPORTER,
        "metrics.reporter.prom.port": listed,
    }
    server = folder / "prometheus"
    server.mkdir()
    scrape = {
        "global": {"scrape_interval": f"{round(1000 * SCRAPED_EVERY / FASTER)}ms"},
        "scrape_configs": [
            {
                "job_name": "flink",
                "scrape_timeout": "2s",
                "static_configs": [{"targets": [f"{LOOPBACK}:{port}" for port in ports]}],
            }
        ],
    }
    with serving(server, configuration=yaml.safe_dump(scrape)):
        samples = asyncio.run(
            run_in_place(
                app, arguments, folder, seconds=seconds, autoscaler=autoscaler, more=reporter
            )
        )
    start = start_of(app, folder)
    command = [
        "promtool",
        "tsdb",
        "dump",
        "--match",
        f'{{__name__=~"{WANTED}"}}',
        str(server / "tsdb"),
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as dump:
        series = list(slow_down(dump.stdout or (), start=start))
    if dump.returncode or not series:
        raise TemporaryError(
            f"Expected metrics of {app.name} in Prometheus, got none: see {folder}"
        )
    return _sum_up(app, folder, samples, seconds=seconds), series


def _run_weir(app: App, rates: Trace, folder: Path, *, seconds: int) -> Run:
    arguments = prepare(app, rates, folder, seed=2)
    samples = run_weir(app, arguments, folder, seconds=seconds)
    return _sum_up(app, folder, samples, seconds=seconds)


def _sum_up(app: App, folder: Path, samples: Samples, *, seconds: int) -> Run:
    found = judge_run(app, folder, samples, seconds=seconds)
    return Run(
        cost=TASK_MANAGER * statistics.fmean(found.replicas),
        over=statistics.fmean(found.judged.late),
        restarts=found.restarts,
    )


def slow_down(lines: Iterable[str], *, start: float) -> Iterator[MadeUpSeries]:
    """Yield a job's samples, as promtool dumps them, as if time had passed as in the trace.

    Args:
        lines: Of the dump, each a sample.
        start: Unix seconds of the job's first record, which becomes `BEGIN`.
    """
    found: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
    for line in lines:
        sample = _LINE.match(line)
        if sample is None or not is_wanted(sample["name"]) or sample["name"].endswith("PerSecond"):
            continue  # averages per second stand in for counters, and these are there
        time, value = int(sample["time"]) / 1000, float(sample["value"])
        if time >= start and np.isfinite(value):
            # Counters of milliseconds and latencies grow with time; counts of records do not.
            grows = sample["name"].endswith(("TimeMs", "_latency"))
            found[sample["name"], sample["labels"]].append(
                (BEGIN + FASTER * (time - start), value * (FASTER if grows else 1.0))
            )
    for (name, labels), samples in found.items():
        times, values = np.array(sorted(samples)).T
        yield MadeUpSeries(
            name=name, labels=dict(_LABEL.findall(labels)), times=times, values=values
        )


def _estimate(
    app: App, series: Sequence[MadeUpSeries], folder: Path, *, seconds: int
) -> tuple[Estimate, Estimate]:
    """Return what `weir estimate` says of the stretch as it was, and by the default policy."""
    slowed = folder / "slowed"
    slowed.mkdir()
    write_blocks(series, slowed)
    prices = slowed / "prices.yaml"
    kind = {"name": f"{POOL}/{SIZE}", "speedup": 1.0, "price": TASK_MANAGER}
    prices.write_text(yaml.safe_dump({"nodeTypes": [kind]}))
    bound = FASTER * Duration(app.bound).seconds
    with serving(slowed) as url:
        done = subprocess.run(
            [
                *(sys.executable, "-m", "weir_cli.main", "estimate", "--prometheus", url),
                *("--objective", f"{bound:g}s", "--price", str(prices), "--json"),
                *("--start", _format_time(BEGIN), "--end", _format_time(BEGIN + FASTER * seconds)),
            ],
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        )
    (folder / "bill.json").write_text(done.stdout)
    bill = json.loads(done.stdout)
    if bill["refusals"]:
        raise TemporaryError(f"Expected an estimate of {app.name}, got {bill['refusals']}")
    was, policy = map(_read_line, bill["lines"])
    return was, policy


def _read_line(line: Json) -> Estimate:
    over = line["overObjective"]
    return Estimate(
        cost=float(line["costPerHour"]["value"]),
        over=float(over["value"]),
        over_low=float(over["low"]),
        over_high=float(over["high"]),
    )


def _format_time(time: float) -> str:
    return f"{datetime.fromtimestamp(time, UTC):%Y-%m-%dT%H:%M:%S}"


def figures_of(outcomes: Sequence[EstimateOutcome]) -> Iterator[Figure]:
    """Yield the goals over all pairs, then the pairs."""
    if not outcomes:
        return
    pairs = len(outcomes)
    min_pairs = pairs - pairs // PAIRS_PER_MISS
    costs = [each.estimated.cost / each.live.cost - 1 for each in outcomes]
    errors = [100 * abs(each.estimated.over - each.live.over) for each in outcomes]
    yield at_least(
        f"estimated cost within {COST_WITHIN:.0%} of the live one",
        sum(abs(each) <= COST_WITHIN for each in costs),
        min_pairs,
        f"of {pairs}",
    )
    yield at_least(
        "live share over the bound within the estimate's range",
        sum(
            each.estimated.over_low <= each.live.over <= each.estimated.over_high
            for each in outcomes
        ),
        min_pairs,
        f"of {pairs}",
    )
    yield at_most(
        "error of the share over the bound, mean",
        statistics.fmean(errors),
        MAX_MEAN_ERROR,
        "points",
    )
    yield at_most(
        "estimated cost too low, most",
        max(0.0, -100 * min(costs)),
        100 * MAX_UNDERESTIMATE,
        "%",
    )
    was = [100 * abs(each.first_estimated.over - each.first.over) for each in outcomes]
    yield Figure(
        "as it was: error of the share over the bound, mean", statistics.fmean(was), "points"
    )
    for each, cost in zip(outcomes, costs, strict=True):
        name = f"{each.job}, {each.trace}"
        yield Figure(f"{name}: estimated cost more than the live one", 100 * cost, "%")
        yield Figure(f"{name}: over the bound, estimated", 100 * each.estimated.over, "%")
        yield Figure(f"{name}: over the bound, live", 100 * each.live.over, "%")
