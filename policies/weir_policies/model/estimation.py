"""Estimates an operator's service times, speedups, keys and waiting from intervals.

Five things are learned: the moments of the service time per node type, from them the speedups that
are not given, the part of the records that one key brings, the network time, and the variability of
the arrivals where the model is wrong without it.

- Means of a node type are pooled by records. Old records fade: no more than `MEMORY` count beside
  a new interval, so that a job whose work per record changes is followed.
- A given speedup is not estimated. Any other is the ratio of service times to a reference: the
  first node type with a given speedup that was measured, or the first measured one at its assumed
  speedup. A size that was never run follows its pool: what its siblings turned out to be, relative
  to what was assumed of them.
- The network time is what the measured response time has more than the predicted one, while
  queues are short; a busy operator would mix errors of the queueing model into it. Less is believed
  at once, more slowly: the records of a calm interval may still have waited in an earlier backlog,
  and seconds of that, taken for the wire's, would put every objective out of reach.
- A response time that differs from its expectation by a factor of `WRONG`, in `WRONG_FOR` intervals
  in a row and in one direction, shows that the model is wrong. Of an operator that is not calm, the
  arrivals are then taken to be as variable as explains what was measured, until that is wrong in
  turn. Smaller errors are left: the queueing model knows other loads better than a correction.
- How unevenly keys share the records is seen in the rates of the replicas. The most that one has
  beyond its key groups stays with one replica, however many there are. Less than `HOT` is the
  chance of many keys, and is left out. Where the records of each key group are counted, they say
  how unevenly for any number of replicas, and the rates are not asked.

The measured variability is that within intervals; a mean that drifts is no variability.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from weir_policies.errors import StateError
from weir_policies.model.keys import KeyShares, fullest_shares
from weir_policies.model.node_types import NodeType
from weir_policies.policy import Aggregation, OperatorModel

MEMORY = 20_000.0
"""Records of a node type that count beside those of a new interval."""
ENOUGH_RECORDS = 100.0
"""Records from which a node type counts as measured: its mean is then good to some 10 %."""
FIRST_RECORDS = 30.0
"""The same while none has so many: good to some 20 %, and better than to know nothing."""
CALM = 0.5
"""Utilisation below which the network time is learned."""
SLOWLY = 0.1
"""Weight of a new interval that raises the network time, once there were ten."""
WRONG = 3.0
"""Factor by which a response time differs from its expectation where the model is wrong."""
WRONG_FOR = 3
"""Intervals in a row after which the model is corrected."""
HOT = 0.1
"""Part of the records from which a key, or a few on one replica, matter."""
CHANCE = 3.0
"""Standard deviations by which a replica gets more records than its key groups by chance."""
ENOUGH_KEYS = 1000.0
"""Counted records from which the shares of key groups are believed."""
SAME_SHARE = 0.03
"""Part by which a measured share differs from itself: an interval's chance."""
HOT_WEIGHT = 0.5
"""Weight of a new interval in the share of a hot key."""
VERSION = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class ServiceMeasurement:
    """Service times of one node type in one interval."""

    node_type: str
    records: float
    """Records that were served; those of several replicas may come one by one."""
    mean: float
    """Seconds."""
    variance: float
    """s^2; NaN where the job does not measure it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ServiceMoments:
    """What is believed of the service time on one node type."""

    records: float
    """Weight of the mean, at most `MEMORY`."""
    mean: float
    """Seconds."""
    variance: float
    """s^2; NaN until it was measured."""


@dataclass(frozen=True, kw_only=True, slots=True)
class OperatorBelief:
    """Everything learned about one operator; empty at first."""

    services: Mapping[str, ServiceMoments] = field(default_factory=dict)
    """By the node type's name."""
    network_time: float = 0.0
    """Seconds in buffers and on the wire before the operator."""
    calm_intervals: int = 0
    """Intervals that the network time was learned from."""
    hot_share: float = 0.0
    """As in `OperatorModel`."""
    fullest: tuple[float, ...] | None = None
    """As in `OperatorModel`; `None` where the keys were never measured."""
    wrong: int = 0
    """Intervals in a row in which the model was wrong, up to the last; below 0 where it expected
    too much."""
    arrival_scv: float | None = None
    """As in `OperatorModel`, where that was wrong."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values, for `from_dict`."""
        return {
            "version": VERSION,
            "services": {
                name: {
                    "records": moments.records,
                    "mean": moments.mean,
                    "variance": None if math.isnan(moments.variance) else moments.variance,
                }
                for name, moments in self.services.items()
            },
            "network_time": self.network_time,
            "calm_intervals": self.calm_intervals,
            "hot_share": self.hot_share,
            "fullest": None if self.fullest is None else list(self.fullest),
            "wrong": self.wrong,
            "arrival_scv": self.arrival_scv,
        }

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> OperatorBelief:
        """Restore what `to_dict` returned.

        Raises:
            StateError: It is of another version.
        """
        if state.get("version") != VERSION:
            raise StateError(f"Expected a belief of version {VERSION}, got {state.get('version')}")
        services = {
            name: ServiceMoments(
                records=moments["records"],
                mean=moments["mean"],
                variance=math.nan if moments["variance"] is None else moments["variance"],
            )
            for name, moments in state["services"].items()
        }
        return cls(
            services=services,
            network_time=state["network_time"],
            calm_intervals=state["calm_intervals"],
            hot_share=state.get("hot_share", 0.0),
            fullest=None if state.get("fullest") is None else tuple(state["fullest"]),
            wrong=state.get("wrong", 0),
            arrival_scv=state.get("arrival_scv"),
        )


