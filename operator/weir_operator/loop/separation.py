"""Which vertices leave the operator that they share, because they have become busy. Pure.

A TaskManager for every vertex is expensive, so vertices that are nearly idle share those of one
operator. One that is busy for `BUSY` of the time is worth a restart and TaskManagers of its own:
only then can it be scaled without the others. It stays separate afterwards, whatever it does: a
restart each time that the load rises and falls would cost more than a TaskManager.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from weir_operator.rescale.journal import DeploymentMap

BUSY = 0.1
"""Share of the time of one task, from which a vertex is an operator of its own. Its operator's
smallest pool size is seldom less than a quarter of a core, so below that most of it would idle."""
INTERVALS = 2
MEASURED = 30.0
"""Over so many intervals, but no fewer seconds: what is seen right after a start is the start."""

Separate = Callable[
    [DeploymentMap, Collection[str]], tuple[DeploymentMap, Mapping[str, tuple[str, ...]]]
]


@dataclass(frozen=True, kw_only=True, slots=True)
class SharedOperators:
    """The operators that vertices share because nothing says otherwise."""

    vertices: Mapping[str, Mapping[str, str]]
    """By operator: the name of each vertex by its id in Flink."""
    separate: Separate
    """Returns the deployment in which vertices (second argument) have left the operators of a
    deployment (the first one), and what its operators are made of."""

    def find_busy(self, measured: Mapping[str, float]) -> dict[str, float]:
        """Return the busy vertices by name, with the share of time; several tasks may exceed 1.

        Args:
            measured: Busy share by the vertex's id in Flink.
        """
        found: dict[str, float] = {}
        for names in self.vertices.values():
            for id_, name in names.items():
                found[name] = found.get(name, 0.0) + measured.get(id_, 0.0)
        return {name: busy for name, busy in found.items() if busy >= BUSY}


def measured_over(interval: float) -> float:
    """Return the seconds over which vertices are measured.

    Args:
        interval: Seconds between two decisions.
    """
    return max(MEASURED, INTERVALS * interval)


def say_busy(busy: Mapping[str, float], interval: float) -> str:
    """Return why vertices become operators of their own, a sentence without a full stop."""
    each = ", ".join(f"{name} {share:.0%}" for name, share in busy.items())
    return (
        f"Vertices that share TaskManagers are busy for at least {BUSY:.0%} of the time, over "
        f"{measured_over(interval):.0f} s ({each}): they get an operator of their own"
    )
