"""Whether all is well again after a fault, and if not, what is missing.

All is well when the right pods run, one controller holds the Lease and has taken over the status,
no change is under way, Weir trusts its metrics, every task of the job runs, and the job has
completed a checkpoint that holds new records since the fault's end.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

from benchmarks.chaos_world import ChaosWorld
from weir_operator.errors import WeirError
from weir_operator.flink.rest import FlinkRest
from weir_operator.kubernetes.api.client import Body
from weir_operator.runtime.kubernetes.configuration import REST_PORT


@dataclass(frozen=True, slots=True)
class Before:
    """What is to be surpassed."""

    records: int
    """Distinct ones at the sink, by the newest checkpoint."""
    time: float
    """Unix seconds."""
    lease: str
    """Version of the Lease, which must have been renewed since; empty where nobody said. Its times
    are those of a clock that may be wrong."""


async def look_back(world: ChaosWorld) -> Before:
    """Return what holds now."""
    now = time.time()
    try:
        lease = (await world.place.api.get(world.lease_path))["metadata"]["resourceVersion"]
    except WeirError:
        lease = ""
    return Before(records=records(world), time=now, lease=lease)


async def find_missing(world: ChaosWorld, before: Before) -> str:
    """Return what is not well yet, in a few words; empty when all is."""
    try:
        status = await world.status()
        return (
            await _find_wrong_controller(world, status, before)
            or _find_wrong_status(status)
            or await _find_wrong_pods(world, status)
            or await find_idle_job(world, status, before)
        )
    except WeirError as error:
        return str(error)


async def find_idle_job(world: ChaosWorld, status: Body, before: Before) -> str:
    """Return why the job does not run as it should; empty when it does."""
    managers = [pod for pod in await world.flink_pods("jobmanager") if is_ready(pod)]
    if len(managers) != 1:
        return f"{len(managers)} JobManagers are ready"
    address = managers[0]["status"]["podIP"]
    async with FlinkRest(f"http://{address}:{REST_PORT}", timeout=3.0) as rest:
        job = await rest.job(status["controller"]["job_id"])
        alive = [each for each in await rest.jobs() if not each.state.is_over]
    if job is None or not job.runs:
        return "the job does not run" if job is None else f"the job is {job.state}"
    if len(alive) > 1:
        return f"{len(alive)} jobs are alive"
    if records(world) <= before.records:
        return "no checkpoint has new records"
    return ""


def records(world: ChaosWorld) -> int:
    """Return the distinct records at the sink, by the newest checkpoint that it knows."""
    try:
        ledger = json.loads((world.place.state / "out/ledger.json").read_text())
    except (FileNotFoundError, ValueError):  # none yet, or cut short by a full disk
        return 0
    return int(ledger["distinct"])


async def count_restarts(world: ChaosWorld) -> dict[str, int]:
    """Return how often each controller's containers were restarted, by the pod's uid."""
    return {
        pod["metadata"]["uid"]: sum(
            int(each["restartCount"]) for each in pod["status"].get("containerStatuses", ())
        )
        for pod in await world.controllers()
    }


@dataclass(slots=True)
class JobsSeen:
    """How many jobs were alive."""

    most: int = 0
    """At once."""


@asynccontextmanager
async def watch_jobs(world: ChaosWorld) -> AsyncIterator[JobsSeen]:
    """Count the jobs that JobManagers have alive, twice a second, while the context is open."""
    seen = JobsSeen()

    async def watch() -> None:
        while True:
            with suppress(WeirError):  # one that is gone, or is starting, says nothing
                for pod in await world.flink_pods("jobmanager"):
                    url = f"http://{pod['status'].get('podIP')}:{REST_PORT}"
                    async with FlinkRest(url, timeout=3.0) as rest:
                        alive = [each for each in await rest.jobs() if not each.state.is_over]
                        seen.most = max(seen.most, len(alive))
            await asyncio.sleep(0.5)

    watching = asyncio.create_task(watch())
    try:
        yield seen
        if watching.done():
            watching.result()
    finally:
        watching.cancel()
        await asyncio.wait({watching})


def find_excess(status: Body, pods: list[Body]) -> list[str]:
    """Return TaskManagers beyond those that the status says should be, by name."""
    wanted = _wanted(status)
    excess = []
    for pod in sorted(pods, key=lambda each: str(each["metadata"]["creationTimestamp"])):
        labels = pod["metadata"]["labels"]
        group = labels.get("weir.dev/operator", ""), labels.get("weir.dev/pool", "")
        wanted[group] = wanted.get(group, 0) - 1
        if wanted[group] < 0:
            excess.append(pod["metadata"]["name"])
    return excess


def is_ready(pod: Body) -> bool:
    """Return whether Kubernetes takes the pod for ready."""
    conditions = pod.get("status", {}).get("conditions", ())
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


async def _find_wrong_controller(world: ChaosWorld, status: Body, before: Before) -> str:
    ready = {pod["metadata"]["name"] for pod in await world.controllers() if is_ready(pod)}
    if len(ready) != 1:
        return f"{len(ready)} controllers are ready"
    lease = await world.place.api.get(world.lease_path)
    if lease["spec"].get("holderIdentity") not in ready:
        return "the controller does not hold the Lease"
    if lease["metadata"]["resourceVersion"] == before.lease:
        return "the Lease has not been renewed"
    writer = str(status.get("controller", {}).get("writer", ""))
    return "" if writer.split("/")[0] in ready else "the controller has not taken over the status"


def _find_wrong_status(status: Body) -> str:
    conditions = {each["type"]: each for each in status.get("conditions", ())}
    for kind in ("Ready", "MetricsHealthy"):
        if conditions.get(kind, {}).get("status") != "True":
            return f"{kind} is not: {conditions.get(kind, {}).get('message')}"
    step = (status.get("rescale") or {}).get("step", "Done")
    return "" if step in ("Done", "Abandoned", "RolledBack", "Failed") else f"a change is at {step}"


async def _find_wrong_pods(world: ChaosWorld, status: Body) -> str:
    pods = await world.flink_pods()
    wanted, ready = sum(_wanted(status).values()), sum(map(is_ready, pods))
    excess = find_excess(status, pods)
    if excess:
        return f"{', '.join(excess)} should not be"
    return "" if ready == wanted else f"{ready} of {wanted} TaskManagers are ready"


def _wanted(status: Body) -> dict[tuple[str, str], int]:
    deployments: dict[str, dict[str, Any]] = status.get("controller", {}).get("deployments", {})
    wanted: dict[tuple[str, str], int] = {}
    for operator, counts in deployments.items():
        for node_type, count in counts.items():
            group = operator, node_type.split("/")[0]
            wanted[group] = wanted.get(group, 0) + int(count)
    return wanted