def learn_services(
    belief: OperatorBelief, services: Sequence[ServiceMeasurement]
) -> OperatorBelief:
    """Return the belief with the service times of an interval: all of `update` but the network."""
    learned = dict(belief.services)
    for measured in services:
        if measured.records > 0 and measured.mean > 0:
            learned[measured.node_type] = _pool(learned.get(measured.node_type), measured)
    return replace(belief, services=learned)


def learn_hot_share(
    belief: OperatorBelief, records: Sequence[float], model: OperatorModel
) -> OperatorBelief:
    """Return the belief with how unevenly an interval's records came; one replica says nothing.

    Args:
        belief: What was learned before.
        records: Records that came to each replica; NaN anywhere teaches nothing.
        model: Says whether records come by key.
    """
    taken, size = sum(records), len(records)
    if model.key_groups is None or size < 2 or not taken >= ENOUGH_RECORDS:
        return belief
    even = math.ceil(model.key_groups / size) / model.key_groups
    excess = max(records) / taken - even
    if excess <= CHANCE * math.sqrt(even * (1 - even) / taken):
        excess = 0.0
    hot = excess / (1 - even)
    return replace(belief, hot_share=belief.hot_share + HOT_WEIGHT * (hot - belief.hot_share))


def learn_keys(belief: OperatorBelief, keys: KeyShares | None, max_replicas: int) -> OperatorBelief:
    """Return the belief with what was counted of its keys; `None` teaches nothing.

    What differs by less than `SAME_SHARE` at every parallelism is what was believed before, so that
    plans are not made anew for nothing.
    """
    if keys is None or keys.counted < ENOUGH_KEYS:
        return belief
    fullest, before = fullest_shares(keys, max_replicas), belief.fullest
    if before is not None and len(before) == len(fullest):
        changes = (abs(new - old) / old for new, old in zip(fullest, before, strict=True))
        if max(changes, default=0.0) < SAME_SHARE:
            return belief
    return replace(belief, fullest=fullest)


def without_network(believed: OperatorModel) -> OperatorModel:
    """Return the model with a network time of 0 that predicts the mean over records.

    What is measured, less its prediction, is the network time.
    """
    return replace(believed, network_time=0.0, aggregation=Aggregation.AVERAGE)


def note_error(belief: OperatorBelief, *, response_time: float, expected: float) -> OperatorBelief:
    """Return the belief with how long its model has been wrong; NaN anywhere changes nothing.

    Args:
        belief: What was learned before.
        response_time: Mean time in the operator, measured, s.
        expected: The same, s, of the model of that belief; `inf` changes nothing.
    """
    if not (math.isfinite(response_time) and math.isfinite(expected) and expected > 0):
        return belief
    direction = (response_time > WRONG * expected) - (response_time * WRONG < expected)
    before = belief.wrong if belief.wrong * direction > 0 else 0
    return replace(belief, wrong=before + direction)


def learn_arrival_scv(
    belief: OperatorBelief,
    model: OperatorModel,
    *,
    passed: float,
    utilisation: float,
    size: int,
    predict: Callable[[float], float],
) -> OperatorBelief:
    """Return the belief with arrivals that explain an interval, if its model is wrong for long.

    Args:
        belief: What `note_error` made of it.
        model: The operator as specified.
        passed: Mean time in the operator without the network time, measured, s.
        utilisation: Busy share of the worst replica, predicted.
        size: Replicas.
        predict: Returns what is predicted of `passed`, s, where arrivals have an SCV.
    """
    if not (abs(belief.wrong) >= WRONG_FOR and CALM <= utilisation < 1 and passed > 0):
        return belief
    if passed / WRONG <= predict(model.arrival_scv) <= passed * WRONG:
        return replace(belief, wrong=0, arrival_scv=None)
    # From 1 on at each replica, the wait is linear in the SCV of the arrivals.
    near, far = predict(size), predict(2 * size)
    scv = size * (1 + (passed - near) / (far - near))
    return replace(belief, wrong=0, arrival_scv=max(scv, 0.0))


