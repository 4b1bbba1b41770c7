"""What is done to processes and to Weir itself: kills, and a Lease lost in mid-change.

A fault is injected, lasts, is healed, and leaves a trace until the world has noticed it: a pod that
was killed is still listed as ready for a moment, and a look at that moment would find all well.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import random
import signal
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from benchmarks.chaos_looks import find_idle_job, look_back
from benchmarks.chaos_world import NAME, ChaosWorld, replicas_of
from weir_operator.clock import SystemClock, wait_until
from weir_operator.errors import WeirError
from weir_operator.kubernetes.api.client import Body, ConflictError

CLOCK = SystemClock()
LIMIT = 240.0
"""Seconds after which what has not recovered is stuck."""
MOST_RESTARTS = 2
"""Restarts of a pod's container after which the kubelet waits for 20 s and more."""
ENDS = ("Done", "Abandoned", "RolledBack", "Failed")
"""Steps at which a change has ended."""
MID_CHANGE = ("Starting", "Stopping", "Removing", "Submitting", "Verifying")
"""Steps of a change in which Weir may be struck."""
STOLEN_FOR = 15
"""Seconds for which the Lease is somebody else's."""


@dataclass
class Fault(ABC):
    """One harm, injected once."""

    is_input: ClassVar[bool] = False
    """Whether Weir is only given something, after which it must run on as the same process."""
    direct: ClassVar[bool | None] = None
    """Whether Weir must scrape the job itself, or must not; `None` is all one."""

    ended: float = math.nan
    """Unix time at which it was over; NaN before."""
    detail: str = ""
    """What was struck, of what was drawn."""
    prevented: str = ""
    """What Weir should have done all the same, and did not; empty where it did."""
    kills: Counter[str] = field(default_factory=Counter)
    """How often processes of pods were killed, by the pod's uid."""

    @abstractmethod
    async def inject(self, world: ChaosWorld, draw: random.Random) -> None:
        """Do it, and return when it has lasted as long as it should."""

    async def heal(self, world: ChaosWorld) -> None:  # noqa: B027 - most end by themselves
        """Take it back, where it does not end by itself; also after an `inject` that failed."""

    async def find_trace(self, world: ChaosWorld) -> str:
        """Return what the world has not noticed yet; empty when it has."""
        return ""


@dataclass
class Kill(Fault):
    """Some pods' processes die at once; half of the times the pods are gone, too."""

    struck: dict[str, tuple[str, int]] = field(default_factory=dict)
    """Uid and restarts by name of those that were struck."""

    async def find_trace(self, world: ChaosWorld) -> str:
        """Return the pods that are listed as if nothing had happened."""
        pods = [*await world.controllers(), *await world.flink_pods("jobmanager")]
        for pod in [*pods, *await world.flink_pods()]:
            if self.struck.get(pod["metadata"]["name"]) == (pod["metadata"]["uid"], restarts(pod)):
                return f"{pod['metadata']['name']} is listed as before"
        return ""

    async def kill(self, world: ChaosWorld, pods: list[Body], draw: random.Random) -> None:
        """Kill these.

        The kubelet waits longer before each restart of a container, which says nothing of Weir: a
        pod that has had some dies as a whole.
        """
        with_pod = draw.random() < 0.5
        for pod in pods:
            await self.kill_one(world, pod, with_pod=with_pod or restarts(pod) >= MOST_RESTARTS)
        self.ended = CLOCK.now()

    async def kill_one(self, world: ChaosWorld, pod: Body, *, with_pod: bool) -> None:
        """Kill the processes of a pod, or have it gone with them."""
        name = pod["metadata"]["name"]
        self.struck[name] = pod["metadata"]["uid"], restarts(pod)
        self.detail = f"{self.detail} {name}{' with its pod' if with_pod else ''}".strip()
        if with_pod:
            await world.place.api.delete(f"{world.core}/pods/{name}", grace=0)
        else:
            self.kills[pod["metadata"]["uid"]] += 1
            signal_processes(pod, signal.SIGKILL)


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


