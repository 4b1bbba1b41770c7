"""What memory does to a job whose state is larger than its cache, and what planner makes of it.

A job reads values of 4 KiB back, 160 MB of them in RocksDB, some more often than others
(`jobs/Recall.java`). They are written with the largest amount of memory. Then its operator gets one
amount after the other, from the least on; each time Weir restarts it from a savepoint as it
restarts any job. Its helper counts service times, RocksDB what
its cache misses, Flink what the heap holds and what the process takes of the CPU.

- Service times are wall-clock times, which other programs on the machine lengthen. So the CPU of
  the thread that serves the records is counted beside them. It is the work of a record here: files
  are in the kernel's cache, and nothing waits for a disk. Fit and choices are made from it.
- The fit is judged on amounts that it has not seen: it is made of all others.
- With one amount, what is believed of the next one is what the share of missed reads says.
- Planner chooses for several rates from what was measured, once with all sizes and once with each
  amount alone, as if sizes differed in CPU only. Prices are the list prices of Google Cloud's N1
  machines, 0.0316 per core and 0.0042 per GiB and hour.

The runtime is steered by hand (see `steered_job`).
"""

from __future__ import annotations

import asyncio
import itertools
import math
import re
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Self

import aiohttp
import numpy as np
import psutil

from benchmarks.figures import Figure, at_most
from benchmarks.flink.steered_job import SteeredJob
from benchmarks.rows import RESULTS, write_outcomes
from weir_operator.clock import wait_until
from weir_operator.flink.commands import Installation
from weir_operator.flink.jars import HELPER, JARS, REPOSITORY, build_jar, find_java, flink_home
from weir_operator.local.program import flink_configuration
from weir_operator.metrics import names
from weir_operator.rescale.flink import FlinkJobs
from weir_operator.rescale.status import FileStatusStore
from weir_operator.runtime.local.folders import AppFolder
from weir_operator.runtime.local.runtime import LocalRuntime
from weir_operator.runtime.places import MIB, memory_choices, memory_needs_of
from weir_operator.runtime.settings import LocalSettings
from weir_operator.streamapp import world
from weir_operator.streamapp.loading import parse_manifest
from weir_operator.streamapp.models import StreamApp
from weir_operator.wiring import assembly
from weir_policies import registry
from weir_policies.model.cost import kind_of_change, normalised_cost, price_per_hour
from weir_policies.model.memory import WorkPoint, find_binding, fit_work
from weir_policies.model.node_types import Deployment, NodeType
from weir_policies.model.queueing import predict_means
from weir_policies.policy import ChangeKind, CostParts, Observation, OperatorModel, Transition

ABOUT = "service time by managed memory of a job with RocksDB, the fit, and what planner chooses"
DURATION = "10 min"

