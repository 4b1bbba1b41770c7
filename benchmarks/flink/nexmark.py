"""Nexmark's queries under Weir: exact over rescales, their rate per core, and what they cost.

Each query of `examples/nexmark` is run twice on real Flink:

1. Pinned by the agent, at `RATE` events/s, with one replica of each operator, and rescaled out, in
   and out again. What it has committed at the end is compared, row by row, with what can be
   computed from the events without Flink (`nexmark_results`).
2. On a plain Flink of one TaskManager, as fast as it can, over 3,000,000 events, or 600,000 where
   state grows with them. From the half of them on, the CPU of the threads that run the query's
   vertices is counted, the source and its generator left out; busy times say how it is spread over
   the vertices.

The service times and rates of the second run are those of a dataflow in the simulator. There, a
week of made-up taxi traffic is scaled so that the busiest operator needs `BUSIEST` replicas of
speed 1 at the peak. Policies begin with one replica each and know the service times; changes take
time. `static peak` has as many replicas as a peak needs at `BUSY` of their capacity, all week.
Policies are compared by their cost, which weighs minutes beyond the bound (.6), money (.2, as a
part of all replicas on the dearest type) and restarts (.2), as in `first-hours`; money and
violations stand beside it. What `static peak` misses is not simulated: it counts as nothing.

A call runs the queries that `NEXMARK_QUERIES` lists (all, separated by commas). The figures are of
all queries that have run, which `build/benchmarks/nexmark` keeps; remove the folder to begin anew.
"""

from __future__ import annotations

import asyncio
import math
import os
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import TypedDict

import numpy as np
import requests

from benchmarks.choices import choose_some
from benchmarks.figures import Figure, at_most
from benchmarks.flink.cpu_per_record import cpu_of_threads
from benchmarks.flink.nexmark_results import (
    QUERIES,
    Input,
    expected_rows,
    list_events,
    read_rows,
)
from benchmarks.flink.plain_flink import PlainFlink
from benchmarks.flink.unmodified_job import Unmodified, UnmodifiedJob
from benchmarks.policies.live.outcomes import load_outcomes, store_outcome
from benchmarks.policies.planner import geometric_mean
from benchmarks.raw_results import find_commit
from benchmarks.rows import RESULTS, write_outcomes
from weir_operator.clock import SystemClock, wait_until
from weir_operator.flink.jars import build_example
from weir_operator.flink.rest import FlinkRest
from weir_operator.flink.testing import committed_lines
from weir_operator.rescale.journal import Step
from weir_policies.operator_manager.ds2 import ROUNDING
from weir_simulator.experiment import Experiment
from weir_simulator.run import simulate
from weir_simulator.state import AT_CHANGE, AT_PRICE, AT_TIME, RESTART
from weir_simulator.traces import TraceKind, scale_to_maximum, synthesise, write_trace

ABOUT = "Nexmark's queries: exact over rescales, rate per core, and cost against other policies"
DURATION = "25 min"

FOLDER = RESULTS / "nexmark"
RATE, SECONDS = 150, 50
"""Events/s of the runs that are rescaled, and for how long they come."""
CHANGES = 3
FAST = 60_000
"""Events/s, in event time, of the runs that go as fast as they can."""
QUICK = ("q0", "q1", "q2", "q3")
LONG, SHORT = 50, 10
"""Seconds of event time that quick queries have, and those that grow slower with their state."""
START = 1_700_000_000_000
"""When their events are due, Unix ms: long ago."""
LIMIT = 240.0
COUNTED_IN = 1 / os.sysconf("SC_CLK_TCK")
"""Seconds in which the kernel counts CPU time: the least that a vertex is taken to need."""
CONFIG = {"execution.checkpointing.interval": "1 s"}
POLICIES = ("planner", "queueing", "threshold-cheapest", "ds2", "flink-autoscaler")
STATIC = "static peak"
SEEDS = (1, 2, 3)
BUSIEST = 4.2
"""Replicas of speed 1 that the busiest operator needs at the peak, were they never idle."""
BUSY = 0.7
"""Of a replica's capacity that a deployment for the peak uses."""
BOUND = 10.0
"""Of the response time: so many times the sum of all service times."""
MAX_REPLICAS = 10
WEEK = 7 * 1440
TRACE_SEED = 1
WORLD = {"downtime": "3s", "provisioningDelay": "1m", "noise": 0.05, "missing": 0.02}
"""Of the simulations, beside what the model leaves out by itself."""


class VertexJson(TypedDict):
    """Of a vertex, what Flink's REST interface answers and is needed here."""

    id: str
    name: str
    metrics: dict[str, float]


