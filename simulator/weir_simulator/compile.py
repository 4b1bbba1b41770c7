"""Compiles an experiment into the arrays of the compiled loop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from weir_policies.kernels.percentiles import normal_quantile
from weir_policies.kernels.policy import fill_model
from weir_policies.kernels.view import View, empty_view
from weir_policies.policy import OperatorModel
from weir_simulator.beliefs import believed_models, true_models
from weir_simulator.bounds import find_bounds
from weir_simulator.dynamics import find_speeds, first_replicas
from weir_simulator.experiment import Bound, Experiment
from weir_simulator.state import (
    AT_BOUND,
    AT_END,
    AT_NORMAL,
    AT_QUANTILE,
    GOAL,
    PRICE,
    RATE_FACTOR,
    REACHED,
    SPEEDUP,
    Bounds,
    Changes,
    Goals,
    Rules,
    WorldState,
    new_state,
)

ROOM = 2**31
"""Room of a pool without a limit."""


@dataclass(frozen=True, slots=True)
class Scene:
    """A world before its first slot."""

    rules: Rules
    truth: View
    """The operators as they are."""
    view: View
    """The operators as the policy believes them to be."""
    believed: Sequence[OperatorModel]
    """The same, in the order of the operators."""
    state: WorldState
    changes: Changes
    goals: Goals
    bounds: Bounds


def compile_experiment(experiment: Experiment, *, seed: int, policy: str, slots: int) -> Scene:
    """Return the world of an experiment before its first slot.

    Args:
        experiment: What to set up.
        seed: Decides everything that happens by chance.
        policy: Name of the one that scales: whether it moves one replica at most, and how the bound
            is shared, depends on it.
        slots: How long it runs.
    """
    models = true_models(experiment)
    believed = believed_models(experiment, np.random.default_rng([seed, 0]))
    rules = make_rules(experiment, seed=seed)
    budgets = experiment.share_bound(policy, believed)
    truth = _create_view(experiment, models, budgets, policy)
    # What a policy knows for certain is the same array: what happens to one is seen in the other.
    view = _create_view(experiment, believed, budgets, policy)._replace(
        counts=truth.counts, joined=truth.joined, price=truth.price
    )
    state = _begin(experiment)
    for o, initial in enumerate(experiment.initial_deployments):
        truth.counts[o] = initial.counts
        first_replicas(o, rules, truth, state)
        if rules.spread > 0:
            find_speeds(o, truth, state)
    view.counts_before[:] = truth.counts
    changes, goals = _list_changes(experiment), _list_goals(experiment)
    # A controller shares a limit on cost by the service times that it measures in the first
    # interval; of speedups it measures only those of the node types that it uses.
    measured = [
        replace(belief, service_mean=model.service_mean)
        for belief, model in zip(believed, models, strict=True)
    ]
    bounds = find_bounds(experiment, slots, measured, budgets)
    return Scene(rules, truth, view, believed, state, changes, goals, bounds)


def make_rules(experiment: Experiment, *, seed: int) -> Rules:
    """Return what holds for the whole run."""
    world, weights = experiment.world, experiment.weights
    return Rules(
        slot=experiment.slot,
        bound=experiment.objective.response_time,
        ends=0 if experiment.objective.is_plain else len(experiment.dataflow.sinks),
        weight_violation=weights.violation,
        weight_resources=weights.resources,
        weight_reconfiguration=weights.reconfiguration,
        top_cost=experiment.dearest * sum(each.max_replicas for each in experiment.operators),
        queues=world.carries_backlog or world.loss_probability > 0,
        downtime=world.downtime,
        provisioning=int(np.ceil(world.provisioning_delay / experiment.slot)),
        resizes=world.resizes,
        spread=world.replica_spread,
        loss=world.loss_probability,
        noise=world.noise,
        missing=world.missing,
        pool_limits=any(each.pool_limit is not None for each in experiment.node_types),
        seed=seed,
    )


def _create_view(
    experiment: Experiment,
    models: Sequence[OperatorModel],
    budgets: Mapping[str, float],
    policy: str,
) -> View:
    """Return a view of the operators at rest, without deployments."""
    names = [model.name for model in models]
    dataflow = experiment.dataflow
    edges = sorted(dataflow.edges, key=lambda edge: dataflow.order.index(edge.source))
    view = empty_view(
        operators=len(models),
        node_types=len(experiment.node_types),
        max_replicas=max(model.max_replicas for model in models),
        edges=len(edges),
    )
    for row, edge in enumerate(edges):
        view.edges[row] = names.index(edge.source), names.index(edge.target)
        view.selectivity[row] = edge.selectivity
    weights, one_step = experiment.weights, experiment.moves_by_one(policy)
    maximum = experiment.most_replicas(policy)
    for o, model in enumerate(models):
        fill_model(view, o, model)
        view.model[o].one_step = one_step
        view.seen[o].budget = budgets[model.name]
        view.seen[o].interval = experiment.slot
        view.model[o].top_cost = maximum[model.name] * experiment.dearest
        view.model[o].weight_violation = weights.violation
        view.model[o].weight_resources = weights.resources
        view.model[o].weight_reconfiguration = weights.reconfiguration
    return view


def _begin(experiment: Experiment) -> WorldState:
    pools = list(dict.fromkeys(each.pool_name for each in experiment.node_types))
    state = new_state(
        operators=len(experiment.operators),
        node_types=len(experiment.node_types),
        max_replicas=max(each.max_replicas for each in experiment.operators),
        pools=len(pools),
    )
    state.pool_room[:] = ROOM
    for place, node_type in enumerate(experiment.node_types):
        state.nominal[place] = node_type.speedup
        state.pool_of[place] = pools.index(node_type.pool_name)
        if node_type.pool_limit is not None:
            state.pool_room[:, state.pool_of[place]] = node_type.pool_limit
    fed = {edge.target for edge in experiment.dataflow.edges}
    for o, operator in enumerate(experiment.operators):
        state.source[o] = operator.name not in fed
        for node_type in experiment.node_types:
            if not operator.may_use(node_type):
                state.pool_room[o, pools.index(node_type.pool_name)] = 0
    return state


def _list_goals(experiment: Experiment) -> Goals:
    """Return the bounds at single operators: the objective's at each sink, then the others."""
    objective, rows = experiment.objective, [each.name for each in experiment.operators]
    bounded: list[tuple[str, Bound]] = []
    if not objective.is_plain:
        bounded += [(sink, objective) for sink in experiment.dataflow.sinks]
        bounded += [(path.sink, path) for path in objective.paths]
    bounds = np.zeros((len(bounded), GOAL))
    for row, (end, bound) in enumerate(bounded):
        bounds[row, AT_END], bounds[row, AT_BOUND] = rows.index(end), bound.response_time
        quantile = bound.statistic.quantile
        if quantile is not None:
            bounds[row, AT_QUANTILE] = quantile
            bounds[row, AT_NORMAL] = normal_quantile(quantile)
    operators = len(rows) if bounded else 0
    return Goals(
        bounds=bounds, variance=np.zeros(operators), reached=np.zeros((operators, REACHED))
    )


def _list_changes(experiment: Experiment) -> Changes:
    """Return what changes on the way, as values instead of factors, in the order of slots."""
    places = {each.name: place for place, each in enumerate(experiment.node_types)}
    listed: list[tuple[int, int, int, float]] = []
    for change in sorted(experiment.world.changes, key=lambda change: change.slot):
        if change.rate is not None:
            listed.append((change.slot, RATE_FACTOR, -1, change.rate))
        for name, factor in change.prices.items():
            price = experiment.node_types[places[name]].price
            listed.append((change.slot, PRICE, places[name], price * factor))
        for name, factor in change.speedups.items():
            speedup = experiment.node_types[places[name]].speedup
            listed.append((change.slot, SPEEDUP, places[name], speedup * factor))
    whole = np.array([each[:3] for each in listed], dtype=np.int64).reshape(-1, 3).T.copy()
    values = np.array([each[3] for each in listed], dtype=np.float64)
    return Changes(whole[0], whole[1], whole[2], values)
