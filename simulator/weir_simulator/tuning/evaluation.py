"""One evaluation: an experiment with a point's weights and budgets, simulated for some slots.

What comes of it is kept by stretches of the trace, so that two points can be compared stretch by
stretch: most of what differs between stretches is the traffic, which both met alike.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from weir_policies import registry
from weir_policies.application_manager.search.promise import Outcome
from weir_policies.model.arrays import Floats
from weir_simulator.experiment import Experiment
from weir_simulator.run import new_outcome, run_compiled, settings_of, simulate
from weir_simulator.state import AT_CHANGE, AT_PRICE, AT_TIME, RESTART
from weir_simulator.traces import Trace
from weir_simulator.tuning.order import Point, apply_point

STRETCHES = 20
"""Parts that a simulation is cut in: enough for a standard error, each long enough to be nearly
independent of the next (2,500 slots of a simulation of 50,000)."""
MONEY, VIOLATIONS, RECONFIGURATIONS = range(3)
"""Columns of `Measured.stretches`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """What to simulate."""

    point: Point
    slots: int
    seed: int


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Measured:
    """What came of a run."""

    slots: int
    stretches: Floats
    """Money per hour, share of violations and of reconfigurations in each stretch, `(b, 3)`."""
    lengths: Floats
    """Slots of each stretch, `(b,)`."""

    @property
    def outcome(self) -> Outcome:
        """Means over the slots."""
        means = self.lengths @ self.stretches / self.slots
        return Outcome(
            money=float(means[MONEY]),
            violations=float(means[VIOLATIONS]),
            reconfigurations=float(means[RECONFIGURATIONS]),
        )


def evaluate(experiment: Experiment, trace: Trace, run: Run) -> Measured:
    """Simulate a point.

    Args:
        experiment: What to simulate, but for weights and budgets.
        trace: Its rates, at least as many as the run has slots.
        run: The point, and for how long.

    Raises:
        WeirPolicyError: The policy cannot take this experiment.
        SimulatorError: A trace cannot be read.
    """
    tuned = apply_point(experiment, run.point)
    policy = experiment.policy.name
    algorithm = registry.define(policy, settings_of(tuned, experiment.policy.parameters))
    if algorithm is None:
        return _evaluate_deep(tuned, run)
    outcome = new_outcome(run.slots, len(experiment.node_types), history=True)
    rates = np.ascontiguousarray(trace[: run.slots])
    run_compiled(tuned, rates, policy, algorithm, outcome, seed=run.seed)
    history = outcome.history
    columns = np.stack(
        [
            history[:, AT_PRICE],
            history[:, AT_TIME] > experiment.objective.response_time,
            history[:, AT_CHANGE] == RESTART,
        ],
        axis=1,
    )
    parts = np.array_split(columns, min(STRETCHES, run.slots))
    return Measured(
        slots=run.slots,
        stretches=np.stack([part.mean(axis=0) for part in parts]),
        lengths=np.array([float(len(part)) for part in parts]),
    )


def _evaluate_deep(experiment: Experiment, run: Run) -> Measured:
    """Simulate a policy with a network, whose loop keeps sums alone: one stretch."""
    trace = experiment.trace.model_copy(update={"slots": run.slots})
    result = simulate(experiment.model_copy(update={"trace": trace}), seed=run.seed)
    shares = [result.resources, result.violations / 100, result.reconfigurations / 100]
    return Measured(
        slots=run.slots, stretches=np.array([shares]), lengths=np.array([float(run.slots)])
    )
