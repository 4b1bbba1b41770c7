"""The example job trips on a real Flink of its own, steered by hand: what the benchmarks share.

There are no policies here: a benchmark asks for a deployment and looks at what it took. The job's
ledger says which records arrived, its raw files when.

Steady states of trips on a real Flink, measured: what the fidelity benchmarks share.
"""

from __future__ import annotations

import asyncio
import csv
import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import Self

import yaml

from weir_operator.clock import SystemClock
from weir_operator.errors import PodsPendingError
from weir_operator.flink.commands import Installation
from weir_operator.flink.jars import find_java, flink_home
from weir_operator.loop.events import Event
from weir_operator.loop.gather import layout_of
from weir_operator.loop.lifecycle import Lifecycle
from weir_operator.loop.run_recorder import read_ledger
from weir_operator.metrics.direct import DirectSource
from weir_operator.metrics.measurement import measure
from weir_operator.metrics.values import AppMeasurement, OperatorMeasurement
from weir_operator.rescale.engine import Rescaler
from weir_operator.rescale.flink import FlinkJobs
from weir_operator.rescale.journal import DeploymentMap, RescaleJournal
from weir_operator.rescale.settings import JobSpec, RescaleSettings
from weir_operator.rescale.status import FileStatusStore, StatusStore
from weir_operator.runtime.local.runtime import LocalRuntime
from weir_operator.runtime.protocol import ReplicaSpec
from weir_operator.runtime.settings import LocalSettings
from weir_operator.streamapp import world
from weir_operator.streamapp.loading import parse_manifest
from weir_operator.streamapp.models import StreamApp
from weir_operator.wiring import assembly

REPOSITORY = Path(__file__).resolve().parent.parent
BUILD = REPOSITORY / "build" / "benchmarks"
FIXED = {"source": {"small/500m": 1}, "sink": {"small/500m": 1}}


def deployments(match: dict[str, int], aggregate: dict[str, int]) -> DeploymentMap:
    """Return the deployments of all four operators; source and sink are fixed."""
    return {**FIXED, "match": match, "aggregate": aggregate}


@dataclass(frozen=True, kw_only=True)
class Trips:
    """The job as a benchmark wants it."""

    name: str
    rates: Sequence[float]
    """Records/s per slot of 5 s; the last one is held."""
    initial: DeploymentMap
    arguments: tuple[str, ...] = ()
    config: Mapping[str, str] = field(default_factory=dict)
    """Flink's configuration beside Weir's and the example's own."""
    rescale: Callable[[RescaleSettings], RescaleSettings] = lambda settings: settings
    """Changes how long the steps of a change may take."""
    full_pool: str | None = None
    """A pool in which nothing more can be started."""
    job_spec: Callable[[JobSpec], JobSpec] = lambda spec: spec
    """Changes how the job is submitted, to break it."""
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
        """Return the same job with a transactional sink beside its ledger.

        The ledger lies in the job's state: where a job goes back to older state, so does the
        ledger, and only committed files show it.
        """
        return replace(self, arguments=(*self.arguments, "--commit", str(self.committed)))

    @property
    def status_path(self) -> Path:
        """The status of the StreamApp."""
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
        self.out.mkdir(parents=True, exist_ok=True)
        trace = self.folder / "trace.txt"
        trace.write_text("".join(f"{rate}\n" for rate in self.rates))
        manifest["spec"]["flink"]["job"]["args"] = [
            *("--trace", str(trace), "--at-end", "hold", "--out", str(self.out)),
            *("--service.match-ms", "30", "--service.aggregate-ms", "20"),
            *self.arguments,
        ]
        return parse_manifest(manifest)


