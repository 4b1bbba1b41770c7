"""How quick tuning is, and how our joint search compares with the paper's and with yardsticks.

Searches are compared on three of the paper's settings (application B with one and three node types,
C with three; 40 ms, at most 5 % violations and 10 % reconfigurations) by what they know after so
many simulated slots: the cheapest point, among those simulated in full, that keeps the constraints.
The joint search was made on others. Every search begins with the naive baseline. Algorithm 4 may
take two rounds, 100 evaluations in all, random search as many, ours half as many. The best known of
a setting is the best of all of its runs and of one long one of ours.

`TUNE_SEEDS=4 make bench NAME=tune` takes fewer seeds, for a quick look. Runs are kept, so that what
was interrupted goes on; after a change of the searches, delete `build/benchmarks/tune-runs.json`.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Self
from unittest.mock import patch

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.choices import choose_count
from benchmarks.figures import Figure, at_most
from benchmarks.papers.applications import Application, describe
from benchmarks.results import BUILD
from weir_policies.application_manager.search.algorithms import build_search
from weir_policies.application_manager.search.protocol import Algorithm, Limits
from weir_policies.application_manager.search.space import Space
from weir_simulator.arrivals import arrival_rates
from weir_simulator.experiment import Experiment
from weir_simulator.tuning.evaluation import SimulationRun, evaluate
from weir_simulator.tuning.order import TuningRequest
from weir_simulator.tuning.tune import naive_tuning, never, tune
from weir_simulator.tuning.workers import Workers
from weir_simulator.whole_files import write_whole

ABOUT = "time of a tuning, and our joint search beside Algorithm 4 and random search"
DURATION = "10 min"

SLOTS = 50_001
EVALUATIONS = 25
PIPELINE = Application(name="A", types=3, milliseconds=40)
LIMITS = Limits(violations=0.05, reconfigurations=0.10)
WHOLE = 100
HALF = 50
LONG = 200
JUDGED = (
    Application(name="B", types=1, milliseconds=40),
    Application(name="B", types=3, milliseconds=40),
    Application(name="C", types=3, milliseconds=40),
)
"""Settings on which searches are compared."""
SEEDS = 20
"""Of each setting, for the two searches that the goal is about."""
YARDSTICK_SEEDS = 7
"""Of each setting, for the others, at most."""
MANY = 10
"""Operators of the long chain."""

WAYS: dict[Algorithm, int] = {"alternating": WHOLE, "joint": HALF, "random": WHOLE}
"""Evaluations by search."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Progress:
    """What a search knew, and when."""

    way: str
    setting: str
    seed: int
    used: tuple[float, ...]
    """Full evaluations simulated so far, after each."""
    best: tuple[float, ...]
    """Money of the best point so far; infinite while none keeps the constraints."""

    def when_at(self, money: float) -> float:
        """Return after how many full evaluations it had reached a value; infinite where never."""
        pairs = zip(self.used, self.best, strict=True)
        return next((used for used, best in pairs if best <= money), np.inf)


def run() -> list[Figure]:
    """Time tunings, then compare searches."""
    seeds = choose_count("TUNE_SEEDS", SEEDS)
    return [*time_tunings(), *compare_searches(JUDGED, seeds)]


def time_tunings() -> list[Figure]:
    """Return how long tunings take on two processes, without their start."""
    pipeline = describe(PIPELINE)
    planner = pipeline.model_copy(
        update={"policy": pipeline.policy.model_copy(update={"name": "planner", "parameters": {}})}
    )
    size = f"25 evaluations of {SLOTS:,} slots"
    return [
        at_most(
            figure=f"{size}, 3 operators, QL+PDS+", value=time_tuning(pipeline), unit="s", limit=10
        ),
        at_most(
            figure=f"{size}, 10 operators, QL+PDS+",
            value=time_tuning(chain(pipeline)), unit="s", limit=60,
        ),
        at_most(
            figure=f"{size}, 3 operators, planner", value=time_tuning(planner), unit="s", limit=20
        ),
        Figure(
            figure=f"{size}, 3 operators, QL+PDS+: processor time, one process",
            value=time_tuning(pipeline, workers=1, clock=time.process_time), unit="s",
        ),
        Figure(
            figure=f"{size}, 10 operators, QL+PDS+: processor time, one process",
            value=time_tuning(chain(pipeline), workers=1, clock=time.process_time), unit="s",
        ),
    ]  # fmt: skip


