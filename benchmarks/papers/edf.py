"""EDF's Table 1, simulated: who is slower, restarts more, what the bucket changes.

The experiment is `examples/experiments/edf.yaml`; the policies are `threshold-cheapest` (TH),
`ql-edf` (QL) and `full-backup` (MB), each with and without the token bucket. Service times and the
bursts of partialRank were not published. They are calibrated on Table 1, so its digits cannot be
reproduced, only its orderings. `ql`, which learns from granted changes alone, stands beside
`ql-edf`. Beyond Table 1, there are settings in which requests *conflict* over nodes, settings whose
budgets were *profiled* in the simulated world by the paper's recipe (the others have those that it
printed for its own application).

Source: Cardellini, Lo Presti, Nardelli, Russo Russo, Future Generation Computer Systems 2018 (EDF),
section 9, Table 1.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import attrgetter
from pathlib import Path
from statistics import fmean
from typing import Literal, NamedTuple

import numpy as np

from benchmarks.figures import Figure, Row, at_least, at_most
from benchmarks.papers.taas2023 import trace_file
from benchmarks.results import BUILD
from benchmarks.spawned import map_spawned
from weir_policies.model.arrays import Floats
from weir_policies.policy import CostWeights
from weir_simulator.beliefs import true_models
from weir_simulator.experiment import Experiment, PolicyChoice
from weir_simulator.experiment_files import load_experiment
from weir_simulator.run import simulate
from weir_simulator.state import AT_CHANGE, AT_PRICE, AT_TIME, RESTART

ABOUT = "EDF's Table 1: thresholds, Q-learning, full backup, the token bucket"
DURATION = "5 min"
DETERMINISTIC = True

EXPERIMENT = Path(__file__).parents[2] / "examples" / "experiments" / "edf.yaml"
PUBLISHED = Path(__file__).parent / "published" / "edf_table1.csv"
FOLDER = BUILD / "edf"
"""Where the loads are written."""
SEEDS = range(5)
MORE_SEEDS = range(3)

DAYS, MINUTES_PER_DAY, MINUTES_PER_SLOT = 5, 1440, 5
LOWEST, HIGHEST = 150.0, 500.0
"""Records/s."""
NOISE = 0.12
"""Sigma of the lognormal noise of a slot's rate."""
WARM_UP, UNSETTLED = 60, 4
"""Slots that the paper leaves out: half an hour at the start, 2 min after a reconfiguration."""

WEIGHTS = {
    "perf=res": CostWeights(violation=0.4, resources=0.4, reconfiguration=0.2),
    "perf=rcf": CostWeights(violation=0.4, resources=0.2, reconfiguration=0.4),
}
THRESHOLDS = (0.7, 0.6, 0.5, 0.4, 0.3)
LEARNERS = {
    "QL": "ql-edf",
    "MB": "full-backup",
    "ql": "ql",
    "QL conflicts": "ql-edf",
    "MB conflicts": "full-backup",
    "MB profiled": "full-backup",
}
"""Policies by the first words of their settings."""
PROFILED_AT = (LOWEST + HIGHEST) / 2
"""Records/s for which the replicas of the profiled deployment are chosen."""
MORE = (
    ("TH conflicts 0.3", False),
    ("QL conflicts perf=res", False),
    ("QL conflicts perf=res", True),
    ("MB conflicts perf=res", False),
    ("MB profiled perf=res", False),
)
"""Settings beyond Table 1."""

Key = tuple[str, bool]
"""A setting such as `TH 0.7` or `QL perf=res`, and whether the token bucket is used."""
Slots = Literal["settled", "unfiltered"]


class Measured(NamedTuple):
    """Columns of Table 1 over some slots of a run."""

    mean: float
    """Of the response time, ms, as the next two."""
    p50: float
    p95: float
    replicas: float
    violations: float
    """% of the slots."""


NOTHING_LEFT = Measured(*[np.nan] * len(Measured._fields))


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    """A line of Table 1, published or ours; or one run of it."""

    settled: Measured
    """Without the slots that the paper leaves out; NaN where none is left."""
    unfiltered: Measured
    """With those after a reconfiguration."""
    downtime: float
    """% of the time."""
    granted: float = np.nan
    """% of the restarts that operators asked for; NaN where the paper does not say."""