class TripsCluster:
    """One controller's hold on the job, without policies; an async context manager.

    Leaving it ends every process; `detach` before leaves them to the next one.
    """

    def __init__(self, trips: Trips, *, store: StatusStore | None = None) -> None:
        self.trips = trips
        self.store = store or FileStatusStore(trips.status_path)
        self.events: list[Event] = []
        self.clock = SystemClock()
        self._detached = False

    async def __aenter__(self) -> Self:
        """Open the runtime; what an earlier controller left is adopted."""
        app = self.trips.app()
        speeds = {
            each.name: each.speedup
            for name in world.operator_names(app)
            for each in world.node_types(app, name)
        }
        runtime = LocalRuntime if self.trips.full_pool is None else _full(self.trips.full_pool)
        self.runtime = await runtime.open(
            LocalSettings(
                root=self.trips.folder / "state",
                namespace="default",
                name=self.trips.name,
                installation=Installation(java=Path(find_java()), flink_home=Path(flink_home())),
                job_jar=REPOSITORY / "build/jars/trips.jar",
                cache=BUILD / "cache",
                speeds=speeds,
                max_parallelism=app.spec.flink.max_parallelism,
                config={**(app.spec.flink.config or {}), **self.trips.config},
            )
        )
        self.jobs = FlinkJobs(self.runtime)
        settings = self.trips.rescale(assembly.rescale_settings(app))
        self.rescaler = Rescaler(
            runtime=self.runtime,
            jobs=self.jobs,
            spec=self.trips.job_spec(assembly.job_spec(app, beside=self.trips.folder)),
            store=self.store,
            settings=settings,
            clock=self.clock,
        )
        self.lifecycle = Lifecycle(
            runtime=self.runtime,
            jobs=self.jobs,
            rescaler=self.rescaler,
            store=self.store,
            initial=self.trips.initial,
            initial_savepoint=None,
            clock=self.clock,
            on_event=self.events.append,
            on_change=lambda journal: None,
            models={
                name: each.model
                for name, each in assembly.operator_managers(app).items()
                if each.fixed is None
            },
            settings=settings,
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

    async def change(self, target: DeploymentMap) -> RescaleJournal:
        """Take the job to `target`."""
        return await self.lifecycle.change(target, "a benchmark asks for it")

    async def until_running(self, limit: float = 60.0) -> float:
        """Look after the job until every task runs; return the seconds that took."""
        began = self.clock.now()
        while self.clock.now() - began < limit:
            await self.lifecycle.heal()
            job = self.store.load().job_id
            progress = await self.jobs.progress(job) if job else None
            if progress is not None and progress.running:
                return self.clock.now() - began
            await asyncio.sleep(0.2)
        raise RuntimeError(f"The job did not run within {limit:g} s")

    async def finish(self) -> Ledger:
        """Stop the job with a savepoint and return what its ledger says then."""
        await self.lifecycle.suspend()
        return read_proof(self.trips.out)


def _full(pool: str) -> type[LocalRuntime]:
    """Return a runtime in which nothing more can be started in `pool`."""

    class FullRuntime(LocalRuntime):
        async def start(self, wanted: Sequence[ReplicaSpec]) -> tuple[str, ...]:
            groups = {(each.operator, each.pool) for each in wanted if each.pool == pool}
            if groups:
                raise PodsPendingError(f"Pool {pool} is full", tuple(sorted(groups)))
            return await super().start(wanted)

    return FullRuntime


@dataclass(frozen=True, kw_only=True, slots=True)
class Ledger:
    """Which records arrived, by the job's own checkpointed state."""

    emitted: int
    lost: int
    doubled: int
    sequence_errors: int
    replayed: int
    """Records that a plain sink saw again after a failure; the state counts them once."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """A record at the sink."""

    id: int
    time: float
    """Unix seconds."""


def read_arrivals(out: Path) -> list[Arrival]:
    """Return every record that reached the sink, in order of time."""
    arrivals = []
    for path in out.glob("raw-*.csv"):
        with path.open(newline="") as file:
            for row in csv.reader(file):
                if len(row) == 5 and row[0].isdigit():  # not the heading, nor a line cut by a crash
                    arrivals.append(Arrival(int(row[0]), float(row[2]) / 1000))
    return sorted(arrivals, key=lambda arrival: arrival.time)


def longest_gap(arrivals: Sequence[Arrival], start: float, end: float) -> float:
    """Return the longest time without output that touches [start, end], seconds."""
    times = [arrival.time for arrival in arrivals]
    touching = (b - a for a, b in pairwise(times) if b >= start and a <= end)
    return max(touching, default=float("nan"))


def read_proof(out: Path) -> Ledger:
    """Return the ledger as of the last checkpoint that source and sink share.

    Raises:
        RuntimeError: There is none: the job was not stopped in order.
    """
    emitted, _, lost, doubled = read_ledger(out)
    if emitted is None or lost is None or doubled is None:
        raise RuntimeError(f"Expected a ledger of one checkpoint in {out}, got none")
    ledger = json.loads((out / "ledger.json").read_text())
    arrivals = read_arrivals(out)
    return Ledger(
        emitted=emitted,
        lost=lost,
        doubled=doubled,
        sequence_errors=ledger["sequenceErrors"],
        replayed=len(arrivals) - len({arrival.id for arrival in arrivals}),
    )


Counts = dict[str, int]

WARM_UP = 10.0
MEASURED = 42.0
TRIES = 3
"""Windows that a deployment gets to work off what its restart left."""
SETTLED = 0.03
"""Part by which it may process more than arrives and still count as steady."""


async def measure_steady(
    cluster: TripsCluster,
    match: Counts,
    aggregate: Counts,
    *,
    seconds: float = MEASURED,
    parts: int = 1,
) -> tuple[AppMeasurement, Sequence[AppMeasurement]]:
    """Bring the job to a deployment and measure its steady state.

    Args:
        cluster: The job.
        match: Replicas of `match` by node type.
        aggregate: Replicas of `aggregate`.
        seconds: Length of the window.
        parts: How many parts of equal length to measure besides.

    Returns:
        The whole window, and its parts in order of time.

    Raises:
        RuntimeError: It does not settle.
    """
    target = deployments(match, aggregate)
    if cluster.store.load().deployments != target:
        await cluster.change(target)

    async def targets() -> list[str]:
        return [each.metrics_url for each in await cluster.runtime.replicas()]

    await asyncio.sleep(WARM_UP)
    source = DirectSource(targets, f"default.{cluster.trips.name}")
    source.start()
    try:
        for _ in range(TRIES):
            began = cluster.clock.now()
            await asyncio.sleep(seconds)
            ended = cluster.clock.now()
            whole = await _measure_between(cluster, source, began, ended)
            if all(_is_settled(whole.operators[name]) for name in ("match", "aggregate")):
                length = (ended - began) / parts
                borders = [began + part * length for part in range(parts)]
                return whole, [
                    await _measure_between(cluster, source, border, border + length)
                    for border in borders
                ]
    finally:
        await source.close()
    raise RuntimeError(
        f"Expected a steady state of {target} within {TRIES * seconds:g} s, got a backlog that is "
        "still worked off; raise WARM_UP, or leave the machine to the benchmark"
    )


async def _measure_between(
    cluster: TripsCluster, source: DirectSource, start: float, end: float
) -> AppMeasurement:
    """Return what was measured between two Unix times."""
    window = await source.window(start=start, end=end)
    job = cluster.store.load().job_id or ""
    layout = layout_of(job, await cluster.jobs.topology(job), await cluster.runtime.replicas())
    return measure(window, layout)


def _is_settled(seen: OperatorMeasurement) -> bool:
    return seen.processed_rate <= seen.arrival_rate * (1 + SETTLED)
