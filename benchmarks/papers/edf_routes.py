"""The job of `examples/routes`, measured on a real Flink and put into EDF's experiment.

The job runs once with `weir local`, one replica of each operator on a node type of speed 1. Its
functions take microseconds, so the example has them wait, 4 ms a record and 1 ms at the partial
rank: its service times are these and what Flink adds. Measured is busy time per record: timers of
windows, Flink's own work and what other programs did on the machine meanwhile are part of it.

A replica that takes 4 ms cannot carry the paper's 500 records/s. So the load is scaled: in the
deployment of the paper's preliminary experiments, the busiest operator is then as busy as in
`examples/experiments/edf.yaml`. Latency budgets are profiled by the paper's recipe, because they
belong to an application.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from types import MappingProxyType

import numpy as np
import yaml

from benchmarks.figures import Figure
from benchmarks.papers.departures import Departure
from benchmarks.policies.weir_local import run_weir_local
from benchmarks.registry import BenchmarkError
from benchmarks.rows import RESULTS, Row
from weir_operator.flink.jars import REPOSITORY, build_example
from weir_operator.loop.run_record import OperatorTick, TickRecord
from weir_simulator.experiment import Change, Experiment, Operator, RateLevels
from weir_simulator.fitting.estimate import Estimate, estimate_ratio

EXAMPLE = REPOSITORY / "examples" / "routes" / "streamapp.yaml"
FOLDER = RESULTS / "edf" / "routes"
"""Of the run."""
NAMES = MappingProxyType(
    {
        "parse": "parser",
        "filter": "filterByCoordinates",
        "route": "computeRouteID",
        "count": "countByWindow",
        "partial-rank": "partialRank",
        "global-rank": "globalRank",
    }
)
"""EDF's names by the job's, each operator after the one that feeds it."""
BURSTY = "partialRank"
REPLICAS = MappingProxyType({"partialRank": 2})
"""Of the paper's preliminary experiments, where no operator was overloaded; one of the others."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Work:
    """What an operator was measured to do."""

    operator: str
    """In the job."""
    rate: float
    """Records/s that arrived, mean."""
    busy: float
    """Share of the time, mean, of its one replica."""
    service: Estimate
    """Seconds of busy time per record."""
    response: float
    """Seconds in the operator, waiting included, mean over records."""
    passed: Estimate | None
    """Records to the next operator per record that arrived; `None` at the last one."""


def list_departures() -> list[Departure]:
    """Return where this is not the paper's experiment, beyond what holds of all of EDF's."""
    return [
        Departure(
            what="service times",
            paper="of its own application",
            here="busy time per record of each operator of `examples/routes`: the example's waits "
            "(4 ms, partialRank 1 ms, globalRank none) and what Flink adds; SCV 1",
            why="the functions alone take microseconds; a variance that is measured beside other "
            "programs is theirs",
        ),
        Departure(
            what="bursts of partialRank",
            paper="every refresh of the statistics; length not published",
            here="as many seconds of work as in `edf.yaml`: its SCV is raised by what a record "
            "takes less",
            why="calibrated on Table 1; the measured length stands beside it",
        ),
        Departure(
            what="selectivities",
            paper="not published",
            here="measured over all rates together",
            why="in the job, the counts of a tick grow less than the rate: there are 400 routes",
        ),
        Departure(
            what="load",
            paper="150 to 500 records/s",
            here="scaled: at the peak, with one replica of each and two of partialRank, the "
            "busiest operator is as busy as in `edf.yaml`",
            why="other service times",
        ),
        Departure(
            what="levels of the rate",
            paper="of 50 records/s",
            here="equal parts of what an operator's most replicas process, as many as partialRank "
            "has in `edf.yaml`",
            why="partialRank gets several records for each of the source's",
        ),
        Departure(
            what="latency budgets",
            paper="profiled for its own application",
            here="profiled by its recipe in the simulated world, at the middle of the rates",
            why="other service times",
        ),
        Departure(
            what="source, metronome",
            paper="read from Redis, beat time",
            here="as busy as in `edf.yaml`",
            why="the job's source makes its rides up, and its metronome is the watermark",
        ),
    ]