class NodeJson(TypedDict):
    """Of a vertex in the plan, the vertices that it is fed by."""

    id: str
    inputs: list[dict[str, str]]


@dataclass(frozen=True, kw_only=True, slots=True)
class VertexCost:
    """A vertex of a query at one replica."""

    name: str
    read: int
    """Records, over the counted time."""
    service: float
    """Seconds of CPU per record."""
    inputs: tuple[int, ...]
    """Places of the vertices that it is fed by, each once; none where the source feeds it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class QueryOutcome:
    """What a query came to."""

    query: str
    done: int
    """Changes that succeeded."""
    lost: int
    """Rows that are missing."""
    wrong: int
    """Rows that should not be there."""
    compared: int
    """Rows that should be there."""
    events: int
    """Over the counted time."""
    cpu: float
    """Seconds of the query's vertices over it."""
    vertices: list[VertexCost]
    cost: dict[str, float]
    """By policy: per minute, weighted, mean over the seeds."""
    money: dict[str, float]
    """By policy: per hour, in prices of a replica of speed 1, mean over the seeds."""
    violations: dict[str, float]
    """By policy: percent of minutes beyond the bound."""
    load: float
    """Processes that wanted the machine's processors, mean over the last minute."""
    commit: str | None

    @property
    def per_core(self) -> float:
        """Events/s for each core that the query's vertices keep busy."""
        return self.events / self.cpu


def run() -> list[Figure]:
    """Run the chosen queries."""
    queries = choose_some("NEXMARK_QUERIES", QUERIES)
    jar = build_example("nexmark")
    for query in queries:
        done, lost, wrong, compared = asyncio.run(_rescale(query, jar))
        events, cpu, vertices = asyncio.run(_race(query, jar))
        cost, money, violations = compare_policies(vertices, events)
        outcome = QueryOutcome(
            query=query,
            done=done,
            lost=lost,
            wrong=wrong,
            compared=compared,
            events=events,
            cpu=cpu,
            vertices=vertices,
            cost=cost,
            money=money,
            violations=violations,
            load=round(os.getloadavg()[0], 1),
            commit=find_commit(),
        )
        print(outcome, flush=True)
        store_outcome(FOLDER / "outcomes" / f"{query}.json", asdict(outcome))
    kept = {each.query: each for each in load_outcomes(FOLDER / "outcomes", QueryOutcome)}
    outcomes = [kept[query] for query in QUERIES if query in kept]
    write_outcomes("nexmark", [asdict(each) for each in outcomes])
    return list(figures_of(outcomes))


def figures_of(outcomes: Sequence[QueryOutcome]) -> Iterator[Figure]:
    """Yield what the queries come to."""
    done, wanted = sum(each.done for each in outcomes), CHANGES * len(outcomes)
    yield Figure(
        figure="changes that succeeded",
        value=done,
        unit=f"of {wanted}",
        goal="all",
        holds=done == wanted,
    )
    yield Figure(
        figure="rows lost or wrong after the changes",
        value=sum(each.lost + each.wrong for each in outcomes),
        unit="rows",
        goal="exactly 0",
        holds=all(each.lost == each.wrong == 0 < each.compared for each in outcomes),
    )
    for policy in (STATIC, *POLICIES[1:]):
        yield at_most(
            figure=f"planner / {policy}: cost, geometric mean of {len(outcomes)} queries",
            value=geometric_mean([each.cost["planner"] / each.cost[policy] for each in outcomes]),
            unit="",
            limit=1.0,
        )
        yield Figure(
            figure=f"planner / {policy}: money, geometric mean of {len(outcomes)} queries",
            value=geometric_mean([each.money["planner"] / each.money[policy] for each in outcomes]),
            unit="",
        )
    for policy in POLICIES:
        yield Figure(
            figure=f"minutes beyond the bound with {policy}",
            value=fmean(each.violations[policy] for each in outcomes),
            unit="%",
        )
    for each in outcomes:
        yield Figure(figure=f"{each.query}: rate per core", value=each.per_core, unit="events/s")
        yield Figure(figure=f"{each.query}: rows compared", value=each.compared, unit="rows")
        for policy in (STATIC, *POLICIES):
            yield Figure(
                figure=f"{each.query}: money with {policy}",
                value=each.money[policy],
                unit="an hour",
            )
    yield Figure(
        figure="load average beside the runs, mean",
        value=fmean(each.load for each in outcomes),
        unit="",
    )


