"""Predicted against measured mean response time of the operators of trips, on a real Flink.

Both operators are loaded at once, so each deployment gives two points. What a prediction knows
comes from the calibration deployments alone, which are not judged: service time, its variability
and the network time, learned by the same Operator Manager that decides in the live world. Predicted
is the mean over records, which is what is measured; a decision plans for the worst replica instead.

`match` stands behind a rebalance: `byLoad` with Flink's adaptive partitioner, `equal` without;
`aggregate` stands behind keys: `equal`, with indivisible key groups. No edge of Flink shares
strictly by speed; `proportional` is what the adaptive partitioner tends to when replicas fill up,
so that rule is judged on the mixed deployments of `match` above 0.7.
"""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.figures import Figure, at_least, at_most
from benchmarks.flink.trips_cluster import Trips, TripsCluster, deployments
from benchmarks.model.steady_state import (
    ARGUMENTS,
    MEASURED,
    RATE,
    Counts,
    Point,
    measure_steady,
)
from weir_operator.loop.operator_manager import ObservedOperator
from weir_operator.metrics.values import AppMeasurement, OperatorMeasurement
from weir_operator.wiring.assembly import operator_managers
from weir_policies.model.node_types import Deployment
from weir_policies.model.queueing import predict
from weir_policies.policy import Aggregation, Sharing

ABOUT = "predicted against measured response time, all sharing rules, pools mixed and pure"
DURATION = "11 min"

