"""What is done to processes and to Weir itself: kills, and a Lease lost in mid-change.

A fault is injected, lasts, is healed, and leaves a trace until the world has noticed it: a pod that
was killed is still listed as ready for a moment, and a look at that moment would find all well.
"""

from __future__ import annotations

import asyncio
import math
import os
import random
import signal
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from benchmarks.chaos_looks import find_idle_job, look_back
from benchmarks.chaos_world import ChaosWorld, operators
from weir_operator.clock import SystemClock, wait_until
from weir_operator.cluster.api import Body, ConflictError
from weir_operator.errors import WeirError

CLOCK = SystemClock()
LIMIT = 240.0
"""Seconds after which what has not recovered is stuck."""
MID_CHANGE = ("Starting", "Stopping", "Removing", "Submitting", "Verifying")
"""Steps of a change in which Weir may be struck."""
STOLEN_FOR = 15
"""Seconds for which the Lease is somebody else's."""


class Fault(Protocol):
    """One harm, injected once."""

    ended: float
    """Unix time at which it was over; NaN before."""

    async def inject(self, world: ChaosWorld, draw: random.Random) -> None:
        """Do it, and return when it has lasted as long as it should."""

    async def heal(self, world: ChaosWorld) -> None:
        """Take it back, where it does not end by itself; also after an `inject` that failed."""

    async def find_trace(self, world: ChaosWorld) -> str:
        """Return what the world has not noticed yet; empty when it has."""
        ...


@dataclass
class Kill:
    """Some pods' processes die at once; half of the times the pods are gone, too."""

    struck: dict[str, tuple[str, int]] = field(default_factory=dict)
    """Uid and restarts by name of those that were struck."""
    ended: float = math.nan

    async def heal(self, world: ChaosWorld) -> None:
        """Nothing lasts."""

    async def find_trace(self, world: ChaosWorld) -> str:
        """Return the pods that are listed as if nothing had happened."""
        pods = [*await world.controllers(), *await world.flink_pods("jobmanager")]
        for pod in [*pods, *await world.flink_pods()]:
            if self.struck.get(pod["metadata"]["name"]) == (pod["metadata"]["uid"], restarts(pod)):
                return f"{pod['metadata']['name']} is listed as before"
        return ""

    async def kill(self, world: ChaosWorld, pods: list[Body], draw: random.Random) -> None:
        """Kill these."""
        with_pod = draw.random() < 0.5
        for pod in pods:
            name = pod["metadata"]["name"]
            self.struck[name] = pod["metadata"]["uid"], restarts(pod)
            if with_pod:
                await world.place.api.delete(f"{world.core}/pods/{name}", grace=0)
            else:
                kill_processes(pod)
        self.ended = CLOCK.now()


class ControllerKilled(Kill):
    """Weir dies."""

    async def inject(self, world: ChaosWorld, draw: random.Random) -> None:
        """Kill it."""
        await self.kill(world, await world.controllers(), draw)


class JobManagerKilled(Kill):
    """Flink's JobManager dies."""

    async def inject(self, world: ChaosWorld, draw: random.Random) -> None:
        """Kill it."""
        await self.kill(world, await world.flink_pods("jobmanager"), draw)


class TaskManagersKilled(Kill):
    """One or two TaskManagers die."""

    async def inject(self, world: ChaosWorld, draw: random.Random) -> None:
        """Kill them."""
        pods = await world.flink_pods()
        await self.kill(world, draw.sample(pods, draw.randint(1, 2)), draw)


