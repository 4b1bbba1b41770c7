"""Which vertices leave the operator that they share, because they have become busy. Pure.

A TaskManager for every vertex is expensive, so vertices that are nearly idle share those of one
operator. One whose subtasks were busy for `BUSY` of the time in total is worth a restart and
TaskManagers of its own: only then can it be scaled without the others. It stays separate
afterwards, whatever it does: a restart each time that the load rises and falls would cost more than
a TaskManager.

A restart is not worth it while the shared operator is far from its limits. So vertices leave only
where it is `at_risk`, or where the job costs less afterwards.

A separated vertex gets the replicas that its measured work needs, and not those of the operator
that it leaves: with many vertices, these would multiply. Where the policy asks for more replicas of
that operator, all its work is counted so many times more: what an overloaded vertex does is less
than what it should do. What does not fit into the pools stays where it is; the busiest vertices
come first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from weir_operator.loop.proposals import count_per_pool
from weir_operator.runtime.protocol import Deployments
from weir_policies.policy import Observation

BUSY = 0.1
"""Seconds of work per second, summed over a vertex's subtasks, from which it is an operator of its
own; 0.1 is a tenth of a core. An operator's smallest pool size is seldom less than a quarter of a
core, so below that most of it would idle."""
UTILISATION = 0.7
"""How busy the replicas of a separated vertex should be. Flink's own autoscaler has the same
default (`job.autoscaler.utilization.target`); the policy decides from there."""
AT_RISK = 0.5
"""Part of its time that a replica of a shared operator is busy, or part of its budget that its
response time takes, from which its vertices leave it: later, the restart would come too late."""
INTERVALS = 2
MEASURED = 30.0
"""Over so many intervals, but no fewer seconds: what is seen right after a start is the start."""


Separate = Callable[
    [Deployments, Mapping[str, float], Collection[str]],
    tuple[Deployments, Mapping[str, tuple[str, ...]]],
]
"""Takes what runs, the work of each vertex, seconds per second (NaN where that is unknown), and
vertices that leave the operators that they share. Returns the deployment in which they have left,
and what its operators are made of."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Separation:
    """A change that gives vertices operators of their own."""

    busy: Mapping[str, float]
    """Vertices that leave, by name, with their seconds of work per second; the busiest first."""
    waiting: Mapping[str, float]
    """Those that are busy, too, and for which the pools have no room."""
    target: Deployments
    """As it is now where nothing leaves."""
    vertices: Mapping[str, tuple[str, ...]]
    """Of each operator of the target."""
    scales_in: bool
    """An operator of the target has fewer replicas than the one that its vertices leave."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SharedOperators:
    """The operators that vertices share because nothing says otherwise."""

    vertices: Mapping[str, Mapping[str, str]]
    """By operator: the name of each vertex by its id in Flink."""
    separate: Separate
    max_operators: int
    """That there may be, those that exist included."""
    pool_limits: Mapping[str, int] = field(default_factory=dict)
    """Most replicas over all operators, by pool that has a limit."""

    def find_separation(
        self,
        deployments: Deployments,
        measured: Mapping[str, float],
        wanted: Deployments | None = None,
    ) -> Separation | None:
        """Return how the busy vertices leave, as many as the pools can hold; `None` without any.

        Args:
            deployments: What runs.
            measured: Seconds of work per second by the vertex's id in Flink.
            wanted: What the policy asks for of shared operators that need more replicas; where
                that does not fit, vertices leave with what their measured work needs.
        """
        busy = self.find_busy(measured)
        if not busy:
            return None
        if wanted:
            larger = {name: wanted[name] for name in self.vertices if name in wanted}
            source = {**deployments, **larger}
            work = self._find_work(measured, deployments, source)
            found = self._fit(deployments, source, busy, work)
            if not found.waiting:
                return found
        return self._fit(deployments, deployments, busy, self._find_work(measured))

    def _fit(
        self,
        deployments: Deployments,
        source: Deployments,
        busy: Mapping[str, float],
        work: Mapping[str, float],
    ) -> Separation:
        names = tuple(busy)
        found = Separation(busy={}, waiting=busy, target=deployments, vertices={}, scales_in=False)
        # Every vertex more takes some room, so that not each number of them has to be tried.
        fitting, left = 0, len(names)
        while fitting < left:
            count = (fitting + left + 1) // 2
            target, vertices = self.separate(source, work, names[:count])
            if not self._has_room(deployments, target):
                left = count - 1
                continue
            fitting = count
            found = Separation(
                busy={name: busy[name] for name in names[:count]},
                waiting={name: busy[name] for name in names[count:]},
                target=target,
                vertices=vertices,
                scales_in=self._scales_in(deployments, target, vertices),
            )
        return found

    def find_busy(self, measured: Mapping[str, float]) -> dict[str, float]:
        """Return the busy vertices' seconds of work per second by name, the busiest first.

        Several subtasks may exceed 1. `measured` has seconds of work per second by the vertex's id
        in Flink.
        """
        found: dict[str, float] = {}
        for names in self.vertices.values():
            for id_, name in names.items():
                found[name] = found.get(name, 0.0) + measured.get(id_, 0.0)
        busy = {name: work for name, work in found.items() if work >= BUSY}
        return dict(sorted(busy.items(), key=lambda item: -item[1]))

    def _find_work(
        self,
        measured: Mapping[str, float],
        before: Deployments | None = None,
        after: Deployments | None = None,
    ) -> dict[str, float]:
        """Return the work of each vertex; NaN where a part of it reports none.

        With deployments, as much more as its operator gets replicas.
        """
        found: dict[str, float] = {}
        for operator, names in self.vertices.items():
            times = 1.0
            if before is not None and after is not None:
                times = sum(after[operator].values()) / sum(before[operator].values())
            for id_, name in names.items():
                found[name] = found.get(name, 0.0) + times * measured.get(id_, math.nan)
        return found

    def _has_room(self, deployments: Deployments, target: Deployments) -> bool:
        before, after = count_per_pool(deployments.values()), count_per_pool(target.values())
        return len(target) <= self.max_operators and all(
            after.get(pool, 0) <= max(limit, before.get(pool, 0))
            for pool, limit in self.pool_limits.items()
        )

    def _scales_in(
        self,
        deployments: Deployments,
        target: Deployments,
        vertices: Mapping[str, tuple[str, ...]],
    ) -> bool:
        left = {name: source for source, own in self.vertices.items() for name in own.values()}
        return any(
            sum(counts.values()) < sum(deployments[left[vertices[name][0]]].values())
            for name, counts in target.items()
            if name not in deployments
        )


def at_risk(seen: Observation) -> bool:
    """Return whether a shared operator is near its limits, or not known to be far from them."""
    busy = [share for share in seen.utilisation if not math.isnan(share)]
    busiest = max(busy, default=math.nan)
    used = seen.response_time / seen.budget
    return busiest >= AT_RISK or used >= AT_RISK or (math.isnan(busiest) and math.isnan(used))


def costs_less(target: Deployments, current: Deployments, seen: Mapping[str, Observation]) -> bool:
    """Return whether a deployment costs less than another, by the prices of its node types."""
    types = (each for observation in seen.values() for each in observation.model.node_types)
    prices = {each.name: each.price for each in types}

    def cost(deployments: Deployments) -> float:
        return sum(
            count * prices.get(name, math.nan)
            for counts in deployments.values()
            for name, count in counts.items()
        )

    return cost(target) < cost(current)


def count_replicas(work: float, had: int) -> int:
    """Return how many replicas do some work; no more than did it before, together with other work.

    Args:
        work: Seconds of work per second; NaN, where it is unknown, keeps the replicas.
        had: Replicas of the operator that did it.
    """
    if math.isnan(work):
        return had
    return min(had, max(1, math.ceil(work / UTILISATION)))


def measured_over(interval: float) -> float:
    """Return the seconds over which vertices are measured."""
    return max(MEASURED, INTERVALS * interval)


def describe_busy(busy: Mapping[str, float], interval: float) -> str:
    """Return why vertices become operators of their own, a sentence without a full stop.

    Args:
        busy: Seconds of work per second, by vertex.
        interval: Seconds between two decisions.
    """
    were = "was" if len(busy) == 1 else "were"
    a_vertex = "it" if len(busy) == 1 else "each"
    return (
        f"{_list_busy(busy)} {were} busy, over {measured_over(interval):.0f} s. From {BUSY:.0%} "
        f"on, Weir gives {a_vertex} TaskManagers of its own, so that it can be scaled alone"
    )


def describe_waiting(
    waiting: Mapping[str, float], limits: Mapping[str, int], max_operators: int
) -> str:
    """Return why busy vertices keep sharing, a sentence without a full stop; empty without any.

    Args:
        waiting: Seconds of work per second, by vertex.
        limits: Maximum replicas over all operators, by pool that has a limit.
        max_operators: How many operators there may be.
    """
    if not waiting:
        return ""
    pools = ", ".join(f"{pool} {limit}" for pool, limit in limits.items())
    replicas = f" and nodePools' maxReplicas ({pools})" if limits else ""
    return (
        f"No room for an operator of their own within {max_operators} operators{replicas}: "
        f"{_list_busy(waiting)}"
    )


def _list_busy(busy: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {work:.0%}" for name, work in busy.items())