FOLDER = RESULTS / "memory"
AMOUNTS = ("900Mi", "1Gi", "1280Mi", "1792Mi")
KEYS, VALUE = 40_000, 4096
"""Values, and bytes of each: a block of RocksDB's, so that a read that misses reads one value."""
RATE = 4000
"""Records/s while measuring: half a core or less with any amount."""
WARM, COUNTED = 45.0, 30.0
"""Seconds in which the cache fills (4.5 times as many reads as values), and that are counted."""
LIMIT = 420.0
"""Seconds for the job to start and for its state to be there."""
CORE, GIB = 0.0316, 0.0042
RATES = (1_000, 4_000, 16_000, 64_000)
"""Records/s that planner chooses for."""
MOST = 40
TICKS, NOISE = 1000, 0.02
"""Minutes of each rate, and the spread of the minutes' rates."""
BOUND = 0.010
"""Seconds of response time."""
NEAR = 10.0
"""Percent by which the fit may miss an amount that it has not seen."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Measured:
    """What one amount of memory did."""

    node_type: str
    managed: int
    """MiB."""
    records: float
    service: float
    """Seconds per record, by the clock."""
    work: float
    """Seconds of CPU per record, of the thread that serves them."""
    misses: float
    """Per record."""
    miss_share: float
    heap: float
    """MiB in use when least were."""
    stalled: float
    """Share of the time."""
    gc: float
    """Share of the time."""


class RecallJob(SteeredJob[LocalRuntime]):
    """The job on this machine; an async context manager."""

    runtime: LocalRuntime

    def __init__(self, app: StreamApp, jar: Path) -> None:
        super().__init__(FOLDER / "out", FileStatusStore(FOLDER / "status.json"))
        self._app = app
        self._jar = jar

    async def __aenter__(self) -> Self:
        """Open the runtime."""
        app = self._app
        self.runtime = await LocalRuntime.open(
            LocalSettings(
                root=FOLDER / "state",
                namespace="default",
                name=app.metadata.name,
                installation=Installation(java=Path(find_java()), flink_home=Path(flink_home())),
                job_jar=self._jar,
                cache=RESULTS / "cache",
                speeds={
                    each.name: each.speedup
                    for name in world.operator_names(app)
                    for each in world.node_types(app, name)
                },
                pool_memory={pool.name: pool.memory.bytes // MIB for pool in app.spec.pools},
                memory_needs=memory_needs_of(app),
                max_parallelism=app.spec.flink.max_parallelism,
                config=flink_configuration(app),
            )
        )
        self.jobs = FlinkJobs(self.runtime)
        self.lifecycle = self._steer(
            self.runtime,
            spec=assembly.job_spec(app, beside=FOLDER),
            settings=assembly.rescale_settings(app),
            initial=assembly.initial_deployments(app),
        )
        return self

    async def page(self) -> dict[str, float]:
        """Return the sums of what the operator's TaskManager reports, by name."""
        (replica,) = [r for r in await self.runtime.replicas() if r.operator == "recall"]
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"{replica.metrics_url.rstrip('/')}/metrics") as answer,
        ):
            page = await answer.text()
        found: dict[str, float] = {}
        for name, labels, value in re.findall(r"^(\w+)\{(.*)\} (\S+)$", page, re.MULTILINE):
            # The sink runs there, too, and counts the same records again.
            if name in names.NAMES and 'operator_name="sink"' not in labels:
                found[name] = found.get(name, 0.0) + float(value)
        return found

    async def spent(self) -> float:
        """Return the seconds of CPU of the thread that serves the operator's records."""
        (replica,) = [r for r in await self.runtime.replicas() if r.operator == "recall"]
        identity = AppFolder(self.runtime.folder).task_manager(replica.id).alive()
        if identity is None:
            raise RuntimeError("Expected the operator's TaskManager to run, got none")
        names_of = Path(f"/proc/{identity.pid}/task")
        return sum(
            each.user_time + each.system_time
            for each in psutil.Process(identity.pid).threads()
            if (names_of / str(each.id) / "comm").read_text().startswith("recall")
        )

    async def count(self) -> float:
        """Return the records that the operator has served in this run; 0 while it does not say."""
        try:
            return (await self.page()).get(names.SERVICE_N, 0.0)
        except (aiohttp.ClientError, ValueError):
            return 0.0  # it is about to start

    async def until(self, records: float) -> None:
        """Wait until it has served so many records in this run.

        Raises:
            RuntimeError: It has not within `LIMIT` seconds.
        """

        async def served() -> bool | None:
            return await self.count() >= records or None

        if not await wait_until(served, clock=self.clock, timeout=LIMIT, period=1.0):
            raise RuntimeError(f"Expected {records:g} records within {LIMIT:g} s, got fewer")


def run() -> list[Figure]:
    """Measure all amounts, fit, and ask planner."""
    return asyncio.run(_run())


async def _run() -> list[Figure]:
    shutil.rmtree(FOLDER, ignore_errors=True)
    (FOLDER / "out").mkdir(parents=True)
    jar = build_jar(
        [
            HELPER,
            REPOSITORY / "examples/trips/Draws.java",
            REPOSITORY / "benchmarks/jobs/Recall.java",
        ],
        JARS / "recall.jar",
        entry_class="example.Recall",
    )
    app = _app(jar)
    managed = {pool: memory.managed for pool, memory in memory_choices(app, "recall").items()}
    measured: list[Measured] = []
    async with RecallJob(app, jar) as job:
        await job.lifecycle.bring_up()
        await job.until(KEYS * 1.2)
        for pool in managed:
            node_type = f"{pool}/1"
            target = {**assembly.initial_deployments(app), "recall": {node_type: 1}}
            await job.lifecycle.change(target, "a benchmark asks for it")
            await job.until(1)
            await job.until(await job.count() + WARM * RATE)
            measured.append(await _measure(job, node_type, managed[pool]))
            write_outcomes("memory", [asdict(each) for each in measured])
    return [*_measured_figures(measured), *_fit_figures(measured), *_choices(app, measured)]


