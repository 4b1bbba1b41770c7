"""How good a fit is: predicted against observed response times, on hours it was not fitted to.

Whole hours are held out, because neighbouring intervals resemble each other: any model would
predict an interval between two that were fitted well. An hour's error compares the mean of the
predicted response times with the mean of the observed ones; hours with so few records that chance
moves the observed mean too far are judged together. If chance may still exceed the tolerance, a
small error is luck, and the fit is not good. Disturbed intervals, and those that the observations
(never the predictions) show to be not steady, do not count.

Source of the standard error: that of a ratio of means, Cochran, Sampling Techniques, section 2.11.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from weir_policies.model.dataflow import Dataflow
from weir_policies.model.node_types import Deployment
from weir_policies.model.queueing import predict_means
from weir_policies.policy import OperatorModel
from weir_simulator.fitting.calibrated import Calibration
from weir_simulator.fitting.samples import IntervalSample
from weir_simulator.fitting.waiting import keeps_up

BLOCK = 3600.0
"""Seconds that are held out together."""
MIN_BLOCKS = 8
"""Blocks that a shorter time is cut into instead."""
EVERY = 4
"""Every how many blocks one is held out: a quarter, spread over the time of day."""
TOLERANCE = 0.15
"""Median error of the held-out hours up to which a fit is good, and what chance may be of it."""
PRECISION = TOLERANCE / 2
"""Standard error of predicted / observed above which hours are judged together. The mean response
time of 300 records has one of a third behind a queue M/M/1 that is used to 0.7 (Whitt, Management
Science 35 (1989))."""
OVERLOADED = 0.05
"""Part of the steady intervals that may be predicted to have no steady state."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Quality:
    """How well held-out stretches, an hour each or less, were predicted."""

    good: bool
    sentence: str
    """Why it is not good, or how good it is; for people."""
    error: float
    """Median over held-out stretches of |predicted / observed - 1|, source to sink; NaN where none
    could be judged. Stretches of few records count together, as one."""
    chance: float
    """Median standard error of predicted / observed among these: `inf` where one interval is all
    that was judged, NaN where `error` is."""


Times = tuple[float, float]
"""Predicted and observed, seconds."""


@dataclass(frozen=True, slots=True)
class Compared:
    """One interval, source to sink and by operator."""

    block: int
    whole: Times
    operators: Mapping[str, Times]


def split_blocks(
    intervals: Sequence[IntervalSample],
) -> tuple[list[IntervalSample], list[IntervalSample], float]:
    """Return what to fit, what is held out, and the length of a block in seconds."""
    span = intervals[-1].time - intervals[0].time + intervals[0].seconds
    length = min(BLOCK, span / MIN_BLOCKS)
    fitted: list[IntervalSample] = []
    held_out: list[IntervalSample] = []
    for interval in intervals:
        is_out = _block(interval, intervals[0], length) % EVERY == EVERY - 1
        (held_out if is_out else fitted).append(interval)
    return fitted, held_out, length


def judge_fit(
    calibration: Calibration, held_out: Sequence[IntervalSample], *, block: float
) -> Quality:
    """Return how well a fit predicts intervals that it has not seen.

    Args:
        calibration: Fitted without `held_out`.
        held_out: In order of time.
        block: Seconds that are judged together.
    """
    dataflow, models = calibration.dataflow, calibration.models
    compared = [
        Compared(_block(interval, held_out[0], block), *times)
        for interval in held_out
        if (times := _compare(dataflow, models, interval, calibration.unmodelled_latency))
    ]
    finite = [each for each in compared if math.isfinite(each.whole[0])]
    errors = {
        name: _median_error([(e.block, e.operators[name]) for e in finite if name in e.operators])
        for name in models
    }
    stretches = len({each.block for each in finite})
    groups = _join_blocks([(each.block, each.whole) for each in finite])
    ratios = [_ratio(group) for group in groups]
    error = statistics.median(abs(ratio) for ratio in ratios) if ratios else math.nan
    chance = statistics.median(map(_standard_error, groups)) if groups else math.nan
    overloaded = 1 - len(finite) / len(compared) if compared else 0.0
    held = f"held-out stretches of {_format_length(block)}"
    reason = _find_fault(error, chance, overloaded, errors, held)
    return Quality(
        good=not reason,
        sentence=reason
        or f"{held.capitalize()} are predicted with a median error of {error:.1%} "
        f"({stretches} of them judged)",
        error=error,
        chance=chance,
    )


