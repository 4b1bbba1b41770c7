"""A job as a simulator that was fitted to its history, and how well it predicts unseen hours.

    samples -> hold hours out -> calibrate -> predict the work of the held-out hours -> calibrate

`fitting.fit` judges by response times, which plain Flink does not measure; here, what is predicted
is the work: seconds of busy time per second, of all vertices together, from what arrived at the
sources. Its error widens every figure of a bill.

Sources whose rates differ get their shares of one trace from an operator in front of them that
costs nothing and takes no time, because the simulator has one trace.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from weir_policies.model.arrays import Floats
from weir_policies.policy import CostWeights
from weir_simulator import experiment as parts
from weir_simulator.errors import FitError
from weir_simulator.experiment import Experiment, Objective, PolicyChoice
from weir_simulator.fitting.calibrated import Calibration
from weir_simulator.fitting.cleaning import clean
from weir_simulator.fitting.description import UNEQUAL, contract, describe_experiment
from weir_simulator.fitting.fit import TooFewSamplesError, calibrate
from weir_simulator.fitting.flow import ArrivalTrace, trace_arrivals
from weir_simulator.fitting.quality import split_blocks
from weir_simulator.fitting.samples import IntervalSample, Samples
from weir_simulator.fitting.structure import Structure
from weir_simulator.traces import Trace

LEAST_INTERVALS = 30
"""Undisturbed intervals below which nothing is fitted, as in a fit."""
LEAST_ERROR = 0.01
"""Relative error that is always counted with: the model's rounding is no better."""
CAUGHT = 0.95
"""Part of the held-out blocks whose error is no greater than the one that counts."""
ENTRY = "entry"
"""Name of the operator that stands before several sources, and of its node type."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FittedJob:
    """A job that can be simulated."""

    experiment: Experiment
    calibration: Calibration
    rates: Trace
    """Records/s of the experiment's trace, shape `(slots,)`."""
    begin: float
    """Unix seconds at which the trace begins."""
    error: float
    """By how much the work of hours that the fit has not seen was missed, relative: 95 % of the
    hours were missed by less."""
    blocks: int
    """Held-out hours, or shorter stretches."""
    filled: int
    """Slots without a measured rate."""


def fit_job(
    samples: Samples, structure: Structure, *, slot: float, objective: Objective, trace: Path
) -> FittedJob:
    """Return a job fitted to its history.

    Args:
        samples: Of the job.
        structure: The job before anything is measured.
        slot: Seconds between two decisions.
        objective: For the experiment.
        trace: File that the rates will be written to.

    Raises:
        TooFewSamplesError: There is too little to fit or to hold out.
        FitError: The simulator cannot have such a job.
    """
    intervals = clean(samples, structure).intervals
    calm = sum(not each.disturbed for each in intervals)
    if calm < LEAST_INTERVALS:
        raise TooFewSamplesError(
            f"Expected at least {LEAST_INTERVALS} undisturbed minutes to fit, got {calm}; wait for "
            "more, or ask for a longer time"
        )
    sources = _find_sources(structure)
    seen, unseen, block = split_blocks(intervals)
    errors = predict_work(calibrate(seen, (), structure), unseen, block=block)
    if not errors:
        raise TooFewSamplesError(
            "Expected minutes to hold out in which all vertices were measured, got none; wait for "
            "more, or ask for a longer time"
        )
    calibration = calibrate(intervals, samples.changes, structure)
    traces = {name: trace_arrivals(intervals, name, slot=slot) for name in sources}
    unknown = sorted(name for name, each in traces.items() if each is None)
    if unknown:
        raise TooFewSamplesError(
            f"Expected a rate of arrivals at {unknown}, got none; wait for one"
        )
    rates, begin, shares, filled = _sum_traces(
        {name: each for name, each in traces.items() if each is not None}, slot
    )
    experiment = describe_experiment(
        calibration,
        objective=objective,
        trace=trace,
        rates=rates,
        slot=slot,
        weights=CostWeights(),
        policy=PolicyChoice(name="planner"),
    )
    if shares:
        experiment = _put_before(experiment, shares)
    return FittedJob(
        experiment=experiment,
        calibration=calibration,
        rates=rates,
        begin=begin,
        error=max(float(np.quantile(np.abs(errors), CAUGHT)), LEAST_ERROR),
        blocks=len(errors),
        filled=filled,
    )


def _find_sources(structure: Structure) -> tuple[str, ...]:
    try:
        return contract(structure.dataflow, structure.fixed).sources
    except FitError as error:
        if not structure.fixed:
            raise
        raise FitError(
            f"Expected busy time of {', '.join(sorted(structure.fixed))}, got none, so the job "
            "cannot be simulated; use a source of Flink's present interface (FLIP-27), whose "
            "busy time is measured, or ask for a time with traffic"
        ) from error


