"""Keep the replicas of an operator as busy as a target says, on the cheapest node type.

The rule of most autoscalers: replicas = ceil(present work / target). It knows neither the objective
nor the price of a restart, so take it as a template, not as a good policy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from weir_policies.kernels.explaining import explain_rule
from weir_policies.kernels.staying import Memoryless, find_unknown, hold, stay
from weir_policies.model.node_types import Deployment
from weir_policies.parameters import read_parameters, refuse_outside
from weir_policies.policy import Decision, Neighbourhood, Observation
from weir_policies.registry import Registered, Values


@dataclass(frozen=True)
class Parameters:
    """Settings of `target-utilisation`."""

    target: float = 0.7
    """How busy each replica should be, in (0, 1]."""

    def __post_init__(self) -> None:
        refuse_outside("target", self.target, low=0, high=1, low_allowed=False)


class TargetUtilisation(Memoryless):
    """Learns nothing: the same observation always leads to the same decision."""

    def __init__(self, parameters: Parameters) -> None:
        self._parameters = parameters

    def decide(self, observation: Observation) -> Decision:
        """Choose as many replicas of the cheapest node type as the rate needs."""
        unknown = find_unknown(observation)
        if unknown is not None:
            return hold(observation, unknown)  # missing data: do nothing, and say why
        model = observation.model
        cheapest = min(
            range(len(model.node_types)),
            key=lambda t: model.node_types[t].price / model.node_types[t].speedup,
        )
        node_type = model.node_types[cheapest]
        work = observation.rate * model.service_mean / node_type.speedup  # replicas at 100 %
        wanted = max(1, math.ceil(work / self._parameters.target))
        limit = node_type.pool_limit
        wanted = min(wanted, model.max_replicas, wanted if limit is None else max(1, limit))
        counts = [0] * len(model.node_types)
        counts[cheapest] = wanted
        target = Deployment(tuple(counts))
        if target == observation.deployment:
            return stay(observation, f"Stays: {wanted} replicas match the target utilisation")
        return explain_rule(
            observation, target, f"the arriving records keep {work:.2f} replicas fully busy"
        )


def _build(_rng: np.random.Generator, values: Values) -> TargetUtilisation:
    return TargetUtilisation(read_parameters(Parameters, values, policy="target-utilisation"))


TARGET_UTILISATION = Registered(_build, Neighbourhood.ANY)
