"""The example job trips on a real Flink of its own, steered by hand: what the benchmarks share.

There are no policies here: a benchmark asks for a deployment and looks at what it took. The job's
ledger says which records arrived, its raw files when (`ledger`).
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Self

import yaml

from benchmarks.flink.steered_job import SteeredJob
from weir_operator.flink.commands import Installation
from weir_operator.flink.jars import REPOSITORY, find_java, flink_home
from weir_operator.rescale.flink import FlinkJobs
from weir_operator.rescale.journal import RescaleJournal
from weir_operator.rescale.settings import JobSpec, RescaleSettings
from weir_operator.rescale.status import FileStatusStore, StatusStore
from weir_operator.runtime.places import memory_needs_of
from weir_operator.runtime.processes.runtime import LocalRuntime
from weir_operator.runtime.protocol import Deployments
from weir_operator.runtime.settings import LocalSettings
from weir_operator.streamapp import world
from weir_operator.streamapp.loading import parse_manifest
from weir_operator.streamapp.models import StreamApp
from weir_operator.wiring import assembly

BUILD = REPOSITORY / "build" / "benchmarks"
FIXED = {"source": {"small/500m": 1}, "sink": {"small/500m": 1}}


def deployments(match: dict[str, int], aggregate: dict[str, int]) -> Deployments:
    """Return the deployments of all four operators; source and sink are fixed."""
    return {**FIXED, "match": match, "aggregate": aggregate}


@dataclass(frozen=True, kw_only=True)
class Trips:
    """The job as a benchmark wants it."""

    name: str
    rates: Sequence[float]
    """Records/s per slot of 5 s; the last one is held."""
    initial: Deployments
    arguments: tuple[str, ...] = ()
    config: Mapping[str, str] = field(default_factory=dict)
    """Flink's configuration beside Weir's and the example's own."""
    rescale: Callable[[RescaleSettings], RescaleSettings] = lambda settings: settings
    """Changes how long the steps of a change may take."""
    job_spec: Callable[[JobSpec], JobSpec] = lambda spec: spec
    """Changes how the job is submitted, to break it."""
    jar: Path = REPOSITORY / "build/jars/trips.jar"
    entry_class: str = "example.Trips"
    managed_memory: Mapping[str, str] = field(default_factory=dict)
    """Of a TaskManager's memory, per operator, for state off the heap."""
    root: Path = BUILD
    """Where the job's folder is made."""

    @property
    def folder(self) -> Path:
        """Everything of the job's."""
        return self.root / self.name

    @property
    def out(self) -> Path:
        """The job's ledger and raw files."""
        return self.folder / "out"

    @property
    def committed(self) -> Path:
        """What a transactional sink has committed, where the job has one: see `transactional`."""
        return self.folder / "committed"

    def transactional(self) -> Trips:
        """Return the same job with a transactional sink beside its ledger."""
        return replace(self, arguments=(*self.arguments, "--commit", str(self.committed)))

    @property
    def status_path(self) -> Path:
        return self.folder / "status.json"

    def clear(self) -> None:
        """Forget earlier runs; no process of theirs may live."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def app(self) -> StreamApp:
        """Return the StreamApp: the example's, with room for many replicas."""
        manifest = yaml.safe_load((REPOSITORY / "examples/trips/streamapp.yaml").read_text())
        manifest["metadata"]["name"] = self.name
        for operator in manifest["spec"]["operators"]:
            if "fixed" not in operator:
                operator["maxReplicas"] = 12
                del operator["initial"]
            if operator["name"] in self.managed_memory:
                operator["managedMemory"] = self.managed_memory[operator["name"]]
        self.out.mkdir(parents=True, exist_ok=True)
        trace = self.folder / "trace.txt"
        trace.write_text("".join(f"{rate}\n" for rate in self.rates))
        job = manifest["spec"]["flink"]["job"]
        job["entryClass"] = self.entry_class
        job["args"] = [
            *("--trace", str(trace), "--at-end", "hold", "--out", str(self.out)),
            *("--service.match-ms", "30", "--service.aggregate-ms", "20"),
            *self.arguments,
        ]
        return parse_manifest(manifest)


class TripsCluster(SteeredJob[LocalRuntime]):
    """One controller's hold on the job; an async context manager."""

    runtime: LocalRuntime
    spec: JobSpec

    def __init__(self, trips: Trips, *, store: StatusStore | None = None) -> None:
        super().__init__(trips.out, store or FileStatusStore(trips.status_path))
        self.trips = trips
        self._detached = False

    async def __aenter__(self) -> Self:
        """Open the runtime; what an earlier controller left is adopted."""
        app = self.trips.app()
        speeds = {
            each.name: each.speedup
            for name in world.operator_names(app)
            for each in world.node_types(app, name)
        }
        self.runtime = await LocalRuntime.open(
            LocalSettings(
                root=self.trips.folder / "state",
                namespace="default",
                name=self.trips.name,
                installation=Installation(java=Path(find_java()), flink_home=Path(flink_home())),
                job_jar=self.trips.jar,
                cache=BUILD / "cache",
                speeds=speeds,
                memory_needs=memory_needs_of(app),
                max_parallelism=app.spec.flink.max_parallelism,
                config={**(app.spec.flink.config or {}), **self.trips.config},
            )
        )
        self.jobs = FlinkJobs(self.runtime)
        self.spec = self.trips.job_spec(assembly.job_spec(app, beside=self.trips.folder))
        self.lifecycle = self._steer(
            self.runtime,
            spec=self.spec,
            settings=self.trips.rescale(assembly.rescale_settings(app)),
            initial=self.trips.initial,
            models={
                name: each.model
                for name, each in assembly.operator_managers(app).items()
                if each.fixed is None
            },
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End every process, unless detached."""
        await self.jobs.close()
        if self._detached:
            await self.runtime.detach()
        else:
            await self.runtime.close()

    def detach(self) -> None:
        """Leave everything running when the context ends."""
        self._detached = True

    async def change(self, target: Deployments) -> RescaleJournal:
        """Take the job to `target`."""
        return await self.lifecycle.change(target, "a benchmark asks for it")