def run() -> list[Figure | Row]:
    """Run all settings; return what is promised, and Table 1."""
    published = read_published()
    ours = run_all([*published, *((f"ql {weights}", True) for weights in WEIGHTS)], SEEDS)
    more = run_all(MORE, MORE_SEEDS)
    profiled = describe("MB profiled perf=res", bucket=False, load=load_of(0))
    return [
        *judge(ours),
        Figure(
            "thresholds and full backup (perf=res): greatest deviation of the mean response "
            "time from the published, on which service times are calibrated",
            max(
                100 * abs(ours[key].settled.mean / line.settled.mean - 1)
                for key, line in published.items()
                if key[0].startswith("TH") or key[0] == "MB perf=res"
            ),
            "%",
        ),
        *judge_budgets(profiled),
        *judge_requests(more),
        *list_rows(ours, published, SEEDS),
        *list_rows(more, published, MORE_SEEDS),
    ]


def run_all(keys: Sequence[Key], seeds: Sequence[int]) -> dict[Key, Line]:
    """Return the means over seeds of 12 hours in each setting, each run on one of all cores."""
    write_loads()
    jobs = [(key, seed) for key in keys for seed in seeds]
    lines = list(map_spawned(_run_job, jobs, label="EDF"))
    return {
        key: average([line for job, line in zip(jobs, lines, strict=True) if job[0] == key])
        for key in keys
    }


def _run_job(job: tuple[Key, int]) -> Line:
    (setting, bucket), seed = job
    return run_once(describe(setting, bucket=bucket, load=load_of(seed)), seed)


def run_once(experiment: Experiment, seed: int) -> Line:
    """Simulate an experiment; return what Table 1 says of it."""
    result = simulate(experiment, seed=seed, history=True)
    history = result.history
    restarts = np.flatnonzero(history[:, AT_CHANGE] == RESTART)
    kept = np.arange(len(history)) >= WARM_UP
    measured = measure(history[kept], experiment)
    for slot in restarts:
        kept[slot + 1 : slot + 1 + UNSETTLED] = False
    return Line(
        settled=measure(history[kept], experiment) if kept.any() else NOTHING_LEFT,
        unfiltered=measured,
        downtime=100 * restarts.size * experiment.world.downtime / (len(history) * experiment.slot),
        granted=100 * result.granted / result.asked if result.asked else np.nan,
    )


def measure(history: Floats, experiment: Experiment) -> Measured:
    """Return the columns of Table 1 over slots of a history; a replica's price is 1."""
    times, bound = history[:, AT_TIME], experiment.objective.response_time
    return Measured(
        mean=1000 * float(times.mean()),
        p50=1000 * float(np.percentile(times, 50)),
        p95=1000 * float(np.percentile(times, 95)),
        replicas=float(history[:, AT_PRICE].mean()),
        violations=100 * float((times > bound).mean()),
    )


def average(lines: Sequence[Line]) -> Line:
    """Return the means over runs."""
    settled = [line.settled for line in lines if not np.isnan(line.settled.mean)]
    return Line(
        settled=_average(settled) if settled else NOTHING_LEFT,
        unfiltered=_average([line.unfiltered for line in lines]),
        downtime=fmean(line.downtime for line in lines),
        granted=fmean(line.granted for line in lines),
    )


def _average(measured: Sequence[Measured]) -> Measured:
    return Measured(*np.mean(measured, axis=0).tolist())


def describe(setting: str, *, bucket: bool, load: Path) -> Experiment:
    experiment = load_experiment(EXPERIMENT, trace=load)
    kind, _, detail = setting.rpartition(" ")
    if kind.startswith("TH"):
        policy = PolicyChoice(name="threshold-cheapest", parameters={"utilisation": float(detail)})
    else:
        policy = PolicyChoice(name=LEARNERS[kind])
    arbitration = experiment.arbitration
    if not kind.endswith("conflicts"):
        arbitration = arbitration.model_copy(update={"nodes": None})
    if not bucket:
        arbitration = arbitration.model_copy(update={"token_bucket": None})
    weights = WEIGHTS.get(detail, experiment.weights)
    changed = {"policy": policy, "weights": weights, "arbitration": arbitration}
    if kind.endswith("profiled"):
        changed |= {
            "objective": experiment.objective.model_copy(update={"profiled_at": PROFILED_AT}),
            "operators": tuple(
                each.model_copy(update={"budget": None}) for each in experiment.operators
            ),
        }
    return experiment.model_copy(update=changed)


def load_of(seed: int) -> Path:
    """Return the file of a seed's load."""
    return FOLDER / f"load-{seed}.txt"