def measure(rates: Sequence[float], *, seconds: float) -> dict[str, Work]:
    """Run the job on a real Flink; return its work by EDF's names.

    Args:
        rates: Records/s of the source, one after the other. The first is a warm-up.
        seconds: How long each lasts.

    Raises:
        BenchmarkError: No interval could be measured.
        CalledProcessError: The run ended with an error, which it has told.
    """
    jar = build_example("routes")
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    trace = FOLDER / "trace.txt"
    np.savetxt(trace, rates, fmt="%g")
    manifest = yaml.safe_load(EXAMPLE.read_text())
    for pool in manifest["spec"]["nodePools"]:
        pool["speedup"] = 1.0
    job = manifest["spec"]["flink"]["job"]
    job["jar"] = str(jar)
    job["args"] = ["--trace", str(trace), "--slot-seconds", f"{seconds:g}"]
    path = FOLDER / "streamapp.yaml"
    path.write_text(yaml.safe_dump(manifest))
    done = run_weir_local(
        path,
        seconds=len(rates) * seconds,
        state=FOLDER / "state",
        ledger=None,
        options=("--policy", "hold"),
    )
    return read_work([tick for tick in done.ticks if tick.elapsed > seconds])


def read_work(ticks: Sequence[TickRecord]) -> dict[str, Work]:
    """Return what each operator did over intervals of equal length, by EDF's names.

    Raises:
        BenchmarkError: No interval could be measured.
    """
    seen = [tick for tick in map(_read_tick, ticks) if tick is not None]
    if not seen:
        raise BenchmarkError(
            f"Expected an interval with good metrics, got none of {len(ticks)}: see the report in "
            f"{FOLDER}"
        )
    rates = {name: np.array([tick[name].rate for tick in seen]) for name in NAMES}
    busy = {name: np.array([tick[name].utilisation for tick in seen]) for name in NAMES}
    times = {name: np.array([tick[name].response_time for tick in seen]) for name in NAMES}
    following = dict(pairwise(NAMES))
    return {
        NAMES[name]: Work(
            operator=name,
            rate=float(rates[name].mean()),
            busy=float(busy[name].mean()),
            service=estimate_ratio(busy[name], rates[name]),
            response=float((times[name] * rates[name]).sum() / rates[name].sum()),
            passed=estimate_ratio(rates[following[name]], rates[name])
            if name in following
            else None,
        )
        for name in NAMES
    }


def _read_tick(tick: TickRecord) -> Mapping[str, OperatorTick] | None:
    """Return the measured operators by name; `None` where one is not to be trusted."""
    seen = {each.name: each for each in tick.operators}
    known = all(
        math.isfinite(seen[name].rate * seen[name].utilisation * seen[name].response_time)
        for name in NAMES
    )
    return seen if tick.healthy and known else None


def list_rows(
    before: Experiment, experiment: Experiment, works: Mapping[str, Work], *, peak: float
) -> list[Row]:
    """Return what was measured beside what `edf.yaml` has in its place.

    Args:
        before: That of `edf.yaml`.
        experiment: The same with what was measured.
        works: What was measured, by EDF's names.
        peak: The paper's highest rate, records/s.
    """
    calibrated = {each.name: 1 / each.service_rate for each in before.operators}
    return [
        Row(
            table="Measured on Flink: records/s / busy (%) / service time (ms, 95 % interval) / "
            "records passed on per record / busy at the simulated peak, one replica (%)",
            row=f"{name} (`{work.operator}`)",
            beside=f"{1000 * calibrated[name]:.2f} ms",
            ours=f"{work.rate:.0f} / {100 * work.busy:.1f} / {1000 * work.service.value:.2f} "
            f"({1000 * work.service.low:.2f} to {1000 * work.service.high:.2f}) / "
            f"{'-' if work.passed is None else f'{work.passed.value:.2f}'} / "
            f"{100 * REPLICAS.get(name, 1) * busiest(experiment, [name], rate=peak):.0f}",
            holds=None,
            beside_what="`edf.yaml`",
        )
        for name, work in works.items()
    ]


