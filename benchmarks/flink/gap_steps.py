"""Where the output gap of a rescale goes, and how much of it is Flink's own.

The steps are read from the times at which records reached the sink, from the journal, and from the
JobManager's log. What is Flink's own is measured by a stop with savepoint and a start of the same
job on the same TaskManagers, by Flink's REST interface alone: no journal, no check, no TaskManager
that is added or removed.
"""

from __future__ import annotations

import asyncio
import re
import statistics
import time
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

from benchmarks.figures import Figure
from benchmarks.flink.ledger import Arrival, find_gap
from benchmarks.flink.trips_cluster import TripsCluster
from weir_operator.clock import SystemClock, wait_until
from weir_operator.flink.rest import FlinkRest
from weir_operator.rescale.journal import RescaleJournal, Step, new_id
from weir_operator.runtime.local import processes

STEPS = (
    "last record to the savepoint's end",
    "until the old job has ended",
    "until the removed TaskManager is forgotten",
    "until the new job is accepted",
    "until it has its slots",
    "until the first record",
)
"""Parts of the gap, in order."""
_PERIOD = 0.05
"""Seconds between two looks at the CPU that processes have used."""
_POLL = 0.005
_LINE = re.compile(r"(\S+) INFO +(.*)")
_SAVEPOINT = "Completed checkpoint "
_DEPLOYS = "switched from SCHEDULED to DEPLOYING."