def learn_network_time(
    belief: OperatorBelief, *, response_time: float, predicted: float, utilisation: float
) -> OperatorBelief:
    """Return the belief with the network time of an interval; NaN anywhere teaches nothing.

    Args:
        belief: What `learn_services` made of it.
        response_time: Mean time in the operator, measured, s.
        predicted: The same, s, predicted by the model `without_network` of that belief.
        utilisation: Busy share of the worst replica, 0 or more, predicted as well.
    """
    residual = response_time - predicted
    # Written so that NaN anywhere learns nothing.
    if not (utilisation < CALM and math.isfinite(residual)):
        return belief
    less = residual < belief.network_time
    weight = 1.0 if less else max(SLOWLY, 1 / (belief.calm_intervals + 1))
    network_time = belief.network_time + weight * (residual - belief.network_time)
    return replace(
        belief,
        network_time=max(network_time, 0.0),
        calm_intervals=belief.calm_intervals + 1,
    )


def believe(
    belief: OperatorBelief, model: OperatorModel, *, given: Collection[str]
) -> OperatorModel:
    """Return the model with everything in it that was measured.

    Args:
        belief: What was learned.
        model: The operator as specified; what was not measured stays as it is there.
        given: Names of the node types whose speedup the user gave.
    """
    node_types = model.node_types
    if any(node_type.name not in given for node_type in node_types):
        speedups = estimate_speedups(belief, node_types, given=given)
        node_types = tuple(
            node_type
            if node_type.name in given
            else replace(node_type, speedup=speedups[node_type.name])
            for node_type in node_types
        )
    mean, scv = model.service_mean, model.service_scv
    measured = _measured(belief, node_types)
    if measured:
        records = sum(moments.records for moments in measured.values())
        speed = {node_type.name: node_type.speedup for node_type in node_types}
        mean = sum(m.records * m.mean * speed[name] for name, m in measured.items()) / records
    by_rates = model.key_groups and belief.fullest is None
    varied = [m for m in measured.values() if not math.isnan(m.variance)]
    if varied:
        weight = sum(m.records for m in varied)
        scv = sum(m.records * m.variance / m.mean**2 for m in varied) / weight
    return replace(
        model,
        node_types=node_types,
        service_mean=mean,
        service_scv=scv,
        arrival_scv=model.arrival_scv if belief.arrival_scv is None else belief.arrival_scv,
        hot_share=belief.hot_share if by_rates and belief.hot_share >= HOT else 0.0,
        fullest=belief.fullest or () if model.key_groups else (),
        network_time=belief.network_time if belief.calm_intervals else model.network_time,
    )


def estimate_speedups(
    belief: OperatorBelief, node_types: Sequence[NodeType], *, given: Collection[str]
) -> dict[str, float]:
    """Return the speedup of every node type, by name.

    Args:
        belief: What was learned.
        node_types: Their `speedup` is what was given, or else assumed.
        given: Names of the node types whose speedup the user gave.
    """
    measured = _measured(belief, node_types)
    anchors = [name for name in measured if name in given] or list(measured)
    anchor = anchors[0] if anchors else None
    assumed = {node_type.name: node_type.speedup for node_type in node_types}
    estimates: dict[str, float] = {}
    for node_type in node_types:
        name = node_type.name
        if name in given:
            estimates[name] = assumed[name]
        elif anchor is not None and name in measured:
            estimates[name] = assumed[anchor] * measured[anchor].mean / measured[name].mean
    learned = {name: estimate / assumed[name] for name, estimate in estimates.items()}
    for node_type in node_types:
        if node_type.name not in estimates:
            siblings = [
                learned[other.name]
                for other in node_types
                if other.pool == node_type.pool and other.name in learned
            ]
            factor = sum(siblings) / len(siblings) if siblings else 1.0
            estimates[node_type.name] = node_type.speedup * factor
    return estimates


def _pool(before: ServiceMoments | None, new: ServiceMeasurement) -> ServiceMoments:
    """Return the moments with an interval's records added."""
    if before is None:
        return ServiceMoments(
            records=min(new.records, MEMORY), mean=new.mean, variance=new.variance
        )
    weight = new.records / (before.records + new.records)
    if math.isnan(new.variance) or math.isnan(before.variance):
        variance = before.variance if math.isnan(new.variance) else new.variance
    else:
        variance = before.variance + weight * (new.variance - before.variance)
    return ServiceMoments(
        records=min(before.records + new.records, MEMORY),
        mean=before.mean + weight * (new.mean - before.mean),
        variance=variance,
    )


def _measured(belief: OperatorBelief, node_types: Sequence[NodeType]) -> dict[str, ServiceMoments]:
    """Return the node types with enough records, in the order of the node types."""
    known = {
        node_type.name: belief.services[node_type.name]
        for node_type in node_types
        if node_type.name in belief.services
    }
    max_records = max((moments.records for moments in known.values()), default=0.0)
    min_records = ENOUGH_RECORDS if max_records >= ENOUGH_RECORDS else FIRST_RECORDS
    return {name: moments for name, moments in known.items() if moments.records >= min_records}
