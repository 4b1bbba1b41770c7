"""Weir out of the box against Flink's own autoscaler, on jobs and arrivals that neither has seen.

Three jobs: `trips`; `hotitems`, Nexmark's query 5 with its windows in RocksDB; and `calls`, which
is `trips` with an operator that waits for a slow external service. What burns CPU does so under
cgroup quotas. Three traces, from cold, with one replica of each operator. A pair is a job, a trace
and a repeat, with equal arrivals for both sides:

- Weir with its default policy and no settings (`weir local`). Its replicas are started when it asks
  for them.
- Flink's autoscaler as published, beside the adaptive scheduler of the same Flink, with all its
  defaults. As many TaskManagers as Weir's pool may have run from the beginning on, under the same
  quotas, so it never waits for a process.

Time passes `FASTER` times faster for both. Both are judged by the records at a plain sink
(`judging.py`), also while the job is changed. Cost counts what is requested: of Weir, every
TaskManager that lives, even one that does not serve yet or any more; of the autoscaler, only the
slots that it asks Flink for, as if the others cost nothing; the JobManager on both sides, and on
neither the process that decides.

A pair is run `REPEATS` times; which side runs first changes with the repeat. An interrupted run
goes on where it was: `build/benchmarks/live-match` keeps the runs.

The autoscaler begins to scale when its first window of metrics is full, as it does anywhere.
"""

from __future__ import annotations

import asyncio
import math
import os
import shutil
import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import partial
from itertools import groupby, product
from pathlib import Path

import yaml

from benchmarks.figures import Figure, at_most, no_records
from benchmarks.flink.flink_autoscaler import build_autoscaler, run_autoscaler
from benchmarks.flink.ledger import read_arrivals, read_start
from benchmarks.flink.plain_flink import PlainFlink
from benchmarks.policies.live.jobs import (
    APPS,
    ENDS,
    FASTER,
    INTERVAL,
    MAX_REPLICAS,
    MEMORY,
    TRACES,
    App,
    autoscaler_settings,
    describe,
    flink_configuration,
    job_arguments,
    make_rates,
    price_of,
)
from benchmarks.policies.live.judging import compare, judge, mean_over_time
from benchmarks.policies.live.quotas import (
    Limited,
    call_repeatedly,
    find_replicas,
    keep_quotas,
)
from benchmarks.policies.live.weir_local import run_weir_local
from benchmarks.results import BUILD, find_commit, load_outcomes, store_outcome
from weir_operator.advise.flink import ExternalFlink
from weir_operator.clock import SystemClock, wait_until
from weir_operator.cluster.process.process import compile_default_policy
from weir_operator.errors import TemporaryError, WeirError
from weir_operator.flink.jars import build_example
from weir_operator.flink.rest import FlinkRest
from weir_operator.loop.run_recorder import read_ledger
from weir_operator.runtime.processes.folders import AppFolder
from weir_operator.streamapp.quantities import Duration
from weir_simulator.traces import write_trace

FOLDER = BUILD / "live-match"
WEIR, AUTOSCALER = "Weir", "Flink's autoscaler"
SIDES = (WEIR, AUTOSCALER)
REPEATS = 3
SECONDS = 600
AFTERWARDS = 15
"""Seconds after the last interval that is judged, in which its records may still come out."""
SAMPLE_PERIOD = 0.5
"""Seconds between two samples of what is requested."""
LIMIT = 150.0
"""Seconds for a job to begin, and for it to stop."""
VIOLATIONS, COST = 0.5, 1.0
"""Goals: at most so much of the autoscaler's."""
JOB = "1" * 32
STOP = "2" * 32


@dataclass(frozen=True, kw_only=True, slots=True)
class MatchOutcome:
    """What came of a run of one side."""

    job: str
    trace: str
    repeat: int
    side: str
    violations: float
    """Share of all intervals, in [0, 1]."""
    replicas: float
    """Requested on average, source and sink included."""
    cost: float
    """Currency per hour."""
    restarts: int
    doubled: int
    """Records, or results of windows, that a plain sink got again."""
    missing: int
    """Those that it did not get, although it got a later one."""
    wrong: int | None
    """Records lost or doubled by the job's own state; `None` where it keeps no ledger, or did not
    stop in order."""
    load: float
    """Processes that wanted the machine's processors, mean over the last five minutes."""
    commit: str | None

    @property
    def pair(self) -> tuple[str, str, int]:
        return self.job, self.trace, self.repeat


def run() -> list[Figure]:
    """Make the runs that are missing; return the figures of all."""
    autoscaler = build_autoscaler()
    compile_default_policy()  # as a controller that is installed has
    for app in APPS.values():
        build_example(app.example)
    for repeat, trace, job in product(range(1, REPEATS + 1), TRACES, APPS):
        for side in SIDES if repeat % 2 else reversed(SIDES):
            kept = FOLDER / "outcomes" / f"{job}-{trace}-{repeat}-{SIDES.index(side)}.json"
            if not kept.exists():
                outcome = run_side(side, job, trace, repeat, autoscaler=autoscaler)
                store_outcome(kept, asdict(outcome))
    return list(figures_of(load_outcomes(FOLDER / "outcomes", MatchOutcome)))


