"""Weir and a job as a user has them: the chart, a Prometheus, a StreamApp under a changing load.

The job is the example trips. One of its two sinks is plain, the other transactional. The job's jar
comes from the volume: it is the one that `make jars` built. Weir watches ten namespaces: that of
the job, one with a StreamApp that is suspended, and eight empty ones.

Needs `helm` and `kubectl` on the PATH, root, and on all nodes the images `weir:dev` and
`prometheus:dev` (or those that `WEIR_TEST_CONTROLLER_IMAGE` and `WEIR_TEST_PROMETHEUS_IMAGE` name).

Whether all is well again after a fault, and if not, what is missing.

All is well when the right pods run, one controller holds the Lease and has taken over the status,
no change is under way, Weir trusts its metrics, every task of the job runs, and the job has
completed a checkpoint that holds new records since the fault's end.
"""

from __future__ import annotations

import asyncio
import json
import math
import shutil
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

from benchmarks.cluster.installation import (
    RELEASE,
    apply_definition,
    install_chart,
    run_helm,
    upgrade_chart,
)
from benchmarks.cluster.live_app import LiveApp, staying
from benchmarks.cluster.place import CLAIM, IMAGE, Place, open_place
from tests.cluster.prometheus_on_kubernetes import start_prometheus
from weir_operator.api.client import Body
from weir_operator.cluster.status.store import read_journal
from weir_operator.errors import WeirError
from weir_operator.flink.jars import REPOSITORY
from weir_operator.flink.programs import is_warm_up
from weir_operator.flink.rest import FlinkRest
from weir_operator.runtime.pods.configuration import REST_PORT

LEASE = "weir-controller"
NAME = "trips"
SCRAPE_EVERY = "1s"
INTERVAL = "5s"
"""Of Weir's ticks: how long it takes at least until metrics count as healthy again."""
WATCHED = 10
"""Namespaces that Weir watches."""
SLOTS = 64
"""Lines of the trace, of 15 s each; the load goes up and down once."""
SIZE = "500m"
"""Of every TaskManager: what a JVM needs to start in a few seconds."""
_NAMESPACES = "/api/v1/namespaces"
_CONTROLLER = f"app.kubernetes.io/instance={RELEASE},app.kubernetes.io/name=weir"


@dataclass(frozen=True, slots=True)
class ChaosWorld:
    """What faults befall, and where to look what became of it."""

    place: Place

    @property
    def app(self) -> LiveApp:
        return LiveApp(self.place.api, self.place.namespace, NAME)

    @property
    def others(self) -> list[str]:
        """Return the watched namespaces beside that of the job."""
        return [f"{self.place.namespace}-{number}" for number in range(1, WATCHED)]

    @property
    def neighbour(self) -> LiveApp:
        """Return the suspended StreamApp in another namespace."""
        return LiveApp(self.place.api, self.others[0], NAME)

    @property
    def core(self) -> str:
        """Of the namespace's pods and the like."""
        return f"/api/v1/namespaces/{self.place.namespace}"

    @property
    def lease_path(self) -> str:
        """Of the Lease that the active controller holds."""
        namespace = self.place.namespace
        return f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{LEASE}"

    async def controllers(self) -> list[Body]:
        """Return the controller's pods that are not about to go."""
        return staying(await self.place.api.list(f"{self.core}/pods", labels=_CONTROLLER))

    async def ask_for_change(self) -> int:
        """Ask for another number of replicas of `aggregate`, and return it."""
        wanted = 1 if replicas_of(await self.app.status()) > 1 else 2
        await self.app.change(operators=operators(aggregate=wanted))
        return wanted

    async def ask_for_upgrade(self) -> str:
        """Edit the pod template, for which the job is started anew; return the edit."""
        edit = str(time.time())
        template = {"metadata": {"annotations": {"chaos/edit": edit}}}
        await self.app.change(flink={"podTemplate": template})
        return edit

    async def change_chart(self, **values: object) -> None:
        """Change values of Weir's chart, and wait until its controllers are ready."""
        await asyncio.to_thread(upgrade_chart, self.place.namespace, values)


@asynccontextmanager
async def open_world() -> AsyncIterator[ChaosWorld]:
    """Make everything, and clear it away at the end."""
    async with open_place("weir-bench") as place:
        prometheus = await start_prometheus(place.api, place.namespace, every=SCRAPE_EVERY)
        await apply_definition(place.api)
        world = ChaosWorld(place)
        write_input(place)
        try:
            for name in world.others:
                await place.api.create(
                    _NAMESPACES, {"kind": "Namespace", "metadata": {"name": name}}
                )
            await world.neighbour.create(suspended(world.place, world.neighbour))
            install_chart(
                place.namespace,
                watched=place.namespace,
                values={
                    "prometheus": {"url": prometheus.url},
                    "watchNamespaces": [place.namespace, *world.others],
                },
            )
            yield world
        finally:
            run_helm("uninstall", RELEASE, "--ignore-not-found", namespace=place.namespace)
            for app in (world.app, world.neighbour):
                await app.remove_finalizer()
            for name in world.others:
                await place.api.delete(f"{_NAMESPACES}/{name}")


def write_input(place: Place) -> None:
    """Put on the volume what the job needs."""
    state = place.state
    shutil.copy(REPOSITORY / "build/jars/trips.jar", state / "trips.jar")
    rates = [20 - 10 * math.cos(2 * math.pi * slot / SLOTS) for slot in range(SLOTS)]
    (state / "trace.txt").write_text("".join(f"{rate:.1f}\n" for rate in [*rates] * 8))
    for folder in ("out", "committed"):
        (state / folder).mkdir()
        (state / folder).chmod(0o777)


