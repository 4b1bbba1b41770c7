"""5,000 StreamApps on five shards: who gets how many, and what watching those of others costs.

A controller of a shard manages a thousand StreamApps, which `scale` measures. Beside these, it sees
the 4,000 of the other shards: the watch of the API server shows all of them, and `shard_filter`
keeps them from kopf. That part is measured with objects of usual size in a real API server, in a
process that runs what a controller runs for it. No job runs.

What is counted is the process's own CPU time and memory, as the kernel has them.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.controller.scale import stage
from benchmarks.controller.scale.world import OPERATORS
from benchmarks.controller.shards.watcher import BEAT, OWN
from benchmarks.figures import Figure, at_most
from tests.api.assets import find_or_build_assets
from tests.api.client import Kube, session_for
from tests.api.control_plane import ADMIN, ControlPlane, running_control_plane
from weir_operator.clock import SystemClock, wait_until
from weir_operator.kubernetes.api.objects import Key
from weir_operator.kubernetes.api.shards import shard_of
from weir_operator.streamapp.status import (
    Condition,
    DecisionStatus,
    OperatorStatus,
    Outcome,
    StreamAppStatus,
)

ABOUT = "5,000 StreamApps on five shards: balance, moves, what watching the others costs"
DURATION = "6 min"

APPS = 5000
SHARDS = 5
OTHERS = int(os.environ.get("WEIR_SHARDS_OTHERS", str(APPS - APPS // SHARDS)))
"""StreamApps of other shards that a process sees."""
WRITES_A_MINUTE = 1.0
"""Of a StreamApp's status, at an interval of 60 s."""
WRITES = min(OTHERS, 1000)
"""Writes of a status elsewhere that are measured."""
_AT_ONCE = 8
_SENTENCE = "Stays: the predicted response time of 0.41 s is within the budget of 0.52 s (planner)"


def run() -> list[Figure]:
    """Divide names, then watch real objects."""
    return [*_divide(), *asyncio.run(_watch())]


def _divide() -> list[Figure]:
    """Return how evenly names are divided, and how many move."""
    keys = [Key(f"team-{number % 50}", f"app-{number}") for number in range(APPS)]
    before = [shard_of(key, SHARDS - 1) for key in keys]
    began = time.process_time()
    after = [shard_of(key, SHARDS) for key in keys]
    took = time.process_time() - began
    sizes = Counter(after)
    moved = [new for old, new in zip(before, after, strict=True) if old != new]
    return [
        at_most(
            figure="largest shard, of the mean",
            value=max(sizes.values()) / (APPS / SHARDS),
            unit="",
            limit=1.1,
        ),
        Figure(figure="smallest shard", value=min(sizes.values()), unit="StreamApps"),
        Figure(figure="largest shard", value=max(sizes.values()), unit="StreamApps"),
        at_most(
            figure=f"StreamApps that move from {SHARDS - 1} to {SHARDS} shards",
            value=100 * len(moved) / APPS,
            unit="%",
            limit=22,
        ),
        at_most(
            figure="of them: to an old shard",
            value=sum(new != SHARDS - 1 for new in moved),
            unit="StreamApps",
            limit=0,
        ),
        Figure(figure="CPU time to divide all", value=1000 * took, unit="ms"),
    ]


async def _watch() -> list[Figure]:
    """Return what a process spends on StreamApps of other shards."""
    with (
        tempfile.TemporaryDirectory() as folder,
        running_control_plane(find_or_build_assets(), Path(folder)) as plane,
    ):
        async with session_for(certificate=plane.certificate, token=ADMIN) as session:
            kube = Kube(session, url=plane.url, namespace="streams", kubeconfig=Path())
            await stage.define_stream_apps(kube)
            await stage.create(kube, "/api/v1/namespaces", {"metadata": {"name": "streams"}})
            await stage.create(kube, kube.stream_apps, _manifest(OWN))
            with _watcher(plane, Path(folder)) as empty:
                alone = await _until_seen(kube, empty, "alone")
            await _for_each(OTHERS, lambda number: _place(kube, number))
            size = len(json.dumps((await kube.get(f"{kube.stream_apps}/{_name(0)}")).body))
            with _watcher(plane, Path(folder)) as process:
                began = await _until_seen(kube, process, "all", others=OTHERS)
                await _for_each(WRITES, lambda number: _write(kube, number))
                written = await _until_seen(kube, process, "written", others=OTHERS + WRITES)
                listed = _ask(process, "list")
    per_write = (written["cpu"] - began["cpu"]) / WRITES
    return [
        Figure(figure="size of a StreamApp of ten operators", value=size / 1024, unit="KiB"),
        at_most(
            figure=f"memory for {OTHERS} StreamApps of other shards",
            value=written["memory"] - alone["memory"],
            unit="MiB",
            limit=32,
        ),
        at_most(
            figure="most memory for them, while they are listed",
            value=listed["highest"] - alone["highest"],
            unit="MiB",
            limit=32,
        ),
        at_most(
            figure="CPU time to begin the watch of them",
            value=began["cpu"] - alone["cpu"],
            unit="s",
            limit=10,
        ),
        at_most(
            figure="CPU time for one write of a status elsewhere",
            value=1000 * per_write,
            unit="ms",
            limit=1.5,
        ),
        at_most(
            figure="cores for one write a minute of each of them",
            value=per_write * OTHERS * WRITES_A_MINUTE / 60,
            unit="cores",
            limit=0.1,
        ),
        at_most(
            figure="CPU time of the list of all, every 5 min",
            value=listed["cpu"] - written["cpu"],
            unit="s",
            limit=6,
        ),
    ]


