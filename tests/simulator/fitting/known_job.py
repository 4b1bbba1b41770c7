"""A job with known truth, for tests and benchmarks: every record waits in the queue of a replica.

It uses none of the fit's own formulas. Replicas are single servers that serve in order of arrival
(Lindley's recursion), service times are gamma, arrivals at every operator are Poisson, and a slower
machine or a busy neighbour multiplies all service times of an interval by a factor.

Source: Lindley, "The Theory of Queues with a Single Server", Proc. Cambridge Phil. Soc. 48 (1952).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from weir_policies.model.arrays import Floats
from weir_policies.model.estimation import ServiceMeasurement
from weir_policies.model.node_types import NodeType
from weir_policies.policy import OperatorModel, Sharing
from weir_simulator.fitting.samples import IntervalSample, OperatorSample, Samples
from weir_simulator.fitting.structure import Structure

TYPES = (
    NodeType(name="small/1", pool="small", speedup=1.0, price=1.0),
    NodeType(name="large/1", pool="large", speedup=1.0, price=1.6),
)
"""Two pools, whose speed is assumed to be the same."""


@dataclass(frozen=True, kw_only=True, slots=True)
class OperatorInterval:
    """What one operator runs on in one interval, and what reaches it."""

    deployment: Mapping[str, int]
    rate: float
    """Records/s."""
    factor: float = 1.0
    """Of every service time."""
    shares: Sequence[float] = ()
    """Part of the records that each replica gets by its keys; empty where keys are even."""


def a_model(name: str = "op", **fields: object) -> OperatorModel:
    """Return an operator as it truly is: keyed, 20 ms of work, not very variable."""
    truth = OperatorModel(
        name=name,
        node_types=(TYPES[0], replace(TYPES[1], speedup=1.6)),
        max_replicas=10,
        service_mean=0.02,
        service_scv=0.5,
        keyed=True,
        network_time=0.002,
    )
    return replace(truth, **fields)  # type: ignore[arg-type]  # whatever field of a model


def a_structure(
    *truths: OperatorModel,
    edges: Sequence[tuple[str, str]] = (),
    given: frozenset[str] = frozenset({"small/1"}),
    fixed: frozenset[str] = frozenset(),
) -> Structure:
    """Return what is known of a job beforehand: no service time, and every core the same."""
    assumed = {node_type.name: node_type for node_type in TYPES}
    return Structure(
        operators=tuple(
            replace(
                truth,
                node_types=tuple(assumed.get(each.name, each) for each in truth.node_types),
                service_mean=float("nan"),
                service_scv=float("nan"),
                network_time=0.0,
                sharing=Sharing.EQUAL,
            )
            for truth in truths
        ),
        edges=tuple(edges),
        given=given,
        fixed=fixed,
    )


def run_job(
    truths: Sequence[OperatorModel],
    plans: Sequence[Mapping[str, OperatorInterval]],
    *,
    rng: np.random.Generator,
    seconds: float = 60.0,
) -> Samples:
    """Return what is measured of a job.

    An interval in which a deployment changed is disturbed. Records of one interval do not wait for
    those of the interval before.

    Args:
        truths: The operators as they are.
        plans: By operator, one entry per interval.
        rng: Decides every arrival and service time.
        seconds: Length of an interval.
    """
    intervals = []
    for place, plan in enumerate(plans):
        before = plans[max(place - 1, 0)]
        operators = {
            truth.name: observe(truth, plan[truth.name], rng=rng, seconds=seconds)
            for truth in truths
        }
        intervals.append(
            IntervalSample(
                time=seconds * (place + 1),
                seconds=seconds,
                operators=operators,
                disturbed=any(plan[name].deployment != before[name].deployment for name in plan),
            )
        )
    return Samples(intervals=tuple(intervals))


def observe(
    truth: OperatorModel, plan: OperatorInterval, *, rng: np.random.Generator, seconds: float
) -> OperatorSample:
    """Return what is measured of an operator in one interval."""
    speeds = {each.name: each.speedup for each in truth.node_types}
    replicas = [name for name, count in plan.deployment.items() for _ in range(count)]
    # A queue is empty at first: what arrives in the first fifth is served, and not counted.
    warm_up = seconds / 5
    count = rng.poisson(plan.rate * (seconds + warm_up))
    arrivals = np.sort(rng.random(count)) * (seconds + warm_up)
    shares = np.array([speeds[name] if truth.sharing is Sharing.PROPORTIONAL else 1.0
                       for name in replicas])  # fmt: skip
    if plan.shares:
        shares = np.array(plan.shares)
    chosen = (
        rng.choice(len(replicas), size=count, p=shares / shares.sum())
        if truth.keyed or truth.sharing is Sharing.PROPORTIONAL
        else np.arange(count) % len(replicas)
    )
    services, times, busy = [], [], []
    for place, name in enumerate(replicas):
        at = arrivals[chosen == place]
        mean = truth.service_mean * plan.factor / speeds[name]
        work = _draw_service(mean, truth.service_scv, at.size, rng)
        counted = at >= warm_up
        times.append((work + _wait(at, work) + truth.network_time)[counted])
        busy.append(min(float(work[counted].sum()) / seconds, 1.0))
        if counted.any():
            services.append(
                ServiceMeasurement(
                    node_type=name,
                    records=float(counted.sum()),
                    mean=float(work[counted].mean()),
                    variance=float(work[counted].var()),
                )
            )
    every = np.concatenate(times)
    return OperatorSample(
        deployment={name: replicas.count(name) for name in dict.fromkeys(replicas)},
        arrived=every.size / seconds,
        taken=every.size / seconds,
        given=every.size / seconds,
        services=tuple(services),
        response_time=float(every.mean()) if every.size else float("nan"),
        utilisation=tuple(busy),
    )


def _draw_service(mean: float, scv: float, count: int, rng: np.random.Generator) -> Floats:
    if scv == 0:
        return np.full(count, mean)
    return rng.gamma(1 / scv, mean * scv, count)


def _wait(arrivals: Floats, work: Floats) -> Floats:
    """Return how long each record waits: Lindley's recursion as a running minimum."""
    if not arrivals.size:
        return arrivals
    walk = np.concatenate([[0.0], np.cumsum(work[:-1] - np.diff(arrivals))])
    waits: Floats = walk - np.minimum.accumulate(walk)
    return waits