def manifest(place: Place) -> dict[str, Any]:
    """Return the StreamApp."""
    state = place.state
    arguments = [
        *("--trace", place.inside(state / "trace.txt"), "--slot-seconds", "15"),
        *("--out", place.inside(state / "out"), "--commit", place.inside(state / "committed")),
        *("--service.match-ms", "30", "--service.aggregate-ms", "20"),
    ]
    spec = {
        "flink": {
            "image": IMAGE,
            "maxParallelism": 720,
            "storage": {"claim": CLAIM},
            "jobManager": {"cpu": SIZE, "memory": "1Gi", "pool": "any"},
            "job": {
                "jar": place.inside(state / "trips.jar"),
                "entryClass": "example.Trips",
                "args": arguments,
            },
        },
        "objective": {"responseTime": "500ms", "catchUp": "60s"},
        "nodePools": [
            {"name": "any", "sizes": [SIZE], "memory": "1Gi", "price": "0.05"},
            {
                "name": "small",
                "nodeSelector": {"weir.dev/pool": "small"},
                "sizes": [SIZE],
                "memory": "1Gi",
                "price": "0.04",
            },
        ],
        "operators": operators(aggregate=1),
        "operatorManager": {"interval": INTERVAL},
        "applicationManager": {"restartBudget": {"size": 3, "refillEvery": "2m"}},
        "rescale": {"startDeadline": "60s", "submitDeadline": "60s"},
    }
    return {
        "apiVersion": "weir.dev/v1alpha1",
        "kind": "StreamApp",
        "metadata": {"name": NAME, "namespace": place.namespace},
        "spec": spec,
    }


def suspended(place: Place, app: LiveApp) -> dict[str, Any]:
    """Return the same StreamApp somewhere else, which needs no pods."""
    made = manifest(place)
    made["metadata"] = {"name": app.name, "namespace": app.namespace}
    made["spec"]["state"] = "Suspended"
    return made


def operators(*, aggregate: int) -> list[dict[str, Any]]:
    one = {f"any/{SIZE}": 1}
    return [
        {"name": "source", "maxReplicas": 1, "fixed": one},
        {"name": "match", "maxReplicas": 3},
        {"name": "aggregate", "maxReplicas": 3, "fixed": {f"any/{SIZE}": aggregate}},
        {"name": "sink", "maxReplicas": 1, "fixed": one},
    ]


def replicas_of(status: Body) -> int:
    """Return how many replicas `aggregate` has; none before the first start."""
    counts = status.get("controller", {}).get("deployments", {}).get("aggregate", {})
    return sum(int(count) for count in counts.values())


@dataclass(frozen=True, slots=True)
class Before:
    records: int
    """Distinct ones at the sink, by the newest checkpoint."""
    lease: str
    """Version of the Lease, which must have been renewed since; empty where nobody said. Its times
    are those of a clock that may be wrong."""


async def look_back(world: ChaosWorld) -> Before:
    try:
        lease = (await world.place.api.get(world.lease_path))["metadata"]["resourceVersion"]
    except WeirError:
        lease = ""
    return Before(records=records(world), lease=lease)


async def find_missing(world: ChaosWorld, before: Before) -> str:
    """Return what is not well yet, in a few words; empty when all is."""
    try:
        status = await world.app.status()
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
    managers = [pod for pod in await world.app.pods("jobmanager") if is_ready(pod)]
    if len(managers) != 1:
        return f"{len(managers)} JobManagers are ready"
    async with rest_of(managers[0]) as rest:
        job = await rest.job(status["controller"]["job_id"])
        alive = await jobs_alive(rest)
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
    except (FileNotFoundError, ValueError):  # none yet, or half written
        return 0
    return int(ledger["distinct"])


@dataclass(slots=True)
class JobsSeen:
    most: int = 0
    """At once."""
    alive: float = 0.0
    """When one was alive last, by the monotonic clock."""
    longest: float = 0.0
    """Seconds without one since `begin`."""

    def begin(self, now: float) -> None:
        """Count anew how long there is no job."""
        self.alive, self.longest = now, 0.0

    def note(self, alive: int, now: float) -> None:
        """Note how many jobs are alive."""
        self.most, self.longest = max(self.most, alive), max(self.longest, now - self.alive)
        if alive:
            self.alive = now


def rest_of(manager: Body) -> FlinkRest:
    """Return Flink's REST interface at a JobManager's pod."""
    return FlinkRest(f"http://{manager['status'].get('podIP')}:{REST_PORT}", timeout=3.0)


async def jobs_alive(rest: FlinkRest) -> list[str]:
    """Return the ids of the jobs that have not ended, without those that warm up TaskManagers."""
    return [
        each.id for each in await rest.jobs() if not each.state.is_over and not is_warm_up(each.id)
    ]


@asynccontextmanager
async def watch_jobs(world: ChaosWorld) -> AsyncIterator[JobsSeen]:
    """Count the jobs that JobManagers have alive, twice a second, while the context is open."""
    seen = JobsSeen()

    async def watch() -> None:
        while True:
            with suppress(WeirError):  # one that is gone, or is starting, says nothing
                for pod in await world.app.pods("jobmanager"):
                    async with rest_of(pod) as rest:
                        seen.note(len(await jobs_alive(rest)), time.monotonic())
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
    step = read_journal(status).get("step", "Done")
    return "" if step in ("Done", "Abandoned", "RolledBack", "Failed") else f"a change is at {step}"


async def _find_wrong_pods(world: ChaosWorld, status: Body) -> str:
    pods = await world.app.pods("taskmanager")
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
