"""The input of a fit: what was measured of a job, interval by interval, as values.

The caller decides where it was read (decision records, Prometheus, Parquet). NaN means that it
could not be measured; `cleaning` drops impossible values.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from weir_policies.model.estimation import ServiceMeasurement
from weir_policies.policy import ChangeKind


@dataclass(frozen=True, kw_only=True, slots=True)
class OperatorSample:
    """One operator in one interval."""

    deployment: Mapping[str, int]
    """Replicas by node type that ran during the whole interval."""
    arrived: float
    """Records/s that reached it, or would have if nothing upstream had been blocked."""
    taken: float
    """Records/s that it took in."""
    given: float = math.nan
    """Records/s that it gave out; needed where an operator behind it has several that feed it."""
    services: tuple[ServiceMeasurement, ...] = ()
    """Service times, one entry per node type or per replica; from the helper, or of busy time
    without a variance."""
    response_time: float = math.nan
    """Mean seconds in the operator, waiting, wire and service."""
    utilisation: tuple[float, ...] = ()
    """Busy share per replica, in [0, 1]."""

    @property
    def busiest(self) -> float:
        """Utilisation of the busiest replica; NaN where none is known."""
        return max((share for share in self.utilisation if not math.isnan(share)), default=math.nan)


@dataclass(frozen=True, kw_only=True, slots=True)
class IntervalSample:
    """The job in one interval."""

    time: float
    """Unix seconds of its end."""
    seconds: float
    """How long it was."""
    operators: Mapping[str, OperatorSample]
    """By name; one that was not measured may be left out."""
    response_time: float = math.nan
    """Mean seconds from source to sink, of the records that arrived."""
    disturbed: bool = False
    """Whether a change was under way, or its traces (cold code, a backlog) were not worked off:
    then only the arrivals are of use."""

    @property
    def measured(self) -> int:
        """Operators, and service times of each, that it holds: what it takes in memory."""
        return sum(1 + len(each.services) for each in self.operators.values())


@dataclass(frozen=True, kw_only=True, slots=True)
class ChangeSample:
    """One change of the deployment."""

    time: float
    """Unix seconds of its end."""
    kind: ChangeKind
    downtime: float = math.nan
    """Seconds without output; 0 for a resize."""
    provisioning: float = math.nan
    """Seconds until the added replicas were there; NaN where none was added."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Samples:
    """Everything that was measured of one job, oldest first."""

    intervals: tuple[IntervalSample, ...]
    changes: tuple[ChangeSample, ...] = field(default=())

    def since(self, time: float) -> Samples:
        """Return what ended after a Unix time, such as that from which on the job has drifted."""
        return replace(
            self,
            intervals=tuple(each for each in self.intervals if each.time > time),
            changes=tuple(each for each in self.changes if each.time > time),
        )
