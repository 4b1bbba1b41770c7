"""Jobs that know nothing of Weir, on five versions of Flink: what works unmodified.

Each job is pinned by the agent, started with one replica of each operator, and rescaled three times
over savepoints by Weir's engine: out, in, and out again. A change counts when records pass
afterwards; there must be output, and every record must be committed once. Jobs that Weir cannot
restart without loss must be refused before anything is started.

An upgrade runs a job on one version of Flink, scales it out, stops it with a savepoint, and starts
it from there on another version with one replica of each operator; then it scales out again.

The gap is the time from the stop until Flink has counted a record again, so it includes up to one
second that Weir takes to find out.

The jobs of Nexmark run on one version of Flink; their rows are compared with those that a program
without Flink computes from the events.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import statistics
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from types import MappingProxyType

from benchmarks.figures import Figure, Row, at_least, count_all
from benchmarks.flink.nexmark_results import QUERIES
from benchmarks.flink.prepared_jobs import JOBS, Prepared
from benchmarks.flink.unmodified_job import Unmodified, UnmodifiedJob
from benchmarks.results import BUILD
from weir_operator.clock import SystemClock, wait_until
from weir_operator.errors import WeirError
from weir_operator.flink.jars import REPOSITORY, flink_home
from weir_operator.rescale.journal import RescaleJournal, Step

ABOUT = "Unmodified jobs on five versions of Flink: what can be rescaled, and what was exact"
DURATION = "65 min"

FOLDER = BUILD / "any-job"
OWN = "2.3.0"
VERSIONS = ("1.20.5", "2.0.2", "2.1.3", "2.2.0", OWN)
UPGRADES = ("1.20.5-2.3.0", "2.2.0-2.3.0")
"""From a version of Flink to another."""
UPGRADED = ("word-count", "sql", "kafka", "kinds")
"""Jobs that are upgraded."""
REFUSED = ("iteration", "batch")
"""Jobs that are to be refused."""
ONLY: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"iteration": ("1.20.5",), **{f"nexmark-{query}": (OWN,) for query in QUERIES}}
)
"""Versions for such jobs, where not all have them or need to run them."""
CONFIG: Mapping[str, str] = MappingProxyType(
    {
        "env.java.opts.all": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",  # many short-lived JVMs
        "execution.checkpointing.interval": "1 s",
    }
)
LIMIT = 180.0
"""Seconds until everything is committed."""
CHANGES = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class JobOutcome:
    """A job on a version of Flink, or upgraded from one to another."""

    job: str
    version: str
    done: int = 0
    """Changes that succeeded."""
    seconds: float | None = None
    """Median of a change, from its begin until records pass."""
    gap: float | None = None
    """Median from the stop until records pass."""
    same_ids: bool = False
    """Vertices kept their ids, which are the keys of their state."""
    lost: int = 0
    wrong: int = 0
    compared: int = 0
    """Records that the committed output should have."""
    refused: str = ""
    """Why Weir did not start the job."""
    failure: str = ""
    load: float | None = None
    """Processes that wanted the machine's processors, mean over the last minute of the run."""

    @property
    def is_right(self) -> bool:
        if self.job in REFUSED:
            return bool(self.refused)
        return self.done == CHANGES and self.same_ids and self.is_exact

    @property
    def is_exact(self) -> bool:
        """Whether there was output to compare, and all of it was as it should be."""
        return bool(self.compared) and self.lost == self.wrong == 0


def run() -> list[Figure | Row]:
    """Run every job on every version."""
    versions = (*VERSIONS, *UPGRADES)
    needed = dict.fromkeys(part for each in versions for part in each.split("-") if part != OWN)
    subprocess.run([str(REPOSITORY / "scripts/flink"), *needed], check=True)
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    outcomes = [
        replace(asyncio.run(_try(job, version)), load=round(os.getloadavg()[0], 1))
        for job, version in product(JOBS, versions)
        if _exists(job, version)
    ]
    return [*figures_of(outcomes), *map(row_of, outcomes)]


def _exists(job: str, version: str) -> bool:
    if "-" in version:
        return job in UPGRADED
    return version in ONLY.get(job, VERSIONS)


def _median_of(figure: str, values: Iterable[float | None], unit: str) -> Figure:
    known = [each for each in values if each is not None]
    return Figure(figure, statistics.median(known) if known else None, unit)


def figures_of(outcomes: Sequence[JobOutcome]) -> list[Figure]:
    scaled = [each for each in outcomes if each.job not in REFUSED]
    unwanted = [each for each in outcomes if each.job in REFUSED]
    return [
        at_least(
            "changes that succeeded",
            sum(each.done for each in scaled),
            CHANGES * len(scaled),
            f"of {CHANGES * len(scaled)}",
        ),
        Figure(
            "records lost or doubled",
            sum(each.lost + each.wrong for each in scaled),
            "records",
            goal="exactly 0",
            holds=all(each.is_exact for each in scaled) if scaled else None,
        ),
        Figure("records compared", sum(each.compared for each in scaled), "records"),
        count_all(
            "jobs that wrote output that could be compared",
            [bool(each.compared) for each in scaled],
        ),
        count_all("jobs whose vertices kept their ids", [each.same_ids for each in scaled]),
        count_all(
            "jobs that cannot be restarted without loss, refused before they were started",
            [each.is_right for each in unwanted],
        ),
        _median_of("a change, median over the jobs", (each.seconds for each in scaled), "s"),
        _median_of(
            "from the stop until records pass, median over the jobs",
            (each.gap for each in scaled),
            "s",
        ),
        _median_of("load average beside the runs, median", (each.load for each in outcomes), ""),
    ]


