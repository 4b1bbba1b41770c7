"""Faults, drawn by a seed, on an installed Weir whose job carries a changing load.

The chart is installed in a namespace of its own, with a Prometheus, and a StreamApp that Weir
scales. Then come the faults, one after the other: each is injected, lasts for a while, is healed,
and has `LIMIT` seconds for all to be well again (`world.find_missing` says what that means;
a stuck app is one that is not). At the end the job is suspended, which stops it with a savepoint,
so that every record that was emitted is accounted for: by the files that a transactional sink
committed, by the ledger in the job's state, and by what a plain sink saw. A job that goes on from
an old state has an old ledger too, so the files decide. Then the StreamApp is deleted and nothing
may remain.

Time to recover is counted from the end of a fault, or from a kill, until a look (two a second)
finds all well, which takes in a new checkpoint and a healthy round of metrics.

A fault that leaves the job alone may make Weir change it, but not take it down for over `MAX_DOWN`
seconds; one that leaves the controller alone may not make its container restart.

`CHAOS_SEED` (1) makes other runs; `CHAOS_COUNT` (each kind once) draws fewer faults.

Cordons nodes, and cuts the API server off for everybody on this cluster for a minute: have it for
yourself.
"""

from __future__ import annotations

import asyncio
import math
import os
import random
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from benchmarks.cluster.chaos import faults, users
from benchmarks.cluster.chaos.faults import CLOCK, LIMIT, Fault, restarts
from benchmarks.cluster.chaos.verdict import (
    FaultOutcome,
    figures_of,
    read_committed,
)
from benchmarks.cluster.chaos.world import (
    NAME,
    ChaosWorld,
    JobsSeen,
    find_excess,
    find_missing,
    look_back,
    manifest,
    open_world,
    watch_jobs,
)
from benchmarks.cluster.place import is_gone
from benchmarks.figures import Figure
from benchmarks.flink.ledger import read_arrivals, read_proof
from benchmarks.results import FOLDER
from weir_operator.api.objects import collection
from weir_operator.clock import wait_until
from weir_operator.errors import WeirError


def draw_faults(kinds: Sequence[str], count: int, seed: int) -> list[str]:
    """Return the kinds of `count` faults in the order in which they come."""
    generator = random.Random(seed)
    drawn: list[str] = []
    while len(drawn) < count:
        round_of_kinds = list(kinds)
        generator.shuffle(round_of_kinds)
        drawn += round_of_kinds
    return drawn[:count]


ABOUT = "records lost, doubled, and time to recover under faults on a real cluster (needs one)"
DURATION = "35 min"

FAULTS: dict[str, Callable[[], Fault]] = {
    "controller_killed": faults.ControllerKilled,
    "controller_killed_mid_change": faults.ControllerKilledMidChange,
    "controller_killed_mid_upgrade": faults.ControllerKilledMidUpgrade,
    "controller_and_job_manager_killed": faults.ControllerAndJobManagerKilled,
    "job_manager_killed": faults.JobManagerKilled,
    "task_managers_killed": faults.TaskManagersKilled,
    "node_cordoned": faults.NodeCordoned,
    "node_drained": faults.NodeDrained,
    "api_server_away": faults.ApiServerAway,
    "prometheus_away": faults.PrometheusAway,
    "network_cut": faults.NetworkCut,
    "agent_image_missing": users.AgentImageMissing,
    "savepoint_listed_late": faults.SavepointListedLate,
    "task_manager_preempted": users.TaskManagerPreempted,
    "namespace_forbidden": users.NamespaceForbidden,
    "app_in_tenth_namespace": users.AppInTenthNamespace,
    "deleted_mid_change": users.DeletedMidChange,
    "edited_mid_change": users.EditedMidChange,
    "quota_on_limits": users.QuotaOnLimits,
    "pods_refused": users.PodsRefused,
    "controller_paused": faults.ControllerPaused,
}
COUNT = int(os.environ.get("CHAOS_COUNT", len(FAULTS)))
MAX_DOWN = 60.0
"""Seconds; a rescale on a busy machine takes some of them."""
START_LIMIT = 600.0


def result_path() -> Path:
    """Return where the result is kept: each seed has its own."""
    return FOLDER / f"chaos-{_seed()}.json"


def _seed() -> int:
    return int(os.environ.get("CHAOS_SEED", "1"))


def run() -> list[Figure]:
    return asyncio.run(_run(draw_faults(tuple(FAULTS), COUNT, _seed())))


