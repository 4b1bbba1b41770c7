"""What is done to processes and to Weir itself: kills, and a Lease lost in mid-change.

A fault is injected, lasts, is healed, and leaves a trace until the world has noticed it: a pod that
was killed is still listed as ready for a moment, and a look at that moment would find all well.

What does not get through: packets dropped or refused by nftables on this machine.

All nodes of the cluster share this machine's network namespace, so what its kernel drops is lost
between pods, also between two of one node, where `net.bridge.bridge-nf-call-iptables` is set (as
Kubernetes wants it). Everything is in one table, and healing is deleting that.

Two at once: Weir dies together with the JobManager, or two installations have one StreamApp.

What is done around Weir and the job: nodes, API server, Prometheus, network, storage.

What Weir is given to bear: pages, pods, files, disks and clocks that are not as they should be.

None of it may end the controller's process, and what Weir keeps for people to read later must not
stop it from scaling: while a file is damaged, a disk is full or a clock is wrong, a change is asked
for that must come about.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import random
import signal
import subprocess
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, TypeVar
from urllib.parse import urlsplit

import yaml

from benchmarks.cluster.chaos import bomb
from benchmarks.cluster.chaos.clock import step_clock
from benchmarks.cluster.chaos.world import (
    NAME,
    STATE_MIB,
    VOLUME_MIB,
    ChaosWorld,
    find_idle_job,
    find_missing,
    look_back,
    replicas_of,
)
from benchmarks.cluster.place import IMAGE
from weir_operator.clock import SystemClock, wait_until
from weir_operator.errors import TemporaryError, WeirError
from weir_operator.flink.answers import JobDetails, SavepointProgress
from weir_operator.flink.rest import FlinkRest
from weir_operator.kubernetes.api.client import Body, ConflictError, NotFoundError
from weir_operator.kubernetes.status.ownership import ANNOTATION
from weir_operator.runtime.kubernetes.configuration import METRICS_PORT, REST_PORT
from weir_operator.runtime.kubernetes.pods import APP, COMPONENT, MANAGED_BY

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


def divert(source: str, port: int, *, host: str, to: int) -> None:
    """Send what a pod asks at a port, of whomever, to another one of this machine's addresses.

    Connections that are open are reset: the new ones are those that go elsewhere.
    """
    asked = f"ip saddr {source} tcp dport {port}"
    _begin(
        (
            f"prerouting {asked} dnat ip to {host}:{to}",
            f"forward {asked} reject with tcp reset",
        )
    )


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
    lines.append(f"add chain inet {TABLE} prerouting {{ type nat hook prerouting priority -150; }}")
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
        pods = [*await world.controllers(), *await world.app.pods("jobmanager")]
        for pod in [*pods, *await world.app.pods("taskmanager")]:
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
            await self.kill_one(world, pod, with_pod=with_pod or restarts(pod) >= MAX_RESTARTS)
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
        await self.kill(world, await world.app.pods("jobmanager"), draw)


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
        await self.kill(world, await world.app.pods("jobmanager"), draw)


class TaskManagersKilled(Kill):
    """One or two TaskManagers die."""

    async def inject(self, world: ChaosWorld, draw: random.Random) -> None:
        """Kill them."""
        pods = await world.app.pods("taskmanager")
        await self.kill(world, draw.sample(pods, draw.randint(1, 2)), draw)


@dataclass
class JobManagerKilledWithoutWeir(Kill):
    """The JobManager dies while there is no controller; the job comes back without it."""

    took: float | None = None
    """Seconds until the job ran again, its first new checkpoint included; `None`: it did not."""

    async def inject(self, world: ChaosWorld, draw: random.Random) -> None:
        """Scale Weir to zero, kill, and wait for the job."""
        status = await world.app.status()
        await world.scale_weir(0)

        async def nobody() -> bool | None:
            return None if await world.controllers() else True

        await wait_until(nobody, clock=CLOCK, timeout=90.0, period=0.2)
        await self.kill(world, await world.app.pods("jobmanager"), draw)
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
    known = ((await world.app.status()).get("rescale") or {}).get("id")
    wanted = await world.ask_for_change()

    async def there() -> bool | None:
        journal = (await world.app.status()).get("rescale") or {}
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
            status = await world.app.status()
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
    return str(((await world.app.status()).get("rescale") or {}).get("step", "none"))


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
        both = [*await world.controllers(), *await world.app.pods("jobmanager")]
        await self.kill(world, both, draw)

    async def _kill_at_savepoint(self, world: ChaosWorld) -> None:
        [weir], [manager] = await world.controllers(), await world.app.pods("jobmanager")
        sources = [
            pod
            for pod in await world.app.pods("taskmanager")
            if pod["metadata"]["labels"].get("weir.dev/operator") == "source"
        ]
        frozen, slowed = processes_of(weir), processes_of(sources[0])
        await until_step(world, MID_CHANGE[1:], period=0.01)
        try:
            # A source that stands still keeps the savepoint in progress until Weir is frozen, too.
            _signal(slowed, signal.SIGSTOP)
            journal = (await world.app.status()).get("rescale") or {}
            job, trigger = str(journal.get("old_job")), str(journal.get("trigger"))
            async with FlinkRest(f"http://{manager['status']['podIP']}:{REST_PORT}") as rest:

                async def ask() -> SavepointProgress | None:
                    return await rest.savepoint_status(job, trigger)

                await _until(ask, lambda progress: progress is not None, limit=5.0)
                _signal(frozen, signal.SIGSTOP)
                _signal(slowed, signal.SIGCONT)
                await _until(ask, _is_over, limit=30.0)
                await _until(lambda: rest.job(job), _has_ended, limit=10.0)
            written = (await world.app.status()).get("rescale") or {}
            is_unwritten = written.get("step") == "Stopping" and not written.get("restore_path")
            self.detail = f"{UNWRITTEN if is_unwritten else 'late, at ' + written['step']}:"
            await self.kill_one(world, manager, with_pod=True)
            await self.kill_one(world, weir, with_pod=restarts(weir) >= MAX_RESTARTS)
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
    await world.place.api.patch(world.app.path, {"metadata": {"annotations": {ANNOTATION: home}}})


async def _until_home(world: ChaosWorld, home: str) -> str:
    """Wait until an installation has taken the StreamApp over; return why not."""

    async def there() -> bool | None:
        return True if (await world.app.status())["controller"].get("home") == home else None

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


def _has_ended(job: JobDetails | None) -> bool:
    return job is not None and job.state.is_over


def _is_over(progress: SavepointProgress | None) -> bool:
    return progress is not None and not progress.in_progress


AWAY = 45.0
"""Seconds for which nobody reaches the API server: longer than a Lease lasts."""
STAYS_AWAY = 90.0
"""Seconds for which a node is away at most."""
NODES = "/api/v1/nodes"
FILLER = "filler"


@dataclass
class NodeCordoned(Fault):
    """A node with a TaskManager takes no more pods: Weir is to leave it.

    It stays so until all is well without it, at most `STAYS_AWAY` seconds; counts from its
    beginning.
    """

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
        """Uncordon it."""
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
        """Return whether a pod is on the node."""
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
        """Close its port."""
        port = urlsplit(api_server_url()).port or 443
        close_port(port, refuse=draw.random() < 0.5)
        await asyncio.sleep(AWAY)


class PrometheusAway(NetworkFault):
    """Prometheus neither scrapes nor answers."""

    direct: ClassVar[bool | None] = False

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


class StorageFull(Fault):
    """The volume with state, ledger and output is full."""

    async def inject(self, world: ChaosWorld, draw: random.Random) -> None:
        """Fill it up, keep it full for a while."""
        filler = world.place.state / FILLER
        await asyncio.to_thread(fill_up, str(filler), VOLUME_MIB)
        await asyncio.sleep(draw.uniform(15.0, 40.0))

    async def heal(self, world: ChaosWorld) -> None:
        """Make room."""
        (world.place.state / FILLER).unlink(missing_ok=True)
        self.ended = CLOCK.now()


def api_server_url() -> str:
    """Return the address of the API server that KUBECONFIG names."""
    with open(os.environ["KUBECONFIG"]) as file:
        config = yaml.safe_load(file)
    return str(config["clusters"][0]["cluster"]["server"])


def fill_up(path: str, size: int) -> None:
    """Fill the file system of `path`, of so many MiB, by a file."""
    block = bytes(2**20)
    with open(path, "wb", buffering=0) as file:
        for part in (block, block[:4096], block[:1]):
            try:
                for _ in range(size):
                    file.write(part)
            except OSError:
                continue  # full, for blocks of this size


CHANGE_LIMIT = 90.0
"""Seconds within which a change must come about that nothing should hold up."""
HOUR = 3600
STRAY = "stray"
VOLUME_FILLER = "filler"


@dataclass
class Input(Kill):
    """Something that Weir must bear, and go on."""

    is_input: ClassVar[bool] = True

    async def restart_weir(self, world: ChaosWorld) -> None:
        """Kill the controller, so that the next one begins with what it finds."""
        for pod in await world.controllers():
            await self.kill_one(world, pod, with_pod=restarts(pod) >= MAX_RESTARTS)

    async def require_change(self, world: ChaosWorld) -> None:
        """Ask for a change, and note if it does not come about."""
        wanted = await world.ask_for_change()
        self.prevented = await until_changed(world, wanted, CHANGE_LIMIT)


class MetricsBomb(Input):
    """The job's pages of metrics, or answers of its REST interface, unpack to 150 MB."""

    direct: ClassVar[bool | None] = True

    async def inject(self, world: ChaosWorld, draw: random.Random) -> None:
        """Serve such pages to Weir, in the place of the job's own, for a while."""
        is_rest = draw.random() < 0.3
        app = f"{world.place.namespace}.{NAME}"
        page = bomb.rest_answer if is_rest else lambda: bomb.metrics_page(app)
        kind = "application/json" if is_rest else "text/plain; version=0.0.4; charset=utf-8"
        self.detail = "answers of REST" if is_rest else "pages of metrics"
        [pod] = await world.controllers()
        host = urlsplit(api_server_url()).hostname or ""
        with bomb.serve(await asyncio.to_thread(page), kind) as port:
            divert(
                pod["status"]["podIP"],
                REST_PORT if is_rest else METRICS_PORT,
                host=host,
                to=port,
            )
            await asyncio.sleep(draw.uniform(15.0, 25.0))
            let_everything_through()

    async def heal(self, world: ChaosWorld) -> None:
        """Let Weir reach the job."""
        let_everything_through()
        self.ended = CLOCK.now()


