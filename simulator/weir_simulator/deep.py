"""The batched loop: one deep policy scales one operator in many runs at once.

The simulated world is that of `world` in its steady state. Of what goes beyond the papers, it
supports only changes of prices, speeds and rates; the order within a slot is the same. Runs may
differ in everything but their shape: node types, `maxReplicas`, rate levels, length of the trace.
All runs process a slot together, because the network's functions work on all in one call.

Source: Russo Russo, Cardellini, Lo Presti, ACM TAAS 2023, section 6.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from weir_policies import registry
from weir_policies.kernels.compiled import compiled
from weir_policies.kernels.prediction import predict_one, price_of
from weir_policies.kernels.view import View
from weir_policies.model.arrays import Floats
from weir_simulator.arrivals import arrival_rates
from weir_simulator.compile import Scene, compile_experiment
from weir_simulator.errors import SimulatorError
from weir_simulator.experiment import Experiment, World
from weir_simulator.policies import policy_generator, settings_of
from weir_simulator.result import Result, new_outcome, summarise
from weir_simulator.state import (
    AT_CHANGE,
    AT_PRICE,
    AT_RATE,
    AT_REPLICAS,
    AT_TIME,
    COST,
    HISTORY,
    NOTHING,
    PRICE,
    RATE_FACTOR,
    RECONFIGURATIONS,
    RESTART,
    SPENT,
    TOTALS,
    VIOLATIONS,
)

Run = tuple[Experiment, int]
"""An experiment and the seed of the run."""


class _Worlds(NamedTuple):
    """The worlds of `r` runs, one per row."""

    truth: View
    """The operators as they are."""
    believed: View
    """As the policy believes them to be; deployments and prices are the same arrays."""
    totals: Floats
    """Sums over slots, `(r, TOTALS)`."""
    replicas: Floats
    """Sums of replicas after the decision, `(r, t)`."""


def can_batch(experiment: Experiment) -> bool:
    """Return whether the batched loop knows the experiment's world."""
    plain = experiment.world.model_copy(update={"changes": ()}) == World()
    limited = any(node_type.pool_limit is not None for node_type in experiment.node_types)
    granted = experiment.arbitration.grants_all
    limited = limited or bool(experiment.windows) or experiment.operators[0].min_replicas > 1
    limited = limited or experiment.objective.max_cost_per_hour is not None
    simple = not limited and experiment.objective.is_plain
    return plain and granted and simple and len(experiment.operators) == 1


def simulate_deep(
    runs: Sequence[Run],
    *,
    policy: str,
    parameters: Mapping[str, Any],
    history: bool = False,
) -> list[Result]:
    """Scale every run's operator with one deep policy, and return the results.

    Args:
        runs: Experiments of one shape; `can_batch` says which can be run.
        policy: `dqn`, `dqn-pds` or `dqn-pds-plus`.
        parameters: The policy's, by name; the rate levels are the first experiment's.
        history: Whether to keep what happened in every slot.

    Returns:
        One result per run, in order. `seconds` is the wall time of all together.

    Raises:
        SimulatorError: The policy has no network, or the runs do not fit into one batch.
        MissingExtraError: torch is not installed.
        ParameterError: A parameter is unknown, of another kind, or out of its range.
        TraceError: A trace cannot be read.
    """
    algorithm = registry.define_deep(policy, settings_of(runs[0][0], parameters))
    if algorithm is None:
        raise SimulatorError(f"Expected a policy with a network, got {policy!r}")
    _refuse_what_differs([experiment for experiment, _ in runs])
    compilations = [
        compile_experiment(experiment, seed=seed, policy=policy, slots=0)
        for experiment, seed in runs
    ]
    worlds = _stack(compilations)
    rates = _gather_rates(runs, compilations)  # slots x r
    changes = _by_slot(compilations)
    outcome = new_outcome(rates.shape[0], worlds.replicas.shape[1], history=False)
    points = {int(slot): column for column, slot in enumerate(outcome.curve_slots)}
    curves = np.zeros((len(runs), len(points)))
    histories = np.zeros((len(runs), rates.shape[0] if history else 0, HISTORY))
    began = time.perf_counter()
    memory = algorithm.prepare(worlds.believed, [policy_generator(seed, 0) for _, seed in runs])
    for slot in range(rates.shape[0]):
        for run, what, place, value in changes.get(slot, ()):
            changed = worlds.believed.price if what == PRICE else worlds.truth.speedup
            changed[run, place] = value
        _observe(worlds, rates, slot)
        if slot > 0:
            algorithm.learn(worlds.believed, memory)
        algorithm.decide(worlds.believed, memory)
        _account(worlds)
        if history:
            _note(worlds, rates[slot], histories[:, slot])
        if slot + 1 in points:
            curves[:, points[slot + 1]] = worlds.totals[:, COST] / (slot + 1)
    seconds = time.perf_counter() - began
    outcomes = [
        outcome._replace(totals=totals, replicas=replicas, curve=curve, history=rows)
        for totals, replicas, curve, rows in zip(
            worlds.totals, worlds.replicas, curves, histories, strict=True
        )
    ]
    return [
        summarise(experiment, policy, seed, rates.shape[0], each, seconds)
        for (experiment, seed), each in zip(runs, outcomes, strict=True)
    ]