def run_side(side: str, job: str, trace: str, repeat: int, *, autoscaler: Path) -> MatchOutcome:
    app, intervals = APPS[job], SECONDS // INTERVAL
    folder = FOLDER / "runs" / f"{job}-{trace}-{repeat}-{SIDES.index(side)}"
    shutil.rmtree(folder, ignore_errors=True)
    out, rates = folder / "out", folder / "trace.txt"
    out.mkdir(parents=True)
    write_trace(rates, make_rates(trace, intervals))
    arguments = job_arguments(app, trace=rates, out=out, seed=repeat)
    if side == WEIR:
        samples = _run_weir(app, arguments, folder)
    else:
        samples = asyncio.run(_run_autoscaler(app, arguments, folder, autoscaler))
    start = read_start(out)
    if start is None:
        raise TemporaryError(f"Expected {job} to begin, got no record: see {folder}")
    judged = judge(
        read_arrivals(out),
        start=start,
        interval=INTERVAL,
        intervals=intervals,
        bound=Duration(app.bound).seconds,
    )
    replicas = mean_over_time(samples, begin=start, end=start + SECONDS)
    _, _, lost, doubled = read_ledger(out)
    return MatchOutcome(
        job=job,
        trace=trace,
        repeat=repeat,
        side=side,
        violations=statistics.fmean(judged.late),
        replicas=replicas,
        cost=price_of(replicas),
        # A file for each attempt of the sink.
        restarts=len(list(out.glob("raw-*.csv"))) - 1,
        doubled=judged.doubled,
        missing=judged.missing,
        wrong=None if lost is None or doubled is None else lost + doubled,
        load=os.getloadavg()[1],
        commit=find_commit(),
    )


Samples = Sequence[tuple[float, float]]
"""Unix seconds, and the replicas that are requested from then on."""


def _run_weir(app: App, arguments: list[str], folder: Path) -> Samples:
    manifest = folder / "streamapp.yaml"
    manifest.write_text(yaml.safe_dump(describe(app, arguments=arguments), sort_keys=False))
    state = folder / "state"
    states = AppFolder(state / f"default.{app.name}")
    states.path.mkdir(parents=True)
    with (
        keep_quotas(partial(find_replicas, states, operators=app.work)),
        _sample_replicas(states) as samples,
    ):
        run_weir_local(
            manifest,
            seconds=SECONDS + AFTERWARDS,
            state=state,
            ledger=folder / "out" if app.ledger else None,
            options=(),
        )
    return samples


@contextmanager
def _sample_replicas(app: AppFolder) -> Iterator[list[tuple[float, float]]]:
    """Give a list to which the number of TaskManagers that live is added, again and again."""
    samples: list[tuple[float, float]] = []

    def sample() -> None:
        if (app.path / "tm").is_dir():
            alive = sum(each.alive() is not None for each in app.task_managers())
            samples.append((time.time(), alive))

    with call_repeatedly(sample, period=SAMPLE_PERIOD, name="replicas"):
        yield samples


async def _run_autoscaler(
    app: App, arguments: list[str], folder: Path, autoscaler: Path
) -> Samples:
    clock = SystemClock()
    samples: list[tuple[float, float]] = []
    flink = PlainFlink(
        folder=folder / "flink",
        memory=MEMORY,
        job_manager_memory=MEMORY,
        count=MAX_REPLICAS * len(app.work) + len(ENDS),
        user=flink_configuration(app, folder),
    )
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(flink)
        stack.enter_context(keep_quotas(partial(_find_task_managers, flink, app)))
        rest = await stack.enter_async_context(FlinkRest(flink.url))
        external = await stack.enter_async_context(ExternalFlink(flink.url))
        jar = await rest.upload_jar(str(build_example(app.example)))
        await rest.run_jar(jar, job_id=JOB, entry_class=app.entry_class, arguments=arguments)

        async def find_ends() -> list[str] | None:
            job = await rest.job(JOB)
            if job is None or not job.runs:
                return None
            return [each.id for each in job.vertices if not each.name.startswith(tuple(app.work))]

        async def find_start() -> float | None:
            return read_start(folder / "out")

        not_scaled = await wait_until(find_ends, clock=clock, timeout=LIMIT)
        begun = await wait_until(find_start, clock=clock, timeout=LIMIT)
        if not_scaled is None or begun is None:
            raise TemporaryError(f"Expected {app.name} to run within {LIMIT:g} s: see {folder}")
        async with run_autoscaler(
            autoscaler,
            folder / "autoscaler",
            port=flink.ports[0],
            job_id=JOB,
            faster=FASTER,
            settings=autoscaler_settings(not_scaled),
        ) as check_autoscaler:
            while clock.now() < begun + SECONDS + AFTERWARDS:
                with suppress(TemporaryError):  # no answer in time: what was asked for last holds
                    wanted = await external.requirements(JOB)
                    samples.append((clock.now(), sum(wanted.values())))
                await clock.sleep(SAMPLE_PERIOD)
                check_autoscaler()

        async def is_stopped() -> bool | None:
            status = await rest.savepoint_status(JOB, STOP)
            return (status is not None and not status.in_progress) or None

        # A job that cannot be stopped has no ledger as of one checkpoint, which the outcome says.
        with suppress(WeirError):
            await rest.stop_with_savepoint(JOB, trigger_id=STOP)
            await wait_until(is_stopped, clock=clock, timeout=LIMIT)
    return samples