@dataclass(frozen=True, kw_only=True, slots=True)
class Restart:
    """A restart of the job by Flink's REST interface alone; Unix seconds."""

    stop: float
    """It was asked for."""
    accepted: float
    """The submission was answered."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Used:
    """CPU seconds."""

    total: float
    """Of all processes."""
    job_manager: float


class CpuOfFlink:
    """Follows the CPU time of the processes under a folder; an async context manager."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._times: list[float] = []
        self._used: list[Used] = []
        self._of: dict[int, float] = {}
        self._job_managers: set[int] = set()
        self._following: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        """Begin."""
        self._following = asyncio.create_task(self._follow())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End."""
        if self._following is not None:
            self._following.cancel()
            with suppress(asyncio.CancelledError):
                await self._following

    def between(self, start: float, end: float) -> Used:
        """Return the CPU seconds used between two Unix times, a little more at most."""
        first = self._used[max(0, bisect_right(self._times, start) - 1)]
        last = self._used[min(len(self._times) - 1, bisect_left(self._times, end))]
        return Used(
            total=last.total - first.total, job_manager=last.job_manager - first.job_manager
        )

    async def _follow(self) -> None:
        looked = 0.0
        while True:
            now = time.time()
            if now - looked >= 1.0:  # processes come and go seldom
                for folder, identity in processes.find_under(self._folder).items():
                    self._of.setdefault(identity.pid, 0.0)
                    if folder.relative_to(self._folder).parts[0] == "jm":
                        self._job_managers.add(identity.pid)
                looked = now
            for pid in self._of:
                with suppress(psutil.Error):  # of one that has ended, what was seen last counts
                    used = psutil.Process(pid).cpu_times()
                    self._of[pid] = used.user + used.system
            self._times.append(now)
            self._used.append(
                Used(
                    total=sum(self._of.values()),
                    job_manager=sum(self._of[pid] for pid in self._job_managers),
                )
            )
            await asyncio.sleep(_PERIOD)


async def restart_by_rest(cluster: TripsCluster) -> Restart:
    """Stop the job with a savepoint and start it again, as it is; the status knows the new one.

    Raises:
        RuntimeError: A savepoint failed, or takes too long.
    """
    status = cluster.store.load()
    spec = cluster.spec
    arguments = spec.program_arguments(status.deployments)
    configuration = {
        **spec.configuration(status.deployments),
        **await cluster.jobs.managed_memory(),
    }
    jar, old, new = await cluster.runtime.provide_jar(), status.job_id or "", new_id()
    async with FlinkRest(cluster.runtime.rest_url) as rest:
        began, trigger = time.time(), new_id()
        await rest.stop_with_savepoint(old, trigger_id=trigger)
        savepoint = await _stopped(rest, old, trigger)
        await rest.run_jar(
            jar,
            job_id=new,
            entry_class=spec.entry_class,
            arguments=arguments,
            savepoint_path=savepoint,
            configuration=configuration,
        )
        accepted = time.time()
    await cluster.store.save(cluster.store.load().model_copy(update={"job_id": new}))
    return Restart(stop=began, accepted=accepted)


async def _stopped(rest: FlinkRest, job: str, trigger: str) -> str:
    async def complete() -> str | None:
        found = await rest.savepoint_status(job, trigger)
        if found is not None and found.failure is not None:
            raise RuntimeError(f"Expected a savepoint, got: {found.failure}")
        return None if found is None else found.path

    path = await wait_until(complete, clock=SystemClock(), timeout=60.0, period=_POLL)
    if path is None:
        raise RuntimeError("Expected a savepoint within 60 s, got none")
    return path


def figures_of_restarts(
    name: str, restarts: Sequence[Restart], arrivals: Sequence[Arrival], cpu: CpuOfFlink
) -> list[Figure]:
    """Return the gap of restarts by Flink alone, and its CPU."""
    gaps = [find_gap(arrivals, each.stop, each.accepted + 1.5) for each in restarts]
    return [
        Figure(
            figure=f"{name}, Flink alone: output gap, median of {len(gaps)}",
            value=statistics.median(after - before for before, after in gaps),
            unit="s",
        ),
        *_figures_of_cpu(f"{name}, Flink alone", [cpu.between(*gap) for gap in gaps]),
    ]


def figures_of_steps(
    name: str,
    ends: Sequence[RescaleJournal],
    arrivals: Sequence[Arrival],
    logs: Path,
    cpu: CpuOfFlink,
) -> list[Figure]:
    """Return the steps of the gaps of changes, medians, and the CPU in the gaps.

    Args:
        name: How the figures are to begin.
        ends: The changes.
        arrivals: The records at the sink.
        logs: Folder of the JobManager's logs.
        cpu: Of the job's processes.
    """
    lines = _read(logs)
    gaps = [
        find_gap(arrivals, each.times[str(Step.STOP)], each.times[str(Step.DONE)] + 1.0)
        for each in ends
    ]
    marks = [
        (before, *_marks(each, lines), after)
        for each, (before, after) in zip(ends, gaps, strict=True)
    ]
    parts = [
        statistics.median(each[place + 1] - each[place] for each in marks)
        for place in range(len(STEPS))
    ]
    return [
        *(
            Figure(figure=f"{name}: {step}, median", value=part, unit="s")
            for step, part in zip(STEPS, parts, strict=True)
        ),
        *_figures_of_cpu(name, [cpu.between(*gap) for gap in gaps]),
    ]


def _figures_of_cpu(name: str, used: Sequence[Used]) -> list[Figure]:
    """Return the CPU time of gaps, in all and of the JobManager; medians."""
    figure = f"{name}: CPU in the gap"
    return [
        Figure(
            figure=f"{figure}, median",
            value=statistics.median(each.total for each in used),
            unit="s",
        ),
        Figure(
            figure=f"{figure}, the JobManager, median",
            value=statistics.median(each.job_manager for each in used),
            unit="s",
        ),
    ]


def _marks(change: RescaleJournal, lines: Sequence[tuple[float, str]]) -> tuple[float, ...]:
    """Return the ends of all steps but the last."""
    old, new = change.old_job, change.new_job

    def first(*words: str, after: float = 0.0) -> float:
        return next(
            when for when, line in lines if when >= after and all(word in line for word in words)
        )

    stop = change.times[str(Step.STOP)]
    accepted = first(f"({new})", "switched from state CREATED to RUNNING", "Job ")
    return (
        first(_SAVEPOINT, f"for job {old}", after=stop),
        first(f"({old})", "switched from state RUNNING to FINISHED", "Job ", after=stop),
        change.times[str(Step.SUBMIT)],
        accepted,
        first(_DEPLOYS, after=accepted),
    )


def _read(logs: Path) -> list[tuple[float, str]]:
    """Return time, Unix seconds, and text of every line, in order."""
    found = []
    for path in logs.glob("flink.log*"):
        for line in path.read_text(errors="replace").splitlines():
            if match := _LINE.match(line):
                when = datetime.fromisoformat(match[1].replace(",", "."))
                found.append((when.timestamp(), match[2]))
    return sorted(found)
