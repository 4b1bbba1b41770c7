"""Hand-set and tuned weights, the Flink autoscaler and a static peak, on jobs that burn CPU.

Real Flink, two jobs (`trips`, and `hotitems`, Nexmark's query 5 with its windows in RocksDB), two
traces. The replicas' CPU is limited by cgroup quotas. A call makes one repeat of one job and trace:
`LIVE_APP` (trips), `LIVE_TRACE` (taxi) and `LIVE_REPEAT` (1) choose others, and the figures are of
all runs so far, which `build/benchmarks/live` keeps. Arms of a repeat have equal arrivals; which of
them runs first changes with it.

Weir has run on the ten hours before, and tuned for the week before in the simulator that was
fitted meanwhile, once for a job and trace. Both of its arms begin with what it measured then and
with a policy that has been through that week in the simulator, with its own weights; where Weir
found none that it expects to be better, the tuned arm is left out. Cost is the CPU and memory that
is requested, JobManager included. An interval is a violation where records came out later than the
bound after they were due, so what waits at the source counts, or where nothing came out while
records waited.

Tunes a job that Weir has fitted a simulator to, on days of rates instead of hours.

Weir tunes on what it has measured. A run that passes sixty times faster tells enough of the work,
but of the traffic only hours: too little to be sure of anything. So the days before stand for the
traffic, as a history does that is kept; all else is as the controller does it. Both of Weir's arms
then go through these days in the simulator, each with its own weights: in ten hours the planner
does not find its plan better than a rule that knows no weights.

A run of `live`: an arm on a job, a trace and a seed, on Flink under quotas; and its bill.

What the runs of `live` come to: means of the arms, and the tuned one against each of the others.

Arms are compared in pairs of the same job, trace and repeat, whose arrivals are equal. Intervals
hold 95 % of bootstrap resamples of the pairs; there are none from a single pair.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np
import yaml
from rich.console import Console
from rich.table import Table
from scipy.stats import bootstrap

from benchmarks.choices import choose
from benchmarks.figures import Figure, at_least, at_most
from benchmarks.policies.demo_policies import intervals_judged, share_over_bound
from benchmarks.policies.live.apps import (
    APPS,
    BEGIN,
    INTERVAL,
    LEARNED_LINES,
    LINES,
    App,
    Arm,
    describe,
    make_trace,
)
from benchmarks.policies.live.outcomes import load_outcomes, pair_up, store_outcome
from benchmarks.policies.live.quotas import find_replicas, keep_quotas
from benchmarks.policies.weir_local import run_weir_local
from benchmarks.registry import BenchmarkError
from benchmarks.rows import RESULTS
from weir_operator.flink.jars import build_example
from weir_operator.loop.run_record import RecordedRun, TickRecord
from weir_operator.runtime.local.folders import AppFolder
from weir_operator.streamapp import world
from weir_operator.streamapp.loading import load_manifest, parse_manifest
from weir_operator.streamapp.models import StreamApp
from weir_operator.tuning.fitting import find_fitted
from weir_operator.tuning.store import TUNINGS, TuningStore, Version, read_tunings
from weir_operator.tuning.worker import run_tuning
from weir_operator.wiring.assembly import tuning_settings
from weir_policies.model.arrays import Floats
from weir_policies.policy import Tuning
from weir_simulator.experiment import Experiment
from weir_simulator.experiment_files import load_experiment
from weir_simulator.fitting.refit import with_trace
from weir_simulator.traces import Trace, write_trace
from weir_simulator.training import train_policies
from weir_simulator.tuning.order import TuningRequest, apply_tuning

LEARNED = "learned.json"
REHEARSED_BY_HAND = "rehearsed-by-hand.json"
REHEARSED_TUNED = "rehearsed-tuned.json"
EVALUATIONS = 50
JUDGING_SEEDS = 10
"""Both more than the controller's: here is time to be surer."""