async def _measure(job: RecallJob, node_type: str, managed: int) -> Measured:
    before, spent, began = await job.page(), await job.spent(), job.clock.now()
    heaps = []

    async def counted() -> bool | None:
        heaps.append((await job.page())[names.HEAP_USED])
        return job.clock.now() - began >= COUNTED or None

    await wait_until(counted, clock=job.clock, timeout=2 * COUNTED, period=1.0)
    after, seconds = await job.page(), job.clock.now() - began
    spent = await job.spent() - spent
    rise = {name: after[name] - before.get(name, 0.0) for name in after}
    hits, misses = rise[names.CACHE_HITS], rise[names.CACHE_MISSES]
    return Measured(
        node_type=node_type,
        managed=managed,
        records=rise[names.SERVICE_N],
        service=rise[names.SERVICE_US] / rise[names.SERVICE_N] / 1e6,
        work=spent / rise[names.SERVICE_N],
        misses=misses / rise[names.SERVICE_N],
        miss_share=misses / (hits + misses) if hits + misses else math.nan,
        heap=min(heaps) / MIB,
        stalled=rise[names.STALL_US] / 1e6 / seconds,
        gc=rise[names.GC_MS] / 1e3 / seconds,
    )


def _measured_figures(measured: Sequence[Measured]) -> list[Figure]:
    return [
        figure
        for each in measured
        for figure in (
            Figure(figure=f"{each.managed} MiB: service time", value=1e6 * each.service, unit="us"),
            Figure(figure=f"{each.managed} MiB: CPU per record", value=1e6 * each.work, unit="us"),
            Figure(
                figure=f"{each.managed} MiB: blocks per record that were not in the cache",
                value=each.misses,
                unit="",
            ),
            Figure(
                figure=f"{each.managed} MiB: reads that missed the cache",
                value=100 * each.miss_share,
                unit="%",
            ),
            Figure(
                figure=f"{each.managed} MiB: heap in use when least", value=each.heap, unit="MiB"
            ),
            Figure(
                figure=f"{each.managed} MiB: writes held back", value=100 * each.stalled, unit="%"
            ),
            Figure(figure=f"{each.managed} MiB: collecting garbage", value=100 * each.gc, unit="%"),
        )
    ]


def _points(measured: Sequence[Measured]) -> list[WorkPoint]:
    return [
        WorkPoint(memory=each.managed, work=each.work, records=each.records) for each in measured
    ]


def _fit_figures(measured: Sequence[Measured]) -> list[Figure]:
    """Return how far the fit is from what it has not seen."""
    figures = []
    for number, unseen in enumerate(measured):
        others = [each for place, each in enumerate(measured) if place != number]
        fit = fit_work(_points(others), math.nan)
        assert fit is not None  # there are several points
        error = 100 * abs(fit.at(unseen.managed) / unseen.work - 1)
        figures.append(
            at_most(
                figure=f"fit without {unseen.managed} MiB: error there",
                value=error,
                unit="%",
                limit=NEAR,
            )
        )
    for here, more in itertools.pairwise(measured):
        fit = fit_work(_points([here]), here.miss_share)
        believed = None if fit is None else 1e6 * fit.at(more.managed)
        figures.append(
            Figure(
                figure=f"{more.managed} MiB, believed from {here.managed} alone",
                value=believed,
                unit="us",
            )
        )
    return figures


def _choices(app: StreamApp, measured: Sequence[Measured]) -> list[Figure]:
    """Return what planner chooses, and pays, with all sizes and with one amount of memory each."""
    choices = memory_choices(app, "recall")
    service = {each.node_type: each.work for each in measured}
    slowest = measured[0].work
    types = tuple(
        replace(each, memory=choices[each.pool], speedup=slowest / service[each.name])
        for each in world.node_types(app, "recall")
    )
    figures = []
    for rate in RATES:
        together = _choose(types, rate, slowest)
        name, replicas = next(iter(together[0].named(types).items()))
        memory = next(each.memory for each in types if each.name == name)
        figures += [
            Figure(
                figure=f"{rate} records/s: managed memory that planner chooses",
                value=None if memory is None else memory.managed,
                unit="MiB",
            ),
            Figure(figure=f"{rate} records/s: replicas", value=replicas, unit=""),
            Figure(figure=f"{rate} records/s: cost", value=together[1], unit="per hour"),
        ]
        for each in types:
            alone = _choose((replace(each, memory=None),), rate, slowest)
            figures.append(
                Figure(
                    figure=f"{rate} records/s: cost with {_managed(each)} MiB alone",
                    value=alone[1],
                    unit="per hour",
                )
            )
    binding = find_binding(types, Deployment((1, *[0] * (len(types) - 1))), heap=measured[0].heap)
    figures.append(
        Figure(
            figure=f"{measured[0].managed} MiB: work for the same money with the next amount",
            value=None if binding is None else binding.gain,
            unit="times",
        )
    )
    return figures


