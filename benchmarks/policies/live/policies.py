"""Policies of the papers once on real Flink, on the same arrivals, beside `planner`.

The job is `trips` with the service times, the peak and the bound of `live`. A record waits for its
service time, which takes no CPU, so that the JVMs that a change starts have the machine. There are
two node types, `small/1` (speed 1) and `large/1` (speed 1.6, a quarter dearer), and up to
`MAX_REPLICAS` replicas of each operator. A line of the trace is a quarter of an hour of made-up
taxi traffic and lasts `INTERVAL`; all policies decide once a line. The policies are compared on
`LINES` of them, from eleven in the evening to eight in the morning: the rate falls to a tenth and
rises again. All begin with one replica of `small/1`, which is too little for the first lines.

First, `planner` runs the job on the eighteen hours before, begun with enough for their peak. It
begins its run among the others with what it has learned then. Policies that learn by trying begin
trained, as Weir does it for a user who chooses such a policy for a job that it has measured: the
job runs with the policy, Weir fits a simulator to what it has measured, trains the policy there for
as long as it always does, and hands it the job (event `PolicyTrained`). That ends this run; the one
that counts begins with what was learned. The others begin with nothing.

A run is judged by the records at a plain sink (`judging.py`): an interval holds the records that
were due in it, also while the job is changed. Cost is per hour, of the CPU and memory that is
requested, JobManager included, as in `live`. Lost and doubled records are by the job's own ledger.
Nothing is tuned: all decide with Weir's default weights. There is one run of each policy, so
the table says what happened, and differences of a few percent are chance.
"""

from __future__ import annotations

import os
import shutil
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from benchmarks.figures import Figure, at_least, at_most, no_records
from benchmarks.flink.ledger import read_arrivals, read_start
from benchmarks.policies.live.jobs import APPS, MEMORY_PRICE
from benchmarks.policies.live.judging import judge
from benchmarks.policies.live.weir_local import run_weir_local
from benchmarks.registry import BenchmarkError
from benchmarks.results import BUILD
from weir_operator.flink.jars import JARS, REPOSITORY, build_example
from weir_operator.loop.record import RECORDS, RecordStore
from weir_operator.loop.run_record import RecordedRun, TickRecord
from weir_operator.streamapp import world
from weir_operator.streamapp.loading import load_manifest
from weir_operator.streamapp.models import StreamApp
from weir_operator.wiring.assembly import operator_managers
from weir_policies import registry
from weir_simulator.traces import Trace, TraceKind, compress, synthesise, write_trace

FOLDER = BUILD / "live-policies"
LEARNED = "learned.json"
PLANNER = "planner"
POLICIES = (
    PLANNER,
    "ql",
    "ql-pds",
    "ql-pds-plus",
    "ql-fa",
    "dqn-pds-plus",
    "full-backup",
    "drs-cheapest",
    "lohrmann-cheapest",
    "heinze-cheapest",
)
"""`planner`, which the others are compared with, and one of each kind in the papers."""
TRAFFIC_SEED = 5
QUARTER = 15
"""Minutes of the traffic that a line of the trace stands for."""
INTERVAL = 5
"""Seconds that a line lasts, and between two decisions."""
BEGIN = 4 * (24 + 23)
"""Line of the week from which policies are compared: eleven in the evening of the second day."""
LINES = 36
KNOWN_LINES = 72
"""Eighteen hours before: twice as many as a fit needs, because changes spoil some."""
AFTERWARDS = 10
"""Seconds after the last line that is judged, in which its records may still come out."""
APP = APPS["trips"]
MAX_REPLICAS = 4
"""Of an operator: twice what the peak needs of `large/1`."""
ENOUGH: Mapping[str, int] = {"large/1": 3}
"""Replicas of each operator that is scaled, for the peak of all hours."""
TOO_LITTLE: Mapping[str, int] = {"small/1": 1}
"""The same, so that all policies have to act."""
MAX_RESTARTS = 500
"""Per day. A limit with which Weir waits for a longer trace before it tunes."""
REFIT = "4m"
"""Until a fit that was bad is tried again. What is compared ends before the first."""
TRAINING = 900
"""Seconds after which a policy should have been trained."""
SEED = 1
"""Of arrivals and service times."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PolicyOutcome:
    """What came of a policy's run."""

    policy: str
    cost: float
    """Currency per hour of the CPU and memory requested, JobManager included; mean."""
    violations: float
    """Share of the intervals, in [0, 1]."""
    restarts: int
    changes: int
    """Changes that were carried out."""
    decisions: int
    """That the policy took itself, one for an operator and interval."""
    in_its_place: int
    """Those that another policy took in its place: none, if it was trained before."""
    wrong: int | None
    """Records lost or doubled by the job's ledger; `None` where the job did not stop in order."""
    load: float
    """Processes that wanted the machine's processors, mean over the last five minutes."""


