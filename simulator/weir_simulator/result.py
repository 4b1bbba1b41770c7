"""What comes of a run: an outcome that its loop fills, and the result for people."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from weir_policies.model.arrays import Counts, Floats
from weir_simulator.experiment import Experiment
from weir_simulator.state import (
    ASKED,
    COST,
    GRANTED,
    HISTORY,
    LOSSES,
    RECONFIGURATIONS,
    RESIZES,
    SPENT,
    TOTALS,
    VIOLATIONS,
    SimulationOutcome,
)

CURVE_POINTS = 200


@dataclass(frozen=True, kw_only=True, slots=True)
class Result:
    """What came of a run."""

    policy: str
    seed: int
    average_cost: float
    """Mean over slots of the weighted cost."""
    violations: float
    """Percent of slots."""
    reconfigurations: float
    """Percent of slots in which a restart was decided."""
    resizes: float
    """Percent of slots in which only sizes were changed, in place."""
    losses: int
    """Replicas lost."""
    asked: int
    """Restarts of an operator that were asked for, where there is arbitration; else 0."""
    granted: int
    """Those of them that were granted."""
    resources: float
    """Mean price of what is paid, per hour."""
    replicas: Mapping[str, float]
    """Mean replicas per node type."""
    slots: int
    operators: int
    seconds: float
    """Wall time of the loop."""
    curve_slots: Counts
    """Slots after which the mean cost so far is noted, evenly spaced on a log scale, `(c,)`."""
    curve: Floats
    """Mean cost up to those slots, `(c,)`."""
    history: Floats
    """What happened in every slot, `(slots, 6)`, columns as in `state`; empty unless asked for."""

    @property
    def slots_per_second(self) -> float:
        """Slots simulated per second, all operators of a slot together."""
        return self.slots / self.seconds


def new_outcome(slots: int, node_types: int, *, history: bool) -> SimulationOutcome:
    """Return an outcome to be filled by a run of so many slots."""
    points = np.unique(np.geomspace(1, slots, min(CURVE_POINTS, slots)).round().astype(np.int64))
    return SimulationOutcome(
        totals=np.zeros(TOTALS),
        replicas=np.zeros(node_types),
        curve_slots=points,
        curve=np.zeros(points.size),
        history=np.zeros((slots if history else 0, HISTORY)),
    )


def summarise(
    experiment: Experiment,
    policy: str,
    seed: int,
    slots: int,
    outcome: SimulationOutcome,
    seconds: float,
) -> Result:
    """Return what an outcome's sums say of a run of so many slots."""
    totals = outcome.totals
    return Result(
        policy=policy,
        seed=seed,
        average_cost=float(totals[COST] / slots),
        violations=float(100 * totals[VIOLATIONS] / slots),
        reconfigurations=float(100 * totals[RECONFIGURATIONS] / slots),
        resizes=float(100 * totals[RESIZES] / slots),
        losses=int(totals[LOSSES]),
        asked=int(totals[ASKED]),
        granted=int(totals[GRANTED]),
        resources=float(totals[SPENT] / slots),
        replicas={
            node_type.name: float(total / slots)
            for node_type, total in zip(experiment.node_types, outcome.replicas, strict=True)
        },
        slots=slots,
        operators=len(experiment.operators),
        seconds=seconds,
        curve_slots=outcome.curve_slots,
        curve=outcome.curve,
        history=outcome.history,
    )