def list_figures(
    before: Experiment, experiment: Experiment, works: Mapping[str, Work]
) -> list[Figure]:
    """Return what the load is scaled by, and the bursts; arguments as of `list_rows`."""
    bursty = works[BURSTY]
    waited = bursty.response - bursty.service.value
    return [
        Figure(figure="load, of the paper's", value=factor_of(experiment), unit=""),
        Figure(
            figure=f"burst of {BURSTY}, as measured: that of an M/G/1 queue with this waiting time",
            value=2 * waited * (1 - bursty.busy) / bursty.busy,
            unit="s",
        ),
        Figure(
            figure=f"burst of {BURSTY}, as simulated: E[S^2] / E[S]",
            value=burst_of(before),
            unit="s",
        ),
    ]


def burst_of(experiment: Experiment) -> float:
    """Return E[S^2] / E[S] of the service time of the operator with bursts, s."""
    bursty = find_bursty(experiment)
    return (1 + bursty.scv) / bursty.service_rate


def find_bursty(experiment: Experiment) -> Operator:
    """Return the operator with bursts."""
    return next(each for each in experiment.operators if each.name == BURSTY)


def put_in(experiment: Experiment, works: Mapping[str, Work], *, profiled_at: float) -> Experiment:
    """Return EDF's experiment with measured operators, and a load that is scaled to them.

    Args:
        experiment: That of `edf.yaml`, in any setting.
        works: What was measured, by EDF's names.
        profiled_at: The paper's rate for which budgets are profiled, records/s.
    """
    operators = []
    for each in experiment.operators:
        if each.name in works:
            rate = 1 / works[each.name].service.value
            burst = burst_of(experiment) * rate - 1
            scv = burst if each.name == BURSTY else each.scv
            each = each.model_copy(update={"service_rate": rate, "scv": scv, "budget": None})
        operators.append(each)
    edges = []
    for edge in experiment.edges:
        passed = works[edge.source].passed if edge.source in works else None
        if passed is not None:
            edge = edge.model_copy(update={"selectivity": passed.value})
        edges.append(edge)
    measured = experiment.model_copy(update={"operators": tuple(operators), "edges": tuple(edges)})
    factor = busiest(experiment, works, rate=1.0) / busiest(measured, works, rate=1.0)
    scaled = tuple(
        each
        if each.name in works
        else each.model_copy(update={"service_rate": each.service_rate * factor})
        for each in operators
    )
    bursty = find_bursty(experiment)
    whole = bursty.max_replicas * bursty.service_rate
    levels = round(experiment.rate.levels * whole / (experiment.rate.max or whole))
    return measured.model_copy(
        update={
            "operators": scaled,
            "rate": RateLevels(levels=levels),
            "world": experiment.world.model_copy(
                update={"changes": (Change(slot=0, rate=factor),)}
            ),
            "objective": experiment.objective.model_copy(
                update={"profiled_at": profiled_at * factor}
            ),
        }
    )


def factor_of(experiment: Experiment) -> float:
    """Return by what the load of an experiment is scaled."""
    return next((each.rate for each in experiment.world.changes if each.rate is not None), 1.0)


def busiest(experiment: Experiment, names: Iterable[str], *, rate: float) -> float:
    """Return the utilisation of the busiest of some operators with the replicas of `REPLICAS`.

    Args:
        experiment: Has the operators.
        names: Of those that are asked for.
        rate: Records/s of the load, before it is scaled.
    """
    dataflow, scale = experiment.dataflow, factor_of(experiment)
    rates = dataflow.spread_rates(dict.fromkeys(dataflow.sources, rate * scale))
    service = {each.name: 1 / each.service_rate for each in experiment.operators}
    return max(rates[name] * service[name] / REPLICAS.get(name, 1) for name in names)