def chain(pipeline: Experiment) -> Experiment:
    """Return a chain of ten operators like the pipeline's in turn, with room for their times."""
    operators = [
        pipeline.operators[place % 3].model_copy(update={"name": f"op{place}"})
        for place in range(MANY)
    ]
    document = pipeline.model_dump(mode="json", by_alias=True)
    return Experiment.model_validate(
        document
        | {
            "operators": [each.model_dump(mode="json", by_alias=True) for each in operators],
            "edges": [[f"op{place}", f"op{place + 1}"] for place in range(MANY - 1)],
            "objective": {"responseTime": "140ms"},
        },
        strict=False,
    )


def time_tuning(
    experiment: Experiment, *, workers: int = 2, clock: Callable[[], float] = time.monotonic
) -> float:
    """Return the seconds of a whole tuning, final comparison included, on warm processes."""
    began: list[float] = []

    class WarmWorkers(Workers):
        def __enter__(self) -> Self:
            up: set[int] = set()
            while self._pool is not None and len(up) < self._count:
                asked = [self._pool.submit(_linger) for _ in range(self._count)]
                up |= {each.result() for each in asked}
            short = SimulationRun(point=naive_tuning(experiment), slots=1, seed=0)
            # All wait for work, and the first run takes long enough for each to get one.
            self.evaluate([short] * self._count, should_stop=never)
            began.append(clock())
            return self

    order = TuningRequest(
        experiment=experiment, evaluations=EVALUATIONS, slots=SLOTS, workers=workers
    )
    with patch("weir_simulator.tuning.tune.Workers", WarmWorkers):
        tune(order)
    return clock() - began[0]


def _linger() -> int:
    """Return which process this is, late enough for another to take the next call."""
    time.sleep(0.1)
    return os.getpid()


def compare_searches(settings: Sequence[Application], seeds: int) -> list[Figure]:
    """Return how far each search comes, and when ours has come as far as Algorithm 4."""
    tasks = [(setting, "joint", 0, LONG) for setting in settings]
    tasks += [
        (setting, way, seed, evaluations)
        for seed in range(1, seeds + 1)
        for setting in settings
        for way, evaluations in WAYS.items()
        if way in ("joint", "alternating") or seed <= YARDSTICK_SEEDS
    ]
    BUILD.mkdir(parents=True, exist_ok=True)
    path = BUILD / "tune-runs.json"
    kept = read_runs(path)
    left = [task for task in tasks if _key(task) not in kept]
    if left:
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(os.cpu_count(), mp_context=context) as pool:
            for task, run in zip(left, pool.map(follow, *zip(*left, strict=True)), strict=True):
                kept[_key(task)] = run
                write_runs(path, kept.values())
    return summarise_runs([kept[_key(task)] for task in tasks])


def write_runs(path: Path, runs: Iterable[Progress]) -> None:
    """Keep runs in a file, whole at any time."""
    write_whole(path, json.dumps([asdict(run) for run in runs]) + "\n")


def read_runs(path: Path) -> dict[tuple[str, str, int], Progress]:
    """Return the runs that a file has, by search, setting and seed; none where there is no file."""
    if not path.exists():
        return {}
    runs = [
        Progress(**each | {"used": tuple(each["used"]), "best": tuple(each["best"])})
        for each in json.loads(path.read_text())
    ]
    return {(run.way, run.setting, run.seed): run for run in runs}


