"""What befalls Weir, the job and what is around them: kills, pauses, lost packets, nodes, storage.

A fault is injected, lasts, is healed, and leaves a trace until the world has noticed it: a pod that
was killed is still listed as ready for a moment, and a look at that moment would find all well.

Packets are dropped or refused by nftables on this machine. All nodes of the cluster share its
network namespace, so what its kernel drops is lost between pods, also between two of one node,
where `net.bridge.bridge-nf-call-iptables` is set (as Kubernetes wants it). Everything is in one
table, and healing is deleting that.
"""

from __future__ import annotations

import asyncio
import math
import os
import random
import signal
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar
from urllib.parse import urlsplit

import yaml

from benchmarks.cluster.chaos.world import (
    ChaosWorld,
    find_missing,
    jobs_alive,
    look_back,
    rest_of,
)
from weir_operator.api.client import Body, NotFoundError
from weir_operator.clock import SystemClock, wait_until
from weir_operator.cluster.status.store import read_journal
from weir_operator.errors import TemporaryError

TABLE = "weir_chaos"
_HOOKS = ("forward", "input", "output")


class NetworkCutError(Exception):
    """nftables refused."""


def drop_between(first: str, second: str) -> None:
    """Drop what two addresses send each other."""
    _begin(
        rule
        for a, b in ((first, second), (second, first))
        for rule in (f"forward ip saddr {a} ip daddr {b} drop",)
    )


def isolate(address: str) -> None:
    """Drop what a pod sends to other pods and they to it; its node still reaches it."""
    _begin((f"forward ip saddr {address} drop", f"forward ip daddr {address} drop"))


def close_port(port: int, *, refuse: bool) -> None:
    """Let nobody reach a TCP port of this machine: refused at once, or without any answer."""
    verdict = "reject with tcp reset" if refuse else "drop"
    _begin((f"input tcp dport {port} {verdict}",))


def let_everything_through() -> None:
    """Take back whatever was cut; nothing may have been."""
    _nft(f"add table inet {TABLE}\ndelete table inet {TABLE}\n")


def _begin(rules: Iterable[str]) -> None:
    lines = [f"add table inet {TABLE}"]
    # Before kube-proxy's, so that no rule of its own lets anything pass unseen.
    lines += [
        f"add chain inet {TABLE} {hook} {{ type filter hook {hook} priority -150; }}"
        for hook in _HOOKS
    ]
    lines += [f"add rule inet {TABLE} {rule}" for rule in rules]
    _nft("\n".join(lines) + "\n")


