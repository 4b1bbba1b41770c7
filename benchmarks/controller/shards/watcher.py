"""The process of `shards`: what a controller runs to watch StreamApps, and nothing for any of them.

It is kopf with Weir's settings and handlers, and the list of all StreamApps that a controller makes
every few minutes. None of the StreamApps is in its shard but one, with which the benchmark sees how
far the watch has come. At each line from its input, it makes a list if it is asked for one, and
writes what it has used so far.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import kopf

from weir_operator.clock import SystemClock
from weir_operator.kubernetes.api.client import KubernetesApi
from weir_operator.kubernetes.api.objects import Resource
from weir_operator.kubernetes.app.autoscaler_conflicts import AutoscalerConflicts
from weir_operator.kubernetes.process.handlers import build_registry, operator_settings
from weir_operator.kubernetes.process.listing import Listing
from weir_operator.kubernetes.process.shard_filter import ShardFilter
from weir_operator.kubernetes.status.telemetry import Telemetry

OWN = "own"
"""Name of the StreamApp that is in the shard."""
BEAT = "weir.dev/beat"
"""Annotation of it that the process repeats."""
_TICKS = os.sysconf("SC_CLK_TCK")


async def main() -> None:
    """Watch until the input ends."""
    api = await KubernetesApi.connect()
    clock = SystemClock()
    seen: dict[str, Any] = {"beat": "", "others": 0}

    class CountingFilter(ShardFilter):
        """One that counts what it does not admit."""

        def admits(self, resource: Resource, *, gone: bool = False) -> bool:
            """Return whether a StreamApp is the one."""
            admitted = super().admits(resource, gone=gone)
            seen["others"] += not admitted
            return admitted

    shard = CountingFilter(lambda key: key.name == OWN, AutoscalerConflicts(api, clock=clock))

    def reconcile(resource: Resource) -> None:
        seen["beat"] = resource.annotations.get(BEAT, "")

    reconciler: Any = SimpleNamespace(
        reconcile=reconcile, forget=lambda _: None, knows=lambda _: True, apps={}
    )
    listing = Listing(api, (), reconciler, shard=shard, telemetry=Telemetry(), clock=clock)
    ready = asyncio.Event()
    watching = asyncio.create_task(
        kopf.operator(
            registry=build_registry(reconciler, on_watch=lambda _: None),
            settings=operator_settings(instance="watcher", shard=shard),
            standalone=True,
            clusterwide=True,
            ready_flag=ready,
        )
    )
    await ready.wait()
    while line := await asyncio.to_thread(sys.stdin.readline):
        if line.strip() == "list":
            await listing.list()
        print(json.dumps({**seen, **usage()}), flush=True)
    watching.cancel()
    await asyncio.wait({watching})
    await api.close()


def usage() -> dict[str, float]:
    """Return CPU seconds, and MiB in memory: now, and the most so far."""
    words = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    lines = Path("/proc/self/status").read_text().splitlines()
    values = dict(line.split(":", 1) for line in lines)
    return {
        "cpu": (int(words[11]) + int(words[12])) / _TICKS,
        "memory": int(values["VmRSS"].split()[0]) / 1024,
        "highest": int(values["VmHWM"].split()[0]) / 1024,
    }


if __name__ == "__main__":
    asyncio.run(main())