def tune_on(rates: Trace, *, app: StreamApp, state: Path) -> None:
    """Put the tuning in force in a folder of state, if one is found that is surely better.

    Args:
        rates: Records/s, an interval of the Operator Managers each, shape `(n,)`.
        app: The StreamApp.
        state: Folder of its state, with the experiment that was fitted.

    Raises:
        BenchmarkError: No fit was good enough to be left there.
        TuningError: A tuning cannot be made of the fit.
    """
    fitted = find_fitted(state)
    if not fitted.exists():
        raise BenchmarkError(
            f"Expected a simulator that was fitted while {app.metadata.name} ran, got none: see "
            f"ModelUnfitted in the run's report in {state.parents[1]}; run it again, beside less"
        )
    policy = app.spec.operator_manager.policy.name
    settings = tuning_settings(app, policy=policy, tuner_deadline=math.inf)
    experiment = load_experiment(fitted)
    budgets = {each.name: each.budget for each in experiment.operators if each.budget is not None}
    request = TuningRequest(
        experiment=experiment,
        constraints=settings.terms.constraints,
        evaluations=EVALUATIONS,
        judging_seeds=JUDGING_SEEDS,
        incumbent=Tuning(weights=experiment.weights, budgets=budgets),
        rates=tuple(rates),
        watch=settings.terms.watch,
    )
    folder = state / "tuned-on-days"
    folder.mkdir()
    result = run_tuning(request, folder, stop=threading.Event())
    days = with_trace(experiment, trace=folder / "trace.txt")  # where the worker has put the rates
    rehearse(days, slots=rates.size, state=state, file=REHEARSED_BY_HAND)
    expected, before = result.prediction.money.mean, result.incumbent_prediction.money.mean
    Console().print(
        f"tuned on {len(rates)} intervals: {expected:.3g} instead of {before:.3g} an hour, "
        f"certainty {result.certainty}, of keeping the objective {result.keeping}: "
        f"{'better' if result.better else 'not surely better'}"
    )
    if not result.better or result.forecast is None:
        return
    tuned = apply_tuning(days, result.best)
    rehearse(tuned, slots=rates.size, state=state, file=REHEARSED_TUNED)
    version = Version.of(
        result,
        forecast=result.forecast,
        number=1,
        since=time.time(),
        former=0,
        budgets=result.best.budgets,
        most_rate=float(rates.max()),
    )
    store = TuningStore(state / TUNINGS, key=settings.key)
    store.save(store.fresh().with_version(version).model_copy(update={"current": 1}))


def rehearse(days: Experiment, *, slots: int, state: Path, file: str) -> None:
    """Write what was measured so far, with policies that went through the days in the simulator.

    They start over there: what is kept of the real job is in the simulator, which was fitted to it,
    and in the beliefs. Their clock is the simulator's, so nothing that depends on the hour counts.

    Args:
        days: The fitted job, the rates of the days, and an arm's weights and budgets.
        slots: How many are gone through.
        state: Folder with what was learned, where the file goes.
        file: Its name.
    """
    learned = json.loads((state / LEARNED).read_text())
    for name, policy in train_policies(days, slots=slots, seed=0).operators.items():
        learned["operators"][name]["policy"] = policy
    (state / file).write_text(json.dumps(learned))


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
class RunOutcome:
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
    def name(self) -> str:
        """Which run it is."""
        return f"{self.app}-{self.trace}-{self.repeat}-{Arm(self.arm).name.lower()}"

    @property
    def pair(self) -> tuple[str, str, int]:
        """What arms are compared on: job, trace and repeat, which have equal arrivals."""
        return self.app, self.trace, self.repeat


def run_arm(app: App, trace: str, repeat: int, arm: Arm, *, learned: Path | None) -> RunOutcome:
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
    store_outcome(FOLDER / "outcomes" / f"{outcome.name}.json", asdict(outcome))
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
) -> RecordedRun:
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
    with keep_quotas(partial(find_replicas, states, operators=app.work)):
        return run_weir_local(
            path,
            seconds=rates.size * INTERVAL + 2,
            state=state,
            ledger=out if app.ledger else None,
            options=(),
        )