def predict_work(
    calibration: Calibration, intervals: Sequence[IntervalSample], *, block: float
) -> list[float]:
    """Return predicted / observed - 1 of the work in each block of seconds.

    Intervals count in which every scaled operator's service time was measured.
    """
    means = {name: each.service_mean for name, each in calibration.models.items()}
    speeds = calibration.speedups
    sums: dict[int, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for interval in intervals:
        found = {name: interval.operators.get(name) for name in means}
        if interval.disturbed or any(each is None or not each.services for each in found.values()):
            continue
        rates = calibration.dataflow.spread_rates(
            {
                name: interval.operators[name].arrived if name in interval.operators else math.nan
                for name in calibration.dataflow.sources
            }
        )
        predicted = observed = 0.0
        for name, sample in found.items():
            if sample is None:
                continue
            served = sum(each.records for each in sample.services)
            # Of an operator with a fixed one before it, take what reached itself.
            rate = rates[name] if math.isfinite(rates[name]) else sample.arrived
            slowed = sum(each.records / speeds[each.node_type] for each in sample.services) / served
            predicted += rate * interval.seconds * means[name] * slowed
            observed += sum(each.records * each.mean for each in sample.services)
        if observed > 0 and math.isfinite(predicted):
            kept = sums[int((interval.time - intervals[0].time) // block)]
            kept[0] += predicted
            kept[1] += observed
    return [predicted / observed - 1 for predicted, observed in sums.values()]


def _sum_traces(
    traces: Mapping[str, ArrivalTrace], slot: float
) -> tuple[Trace, float, dict[str, float], int]:
    """Return one trace, when it begins, each source's share of it, and its unmeasured slots.

    Shares are empty where all sources have equal rates, and so the same trace.
    """
    begin = max(each.begin for each in traces.values())
    cut = {name: each.rates[round((begin - each.begin) / slot) :] for name, each in traces.items()}
    length = min(each.size for each in cut.values())
    if not length:
        raise TooFewSamplesError(
            f"Expected rates of {', '.join(traces)} at the same time, got none; ask for a time in "
            "which all of them ran"
        )
    filled = max(each.filled for each in traces.values())
    means = {name: float(each[:length].mean()) for name, each in cut.items()}
    if max(means.values()) - min(means.values()) <= UNEQUAL * max(means.values()):
        return next(iter(cut.values()))[:length], begin, {}, filled
    total: Floats = np.sum([each[:length] for each in cut.values()], axis=0)
    whole = sum(means.values())
    return total, begin, {name: mean / whole for name, mean in means.items()}, filled


def _put_before(experiment: Experiment, shares: Mapping[str, float]) -> Experiment:
    """Return the experiment with an operator before its sources that divides the records."""
    names = {each.name for each in experiment.operators}
    if ENTRY in names:
        raise FitError(f"Expected no vertex with the name {ENTRY!r}, got one; rename it")
    pools = tuple(dict.fromkeys(each.pool_name for each in experiment.node_types))
    rate = 1e9  # a nanosecond a record
    entry = parts.Operator.model_validate(
        {"name": ENTRY, "serviceRate": rate, "maxReplicas": 1, "pools": (ENTRY,), "scv": 0}
    )
    free = parts.NodeType.model_validate({"name": ENTRY, "speedup": 1, "price": 0, "pool": ENTRY})
    edges = [
        parts.Edge.model_validate({"from": ENTRY, "to": name, "selectivity": share})
        for name, share in shares.items()
    ]
    own = [each.model_copy(update={"pools": each.pools or pools}) for each in experiment.operators]
    return experiment.model_copy(
        update={
            "operators": (entry, *own),
            "node_types": (*experiment.node_types, free),
            "edges": (*edges, *experiment.edges),
        }
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Variation:
    """How a job is taken to differ from the fit."""

    work: float = 1.0
    """Factor of all service times."""
    scv: float | None = None
    """Squared coefficient of variation of the service times; `None` leaves it."""
    small: float = 1.0
    """Factor of the speed of node types below speedup 1."""
    downtime: float | None = None
    """Seconds that a restart stops the job; `None` leaves it."""
    unseen: float = 0.0
    """Seconds that records spend where nothing measures, on their way."""
    bound: float | None = None
    """Another objective, s; `None` leaves it."""

    def apply(self, experiment: Experiment) -> Experiment:
        """Return the experiment varied."""
        fed = {edge.target for edge in experiment.edges}
        operators = tuple(
            each.model_copy(
                update={
                    "service_rate": each.service_rate / self.work,
                    "scv": each.scv if self.scv is None else self.scv,
                    "network_time": each.network_time + (0.0 if each.name in fed else self.unseen),
                }
            )
            for each in experiment.operators
        )
        types = tuple(
            each.model_copy(update={"speedup": each.speedup * self.small})
            if each.speedup < 1
            else each
            for each in experiment.node_types
        )
        changes: dict[str, object] = {"operators": operators, "node_types": types}
        if self.downtime is not None:
            changes["world"] = experiment.world.model_copy(update={"downtime": self.downtime})
        if self.bound is not None:
            changes["objective"] = experiment.objective.model_copy(
                update={"response_time": self.bound}
            )
        return experiment.model_copy(update=changes)