def _name(number: int) -> str:
    return f"app-{number}"


def _manifest(name: str) -> dict[str, Any]:
    found = stage.manifest_of(0)
    return {**found, "metadata": {"name": name, "namespace": "streams"}}


def _status(number: int, turn: int) -> dict[str, Any]:
    """Return a status as it usually is: ten operators, each with a decision, and conditions."""
    at = f"2026-01-31T08:{turn:02}:00Z"
    status = StreamAppStatus(
        observed_generation=1,
        conditions=tuple(
            Condition(
                type=each,
                status="True",
                reason="AsExpected",
                message=_SENTENCE,
                last_transition_time=at,
                observed_generation=1,
            )
            for each in ("Ready", "Deciding", "MetricsHealthy", "ModelFitted", "ObjectiveMet")
        ),
        replicas=len(OPERATORS),
        rate=f"{100 + turn}/s",
        response_time="410ms",
        objective="2s mean",
        cost_per_hour="0.44",
        last_action="Rescaled match 2 -> 3 in 12 s",
        operators=tuple(
            OperatorStatus(
                name=name,
                replicas=1,
                deployment={"small/500m": 1},
                target={"small/500m": 1},
                rate=f"{100 + turn}/s",
                response_time="41ms",
                budget="52ms",
                policy="planner",
                decision=DecisionStatus(
                    id=f"20260131T0800{turn:02}-{number}-{name}",
                    time=at,
                    outcome=Outcome.STAYED,
                    message=_SENTENCE,
                ),
            )
            for name in OPERATORS
        ),
        controller={
            "job_id": f"{number:032x}",
            "deployments": {name: {"small/500m": 1} for name in OPERATORS},
            "savepoints": [f"s3://flink/state/savepoint-{number:06x}-{turn}"],
        },
    )
    return status.model_dump(mode="json", by_alias=True, exclude_none=True)


async def _for_each(total: int, work: Callable[[int], Awaitable[None]]) -> None:
    """Do something for so many of the others, some at once."""
    numbers = iter(range(total))

    async def go() -> None:
        for number in numbers:
            await work(number)

    await asyncio.gather(*(go() for _ in range(_AT_ONCE)))


async def _place(kube: Kube, number: int) -> None:
    await stage.create(kube, kube.stream_apps, _manifest(_name(number)))
    await _write(kube, number, turn=0)


async def _write(kube: Kube, number: int, turn: int = 1) -> None:
    path = f"{kube.stream_apps}/{_name(number)}/status"
    answer = await kube.merge(path, {"status": _status(number, turn)})
    if answer.status != 200:
        raise RuntimeError(f"expected the API server to take a status: {answer.message}")


async def _until_seen(
    kube: Kube, process: subprocess.Popen[str], beat: str, *, others: int = 0
) -> Mapping[str, float]:
    """Return what the process has used once it has seen what was written before this call.

    Raises:
        RuntimeError: It does not within five minutes.
    """
    body = {"metadata": {"annotations": {BEAT: beat}}}
    await kube.merge(f"{kube.stream_apps}/{OWN}", body)

    async def see() -> dict[str, Any] | None:
        used = await asyncio.to_thread(_ask, process, "usage")
        return used if used["beat"] == beat and used["others"] >= others else None

    seen = await wait_until(see, clock=SystemClock(), timeout=300, period=1.0)
    if seen is None:
        raise RuntimeError(f"expected the watch to show {beat} and {others} others")
    return seen


def _ask(process: subprocess.Popen[str], what: str) -> dict[str, Any]:
    if process.stdin is None or process.stdout is None:
        raise RuntimeError("expected a process with pipes")
    process.stdin.write(f"{what}\n")
    process.stdin.flush()
    answer: dict[str, Any] = json.loads(process.stdout.readline())
    return answer


@contextmanager
def _watcher(plane: ControlPlane, folder: Path) -> Iterator[subprocess.Popen[str]]:
    """Run the process while the block runs."""
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.controller.shards.watcher"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "KUBECONFIG": str(plane.kubeconfig(folder))},
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