def run() -> list[Figure]:
    """Run the hours before, then every policy."""
    build_example("trips")
    known, rates = make_rates()
    measured = FOLDER / "hours-before"
    run_rates(PLANNER, known, initial=ENOUGH, seconds=KNOWN_LINES * INTERVAL, folder=measured)
    return list(figures_of([run_policy(each, known, rates, measured) for each in POLICIES]))


def run_policy(policy: str, known: Trace, rates: Trace, measured: Path) -> PolicyOutcome:
    """Run a policy on the rates; `measured` is the folder of the run on those before."""
    learned = None
    if policy == PLANNER:
        learned = state_of(measured)
    elif registry.find(policy).learns_by_trying:
        learned = train(policy, known, measured)
    folder = FOLDER / "runs" / policy
    done = run_rates(
        policy,
        rates,
        initial=TOO_LITTLE,
        seconds=LINES * INTERVAL + AFTERWARDS,
        folder=folder,
        learned=None if learned is None else learned / LEARNED,
    )
    return outcome_of(policy, done, folder)


def train(policy: str, known: Trace, measured: Path) -> Path:
    """Let Weir train a policy on what was measured; return the folder of its state."""
    folder = FOLDER / "trained" / policy
    done = run_rates(
        policy,
        known[-1:],
        initial=ENOUGH,
        seconds=TRAINING,
        folder=folder,
        measured=state_of(measured) / RECORDS,
        until="PolicyTrained",
    )
    if not any(event.message.startswith("PolicyTrained:") for event in done.events):
        raise BenchmarkError(
            f"Expected {policy} to be trained within {TRAINING} s, got no PolicyTrained: see the "
            f"events in the report in {folder}, and run it again beside less"
        )
    return state_of(folder)


def run_rates(
    policy: str,
    rates: Trace,
    *,
    initial: Mapping[str, int],
    seconds: float,
    folder: Path,
    learned: Path | None = None,
    measured: Path | None = None,
    until: str | None = None,
) -> RecordedRun:
    """Run the job on rates; everything of it goes to `folder`."""
    shutil.rmtree(folder, ignore_errors=True)
    state, out = state_of(folder), folder / "out"
    state.mkdir(parents=True)
    write_trace(folder / "trace.txt", rates)
    manifest = folder / "streamapp.yaml"
    manifest.write_text(yaml.safe_dump(describe(policy, folder, initial), sort_keys=False))
    if learned is not None:
        shutil.copy2(learned, state / LEARNED)
    if measured is not None:
        copy_intervals(measured, state / RECORDS, end=time.time())
    # As a controller has that did not start just now: else the job would run alone meanwhile.
    operator_managers(load_manifest(manifest), trained_first=True).compile()
    return run_weir_local(manifest, seconds=seconds, state=state.parent, ledger=out, until=until)


def copy_intervals(measured: Path, records: Path, *, end: float) -> None:
    """Write the intervals of some records to others, as if they had ended at a Unix time."""
    source, copy = RecordStore(measured, read_only=True), RecordStore(records)
    try:
        ticks = {each.time: each for each in source.ticks()}
        intervals = source.intervals()
        for each in intervals:
            time = each.time + end - intervals[-1].time
            sample = replace(each, time=time)
            copy.write([replace(ticks[each.time], time=time, sample=sample)])
    finally:
        source.close()
        copy.close()


def state_of(folder: Path) -> Path:
    """Return where Weir keeps the state of the job that runs in a folder."""
    return folder / "state" / "default.trips"


def make_rates() -> tuple[Trace, Trace]:
    """Return the rates of the hours before, and those that policies are compared on."""
    rng = np.random.default_rng(TRAFFIC_SEED)
    minutes = synthesise(TraceKind.TAXI, slots=7 * 24 * 60, rng=rng)
    week = compress(minutes, slots=QUARTER)
    week = week * APP.most / week[BEGIN : BEGIN + LINES].max()
    return week[BEGIN - KNOWN_LINES : BEGIN], week[BEGIN : BEGIN + LINES]


