"""What AuTraScale+ makes of observations: it counts replicas of one kind, and a chain of operators.

Source: Zhang et al., IEEE TPDS 2024, Eq. 2 for the true rate. Departures:
1. The paper knows no node types. The mix stays as it is, as with `ds2`; a true rate is the mean
   over the present mix.
2. Latencies and budgets are summed over the operators, which is exact for a chain; where the
   dataflow forks, both sums count both branches.
3. What is not run is told by the operators' queueing models instead of by runs off line.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from weir_policies.application_manager.autrascale.values import Measurement, Parallelism
from weir_policies.model.deployments import room_for
from weir_policies.model.node_types import Deployment
from weir_policies.model.queueing import predict_means
from weir_policies.promise import Observation, OperatorModel


def measure(observations: Sequence[Observation]) -> Measurement:
    """Return what an interval says of the application.

    Args:
        observations: Of the operators in the order of the dataflow; the first one's rate is the
            application's, and is above zero.
    """
    rate = observations[0].rate
    fed = [seen for seen in observations if seen.rate > 0]
    return Measurement(
        parallelism=tuple(seen.deployment.size for seen in observations),
        rate=rate,
        throughput=rate * min(seen.processed / seen.rate for seen in fed),
        demands=tuple(seen.rate for seen in observations),
        true_rates=tuple(measure_true_rate(seen) for seen in observations),
        latency=sum(seen.response_time for seen in observations),
        lag=sum(seen.backlog * rate / seen.rate for seen in fed),
    )


def measure_true_rate(observation: Observation) -> float:
    """Return records/s of a replica that is always busy (Eq. 2); 0 where nothing was processed."""
    busy = sum(observation.utilisation)
    if busy <= 0 or observation.processed * observation.interval < 1:
        return 0.0
    # Busy for more than all of the time is what a model says of all that arrives, done or not.
    unbounded = max(observation.utilisation) > 1
    return (observation.rate if unbounded else observation.processed) / busy


def find_most(observation: Observation) -> int:
    """Return the replicas that the operator may have, with the room that there is."""
    return resize_mix(observation, observation.model.max_replicas).size


def resize_mix(observation: Observation, size: int) -> Deployment:
    """Return the present mix with so many replicas, or as many as there is room for.

    They come and go on the node type that has the most, the cheapest among equals; what finds no
    room there goes to the next.
    """
    model, counts = observation.model, list(observation.deployment.counts)
    order = sorted(
        range(len(counts)), key=lambda place: (-counts[place], model.node_types[place].price, place)
    )
    for place in order:
        counts[place] -= min(counts[place], max(sum(counts) - size, 0))
    for place in order:
        room = room_for(
            place,
            Deployment(tuple(counts)),
            k_max=model.max_replicas,
            node_types=model.node_types,
        )
        counts[place] += max(min(room, size - sum(counts)), 0)
    return Deployment(tuple(counts))


@dataclass(frozen=True)
class ModelProfile:
    """What the operators' models say of parallelisms that do not run."""

    observations: Sequence[Observation]
    measured: Measurement

    def latency(self, parallelism: Parallelism) -> float:
        """Return the sum of the predicted response times, seconds; `inf` where one is overrun."""
        total = 0.0
        for place, (seen, count) in enumerate(zip(self.observations, parallelism, strict=True)):
            deployments = np.array([resize_mix(seen, count).counts])
            mean, _ = predict_means(self._complete(place), deployments, seen.rate)
            total += float(mean[0])
        return total

    def throughput(self, parallelism: Parallelism) -> float:
        """Return the records/s that the slowest operator lets through, by the true rates."""
        measured = self.measured
        return min(
            (
                count * true_rate * measured.rate / demand
                for count, true_rate, demand in zip(
                    parallelism, measured.true_rates, measured.demands, strict=True
                )
                if true_rate > 0 and demand > 0
            ),
            default=measured.throughput,
        )

    def _complete(self, place: int) -> OperatorModel:
        """Return an operator's model, with the true rate in the place of an unknown service time.

        An operator that did nothing is taken to need no time.
        """
        seen, true_rate = self.observations[place], self.measured.true_rates[place]
        model = seen.model
        if math.isnan(model.service_scv):
            model = replace(model, service_scv=1.0)
        if not math.isnan(model.service_mean):
            return model
        pairs = zip(seen.deployment, model.node_types, strict=True)
        speed = sum(count * kind.speedup for count, kind in pairs) / seen.deployment.size
        return replace(model, service_mean=speed / true_rate if true_rate > 0 else 0.0)
