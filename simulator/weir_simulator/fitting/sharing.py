"""Which sharing rule an operator's replicas follow, told from who served how many records.

Only intervals in which replicas of different speed ran side by side can tell. Each rule says what
part of the records every node type should have served; the one that misses least, over all such
intervals by their records, is taken, where it misses clearly less than the one that is assumed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from weir_policies.model.arrays import Floats
from weir_policies.model.node_types import Deployment
from weir_policies.model.sharing import group_replicas
from weir_policies.promise import Aggregation, OperatorModel, Sharing
from weir_simulator.fitting.samples import IntervalSample, OperatorSample
from weir_simulator.fitting.service import pool_replicas

LEAST_MIXED = 3
"""Mixed intervals below which the assumed rule stays."""
CLEARLY = 0.5
"""Part of the assumed rule's squared miss that another must stay below to replace it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SharingFit:
    """The rule, and how well it describes what was seen."""

    rule: Sharing
    intervals: int
    """Intervals with replicas of different speed; 0 leaves the rule as assumed."""
    miss: float
    """Root mean square error of the share of a node type; NaN where there was no interval."""


def fit_sharing(intervals: Sequence[IntervalSample], model: OperatorModel) -> SharingFit:
    """Return the rule of an operator, whose service time and speedups are fitted already."""
    mixed = [
        sample
        for interval in intervals
        if not interval.disturbed
        and (sample := interval.operators.get(model.name)) is not None
        and _tells(sample, model)
    ]
    if not mixed:
        return SharingFit(rule=model.sharing, intervals=0, miss=math.nan)
    misses = {rule: _miss(replace(model, sharing=rule), mixed) for rule in Sharing}
    best = min(misses, key=misses.__getitem__)
    clear = misses[best] < CLEARLY * misses[model.sharing]
    rule = best if clear and len(mixed) >= LEAST_MIXED else model.sharing
    return SharingFit(rule=rule, intervals=len(mixed), miss=math.sqrt(misses[rule]))


def _tells(sample: OperatorSample, model: OperatorModel) -> bool:
    """Return whether replicas of different speed ran, and all that ran are known."""
    used = {name for name, count in sample.deployment.items() if count > 0}
    speeds = {each.speedup for each in model.node_types if each.name in used}
    measured = {each.node_type for each in sample.services}
    return len(speeds) > 1 and measured <= used and sample.arrived > 0


def _miss(model: OperatorModel, samples: Sequence[OperatorSample]) -> float:
    """Return the mean squared error of the shares, by records."""
    total, weight = 0.0, 0.0
    # By average, key groups are spread over the node types as chance does.
    model = replace(model, aggregation=Aggregation.AVERAGE)
    for sample in samples:
        served = {each.node_type: each.records for each in pool_replicas(sample.services)}
        records = sum(served.values())
        if not records > 0:
            continue
        seen = np.array([served.get(each.name, 0.0) for each in model.node_types]) / records
        expected = _share_by_type(model, sample)
        total += records * float(((seen - expected) ** 2).mean())
        weight += records
    return total / weight if weight else math.inf


def _share_by_type(model: OperatorModel, sample: OperatorSample) -> Floats:
    """Return the part of the records that all replicas of each node type get, shape `(t,)`."""
    deployment = Deployment.from_named(sample.deployment, model.node_types)
    groups = group_replicas(model, np.array([deployment.counts]), np.array([[sample.arrived]]))
    by_group = (groups.replicas * groups.share)[0]
    shares: Floats = by_group.reshape(-1, len(model.node_types)).sum(axis=0)
    return shares