class JobResultLeft(Kill):
    """The JobManager dies between noting that a job has ended and that its application has.

    Flink 2.3.0 cannot start with what it leaves then. It is left here by hand, because the moment
    is hit once in some hundred kills.
    """

    async def inject(self, world: ChaosWorld, draw: random.Random) -> None:
        """Leave the note of an invented job, and kill."""
        job = f"{draw.getrandbits(128):032x}"
        recovery = world.place.state / f"{world.place.namespace}.{NAME}" / "recovery"
        folders = [*recovery.glob("results-*/jobs"), recovery / "job-result-store/default"]
        ended = {"id": job, "name": NAME, "application-status": "SUCCEEDED", "application-id": job}
        times = {"net-runtime": 9, "start-time": 1, "end-time": 10, "accumulator-results": {}}
        note = json.dumps({"result": {**ended, **times}, "version": 1})
        for folder in folders:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"{job}_DIRTY.json").write_text(note)
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

        await wait_until(nobody, clock=CLOCK, timeout=90.0, period=0.2)
        await self.kill(world, await world.flink_pods("jobmanager"), draw)
        before = await look_back(world)

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
        await until_step(world, MID_CHANGE[draw.randrange(len(MID_CHANGE)) :])
        self.detail = f"at {await step_of(world)}:"


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


def signal_processes(pod: Body, number: int) -> None:
    """Send the processes of a pod's containers a signal, without a word to Kubernetes.

    The cluster's nodes share this machine's kernel, so they are found by the containers' cgroups.
    """
    for process in processes_of(pod):
        with suppress(ProcessLookupError):  # it ended by itself in between
            os.kill(process, number)


def processes_of(pod: Body) -> list[int]:
    """Return the ids of the processes of a pod's containers."""
    ids = {
        each["containerID"].rpartition("/")[2]
        for each in pod["status"].get("containerStatuses", ())
        if each.get("containerID")
    }
    found = []
    for entry in Path("/proc").iterdir():
        # One that ended meanwhile has no file, or one that cannot be read.
        with suppress(FileNotFoundError, ProcessLookupError):
            if entry.name.isdigit() and any(i in (entry / "cgroup").read_text() for i in ids):
                found.append(int(entry.name))
    return found


async def until_step(world: ChaosWorld, steps: Sequence[str], period: float = 0.05) -> int:
    """Ask for another number of replicas and wait for one of these steps, or the change's end.

    Returns:
        The number that was asked for, of `aggregate`.
    """
    known = ((await world.status()).get("rescale") or {}).get("id")
    wanted = await world.ask_for_change()

    async def there() -> bool | None:
        journal = (await world.status()).get("rescale") or {}
        if journal.get("id") == known:
            return None
        return True if journal.get("step") in (*steps, *ENDS) else None

    await wait_until(there, clock=CLOCK, timeout=120.0, period=period)
    return wanted


async def until_changed(world: ChaosWorld, wanted: int, limit: float) -> str:
    """Wait until a change that was asked for has come about; return why not, empty where it has."""
    last = ""

    async def changed() -> bool | None:
        nonlocal last
        try:
            status = await world.status()
        except WeirError as error:
            last = str(error)
            return None
        journal = status.get("rescale") or {}
        last = f"{journal.get('step')}: {journal.get('failure') or 'no failure'}"
        ended = journal.get("step", "Done") in ENDS
        return True if ended and replicas_of(status) == wanted else None

    if await wait_until(changed, clock=CLOCK, timeout=limit, period=0.5):
        return ""
    return f"a change did not come about within {limit:g} s ({last})"


async def step_of(world: ChaosWorld) -> str:
    """Return at which step the change under way is."""
    return str(((await world.status()).get("rescale") or {}).get("step", "none"))
