"""What is done around Weir and the job: nodes, API server, Prometheus, network, storage."""

from __future__ import annotations

import asyncio
import math
import os
import random
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import urlsplit

import yaml

from benchmarks import chaos_network
from benchmarks.chaos_faults import CLOCK, LIMIT
from benchmarks.chaos_looks import find_missing, look_back
from benchmarks.chaos_world import VOLUME_MIB, ChaosWorld
from weir_operator.clock import wait_until
from weir_operator.cluster.api import Body, NotFoundError
from weir_operator.errors import TemporaryError

AWAY = 60.0
"""Seconds for which nobody reaches the API server."""
STAYS_AWAY = 90.0
"""Seconds for which a node is away at most."""
NODES = "/api/v1/nodes"
FILLER = "filler"


@dataclass
class NodeCordoned:
    """A node with a TaskManager takes no more pods: Weir is to leave it.

    It stays so until all is well without it, at most `STAYS_AWAY` seconds; counts from its
    beginning.
    """

    node: str = ""
    ended: float = math.nan

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

    async def find_trace(self, world: ChaosWorld) -> str:
        """Nothing is left where pods may stay."""
        return ""

    async def until_left(self, world: ChaosWorld) -> None:
        """Wait until no TaskManager is on the node and all is well."""
        before = look_back(world)

        async def left() -> bool | None:
            try:
                pods = [pod for pod in await world.flink_pods() if self.has(pod)]
                return None if pods or await find_missing(world, before) else True
            except TemporaryError:
                return None

        await wait_until(left, clock=CLOCK, timeout=STAYS_AWAY, period=1.0)

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


@dataclass
class NetworkFault:
    """Packets are lost; all of them get through again when it is healed."""

    ended: float = math.nan

    async def heal(self, world: ChaosWorld) -> None:
        """Let everything through."""
        chaos_network.let_everything_through()
        self.ended = CLOCK.now()

    async def find_trace(self, world: ChaosWorld) -> str:
        """Nothing is left."""
        return ""


class ApiServerAway(NetworkFault):
    """Nobody reaches the API server: connections are refused, or nobody answers."""

    async def inject(self, world: ChaosWorld, draw: random.Random) -> None:
        """Close its port for a minute."""
        chaos_network.close_port(api_server_port(), refuse=draw.random() < 0.5)
        await asyncio.sleep(AWAY)


class PrometheusAway(NetworkFault):
    """Prometheus neither scrapes nor answers."""

    async def inject(self, world: ChaosWorld, draw: random.Random) -> None:
        """Cut it off for longer than Weir's interval."""
        pod = await world.place.api.get(f"{world.core}/pods/prometheus")
        chaos_network.isolate(pod["status"]["podIP"])
        await asyncio.sleep(draw.uniform(30.0, 60.0))


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
        await asyncio.sleep(draw.uniform(4.0, 40.0))


@dataclass
class StorageFull:
    """The volume with state, ledger and output is full."""

    ended: float = math.nan

    async def inject(self, world: ChaosWorld, draw: random.Random) -> None:
        """Fill it up, keep it full for a while."""
        filler = world.place.state / FILLER
        await asyncio.to_thread(_fill, str(filler))
        await asyncio.sleep(draw.uniform(15.0, 40.0))

    async def heal(self, world: ChaosWorld) -> None:
        """Make room."""
        (world.place.state / FILLER).unlink(missing_ok=True)
        self.ended = CLOCK.now()

    async def find_trace(self, world: ChaosWorld) -> str:
        """Nothing is left."""
        return ""


def api_server_port() -> int:
    """Return the TCP port of the API server that KUBECONFIG names."""
    with open(os.environ["KUBECONFIG"]) as file:
        config = yaml.safe_load(file)
    return urlsplit(config["clusters"][0]["cluster"]["server"]).port or 443


def _fill(path: str) -> None:
    block = bytes(2**20)
    with open(path, "wb", buffering=0) as file:
        for size in (block, block[:4096], block[:1]):
            try:
                for _ in range(VOLUME_MIB):
                    file.write(size)
            except OSError:
                continue  # full, for blocks of this size
