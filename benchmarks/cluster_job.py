"""A job on a real cluster, steered by hand: what the benchmarks on Kubernetes share.

The runtime, the engine and the lifecycle run here, on the host, against the cluster's API server
and Flink's REST interface, as they do in the controller's pod. There are no policies: a benchmark
asks for a deployment and looks at what it took. What is measured is thus the runtime's and Flink's;
the controller's chart adds nothing to it.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from benchmarks.cluster_place import CLAIM, IMAGE, OWNER, Place
from benchmarks.trips_cluster import Ledger, read_proof
from weir_operator.clock import SystemClock, wait_until
from weir_operator.flink.jars import HELPER, REPOSITORY, build_jar
from weir_operator.loop.events import Event
from weir_operator.loop.lifecycle import Lifecycle
from weir_operator.rescale.engine import Rescaler
from weir_operator.rescale.flink_jobs import FlinkJobs
from weir_operator.rescale.journal import DeploymentMap, RescaleJournal, Step
from weir_operator.rescale.status import FileStatusStore
from weir_operator.runtime.kubernetes.nodes import NodeNotices
from weir_operator.runtime.kubernetes.pods import FlinkPods, Owner
from weir_operator.runtime.kubernetes.runtime import KubernetesRuntime
from weir_operator.runtime.protocol import Replica
from weir_operator.streamapp.loading import parse_manifest
from weir_operator.streamapp.models import StreamApp
from weir_operator.wiring import assembly

SUBMIT_DEADLINE = 300.0
"""Seconds from submission until every task runs: state is read back in between."""

TRIPS = "example.Trips"
HEAVY = "example.Heavy"

POOLS = tuple({"name": name, "sizes": ["500m"]} for name in ("first", "second"))
"""Two pools of every node: what is measured does not depend on the node, and the cluster may be
shared with others who have filled one."""


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """The job as a benchmark wants it."""

    initial: DeploymentMap
    rates: Sequence[float]
    """Records/s per slot of 5 s; the last one is held."""
    entry_class: str = TRIPS
    arguments: tuple[str, ...] = ()
    """Of the job, beside its trace and its folder."""
    config: Mapping[str, str] = field(default_factory=dict)
    """Flink's configuration beside Weir's."""
    pools: Sequence[Mapping[str, Any]] = POOLS
    memory: str = "1Gi"
    """Of every TaskManager."""
    managed_memory: Mapping[str, str] = field(default_factory=dict)
    """Of it, per operator, for state off the heap."""
    savepoint_deadline: str = "10s"
    """When a change stops waiting for a savepoint and takes the newest checkpoint."""
    start_deadline: str = "180s"
    """When it stops waiting for its pods: two cores may carry a dozen JVMs."""


class ClusterJob:
    """One controller's hold on the job; an async context manager that ends every pod."""

    def __init__(self, place: Place, wanted: Wanted) -> None:
        self.place = place
        self.out = place.state / "out"
        self.store = FileStatusStore(place.state / "status.json")
        self.clock = SystemClock()
        self.events: list[Event] = []
        self._wanted = wanted

    async def __aenter__(self) -> Self:
        """Put together what steers the job; nothing runs yet."""
        app = self._app()
        pods = FlinkPods.of(
            app, uid=self.place.owner_uid, controller_namespace=self.place.namespace
        )
        owner = Owner(api_version="v1", kind="ConfigMap", name=OWNER, uid=self.place.owner_uid)
        self.runtime = KubernetesRuntime(
            self.place.api, replace(pods, owner=owner), NodeNotices(self.place.api)
        )
        self.jobs = FlinkJobs(self.runtime)
        self._by_via = {via: self._steer(app, via) for via in ("Auto", "Savepoint", "Checkpoint")}
        self.lifecycle = self._by_via["Auto"]
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Delete every pod and wait until they are gone."""
        await self.jobs.close()
        await self.runtime.close()

    async def change(self, target: DeploymentMap, *, via: str = "Auto") -> RescaleJournal:
        """Take the job to `target` by one restart.

        Raises:
            RuntimeError: It did not get there.
        """
        end = await self._by_via[via].change(target, "a benchmark asks for it")
        if end.step is not Step.DONE:
            raise RuntimeError(
                f"Expected the job to get to {target}, got {end.step}: {end.failure}"
            )
        return end

    async def replica(self, operator: str) -> Replica:
        """Return the one replica of an operator."""
        [found] = [each for each in await self.runtime.replicas() if each.operator == operator]
        return found

    async def finish(self) -> Ledger:
        """Stop the job with a savepoint and return what its ledger says then."""
        await self.lifecycle.suspend()
        return read_proof(self.out)

    async def until_arrived(self, records: int, *, limit: float) -> None:
        """Wait until a checkpoint is complete that knows of so many records at the sink.

        Raises:
            RuntimeError: There is none in time.
        """

        async def known() -> bool | None:
            with suppress(FileNotFoundError):
                ledger = json.loads((self.out / "ledger.json").read_text())
                return True if ledger["distinct"] >= records else None
            return None

        if await wait_until(known, clock=self.clock, timeout=limit, period=0.5) is None:
            raise RuntimeError(f"Expected {records} records at the sink within {limit:g} s")

    def _steer(self, app: StreamApp, via: str) -> Lifecycle:
        rescaler = Rescaler(
            runtime=self.runtime,
            jobs=self.jobs,
            spec=assembly.job_spec(app, beside=self.place.state),
            store=self.store,
            settings=replace(assembly.rescale_settings(app), via=via),
            clock=self.clock,
        )
        return Lifecycle(
            runtime=self.runtime,
            jobs=self.jobs,
            rescaler=rescaler,
            store=self.store,
            initial=self._wanted.initial,
            initial_savepoint=None,
            clock=self.clock,
            on_event=self.events.append,
            on_change=lambda journal: None,
        )

    def _app(self) -> StreamApp:
        """Return the StreamApp, once its files are on the volume."""
        wanted, state = self._wanted, self.place.state
        trace, jar = state / "trace.txt", state / "job.jar"
        trace.write_text("".join(f"{rate}\n" for rate in wanted.rates))
        shutil.copy(build_heavy_jar(), jar)
        self.out.mkdir()
        self.out.chmod(0o777)
        flink = {
            "image": IMAGE,
            "maxParallelism": 720,
            "storage": {"claim": CLAIM},
            "jobManager": {"cpu": "500m", "memory": "1Gi"},
            "config": dict(wanted.config),
            "job": {
                "jar": self.place.inside(jar),
                "entryClass": wanted.entry_class,
                "args": [
                    *("--trace", self.place.inside(trace), "--out", self.place.inside(self.out)),
                    *wanted.arguments,
                ],
            },
        }
        return parse_manifest(
            {
                "apiVersion": "weir.dev/v1alpha1",
                "kind": "StreamApp",
                "metadata": {"name": "job", "namespace": self.place.namespace},
                "spec": {
                    "flink": flink,
                    "objective": {"responseTime": "500ms"},
                    "nodePools": [
                        {"memory": wanted.memory, "price": 0.04, **pool} for pool in wanted.pools
                    ],
                    "operators": [self._operator(name) for name in wanted.initial],
                    "savepoints": {"keep": 1},
                    "rescale": {
                        "startDeadline": wanted.start_deadline,
                        "submitDeadline": f"{SUBMIT_DEADLINE:g}s",
                        "savepointDeadline": wanted.savepoint_deadline,
                    },
                },
            }
        )

    def _operator(self, name: str) -> dict[str, Any]:
        managed = self._wanted.managed_memory.get(name)
        return {"name": name, "maxReplicas": 12, **({"managedMemory": managed} if managed else {})}


def build_heavy_jar() -> Path:
    """Return a jar with the example job and its heavy relative, built where it is not there."""
    sources = [
        HELPER,
        *sorted((REPOSITORY / "examples/trips").glob("*.java")),
        *sorted((REPOSITORY / "benchmarks/jobs").glob("*.java")),
    ]
    return build_jar(sources, REPOSITORY / "build/jars/heavy.jar", entry_class=HEAVY)
