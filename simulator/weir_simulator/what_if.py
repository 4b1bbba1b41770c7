"""What if: an experiment with other prices, other traffic, other pools, another bound.

Each function returns a new valid experiment, or refuses with a sentence. What the file says about a
removed node type (initial replicas, changes on the way, beliefs) is removed with it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from pydantic import ValidationError

from weir_simulator.errors import ExperimentError
from weir_simulator.experiment import (
    Change,
    Experiment,
    NodeType,
    Operator,
    initial_counts,
)
from weir_simulator.experiment_files import describe_all


def with_price(experiment: Experiment, pool: str, factor: float) -> Experiment:
    """Return the experiment with every price of a pool multiplied.

    Raises:
        ExperimentError: There is no such pool, or nothing would have a price.
    """
    _require(experiment, pool)
    types = tuple(
        each.model_copy(update={"price": each.price * factor}) if each.pool_name == pool else each
        for each in experiment.node_types
    )
    return _rebuild(experiment, {"node_types": types}, f"price {pool}={factor:g}")


def with_traffic(experiment: Experiment, factor: float) -> Experiment:
    """Return the experiment with all its arrival rates multiplied.

    What offline policies train on stays as it is: it is the past.

    Raises:
        ExperimentError: The factor is no positive number.
    """
    if not 0 < factor < math.inf:
        raise ExperimentError(
            ((f"traffic: expected a factor above 0, got {factor:g}; write, for example, 1.5"),)
        )
    changes = tuple(
        each if each.rate is None else each.model_copy(update={"rate": each.rate * factor})
        for each in experiment.world.changes
    )
    if not any(each.slot == 0 and each.rate is not None for each in changes):
        changes = (Change(slot=0, rate=factor), *changes)
    updates: dict[str, object] = {
        "world": experiment.world.model_copy(update={"changes": changes}),
    }
    if experiment.rate.max is not None:  # the levels shall cover the same part of the traffic
        updates["rate"] = experiment.rate.model_copy(update={"max": experiment.rate.max * factor})
    return _rebuild(experiment, updates, f"traffic {factor:g}")


def with_pool(experiment: Experiment, pool: str, *, speedup: float, price: float) -> Experiment:
    """Return the experiment with one more pool, of one node type, that all operators may use.

    So may those that name their pools: else none of theirs could move to the new one.

    Args:
        experiment: Where to add it.
        pool: Its name, and that of its node type.
        speedup: Work done per second relative to the speed that `serviceRate` is given for.
        price: Currency per replica and hour.

    Raises:
        ExperimentError: The pool is there already, or a number is out of its range.
    """
    if pool in {each.pool_name for each in experiment.node_types}:
        raise ExperimentError(
            (f"pool {pool}: expected a new name, got that of a pool; name it differently",)
        )
    try:
        added = NodeType(name=pool, speedup=speedup, price=price)
    except ValidationError as error:
        raise _refusal(error, f"pool {pool}") from error
    operators = tuple(
        each if each.pools is None else each.model_copy(update={"pools": (*each.pools, pool)})
        for each in experiment.operators
    )
    updates = {"operators": operators, "node_types": (*experiment.node_types, added)}
    return _rebuild(experiment, updates, f"pool {pool}")


def without_pool(experiment: Experiment, pool: str) -> Experiment:
    """Return the experiment without a pool.

    Raises:
        ExperimentError: There is no such pool, or no other for an operator.
    """
    _require(experiment, pool)
    types = tuple(each for each in experiment.node_types if each.pool_name != pool)
    if not types:
        raise ExperimentError(
            ((f"without {pool}: expected at least one other pool, got none; add one first"),)
        )
    for each in experiment.operators:
        if each.pools == (pool,):
            raise ExperimentError(
                (
                    f"without {pool}: expected another pool for operator {each.name}, got none; "
                    "add one to its pools first",
                )
            )
    left = {each.name for each in types}
    changes = tuple(
        each.model_copy(
            update={"prices": _keep(each.prices, left), "speedups": _keep(each.speedups, left)}
        )
        for each in experiment.world.changes
    )
    believed = experiment.believed
    begun = {name: count for name, count in (experiment.initial or {}).items() if name in left}
    every = initial_counts(experiment.operators, types, begun)
    updates: dict[str, object] = {
        "operators": tuple(_leave(each, pool) for each in experiment.operators),
        "node_types": types,
        # Where one is left no replicas to begin with, all begin with one of their first type.
        "initial": begun if all(any(counts.values()) for counts in every) else None,
        "world": experiment.world.model_copy(update={"changes": changes}),
        "believed": believed.model_copy(update={"speedups": _keep(believed.speedups, left)}),
    }
    return _rebuild(experiment, updates, f"without {pool}")


def with_bound(experiment: Experiment, bound: float) -> Experiment:
    """Return the experiment with another response-time bound, s.

    Budgets that the file grants grow or shrink with it: they are parts of the bound.
    """
    scale = bound / experiment.objective.response_time
    operators = tuple(
        each if each.budget is None else each.model_copy(update={"budget": each.budget * scale})
        for each in experiment.operators
    )
    objective = experiment.objective.model_copy(update={"response_time": bound})
    return experiment.model_copy(update={"objective": objective, "operators": operators})


def with_emphasis(experiment: Experiment, factor: float) -> Experiment:
    """Return the experiment with the weight of violations multiplied."""
    weights = experiment.weights
    heavier = replace(weights, violation=weights.violation * factor)
    return experiment.model_copy(update={"weights": heavier})


def _leave(operator: Operator, pool: str) -> Operator:
    if operator.pools is None:
        return operator
    left = tuple(each for each in operator.pools if each != pool)
    return operator.model_copy(update={"pools": left})


def _keep(named: Mapping[str, object], left: set[str]) -> dict[str, object]:
    return {name: value for name, value in named.items() if name in left}


def _require(experiment: Experiment, pool: str) -> None:
    known = list(dict.fromkeys(each.pool_name for each in experiment.node_types))
    if pool not in known:
        raise ExperimentError(
            ((f"pool: expected one of {', '.join(known)}, got {pool!r}; choose one of them"),)
        )


def _rebuild(experiment: Experiment, updates: Mapping[str, object], what: str) -> Experiment:
    """Return the changed experiment, judged again as a whole."""
    try:
        changed = experiment.model_copy(update=updates).model_dump()
        return Experiment.model_validate(changed, strict=False)
    except ValidationError as error:
        raise _refusal(error, what) from error


def _refusal(error: ValidationError, what: str) -> ExperimentError:
    return ExperimentError(tuple(f"{what}: {sentence}" for _, sentence in describe_all(error)))
