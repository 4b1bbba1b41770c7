"""A controller that rescales one job hundreds of times, and what it holds meanwhile.

Everything is as `weir local` has it (loops, decision records, one JVM for each replica) but for the
policy and the scraping. The policy goes from one replica to two and back in every interval in which
it is asked, so that every rescale is decided, recorded, walked and measured as any other. Scraped
is four times as often, because rates need several samples and the policy is asked every second; and
samples are kept for five minutes, not fifteen, so that memory can be flat within a run.

After each rescale the controller's process is looked at: its memory, file descriptors and threads,
and the bytes of its decision records. A leak shows as growth that goes on, so the last third is
judged by its slope; the first third warms up. Records are counted by the files that a transactional
sink committed and by the job's ledger.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import signal
import statistics
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import structlog
import yaml

from benchmarks.cluster.chaos.verdict import read_committed
from benchmarks.figures import Figure, at_least, at_most, no_records
from benchmarks.flink.ledger import read_arrivals, read_proof
from benchmarks.results import BUILD
from benchmarks.spawned import map_spawned
from weir_operator.flink.jars import REPOSITORY
from weir_operator.local import run as local_run
from weir_operator.local.run import LocalRun, run_local
from weir_operator.loop.record import RECORDS
from weir_operator.loop.run_record import Record, RescaleRecord
from weir_operator.metrics.direct import DirectSource
from weir_operator.runtime.processes.folders import AppFolder
from weir_policies import registry
from weir_policies.kernels.explaining import explain_rule
from weir_policies.kernels.staying import Memoryless
from weir_policies.model.node_types import Deployment
from weir_policies.policy import Decision, Neighbourhood, Observation

MIB = 2**20


@dataclass(frozen=True, kw_only=True, slots=True)
class Sample:
    """What the controller held after a rescale."""

    time: float
    """Unix seconds."""
    memory: int
    """Bytes resident, of the controller's process alone."""
    descriptors: int
    """Open files and sockets."""
    threads: int
    records: int
    """Bytes of the decision records."""
    load: float
    """Processes that want the machine's processors, mean over the last minute."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Quantity:
    """Something that is to stay flat."""

    name: str
    of: Callable[[Sample], float]
    unit: str
    most: float
    """Growth that counts as flat, `unit` per rescale over the last third."""


QUANTITIES = (
    Quantity(name="memory", of=lambda each: each.memory / MIB, unit="MiB", most=0.02),
    Quantity(name="open file descriptors", of=lambda each: each.descriptors, unit="", most=0.02),
    Quantity(name="threads", of=lambda each: each.threads, unit="", most=0.02),
    Quantity(name="decision records", of=lambda each: each.records / MIB, unit="MiB", most=0.01),
)


def growth(values: Sequence[float]) -> float | None:
    """Return the slope of the line through values one apart; `None` of fewer than two."""
    if len(values) < 2:
        return None
    return statistics.linear_regression(range(len(values)), values).slope


def figures_of(samples: Sequence[Sample], quantities: Sequence[Quantity]) -> list[Figure]:
    """Return for each quantity what it was in the first and the last third, and how it grew."""
    length = len(samples) // 3
    first, last = samples[:length], samples[len(samples) - length :]
    figures = []
    for each in quantities:
        before, after = [each.of(one) for one in first], [each.of(one) for one in last]
        figures += [
            Figure(
                f"{each.name}: {name} third, median",
                statistics.median(values) if values else None,
                each.unit,
            )
            for name, values in (("first", before), ("last", after))
        ]
        figures.append(
            at_most(
                f"{each.name}: last third, growth",
                growth(after),
                each.most,
                f"{each.unit} per rescale".strip(),
            )
        )
    return figures


ABOUT = "memory, files and records of a controller over 500 rescales of one job"
DURATION = "25 min"

NAME = "soak"
RESCALES = 500
FOLDER = BUILD / NAME
LONGEST = 3600.0
"""Seconds after which no further rescale is waited for."""
POLICY = "to-and-fro"
SCRAPE_EVERY = 0.25
"""Seconds."""
SAMPLES_KEPT = 300.0
"""Seconds; a controller on a cluster keeps them for ten minutes."""


class ToAndFro(Memoryless):
    """Goes from one replica to two and back, at every interval in which it is asked."""

    def decide(self, observation: Observation) -> Decision:
        """Choose the other deployment, of the first node type."""
        wanted = 2 if observation.deployment.size == 1 else 1
        others = len(observation.model.node_types) - 1
        target = Deployment((wanted, *(0,) * others))
        return explain_rule(observation, target, f"it is the turn of {wanted}")


def run() -> list[Figure]:
    """Rescale again and again in a process of its own, because it is this that is measured."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    for name in ("out", "committed", "state"):
        (FOLDER / name).mkdir(parents=True)
    (FOLDER / "trace.txt").write_text("20\n")
    (FOLDER / "streamapp.yaml").write_text(yaml.safe_dump(manifest()))
    os.environ["MALLOC_ARENA_MAX"] = "2"  # as in the image
    [(samples, ends)] = map_spawned(rescale_repeatedly, [RESCALES])
    ledger, arrivals = read_proof(FOLDER / "out"), read_arrivals(FOLDER / "out")
    emitted = max((ledger.emitted, *(each.id + 1 for each in arrivals)))
    committed = read_committed(FOLDER / "committed", emitted)
    return [
        at_least("rescales", ends["done"], RESCALES),
        at_most("rescales that ended otherwise", ends.total() - ends["done"], 0),
        Figure(
            "seconds from rescale to rescale",
            (samples[-1].time - samples[0].time) / max(1, len(samples) - 1),
            "s",
        ),
        Figure("records over them", emitted, "records"),
        no_records("transactional sink: records lost", committed.lost),
        no_records("transactional sink: records doubled", committed.doubled),
        no_records(
            "ledger: records lost, doubled, or out of order",
            ledger.lost + ledger.doubled + ledger.sequence_errors,
        ),
        *figures_of(samples, QUANTITIES),
        Figure("load average beside it, median", statistics.median(each.load for each in samples)),
    ]


