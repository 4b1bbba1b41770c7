"""EDF's Node Managers: which node a replica should leave because it is slow.

A node is as fast as its replicas are compared with others of the same operator, pool and size on
other nodes. A restart is too expensive for a guess, so a node asks for a migration only after
`IN_A_ROW` intervals of one run in which it was slow each time, by service times that are known well
enough. Replicas of an operator may also differ because of its records. So an operator that left a
node leaves no other one for a while; a controller that restarts forgets this.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from weir_operator.loop.proposals import Move
from weir_operator.metrics.values import AppMeasurement, ReplicaMeasurement
from weir_operator.rescale.journal import RescaleJournal, Step
from weir_operator.runtime.protocol import Replica
from weir_policies.application_manager.edf import (
    HostedReplica,
    MigrationRules,
    Node,
    ask_for_migration,
    prioritise,
    relative_speeds,
)

IN_A_ROW = 5
"""Intervals. By chance a node that is as fast as the others seems slow in 0.6% of them (1.3% where
`min_speed` is 0.9, see `STANDARD_ERRORS`), in five in a row about once in 10^11 (10^9). Five
also outlast most of what passes by itself, such as a noisy neighbour's start."""
STANDARD_ERRORS = 3.0
"""How many standard errors of a replica's mean service time must fit between 1 and `min_speed`:
at 0.7 an interval must have 100 records of exponential times, fewer of steadier ones."""
WARM_AFTER = 300.0
"""Seconds from a replica's start in which its JVM still compiles, and its times say nothing."""
IN_VAIN_FOR = 1800.0
"""Seconds for which a node is not asked to be left again after that came to nothing: as long as a
deployment that failed is not tried again."""
SPEAKS_OF_ONE_NODE_FOR = 86_400.0
"""Seconds for which an operator that left a node leaves no other one."""


class NodeWatch:
    """The nodes of one StreamApp."""

    def __init__(self, rules: MigrationRules, rng: np.random.Generator) -> None:
        self._rules = rules
        self._rng = rng
        self._run = ""
        self._slow_for: dict[str, int] = {}
        self._granted: Move | None = None
        self._left: dict[str, tuple[str, float]] = {}
        """Node that an operator left, and until when it leaves no other one."""
        self._in_vain: dict[str, float] = {}
        """Until when a node is not asked to be left again."""

    def look(
        self,
        app: AppMeasurement,
        replicas: Sequence[Replica],
        *,
        last: RescaleJournal | None,
        now: float,
    ) -> Move | None:
        """Process a healthy interval; return which replica should leave, or `None`."""
        self._learn_result(last)
        if app.job_id != self._run:
            self._run, self._slow_for = app.job_id, {}
        nodes = self._measure_nodes(app, replicas, now)
        self._slow_for = {
            name: self._slow_for.get(name, 0) + 1
            for name, node in nodes.items()
            if self._rules.score(node) > 0
        }
        found = {
            request.replica: (request, node)
            for name, node in nodes.items()
            if self._slow_for.get(name, 0) >= IN_A_ROW and now >= self._in_vain.get(name, now)
            if (request := ask_for_migration(node, self._rules, self._rng)) is not None
        }
        if not found:
            return None
        [first, *_] = prioritise([request for request, _ in found.values()])
        leaving = next(each for each in replicas if each.id == first.replica)
        node = found[first.replica][1]
        return Move(
            request=first,
            replica=leaving.id,
            node=node.name,
            reason=(
                f"{leaving.id} leaves node {node.name}, which has {node.speed:.2f} of the "
                f"speed of the other nodes of pool {leaving.pool}"
            ),
        )

    def note(self, move: Move) -> None:
        """Remember a move that was granted, until its result is seen."""
        self._granted = move

    def _learn_result(self, last: RescaleJournal | None) -> None:
        """Learn what came of leaving a node, also of what another controller granted."""
        if last is None or not last.avoid or not last.step.is_end:
            return
        [node], ended = last.avoid, max(last.times.values())
        if last.step is not Step.DONE:
            self._in_vain[node] = ended + IN_VAIN_FOR
        elif self._granted is not None and last.replace == (self._granted.replica,):
            operator = self._granted.request.operator
            self._left[operator] = (node, ended + SPEAKS_OF_ONE_NODE_FOR)

    def _measure_nodes(
        self, app: AppMeasurement, replicas: Sequence[Replica], now: float
    ) -> dict[str, Node]:
        speeds = relative_speeds([*self._service_times(app, replicas, now)])
        return {
            name: Node(
                name=name,
                speed=speed,
                hosted=tuple(
                    HostedReplica(name=each.id, operator=each.operator)
                    for each in replicas
                    if each.node == name and not each.terminating and self._may_leave(each, now)
                ),
            )
            for name, speed in speeds.items()
        }

    def _service_times(
        self, app: AppMeasurement, replicas: Sequence[Replica], now: float
    ) -> Iterator[tuple[str, str, float]]:
        """Return node, work and seconds per record of each replica that is sure of them."""
        placed = {each.id: each for each in replicas if each.node}
        for name, operator in app.operators.items():
            for measured in operator.replicas:
                replica = placed.get(measured.tm_id)
                if replica is None or now - replica.started < WARM_AFTER:
                    continue
                if STANDARD_ERRORS * _standard_error(measured) <= 1 - self._rules.min_speed:
                    yield replica.node, f"{name} on {replica.node_type}", measured.service_mean

    def _may_leave(self, replica: Replica, now: float) -> bool:
        node, until = self._left.get(replica.operator, (replica.node, 0.0))
        return node == replica.node or now >= until


def _standard_error(measured: ReplicaMeasurement) -> float:
    """Return by what share of itself a mean service time may be off; NaN where it is unknown."""
    if not (measured.served > 0 and measured.service_mean > 0):
        return math.nan
    scv = measured.service_variance / measured.service_mean**2
    # Where the variance is not counted, it is taken for that of exponential times.
    return math.sqrt((1.0 if math.isnan(scv) else scv) / measured.served)
