"""A job on a real cluster, steered by hand: what benchmarks and tests on Kubernetes share.

The runtime, the engine and the lifecycle run here, on the host, against the cluster's API server
and Flink's REST interface, as they do in the controller's pod. There are no policies: a benchmark
asks for a deployment and looks at what it took. What is measured is thus the runtime's and Flink's;
the controller's chart adds nothing to it.

Where it lives is a `place`. Jobs' jars come from the volume, so no image is made for them.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from benchmarks.cluster.place import CLAIM, IMAGE, OWNER, Place
from benchmarks.flink.steered_job import SteeredJob
from weir_operator.flink.jars import HELPER, REPOSITORY, build_jar
from weir_operator.loop.directives import Directives
from weir_operator.rescale.flink import FlinkJobs
from weir_operator.rescale.journal import Kind, RescaleJournal, Step
from weir_operator.rescale.settings import JobSpec
from weir_operator.rescale.status import FileStatusStore
from weir_operator.runtime.pods.nodes import NodeNotices
from weir_operator.runtime.pods.pods import FlinkPods, Owner
from weir_operator.runtime.pods.runtime import KubernetesRuntime
from weir_operator.runtime.protocol import Deployments
from weir_operator.runtime.revision import Revision
from weir_operator.streamapp.loading import parse_manifest
from weir_operator.streamapp.models import StreamApp
from weir_operator.wiring import assembly
from weir_operator.wiring.discovery import Discovery

SUBMIT_DEADLINE = 300.0
"""Seconds from submission until every task runs: state is read back in between."""

TRIPS = "example.Trips"
HEAVY = "example.Heavy"
HEAVY_JAR = REPOSITORY / "build/jars/heavy.jar"

POOLS = tuple({"name": name, "sizes": ["500m"]} for name in ("first", "second"))
"""Two pools of every node: what is measured does not depend on the node, and the cluster may be
shared with others who have filled one."""


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """The job as a benchmark wants it."""

    initial: Deployments
    rates: Sequence[float]
    """Records/s per slot of 5 s; the last one is held."""
    arguments: tuple[str, ...] = ()
    """Of the job, beside its trace and its folder."""

    def app(self, place: Place) -> StreamApp:
        """Return the StreamApp, once its files are on the volume."""
        state, out = place.state, place.state / "out"
        trace, jar = state / "trace.txt", state / "job.jar"
        trace.write_text("".join(f"{rate}\n" for rate in self.rates))
        shutil.copy(build_heavy_jar(), jar)
        out.mkdir()
        out.chmod(0o777)
        flink = {
            "image": IMAGE,
            "maxParallelism": 720,
            "storage": {"claim": CLAIM},
            "jobManager": {"cpu": "500m", "memory": "1Gi"},
            "job": {
                "jar": place.inside(jar),
                "entryClass": TRIPS,
                "args": [
                    *("--trace", place.inside(trace), "--out", place.inside(out)),
                    *self.arguments,
                ],
            },
        }
        return parse_manifest(
            {
                "apiVersion": "weir.dev/v1alpha1",
                "kind": "StreamApp",
                "metadata": {"name": "job", "namespace": place.namespace},
                "spec": {
                    "flink": flink,
                    "objective": {"responseTime": "500ms"},
                    "nodePools": [{"memory": "1Gi", "price": "0.04", **pool} for pool in POOLS],
                    "operators": [{"name": name, "maxReplicas": 12} for name in self.initial],
                    "savepoints": {"keep": 1},
                    "rescale": {
                        "startDeadline": "180s",  # two cores may carry a dozen JVMs
                        "submitDeadline": f"{SUBMIT_DEADLINE:g}s",
                    },
                },
            }
        )


class ClusterJob(SteeredJob[KubernetesRuntime]):
    """One controller's hold on the job; an async context manager that ends every pod."""

    runtime: KubernetesRuntime

    def __init__(
        self, place: Place, app: StreamApp, initial: Deployments, *, reads_programs: bool = False
    ) -> None:
        """Note what is to run.

        Args:
            place: Where.
            app: As a user would write it.
            initial: With what it begins.
            reads_programs: Whether programs are read and checked, as by a controller.
        """
        super().__init__(place.state / "out", FileStatusStore(place.state / "status.json"))
        self.place = place
        self._app, self._initial, self._reads_programs = app, initial, reads_programs

    async def __aenter__(self) -> Self:
        """Put together what steers the job; nothing runs yet."""
        pods = FlinkPods.of(
            self._app, uid=self.place.owner_uid, controller_namespace=self.place.namespace
        )
        owner = Owner(api_version="v1", kind="ConfigMap", name=OWNER, uid=self.place.owner_uid)
        self.pods = replace(pods, owner=owner)
        self.runtime = KubernetesRuntime(self.place.api, self.pods, NodeNotices(self.place.api))
        self.jobs = FlinkJobs(self.runtime)
        settings = assembly.rescale_settings(self._app)
        discovery = Discovery(
            self._app,
            self.jobs,
            self.spec,
            assembled=self.spec.vertices,
            plan_known=False,
            on_event=self.events.append,
            clock=self.clock,
        )
        self._by_via = {
            via: self._steer(
                self.runtime,
                spec=self.spec,
                settings=replace(settings, via=via),
                initial=self._initial,
                directives=lambda: Directives(revision=self._revision()),
                discovery=discovery if self._reads_programs else None,
            )
            for via in ("Auto", "Savepoint", "Checkpoint")
        }
        self.lifecycle = self._by_via["Auto"]
        return self

    async def change(self, target: Deployments, *, via: str = "Auto") -> RescaleJournal:
        """Take the job to `target` by one restart."""
        end = await self._by_via[via].change(target, "a benchmark asks for it")
        if end.step is not Step.DONE:
            raise RuntimeError(
                f"Expected the job to get to {target}, got {end.step}: {end.failure}"
            )
        return end

    async def upgrade(self, edit: str) -> RescaleJournal:
        """Make the job anew with pods of an edited template, as after an edit of the manifest."""
        flink = self._app.spec.flink
        template = {**(flink.pod_template or {}), "metadata": {"annotations": {"bench/edit": edit}}}
        flink = flink.model_copy(update={"pod_template": template})
        spec = self._app.spec.model_copy(update={"flink": flink})
        self._app = self._app.model_copy(update={"spec": spec})
        await self.lifecycle.heal()
        end = self.store.load().rescale
        if end is None or end.kind is not Kind.UPGRADE or end.step is not Step.DONE:
            raise RuntimeError(f"Expected the job to be upgraded, got {end}")
        return end

    @property
    def spec(self) -> JobSpec:
        """How the job is submitted."""
        return assembly.job_spec(self._app, beside=self.place.state)

    def _revision(self) -> Revision:
        return assembly.revision_of(self._app, self.spec)


def build_heavy_jar() -> Path:
    """Return a jar with the example job and its heavy relative, built where it is not there."""
    sources = [
        HELPER,
        *sorted((REPOSITORY / "examples/trips").glob("*.java")),
        *(REPOSITORY / f"benchmarks/jobs/{name}.java" for name in ("Burn", "Heavy", "Hoard")),
    ]
    return build_jar(sources, HEAVY_JAR, entry_class=HEAVY)