def rescale_repeatedly(times: int) -> tuple[list[Sample], Counter[str]]:
    """Run the job until it was rescaled so often; return a sample per rescale, and their ends."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    own = registry.Registered(lambda rng, values: ToAndFro(), Neighbourhood.ONE)
    registry.POLICIES = {**registry.POLICIES, POLICY: own}
    # By name: types hold what a module only imports, or never changes, for constant.
    setattr(local_run, "DirectSource", partial(DirectSource, period=SCRAPE_EVERY))  # noqa: B010
    setattr(local_run, "RETENTION", SAMPLES_KEPT)  # noqa: B010
    samples: list[Sample] = []
    ends = Counter[str]()

    def show(record: Record) -> None:
        if (
            isinstance(record, RescaleRecord)
            and record.finished is not None
            and ends["done"] < times
        ):
            ends[record.outcome] += 1
            samples.append(look(psutil.Process()))
            if ends["done"] == times:
                os.kill(os.getpid(), signal.SIGINT)

    state = FOLDER / "state"
    run = LocalRun(
        manifest=FOLDER / "streamapp.yaml",
        state=state,
        cache=state / "cache",
        duration=LONGEST,
        policy=POLICY,
    )
    asyncio.run(run_local(run, show=show))
    return samples, ends


def manifest() -> dict[str, Any]:
    """Return the StreamApp: the example's job under a steady load, one operator of which moves."""
    arguments = [
        *("--trace", str(FOLDER / "trace.txt"), "--at-end", "hold"),
        *("--out", str(FOLDER / "out"), "--commit", str(FOLDER / "committed")),
        *("--service.match-ms", "5", "--service.aggregate-ms", "5"),
    ]
    one = {"large/1": 1}
    return {
        "apiVersion": "weir.dev/v1alpha1",
        "kind": "StreamApp",
        "metadata": {"name": NAME},
        "spec": {
            "flink": {
                "maxParallelism": 720,
                "job": {
                    "jar": str(REPOSITORY / "build/jars/trips.jar"),
                    "entryClass": "example.Trips",
                    "args": arguments,
                },
            },
            "objective": {"responseTime": "5s", "catchUp": "30s"},
            "nodePools": [{"name": "large", "sizes": ["1"], "memory": "1Gi", "price": "0.05"}],
            "operators": [
                {"name": "source", "maxReplicas": 1, "fixed": one},
                {"name": "match", "maxReplicas": 2, "initial": one},
                {"name": "aggregate", "maxReplicas": 1, "fixed": one},
                {"name": "sink", "maxReplicas": 1, "fixed": one},
            ],
            "operatorManager": {"interval": "1s"},
            "applicationManager": {"restartBudget": {"size": 1000, "refillEvery": "1s"}},
        },
    }


def look(process: psutil.Process) -> Sample:
    """Return what the controller holds now."""
    folder = AppFolder(FOLDER / "state" / f"default.{NAME}")
    records = folder.path.glob(f"{RECORDS}*")
    with process.oneshot():
        return Sample(
            time=time.time(),
            memory=process.memory_info().rss,
            descriptors=process.num_fds(),
            threads=process.num_threads(),
            records=sum(map(_size, records)),
            load=os.getloadavg()[0],
        )


def _size(path: Path) -> int:
    """Return the bytes of a file; none of a folder, or of one that has gone meanwhile."""
    try:
        return path.stat().st_size if path.is_file() else 0
    except FileNotFoundError:
        return 0
