"""The record of a run: written by the controller, shown by the live view and the reports.

One JSON object per line, with a `type`: `tick`, `rescale`, `event` and at the end `summary`. The
lines are the interface for programs (`weir local --json`); the live view and the HTML report read
the same values, so all of them agree.

JSON has no NaN and no infinity. A quantity that could not be measured is `null` there and NaN here;
an unlimited one (the response time of an operator that cannot keep up) is `"Infinity"`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, PlainSerializer, TypeAdapter

from weir_operator.metrics.keys import KeyReport
from weir_operator.runtime.protocol import Deployments


def _nan_where_null(value: object) -> object:
    return math.nan if value is None else value


def _null_where_nan(value: float) -> float | str | None:
    if math.isnan(value):
        return None
    return value if math.isfinite(value) else str(value).replace("inf", "Infinity")


Measured = Annotated[
    float,
    BeforeValidator(_nan_where_null),
    PlainSerializer(_null_where_nan, when_used="json"),
]
"""A number that may be unknown: NaN as a value, `null` in JSON."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Objective:
    """The bound on the response time."""

    bound: float
    """Seconds, source to sink."""
    statistic: str = "mean"
    """What of the response time the bound holds for: a field of `ResponseTime`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ResponseTime:
    """Source to sink over one interval, seconds."""

    mean: Measured
    p50: Measured
    p95: Measured
    p99: Measured

    def of(self, statistic: str) -> float:
        """Return one of the statistics by its name."""
        found: float = getattr(self, statistic)
        return found


@dataclass(frozen=True, kw_only=True, slots=True)
class OperatorTick:
    """One operator at one tick."""

    name: str
    replicas: Mapping[str, int]
    """What runs now."""
    rate: Measured
    """Records/s that arrive."""
    utilisation: Measured
    """Busy share of the worst replica, in [0, 1]."""
    response_time: Measured
    """Seconds, waiting plus service, mean over the interval."""
    budget: Measured
    """Seconds of response time that the operator may take."""
    predicted: Measured
    """Seconds that the decision expects of the deployment it chose (its target, or staying)."""
    policy: str
    reason: str
    """The last decision's, one sentence."""
    target: Mapping[str, int] | None = None
    """What the decision asked for; `None` where it stays."""
    verdict: str = ""
    """What became of the proposal (granted, denied, held), one sentence; empty where it stays."""
    keys: KeyReport | None = None
    """What is known of its keys; `None` where they are not counted."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TickRecord:
    """The application at the end of one control interval."""

    type: Literal["tick"] = "tick"
    app: str
    time: float
    """Unix seconds."""
    elapsed: float
    """Seconds since the run began."""
    mode: str
    objective: Objective
    rate: Measured
    """Records/s that arrive at the sources."""
    response_time: ResponseTime
    violated: bool | None
    """Whether the interval exceeded the bound; `None` where it could not be judged."""
    backlog: Measured
    """Records that wait at the sources."""
    cost_per_hour: Measured
    """In the currency of the manifest's prices, as everywhere here."""
    cost: Measured
    """Paid since the run began."""
    healthy: bool
    """Whether the metrics passed the data-quality gate."""
    problems: tuple[str, ...] = ()
    """What the gate found, one sentence each."""
    restarts: int
    """Rescales since the run began."""
    operators: tuple[OperatorTick, ...]
    """In the order of the dataflow."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """A step of a change, at the moment it was taken."""

    name: str
    """Such as `starting`, `savepoint`, `removing`, `submitting`, `verifying`."""
    time: float
    """Unix seconds."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RescaleRecord:
    """A change of the deployment, written at each step; the last one with an `id` counts."""

    type: Literal["rescale"] = "rescale"
    id: str
    kind: Literal["rescale", "resize"]
    started: float
    """Unix seconds."""
    finished: float | None
    """Unix seconds; `None` while it is going on."""
    before: Deployments
    after: Deployments
    """What was asked for, whether or not it came about."""
    outcome: str
    """Such as `running`, `done`, `rolledBack`, `abandoned`."""
    steps: tuple[Step, ...] = ()
    gap: float | None = None
    """Seconds without output; `None` where not measured."""
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class EventRecord:
    """Something that people should know, in addition to ticks and changes."""

    type: Literal["event"] = "event"
    time: float
    """Unix seconds."""
    level: Literal["info", "warning", "error"] = "info"
    message: str
    """One sentence."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RunSummary:
    """A whole run in numbers."""

    type: Literal["summary"] = "summary"
    app: str
    started: float
    """Unix seconds."""
    finished: float
    """Unix seconds."""
    intervals: int
    """Control intervals that could be judged."""
    violations: int
    violation_share: Measured
    """Of the intervals, in [0, 1]."""
    cost: Measured
    response_mean: Measured
    """Seconds, over the run."""
    response_p95: Measured
    """Seconds, over the run."""
    restarts: int
    resizes: int
    emitted: int | None = None
    """Records that left the sources; `None` where it cannot be proven, as in the next three."""
    received: int | None = None
    """Records that arrived at the sinks."""
    lost: int | None = None
    doubled: int | None = None
    gaps: tuple[float, ...] = ()
    """Seconds without output, one per restart where it was measured."""


Record = TickRecord | RescaleRecord | EventRecord | RunSummary

RECORDS: TypeAdapter[Record] = TypeAdapter(Annotated[Record, Field(discriminator="type")])
"""Reads and writes records."""


def to_json_line(record: Record) -> str:
    """Return the record as one line of JSON, without the line's end."""
    return RECORDS.dump_json(record).decode()


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordedRun:
    """What has been recorded of a run so far."""

    ticks: tuple[TickRecord, ...] = ()
    rescales: tuple[RescaleRecord, ...] = ()
    """The last record of each change, in order of their start."""
    events: tuple[EventRecord, ...] = ()
    summary: RunSummary | None = None

    def with_record(self, record: Record) -> RecordedRun:
        """Return the run with one more record."""
        match record:
            case TickRecord():
                return replace(self, ticks=(*self.ticks, record))
            case RescaleRecord():
                others = [known for known in self.rescales if known.id != record.id]
                changes = sorted((*others, record), key=lambda change: change.started)
                return replace(self, rescales=tuple(changes))
            case EventRecord():
                return replace(self, events=(*self.events, record))
            case RunSummary():
                return replace(self, summary=record)
