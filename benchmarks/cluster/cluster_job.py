"""A job on a real cluster, steered by hand: what benchmarks and tests on Kubernetes share.

The runtime, the engine and the lifecycle run here, on the host, against the cluster's API server
and Flink's REST interface, as they do in the controller's pod. There are no policies: a benchmark
asks for a deployment and looks at what it took. What is measured is thus the runtime's and Flink's;
the controller's chart adds nothing to it.

Where it lives is a `place`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Self

from benchmarks.cluster.place import OWNER, Place
from benchmarks.flink.steered_job import SteeredJob
from weir_operator.loop.directives import Directives
from weir_operator.rescale.flink import FlinkJobs
from weir_operator.rescale.journal import Kind, RescaleJournal, Step
from weir_operator.rescale.settings import JobSpec
from weir_operator.rescale.status import FileStatusStore
from weir_operator.runtime.pods.nodes import NodeNotices
from weir_operator.runtime.pods.pods import FlinkPods, Owner
from weir_operator.runtime.pods.runtime import KubernetesRuntime
from weir_operator.runtime.protocol import Deployments
from weir_operator.streamapp.models import StreamApp
from weir_operator.wiring import assembly
from weir_operator.wiring.discovery import Discovery


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
        discovery = Discovery(
            self._app,
            self.jobs,
            self.spec,
            assembled=self.spec.vertices,
            plan_known=False,
            on_event=self.events.append,
            clock=self.clock,
        )
        self.lifecycle = self._steer(
            self.runtime,
            spec=self.spec,
            settings=assembly.rescale_settings(self._app),
            initial=self._initial,
            directives=lambda: Directives(revision=assembly.revision_of(self._app, self.spec)),
            discovery=discovery if self._reads_programs else None,
        )
        return self

    async def change(self, target: Deployments) -> RescaleJournal:
        """Take the job to `target` by one restart."""
        end = await self.lifecycle.change(target, "a benchmark asks for it")
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