def _key(task: tuple[Application, str, int, int]) -> tuple[str, str, int]:
    setting, way, seed, _ = task  # evaluations go with the search
    return way, str(setting), seed


def summarise_runs(runs: Sequence[Progress]) -> list[Figure]:
    """Return the figures of runs, those with the seed 0 being the long ones."""
    settings = list(dict.fromkeys(run.setting for run in runs))
    best_known = {
        setting: min(run.best[-1] for run in runs if run.setting == setting) for setting in settings
    }
    judged = [run for run in runs if run.seed > 0]
    theirs = {(run.setting, run.seed): run for run in judged if run.way == "alternating"}
    parts = {
        (run.setting, run.seed): run.when_at(theirs[run.setting, run.seed].best[-1])
        / theirs[run.setting, run.seed].used[-1]
        for run in judged
        if run.way == "joint"
    }

    def above(way: str, among: Sequence[str]) -> float | None:
        found = [run for run in judged if run.way == way and run.setting in among]
        value = median(100 * (run.best[-1] / best_known[run.setting] - 1) for run in found)
        return value if np.isfinite(value) else None

    def part_of(setting: str) -> float | None:
        value = median(part for (where, _), part in parts.items() if where == setting)
        return 100 * value if np.isfinite(value) else None

    part = median(parts.values())
    return [
        at_most(
            figure="simulated slots until the joint search is where Algorithm 4 ends (median)",
            value=100 * part if np.isfinite(part) else None, unit="% of Algorithm 4's", limit=50,
        ),
        Figure(
            figure="runs in which the joint search gets there with half of 100 evaluations",
            value=100 * sum(map(np.isfinite, parts.values())) / len(parts), unit="%",
        ),
        at_most(
            figure="joint: money above the best known (median)",
            value=above("joint", settings), unit="%", limit=3,
        ),
        *(
            Figure(
                figure=f"{way}, {WAYS[way]} evaluations: money above the best known (median)",
                value=above(way, settings), unit="%",
            )
            for way in WAYS
            if way != "joint"
        ),
        *(
            figure
            for setting in settings
            for figure in (
                Figure(
                    figure=f"{setting}: slots until joint is where Algorithm 4 ends (median)",
                    value=part_of(setting), unit="% of Algorithm 4's",
                ),
                *(
                    Figure(
                        figure=f"{setting}: {way}, money above the best known (median)",
                        value=above(way, [setting]), unit="%",
                    )
                    for way in WAYS
                ),
                Figure(
                    figure=f"{setting}: best known money",
                    value=best_known[setting], unit="per hour",
                ),
            )
        ),
    ]  # fmt: skip


def follow(setting: Application, way: Algorithm, seed: int, evaluations: int) -> Progress:
    """Run a search and note what it knows after each evaluation."""
    experiment = describe(setting)
    trace = arrival_rates(experiment.trace)
    space = Space(experiment.dataflow, experiment.objective.response_time)
    start = space.encode(naive_tuning(experiment))
    search = build_search(
        way,
        surrogate="numpy",
        space=space,
        limits=LIMITS,
        starts=[start],
        evaluations=evaluations,
        rng=np.random.default_rng([seed, 2]),
    )
    used, best, spent, cheapest = [], [], 0.0, np.inf
    with threadpool_limits(limits=1):  # another search has the other core
        while spent < evaluations and (trials := search.ask(2)):
            for trial in trials:
                point = space.decode(trial.coordinates)
                slots = round(trial.fidelity * SLOTS)
                outcome = evaluate(
                    experiment, trace, SimulationRun(point=point, slots=slots, seed=1)
                ).outcome
                search.tell(trial, outcome)
                spent += trial.fidelity
                if trial.fidelity == 1 and outcome.keeps(LIMITS):
                    cheapest = min(cheapest, outcome.money)
                used.append(spent)
                best.append(cheapest)
    return Progress(way=way, setting=str(setting), seed=seed, used=tuple(used), best=tuple(best))
