"""What Weir is given to bear: pages, pods, files, disks and clocks that are not as they should be.

None of it may end the controller's process, and what Weir keeps for people to read later must not
stop it from scaling: while a file is damaged, a disk is full or a clock is wrong, a change is asked
for that must come about.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlsplit

from benchmarks import chaos_bomb, chaos_clock, chaos_network
from benchmarks.chaos_faults import (
    CLOCK,
    MID_CHANGE,
    MOST_RESTARTS,
    Kill,
    restarts,
    step_of,
    until_changed,
    until_step,
)
from benchmarks.chaos_surroundings import NODES, api_server_url, fill_up
from benchmarks.chaos_world import NAME, STATE_MIB, ChaosWorld
from benchmarks.cluster_place import IMAGE
from weir_operator.runtime.kubernetes.configuration import METRICS_PORT, REST_PORT
from weir_operator.runtime.kubernetes.pods import APP, COMPONENT, MANAGED_BY

CHANGE_LIMIT = 90.0
"""Seconds within which a change must come about that nothing should hold up."""
HOUR = 3600
STRAY = "stray"
FILLER = "filler"


@dataclass
class Input(Kill):
    """Something that Weir must bear, and go on."""

    is_input: ClassVar[bool] = True

    async def restart_weir(self, world: ChaosWorld) -> None:
        """Kill the controller, so that the next one begins with what it finds."""
        for pod in await world.controllers():
            await self.kill_one(world, pod, with_pod=restarts(pod) >= MOST_RESTARTS)

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
        page = chaos_bomb.rest_answer if is_rest else lambda: chaos_bomb.metrics_page(app)
        kind = "application/json" if is_rest else "text/plain; version=0.0.4; charset=utf-8"
        self.detail = "answers of REST" if is_rest else "pages of metrics"
        [pod] = await world.controllers()
        host = urlsplit(api_server_url()).hostname or ""
        with chaos_bomb.serve(await asyncio.to_thread(page), kind) as port:
            chaos_network.divert(
                pod["status"]["podIP"],
                REST_PORT if is_rest else METRICS_PORT,
                host=host,
                to=port,
            )
            await asyncio.sleep(draw.uniform(15.0, 25.0))
            chaos_network.let_everything_through()

    async def heal(self, world: ChaosWorld) -> None:
        """Let Weir reach the job."""
        chaos_network.let_everything_through()
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
        used = Counter(pod["spec"].get("nodeName") for pod in await world.flink_pods())
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
        await asyncio.to_thread(fill_up, str(world.weir_state / FILLER), STATE_MIB)
        if draw.random() < 0.5:
            await self.restart_weir(world)
        await self.require_change(world)

    async def heal(self, world: ChaosWorld) -> None:
        """Make room."""
        (world.weir_state / FILLER).unlink(missing_ok=True)
        self.ended = CLOCK.now()


class ClockStepped(Input):
    """The controller's clock jumps by an hour in the middle of a change, and back later."""

    async def inject(self, world: ChaosWorld, draw: random.Random) -> None:
        """Step it, and see that the change comes about."""
        hours, stays = draw.choice((-1, 1)), draw.uniform(5.0, 15.0)
        wanted = await until_step(world, MID_CHANGE[draw.randrange(len(MID_CHANGE)) :])
        self.detail = f"{hours:+d} h at {await step_of(world)}"
        chaos_clock.step_clock(world.clock, hours * HOUR)
        self.prevented = await until_changed(world, wanted, CHANGE_LIMIT)
        await asyncio.sleep(stays)

    async def heal(self, world: ChaosWorld) -> None:
        """Step it back."""
        chaos_clock.step_clock(world.clock, 0)
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