async def _rescale(query: str, jar: Path) -> tuple[int, int, int, int]:
    """Rescale a query; return the changes that succeeded, and rows lost, wrong and compared."""
    folder = _make_anew(FOLDER / query)
    given = Input(rate=RATE, seconds=SECONDS, start=int(1000 * time.time()) + 10_000)
    expected = expected_rows(query, await asyncio.to_thread(list_events, given))
    out = folder / "out"
    job = Unmodified(
        name=f"nexmark-{query}",
        jar=jar,
        folder=folder,
        arguments=[*given.arguments(query, folder), "--commit", str(out)],
        config=CONFIG,
    )
    done = 0
    async with UnmodifiedJob(job) as run:
        small = dict.fromkeys(run.operators, 1)
        large = {each: min(2, run.limit_of(each)) for each in run.operators}
        await run.start(small)
        for sizes in (large, small, large):
            end = await run.rescale(sizes)
            done += end.step is Step.DONE

        async def look() -> bool | None:
            return read_rows(query, committed_lines(out)) == expected or None

        await wait_until(look, clock=SystemClock(), timeout=LIMIT)
        await run.lifecycle.suspend()
    rows = read_rows(query, committed_lines(out))
    return done, (expected - rows).total(), (rows - expected).total(), expected.total()


def _make_anew(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


async def _race(query: str, jar: Path) -> tuple[int, float, list[VertexCost]]:
    """Run a query as fast as it goes; return events and CPU from the half on, and its vertices."""
    folder = _make_anew(FOLDER / f"{query}-fast")
    given = Input(rate=FAST, seconds=LONG if query in QUICK else SHORT, start=START)
    half = given.rate * given.seconds / 2
    job = "1" * 32
    user = {
        **CONFIG,
        # Flink's default keeps checkpoints of at most 5 MB, and restarts the job over larger ones.
        "execution.checkpointing.dir": (folder / "checkpoints").as_uri(),
        "metrics.fetcher.update-interval": "500",
    }
    async with (
        PlainFlink(folder=folder / "flink", memory=1728, user=user) as flink,
        FlinkRest(flink.url) as rest,
    ):
        uploaded = await rest.upload_jar(str(jar))
        await rest.run_jar(uploaded, job_id=job, arguments=given.arguments(query, folder))
        [process] = flink.task_managers().values()

        async def ask() -> tuple[list[VertexJson], list[NodeJson]]:
            answer = await asyncio.to_thread(requests.get, f"{flink.url}/jobs/{job}", timeout=LIMIT)
            answer.raise_for_status()
            told = answer.json()
            return told["vertices"], told["plan"]["nodes"]

        async def is_half() -> tuple[list[VertexJson], dict[str, float]] | None:
            vertices, _ = await ask()
            enough = _metric(vertices[0], "write-records") >= half
            return (vertices, _cpu(process.pid)) if enough else None

        begun = await wait_until(is_half, clock=SystemClock(), timeout=LIMIT)
        if begun is None:
            raise RuntimeError(f"Expected {half:.0f} events within {LIMIT:g} s; see {folder}")
        last: list[list[float]] = []

        async def is_over() -> bool | None:
            """Return whether nothing has come for three looks."""
            last.append([_metric(each, "read-records") for each in (await ask())[0]])
            return (len(last) > 3 and last[-1] == last[-4]) or None

        if not await wait_until(is_over, clock=SystemClock(), timeout=LIMIT, period=1.0):
            raise RuntimeError(f"Expected the query to end within {LIMIT:g} s; see {folder}")
        vertices, nodes = await ask()
        cpu = _cpu(process.pid)
    first, cpu_first = begun
    events = _metric(vertices[0], "write-records") - _metric(first[0], "write-records")
    spent = {name: seconds - cpu_first.get(name, 0.0) for name, seconds in cpu.items()}
    costs = list(vertex_costs(first, vertices, nodes, spent))
    return int(events), math.fsum(each.read * each.service for each in costs), costs


def vertex_costs(
    first: Sequence[VertexJson],
    last: Sequence[VertexJson],
    nodes: Sequence[NodeJson],
    cpu: Mapping[str, float],
) -> Iterator[VertexCost]:
    """Yield what the vertices behind the source cost: threads of one name share by busy time."""
    place = {each["id"]: index for index, each in enumerate(last)}
    feeds = {node["id"]: [each["id"] for each in node.get("inputs", [])] for node in nodes}
    busy = [
        _metric(now, "accumulated-busy-time") - _metric(then, "accumulated-busy-time")
        for then, now in zip(first, last, strict=True)
    ]
    names = [_thread_name(each["name"]) for each in last]
    for index, (then, now) in enumerate(zip(first, last, strict=True)):
        if index == 0:
            continue  # the source with its generator
        alike = math.fsum(
            each for each, name in zip(busy, names, strict=True) if name == names[index]
        )
        share = busy[index] / alike if alike else 0.0
        read = _metric(now, "read-records") - _metric(then, "read-records")
        yield VertexCost(
            name=now["name"],
            read=int(read),
            service=max(COUNTED_IN, share * cpu.get(names[index], 0.0)) / max(1.0, read),
            # One that feeds another twice, as the two sides of a join, is one edge.
            inputs=tuple(
                dict.fromkeys(place[each] - 1 for each in feeds[now["id"]] if place[each] > 0)
            ),
        )


def _metric(vertex: VertexJson, name: str) -> float:
    return float(vertex["metrics"][name])


def _thread_name(vertex: str) -> str:
    """Return how the kernel calls the thread of a vertex's one subtask: it keeps 15 characters."""
    return f"{vertex} (1/1)#0"[:15].strip()


def _cpu(pid: int) -> dict[str, float]:
    """Return the CPU seconds of a process's threads by their names."""
    spent: dict[str, float] = {}
    for name, seconds in cpu_of_threads(pid):
        spent[name] = spent.get(name, 0.0) + seconds
    return spent


def compare_policies(
    vertices: Sequence[VertexCost], events: int
) -> tuple[dict[str, float], dict[str, float], dict[str, float]]:
    """Return cost, money per hour and violations of policies, for a query in the simulator."""
    loads = [each.read / events * each.service for each in vertices]
    peak = BUSIEST / max(loads)
    trace = synthesise(TraceKind.TAXI, slots=WEEK, rng=np.random.default_rng(TRACE_SEED))
    file = FOLDER / "week.txt"
    write_trace(file, scale_to_maximum(trace, maximum=peak))
    experiment = describe(vertices, events, file)
    weights = experiment.weights
    most = experiment.dearest * MAX_REPLICAS * len(vertices)
    replicas = sum(count_at_peak(peak * load) for load in loads)
    cost = {STATIC: weights.resources * replicas / most}
    money, violations = {STATIC: float(replicas)}, {STATIC: 0.0}
    for policy in POLICIES:
        runs = [
            simulate(experiment, seed=seed, policy=policy, history=True).history for seed in SEEDS
        ]
        price = fmean(float(each[:, AT_PRICE].mean()) for each in runs)
        missed = fmean(
            float((each[:, AT_TIME] > experiment.objective.response_time).mean()) for each in runs
        )
        restarts = fmean(float((each[:, AT_CHANGE] == RESTART).mean()) for each in runs)
        money[policy], violations[policy] = price, 100 * missed
        cost[policy] = (
            weights.violation * missed
            + weights.resources * price / most
            + weights.reconfiguration * restarts
        )
    return cost, money, violations


def count_at_peak(needed: float) -> int:
    """Return the replicas with which an operator is busy for `BUSY` of the time, 1 or more.

    Args:
        needed: Replicas of speed 1 that it needs, were they never idle.
    """
    # 4.2 / 0.7 is a little more than 6.
    return max(1, math.ceil(needed / BUSY * (1 - ROUNDING)))


def describe(vertices: Sequence[VertexCost], events: int, trace: Path) -> Experiment:
    """Return a query as a dataflow of the simulator, with a trace of events/s."""
    names = [f"v{place}" for place in range(1, len(vertices) + 1)]
    selectivity = [
        each.read / max(1, sum(vertices[source].read for source in each.inputs) or events)
        for each in vertices
    ]
    return Experiment.model_validate(
        {
            "operators": [
                {"name": name, "serviceRate": 1 / each.service, "maxReplicas": MAX_REPLICAS}
                for name, each in zip(names, vertices, strict=True)
            ],
            "edges": [
                {"from": names[source], "to": name, "selectivity": factor}
                for name, each, factor in zip(names, vertices, selectivity, strict=True)
                for source in each.inputs
            ],
            "nodeTypes": [
                {"name": "small", "speedup": 1.0, "price": 1.0},
                {"name": "large", "speedup": 1.8, "price": 1.6},
            ],
            "weights": {"violations": 0.6, "resources": 0.2, "reconfigurations": 0.2},
            "objective": {"responseTime": BOUND * math.fsum(each.service for each in vertices)},
            "trace": {"file": str(trace)},
            "slot": "60s",
            "world": dict(WORLD),
        },
        strict=False,
    )
