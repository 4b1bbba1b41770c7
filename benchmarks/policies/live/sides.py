"""A job of the match on real Flink for a time, with Weir's pools or scaled in place; and judged.

What is requested is sampled meanwhile: of Weir with pools, every TaskManager that lives; in place,
the slots that Flink is asked for.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType

import yaml

from benchmarks.flink.flink_autoscaler import run_autoscaler
from benchmarks.flink.ledger import read_arrivals, read_start
from benchmarks.flink.plain_flink import PlainFlink
from benchmarks.policies.live.in_place import run_weir_in_place
from benchmarks.policies.live.jobs import (
    FASTER,
    INTERVAL,
    MEMORY,
    App,
    autoscaler_settings,
    count_slots,
    describe,
    flink_configuration,
    job_arguments,
)
from benchmarks.policies.live.judging import Judged, judge, mean_over_time
from benchmarks.policies.live.quotas import Limited, find_replicas, keep_quotas
from benchmarks.policies.live.weir_local import run_weir_local
from benchmarks.spawned import call_repeatedly
from weir_operator.advise.flink import ExternalFlink
from weir_operator.clock import SystemClock, wait_until
from weir_operator.errors import TemporaryError, WeirError
from weir_operator.flink.answers import JobDetails
from weir_operator.flink.jars import build_example
from weir_operator.flink.rest import FlinkRest
from weir_operator.runtime.processes.folders import AppFolder
from weir_operator.streamapp.quantities import Duration
from weir_simulator.traces import Trace, write_trace

AFTERWARDS = 15
"""Seconds after the last interval that is judged, in which its records may still come out."""
SAMPLE_PERIOD = 0.5
"""Seconds between two samples of what is requested."""
LIMIT = 150.0
"""Seconds for a job to begin, and for it to stop."""
JOB = "1" * 32
STOP = "2" * 32
"""Ids of the job and of its stop, which Flink is given."""

Samples = Sequence[tuple[float, float]]
"""Unix seconds, and the replicas that are requested from then on."""


def run_weir(app: App, arguments: list[str], folder: Path, *, seconds: float) -> Samples:
    """Run the job by `weir local` for a time, with pools; return what was requested."""
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
            seconds=seconds + AFTERWARDS,
            state=state,
            ledger=folder / "out" if app.ledger else None,
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


async def run_in_place(
    app: App,
    arguments: list[str],
    folder: Path,
    *,
    seconds: float,
    autoscaler: Path | None,
    more: Mapping[str, str] = MappingProxyType({}),
) -> Samples:
    """Run the job on a Flink that has all slots; return what it was asked for.

    Args:
        app: The job.
        arguments: Of its program.
        folder: Where all is written.
        seconds: From the job's first record on.
        autoscaler: Jar of Flink's own autoscaler, which scales the job; `None` lets Weir do it.
        more: Keys of Flink's configuration, besides the job's own.
    """
    clock = SystemClock()
    samples: list[tuple[float, float]] = []
    flink = PlainFlink(
        folder=folder / "flink",
        memory=MEMORY,
        job_manager_memory=MEMORY,
        count=count_slots(app),
        user={**flink_configuration(app, folder), **more},
    )
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(flink)
        stack.enter_context(keep_quotas(partial(_find_task_managers, flink, app)))
        rest = await stack.enter_async_context(FlinkRest(flink.url))
        external = await stack.enter_async_context(ExternalFlink(flink.url))
        jar = await rest.upload_jar(str(build_example(app.example)))
        await rest.run_jar(jar, job_id=JOB, entry_class=app.entry_class, arguments=arguments)

        async def find_job() -> JobDetails | None:
            found = await rest.job(JOB)
            return found if found is not None and found.runs else None

        async def find_start() -> float | None:
            return read_start(folder / "out")

        job = await wait_until(find_job, clock=clock, timeout=LIMIT)
        begun = await wait_until(find_start, clock=clock, timeout=LIMIT)
        if job is None or begun is None:
            raise TemporaryError(f"Expected {app.name} to run within {LIMIT:g} s: see {folder}")
        if autoscaler is None:
            beside = run_weir_in_place(app, job, folder / "weir", port=flink.ports[0])
        else:
            ends = [each.id for each in job.vertices if not each.name.startswith(tuple(app.work))]
            beside = run_autoscaler(
                autoscaler,
                folder / "autoscaler",
                port=flink.ports[0],
                job_id=JOB,
                faster=FASTER,
                settings=autoscaler_settings(ends),
            )
        async with beside as check:
            while clock.now() < begun + seconds + AFTERWARDS:
                with suppress(TemporaryError):  # no answer in time: what was asked for last holds
                    wanted = await external.requirements(JOB)
                    samples.append((clock.now(), sum(wanted.values())))
                await clock.sleep(SAMPLE_PERIOD)
                check()

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


def prepare(app: App, rates: Trace, folder: Path, *, seed: int) -> list[str]:
    """Write a run's trace into its folder; return the arguments of the program."""
    out, trace = folder / "out", folder / "trace.txt"
    out.mkdir(parents=True)
    write_trace(trace, rates)
    return job_arguments(app, trace=trace, out=out, seed=seed)


def start_of(app: App, folder: Path) -> float:
    """Return when the job's first record was due, Unix seconds.

    Raises:
        TemporaryError: There was none.
    """
    start = read_start(folder / "out")
    if start is None:
        raise TemporaryError(f"Expected {app.name} to begin, got no record: see {folder}")
    return start


@dataclass(frozen=True, kw_only=True, slots=True)
class JudgedRun:
    """What a run's folder and the samples of what it requested say."""

    judged: Judged
    replicas: Sequence[float]
    """Of each interval, those requested on average."""
    restarts: int


def judge_run(app: App, folder: Path, samples: Samples, *, seconds: int) -> JudgedRun:
    """Judge a run of so many seconds by its intervals."""
    start, intervals = start_of(app, folder), seconds // INTERVAL
    judged = judge(
        read_arrivals(folder / "out"),
        start=start,
        interval=INTERVAL,
        intervals=intervals,
        bound=Duration(app.bound).seconds,
    )
    edges = pairwise(start + INTERVAL * number for number in range(intervals + 1))
    return JudgedRun(
        judged=judged,
        replicas=[mean_over_time(samples, begin=first, end=last) for first, last in edges],
        # A file for each attempt of the sink.
        restarts=len(list((folder / "out").glob("raw-*.csv"))) - 1,
    )