CALIBRATION: tuple[tuple[Counts, Counts], ...] = (
    ({"large/2": 1}, {"large/1": 2}),
    ({"small/500m": 5}, {"small/500m": 4}),
)
JUDGED: tuple[tuple[Counts, Counts], ...] = (
    ({"small/500m": 4}, {"small/500m": 3}),
    ({"large/1": 1, "small/500m": 3}, {"large/1": 1, "small/500m": 2}),
    ({"small/250m": 7}, {"large/1": 1}),
    ({"large/1": 2, "small/500m": 2}, {"small/250m": 6}),
    ({"large/1": 1, "small/500m": 1}, {"large/1": 1, "small/500m": 3}),
)
WITHOUT_ADAPTIVE: tuple[tuple[Counts, Counts], ...] = (
    ({"small/500m": 4}, {"large/1": 2, "small/500m": 1}),
    ({"large/1": 1, "small/500m": 3}, {"small/250m": 7}),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class SharingPoint(Point):
    """The same where the rule of sharing is said."""

    rule: Sharing

    @property
    def is_mixed(self) -> bool:
        """Whether its replicas differ in speed."""
        return len(self.counts) > 1

    @property
    def is_busy(self) -> bool:
        """Whether it is one of those that matter: busy, and more than one replica."""
        return 0.7 <= self.utilisation <= 0.9 and sum(self.counts.values()) >= 2


def run() -> list[Figure]:
    """Measure and predict all points."""
    points, proportional = asyncio.run(_run())
    print(*points, sep="\n")
    errors = [point.error for point in points]
    busy = sum(point.is_busy for point in points)
    figures = [
        at_most(
            figure="error of the mean response time, median",
            value=100 * statistics.median(errors), unit="%", limit=15,
        ),
        Figure(figure="error of the mean response time, worst", value=100 * max(errors), unit="%"),
        at_least(figure="points", value=len(points), unit="", limit=12),
        at_least(
            figure="points at utilisation 0.7-0.9 with 2 or more replicas",
            value=100 * busy / len(points),
            unit="%",
            limit=50,
        ),
    ]  # fmt: skip
    groups = {
        "median error behind a rebalance, byLoad": [p for p in points if p.rule is Sharing.BY_LOAD],
        "median error behind a rebalance, equal": [
            p for p in points if p.operator == "match" and p.rule is Sharing.EQUAL
        ],
        "median error behind keys": [p for p in points if p.operator == "aggregate"],
        "median error, pure pools": [p for p in points if not p.is_mixed],
        "median error, mixed pools": [p for p in points if p.is_mixed],
        "error of mixed points predicted as proportional": proportional,
    }
    figures += [
        Figure(
            figure=name,
            value=100 * statistics.median(p.error for p in group) if group else None,
            unit="%",
        )
        for name, group in groups.items()
    ]
    return figures


async def _run() -> tuple[list[SharingPoint], list[SharingPoint]]:
    points: list[SharingPoint] = []
    proportional: list[SharingPoint] = []
    job = Trips(
        name="fidelity", rates=[RATE], initial=deployments(*CALIBRATION[0]), arguments=ARGUMENTS
    )
    managers = _managers(job, Sharing.BY_LOAD)
    job.clear()
    async with TripsCluster(job) as cluster:
        await cluster.lifecycle.bring_up()
        await _calibrate(cluster, managers)
        for counts in JUDGED:
            seen = await _measure(cluster, *counts)
            points += _judge(managers, seen, counts)
            proportional += [
                point
                for point in _judge(managers, seen, counts, rule=Sharing.PROPORTIONAL)
                if point.operator == "match" and point.is_mixed and point.utilisation > 0.7
            ]
    plain = replace(
        job,
        name="fidelity-equal",
        initial=deployments(*WITHOUT_ADAPTIVE[0]),
        config={"taskmanager.network.adaptive-partitioner.enabled": "false"},
    )
    plain.clear()
    async with TripsCluster(plain) as cluster:
        await cluster.lifecycle.bring_up()
        for counts in WITHOUT_ADAPTIVE:
            points += _judge(managers, await _measure(cluster, *counts), counts, rule=Sharing.EQUAL)
    return points, proportional


async def _calibrate(cluster: TripsCluster, managers: Mapping[str, ObservedOperator]) -> None:
    for counts in CALIBRATION:
        _learn(managers, await _measure(cluster, *counts), counts)


def _managers(job: Trips, sharing: Sharing) -> Mapping[str, ObservedOperator]:
    managers = operator_managers(job.app())
    maximum = job.app().spec.flink.max_parallelism
    managers["match"].note_edges(keyed=False, balanced=True, sharing=sharing, key_groups=maximum)
    managers["aggregate"].note_edges(keyed=True, balanced=False, sharing=None, key_groups=maximum)
    return managers


async def _measure(cluster: TripsCluster, match: Counts, aggregate: Counts) -> AppMeasurement:
    """Bring the job to a deployment and measure its steady state."""
    whole, _ = await measure_steady(cluster, match, aggregate)
    return whole


def _learn(
    managers: Mapping[str, ObservedOperator], seen: AppMeasurement, counts: tuple[Counts, Counts]
) -> None:
    steady = replace(seen, start=seen.end - MEASURED, backlog=0.0)
    for name, deployment in zip(("match", "aggregate"), counts, strict=True):
        manager = managers[name]
        manager.observe(
            steady,
            (),
            deployment=Deployment.from_named(deployment, manager.model.node_types),
            budget=1.0,
            first=False,
        )


def _judge(
    managers: Mapping[str, ObservedOperator],
    seen: AppMeasurement,
    counts: tuple[Counts, Counts],
    *,
    rule: Sharing = Sharing.BY_LOAD,
) -> list[SharingPoint]:
    """Predict both operators at the rate that arrived; `rule` is that of `match`."""
    return [
        _point(managers["match"], seen.operators["match"], counts[0], rule),
        _point(managers["aggregate"], seen.operators["aggregate"], counts[1], Sharing.EQUAL),
    ]


def _point(
    manager: ObservedOperator, seen: OperatorMeasurement, counts: Counts, rule: Sharing
) -> SharingPoint:
    model = replace(manager.model, aggregation=Aggregation.AVERAGE, sharing=rule)
    deployment = Deployment.from_named(counts, model.node_types)
    prediction = predict(model, np.array([deployment.counts]), seen.arrival_rate)
    return SharingPoint(
        operator=seen.name,
        rule=rule,
        counts=counts,
        utilisation=max(seen.utilisation),
        measured=seen.response_time,
        predicted=float(prediction.response_time[0]),
    )