@dataclass
class StrayPod(Input):
    """A pod that has some of Weir's labels, on a node that is about to go."""

    node: str = ""

    async def inject(self, world: ChaosWorld, draw: random.Random) -> None:
        """Make it, cordon its node, and leave it so for some of Weir's looks."""
        lacking = draw.choice((APP, "weir.dev/operator"))
        self.detail = f"without {lacking}"
        labels = {MANAGED_BY: "weir", COMPONENT: "taskmanager"}
        if lacking != APP:
            labels[APP] = NAME
        nodes = [node["metadata"]["name"] for node in await world.place.api.list(NODES)]
        used = Counter(pod["spec"].get("nodeName") for pod in await world.app.pods("taskmanager"))
        # The one with the fewest TaskManagers: that they leave it is another fault's business.
        self.node = min(nodes, key=lambda name: (used[name], name))
        await world.place.api.create(f"{world.core}/pods", _stray_pod(labels, self.node))
        await self._mark(world, unschedulable=True)
        await asyncio.sleep(draw.uniform(12.0, 18.0))

    async def heal(self, world: ChaosWorld) -> None:
        """Take the pod away and uncordon the node."""
        await world.place.api.delete(f"{world.core}/pods/{STRAY}", grace=0)
        if self.node:
            await self._mark(world, unschedulable=None)
        self.ended = CLOCK.now()

    async def _mark(self, world: ChaosWorld, *, unschedulable: bool | None) -> None:
        body = {"spec": {"unschedulable": unschedulable}}
        await world.place.api.patch(f"{NODES}/{self.node}", body)


