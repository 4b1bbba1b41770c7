"""Service time as a function of the memory that an operator's state has.

State in RocksDB is read through a cache in Flink's managed memory, and what the cache misses is
read from files. A record's work at reference speed, with `m` MiB of managed memory, is taken to be

    work(m) = cpu + misses / m

with both parts at least 0: the part that misses take falls as the cache grows, ever more slowly.
The two parts are fitted by least squares, weighted by records, to the means that were measured with
different amounts of memory. While only one amount was measured, the parts are not known, and the
share of reads that the cache missed is taken for the share of the work that misses take. That is a
guess, by which the next amount is worth a trial or is not; the trial replaces it.

A node type that was measured keeps what was measured there; this is about those that were not.

Known limit: state that grows makes earlier measurements too good.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from weir_policies.model.node_types import Deployment, NodeType, ReplicaMemory

HEAP_ROOM = 2.0
"""A heap is to have so many times what it holds. What holds objects for long should be a third to
a half of a heap, or collections become frequent."""


class Resource(StrEnum):
    """What limits an operator."""

    CPU = "cpu"
    """More CPU makes it faster for less money than more memory does."""
    MEMORY = "memory"
    """More memory makes it faster for less money."""
    HEAP = "heap"
    """Less memory would do the same for less money, if the heap fitted in."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StateMeasurement:
    """What an operator made of its memory in an interval."""

    miss_share: float
    """Of the blocks that state was read from, the share that was not in the cache, in [0, 1]; NaN
    where nothing was read or it is not measured."""
    heap: float
    """MiB that the fullest heap held after collections, or more; NaN where it is not measured."""
    stalled: float = math.nan
    """Share of the time for which writes of state were held back, of the worst replica; NaN where
    it is not measured."""
    gc_share: float = math.nan
    """Share of the time spent collecting garbage, of the worst replica; NaN where unknown."""


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkPoint:
    """What a record took with one amount of memory."""

    memory: int
    """MiB."""
    work: float
    """Seconds at reference speed."""
    records: float
    """How many the mean is of."""


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkByMemory:
    """A record's work as a function of managed memory."""

    cpu: float
    """Seconds at reference speed, whatever the memory."""
    misses: float
    """Seconds times MiB."""

    def at(self, memory: int) -> float:
        """Return the seconds that a record takes at reference speed with so many MiB."""
        return self.cpu + self.misses / max(memory, 1)


def fit_work(points: Sequence[WorkPoint], miss_share: float) -> WorkByMemory | None:
    """Return work as a function of memory; `None` where nothing says how it depends on memory.

    Args:
        points: What was measured, at most one for each amount of memory.
        miss_share: Share of reads that missed the cache, at the only point; NaN where unknown.
    """
    if not points:
        return None
    if len(points) == 1:
        (point,) = points
        if math.isnan(miss_share):
            return None
        missing = miss_share * point.work
        return WorkByMemory(cpu=point.work - missing, misses=missing * max(point.memory, 1))
    weights = np.array([point.records for point in points])
    work = np.array([point.work for point in points])
    rarer = 1.0 / np.maximum([point.memory for point in points], 1)
    mean_work, mean_rarer = np.average(work, weights=weights), np.average(rarer, weights=weights)
    around = weights * (rarer - mean_rarer)
    misses = float(around @ (work - mean_work) / (around @ (rarer - mean_rarer)))
    cpu = float(mean_work - misses * mean_rarer)
    if misses < 0:
        return WorkByMemory(cpu=float(mean_work), misses=0.0)
    if cpu < 0:
        alone = float((weights * rarer) @ work / ((weights * rarer) @ rarer))
        return WorkByMemory(cpu=0.0, misses=alone)
    return WorkByMemory(cpu=cpu, misses=misses)


def has_choice(node_types: Sequence[NodeType]) -> bool:
    """Return whether an operator may choose its memory."""
    return len({each.memory for each in node_types}) > 1


def amounts_of(node_types: Sequence[NodeType]) -> list[ReplicaMemory | None]:
    """Return the different amounts of memory, the least first; `None` comes before all."""
    amounts = {each.memory for each in node_types}
    known = sorted(each for each in amounts if each is not None)
    return [None, *known] if None in amounts else [*known]


def limit_memory(
    node_types: Sequence[NodeType],
    deployment: Deployment,
    *,
    work: WorkByMemory | None,
    measured: Collection[int],
    heap: float,
) -> tuple[NodeType, ...]:
    """Return the node types, of which none can be added where their memory must not be.

    Memory changes by one amount at a time, or to one that was measured; not at all while it is not
    known what that does; and never to a heap of less than `HEAP_ROOM` times what it holds.

    Args:
        node_types: The operator's.
        deployment: What it has.
        work: How a record's work depends on memory; `None` where that is not known.
        measured: MiB of managed memory with which records were served.
        heap: MiB that the fullest heap holds; NaN where that is not known.
    """
    present = memory_of(node_types, deployment)
    if present is None or not has_choice(node_types):
        return tuple(node_types)
    amounts = sorted({each.memory for each in node_types if each.memory is not None})
    here = amounts.index(present)
    near = amounts[max(here - 1, 0) : here + 2]

    def may_be(memory: ReplicaMemory) -> bool:
        if memory == present:
            return True
        reached = work is not None and (memory in near or memory.managed in measured)
        return reached and (memory > present or not memory.heap < HEAP_ROOM * heap)

    return tuple(
        each if count or each.memory is None or may_be(each.memory) else replace(each, pool_limit=0)
        for each, count in zip(node_types, deployment, strict=True)
    )


def memory_of(node_types: Sequence[NodeType], deployment: Deployment) -> ReplicaMemory | None:
    """Return the memory that the slots of a deployment have, the least of its replicas'."""
    return min(
        (
            each.memory
            for each, count in zip(node_types, deployment, strict=True)
            if count and each.memory is not None
        ),
        default=None,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Binding:
    """Which resource limits an operator, and by how much."""

    resource: Resource
    memory: ReplicaMemory
    """What its replicas have."""
    gain: float
    """Work for the same money with the next amount of memory, relative to the present one; 1 where
    there is none."""


def find_binding(
    node_types: Sequence[NodeType], deployment: Deployment, *, heap: float
) -> Binding | None:
    """Return what limits an operator; `None` where it cannot choose its memory.

    More CPU, or more replicas, do more work for more money in proportion. So memory limits where
    the next amount does more work for the same money.

    Args:
        node_types: With the speeds that are believed.
        deployment: What the operator has.
        heap: MiB that the fullest heap holds; NaN where that is not known.
    """
    present = memory_of(node_types, deployment)
    if present is None or not has_choice(node_types):
        return None
    value: dict[ReplicaMemory, float] = {}
    for each in node_types:
        if each.memory is not None:
            value[each.memory] = max(value.get(each.memory, 0.0), each.speedup / each.price)
    more = min((each for each in value if each > present), default=present)
    gain = value[more] / value[present]
    if gain > 1:
        return Binding(resource=Resource.MEMORY, memory=present, gain=gain)
    too_small = any(
        each < present and each.heap < HEAP_ROOM * heap and value[each] > value[present]
        for each in value
    )
    resource = Resource.HEAP if too_small else Resource.CPU
    return Binding(resource=resource, memory=present, gain=gain)
