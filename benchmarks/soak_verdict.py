"""Whether what a controller holds grows with the rescales that it has made. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.figures import Figure, at_least, at_most

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
    state: int
    """Bytes of whatever else it keeps, without savepoints, checkpoints and processes' folders."""
    savepoints: int
    """Folders of savepoints."""
    checkpoints: int
    """Folders of checkpoints, of all jobs so far."""
    jobs: int
    """Folders that jobs have for their checkpoints."""
    processes: int
    """Folders of TaskManagers that are or were."""


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
    Quantity(name="other state", of=lambda each: each.state / MIB, unit="MiB", most=0.001),
    Quantity(name="savepoint folders", of=lambda each: each.savepoints, unit="", most=0.02),
    Quantity(name="checkpoint folders", of=lambda each: each.checkpoints, unit="", most=0.02),
    Quantity(name="jobs' checkpoint roots", of=lambda each: each.jobs, unit="", most=0.02),
    Quantity(name="TaskManagers' folders", of=lambda each: each.processes, unit="", most=0.02),
)


def thirds(samples: Sequence[Sample]) -> tuple[Sequence[Sample], Sequence[Sample]]:
    """Return the first and the last third."""
    length = len(samples) // 3
    return samples[:length], samples[len(samples) - length :]


def growth(values: Sequence[float]) -> float | None:
    """Return the slope of the line through values one apart; `None` of fewer than two."""
    if len(values) < 2:
        return None
    return statistics.linear_regression(range(len(values)), values).slope


def figures_of(samples: Sequence[Sample], quantities: Sequence[Quantity]) -> list[Figure]:
    """Return for each quantity what it was in the first and the last third, and how it grew."""
    first, last = thirds(samples)
    figures = []
    for each in quantities:
        before, after = [each.of(one) for one in first], [each.of(one) for one in last]
        per = f"{each.unit} per rescale".strip()
        figures += [
            Figure(
                figure=f"{each.name}: {name} third, median",
                value=statistics.median(values) if values else None,
                unit=each.unit,
            )
            for name, values in (("first", before), ("last", after))
        ]
        figures += [
            Figure(figure=f"{each.name}: first third, growth", value=growth(before), unit=per),
            at_most(
                figure=f"{each.name}: last third, growth",
                value=growth(after),
                unit=per,
                limit=each.most,
            ),
        ]
    return figures


def say_ends(ends: Mapping[str, int], asked: int) -> list[Figure]:
    """Return how the rescales ended, by outcome."""
    done = ends.get("done", 0)
    others = sum(ends.values()) - done
    return [
        at_least(figure="rescales", value=done, unit="", limit=asked),
        at_most(figure="rescales that ended otherwise", value=others, unit="", limit=0),
    ]
