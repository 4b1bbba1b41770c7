"""The experiments of Russo Russo, Cardellini, Lo Presti, ACM TAAS 2023, as they were really run.

Where the paper is silent, or its published numbers need another setting than it states, the setting
that gives the published numbers is taken: a threshold of 0.75, 400,001 slots of the taxi trace, a
service rate of 1,620 for the tweets, 30 rate levels up to 650 and 9,000, other speedups and another
normaliser for infrastructure B with ten node types, and a first replica of type 1 but for the
threshold policies on infrastructure B with three and six.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from benchmarks.papers.java_random import draw_service_factor, draw_speedups
from benchmarks.registry import BenchmarkError
from weir_simulator.experiment import Experiment

FOLDER = Path(__file__).parent
TRACES = FOLDER.parents[2] / "shared" / "traces"

Infrastructure = Literal["A", "B", "B2"]
Workload = Literal["taxi", "tweets"]

SPEEDUPS: Mapping[str, tuple[float, ...]] = {
    "A": (1.0, 0.7, 1.3, 0.9, 1.7, 0.8, 1.8, 2.0, 1.65, 1.5),
    "B": (1.0, 0.05, 30.0, 0.1, 0.2, 0.4, 0.8, 2.0, 5.0, 7.0),
    "B2": (1.0, 0.05, 30.0, 0.1, 0.2, 0.4, 0.8, 2.0, 5.0, 7.0),
}
SPEEDUPS_B10 = (1.0, 0.05, 7.0, 0.1, 0.2, 0.4, 0.8, 2.0, 5.0, 10.0)
"""What the published rows of infrastructure B with ten node types were made with."""
PRICE_POWER = {"A": 1.0, "B": 1.0, "B2": 1.5}
TYPES = (3, 6, 10)
TAXI_SLOTS = 400_001
SERVICE_RATE = {"taxi": 180, "tweets": 1620}
"""Records/s of a replica."""
PRINTED_RATE = {"taxi": 180, "tweets": 1600}
"""The same as the paper prints it."""
LEVELS = 30
MAX_RATE = {"taxi": 650, "tweets": 9000}
"""Records/s of the highest rate level."""


@dataclass(frozen=True, slots=True, order=True)
class Setting:
    workload: Workload
    max_replicas: int
    infrastructure: Infrastructure
    types: int

    @property
    def table(self) -> int:
        return {("taxi", 10): 2, ("taxi", 20): 3, ("tweets", 10): 4, ("tweets", 20): 5}[
            self.workload, self.max_replicas
        ]

    def __str__(self) -> str:
        """Return a name such as `taxi K=10 A3`."""
        return f"{self.workload} K={self.max_replicas} {self.infrastructure}{self.types}"


@dataclass(frozen=True, slots=True)
class Cell:
    """What the paper prints of one policy in one setting; text, as `<0.1` is no number."""

    setting: Setting
    row: str
    policy: str
    cost: str
    violations: str
    reconfigurations: str
    resources: str


@dataclass(frozen=True, slots=True)
class Rerun:
    """What the program behind the paper gives over seeds, run again by others."""

    cost: float
    deviation: float
    seeds: int


def settings() -> Iterator[Setting]:
    for workload in ("taxi", "tweets"):
        for max_replicas in (10, 20):
            for infrastructure in ("A", "B"):
                for types in TYPES:
                    yield Setting(workload, max_replicas, infrastructure, types)


def read_cells() -> list[Cell]:
    """Return every cell of tables 2 to 5."""
    with (FOLDER / "published" / "taas2023_tables.csv").open(newline="") as file:
        return [
            Cell(
                _setting_of(row),
                row["row"],
                row["policy"],
                row["cost"],
                row["violations"],
                row["reconfigurations"],
                row["resources"],
            )
            for row in csv.DictReader(file)
        ]


def read_reruns() -> dict[tuple[str, Setting], Rerun]:
    """Return means and deviations of the learning policies, by policy and setting."""
    with (FOLDER / "published" / "taas2023_reruns.csv").open(newline="") as file:
        return {
            (row["policy"], _setting_of(row)): Rerun(
                float(row["cost"]), float(row["cost_sd"]), int(row["seeds"])
            )
            for row in csv.DictReader(file)
        }


def _setting_of(row: Mapping[str, str]) -> Setting:
    workload, max_replicas = {
        "2": ("taxi", 10),
        "3": ("taxi", 20),
        "4": ("tweets", 10),
        "5": ("tweets", 20),
    }[row["table"]]
    return Setting(
        workload,  # type: ignore[arg-type]
        max_replicas,
        row["infrastructure"],  # type: ignore[arg-type]
        int(row["types"]),
    )


def trace_file(name: str) -> Path:
    path = TRACES / f"{name}.txt"
    if not path.exists():
        raise BenchmarkError(
            f"Expected the trace {name}.txt in shared/traces beside the project; it is published "
            "with the simulator of the paper (grussorusso/dsp-elasticity-sim, folder traces)"
        )
    return path


def speedups_of(setting: Setting) -> tuple[float, ...]:
    """Return the speedups of the node types that a setting has."""
    if setting.infrastructure == "B" and setting.types == 10:
        return SPEEDUPS_B10
    return SPEEDUPS[setting.infrastructure][: setting.types]


def normaliser_of(setting: Setting) -> float:
    """Return the price that costs are normalised by: the largest speedup of the whole list."""
    if setting.infrastructure == "B" and setting.types == 10:
        return max(SPEEDUPS_B10)
    return max(SPEEDUPS[setting.infrastructure])


def describe(setting: Setting, *, first_type: int = 0, **more: Any) -> Experiment:
    taxi = setting.workload == "taxi"
    trace: dict[str, Any] = {"file": str(trace_file(setting.workload))}
    if taxi:
        trace["slots"] = TAXI_SLOTS
    names = [f"t{place + 1}" for place in range(setting.types)]
    sections: dict[str, Any] = {
        "operators": [
            {
                "name": "op",
                "serviceRate": SERVICE_RATE[setting.workload],
                "scv": 0.5,
                "maxReplicas": setting.max_replicas,
            }
        ],
        "nodeTypes": [
            {
                "name": name,
                "speedup": speedup,
                "price": speedup ** PRICE_POWER[setting.infrastructure],
            }
            for name, speedup in zip(names, speedups_of(setting), strict=True)
        ],
        "costNormaliser": normaliser_of(setting),
        "objective": {"responseTime": "50ms"},
        "weights": {"violations": 0.6, "resources": 0.2, "reconfigurations": 0.2},
        "rate": {"levels": LEVELS, "max": MAX_RATE[setting.workload]},
        "trace": trace,
        "initial": {names[first_type]: 1},
    }
    return Experiment.model_validate(sections | more, strict=False)


def describe_for(policy: str, setting: Setting) -> Experiment:
    """Return the experiment of a setting as the tables ran it for a policy."""
    threshold = policy in ("threshold-cheapest", "threshold-fastest")
    if threshold and setting.infrastructure == "B" and setting.types != 10:
        speedups = speedups_of(setting)
        chosen = min(speedups) if policy == "threshold-cheapest" else max(speedups)
        return describe(setting, first_type=speedups.index(chosen))
    if policy in ("ql-pds-plus", "dqn-pds-plus"):
        # An exponential service of a mean that is 5 to 10 % off, speedups up to 20 % off.
        believed = {"serviceError": [0.05, 0.10], "speedupError": 0.2, "scv": 1.0}
        return describe(setting, believed=believed)
    return describe(setting)


def describe_printed(policy: str, setting: Setting) -> Experiment:
    """Return the experiment of a setting with what the paper prints, where it prints anything.

    The whole year, the printed speedups, costs by the greatest of the node types that there are,
    and a first replica of the cheapest type.
    """
    speedups = SPEEDUPS[setting.infrastructure][: setting.types]
    power = PRICE_POWER[setting.infrastructure]
    usual = describe_for(policy, setting)
    (operator,) = usual.operators
    return usual.model_copy(
        update={
            "operators": (
                operator.model_copy(update={"service_rate": PRINTED_RATE[setting.workload]}),
            ),
            "node_types": tuple(
                each.model_copy(update={"speedup": speedup, "price": speedup**power})
                for each, speedup in zip(usual.node_types, speedups, strict=True)
            ),
            "cost_normaliser": max(speedups) ** power,
            "trace": usual.trace.model_copy(update={"slots": None}),
            "initial": {usual.node_types[speedups.index(min(speedups))].name: 1},
        }
    )


def describe_with_java_errors(setting: Setting, seed: int) -> Experiment:
    """Return the experiment of a PDS+ row with the model errors that Java draws for a seed."""
    estimates = draw_speedups(speedups_of(setting), seed)
    believed = {
        "serviceTime": draw_service_factor(seed),
        "scv": 1.0,
        "speedups": {f"t{place + 1}": value for place, value in enumerate(estimates)},
    }
    return describe(setting, believed=believed)
