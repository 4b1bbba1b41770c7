"""The response time that Weir measures of jobs that know nothing of Weir, against the truth.

Each row of their output bears the time when its record was made and the time when a sink wrote it,
so the true response time of an interval is the mean over the rows that were written in it; of
several sinks that each get every record, the greatest. Sources report no backlog: what they cannot
give out is not made. An interval is settled if no change of the job touches it or the two before
it; a violation is to be seen in every one. `build/benchmarks/response-time` keeps the outcomes of
an interrupted run.
"""

from __future__ import annotations

import math
import os
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise, product
from pathlib import Path
from statistics import fmean
from types import MappingProxyType

import yaml

from benchmarks.figures import Figure, Row, at_least, at_most, no_records
from benchmarks.policies.live.weir_local import run_weir_local
from benchmarks.results import BUILD, load_outcomes, store_outcome
from tests.operator.flink.output import committed_lines
from weir_operator.flink.jars import JARS, REPOSITORY, build_jar
from weir_operator.loop.gather import WORKED_OFF
from weir_operator.loop.run_record import RecordedRun, TickRecord

ABOUT = "The response time that Weir measures of unmodified jobs, against the time in each row"
DURATION = "45 min"

FOLDER = BUILD / "response-time"
JOBS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "join": ("SQL: two streams joined, a function behind", ("joined",)),
    "calls": ("asynchronous calls in the source's chain, then work by key", ("called",)),
    "lookups": ("asynchronous calls in order behind a key, then work", ("found",)),
    "fan": ("one stream to a slow and a quick function", ("slow", "quick")),
}
"""What each does, and the folders of its sinks."""
POLICIES = ("queueing", "planner")
SECONDS, RISES, FALLS = 290, 100, 200
"""Of a run, and when the rate changes in it."""
LOW, HIGH, INTERVAL, BOUND = 80, 200, 10, 0.2
"""Two of records/s, two of seconds."""
MAX_REPLICAS = 9
"""In the pool; of the work, one less where the source has a replica of its own."""
NEAR, NEAR_SECONDS, GOAL = 0.1, 0.02, 95.0
"""Part of the truth, or seconds, by which a measurement may differ; in so many percent."""
UNFINISHED = 2 * HIGH
"""Last numbers that are not compared: they may wait in the savepoint."""
COUNTS = {
    "records": "records written",
    "wrong": "records lost or doubled",
    "settled": "settled intervals",
    "near": "of these, within 10 % or 20 ms of the truth",
    "false": "of these, within the bound, but called violations",
    "over": "intervals over the bound, by the rows",
    "unseen": "of these, not called violations",
    "restarts": "restarts",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """What came of one run."""

    job: str
    policy: str
    load: float
    """Processes that wanted the machine's processors, mean over the last five minutes."""
    counts: Mapping[str, int]
    """Of `COUNTS`."""


def run() -> list[Figure | Row]:
    """Make the runs that are missing; return the figures of all."""
    build_timed()  # before a trace begins
    for job, policy in product(JOBS, POLICIES):
        kept = FOLDER / "outcomes" / f"{job}-{policy}.json"
        if not kept.exists():
            store_outcome(kept, asdict(_run_job(job, policy)))
    outcomes = load_outcomes(FOLDER / "outcomes", Outcome)
    return [*figures_of(outcomes), *map(_row_of, outcomes)]


def _run_job(job: str, policy: str) -> Outcome:
    """Run a job under `weir local` from cold, and compare what it said with what came out."""
    _, sinks = JOBS[job]
    trace = (int(1000 * time.time()), RISES, FALLS, LOW, HIGH)
    manager = {"policy": {"name": policy}}
    told, rows = run_timed(
        FOLDER / f"{job}-{policy}", job, trace, sinks, seconds=SECONDS, manager=manager
    )
    load = round(os.getloadavg()[1], 1)
    return Outcome(job=job, policy=policy, load=load, counts=judge(told, rows))


def build_timed() -> Path:
    """Return the jar of `jobs/Timed.java`; it is built where it is missing or older."""
    source = REPOSITORY / "benchmarks/jobs/Timed.java"
    return build_jar([source], JARS / "timed.jar", entry_class="Timed")


def run_timed(
    folder: Path,
    job: str,
    trace: Sequence[int],
    sinks: Sequence[str],
    *,
    seconds: float,
    manager: Mapping[str, object] = MappingProxyType({}),
    flink: Mapping[str, object] = MappingProxyType({}),
) -> tuple[RecordedRun, Sequence[Sequence[Sequence[int]]]]:
    """Run a job of `jobs/Timed.java` by `weir local`; return what Weir said, and each sink's rows.

    A trace is when it begins (Unix ms), when its rate rises and falls (s), and both rates. `sinks`
    are the folders of its sinks, `manager` and `flink` more of `spec.operatorManager` and
    `spec.flink`.
    """
    shutil.rmtree(folder, ignore_errors=True)
    out, manifest = folder / "out", folder / "app.yaml"
    out.mkdir(parents=True)
    spec = {
        "flink": {
            "job": {"jar": str(build_timed()), "args": [job, str(out), *map(str, trace)]},
            "config": {"env.java.opts.all": "-XX:TieredStopAtLevel=1"},  # short-lived JVMs
            **flink,
        },
        "objective": {"responseTime": f"{1000 * BOUND:g}ms"},
        "nodePools": [
            {"name": "local", "sizes": ["1"], "memory": "900Mi", "maxReplicas": MAX_REPLICAS}
        ],
        "operatorManager": {"interval": f"{INTERVAL}s", **manager},
        "applicationManager": {"restartBudget": {"size": 20, "refillEvery": "1m"}},
    }
    head = {"apiVersion": "weir.dev/v1alpha1", "kind": "StreamApp", "metadata": {"name": job}}
    manifest.write_text(yaml.safe_dump({**head, "spec": spec}))
    told = run_weir_local(manifest, seconds=seconds, state=folder / "state")
    rows = [
        [[*map(int, line.split(","))] for line in committed_lines(out / name)] for name in sinks
    ]
    return told, rows


def judge(told: RecordedRun, sinks: Sequence[Sequence[Sequence[int]]]) -> Mapping[str, int]:
    """Compare each interval with the rows that were written in it; return `COUNTS`.

    A row is the record's number, when it was made, and when the row was written, Unix ms.
    """
    counts = dict.fromkeys(COUNTS, 0) | {"restarts": told.ticks[-1].restarts}
    for rows in sinks:
        counts["records"] += len(rows)
        counts["wrong"] += count_wrong([number for number, _, _ in rows])
    for before, tick in pairwise(told.ticks):
        written = [
            [(at - made) / 1000 for _, made, at in rows if before.time < at / 1000 <= tick.time]
            for rows in sinks
        ]
        if not any(written):
            continue
        true = max(map(fmean, filter(None, written)))
        counts["over"] += true > BOUND
        counts["unseen"] += true > BOUND and not tick.violated
        if is_settled(tick, told):
            error = abs(tick.response_time.mean - true)  # NaN is not near
            counts["settled"] += 1
            counts["near"] += error <= max(NEAR * true, NEAR_SECONDS)
            counts["false"] += bool(tick.violated) and true <= BOUND
    return counts


def is_settled(tick: TickRecord, told: RecordedRun) -> bool:
    """Return whether no change of the job touches an interval or the two before it."""
    since = tick.time - (1 + WORKED_OFF) * INTERVAL
    changes = [(each.started, each.finished or math.inf) for each in told.rescales]
    return told.ticks[0].time <= since and not any(
        begun <= tick.time and ended >= since for begun, ended in changes
    )


def count_wrong(numbers: Sequence[int]) -> int:
    """Count records that are missing or there twice, up to those that may be in the savepoint."""
    found = set(numbers)
    missing = set(range(max(found, default=0) - UNFINISHED)) - found
    return len(missing) + len(numbers) - len(found)


def figures_of(outcomes: Sequence[Outcome]) -> list[Figure]:
    total = {name: sum(each.counts[name] for each in outcomes) for name in COUNTS}
    share = 100 * total["near"] / total["settled"] if total["settled"] else None
    load = max((each.load for each in outcomes), default=None)
    return [
        at_least("settled intervals that are near", share, GOAL, "%"),
        at_most("violations not seen", total["unseen"], 0),
        no_records(COUNTS["wrong"], total["wrong"]),
        *(
            Figure(figure, total[name])
            for name, figure in COUNTS.items()
            if name not in ("wrong", "near", "unseen")
        ),
        Figure("load average beside the runs, at most", load),
    ]


def _row_of(outcome: Outcome) -> Row:
    counts = outcome.counts
    return Row(
        "Settled intervals near the truth",
        f"{outcome.job}, {outcome.policy}",
        JOBS[outcome.job][0],
        f"{counts['near']} of {counts['settled']}; {counts['over']} over the bound, "
        f"{counts['unseen']} unseen, {counts['false']} false; {counts['restarts']} restarts; "
        f"load {outcome.load:g}",
        beside_what="job",
    )
