"""A run of `live`: an arm on a job, a trace and a seed, on Flink under quotas; and its bill."""

from __future__ import annotations

import json
import math
import os
import shutil
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import yaml

from benchmarks.demo_policies import intervals_judged, share_over_bound
from benchmarks.live_apps import INTERVAL, LEARNED_LINES, App, Arm, describe, make_trace
from benchmarks.live_quotas import Quotas
from benchmarks.live_tuning import LEARNED, REHEARSED_BY_HAND, REHEARSED_TUNED, tune_on
from benchmarks.rows import RESULTS
from benchmarks.weir_local import run_weir_local
from weir_operator.loop.run_record import Run, TickRecord
from weir_operator.runtime.local.folders import AppFolder
from weir_operator.streamapp import world
from weir_operator.streamapp.loading import load_manifest, parse_manifest
from weir_operator.streamapp.models import StreamApp
from weir_operator.tuning.store import TUNINGS, read_tunings
from weir_simulator.traces import Trace, write_trace

FOLDER = RESULTS / "live"
MANIFEST = "streamapp.yaml"
MEMORY_PRICE = 0.0044
"""Currency per GiB and hour: a ninth of a CPU's, as container services charge."""
GIB = 2**30
KNOWN: Mapping[Arm, Mapping[str, str]] = {
    Arm.HAND: {REHEARSED_BY_HAND: LEARNED},
    Arm.TUNED: {REHEARSED_TUNED: LEARNED, TUNINGS: TUNINGS},
    Arm.AUTOSCALER: {},
    Arm.STATIC: {},
}
"""What an arm begins with of what Weir has learned: files of a StreamApp's state, and their names
in the arm's own."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """What came of a run."""

    app: str
    trace: str
    repeat: int
    arm: str
    violations: float
    """Share of the intervals that were judged, in [0, 1]."""
    judged: int
    """Intervals that could be judged; far fewer than `LINES` tell of a machine too busy."""
    cost: float
    """Currency per hour of the CPU and memory requested, JobManager included."""
    restarts: int
    resizes: int
    waiting: float | None
    """Records that waited at the end; `None` where that is not known."""
    wrong: int | None
    """Records lost or doubled; `None` where the job keeps no ledger."""
    load: float
    """Processes that wanted the machine's processors, mean over the last five minutes."""

    @property
    def pair(self) -> tuple[str, str, int]:
        """What arms are compared on: job, trace and repeat, which have equal arrivals."""
        return self.app, self.trace, self.repeat


def run_arm(app: App, trace: str, repeat: int, arm: Arm, *, learned: Path | None) -> Outcome:
    """Run an arm and keep what came of it.

    Args:
        app: Which job.
        trace: `taxi` or `tweets`.
        repeat: From 1; decides arrivals and service times.
        arm: What decides.
        learned: Folder of a state, of which the arm begins with `KNOWN`; `None` is none.

    Raises:
        QuotaError: CPU cannot be limited on this machine.
    """
    folder = FOLDER / "runs" / f"{app.name}-{trace}-{repeat}-{arm.name.lower()}"
    _, rates = make_trace(trace)
    done = run_rates(app, arm, rates=rates, seed=repeat, folder=folder, learned=learned)
    outcome = outcome_of(app, trace, repeat, arm, done)
    write_outcome(outcome)
    return outcome


def learn(app: App, trace: str) -> Path:
    """Let Weir learn and tune on what came before; return the folder of its state, made once.

    Raises:
        BenchmarkError: No simulator could be fitted well enough.
    """
    folder = FOLDER / "learned" / f"{app.name}-{trace}"
    state = folder / "state" / f"default.{app.name}"
    if not (folder / "finished").exists():
        known, _ = make_trace(trace)
        run_rates(app, Arm.TUNED, rates=known[-LEARNED_LINES:], seed=0, folder=folder, learned=None)
        tune_on(known * app.most, app=load_manifest(folder / MANIFEST), state=state)
        (folder / "finished").touch()
    return state


def is_tuned(learned: Path) -> bool:
    """Return whether a tuning is in force in a folder of state."""
    tunings = read_tunings(learned / TUNINGS)
    return tunings is not None and tunings.present is not None


def run_rates(
    app: App, arm: Arm, *, rates: Trace, seed: int, folder: Path, learned: Path | None
) -> Run:
    """Run a job on rates under quotas; everything of it goes to `folder`."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    trace = folder / "trace.txt"
    write_trace(trace, rates)
    path, out, state = folder / MANIFEST, folder / "out", folder / "state"
    manifest = describe(app, arm, trace=trace, out=out, seed=seed)
    path.write_text(yaml.safe_dump(manifest, sort_keys=False))
    states = AppFolder(state / f"default.{app.name}")
    states.path.mkdir(parents=True)
    if learned is not None:
        for known, name in KNOWN[arm].items():
            shutil.copy2(learned / known, states.path / name)
    with Quotas(states, operators=app.work):
        return run_weir_local(
            path,
            seconds=rates.size * INTERVAL + 2,
            state=state,
            ledger=out if app.ledger else None,
            options=(),
        )


def outcome_of(app: App, trace: str, repeat: int, arm: Arm, done: Run) -> Outcome:
    """Return what came of a run.

    Raises:
        RuntimeError: It did not run to its end.
    """
    if done.summary is None or not done.ticks:
        raise RuntimeError(f"Expected a run of {app.name} to its end, got none: see {FOLDER}")
    manifest = describe(app, arm, trace=Path("trace.txt"), out=Path("out"), seed=repeat)
    streamapp = parse_manifest(manifest)
    lost, doubled, waiting = done.summary.lost, done.summary.doubled, done.ticks[-1].backlog
    return Outcome(
        app=app.name,
        trace=trace,
        repeat=repeat,
        arm=arm.value,
        violations=share_over_bound(done),
        judged=intervals_judged(done),
        cost=statistics.fmean(price(tick, streamapp) for tick in done.ticks),
        restarts=done.summary.restarts,
        resizes=done.summary.resizes,
        waiting=None if math.isnan(waiting) else waiting,
        wrong=None if lost is None or doubled is None else lost + doubled,
        load=os.getloadavg()[1],
    )


def price(tick: TickRecord, app: StreamApp) -> float:
    """Return the currency per hour of what a moment's deployment requests."""
    memory = app.spec.flink.job_manager.memory.bytes
    for operator in tick.operators:
        for node_type, count in operator.replicas.items():
            memory += count * world.pool_named(app, node_type.partition("/")[0]).memory.bytes
    return tick.cost_per_hour + MEMORY_PRICE * memory / GIB


def write_outcome(outcome: Outcome) -> None:
    """Keep an outcome beside those of other calls; the newest of the same run stays."""
    name = f"{outcome.app}-{outcome.trace}-{outcome.repeat}-{Arm(outcome.arm).name.lower()}.json"
    path = FOLDER / "outcomes" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(asdict(outcome)) + "\n")


def read_outcomes(folder: Path = FOLDER / "outcomes") -> Sequence[Outcome]:
    """Return the outcomes of all calls so far, in order of their names."""
    return [Outcome(**json.loads(path.read_text())) for path in sorted(folder.glob("*.json"))]