def _nft(script: str) -> None:
    done = subprocess.run(
        ["nft", "-f", "-"], input=script, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise NetworkCutError(f"Expected nft to take {script!r}, got: {done.stderr.strip()}")


CLOCK = SystemClock()
LIMIT = 240.0
"""Seconds after which what has not recovered is stuck."""
MAX_RESTARTS = 2
"""Restarts of a pod's container after which the kubelet waits for 20 s and more."""
ENDS = ("Done", "Abandoned", "RolledBack", "Failed")
"""Steps at which a change has ended."""
MID_CHANGE = ("Starting", "Stopping", "Removing", "Submitting", "Verifying")
"""Steps of a change in which Weir may be struck."""


@dataclass
class Fault(ABC):
    """One harm, injected once."""

    leaves_job: ClassVar[bool] = False
    """Whether the job has no reason to be down for long."""
    strikes_controller: ClassVar[bool] = False
    """Whether the controller's container may restart."""

    ended: float = math.nan
    """Unix time at which it was over; NaN before."""

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
        pods = [*await world.controllers(), *await world.app.pods("jobmanager")]
        for pod in [*pods, *await world.app.pods("taskmanager")]:
            if self.struck.get(pod["metadata"]["name"]) == (pod["metadata"]["uid"], restarts(pod)):
                return f"{pod['metadata']['name']} is listed as before"
        return ""

    async def kill(self, world: ChaosWorld, pods: list[Body], draw: random.Random) -> None:
        with_pod = draw.random() < 0.5
        for pod in pods:
            await self.kill_one(world, pod, with_pod=with_pod or restarts(pod) >= MAX_RESTARTS)
        self.ended = CLOCK.now()

    async def kill_one(self, world: ChaosWorld, pod: Body, *, with_pod: bool) -> None:
        """Kill the processes of a pod, or have it gone with them."""
        name = pod["metadata"]["name"]
        self.struck[name] = pod["metadata"]["uid"], restarts(pod)
        if with_pod:
            await world.place.api.delete(f"{world.core}/pods/{name}", grace=0)
        else:
            signal_processes(pod, signal.SIGKILL)


class ControllerKilled(Kill):
    strikes_controller = True

    async def inject(self, world: ChaosWorld, draw: random.Random) -> None:
        await self.kill(world, await world.controllers(), draw)


class JobManagerKilled(Kill):
    """Flink's JobManager dies."""

    async def inject(self, world: ChaosWorld, draw: random.Random) -> None:
        await self.kill(world, await world.app.pods("jobmanager"), draw)


class TaskManagersKilled(Kill):
    async def inject(self, world: ChaosWorld, draw: random.Random) -> None:
        pods = await world.app.pods("taskmanager")
        await self.kill(world, draw.sample(pods, draw.randint(1, 2)), draw)


@dataclass
class ControllerKilledMidChange(Kill):
    """A rescale is asked for, and Weir dies at one of its steps."""

    strikes_controller = True

    async def inject(self, world: ChaosWorld, draw: random.Random) -> None:
        """Wait for a step that is drawn, or a later one, and kill."""
        await until_drawn_step(world, draw, self.ask(world))
        await self.kill(world, await self.find_victims(world), draw)

    def ask(self, world: ChaosWorld) -> Callable[[], Awaitable[object]]:
        """Return what asks for the change."""
        return world.ask_for_change

    async def find_victims(self, world: ChaosWorld) -> list[Body]:
        """Return the pods that die."""
        return await world.controllers()


class ControllerKilledMidUpgrade(ControllerKilledMidChange):
    """The StreamApp is edited, and Weir dies at one of the steps by which the job gets there."""

    def ask(self, world: ChaosWorld) -> Callable[[], Awaitable[object]]:
        return world.ask_for_upgrade


class ControllerAndJobManagerKilled(ControllerKilledMidChange):
    """Weir and the JobManager die at once in the middle of a change."""

    async def find_victims(self, world: ChaosWorld) -> list[Body]:
        return [*await world.controllers(), *await world.app.pods("jobmanager")]


def restarts(pod: Body) -> int:
    """Return how often containers of the pod were started again."""
    statuses = pod.get("status", {}).get("containerStatuses", ())
    return sum(int(each["restartCount"]) for each in statuses)


def signal_processes(pod: Body, number: int) -> None:
    """Send the processes of a pod's containers a signal, without a word to Kubernetes."""
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


async def until_drawn_step(
    world: ChaosWorld, draw: random.Random, ask: Callable[[], Awaitable[object]]
) -> None:
    """Ask for a change, and wait for a step of it that is drawn or a later one, or its end."""
    steps = MID_CHANGE[draw.randrange(len(MID_CHANGE)) :]
    known = read_journal(await world.app.status()).get("id")
    await ask()

    async def there() -> bool | None:
        journal = read_journal(await world.app.status())
        if journal.get("id") == known:
            return None
        return True if journal.get("step") in (*steps, *ENDS) else None

    await wait_until(there, clock=CLOCK, timeout=120.0, period=0.05)


async def until(
    holds: Callable[[], Awaitable[bool]], what: str, *, limit: float = LIMIT, period: float = 0.5
) -> None:
    """Wait until something holds.

    Raises:
        TemporaryError: It does not in time.
    """

    async def there() -> bool | None:
        return True if await holds() else None

    if not await wait_until(there, clock=CLOCK, timeout=limit, period=period):
        raise TemporaryError(f"Expected {what} within {limit:g} s")


AWAY = 45.0
"""Seconds for which nobody reaches the API server: longer than a Lease lasts."""
STAYS_AWAY = 90.0
"""Seconds for which a node is away at most."""
NODES = "/api/v1/nodes"


@dataclass
class NodeCordoned(Fault):
    """A node with a TaskManager takes no more pods: Weir is to leave it."""

    node: str = ""

    async def inject(self, world: ChaosWorld, draw: random.Random) -> None:
        """Cordon a node that a TaskManager is on."""
        pods = await world.app.pods("taskmanager")
        nodes = {pod["spec"].get("nodeName", "") for pod in pods} - {""}
        self.node = draw.choice(sorted(nodes))
        self.ended = CLOCK.now()
        await self._mark(world, unschedulable=True)
        await self.until_left(world)

    async def heal(self, world: ChaosWorld) -> None:
        if self.node:
            await self._mark(world, unschedulable=None)

    async def until_left(self, world: ChaosWorld) -> None:
        """Wait until no TaskManager is on the node and all is well."""
        before = await look_back(world)

        async def left() -> bool | None:
            try:
                pods = [pod for pod in await world.app.pods("taskmanager") if self.has(pod)]
                return None if pods or await find_missing(world, before) else True
            except TemporaryError:
                return None

        await wait_until(left, clock=CLOCK, timeout=STAYS_AWAY, period=0.5)

    def has(self, pod: Body) -> bool:
        return bool(pod["spec"].get("nodeName") == self.node)

    async def _mark(self, world: ChaosWorld, *, unschedulable: bool | None) -> None:
        body = {"spec": {"unschedulable": unschedulable}}
        await world.place.api.patch(f"{NODES}/{self.node}", body)


@dataclass
class NodeDrained(NodeCordoned):
    """A node is cordoned, and everything of ours on it evicted, as `kubectl drain` does."""

    async def until_left(self, world: ChaosWorld) -> None:
        """Evict until nothing is left on the node, and wait until all is well."""
        # Where the other nodes are full, a drain waits for as long as Weir looks for room.
        async with asyncio.timeout(LIMIT):
            while left := await self._left(world):
                for pod in left:
                    await self._evict(world, pod)
                await asyncio.sleep(1.0)
        await super().until_left(world)

    async def _left(self, world: ChaosWorld) -> list[Body]:
        pods = [*await world.app.pods("taskmanager"), *await world.app.pods("jobmanager")]
        return [pod for pod in [*pods, *await world.controllers()] if self.has(pod)]

    async def _evict(self, world: ChaosWorld, pod: Body) -> None:
        name = pod["metadata"]["name"]
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": world.place.namespace},
        }
        # A disruption budget may say not yet: `kubectl drain` asks again, and so do we.
        with suppress(TemporaryError, NotFoundError):
            await world.place.api.create(f"{world.core}/pods/{name}/eviction", body)