def _note(worlds: _Worlds, rates: Floats, rows: Floats) -> None:
    """Keep what happened in a slot that is over, by run; rates and rows are `(r,)`, `(r, 6)`."""
    view = worlds.believed
    rows[:, AT_RATE], rows[:, AT_TIME] = rates, view.seen["response_time"]
    # What is paid is what ran in the slot; the deployments are those of the next one already.
    rows[:, AT_PRICE] = (view.counts_before * view.price).sum(axis=1)
    rows[:, AT_CHANGE] = np.where(view.cost["reconfiguration"] > 0, RESTART, NOTHING)
    rows[:, AT_REPLICAS] = view.counts.sum(axis=1)


def _refuse_what_differs(experiments: Sequence[Experiment]) -> None:
    """Refuse experiments that the batched loop cannot run, or not together."""
    if not all(can_batch(experiment) for experiment in experiments):
        raise SimulatorError(
            "Expected one operator in a steady state whose mean response time is bounded, without "
            "pool limits, delays or noise: the batched loop knows no other world, so run the "
            "experiment by itself"
        )
    shapes = {
        (
            len(experiment.node_types),
            experiment.operators[0].max_replicas,
            experiment.rate.levels,
            experiment.rate.max,
        )
        for experiment in experiments
    }
    if len(shapes) != 1:
        raise SimulatorError(
            "Expected runs with equal numbers of node types, maxReplicas and rate levels, got "
            f"{sorted(map(str, shapes))}; run them in batches of their own"
        )


def _join(views: Sequence[View]) -> View:
    """Return views of one operator each as the rows of one."""
    rows = {name: np.concatenate([getattr(each, name) for each in views]) for name in View._fields}
    return views[0]._replace(**rows)


def _stack(compilations: Sequence[Scene]) -> _Worlds:
    """Return the worlds of several compilations, each of one operator, as rows of one."""
    truth = _join([each.truth for each in compilations])
    believed = _join([each.view for each in compilations])
    return _Worlds(
        truth=truth._replace(counts=believed.counts, price=believed.price),
        believed=believed,
        totals=np.zeros((len(compilations), TOTALS)),
        replicas=np.zeros(believed.counts.shape),
    )


def _gather_rates(runs: Sequence[Run], compilations: Sequence[Scene]) -> Floats:
    """Return the rate of every run in every slot, records/s, `(slots, r)`."""
    columns = []
    for (experiment, _), compilation in zip(runs, compilations, strict=True):
        given = arrival_rates(experiment.trace)
        rates = given.copy()
        for slot, what, factor in zip(
            compilation.changes.slot,
            compilation.changes.what,
            compilation.changes.factor,
            strict=True,
        ):
            if what == RATE_FACTOR:
                rates[slot:] = given[slot:] * factor
        columns.append(rates)
    lengths = sorted({rates.size for rates in columns})
    if len(lengths) != 1:
        raise SimulatorError(
            f"Expected traces of equal length, got {lengths} slots; give `slots` with each trace"
        )
    return np.stack(columns, axis=1)


def _by_slot(compilations: Sequence[Scene]) -> dict[int, list[tuple[int, int, int, float]]]:
    """Return by slot which run's price or speed changes: run, what, node type, new value."""
    by_slot: dict[int, list[tuple[int, int, int, float]]] = {}
    for run, compilation in enumerate(compilations):
        for slot, what, place, value in zip(*compilation.changes, strict=True):
            if what != RATE_FACTOR:
                change = (run, int(what), int(place), float(value))
                by_slot.setdefault(int(slot), []).append(change)
    return by_slot


@compiled
def _observe(worlds: _Worlds, rates: Floats, slot: int) -> None:
    """Apply the slot's rate in every run, and fill the policy's view."""
    truth, view = worlds.truth, worlds.believed
    for run in range(view.counts.shape[0]):
        seen = view.seen[run]
        view.before[run] = seen
        seen.rate = rates[slot, run]
        seen.response_time, _ = predict_one(run, truth, truth.counts[run], rates[slot, run])
        view.cost[run].violation = 1.0 if seen.response_time > seen.budget else 0.0
        price = price_of(run, view, view.counts[run])
        view.cost[run].resources = price / view.model[run].top_cost
        worlds.totals[run, SPENT] += price
        worlds.totals[run, VIOLATIONS] += view.cost[run].violation


@compiled
def _account(worlds: _Worlds) -> None:
    """Add up the slot's cost in every run, and apply the decisions."""
    view = worlds.believed
    for run in range(view.counts.shape[0]):
        changed = 0.0
        for place in range(view.counts.shape[1]):
            if view.target[run, place] != view.counts[run, place]:
                changed = 1.0
            view.counts_before[run, place] = view.counts[run, place]
            view.counts[run, place] = view.target[run, place]
            worlds.replicas[run, place] += view.target[run, place]
        view.cost[run].reconfiguration = changed
        worlds.totals[run, RECONFIGURATIONS] += changed
        weights = view.model[run]
        worlds.totals[run, COST] += (
            weights.weight_violation * view.cost[run].violation
            + weights.weight_resources * view.cost[run].resources
            + weights.weight_reconfiguration * changed
        )