def describe(policy: str, folder: Path, initial: Mapping[str, int]) -> dict[str, Any]:
    """Return the StreamApp of a run in a folder."""
    manifest: dict[str, Any] = yaml.safe_load(
        (REPOSITORY / "examples/trips/streamapp.yaml").read_text()
    )
    spec = manifest["spec"]
    spec["flink"]["job"] |= {
        "jar": str(JARS / "trips.jar"),
        "args": [
            *("--trace", str(folder / "trace.txt"), "--slot-seconds", str(INTERVAL)),
            *("--seed", str(SEED), "--out", str(folder / "out")),
            *(
                argument
                for name, seconds in APP.work.items()
                for argument in (f"--service.{name}-ms", f"{1000 * seconds:g}")
            ),
        ],
    }
    spec["objective"] |= {
        "responseTime": {"bound": APP.bound, "statistic": "Mean"},
        "maxRestartsPerDay": MAX_RESTARTS,
    }
    for pool in spec["nodePools"]:
        pool["sizes"] = ["1"]
    for operator in spec["operators"]:
        if "fixed" in operator:
            operator["fixed"] = {"small/1": 1}
        else:
            operator |= {"maxReplicas": MAX_REPLICAS, "initial": dict(initial)}
    # Policies are not compared on how soon a busy machine starts a JVM.
    spec["rescale"] = {"startDeadline": "3m", "submitDeadline": "2m"}
    spec["operatorManager"] = {"interval": f"{INTERVAL}s", "policy": {"name": policy}}
    spec["applicationManager"]["interval"] = REFIT
    return manifest


def outcome_of(policy: str, done: RecordedRun, folder: Path) -> PolicyOutcome:
    start = read_start(folder / "out")
    if done.summary is None or start is None:
        raise BenchmarkError(f"Expected a run of {policy} to its end, got none: see {folder}")
    bound = done.ticks[0].objective.bound
    arrivals = read_arrivals(folder / "out")
    judged = judge(arrivals, start=start, interval=INTERVAL, intervals=LINES, bound=bound)
    app = load_manifest(folder / "streamapp.yaml")
    end = start + LINES * INTERVAL
    records = RecordStore(state_of(folder) / RECORDS, read_only=True)
    try:
        decisions = records.decisions(until=end, limit=10 * LINES)
    finally:
        records.close()
    own = [each for each in decisions if each.policy == policy]
    lost, doubled = done.summary.lost, done.summary.doubled
    return PolicyOutcome(
        policy=policy,
        cost=statistics.fmean(price(tick, app) for tick in done.ticks if tick.time <= end),
        violations=statistics.fmean(judged.late),
        restarts=done.summary.restarts,
        changes=sum(each.outcome == "done" for each in done.rescales),
        decisions=len(own),
        in_its_place=len(decisions) - len(own),
        wrong=None if lost is None or doubled is None else lost + doubled,
        load=os.getloadavg()[1],
    )


def price(tick: TickRecord, app: StreamApp) -> float:
    """Return the currency per hour of what a moment's deployment requests."""
    memory = app.spec.flink.job_manager.memory.bytes
    for operator in tick.operators:
        for node_type, count in operator.replicas.items():
            memory += count * world.pool_named(app, node_type.partition("/")[0]).memory.bytes
    return tick.cost_per_hour + MEMORY_PRICE * memory / 2**30


def figures_of(outcomes: Sequence[PolicyOutcome]) -> Iterator[Figure]:
    for each in outcomes:
        name = each.policy
        yield Figure(f"{name}: cost per hour", each.cost, "currency")
        yield Figure(f"{name}: intervals over the bound", 100 * each.violations, "%")
        yield Figure(f"{name}: restarts", each.restarts)
        yield Figure(f"{name}: decisions", each.decisions)
        yield at_least(f"{name}: changes carried out", each.changes, 1)
        yield at_most(f"{name}: decisions of another policy in its place", each.in_its_place, 0)
        yield no_records(f"{name}: records lost or doubled", each.wrong)
    yield Figure("load of the machine, worst run", max(each.load for each in outcomes), "processes")