async def _run(drawn: Sequence[str]) -> list[Figure]:
    async with open_world() as world:
        app = manifest(world.place)
        await world.place.api.create(collection(world.place.namespace), app)
        if missing := await _find_ill(world, START_LIMIT):
            raise RuntimeError(f"Expected all to be well within {START_LIMIT:g} s, but {missing}")
        outcomes: list[FaultOutcome] = []
        orphans: list[str] = []
        is_well = True
        async with watch_jobs(world) as jobs:
            for index, kind in enumerate(drawn):
                # A seed of its own, so that its choices do not depend on those of others.
                draw = random.Random(f"{_seed()}/{index}/{kind}")
                outcome = await _strike(world, kind, draw, jobs)
                outcomes.append(outcome)
                orphans += await _find_orphans(world)
                if outcome.took is None and await _find_ill(world, LIMIT):
                    is_well = False
                    break  # a job that is down for good says nothing of other faults
        stopped = is_well and await _suspend(world)
        ledger = read_proof(world.place.state / "out") if stopped else None
        arrivals = read_arrivals(world.place.state / "out")
        emitted = max((ledger.emitted if ledger else 0, *(each.id + 1 for each in arrivals)))
        committed = read_committed(world.place.state / "committed", emitted)
        orphans += await _delete(world)
    return figures_of(len(drawn), outcomes, ledger, committed, orphans, jobs_at_once=jobs.most)


async def _strike(
    world: ChaosWorld, kind: str, draw: random.Random, jobs: JobsSeen
) -> FaultOutcome:
    """Inject a fault, heal it, and wait until all is well."""
    fault = FAULTS[kind]()
    before = await _restarts(world)
    jobs.begin(CLOCK.monotonic())
    injected, failure = CLOCK.now(), ""
    try:
        await fault.inject(world, draw)
    except (WeirError, OSError) as error:  # a timeout is one of the latter
        failure = f"The fault was not injected: {error!r}"
    finally:
        down = fault.leaves_job and jobs.longest > MAX_DOWN
        await fault.heal(world)
    known = await look_back(world)

    async def find() -> str:
        return await find_missing(world, known) or await fault.find_trace(world)

    recovered, missing = await _until_well(find, LIMIT)
    if recovered is None:
        failure = failure or missing
    after = await _restarts(world)
    ended = injected if math.isnan(fault.ended) else fault.ended
    outcome = FaultOutcome(
        kind=kind,
        took=None if failure or recovered is None else recovered - ended,
        load=os.getloadavg()[0],
        restarts=0
        if fault.strikes_controller
        else sum(count - before.get(uid, 0) for uid, count in after.items()),
        down=down,
    )
    print(f"{outcome} {failure}".rstrip(), flush=True)
    return outcome


async def _restarts(world: ChaosWorld) -> dict[str, int]:
    """Return how often each controller's container was started again, by the uid of its pod."""
    try:
        return {each["metadata"]["uid"]: restarts(each) for each in await world.controllers()}
    except WeirError:  # the API server may be what is away
        return {}


async def _until_well(find: Callable[[], Awaitable[str]], limit: float) -> tuple[float | None, str]:
    """Return when nothing was missing, `None` if never, and what was the last thing to be."""
    missing = ""

    async def well() -> float | None:
        nonlocal missing
        try:
            found = await find()
        except (WeirError, OSError) as error:
            found = str(error)
        missing = found or missing
        return None if found else CLOCK.now()

    return await wait_until(well, clock=CLOCK, timeout=limit, period=0.5), missing


async def _find_ill(world: ChaosWorld, limit: float) -> str:
    """Return what is not well after so many seconds; empty when all is."""
    before = await look_back(world)
    recovered, missing = await _until_well(lambda: find_missing(world, before), limit)
    return "" if recovered is not None else missing


async def _find_orphans(world: ChaosWorld) -> list[str]:
    """Return TaskManagers that are still beyond those wanted after a while of grace."""
    left: list[str] = []

    async def none_left() -> bool | None:
        nonlocal left
        left = find_excess(await world.app.status(), await world.app.pods("taskmanager"))
        return None if left else True

    await wait_until(none_left, clock=CLOCK, timeout=60.0, period=1.0)
    return left


async def _suspend(world: ChaosWorld) -> bool:
    """Stop the job with a savepoint; return whether it was stopped in time."""
    await world.app.change(state="Suspended")

    async def stopped() -> bool | None:
        return True if (await world.app.status())["controller"].get("suspended") else None

    return bool(await wait_until(stopped, clock=CLOCK, timeout=LIMIT, period=1.0))


async def _delete(world: ChaosWorld) -> list[str]:
    """Delete the StreamApp and return the names of the pods that it left behind."""
    await world.place.api.delete(world.app.path)

    async def gone() -> bool | None:
        pods = [*await world.app.pods("taskmanager"), *await world.app.pods("jobmanager")]
        return True if not pods and await is_gone(world.place.api, world.app.path) else None

    if await wait_until(gone, clock=CLOCK, timeout=LIMIT, period=1.0):
        return []
    pods = [*await world.app.pods("taskmanager"), *await world.app.pods("jobmanager")]
    return [pod["metadata"]["name"] for pod in pods] or [NAME]
