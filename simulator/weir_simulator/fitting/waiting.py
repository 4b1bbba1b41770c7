"""The variability of arrivals and the network time, fitted to response times.

    response time = service + wait(arrival SCV) + network time

The network time is the same at every load and the wait is not, so intervals with different loads
separate them. Both are chosen to fit the steady intervals in relative terms, with a loss that grows
linearly for outliers. The arrival SCV starts at its assumed value and leaves it only as far as the
intervals require (a prior of one standard deviation, `PRIOR`): if an operator was never busy, its
waits show nothing.

The result includes everything that the model does not describe, whatever its cause, such as a
service time whose variance is not measured.

Source of the loss: Huber, Ann. Math. Statist. 35 (1964), in the smooth form of SciPy's `soft_l1`.

The remaining time from source to sink is spent at none of the scaled operators, but at fixed
operators, sources and elsewhere. It is the total minus the measured time in the operators. If only
the total was measured, as in the history of metrics, it is the total minus the predicted time in
the operators, and then includes network time and irregular arrivals, because nothing separates
them.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from weir_policies.model.arrays import Counts, Floats
from weir_policies.model.dataflow import Dataflow
from weir_policies.model.node_types import Deployment
from weir_policies.model.queueing import predict_means
from weir_policies.policy import Aggregation, OperatorModel
from weir_simulator.fitting.samples import IntervalSample, OperatorSample

PRIOR = 0.5
"""Standard deviation of the arrival SCV around what is assumed of it."""
NOISE = 0.1
"""Relative error of an interval's mean response time beyond which it counts as an outlier, at
least."""
OUTLYING = 5.0
"""The same, in median errors, where these are large: an interval of few records is often far off,
and mostly below the mean, which a few long ones make up."""
PASSES = 3
"""Fits, each with errors relative to what the former one expects. Relative to what was measured
itself, being too low would count less than being too high, and so would win."""
LEAST_INTERVALS = 3
"""Steady intervals below which nothing is concluded from response times."""
FULL = 0.95
"""Utilisation from which an interval is not steady: its backlog grows."""
DRAINING = 1.03
"""Records taken in per record that arrived, from which a backlog is being worked off."""
MAX_SCV = 10.0


def is_steady(sample: OperatorSample) -> bool:
    """Return whether an interval shows a steady state, by what was observed of it alone."""
    return math.isfinite(sample.response_time) and keeps_up(sample)


def keeps_up(sample: OperatorSample) -> bool:
    """Return whether no backlog grows or is worked off, by what was observed; time aside."""
    return (
        sample.arrived > 0
        and not sample.busiest >= FULL
        and not sample.taken > sample.arrived * DRAINING
    )


def steady_samples(intervals: Sequence[IntervalSample], operator: str) -> Iterator[OperatorSample]:
    """Yield an operator's samples of the undisturbed intervals that show its steady state."""
    for interval in intervals:
        sample = interval.operators.get(operator)
        if sample is not None and not interval.disturbed and is_steady(sample):
            yield sample


def fit_waiting(intervals: Sequence[IntervalSample], model: OperatorModel) -> OperatorModel:
    """Return an operator with the arrival SCV and network time that its response times show.

    Args:
        intervals: Any; those that are not steady are passed over.
        model: The operator with its fitted service time; its arrival SCV and network time are what
            is assumed.
    """
    samples = list(steady_samples(intervals, model.name))
    bare = replace(model, network_time=0.0, aggregation=Aggregation.AVERAGE)
    # What the model says cannot be, no wait or wire explains: the judgement will tell.
    can_be = np.isfinite(predict_groups(bare, group_samples(bare, samples)))
    samples = [sample for sample, is_possible in zip(samples, can_be, strict=True) if is_possible]
    measured = np.array([sample.response_time for sample in samples])
    groups = group_samples(bare, samples)
    if len(samples) < LEAST_INTERVALS:
        return model

    def predict(guess: Floats) -> Floats:
        return predict_groups(replace(bare, arrival_scv=float(guess[0])), groups) + guess[1]

    def residuals(guess: Floats, expected: Floats, noise: float) -> Floats:
        misses = (predict(guess) - measured) / expected / noise
        return np.append(misses, (guess[0] - model.arrival_scv) / PRIOR)

    typical = float(np.median(measured))

    # Imported here: a controller whose jobs have no fit yet does without, and it takes 40 MiB.
    from scipy.optimize import OptimizeResult, least_squares

    def solve(guess: Floats, noise: float) -> OptimizeResult:
        return least_squares(
            residuals,
            x0=guess,
            args=(predict(guess), noise),
            bounds=([0.0, 0.0], [MAX_SCV, np.inf]),
            x_scale=[1.0, typical],
            loss="soft_l1",
        )

    found = solve(np.array([model.arrival_scv, max(typical * 0.01, model.network_time)]), NOISE)
    for _ in range(PASSES - 1):
        off = float(np.median(np.abs(measured / predict(found.x) - 1)))
        found = solve(found.x, max(NOISE, OUTLYING * off))
    scv, network_time = found.x.tolist()
    return replace(model, arrival_scv=scv, network_time=network_time)


@dataclass(frozen=True, slots=True)
class Alike:
    """Samples of one deployment, which are predicted together."""

    places: Counts
    """Where they stand among all, shape `(n,)`."""
    counts: Counts
    """Their deployment, once per sample, shape `(n, t)`."""
    rates: Floats
    """Records/s that arrived, shape `(n,)`."""


def group_samples(model: OperatorModel, samples: Sequence[OperatorSample]) -> list[Alike]:
    """Return the samples by deployment."""
    alike: dict[Deployment, list[int]] = defaultdict(list)
    for place, sample in enumerate(samples):
        alike[Deployment.from_named(sample.deployment, model.node_types)].append(place)
    return [
        Alike(
            np.array(places),
            np.tile(np.array(deployment.counts), (len(places), 1)),
            np.array([samples[place].arrived for place in places]),
        )
        for deployment, places in alike.items()
    ]


def predict_groups(model: OperatorModel, groups: Sequence[Alike]) -> Floats:
    """Return the mean response time of the model for every sample, s, shape `(n,)`.

    It is `inf` where the model says that it cannot keep up.
    """
    predicted = np.empty(sum(group.places.size for group in groups))
    for group in groups:
        predicted[group.places] = predict_means(model, group.counts, group.rates)[0]
    return predicted


def fit_unmodelled_latency(
    intervals: Sequence[IntervalSample], dataflow: Dataflow, models: Mapping[str, OperatorModel]
) -> float:
    """Return by how much the time from source to sink exceeds the operators' slowest path, s.

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
        return 0.0
    # Several paths: the mean over records may well be below the slowest path.
    return max(float(np.mean(rest)), 0.0)


def _beyond_predicted(
    timed: Sequence[IntervalSample], dataflow: Dataflow, models: Mapping[str, OperatorModel]
) -> list[float]:
    """Return the same relative to predicted times, if no operator's own time is known."""
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