class NetworkFault(Fault):
    """Packets are lost; all of them get through again when it is healed."""

    async def heal(self, world: ChaosWorld) -> None:
        """Let everything through."""
        let_everything_through()
        self.ended = CLOCK.now()


class ApiServerAway(NetworkFault):
    """Nobody reaches the API server: connections are refused, or nobody answers."""

    async def inject(self, world: ChaosWorld, draw: random.Random) -> None:
        port = urlsplit(api_server_url()).port or 443
        close_port(port, refuse=draw.random() < 0.5)
        await asyncio.sleep(AWAY)


class PrometheusAway(NetworkFault):
    """Prometheus neither scrapes nor answers."""

    leaves_job = True

    async def inject(self, world: ChaosWorld, draw: random.Random) -> None:
        """Cut it off for longer than samples count as fresh."""
        pod = await world.place.api.get(f"{world.core}/pods/prometheus")
        isolate(pod["status"]["podIP"])
        await asyncio.sleep(draw.uniform(15.0, 30.0))


class NetworkCut(NetworkFault):
    """Two pods of the job do not reach each other, or one of them reaches none."""

    async def inject(self, world: ChaosWorld, draw: random.Random) -> None:
        """Cut for less than Flink's heartbeats bear, or for longer."""
        managers = [pod["status"]["podIP"] for pod in await world.app.pods("jobmanager")]
        others = [pod["status"]["podIP"] for pod in await world.app.pods("taskmanager")]
        weir = [pod["status"]["podIP"] for pod in await world.controllers()]
        first, second = draw.sample(others, 2)
        match draw.choice(("tasks", "manager", "weir", "alone")):
            case "tasks":
                drop_between(first, second)
            case "manager":
                drop_between(first, managers[0])
            case "weir":
                drop_between(weir[0], managers[0])
            case _:
                isolate(first)
        await asyncio.sleep(draw.uniform(3.0, 20.0))


