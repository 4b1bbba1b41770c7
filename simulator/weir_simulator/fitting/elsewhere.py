"""Seconds from source to sink that are spent at none of the scaled operators.

It is what fixed operators and the sources take, and what no operator owns. Where the time in the
operators was measured, it is what that leaves of the whole. Where only the whole was, as in the
history of metrics, it is what the fitted operators leave of it: wire and irregular arrivals are
then part of it, because nothing tells them apart.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from weir_policies.model.dataflow import Dataflow
from weir_policies.promise import OperatorModel
from weir_simulator.fitting.estimate import Estimate, estimate_mean
from weir_simulator.fitting.samples import IntervalSample, OperatorSample
from weir_simulator.fitting.waiting import group_samples, is_steady, keeps_up, predict_groups


def fit_elsewhere(
    intervals: Sequence[IntervalSample], dataflow: Dataflow, models: Mapping[str, OperatorModel]
) -> Estimate:
    """Return what the time from source to sink has more than the slowest path of the operators.

    Args:
        intervals: Undisturbed ones.
        dataflow: The whole job.
        models: The scaled operators as they were fitted, by name.
    """
    timed = [each for each in intervals if not math.isnan(each.response_time)]
    rest = [
        each.response_time - _path(dataflow, {name: of[name].response_time for name in models})
        for each in timed
        if (of := _all_of(each, models)) and all(is_steady(sample) for sample in of.values())
    ]
    rest = rest or _beyond_predicted(timed, dataflow, models)
    if not rest:
        return Estimate(value=0.0)
    mean = estimate_mean(rest)
    # Several paths: the mean over records may well be below the slowest path.
    return replace(mean, value=max(mean.value, 0.0), high=max(mean.high, 0.0))


def _beyond_predicted(
    timed: Sequence[IntervalSample], dataflow: Dataflow, models: Mapping[str, OperatorModel]
) -> list[float]:
    """Return the same beside predicted times, where no operator's own time is known."""
    steady = [
        (each.response_time, of)
        for each in timed
        if (of := _all_of(each, models)) and all(keeps_up(sample) for sample in of.values())
    ]
    predicted = {
        name: predict_groups(model, group_samples(model, [of[name] for _, of in steady]))
        for name, model in models.items()
    }
    times = [
        (whole, {name: float(predicted[name][place]) for name in models})
        for place, (whole, _) in enumerate(steady)
    ]
    return [
        whole - _path(dataflow, by_name)
        for whole, by_name in times
        if all(math.isfinite(time) for time in by_name.values())
    ]


def _all_of(
    interval: IntervalSample, models: Mapping[str, OperatorModel]
) -> Mapping[str, OperatorSample]:
    """Return the samples of the scaled operators; empty where one was not measured."""
    found = {name: interval.operators[name] for name in models if name in interval.operators}
    return found if len(found) == len(models) else {}


def _path(dataflow: Dataflow, times: Mapping[str, float]) -> float:
    """Return the seconds of the slowest path, operators that are not scaled taking none."""
    return dataflow.response_time(dict.fromkeys(dataflow.operators, 0.0) | dict(times))
