"""Runs of deep policies in parts that are kept: an interrupted benchmark goes on where it was.

A part is one policy in experiments of one shape, each with several seeds: one batch of the
simulator's batched loop. Its outcome is a file under `build/benchmarks/`, which counts as done
while it tells of the very settings that are asked for. Parts are shared among processes.
"""

from __future__ import annotations

import json
import multiprocessing
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from statistics import fmean
from typing import Any

from weir_simulator.experiment import Experiment
from weir_simulator.result import Result


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    name: str
    """Of its file."""
    policy: str
    parameters: Mapping[str, Any]
    experiment: Experiment
    seeds: tuple[int, ...]

    @property
    def settings(self) -> dict[str, Any]:
        """What the outcome depends on, as JSON values; the trace by its name alone."""
        experiment = self.experiment.model_dump(mode="json", exclude_defaults=True)
        if self.experiment.trace.file is not None:
            experiment["trace"]["file"] = self.experiment.trace.file.name
        return {
            "policy": self.policy,
            "parameters": dict(self.parameters),
            "experiment": experiment,
            "seeds": list(self.seeds),
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class RunOutcome:
    seed: int
    average_cost: float
    violations: float
    """Percent of slots."""
    reconfigurations: float
    """Percent of slots."""
    resources: float
    replicas: Mapping[str, float]
    curve_slots: tuple[int, ...]
    curve: tuple[float, ...]
    """Mean cost up to those slots."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PartOutcome:
    part: Part
    runs: tuple[RunOutcome, ...]
    seconds: float
    """Wall time of its batch; of other processes' work as well, where they ran beside it."""

    @property
    def average_cost(self) -> float:
        """Mean over seeds."""
        return fmean(run.average_cost for run in self.runs)


def run_parts(
    parts: Sequence[Part], folder: Path, *, workers: int | None = None
) -> Iterator[PartOutcome]:
    """Yield the outcome of each part, each a batch of its own; see `run_batches`."""
    yield from run_batches([(part,) for part in parts], folder, workers=workers)


def run_batches(
    batches: Sequence[Sequence[Part]],
    folder: Path,
    *,
    workers: int | None = None,
) -> Iterator[PartOutcome]:
    """Yield the outcome of each part: those that are kept first, then others as they finish."""
    missing = []
    for batch in batches:
        kept = {part.name: read_part(part, folder) for part in batch}
        yield from (outcome for outcome in kept.values() if outcome is not None)
        if rest := [part for part in batch if kept[part.name] is None]:
            missing.append(rest)
    if not missing:
        return
    # Spawned, not forked: a fork would copy the locks of threads that torch may have started.
    context = multiprocessing.get_context("spawn")
    processes = min(workers or os.cpu_count() or 1, len(missing))
    with ProcessPoolExecutor(processes, mp_context=context) as pool:
        for finished in as_completed([pool.submit(run_batch, batch) for batch in missing]):
            for outcome in finished.result():
                write_part(outcome, folder)
                yield outcome


def run_part(part: Part) -> PartOutcome:
    [outcome] = run_batch([part])
    return outcome


def run_batch(parts: Sequence[Part]) -> list[PartOutcome]:
    """Run parts of one policy and one shape together, in this process."""
    from weir_simulator.deep import simulate_deep  # here, so that listing benchmarks stays quick

    results = iter(
        simulate_deep(
            [(part.experiment, seed) for part in parts for seed in part.seeds],
            policy=parts[0].policy,
            parameters=parts[0].parameters,
        )
    )
    return [_outcome_of(part, list(islice(results, len(part.seeds)))) for part in parts]


def _outcome_of(part: Part, results: Sequence[Result]) -> PartOutcome:
    runs = tuple(
        RunOutcome(
            seed=result.seed,
            average_cost=result.average_cost,
            violations=result.violations,
            reconfigurations=result.reconfigurations,
            resources=result.resources,
            replicas=result.replicas,
            curve_slots=tuple(result.curve_slots.tolist()),
            curve=tuple(result.curve.tolist()),
        )
        for result in results
    )
    return PartOutcome(part=part, runs=runs, seconds=results[0].seconds)


def read_part(part: Part, folder: Path) -> PartOutcome | None:
    """Return what is kept of a part; `None` where nothing is, or of other settings."""
    path = _path_of(part, folder)
    if not path.exists():
        return None
    kept = json.loads(path.read_text())
    if kept["settings"] != part.settings:
        return None
    runs = tuple(
        RunOutcome(
            **{**run, "curve_slots": tuple(run["curve_slots"]), "curve": tuple(run["curve"])}
        )
        for run in kept["runs"]
    )
    return PartOutcome(part=part, runs=runs, seconds=kept["seconds"])


def write_part(outcome: PartOutcome, folder: Path) -> None:
    path = _path_of(outcome.part, folder)
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(
        {
            "settings": outcome.part.settings,
            "seconds": outcome.seconds,
            "runs": [asdict(run) for run in outcome.runs],
        }
    )
    # Whole or not at all: a half-written part would stop the next benchmark.
    unfinished = path.with_suffix(".part")
    unfinished.write_text(text)
    unfinished.replace(path)


def _path_of(part: Part, folder: Path) -> Path:
    return folder / f"{part.name}.json"