def row_of(outcome: JobOutcome) -> Row:
    """Return what works of a job on a version of Flink."""
    return Row(
        "Unmodified jobs",
        f"{outcome.job}, {outcome.version.replace('-', ' to ')}",
        JOBS[outcome.job][0],
        _format_outcome(outcome),
        beside_what="job",
    )


def _format_outcome(outcome: JobOutcome) -> str:
    if outcome.refused:
        return "refused"
    if outcome.done < CHANGES:
        return f"**{outcome.done} of {CHANGES} changes**: {outcome.failure}".rstrip(": ")
    if not outcome.same_ids:
        return "**other ids**"
    exact = "scaled, exact"
    if not outcome.compared:
        exact = "scaled, **no output to compare**"
    elif outcome.lost or outcome.wrong:
        exact = f"scaled, **{outcome.lost} lost, {outcome.wrong} wrong**"
    return f"{exact}; {outcome.seconds:.0f} s, gap {outcome.gap:.1f} s"


async def _try(name: str, version: str) -> JobOutcome:
    """Run a job; what goes wrong is its outcome."""
    folder = FOLDER / f"{name}-{version}"
    folder.mkdir()
    outcome = JobOutcome(job=name, version=version)
    homes = [
        flink_home() if each == OWN else REPOSITORY / "build/flink" / each
        for each in version.split("-")
    ]
    try:
        with ExitStack() as stack:
            prepared = JOBS[name][1](stack, folder)
            feeding = asyncio.create_task(_feed(prepared))
            try:
                outcome = await _run(outcome, folder, homes, prepared, feeding)
            finally:
                await _stop(feeding)
    except (WeirError, RuntimeError, OSError, subprocess.SubprocessError) as error:
        return replace(outcome, failure=_shorten(error))
    return outcome


async def _run(
    outcome: JobOutcome,
    folder: Path,
    homes: Sequence[Path],
    job: Prepared,
    feeding: asyncio.Task[None],
) -> JobOutcome:
    """Rescale a job on one version of Flink, and go on with it on a second, if there is one."""
    ends: list[RescaleJournal] = []
    ids: list[tuple[str, ...]] = []
    upgrades = 0
    for home in homes:
        unmodified = Unmodified(
            name=f"any-{outcome.job}",
            jar=await asyncio.to_thread(job.build, home),
            folder=folder,
            entry_class=job.entry_class,
            arguments=job.arguments,
            config={**CONFIG, **job.config},
            home=home,
        )
        async with UnmodifiedJob(unmodified) as run:
            run.join(job.join(run.plan))
            small = dict.fromkeys(run.operators, 1)
            large = {each: min(2, run.limit_of(each)) for each in run.operators}
            try:
                await run.start(small)
            except WeirError as error:
                if await _is_untouched(run):
                    return replace(outcome, refused=_shorten(error))
                raise
            upgrades += home is not homes[0]
            ids.append(await _vertex_ids(run))
            for sizes in (large, small, large) if len(homes) == 1 else (large,):
                ends.append(await run.rescale(sizes))
                ids.append(await _vertex_ids(run))
            if home is homes[-1]:
                await _stop(feeding)
                await _wait_for_output(job)
            await run.lifecycle.suspend()
    counted = await asyncio.to_thread(job.count)
    done = [end for end in ends if end.step is Step.DONE]
    return replace(
        outcome,
        done=len(done) + upgrades,
        seconds=_median(done, Step.START),
        gap=_median(done, Step.STOP),
        same_ids=all(each == ids[0] for each in ids),
        lost=counted.lost,
        wrong=counted.wrong,
        compared=counted.compared,
        failure="; ".join(end.failure for end in ends if end.failure),
    )


async def _is_untouched(run: UnmodifiedJob) -> bool:
    """Return whether no TaskManager was started and no job submitted."""
    return not await run.runtime.replicas() and not await run.jobs.live()


async def _feed(job: Prepared) -> None:
    while job.feed is not None:
        await asyncio.to_thread(job.feed)
        await asyncio.sleep(1.0)


async def _stop(feeding: asyncio.Task[None]) -> None:
    feeding.cancel()
    await asyncio.wait([feeding])  # what it is writing counts


async def _vertex_ids(run: UnmodifiedJob) -> tuple[str, ...]:
    job = await (await run.jobs.rest()).job(run.store.load().job_id or "")
    return () if job is None else tuple(vertex.id for vertex in job.vertices)


async def _wait_for_output(job: Prepared) -> None:
    """Wait until nothing of what is known to come is missing, or too long."""
    if not (job.feed or job.is_known):
        return  # what the job has not read is not known

    async def complete() -> bool | None:
        return (await asyncio.to_thread(job.count)).lost <= 0 or None

    await wait_until(complete, clock=SystemClock(), timeout=LIMIT, period=1.0)


def _shorten(error: Exception) -> str:
    return re.sub(r"\s+", " ", str(error))[:300]


def _median(ends: Sequence[RescaleJournal], since: Step) -> float | None:
    taken = [end.times[str(Step.DONE)] - end.times[str(since)] for end in ends]
    return statistics.median(taken) if taken else None
