"""One evaluation: an experiment with a point's weights and budgets, simulated for some slots.

Results are stored by short parts of the trace, so that two points can be compared part by part:
most of the difference between parts is the traffic, which is the same for both. A forecast is what
the results may be over a limited time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from weir_policies import registry
from weir_policies.application_manager.search.protocol import TrialOutcome
from weir_policies.model.arrays import Floats
from weir_policies.policy import Tuning
from weir_simulator.experiment import Experiment
from weir_simulator.goals import find_late
from weir_simulator.policies import settings_of
from weir_simulator.result import new_outcome
from weir_simulator.run import run_compiled, simulate
from weir_simulator.state import AT_CHANGE, AT_PRICE, RESTART
from weir_simulator.traces import Trace
from weir_simulator.tuning.order import Forecast, apply_tuning

MAX_PARTS = 200
"""Parts that a simulation is cut in at most: enough to see how far neighbours hang together, few
enough to be sent from process to process."""
MONEY, VIOLATIONS, RECONFIGURATIONS = range(3)
"""Columns of `RunResult.parts`."""
RARE = 0.99
"""Part of all stretches that keep what is forecast."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class SimulationRun:
    """What to simulate."""

    point: Tuning
    slots: int
    seed: int
    rates: Trace | None = None
    """Records/s by slot; `None` is the experiment's trace."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class RunResult:
    """What came of a run."""

    slots: int
    parts: Floats
    """Money per hour, share of violations and of reconfigurations in each part, `(n, 3)`."""
    lengths: Floats
    """Slots of each part, `(n,)`: equal ones but for the last, which may be shorter."""

    @property
    def outcome(self) -> TrialOutcome:
        """Means over the slots."""
        means = self.lengths @ self.parts / self.slots
        return TrialOutcome(
            money=float(means[MONEY]),
            violations=float(means[VIOLATIONS]),
            reconfigurations=float(means[RECONFIGURATIONS]),
        )


def evaluate(experiment: Experiment, trace: Trace, run: SimulationRun) -> RunResult:
    """Simulate a point.

    Args:
        experiment: What to simulate, but for weights and budgets.
        trace: Its rates, at least as many as the run has slots.
        run: The point, and for how long.

    Raises:
        WeirPolicyError: The policy cannot take this experiment.
        SimulatorError: A trace cannot be read.
    """
    tuned = apply_tuning(experiment, run.point)
    rates = trace if run.rates is None else run.rates
    history = _simulate(tuned, rates[: run.slots], seed=run.seed)
    if history is None:  # a network, which reads the trace itself
        source = experiment.trace.model_copy(update={"slots": run.slots})
        shortened = tuned.model_copy(update={"trace": source})
        history = simulate(shortened, seed=run.seed, history=True).history
    return _measure(history, experiment.objective.response_time)


def depends_on_seed(experiment: Experiment) -> bool:
    """Return whether two simulations with different seeds may differ, whatever the point.

    Raises:
        WeirPolicyError: The policy cannot take this experiment.
    """
    policy = experiment.policy
    algorithm = registry.define(policy.name, settings_of(experiment, policy.parameters))
    draws = algorithm is None or algorithm.draws
    return draws or experiment.world.is_random or experiment.believed.is_random


def forecast(
    experiment: Experiment,
    *,
    seeds: Sequence[int],
    intervals: int,
    traffic: Sequence[Trace] = (),
) -> Forecast:
    """Return what a stretch of so many slots hardly ever exceeds.

    Args:
        experiment: With the weights and budgets in question.
        seeds: Of the runs that are looked at.
        intervals: Slots; a trace that is shorter is one stretch.
        traffic: Records/s by slot, one trace for each seed; empty is the experiment's for each.
    """
    late, money, restarts = [], [], []
    for place, seed in enumerate(seeds):
        history = _simulate(experiment, traffic[place], seed=seed) if traffic else None
        if history is None:
            history = simulate(experiment, seed=seed, history=True).history
        violated = find_late(history, experiment.objective.response_time)
        late.append(_means_of_stretches(violated.astype(np.float64), intervals))
        money.append(_means_of_stretches(history[:, AT_PRICE], intervals))
        restarted = history[:, AT_CHANGE] == RESTART
        restarts.append(_means_of_stretches(restarted.astype(np.float64), intervals))
    return Forecast(
        intervals=intervals,
        violations=float(np.quantile(np.concatenate(late), RARE)),
        money=float(np.quantile(np.concatenate(money), RARE)),
        restarts=float(np.quantile(np.concatenate(restarts), RARE)),
    )


def _simulate(experiment: Experiment, rates: Trace, *, seed: int) -> Floats | None:
    """Return what happened in every slot, `(slots, 6)`; `None` where the policy is a network."""
    policy = experiment.policy
    algorithm = registry.define(policy.name, settings_of(experiment, policy.parameters))
    if algorithm is None:
        return None
    outcome = new_outcome(rates.size, len(experiment.node_types), history=True)
    rates = np.ascontiguousarray(rates)
    run_compiled(experiment, rates, policy.name, algorithm, outcome, seed=seed)
    return outcome.history


def _measure(history: Floats, bound: float) -> RunResult:
    """Return the results of a history, `(slots, 6)`; `bound` is the objective, s."""
    columns = np.stack(
        [history[:, AT_PRICE], find_late(history, bound), history[:, AT_CHANGE] == RESTART],
        axis=1,
    )
    slots = len(columns)
    begins = np.arange(0, slots, -(-slots // MAX_PARTS))
    lengths = np.diff(begins, append=slots).astype(np.float64)
    return RunResult(
        slots=slots,
        parts=np.add.reduceat(columns, begins, axis=0) / lengths[:, np.newaxis],
        lengths=lengths,
    )


def _means_of_stretches(values: Floats, length: int) -> Floats:
    """Return the mean of every stretch of so many neighbours."""
    length = min(length, values.size)
    sums = np.concatenate(([0.0], np.cumsum(values)))
    return (sums[length:] - sums[:-length]) / length
