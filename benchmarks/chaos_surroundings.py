"""What is done around Weir and the job: nodes, API server, Prometheus, network, storage."""

from __future__ import annotations

import asyncio
import os
import random
from contextlib import suppress
from dataclasses import dataclass
from typing import ClassVar
from urllib.parse import urlsplit

import yaml

from benchmarks import chaos_network
from benchmarks.chaos_faults import CLOCK, LIMIT, Fault
from benchmarks.chaos_looks import find_missing, look_back
from benchmarks.chaos_world import VOLUME_MIB, ChaosWorld
from weir_operator.clock import wait_until
from weir_operator.errors import TemporaryError
from weir_operator.kubernetes.api.client import Body, NotFoundError

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
        nodes = {pod["spec"].get("nodeName", "") for pod in await world.flink_pods()} - {""}
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
                pods = [pod for pod in await world.flink_pods() if self.has(pod)]
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
        pods = [*await world.flink_pods(), *await world.flink_pods("jobmanager")]
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
        chaos_network.let_everything_through()
        self.ended = CLOCK.now()


class ApiServerAway(NetworkFault):
    """Nobody reaches the API server: connections are refused, or nobody answers."""

    async def inject(self, world: ChaosWorld, draw: random.Random) -> None:
        """Close its port."""
        port = urlsplit(api_server_url()).port or 443
        chaos_network.close_port(port, refuse=draw.random() < 0.5)
        await asyncio.sleep(AWAY)


class PrometheusAway(NetworkFault):
    """Prometheus neither scrapes nor answers."""

    direct: ClassVar[bool | None] = False

    async def inject(self, world: ChaosWorld, draw: random.Random) -> None:
        """Cut it off for longer than samples count as fresh."""
        pod = await world.place.api.get(f"{world.core}/pods/prometheus")
        chaos_network.isolate(pod["status"]["podIP"])
        await asyncio.sleep(draw.uniform(15.0, 30.0))


class NetworkCut(NetworkFault):
    """Two pods of the job do not reach each other, or one of them reaches none."""

    async def inject(self, world: ChaosWorld, draw: random.Random) -> None:
        """Cut for less than Flink's heartbeats bear, or for longer."""
        managers = [pod["status"]["podIP"] for pod in await world.flink_pods("jobmanager")]
        others = [pod["status"]["podIP"] for pod in await world.flink_pods()]
        weir = [pod["status"]["podIP"] for pod in await world.controllers()]
        first, second = draw.sample(others, 2)
        match draw.choice(("tasks", "manager", "weir", "alone")):
            case "tasks":
                chaos_network.drop_between(first, second)
            case "manager":
                chaos_network.drop_between(first, managers[0])
            case "weir":
                chaos_network.drop_between(weir[0], managers[0])
            case _:
                chaos_network.isolate(first)
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