def write_loads() -> None:
    """Write the source's rate of each slot, records/s, with each seed's noise."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    trips = np.loadtxt(trace_file("taxi"), max_rows=DAYS * MINUTES_PER_DAY)
    slots = trips.reshape(-1, MINUTES_PER_SLOT).mean(axis=1)
    low, high = np.percentile(slots, [1, 99])
    rates = (LOWEST + (slots - low) * (HIGHEST - LOWEST) / (high - low)).clip(LOWEST, HIGHEST)
    for seed in SEEDS:
        noise = np.exp(np.random.default_rng(seed).normal(0, NOISE, rates.size))
        np.savetxt(load_of(seed), rates * noise, fmt="%.17g")


def read_published() -> dict[Key, Line]:
    lines = {}
    with PUBLISHED.open(newline="") as file:
        for row in csv.DictReader(file):
            measured = Measured(*(float(row[column]) for column in Measured._fields))
            lines[row["setting"], row["bucket"] == "yes"] = Line(
                settled=measured, unfiltered=measured, downtime=float(row["downtime"])
            )
    return lines


def list_rows(
    ours: Mapping[Key, Line], published: Mapping[Key, Line], seeds: Sequence[int]
) -> list[Row]:
    """Return Table 1 beside ours, once as the paper filters and once on all slots."""
    what = "mean / P50 / P95 (ms) / replicas / downtime (%) / violations (%)"
    tables: dict[Slots, str] = {
        "settled": f"Table 1, without 2 min after each reconfiguration: {what}",
        "unfiltered": f"Table 1, ours on all slots: {what}",
    }
    return [
        Row(
            table,
            label_of((setting, bucket)),
            format_line(published[plain, bucket], slots)
            if (plain := re.sub(" conflicts| profiled", "", setting), bucket) in published
            else "",
            format_line(line, slots),
            seeds=len(seeds),
        )
        for slots, table in tables.items()
        for (setting, bucket), line in ours.items()
    ]


def label_of(key: Key) -> str:
    """Return what the page calls a setting."""
    setting, bucket = key
    return f"{setting}, token bucket" if bucket else setting


def format_line(line: Line, slots: Slots) -> str:
    over: Measured = getattr(line, slots)
    return (
        f"{over.mean:.0f} / {over.p50:.0f} / {over.p95:.0f} / {over.replicas:.2f} / "
        f"{line.downtime:.2f} / {over.violations:.1f}"
    )


def judge(ours: Mapping[Key, Line]) -> list[Figure]:
    """The paper's claims: orderings, and what the bucket changes."""
    return [
        *judge_thresholds(ours, "settled"),
        *judge_thresholds(ours, "unfiltered"),
        *judge_bucket(ours),
        *judge_learning(ours),
    ]


def judge_thresholds(ours: Mapping[Key, Line], slots: Slots) -> list[Figure]:
    """A lower threshold is faster, breaks the bound less and takes more replicas."""
    swept: list[Measured] = [
        getattr(ours[f"TH {threshold}", False], slots) for threshold in THRESHOLDS
    ]
    steps = list(pairwise(swept))
    label = "thresholds 0.7 to 0.3" + (", all slots" if slots == "unfiltered" else "")
    return [
        at_most(
            f"{label}: greatest rise of the mean response time at a step",
            take_max(after.mean - before.mean for before, after in steps),
            0,
            "ms",
        ),
        at_most(
            f"{label}: greatest rise of the violations at a step",
            take_max(after.violations - before.violations for before, after in steps),
            0,
            "points",
        ),
        at_least(
            f"{label}: least rise of the replicas at a step",
            take_min(after.replicas - before.replicas for before, after in steps),
            0,
            "replicas",
        ),
    ]


