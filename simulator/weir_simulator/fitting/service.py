"""Service times and speedups, of all operators together.

    log m(u, t) = log m(u) - log s(t)

assumes that a node type is faster by the same factor for all operators. Weighted least squares on
the logarithms uses every operator that ran on two types; the weights are the precisions of the
means m(u, t).

A given speedup is not fitted. Among operators and node types that were measured together and none
of which is given, the type that served most records is the reference, with its assumed speedup. A
type that never ran follows its pool, as in `model.estimation`.

The variability is that within the median interval: a mean that drifts is no variability, and a
pause now and then is none of the work's.

The sharing rule of an operator's replicas follows from how many records each served, in intervals
with replicas of different speeds. Each rule predicts the part of the records for every node type.
The rule with the smallest error over all such intervals, weighted by records, is chosen if its
error is clearly smaller than that of the assumed rule.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from weir_policies.model.arrays import Floats
from weir_policies.model.estimation import ENOUGH_RECORDS, ServiceMeasurement
from weir_policies.model.node_types import Deployment, NodeType
from weir_policies.model.sharing import group_replicas
from weir_policies.policy import Aggregation, OperatorModel, Sharing
from weir_simulator.fitting.samples import IntervalSample, OperatorSample
from weir_simulator.fitting.structure import Structure

MIN_SCATTER = 0.005
"""Relative standard deviation between intervals that is always counted with: no machine is
steadier, and a weight without bound would drown what the other operators tell."""
TYPICAL_SCATTER = 0.05
"""The same where nothing ran for two intervals, so that it is unknown."""

MAX_CORRELATED = 0.8
"""Correlation of neighbouring intervals that is believed at most; what goes beyond is a drift."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Cell:
    """One operator on one node type."""

    operator: str
    node_type: str
    intervals: tuple[ServiceMeasurement, ...]
    """One entry per interval, replicas pooled."""

    @property
    def records(self) -> float:
        """Records served."""
        return sum(each.records for each in self.intervals)

    @property
    def mean(self) -> float:
        """Seconds per record."""
        return sum(each.mean * each.records for each in self.intervals) / self.records

    def error(self, scatter: float) -> float:
        """Return the relative standard error of the mean, given the scatter between intervals."""
        squares = sum(
            each.records**2 * (relative_variance(each) + scatter**2) for each in self.intervals
        )
        return math.sqrt(squares) / self.records


@dataclass(frozen=True, kw_only=True, slots=True)
class Noise:
    """By how much mean service times of intervals differ, beyond what counting records explains."""

    scatter: float
    """Relative standard deviation."""
    correlation: float
    """Of an interval with the next, in [0, 1)."""

    @property
    def lasting(self) -> float:
        """Standard deviation of independent intervals whose sum varies as much.

        For a first-order autoregression its square is (1 + r) / (1 - r) times as large.
        """
        return self.scatter * math.sqrt((1 + self.correlation) / (1 - self.correlation))


@dataclass(frozen=True, kw_only=True, slots=True)
class ServiceFit:
    """Service times of all operators, and the speed of the node types."""

    means: Mapping[str, float]
    """Seconds per record at speedup 1, by operator; only those that were measured."""
    scvs: Mapping[str, float]
    """Squared coefficient of variation; only where a variance was measured."""
    speedups: Mapping[str, float]
    """By node type, every one of them."""
    measured: Mapping[tuple[str, str], float]
    """Seconds per record, by operator and node type, where these were seen together."""
    noise: Noise


def fit_services(intervals: Sequence[IntervalSample], structure: Structure) -> ServiceFit:
    """Return what the service times of undisturbed intervals say."""
    cells = gather_cells(intervals)
    enough = [cell for cell in cells if cell.records >= ENOUGH_RECORDS]
    noise = find_noise(enough)
    means, speedups = _solve(enough, noise.scatter, structure)
    for node_type in structure.node_types:
        speedups.setdefault(node_type.name, _follow_pool(node_type, speedups, structure))
    return ServiceFit(
        means=means,
        scvs=_pool_scvs(enough),
        speedups={each.name: speedups[each.name] for each in structure.node_types},
        measured={(cell.operator, cell.node_type): cell.mean for cell in enough},
        noise=noise,
    )


def gather_cells(intervals: Sequence[IntervalSample]) -> list[Cell]:
    """Return the service times by operator and node type."""
    gathered: dict[tuple[str, str], list[ServiceMeasurement]] = defaultdict(list)
    for interval in intervals:
        for name, sample in interval.operators.items():
            for pooled in pool_replicas(sample.services):
                gathered[name, pooled.node_type].append(pooled)
    return [
        Cell(operator=operator, node_type=node_type, intervals=tuple(listed))
        for (operator, node_type), listed in gathered.items()
    ]


def pool_replicas(services: Sequence[ServiceMeasurement]) -> list[ServiceMeasurement]:
    """Return one service time per node type.

    Variances are averaged: replicas that differ in speed are no variability of the work. One that
    is unknown makes their mean unknown.
    """
    by_type: dict[str, list[ServiceMeasurement]] = defaultdict(list)
    for each in services:
        by_type[each.node_type].append(each)
    pooled = []
    for node_type, parts in by_type.items():
        records = sum(each.records for each in parts)
        pooled.append(
            ServiceMeasurement(
                node_type=node_type,
                records=records,
                mean=sum(each.mean * each.records for each in parts) / records,
                variance=sum(each.variance * each.records for each in parts) / records,
            )
        )
    return pooled