def _managed(node_type: NodeType) -> int:
    return 0 if node_type.memory is None else node_type.memory.managed


def _choose(
    types: tuple[NodeType, ...], rate: float, service: float
) -> tuple[Deployment, float | None]:
    """Return what a planner comes to at a steady rate, and its price.

    `None` for the price where it does not keep the bound.
    """
    model = OperatorModel(
        name="recall", node_types=types, max_replicas=MOST, service_mean=service,
        service_scv=1.0, keyed=True,
    )  # fmt: skip
    policy = registry.build("planner", rng=np.random.default_rng(0), parameters={})
    seen = _observe(model, Deployment((MOST // 2, *[0] * (len(types) - 1))), rate, tick=0)
    rng = np.random.default_rng(0)
    for tick in range(1, TICKS):
        target = policy.decide(seen).target
        noisy = rate * rng.lognormal(0.0, NOISE)
        following = _observe(model, target, noisy, tick=tick)
        policy.learn(_interval(seen, following))
        seen = following
    times, _ = predict_means(model, np.array([seen.deployment.counts]), rate)
    kept = float(times[0]) <= BOUND
    return seen.deployment, price_per_hour(seen.deployment, types) if kept else None


def _observe(
    model: OperatorModel, deployment: Deployment, rate: float, *, tick: int
) -> Observation:
    """Return what a minute would show, by the model alone."""
    times, _ = predict_means(model, np.array([deployment.counts]), rate)
    busy = tuple(
        min(rate / deployment.size * model.service_mean / each.speedup, 1.0)
        for count, each in zip(deployment, model.node_types, strict=True)
        for _ in range(count)
    )
    return Observation(
        time=60.0 * tick,
        time_of_week=(60.0 * tick / 604_800) % 1,
        interval=60.0,
        model=model,
        deployment=deployment,
        rate=rate,
        processed=rate,
        response_time=float(times[0]),
        utilisation=busy,
        backlog=0.0,
        replica_ages=(600.0,) * deployment.size,
        budget=BOUND,
    )


def _interval(before: Observation, after: Observation) -> Transition:
    types = before.model.node_types
    change = kind_of_change(before.deployment, after.deployment, types)
    return Transition(
        observation=before,
        proposed=after.deployment,
        enacted=after.deployment,
        cost=CostParts(
            violation=float(not after.response_time <= after.budget),
            resources=normalised_cost(after.deployment, types, max_replicas=MOST),
            reconfiguration=float(change is ChangeKind.RESCALE),
        ),
        next_observation=after,
    )


def _app(jar: Path) -> StreamApp:
    sizes: list[dict[str, Any]] = [{"cpu": "1", "memory": amount} for amount in AMOUNTS]
    # The state is made with the most, so that all amounts begin with a restart from a savepoint.
    most = AMOUNTS[-1].lower()
    return parse_manifest(
        {
            "apiVersion": "weir.dev/v1alpha1",
            "kind": "StreamApp",
            "metadata": {"name": "recall"},
            "spec": {
                "flink": {
                    "job": {
                        "jar": str(jar),
                        "entryClass": "example.Recall",
                        "args": [
                            *("--rate", str(RATE), "--keys", str(KEYS)),
                            *("--value-bytes", str(VALUE)),
                        ],
                    },
                    "maxParallelism": 128,
                    "config": {
                        "state.backend.type": "rocksdb",
                        "execution.checkpointing.incremental": "true",
                        "execution.checkpointing.interval": "30 s",
                    },
                },
                "objective": {"responseTime": "1s"},
                "nodePools": [
                    {"name": "any", "sizes": sizes, "price": CORE, "memoryPrice": GIB},
                    {"name": "source", "sizes": ["1"], "memory": "1Gi", "price": CORE},
                ],
                "operators": [
                    {"name": "source", "maxReplicas": 1, "fixed": {"source/1": 1}},
                    {
                        "name": "recall",
                        "maxReplicas": MOST,
                        "pools": ["any"],
                        "initial": {f"any-{most}/1": 1},
                    },
                ],
            },
        }
    )