def api_server_url() -> str:
    """Return the address of the API server that KUBECONFIG names."""
    with open(os.environ["KUBECONFIG"]) as file:
        config = yaml.safe_load(file)
    return str(config["clusters"][0]["cluster"]["server"])


LISTED_LATE = 45.0
"""Seconds for which the storage does not list a savepoint: a directory cache of NFS."""
PAUSED = 60.0
"""Seconds for which a controller is paused: longer than its Lease lasts."""


@dataclass
class SavepointListedLate(Kill):
    """A stop is done, Weir and the JobManager die, and the storage does not list its savepoint yet.

    The savepoint's folder is moved away, so it cannot be opened by its name either.
    """

    strikes_controller = True
    folder: Path = Path()
    hidden: Path = Path()

    async def inject(self, world: ChaosWorld, draw: random.Random) -> None:
        """Ask for a change, let the job end and Weir not hear of it, kill both, hide."""
        known = self._savepoints(world)
        before = [pid for pod in await world.controllers() for pid in processes_of(pod)]
        await world.ask_for_change()

        async def begun() -> bool:
            return bool(self._savepoints(world) - known)

        await until(begun, "a savepoint", period=0.01)
        for process in before:
            os.kill(process, signal.SIGSTOP)

        [manager] = await world.app.pods("jobmanager")
        async with rest_of(manager) as rest:

            async def over() -> bool:
                return not await jobs_alive(rest)

            await until(over, "the job's end", limit=30.0, period=0.1)
        for pod in await world.controllers():  # its successor has the same name, and need not wait
            await self.kill_one(world, pod, with_pod=False)
        await self.kill_one(world, manager, with_pod=True)
        [self.folder] = self._savepoints(world) - known
        self.hidden = world.place.state / f"hidden-{self.folder.name}"
        self.folder.rename(self.hidden)
        await asyncio.sleep(LISTED_LATE)

    async def heal(self, world: ChaosWorld) -> None:
        self.ended = CLOCK.now()
        if self.hidden.name:
            self.hidden.rename(self.folder)

    def _savepoints(self, world: ChaosWorld) -> set[Path]:
        return set(world.place.state.glob("*/savepoints/savepoint-*"))


@dataclass
class ControllerPaused(Fault):
    """The leader of two controllers is paused in a change, and wakes up beside its successor."""

    strikes_controller = True
    paused: Body = field(default_factory=dict)

    async def inject(self, world: ChaosWorld, draw: random.Random) -> None:
        await world.change_chart(replicas=2)
        await until_drawn_step(world, draw, world.ask_for_change)
        holder = (await world.place.api.get(world.lease_path))["spec"]["holderIdentity"]
        self.paused = await world.place.api.get(f"{world.core}/pods/{holder}")
        signal_processes(self.paused, signal.SIGSTOP)
        await asyncio.sleep(PAUSED)

    async def heal(self, world: ChaosWorld) -> None:
        if self.paused:
            signal_processes(self.paused, signal.SIGCONT)
        self.ended = CLOCK.now()
        await asyncio.sleep(5.0)  # what it does on waking, it does beside the other one
        await world.change_chart(replicas=1)
