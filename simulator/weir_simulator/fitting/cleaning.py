"""Drops impossible samples, and counts them; what is merely unknown stays NaN.

An impossible sample of an operator is left out of its interval; the others stay. An interval is
dropped completely if its time is useless.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from weir_policies.model.estimation import ServiceMeasurement
from weir_simulator.fitting.samples import ChangeSample, IntervalSample, OperatorSample, Samples
from weir_simulator.fitting.structure import Structure

FULL = 1.05
"""Utilisation up to which a share is taken for rounding: two counters are not read at once."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Cleaned:
    """What is left, and what went."""

    samples: Samples
    dropped: Mapping[str, int] = field(default_factory=dict)
    """How many by reason, in words for people."""

    @property
    def sentence(self) -> str:
        """What went, for people; empty where nothing did."""
        listed = ", ".join(f"{count} with {reason}" for reason, count in self.dropped.items())
        return f"Dropped {listed}" if listed else ""


def clean(samples: Samples, structure: Structure) -> Cleaned:
    """Return the samples that can be right, in order of time."""
    counter: Counter[str] = Counter()
    kept: list[IntervalSample] = []
    for interval in sorted(samples.intervals, key=_when):
        reason = _reject_interval(interval, kept[-1] if kept else None)
        if reason:
            counter[reason] += 1
        else:
            kept.append(_clean_operators(interval, structure, counter))
    changes = tuple(_clean_changes(samples.changes, counter))
    return Cleaned(samples=Samples(intervals=tuple(kept), changes=changes), dropped=dict(counter))


def _when(interval: IntervalSample) -> float:
    """Return the key to sort by; NaN comes first."""
    return interval.time if math.isfinite(interval.time) else -math.inf


def _reject_interval(interval: IntervalSample, before: IntervalSample | None) -> str:
    if not (math.isfinite(interval.time) and 0 < interval.seconds < math.inf):
        return "no time or no length"
    if before is not None and interval.time <= before.time:
        return "the time of another"
    return ""


def _clean_operators(
    interval: IntervalSample, structure: Structure, counter: Counter[str]
) -> IntervalSample:
    kept: dict[str, OperatorSample] = {}
    models = structure.models
    for name, sample in interval.operators.items():
        if name not in models:
            counter["an unknown operator"] += 1
            continue
        types = {node_type.name for node_type in models[name].node_types}
        reason = _reject_operator(sample, types)
        if reason:
            counter[reason] += 1
        else:
            services = tuple(_clean_services(sample.services, types, counter))
            kept[name] = replace(sample, services=services)
    response_time = interval.response_time
    if not _is_unknown_or_positive(response_time):
        counter["a negative or infinite response time"] += 1
        response_time = math.nan
    return replace(interval, operators=kept, response_time=response_time)


def _reject_operator(sample: OperatorSample, types: set[str]) -> str:
    """Return why an operator's sample cannot be right; empty where it can."""
    counts = sample.deployment.values()
    if not set(sample.deployment) <= types or not sum(counts) > 0 or any(n < 0 for n in counts):
        return "an impossible deployment"
    rates = (sample.arrived, sample.taken, sample.given)
    if any(rate < 0 or math.isinf(rate) for rate in rates):
        return "a negative or infinite rate"
    if sample.taken == 0 and sample.given > 0:
        return "records out and none in"
    if any(not (math.isnan(share) or 0 <= share <= FULL) for share in sample.utilisation):
        return "a utilisation outside [0, 1]"
    if sample.arrived == 0 and sample.taken == 0 and sample.busiest > 0.5:
        return "a busy operator without records"
    if not _is_unknown_or_positive(sample.response_time):
        return "a negative or infinite response time"
    return ""


def _is_unknown_or_positive(time: float) -> bool:
    return math.isnan(time) or 0 < time < math.inf


def _clean_services(
    services: Iterable[ServiceMeasurement], types: set[str], counter: Counter[str]
) -> Iterable[ServiceMeasurement]:
    for each in services:
        whole = (
            each.node_type in types
            and 0 < each.records < math.inf
            and 0 < each.mean < math.inf
            and (math.isnan(each.variance) or 0 <= each.variance < math.inf)
        )
        if whole:
            yield each
        elif each.records != 0:  # a replica that served nothing has nothing to report
            counter["an impossible service time"] += 1


def _clean_changes(
    changes: Iterable[ChangeSample], counter: Counter[str]
) -> Iterable[ChangeSample]:
    for change in sorted(changes, key=lambda change: change.time):
        if any(time < 0 or math.isinf(time) for time in (change.downtime, change.provisioning)):
            counter["a change of negative or infinite length"] += 1
        else:
            yield change
