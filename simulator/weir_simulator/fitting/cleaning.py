"""Drops impossible samples; what is merely unknown stays NaN.

An impossible sample of an operator is left out of its interval; the others stay. An interval is
dropped completely if its time is useless.
"""

from __future__ import annotations

import math
from dataclasses import replace

from weir_policies.model.estimation import ServiceMeasurement
from weir_simulator.fitting.samples import ChangeSample, IntervalSample, OperatorSample, Samples
from weir_simulator.fitting.structure import Structure

FULL = 1.05
"""Utilisation up to which a share is taken for rounding: two counters are not read at once."""


def clean(samples: Samples, structure: Structure) -> Samples:
    """Return the samples that can be right, in order of time."""
    kept: list[IntervalSample] = []
    timed = (each for each in samples.intervals if math.isfinite(each.time))
    for interval in sorted(timed, key=lambda each: each.time):
        is_new = not kept or interval.time > kept[-1].time
        # An interval needs a time and a length; of two with the same time, the first counts.
        if is_new and 0 < interval.seconds < math.inf:
            kept.append(_clean_operators(interval, structure))
    changes = sorted(filter(_is_possible_change, samples.changes), key=lambda each: each.time)
    return Samples(intervals=tuple(kept), changes=tuple(changes))


def _clean_operators(interval: IntervalSample, structure: Structure) -> IntervalSample:
    kept: dict[str, OperatorSample] = {}
    models = structure.models
    for name, sample in interval.operators.items():
        types = {each.name for each in models[name].node_types} if name in models else set()
        if _is_possible_operator(sample, types):
            services = tuple(each for each in sample.services if _is_possible_service(each, types))
            kept[name] = replace(sample, services=services)
    response_time = interval.response_time
    if not _is_unknown_or_positive(response_time):
        response_time = math.nan
    return replace(interval, operators=kept, response_time=response_time)


def _is_possible_operator(sample: OperatorSample, types: set[str]) -> bool:
    """Return whether an operator's sample can be right; not if it ran on an unknown node type."""
    counts = sample.deployment.values()
    if not set(sample.deployment) <= types or not sum(counts) > 0 or any(n < 0 for n in counts):
        return False
    rates = (sample.arrived, sample.taken, sample.given)
    if any(rate < 0 or math.isinf(rate) for rate in rates):
        return False
    if sample.taken == 0 and sample.given > 0:  # records out and none in
        return False
    if any(not (math.isnan(share) or 0 <= share <= FULL) for share in sample.utilisation):
        return False
    if sample.arrived == 0 and sample.taken == 0 and sample.busiest > 0.5:
        return False  # busy, though nothing arrived
    return _is_unknown_or_positive(sample.response_time)


def _is_unknown_or_positive(time: float) -> bool:
    return math.isnan(time) or 0 < time < math.inf


def _is_possible_service(service: ServiceMeasurement, types: set[str]) -> bool:
    return (
        service.node_type in types
        and 0 < service.records < math.inf
        and 0 < service.mean < math.inf
        and (math.isnan(service.variance) or 0 <= service.variance < math.inf)
    )


def _is_possible_change(change: ChangeSample) -> bool:
    return not any(time < 0 or math.isinf(time) for time in (change.downtime, change.provisioning))