def judge_bucket(ours: Mapping[Key, Line]) -> list[Figure]:
    """The bucket spares reconfigurations, and spares Q-learning its violations."""
    every = [setting for setting, bucket in ours if bucket and (setting, False) in ours]
    low, learners = ["TH 0.3"], [f"QL {weights}" for weights in WEIGHTS]
    compared = (
        ("all settings: downtime, of that without it", every, "downtime", 1),
        # "Half" in the paper's text; its table, which all others are of, says 3.18 % of 6.12 %.
        ("threshold 0.3: downtime, of that without it; published 0.52", low, "downtime", 0.52),
        ("threshold 0.3: violations, of those without it; published 0.48", low,
         "settled.violations", 1),
        ("Q-learning: downtime, of that without it; published 0.14 at most", learners,
         "downtime", 1),
        ("Q-learning: violations, of those without it, on all slots; published 0.07 at most",
         learners, "unfiltered.violations", 1),
        ("Q-learning: P95 of the response time, of that without it, on all slots; "
         "published 0.31 at most", learners, "unfiltered.p95", 1),
        ("Q-learning: mean response time, of that without it, on all slots; "
         "published 0.30 at most", learners, "unfiltered.mean", 1),
    )  # fmt: skip
    return [
        at_most(
            f"token bucket, {what}",
            take_max(
                share(attrgetter(column)(ours[each, True]), attrgetter(column)(ours[each, False]))
                for each in settings
            ),
            limit,
        )
        for what, settings, column, limit in compared
    ]


def share(part: float, whole: float) -> float:
    """Return part / whole; of nothing, nothing is all, and anything is infinitely much."""
    if whole == 0:
        return 1.0 if part == 0 else np.inf
    return part / whole


def take_max(values: Iterable[float]) -> float | None:
    """Return the greatest value; `None` where one is infinite, or unknown: no slot had settled."""
    greatest = float(np.max([*values]))
    return greatest if np.isfinite(greatest) else None


def take_min(values: Iterable[float]) -> float | None:
    """Return the least value; `None` where one is infinite or unknown."""
    least = take_max(-value for value in values)
    return None if least is None else -least


def judge_learning(ours: Mapping[Key, Line]) -> list[Figure]:
    """Q-learning is down the most; a learned model spares that, and follows its weights."""
    q_learning = [ours[f"QL {weights}", False].downtime for weights in WEIGHTS]
    others = {
        label_of(key): line.downtime
        for key, line in ours.items()
        if key[1] or not key[0].startswith("QL")
    }
    most_down = max(others, key=others.__getitem__)
    models = {weights: ours[f"MB {weights}", False] for weights in WEIGHTS}
    cheap, steady = models["perf=res"], models["perf=rcf"]
    rivals = [
        line.settled.violations
        for (setting, bucket), line in ours.items()
        if not bucket and not setting.startswith("MB")
    ]
    return [
        Figure(
            "Q-learning: least downtime, on whose published value the downtime of a "
            "reconfiguration is calibrated",
            min(q_learning),
            "%",
        ),
        Figure("Q-learning: greatest downtime, likewise", max(q_learning), "%"),
        at_least(
            "Q-learning without the bucket: least downtime, of the greatest of all others, "
            f"that of {most_down}",
            min(q_learning) / others[most_down],
            1,
        ),
        at_most(
            "full backup: downtime, of Q-learning's with the same weights",
            take_max(
                share(model.downtime, ours[f"QL {weights}", False].downtime)
                for weights, model in models.items()
            ),
            1 / 3,
        ),
        at_most(
            "full backup, perf=rcf: reconfigurations, of those with perf=res",
            take_max([share(steady.downtime, cheap.downtime)]),
            1,
        ),
        at_least(
            "full backup, perf=rcf: replicas more than with perf=res; published 1.87",
            take_max([steady.settled.replicas - cheap.settled.replicas]),
            0,
            "replicas",
        ),
        at_most(
            "full backup, perf=rcf: violations more than the fewest of thresholds and "
            "Q-learning, without the bucket; published -7.5",
            take_max([steady.settled.violations - float(np.nanmin(rivals))]),
            0,
            "points",
        ),
    ]


def judge_budgets(experiment: Experiment) -> list[Figure]:
    """What the recipe for latency budgets gives in the simulated world."""
    budgets = experiment.share_bound("full-backup", true_models(experiment))
    printed = {"partialRank": 210, "countByWindow": 5, "parser": 5}
    return [
        Figure(f"budget of {name} by profiling; published {published}", 1000 * budgets[name], "ms")
        for name, published in printed.items()
    ]


def judge_requests(ours: Mapping[Key, Line]) -> list[Figure]:
    """What becomes of the requests: conflicts without the bucket, tokens with it."""
    return [
        Figure(
            "Q-learning (perf=res), conflicts and token bucket: requests granted; published "
            "below 1",
            ours["QL conflicts perf=res", True].granted,
            "%",
        ),
        *(
            Figure(f"{setting}: requests dropped as conflicts", 100 - line.granted, "%")
            for (setting, bucket), line in ours.items()
            if "conflicts" in setting and not bucket
        ),
    ]
