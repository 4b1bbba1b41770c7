"""The applications of Russo Russo, Cardellini, Lo Presti, ACM TAAS 2023, Figure 19, as experiments.

Service rates, variances and model errors are those of the program behind the paper (its folder of
experiments): the taxi trace, at most 10 replicas, infrastructure A, QL+PDS+ with the update that
the published numbers contain and the model errors that Java draws for the seed 123.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from benchmarks.papers.java_random import draw_service_factor, draw_speedups
from benchmarks.papers.taas2023 import SPEEDUPS, trace_file
from weir_simulator.experiment import Experiment

Name = Literal["A", "B", "C"]
Edges = tuple[tuple[str, str], ...]
OPERATORS: dict[Name, tuple[tuple[float, float], ...]] = {
    "A": ((1000, 0.5), (300, 1.0), (300, 0.1)),
    "B": ((900, 0.5), (200, 0.01), (300, 0.9), (600, 0.5), (2500, 0.5)),
    "C": ((700, 0.5), (200, 0.5), (300, 0.5), (500, 0.5), (500, 0.5)),
}
"""Records/s of a replica and squared coefficient of variation, operator by operator."""
EDGES: dict[Name, Edges] = {
    "A": (("op1", "op2"), ("op2", "op3")),
    "B": (
        ("op1", "op2"), ("op1", "op3"), ("op1", "op4"),
        ("op2", "op5"), ("op3", "op5"), ("op4", "op5"),
    ),
    "C": (("op1", "op2"), ("op2", "op3"), ("op2", "op4"), ("op1", "op5")),
}  # fmt: skip
JAVA_SEED = 123
EQUAL = {"violations": 1 / 3, "resources": 1 / 3, "reconfigurations": 1 / 3}
GIVEN = {"violations": 0.6, "resources": 0.2, "reconfigurations": 0.2}
"""The weights of the paper's other experiments."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Application:
    name: Name
    types: int
    """Node types of infrastructure A."""
    milliseconds: int
    """Bound of the response time."""

    def __str__(self) -> str:
        """Return a name such as `A, N=3, 40 ms`."""
        return f"{self.name}, N={self.types}, {self.milliseconds} ms"


def applications(*, milliseconds: tuple[int, ...] = (50, 40)) -> Iterator[Application]:
    """Yield the settings, in the order of the figures."""
    names: tuple[Name, ...] = ("A", "B", "C")
    for name, bound, types in itertools.product(names, milliseconds, (1, 3)):
        yield Application(name=name, types=types, milliseconds=bound)


def describe(application: Application, *, weights: dict[str, float] = EQUAL) -> Experiment:
    """Return the experiment of a setting over the whole year, with equal quotas."""
    speedups = SPEEDUPS["A"][: application.types]
    types = [f"t{place + 1}" for place in range(application.types)]
    believed: dict[str, Any] = {
        "serviceTime": draw_service_factor(JAVA_SEED),
        "scv": 1.0,
        "speedups": dict(zip(types, draw_speedups(speedups, JAVA_SEED), strict=True)),
    }
    return Experiment.model_validate(
        {
            "operators": [
                {"name": f"op{place + 1}", "serviceRate": rate, "scv": scv, "maxReplicas": 10}
                for place, (rate, scv) in enumerate(OPERATORS[application.name])
            ],
            "edges": [list(edge) for edge in EDGES[application.name]],
            "nodeTypes": [
                {"name": name, "speedup": speedup, "price": speedup}
                for name, speedup in zip(types, speedups, strict=True)
            ],
            "costNormaliser": max(SPEEDUPS["A"]),
            "objective": {"responseTime": f"{application.milliseconds}ms"},
            "weights": weights,
            "rate": {"levels": 30, "max": 650},
            "trace": {"file": str(trace_file("taxi"))},
            "policy": {"name": "ql-pds-plus", "parameters": {"published": 1}},
            "believed": believed,
        },
        strict=False,
    )