def relative_variance(measured: ServiceMeasurement) -> float:
    """Return the squared relative error of an interval's mean; an unknown variance is SCV 1."""
    scv = 1.0 if math.isnan(measured.variance) else measured.variance / measured.mean**2
    return scv / measured.records


def find_noise(cells: Sequence[Cell]) -> Noise:
    """Return how interval means scatter beyond what counting records explains.

    It is taken as common to all cells: one that was measured twice has too little to say.
    """
    squares, counted, products, freedom = 0.0, 0.0, 0.0, 0
    for cell in cells:
        means = np.array([each.mean for each in cell.intervals])
        relative = means / means.mean() - 1
        more = relative.size - 1
        squares += float((relative**2).sum())
        products += float((relative[1:] * relative[:-1]).sum())
        counted += more * float(np.mean([relative_variance(each) for each in cell.intervals]))
        freedom += more
    if not freedom:
        return Noise(scatter=TYPICAL_SCATTER, correlation=0.0)
    excess = max(squares - counted, 0.0)
    return Noise(
        scatter=max(math.sqrt(excess / freedom), MIN_SCATTER),
        # Counting is independent from interval to interval, so products come from the excess.
        correlation=min(max(products / excess, 0.0), MAX_CORRELATED) if excess else 0.0,
    )


def _solve(
    cells: Sequence[Cell], scatter: float, structure: Structure
) -> tuple[dict[str, float], dict[str, float]]:
    """Return mean service times, and the speedups that are given, measured or a reference."""
    assumed = {each.name: each.speedup for each in structure.node_types}
    references = structure.given | _find_references(cells, structure.given)
    anchors = {name: assumed[name] for name in references}
    if not cells:
        return {}, anchors
    operators = list(dict.fromkeys(cell.operator for cell in cells))
    types = list(dict.fromkeys(c.node_type for c in cells if c.node_type not in anchors))
    design = np.zeros((len(cells), len(operators) + len(types)))
    target = np.log([cell.mean for cell in cells])
    for row, cell in enumerate(cells):
        design[row, operators.index(cell.operator)] = 1.0
        if cell.node_type in anchors:
            target[row] += math.log(anchors[cell.node_type])
        else:
            design[row, len(operators) + types.index(cell.node_type)] = -1.0
    weighted = design / np.array([[cell.error(scatter)] for cell in cells])
    aim = target / np.array([cell.error(scatter) for cell in cells])
    covariance = np.linalg.inv(weighted.T @ weighted)
    solved = covariance @ weighted.T @ aim
    values = np.exp(solved).tolist()
    means = dict(zip(operators, values[: len(operators)], strict=True))
    return means, anchors | dict(zip(types, values[len(operators) :], strict=True))


def _find_references(cells: Sequence[Cell], given: frozenset[str]) -> frozenset[str]:
    """Return one node type for each group of cells that hang together and have none given.

    Cells hang together that share an operator or a node type: only there is a ratio to be seen.
    """
    groups: list[list[Cell]] = []
    for cell in cells:
        near = [group for group in groups if any(_share(cell, other) for other in group)]
        groups = [group for group in groups if group not in near]
        groups.append([cell, *(other for group in near for other in group)])
    references = set()
    for group in groups:
        served: dict[str, float] = defaultdict(float)
        for cell in group:
            served[cell.node_type] += cell.records
        if not given & served.keys():
            references.add(max(served, key=served.__getitem__))
    return frozenset(references)


def _share(one: Cell, other: Cell) -> bool:
    return one.operator == other.operator or one.node_type == other.node_type


def _follow_pool(node_type: NodeType, speedups: Mapping[str, float], structure: Structure) -> float:
    """Return the assumed speedup times what the pool's other sizes turned out to be of theirs."""
    factors = [
        speedups[other.name] / other.speedup
        for other in structure.node_types
        if other.pool == node_type.pool and other.name in speedups
    ]
    factor = sum(factors) / len(factors) if factors else 1.0
    return node_type.speedup * factor


def _pool_scvs(cells: Sequence[Cell]) -> dict[str, float]:
    """Return the SCV by operator, over all node types: dividing the work changes no SCV.

    It is the median interval's: one pause of a second among thousands of records of 20 ms doubles
    the variance of its interval, and says nothing of the others'.
    """
    varied: dict[str, list[float]] = defaultdict(list)
    for cell in cells:
        varied[cell.operator] += [
            each.variance / each.mean**2
            for each in cell.intervals
            if not math.isnan(each.variance) and each.records >= ENOUGH_RECORDS
        ]
    return {name: float(np.median(listed)) for name, listed in varied.items() if listed}


MIN_MIXED = 3
"""Mixed intervals below which the assumed rule stays."""
CLEARLY = 0.5
"""Part of the assumed rule's squared miss that another must stay below to replace it."""


def fit_sharing(intervals: Sequence[IntervalSample], model: OperatorModel) -> Sharing:
    """Return the rule of an operator, whose service time and speedups are fitted already."""
    mixed = [
        sample
        for interval in intervals
        if not interval.disturbed
        and (sample := interval.operators.get(model.name)) is not None
        and _tells(sample, model)
    ]
    if len(mixed) < MIN_MIXED:
        return model.sharing
    misses = {rule: _miss(replace(model, sharing=rule), mixed) for rule in Sharing}
    best = min(misses, key=misses.__getitem__)
    return best if misses[best] < CLEARLY * misses[model.sharing] else model.sharing


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