@dataclass
class JobManagerKilledWithoutWeir(Kill):
    """The JobManager dies while there is no controller; the job comes back without it."""

    took: float | None = None
    """Seconds until the job ran again, its first new checkpoint included; `None`: it did not."""

    async def inject(self, world: ChaosWorld, draw: random.Random) -> None:
        """Scale Weir to zero, kill, and wait for the job."""
        status = await world.status()
        await world.scale_weir(0)

        async def nobody() -> bool | None:
            return None if await world.controllers() else True

        await wait_until(nobody, clock=CLOCK, timeout=90.0, period=0.5)
        await self.kill(world, await world.flink_pods("jobmanager"), draw)
        before = look_back(world)

        async def back() -> bool | None:
            try:
                missing = await self.find_trace(world)
                return None if missing or await find_idle_job(world, status, before) else True
            except WeirError:
                return None  # a JobManager that is gone answers nothing

        if await wait_until(back, clock=CLOCK, timeout=LIMIT / 2, period=0.5):
            self.took = CLOCK.now() - before.time

    async def heal(self, world: ChaosWorld) -> None:
        """Have Weir again."""
        await world.scale_weir(1)
        self.ended = CLOCK.now()


@dataclass
class MidChange(Kill):
    """A rescale is asked for, and Weir is struck at one of its steps."""

    async def until_changing(self, world: ChaosWorld, draw: random.Random) -> None:
        """Ask for another number of replicas and wait for a step that is drawn, or a later one."""
        status = await world.status()
        known = (status.get("rescale") or {}).get("id")
        now = sum(status["controller"]["deployments"]["aggregate"].values())
        await world.change(operators=operators(aggregate=2 if now == 1 else 1))
        steps = MID_CHANGE[draw.randrange(len(MID_CHANGE)) :]

        async def there() -> bool | None:
            journal = (await world.status()).get("rescale") or {}
            if journal.get("id") == known:
                return None
            return True if journal.get("step") in (*steps, "Done") else None

        await wait_until(there, clock=CLOCK, timeout=120.0, period=0.05)


class ControllerKilledMidChange(MidChange):
    """Weir dies in the middle of a rescale."""

    async def inject(self, world: ChaosWorld, draw: random.Random) -> None:
        """Wait for the step, and kill."""
        await self.until_changing(world, draw)
        await self.kill(world, await world.controllers(), draw)


class LeaseLostMidChange(MidChange):
    """The Lease becomes another's in the middle of a rescale, and is free again after a while."""

    async def inject(self, world: ChaosWorld, draw: random.Random) -> None:
        """Wait for the step, take the Lease, and see that Weir notices."""
        await self.until_changing(world, draw)
        before = {pod["metadata"]["name"]: restarts(pod) for pod in await world.controllers()}
        await self._steal(world)
        self.ended = CLOCK.now()

        async def noticed() -> bool | None:
            now = {pod["metadata"]["name"]: restarts(pod) for pod in await world.controllers()}
            return True if now != before else None

        await wait_until(noticed, clock=CLOCK, timeout=60.0, period=0.5)

    async def _steal(self, world: ChaosWorld) -> None:
        while True:
            lease = await world.place.api.get(world.lease_path)
            lease["spec"] |= {"holderIdentity": "chaos", "leaseDurationSeconds": STOLEN_FOR}
            try:
                await world.place.api.replace(world.lease_path, lease)
                return
            except ConflictError:  # its holder renewed it in between
                await asyncio.sleep(0)


def restarts(pod: Body) -> int:
    """Return how often containers of the pod were started again."""
    statuses = pod.get("status", {}).get("containerStatuses", ())
    return sum(int(each["restartCount"]) for each in statuses)


def kill_processes(pod: Body) -> None:
    """Kill the processes of a pod's containers as the kernel would, without a word to Kubernetes.

    The cluster's nodes share this machine's kernel, so they are found by the containers' cgroups.
    """
    ids = {
        each["containerID"].rpartition("/")[2]
        for each in pod["status"].get("containerStatuses", ())
        if each.get("containerID")
    }
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and any(i in (entry / "cgroup").read_text() for i in ids):
                os.kill(int(entry.name), signal.SIGKILL)
        except (FileNotFoundError, ProcessLookupError):
            continue  # it ended by itself in between