def _find_task_managers(flink: PlainFlink, app: App) -> Iterator[Limited]:
    """Yield every TaskManager: each may run any of the operators."""
    for name, identity in flink.task_managers().items():
        yield Limited(id=name, pid=identity.pid, operators=tuple(app.work), speed=1.0)


Pair = tuple[MatchOutcome, MatchOutcome]
"""Weir's and the autoscaler's."""


def pairs_by_job(outcomes: Sequence[MatchOutcome]) -> dict[str, list[Pair]]:
    """Return the pairs of each job; a run without its other side is left out."""
    ours, theirs = ([each for each in outcomes if each.side == side] for side in SIDES)
    ours.sort(key=lambda each: (tuple(APPS).index(each.job), each.pair))
    others = {each.pair: each for each in theirs}
    pairs = [(each, others[each.pair]) for each in ours if each.pair in others]
    return {job: list(of_job) for job, of_job in groupby(pairs, key=lambda pair: pair[0].job)}


def figures_of(outcomes: Sequence[MatchOutcome]) -> Iterator[Figure]:
    of_jobs = pairs_by_job(outcomes)
    if not of_jobs:
        return
    verdicts = [_verdict(pairs) for pairs in of_jobs.values()]
    shown, refuted = verdicts.count(True), verdicts.count(False)
    yield Figure(
        figure="jobs in which both goals are shown with 95 % confidence",
        value=shown,
        unit=f"of {len(verdicts)}",
        goal="most",
        holds=True
        if 2 * shown > len(verdicts)
        else False
        if 2 * refuted >= len(verdicts)
        else None,
    )
    for job, pairs in of_jobs.items():
        yield from _compare(job, pairs)
    every = [each for pairs in of_jobs.values() for each in pairs]
    yield at_most(
        figure="load of the machine, worst run: above this the runs tell of the machine",
        value=max(each.load for pair in every for each in pair),
        unit="processes",
        limit=2.0 * (os.cpu_count() or 1),
    )


_MEASURED = (
    ("violations", "intervals over the bound", VIOLATIONS),
    ("cost", "cost of what is requested", COST),
)


def _verdict(pairs: Sequence[Pair]) -> bool | None:
    """Return whether the pairs show both goals, or that one is missed; `None` for neither."""
    holds = [compare(*_both(pairs, field)).is_at_most(limit) for field, _, limit in _MEASURED]
    return False if False in holds else None if None in holds else True


def _both(pairs: Sequence[Pair], field: str) -> tuple[list[float], list[float]]:
    ours, theirs = ([float(getattr(pair[place], field)) for pair in pairs] for place in (0, 1))
    return ours, theirs


def _compare(job: str, pairs: Sequence[Pair]) -> Iterator[Figure]:
    """Yield the ratios with their goals, then what each side came to."""
    for field, measured, limit in _MEASURED:
        ratio = compare(*_both(pairs, field))
        name = f"{job}: {measured}, Weir's of the autoscaler's"
        holds = ratio.is_at_most(limit)
        yield Figure(
            figure=f"{name}, {len(pairs)} pairs",
            value=_finite(ratio.value),
            unit="",
            goal=f"at most {limit:g}, with 95 % confidence",
            holds=holds,
        )
        for end, value in (("lower", ratio.low), ("upper", ratio.high)):
            yield Figure(figure=f"{name}: {end} end of 95 %", value=_finite(value), unit="")
    for place, side in enumerate(SIDES):
        mine = [pair[place] for pair in pairs]
        for name, unit, values in (
            ("intervals over the bound", "%", [100 * each.violations for each in mine]),
            ("cost", "currency/h", [each.cost for each in mine]),
            ("replicas requested", "", [each.replicas for each in mine]),
            ("restarts", "", [float(each.restarts) for each in mine]),
        ):
            yield Figure(
                figure=f"{job}, {side}: {name}, mean", value=statistics.fmean(values), unit=unit
            )
        doubled = sum(each.doubled for each in mine)
        lost = sum(each.missing for each in mine)
        wrong = [each.wrong for each in mine if each.wrong is not None]
        counts = (
            (f"{job}, {side}: doubled at a plain sink", doubled),
            (f"{job}, {side}: lost at a plain sink", lost),
            *([(f"{job}, {side}: lost or doubled by its state", sum(wrong))] if wrong else []),
        )
        for figure, count in counts:
            if side == WEIR:
                yield no_records(figure, count)
            else:
                yield Figure(figure=figure, value=count, unit="records")


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