def outcome_of(app: App, trace: str, repeat: int, arm: Arm, done: RecordedRun) -> RunOutcome:
    """Return what came of a run.

    Raises:
        RuntimeError: It did not run to its end.
    """
    if done.summary is None or not done.ticks:
        raise RuntimeError(f"Expected a run of {app.name} to its end, got none: see {FOLDER}")
    manifest = describe(app, arm, trace=Path("trace.txt"), out=Path("out"), seed=repeat)
    streamapp = parse_manifest(manifest)
    lost, doubled, waiting = done.summary.lost, done.summary.doubled, done.ticks[-1].backlog
    return RunOutcome(
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


EQUAL_VIOLATIONS = 100 / LINES
"""Points of a percent within which two arms miss the bound equally often: one interval of a run."""
SEED = 1


def figures_of(outcomes: Sequence[RunOutcome]) -> Iterator[Figure]:
    """Yield the figures of all runs so far, of each job and trace and of all of these."""
    cells: dict[str, list[RunOutcome]] = {}
    for each in outcomes:
        cells.setdefault(f"{each.app} on {each.trace}", []).append(each)
    if len(cells) > 1:
        cells["all"] = list(outcomes)
    for cell, of_cell in cells.items():
        yield from _tell(cell, of_cell)
    if outcomes:
        yield at_most(
            figure="load of the machine, worst run: above this the runs tell of the machine",
            value=max(each.load for each in outcomes),
            unit="processes",
            limit=2.0 * (os.cpu_count() or 1),
        )


def _tell(cell: str, outcomes: Sequence[RunOutcome]) -> Iterator[Figure]:
    """Yield what came of the arms, and of the tuned one against the others."""
    for arm in Arm:
        mine = [each for each in outcomes if each.arm == arm]
        if not mine:
            continue
        yield Figure(figure=f"{cell}, {arm}: runs", value=len(mine), unit="")
        for name, unit, value in _MEASURES:
            mean = statistics.fmean(value(each) for each in mine)
            yield Figure(figure=f"{cell}, {arm}: {name}", value=mean, unit=unit)
        wrong = [each.wrong for each in mine if each.wrong is not None]
        if wrong:
            yield at_most(
                figure=f"{cell}, {arm}: records lost or doubled", value=sum(wrong), unit="", limit=0
            )
    for other in Arm:
        pairs = pair_up(
            [each for each in outcomes if each.arm == Arm.TUNED],
            [each for each in outcomes if each.arm == other],
        )
        if other is not Arm.TUNED and pairs:
            yield from _compare(cell, other, pairs)


def interval_of(values: Floats) -> tuple[float, float] | None:
    """Return the 95 % bootstrap interval of the mean; `None` for fewer than two values.

    Args:
        values: One per pair, shape `(n,)`.
    """
    if values.size < 2:
        return None
    if np.ptp(values) == 0:  # every resample is the same, which bootstrap answers with NaN
        return float(values[0]), float(values[0])
    found = bootstrap(
        (values,), np.mean, method="percentile", rng=np.random.default_rng(SEED)
    ).confidence_interval
    return float(found.low), float(found.high)


def tabulate(outcomes: Sequence[RunOutcome]) -> Table:
    """Return every run as a row."""
    table = Table(title=f"{LINES} intervals a run")
    table.add_column("job, trace, repeat")
    table.add_column("arm")
    headings = ("judged", "over the bound", "cost/h", "restarts", "resizes", "waiting", "load")
    for heading in headings:
        table.add_column(heading, justify="right")
    for each in outcomes:
        table.add_row(
            f"{each.app}, {each.trace}, {each.repeat}",
            each.arm,
            str(each.judged),
            f"{each.violations:.1%}",
            f"{each.cost:.3f}",
            str(each.restarts),
            str(each.resizes),
            "-" if each.waiting is None else f"{each.waiting:.0f}",
            f"{each.load:.1f}",
        )
    return table


def _compare(
    cell: str, other: Arm, pairs: Sequence[tuple[RunOutcome, RunOutcome]]
) -> Iterator[Figure]:
    """Yield the tuned arm's cost and violations against another's, and how sure they are."""
    costs = np.array([100 * tuned.cost / theirs.cost for tuned, theirs in pairs])
    missed = np.array([100 * (tuned.violations - theirs.violations) for tuned, theirs in pairs])
    measures = (("cost", costs, "%", 100.0), ("misses more", missed, "points", EQUAL_VIOLATIONS))
    for name, values, unit, limit in measures:
        figure = f"{cell}, {Arm.TUNED} against {other}: {name}, mean of {len(pairs)} pairs"
        mean, interval = float(values.mean()), interval_of(values)
        if interval is None:
            yield at_most(figure=figure, value=mean, unit=unit, limit=limit)
            continue
        low, high = interval
        yield Figure(figure=figure, value=mean, unit=unit)
        yield Figure(figure=f"{figure}, lower end of 95 %", value=low, unit=unit)
        yield at_most(figure=f"{figure}, upper end of 95 %", value=high, unit=unit, limit=limit)


_MEASURES: Sequence[tuple[str, str, Callable[[RunOutcome], float]]] = (
    ("cost per hour", "currency", lambda each: each.cost),
    ("intervals over the bound", "%", lambda each: 100 * each.violations),
    ("intervals judged", "", lambda each: each.judged),
    ("restarts", "", lambda each: each.restarts),
    ("resizes", "", lambda each: each.resizes),
)


ABOUT = "tuned and hand-set weights, flink-autoscaler, static peak: jobs that burn CPU under quotas"
DURATION = "25 min"


def run() -> list[Figure]:
    """Make one repeat of one job and trace; return the figures of all runs so far.

    Raises:
        BenchmarkError: A variable names no job, no trace, or no repeat, or no fit was good.
        QuotaError: CPU cannot be limited on this machine.
    """
    app = APPS[choose("LIVE_APP", "trips", list(APPS))]
    trace = choose("LIVE_TRACE", "taxi", list(BEGIN))
    repeat = int(choose("LIVE_REPEAT", "1", [str(number) for number in range(1, 10)]))
    build_example(app.name)
    learned = learn(app, trace)
    arms = [arm for arm in Arm if arm is not Arm.TUNED or is_tuned(learned)]
    first = repeat % len(arms)
    for arm in (*arms[first:], *arms[:first]):
        run_arm(app, trace, repeat, arm, learned=learned)
    outcomes = load_outcomes(FOLDER / "outcomes", RunOutcome)
    Console().print(tabulate(outcomes))
    tuned = at_least(
        figure=f"{app.name} on {trace}: tunings in force after learning",
        value=int(is_tuned(learned)),
        unit="",
        limit=1,
    )
    return [tuned, *figures_of(outcomes)]
