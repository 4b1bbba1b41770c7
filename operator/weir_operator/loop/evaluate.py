"""What a tick's measurements say: of the interval, and of each operator.

`gather` reads; nothing here does. Samples become what managers decide on, what the last change is
verified by, and what a job is fitted to. Only what managers believe of their operators is changed.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import replace

from weir_operator.flink.topology import Topology
from weir_operator.loop.arbitrate import ApplicationManager
from weir_operator.loop.decide import Managers
from weir_operator.loop.directives import LoopSettings
from weir_operator.loop.gather import Snapshot, sum_of_sources
from weir_operator.loop.tick import Tick
from weir_operator.loop.verify import MeasuredInterval
from weir_operator.metrics.keys import (
    describe_overload,
    describe_partitions,
    describe_skews,
    report_keys,
)
from weir_operator.metrics.values import AppMeasurement, OperatorMeasurement, ServiceFrom
from weir_operator.rescale.status import AppStatus
from weir_operator.runtime.protocol import Deployments
from weir_policies.model.node_types import Deployment
from weir_policies.policy import Observation
from weir_simulator.fitting.samples import IntervalSample, OperatorSample


def evaluate(
    tick: Tick,
    status: AppStatus,
    *,
    settings: LoopSettings,
    managers: Managers,
    am: ApplicationManager,
) -> Tick:
    """Return the tick with what its snapshot says; where it holds, no manager observes anything.

    A tick that is given has its snapshot, its budgets, and why it holds, if it does.
    """
    snapshot, app = tick.snapshot, tick.snapshot.app
    tick = replace(
        tick,
        measured=MeasuredInterval(
            rate=math.nan if app is None else sum_of_sources(app, snapshot.topology),
            response_time=snapshot.response(settings.objective.statistic),
        ),
        splits=splits_of(app),
        sample=_sample_of(snapshot, tick.deployments),
    )
    if tick.held or app is None:
        return tick
    seen = _observe(tick, app, status, managers, am)
    fixed = [name for name in seen if managers[name].fixed is not None]
    scaled = [name for name in seen if name not in fixed]
    seen = am.cap.limit_observations(seen, fixed)
    keys = report_keys(snapshot.keys, seen)
    uneven = describe_skews(keys, seen)
    return replace(
        tick,
        observations=seen,
        infeasible=tick.infeasible or (describe_overload(uneven, seen) if tick.violated else ""),
        keys=keys,
        skewed=uneven | describe_partitions(app),
        assumed=describe_assumed(app, scaled, python=settings.python),
    )


def _observe(
    tick: Tick, app: AppMeasurement, status: AppStatus, managers: Managers, am: ApplicationManager
) -> dict[str, Observation]:
    """Give every operator's manager the measurements, and return what it knows.

    Where a pool had no room for more of an operator's replicas, it may have no more there.
    """
    snapshot = tick.snapshot
    first = () if snapshot.topology is None else _first_behind_sources(snapshot.topology)
    return {
        name: managers[name].observe(
            app,
            [replica for replica in snapshot.replicas if replica.operator == name],
            deployment=Deployment.from_named(
                status.deployments[name], managers[name].model.node_types
            ),
            full={
                each.pool
                for each in status.full
                if each.operator == name and each.holds(snapshot.now)
            },
            budget=tick.budgets.get(name, math.nan),
            first=name in first,
            weights=am.sharing.tuned.weights,
            min_replicas=tick.floors[name].replicas if name in tick.floors else 1,
            keys=snapshot.keys.get(name),
            disturbed=snapshot.disturbed,
        )
        for name in app.operators
    }


def splits_of(app: AppMeasurement | None) -> dict[str, float]:
    """Return the splits that each source shares among its replicas; NaN where unknown."""
    return {} if app is None else {name: each.splits for name, each in app.operators.items()}


def _first_behind_sources(topology: Topology) -> frozenset[str]:
    """Return the operators for which waits what waits at the sources.

    A source that feeds no other operator is the whole job: what waits there waits for it.
    """
    feeding = {edge.source for edge in topology.edges}
    behind = {edge.target for edge in topology.edges if edge.source in topology.sources}
    return frozenset(behind | (set(topology.sources) - feeding))


def describe_assumed(app: AppMeasurement, decided: Collection[str], *, python: bool) -> str:
    """Return where the variance of service times is only assumed, a sentence; empty where not."""
    guessed = sorted(
        name
        for name in decided
        if any(each.service_from is ServiceFrom.BUSY_TIME for each in app.operators[name].replicas)
    )
    if not guessed:
        return ""
    if python:
        cause = "its functions may run in Python processes"
    else:
        cause = "an asynchronous function, an old source, or a job that pins itself without timed"
    return (
        f"Weir cannot measure how long {', '.join(guessed)} takes per record ({cause}). It uses "
        "Flink's busy time and assumes exponential service times; forecasts may be off"
    )


def _sample_of(snapshot: Snapshot, deployments: Deployments) -> IntervalSample | None:
    """Return an interval as it is fitted to; `None` where its metrics were missing or bad."""
    if snapshot.app is None or not snapshot.healthy:
        return None
    return IntervalSample(
        time=snapshot.now,
        seconds=snapshot.now - snapshot.start,
        operators={
            name: sample_of_operator(measured, deployments[name])
            for name, measured in snapshot.app.operators.items()
            if name in deployments
        },
        response_time=snapshot.end_to_end.mean,
        disturbed=snapshot.disturbed,
    )


def sample_of_operator(
    measured: OperatorMeasurement, deployment: Mapping[str, int]
) -> OperatorSample:
    """Return what is fitted of one operator: of replicas that served nothing, no service time."""
    return OperatorSample(
        deployment=dict(deployment),
        arrived=measured.arrival_rate,
        taken=measured.processed_rate,
        given=measured.emitted_rate,
        services=measured.services,
        response_time=measured.response_time,
        utilisation=measured.utilisation,
    )
