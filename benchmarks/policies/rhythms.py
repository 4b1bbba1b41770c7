"""The planner on rates that repeat every hour or so, against the best possible course.

Batches come every hour, or at other times, on a base rate that rises and falls over the day. Four
settings of the 2023 paper's tables, in which restarts are worth more or less. In each, the cost of
`planner` over six weeks, the time until it knows the period included, is divided by that of the
clairvoyant optimum. Constants were chosen with other rhythms, settings and seeds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from benchmarks.figures import Figure, at_most
from benchmarks.papers.taas2023 import Setting, describe, settings
from benchmarks.policies.clairvoyant import least_cost
from benchmarks.policies.planner import geometric_mean
from benchmarks.spawned import map_spawned
from weir_policies.model.arrays import Floats
from weir_simulator.run import simulate
from weir_simulator.traces import write_trace

ABOUT = "the planner on batches every hour and other rhythms, against the clairvoyant optimum"
DURATION = "1 min"
DETERMINISTIC = True

SLOTS = 60_000
RATE_SEED = 11
SEED = 1
INFRASTRUCTURES = ("A3", "B6")
BASE_RATE = 120.0
"""Records/s."""
SWING = 0.25
"""Of the base rate over a day."""
GOAL_HOURLY = 1.15


@dataclass(frozen=True, kw_only=True, slots=True)
class Rhythm:
    """Batches that come again and again."""

    period: float
    """Minutes from the beginning of one to that of the next."""
    lasts: int
    """Minutes."""
    times: float
    """How many times the base rate its rate is."""
    late: float = 0.0
    """Standard deviation of when it begins, minutes."""


HOURLY = "12 minutes of each hour"
RHYTHMS: Mapping[str, Rhythm] = {
    HOURLY: Rhythm(period=60, lasts=12, times=3.0),
    f"{HOURLY}, a minute early or late": Rhythm(period=60, lasts=12, times=3.0, late=1.0),
    "10 minutes of each 50": Rhythm(period=50, lasts=10, times=2.5),
    "30 minutes of each 200": Rhythm(period=200, lasts=30, times=3.0),
}


def run() -> list[Figure]:
    """Run every rhythm in every setting."""
    taken = [
        each
        for each in settings()
        if each.workload == "taxi" and f"{each.infrastructure}{each.types}" in INFRASTRUCTURES
    ]
    wanted = [(rhythm, each) for rhythm in RHYTHMS.values() for each in taken]
    with TemporaryDirectory() as folder:
        run_one = partial(_run_one, Path(folder))
        ratios = dict(zip(wanted, map_spawned(run_one, wanted), strict=True))
    return [
        figure
        for name, rhythm in RHYTHMS.items()
        for figure in _compare(name, {each: ratios[rhythm, each] for each in taken})
    ]


def _compare(name: str, ratios: Mapping[Setting, float]) -> Iterator[Figure]:
    """Yield the mean of a rhythm, then each setting; only hourly batches have a goal."""
    mean = f"{name}: planner / clairvoyant, geometric mean of {len(ratios)} settings"
    value = geometric_mean([*ratios.values()])
    if name == HOURLY:
        yield at_most(mean, value, GOAL_HOURLY)
    else:
        yield Figure(mean, value)
    for setting, ratio in ratios.items():
        figure = f"{name}, {setting}: planner / clairvoyant"
        if name == HOURLY:
            yield at_most(figure, ratio, GOAL_HOURLY)
        else:
            yield Figure(figure, ratio)


def _run_one(folder: Path, wanted: tuple[Rhythm, Setting]) -> float:
    """Return the planner's cost in a setting, divided by the least cost that was possible."""
    rhythm, setting = wanted
    file = folder / f"{setting}-{rhythm.period}-{rhythm.late}.txt"
    write_trace(file, make_batches(rhythm, SLOTS, np.random.default_rng(RATE_SEED)))
    experiment = describe(setting, trace={"file": str(file)})
    return simulate(experiment, seed=SEED, policy="planner").average_cost / least_cost(experiment)


def make_batches(rhythm: Rhythm, slots: int, rng: np.random.Generator) -> Floats:
    """Return the rates of so many minutes, records/s."""
    minute = np.arange(slots)
    rate = BASE_RATE * (1 - SWING * np.cos(2 * np.pi * minute / 1440))
    for begins in np.arange(rng.uniform(0, rhythm.period), slots, rhythm.period):
        first = max(round(begins + rng.normal(0, rhythm.late)), 0)
        rate[first : first + rhythm.lasts] *= rhythm.times
    return np.asarray(rate * rng.lognormal(0, 0.03, slots))