class DiaryDamaged(Input):
    """The file of the decision records is overwritten with garbage."""

    async def inject(self, world: ChaosWorld, draw: random.Random) -> None:
        """Overwrite it, under a running Weir or before one that starts, and ask for a change."""
        parts = draw.choice((("",), ("", "-wal"), ("-wal",)))
        self.detail = " and ".join(f"{world.records.name}{part}" for part in parts)
        for part in parts:
            _overwrite(world.records.with_name(world.records.name + part), draw)
        if draw.random() < 0.5:
            await self.restart_weir(world)
        await self.require_change(world)
        self.ended = CLOCK.now()


class ControllerVolumeFull(Input):
    """The volume with what Weir keeps is full."""

    async def inject(self, world: ChaosWorld, draw: random.Random) -> None:
        """Fill it up, under a running Weir or before one that starts, and ask for a change."""
        await asyncio.to_thread(fill_up, str(world.weir_state / VOLUME_FILLER), STATE_MIB)
        if draw.random() < 0.5:
            await self.restart_weir(world)
        await self.require_change(world)

    async def heal(self, world: ChaosWorld) -> None:
        """Make room."""
        (world.weir_state / VOLUME_FILLER).unlink(missing_ok=True)
        self.ended = CLOCK.now()


class ClockStepped(Input):
    """The controller's clock jumps by an hour in the middle of a change, and back later."""

    async def inject(self, world: ChaosWorld, draw: random.Random) -> None:
        """Step it, and see that the change comes about."""
        hours, stays = draw.choice((-1, 1)), draw.uniform(5.0, 15.0)
        wanted = await until_step(world, MID_CHANGE[draw.randrange(len(MID_CHANGE)) :])
        self.detail = f"{hours:+d} h at {await step_of(world)}"
        step_clock(world.clock, hours * HOUR)
        self.prevented = await until_changed(world, wanted, CHANGE_LIMIT)
        await asyncio.sleep(stays)

    async def heal(self, world: ChaosWorld) -> None:
        """Step it back."""
        step_clock(world.clock, 0)
        self.ended = CLOCK.now()


def _overwrite(path: Path, draw: random.Random) -> None:
    """Put garbage of the same length into a file that somebody may have open."""
    if path.exists():
        with path.open("r+b", buffering=0) as file:
            file.write(draw.randbytes(path.stat().st_size))


def _stray_pod(labels: dict[str, str], node: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": STRAY, "labels": labels},
        "spec": {
            "nodeName": node,
            "terminationGracePeriodSeconds": 0,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": 65532,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [
                {
                    "name": "stray",
                    "image": IMAGE,
                    "command": ["sleep", "3600"],
                    "securityContext": {
                        "allowPrivilegeEscalation": False,
                        "capabilities": {"drop": ["ALL"]},
                    },
                }
            ],
        },
    }