def _find_fault(
    error: float, chance: float, overloaded: float, errors: Mapping[str, float], held: str
) -> str:
    """Return why the fit is not good; empty where it is. `held` names what was held out."""
    if overloaded > OVERLOADED:
        return (
            f"Expected a steady state in intervals that had one, got none in {overloaded:.0%} of "
            "them: the fitted service times are too long"
        )
    if math.isnan(error):
        return (
            f"The model could not be checked: {held} had no steady interval with a measured "
            "response time. Wait for calmer hours, or add the helper to the job"
        )
    if error > TOLERANCE:
        known = {name: each for name, each in errors.items() if not math.isnan(each)}
        worst = max(known, key=known.__getitem__, default="")
        return (
            f"Expected {held} to be predicted within {TOLERANCE:.0%}, got a median error of "
            f"{error:.0%}"
            + (f", operator {worst!r} {known[worst]:.0%}" if worst else "")
            + (
                (
                    f", which may be chance ({_describe_part(chance, error)} of it): wait for more "
                    "records"
                )
                if chance > PRECISION
                else ": the model does not describe the job, or the job has drifted"
            )
        )
    if chance > TOLERANCE:
        return (
            f"Expected enough records in {held} to judge the fit within "
            f"{TOLERANCE:.0%}, got so few that its median error of {error:.0%} may be "
            "chance: wait for more"
        )
    return ""


def _format_length(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < BLOCK else f"{seconds / BLOCK:.0f} h"


def _describe_part(chance: float, error: float) -> str:
    """Return how much of an error may be chance, for people; that of one interval is not known."""
    return "all" if chance >= error else f"{chance:.0%}"


def _compare(
    dataflow: Dataflow,
    models: Mapping[str, OperatorModel],
    interval: IntervalSample,
    unmodelled_latency: float,
) -> tuple[Times, Mapping[str, Times]] | None:
    """Predict an interval from what arrived at the sources, source to sink and by operator.

    `None` where it cannot be judged.
    """
    if interval.disturbed:
        return None
    rates = dataflow.spread_rates(
        {
            name: interval.operators[name].arrived if name in interval.operators else math.nan
            for name in dataflow.sources
        }
    )
    observed = dict.fromkeys(dataflow.operators, 0.0)
    predicted = dict(observed)
    for name, model in models.items():
        sample = interval.operators.get(name)
        if sample is None or not keeps_up(sample):
            return None
        deployment = Deployment.from_named(sample.deployment, model.node_types)
        observed[name] = sample.response_time
        # A source that counts no input has no rate to spread: take what was seen at the operator.
        rate = rates[name] if math.isfinite(rates[name]) else sample.arrived
        predicted[name] = float(predict_means(model, np.array([deployment.counts]), rate)[0][0])
    known = [name for name in models if math.isfinite(observed[name])]
    whole = interval.response_time
    if math.isnan(whole):
        if len(known) < len(models):
            return None
        whole = dataflow.response_time(observed) + unmodelled_latency
    return (
        (dataflow.response_time(predicted) + unmodelled_latency, whole),
        {name: (predicted[name], observed[name]) for name in known},
    )


def _median_error(pairs: Sequence[tuple[int, Times]]) -> float:
    ratios = [_ratio(group) for group in _join_blocks(pairs)]
    return statistics.median(abs(ratio) for ratio in ratios) if ratios else math.nan


def _join_blocks(pairs: Sequence[tuple[int, Times]]) -> list[list[Times]]:
    """Return the blocks, neighbours together until chance moves them little.

    What is left at the end joins the last; nothing is left out.
    """
    blocks: dict[int, list[Times]] = defaultdict(list)
    for block, pair in pairs:
        blocks[block].append(pair)
    joined: list[list[Times]] = []
    left: list[Times] = []
    for times in blocks.values():
        left += times
        if _standard_error(left) <= PRECISION:
            joined.append(left)
            left = []
    if joined:
        joined[-1] += left
    elif left:
        joined.append(left)
    return joined


def _ratio(group: Sequence[Times]) -> float:
    """Return predicted / observed - 1 of the means over a group's intervals."""
    return sum(predicted for predicted, _ in group) / sum(observed for _, observed in group) - 1


def _standard_error(group: Sequence[Times]) -> float:
    """Return how far chance moves the ratio of a group; infinite where one interval is all."""
    if len(group) < 2:
        return math.inf
    predicted, observed = np.array(group).T
    misses = predicted - observed * (predicted.sum() / observed.sum())
    return float(np.sqrt(misses @ misses * len(group) / (len(group) - 1)) / observed.sum())


def _block(interval: IntervalSample, first: IntervalSample, length: float) -> int:
    # The middle: an interval that ends on the border belongs to what came before.
    return int((interval.time - interval.seconds / 2 - (first.time - first.seconds)) / length)
