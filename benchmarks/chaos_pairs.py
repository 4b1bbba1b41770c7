"""Two at once: Weir dies together with the JobManager, or two installations have one StreamApp."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import ClassVar, TypeVar

from benchmarks.chaos_faults import (
    CLOCK,
    MID_CHANGE,
    MOST_RESTARTS,
    Fault,
    MidChange,
    processes_of,
    restarts,
    step_of,
    until_step,
)
from benchmarks.chaos_world import ChaosWorld
from weir_operator.clock import wait_until
from weir_operator.flink.answers import Job, SavepointProgress
from weir_operator.flink.rest import FlinkRest
from weir_operator.kubernetes.status.ownership import ANNOTATION
from weir_operator.runtime.kubernetes.configuration import REST_PORT

T = TypeVar("T")

UNWRITTEN = "savepoint complete, its path not written"
"""Beginning of the detail where both died at the worst moment."""


@dataclass
class ControllerAndJobManagerKilled(MidChange):
    """Weir and the JobManager die at once in the middle of a change.

    Half of the times at the worst moment: the savepoint is complete, the job has ended, and Weir
    has not written where the savepoint is. Flink's memory of it goes with the JobManager.
    """

    async def inject(self, world: ChaosWorld, draw: random.Random) -> None:
        """Wait for the moment, and kill both."""
        if draw.random() < 0.5:
            await self._kill_at_savepoint(world)
            return
        await self.until_changing(world, draw)
        both = [*await world.controllers(), *await world.flink_pods("jobmanager")]
        await self.kill(world, both, draw)

    async def _kill_at_savepoint(self, world: ChaosWorld) -> None:
        [weir], [manager] = await world.controllers(), await world.flink_pods("jobmanager")
        sources = [
            pod
            for pod in await world.flink_pods()
            if pod["metadata"]["labels"].get("weir.dev/operator") == "source"
        ]
        frozen, slowed = processes_of(weir), processes_of(sources[0])
        await until_step(world, MID_CHANGE[1:], period=0.01)
        try:
            # A source that stands still keeps the savepoint in progress until Weir is frozen, too.
            _signal(slowed, signal.SIGSTOP)
            journal = (await world.status()).get("rescale") or {}
            job, trigger = str(journal.get("old_job")), str(journal.get("trigger"))
            async with FlinkRest(f"http://{manager['status']['podIP']}:{REST_PORT}") as rest:

                async def ask() -> SavepointProgress | None:
                    return await rest.savepoint_status(job, trigger)

                await _until(ask, lambda progress: progress is not None, limit=5.0)
                _signal(frozen, signal.SIGSTOP)
                _signal(slowed, signal.SIGCONT)
                await _until(ask, _is_over, limit=30.0)
                await _until(lambda: rest.job(job), _has_ended, limit=10.0)
            written = (await world.status()).get("rescale") or {}
            is_unwritten = written.get("step") == "Stopping" and not written.get("restore_path")
            self.detail = f"{UNWRITTEN if is_unwritten else 'late, at ' + written['step']}:"
            await self.kill_one(world, manager, with_pod=True)
            await self.kill_one(world, weir, with_pod=restarts(weir) >= MOST_RESTARTS)
            self.ended = CLOCK.now()
        finally:
            _signal([*slowed, *frozen], signal.SIGCONT)


@dataclass
class HandedOver(Fault):
    """Another installation gets the StreamApp by its annotation in mid-change, and gives it back.

    Half of the times the other one has taken over by then and is in the middle of a change of its
    own; else it goes back and forth within seconds.
    """

    is_input: ClassVar[bool] = True

    async def inject(self, world: ChaosWorld, draw: random.Random) -> None:
        """Hand it over, and back."""
        other = await world.install_other()
        steps = [MID_CHANGE[draw.randrange(len(MID_CHANGE)) :] for _ in range(2)]
        quick, pause = draw.random() < 0.5, draw.uniform(0.0, 4.0)
        await until_step(world, steps[0])
        self.detail = f"at {await step_of(world)}"
        await _give(world, other)
        if quick:
            await asyncio.sleep(pause)
            self.detail += f", back after {pause:.1f} s"
        else:
            self.prevented = await _until_home(world, other)
            if not self.prevented:
                await until_step(world, steps[1])
            self.detail += f", back at {await step_of(world)}"
        await _give(world, world.home)
        self.prevented = self.prevented or await _until_home(world, world.home)

    async def heal(self, world: ChaosWorld) -> None:
        """Have it with the first installation alone."""
        await _give(world, world.home)
        await _until_home(world, world.home)
        await asyncio.to_thread(world.uninstall_other)
        await _give(world, None)
        self.ended = CLOCK.now()


async def _give(world: ChaosWorld, home: str | None) -> None:
    await world.place.api.patch(world.app_path, {"metadata": {"annotations": {ANNOTATION: home}}})


async def _until_home(world: ChaosWorld, home: str) -> str:
    """Wait until an installation has taken the StreamApp over; return why not."""

    async def there() -> bool | None:
        return True if (await world.status())["controller"].get("home") == home else None

    if await wait_until(there, clock=CLOCK, timeout=60.0, period=0.2):
        return ""
    return f"{home} has not taken it over within 60 s"


def _signal(processes: list[int], number: int) -> None:
    for process in processes:
        with suppress(ProcessLookupError):
            os.kill(process, number)


async def _until(
    ask: Callable[[], Awaitable[T]], is_there: Callable[[T], bool], limit: float
) -> None:
    """Ask until what is awaited is there; past the limit it goes on without."""

    async def there() -> bool | None:
        return True if is_there(await ask()) else None

    await wait_until(there, clock=CLOCK, timeout=limit, period=0.005)


def _has_ended(job: Job | None) -> bool:
    return job is not None and job.state.is_over


def _is_over(progress: SavepointProgress | None) -> bool:
    return progress is not None and not progress.in_progress
