"""The operators of an experiment: as they truly are, and as the policy believes them to be.

Source of the drawn errors: Russo Russo, Cardellini, Lo Presti, ACM TAAS 2023, section 6. The mean
service time is off by a relative error of drawn size and sign. A speedup is drawn evenly within its
error and between the true speedups of the next slower and the next faster type; types that are
equally fast do not limit one another. Prices are exact.

All operators have the experiment's node types, so that all deployments have one shape. A type that
an operator may not run on is `NOWHERE` for it, without room, and counts as no faster than the
slowest that it may run on: policies then decide as live ones, which do not know such a type.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from weir_policies.model import node_types
from weir_policies.policy import OperatorModel
from weir_simulator.experiment import Experiment, NodeType, Operator


def true_models(experiment: Experiment) -> tuple[OperatorModel, ...]:
    """Return the operators as they are, in the file's order."""
    types = true_node_types(experiment)
    return tuple(
        _model(experiment, operator, types, time_factor=1.0, scv=operator.scv)
        for operator in experiment.operators
    )


def believed_models(experiment: Experiment, rng: np.random.Generator) -> tuple[OperatorModel, ...]:
    """Return the operators as the policy knows them, in the file's order.

    Args:
        experiment: Says how the belief differs from the truth.
        rng: Gives the drawn errors; nothing is drawn where none are asked for.
    """
    believed = experiment.believed
    speedups = believed.speedups
    if believed.speedup_error is not None:
        speedups = draw_speedups(experiment.node_types, believed.speedup_error, rng)
    types = _node_types(experiment, speedups)
    return tuple(
        _model(
            experiment,
            operator,
            types,
            time_factor=_draw_time_factor(experiment, rng),
            scv=operator.scv if believed.scv is None else believed.scv,
            knows_keys=believed.keys,
        )
        for operator in experiment.operators
    )


def true_node_types(experiment: Experiment) -> tuple[node_types.NodeType, ...]:
    """Return the node types as they are, with the limits for all operators together."""
    return _node_types(experiment, {})


def draw_speedups(
    types: Sequence[NodeType], error: float, rng: np.random.Generator
) -> dict[str, float]:
    """Return estimated speedups by node type.

    Args:
        types: Their true speedups.
        error: Greatest relative error.
        rng: One number is drawn per type, the slowest first.
    """
    estimates: dict[str, float] = {}
    for each in sorted(types, key=lambda each: each.speedup):
        slower = (other.speedup for other in types if other.speedup < each.speedup)
        faster = (other.speedup for other in types if other.speedup > each.speedup)
        low = max([each.speedup * (1 - error), *slower])
        high = min([each.speedup * (1 + error), *faster])
        estimates[each.name] = low + float(rng.random()) * (high - low)
    return estimates


def _draw_time_factor(experiment: Experiment, rng: np.random.Generator) -> float:
    believed = experiment.believed
    if believed.service_error is None:
        return believed.service_time
    minimum, greatest = believed.service_error
    sign = 1.0 if rng.random() < 0.5 else -1.0
    return 1 + sign * (minimum + float(rng.random()) * (greatest - minimum))


def _node_types(
    experiment: Experiment, speedups: Mapping[str, float]
) -> tuple[node_types.NodeType, ...]:
    limits = {
        each.pool_name: each.pool_limit
        for each in experiment.node_types
        if each.pool_limit is not None
    }
    return tuple(
        node_types.NodeType(
            name=each.name,
            pool=each.pool_name,
            speedup=speedups.get(each.name, each.speedup),
            price=each.price,
            pool_limit=limits.get(each.pool_name),
        )
        for each in experiment.node_types
    )


def _seen_by(
    experiment: Experiment, operator: Operator, types: tuple[node_types.NodeType, ...]
) -> tuple[node_types.NodeType, ...]:
    """Return the node types as one operator has them, without room where it may not run."""
    usable = [operator.may_use(each) for each in experiment.node_types]
    slowest = min(each.speedup for each, may in zip(types, usable, strict=True) if may)
    return tuple(
        each if may else replace(each, pool=node_types.NOWHERE, speedup=slowest, pool_limit=0)
        for each, may in zip(types, usable, strict=True)
    )


def _model(
    experiment: Experiment,
    operator: Operator,
    types: tuple[node_types.NodeType, ...],
    *,
    time_factor: float,
    scv: float,
    knows_keys: bool = True,
) -> OperatorModel:
    return OperatorModel(
        name=operator.name,
        node_types=_seen_by(experiment, operator, types),
        max_replicas=operator.max_replicas,
        service_mean=time_factor / operator.service_rate,
        service_scv=scv,
        arrival_scv=operator.arrival_scv,
        keyed=operator.keyed,
        sharing=experiment.sharing if operator.sharing is None else operator.sharing,
        aggregation=(
            experiment.aggregation if operator.aggregation is None else operator.aggregation
        ),
        key_groups=operator.groups,
        fullest=operator.fullest if knows_keys else (),
        network_time=operator.network_time,
    )
