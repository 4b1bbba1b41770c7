"""Which TaskManager serves which operator, and what was measured of them: plain values.

The layout is what Weir believes to run; the window is what was scraped. Measuring compares the two,
so it notices a replica that should report and does not.

Rates are records/s, times seconds, shares of time in [0, 1], NaN where something is not known:
nothing that is missing is ever 0.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from weir_operator.runtime.protocol import Replica
from weir_policies.model.dataflow import Dataflow
from weir_policies.model.estimation import ServiceMeasurement
from weir_policies.model.objective import Statistic


@dataclass(frozen=True, kw_only=True, slots=True)
class JobLayout:
    """The operators of the job that runs now, and their replicas."""

    job_id: str
    """Flink's id of the present run; every rescale makes a new one."""
    flow: Dataflow
    replicas: Mapping[str, tuple[Replica, ...]]
    """By operator; each runs one subtask of every vertex of its operator."""
    entries: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Flink vertex ids that take in what comes from other operators (at a source: from outside), of
    operators that have several vertices; of others every vertex counts."""
    exits: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Flink vertex ids whose records leave the operator, of the same operators."""
    drained: frozenset[str] = frozenset()
    """Replicas whose task that takes records in has come to its own end, and Flink says so: that
    they send no samples is no fault, and they take in nothing."""

    def is_source(self, operator: str) -> bool:
        """Return whether no other operator feeds it."""
        return not self.flow.into(operator)


class ServiceFrom(StrEnum):
    """The source of a service time."""

    HELPER = "helper"
    """The Java helper's counters: mean and variance."""
    AGENT = "agent"
    """The agent's gauges: mean and variance over the whole chain, of a sample of records."""
    BUSY_TIME = "busyTime"
    """Flink's busy time per record: mean only, framework overhead included."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ReplicaMeasurement:
    """One replica of one operator."""

    tm_id: str
    """`Replica.id`."""
    node_type: str
    last_sample: float
    """Unix seconds of the newest sample of its task; NaN where it sent none of this job."""
    span: float
    """Seconds between the first and last sample that `processed_rate` averages over."""
    processed_rate: float
    """Records/s taken in (at a source that counts no input: given out)."""
    emitted_rate: float
    utilisation: float
    """Busy share of its busiest task."""
    back_pressure: float
    """Share of time that its most blocked task waited for room downstream."""
    service_mean: float
    service_variance: float
    """s^2; NaN unless helper or agent counts."""
    service_from: ServiceFrom | None
    """`None` where the service time is unknown."""
    served: float
    """Records that `service_mean` averages over."""
    gc_share: float
    """Share of time that its JVM spent collecting garbage."""
    poisoned: tuple[str, ...]
    """Required series that held NaN or infinity after a number."""

    @property
    def reports(self) -> bool:
        """Whether there are enough samples for a rate."""
        return self.span > 0


Arrivals = tuple[tuple[float, float], ...]
"""Rates of arrival, records/s, each with the Unix time since when it was so, oldest first."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PartitionMeasurement:
    """One partition of a source, and the reader that has it."""

    name: str
    """Topic and number, such as `orders-3`."""
    reader: str
    """`tm_id` of the replica that reads it."""
    rate: float
    """Records/s by which its offset rises; NaN where that is unknown."""
    waiting: float
    """Records that wait for the reader, those of its other partitions included; NaN where it
    reports none."""


@dataclass(frozen=True, kw_only=True, slots=True)
class OperatorMeasurement:
    """One operator, all its replicas together."""

    name: str
    replicas: tuple[ReplicaMeasurement, ...]
    """One per replica of the layout, in its order, whether or not it reports."""
    arrival_rate: float
    """Records/s that would reach it if nothing upstream were blocked."""
    processed_rate: float
    emitted_rate: float
    selectivity: float
    """Records given out per record taken in."""
    service_mean: float
    """Over all records served, so it mixes node types; fit speeds from the replicas."""
    back_pressure: float
    """Of the worst replica."""
    queue_records: float
    """Records that wait, by Little's law from the response time; behind a source this holds those
    that still wait at the source."""
    response_time: float
    """Waiting plus service, mean. The first operator behind a source also bears the wait at the
    source and on the wire; NaN at the source itself."""
    backlog: float
    """Records pending outside at a source; NaN where it reports none, and at other operators."""
    backlog_growth: float
    """Records/s by which `backlog` grew."""
    source_wait: float
    """Seconds that records had waited when a source read them, mean. 0 where the source reports no
    backlog, and at other operators."""
    arrivals: Arrivals
    """At a source, as far back as the oldest record that waits; empty at other operators."""
    upstream_backlog: float
    """Of the records that wait at sources upstream, how many will reach it; 0 at a source, NaN
    where one of those sources reports no backlog."""
    splits: float = math.nan
    """Parts of its input that a source shares among its replicas, such as partitions: more replicas
    would have nothing to read. NaN where it does not say, and at other operators."""
    partitions: tuple[PartitionMeasurement, ...] = ()
    """Of a source of Kafka."""
    intervals_behind: int = 0
    """Intervals in a row in which a source fell behind with time to spare."""
    max_read_rate: float = math.nan
    """Records/s, the most that one replica of a slow source has been seen to read; NaN until the
    source counts as slow."""

    @property
    def expected(self) -> int:
        """How many replicas should report."""
        return len(self.replicas)

    @property
    def services(self) -> tuple[ServiceMeasurement, ...]:
        """Service times of the replicas that served something."""
        return tuple(
            ServiceMeasurement(
                node_type=replica.node_type,
                records=replica.served,
                mean=replica.service_mean,
                variance=replica.service_variance,
            )
            for replica in self.replicas
            if replica.served > 0
        )

    @property
    def utilisation(self) -> tuple[float, ...]:
        """Busy share per replica, in the order of the layout."""
        return tuple(replica.utilisation for replica in self.replicas)


@dataclass(frozen=True, kw_only=True, slots=True)
class SinkMeasurement:
    """Source to sink, as records arrived at one sink (or at all of them)."""

    throughput: float
    """Records/s that arrived."""
    mean: float
    """Seconds since the record's event time."""
    quantiles: Mapping[str, float]
    """Seconds, by the names of `QUANTILES`, interpolated between bucket bounds; `inf` beyond the
    last finite bound."""

    def take(self, statistic: Statistic) -> float:
        """Return a statistic of the response time, seconds."""
        return self.mean if statistic is Statistic.MEAN else self.quantiles[statistic.word]


@dataclass(frozen=True, kw_only=True, slots=True)
class AppMeasurement:
    """Everything measured of one run of a job in [start, end], Unix seconds."""

    job_id: str
    start: float
    end: float
    newest: float
    """Unix seconds of the newest sample of this job; NaN where there is none."""
    operators: Mapping[str, OperatorMeasurement]
    sources: tuple[str, ...]
    """Of the operators, those that no other one feeds."""
    sinks: Mapping[str, SinkMeasurement]
    end_to_end: SinkMeasurement
    """All sinks together."""
    backlog: float
    """Records pending at all sources that report it; NaN where none does."""

    @property
    def source_wait(self) -> float:
        """Seconds that records wait at the source where they wait longest."""
        return max((self.operators[name].source_wait for name in self.sources), default=0.0)

    def arrivals_as_if_set(self, seconds: float) -> dict[str, Arrivals]:
        """Return what arrived at each source so far, by a clock that was set by so many seconds."""
        return {
            name: tuple((start + seconds, rate) for start, rate in each.arrivals)
            for name, each in self.operators.items()
            if each.arrivals
        }
