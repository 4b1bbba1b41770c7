"""Which of Flink's metrics a series is, whatever reporter wrote it.

Flink's Prometheus reporter, its push to a gateway, and OpenTelemetry's way to Prometheus name a
metric by its logical scope (`flink_taskmanager_job_task_numRecordsIn`, with `_total` behind it or
not) and put the job, the vertex and the subtask into labels. Others (Graphite's and StatsD's
exporters, JMX rules) rename the labels, or write the scope into the name: `HOST_taskmanager_TM_JOB_
VERTEX_SUBTASK_numRecordsIn`. The latter can be taken apart only where the job's name is known.

Busy time exists for vertices alone, so an operator of a flattened name is told from a vertex by it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum


class Role(StrEnum):
    """What a series tells, by Flink's name of the metric."""

    RECORDS_IN = "numRecordsIn"
    RECORDS_OUT = "numRecordsOut"
    BUSY = "accumulateBusyTimeMs"
    BLOCKED = "accumulateBackPressuredTimeMs"
    RATE_IN = "numRecordsInPerSecond"
    RATE_OUT = "numRecordsOutPerSecond"
    BUSY_SHARE = "busyTimeMsPerSecond"
    BLOCKED_SHARE = "backPressuredTimeMsPerSecond"
    PENDING = "pendingRecords"
    SOURCE_IN = "operator numRecordsIn"
    """Of the operators within a vertex: what a source reads is counted nowhere else."""
    LATENCY = "operator_subtask_index_latency"
    """Of latency markers, milliseconds since the source."""


GIVEN = (Role.RECORDS_OUT, Role.RATE_OUT)
"""Of every subtask that runs, whatever the reporter."""
COUNTERS = frozenset({Role.RECORDS_IN, Role.RECORDS_OUT, Role.BUSY, Role.BLOCKED, Role.SOURCE_IN})
SUBSTITUTES: Mapping[Role, Role] = {
    Role.RECORDS_IN: Role.RATE_IN,
    Role.RECORDS_OUT: Role.RATE_OUT,
    Role.BUSY: Role.BUSY_SHARE,
    Role.BLOCKED: Role.BLOCKED_SHARE,
}
"""Averages over a minute, which older versions have alone; taken where a counter is missing."""

_JOB = ("job_name", "jobName", "flink_job_name")
_JOB_ID = ("job_id", "jobId", "flink_job_id")
_VERTEX = ("task_id", "taskId", "vertex_id")
_VERTEX_NAME = ("task_name", "taskName", "task", "vertex_name", "flink_task_name")
_SUBTASK = (
    "subtask_index",
    "subtaskIndex",
    "subtask",
    "flink_subtask_index",
    "operator_subtask_index",
)
_OPERATOR = ("operator_name", "operatorName", "operator", "operator_id", "operatorId")
_ATTEMPT = ("task_attempt_id", "task_attempt_num", "taskAttemptId", "taskAttemptNum")
_TASK_MANAGER = ("tm_id", "tmId", "flink_taskmanager_id", "pod", "host", "instance")
JOB_LABELS = (*_JOB, *_JOB_ID)
"""Labels that may name a job, the usual ones first."""
QUANTILE = "0.5"
"""The only quantile of the latency markers that is read."""

_NAMES: Mapping[str, Role] = {
    role.value.lower(): role for role in Role if role is not Role.SOURCE_IN
}
PATTERN = f"(.*[_.:])?({'|'.join(_NAMES)})(_total|_rate)?"
"""Names of all series that are read, lower case: some stores write them so."""
_NAME = re.compile(PATTERN, re.IGNORECASE)


@dataclass(frozen=True, kw_only=True, slots=True)
class Metric:
    """One series, understood."""

    role: Role
    job: str
    """Name of the job; empty where the series has none."""
    job_id: str
    vertex: str
    """Id of the vertex, its name where it has no id; of a latency the operator's."""
    vertex_name: str
    subtask: int
    part: str
    """The operator within the vertex; empty at the vertex' own series."""
    run: tuple[str, ...]
    """What is different after a restart."""
    task_manager: str


def is_wanted(name: str) -> bool:
    """Return whether a series of this name may be one that is read."""
    return _NAME.fullmatch(name) is not None


def promql_pattern(roles: Iterable[Role]) -> str:
    """Return a regular expression for the names of series of these roles, as PromQL takes it."""
    words = sorted({role.value.rpartition(" ")[2] for role in roles})
    either = "|".join(words)
    return f"(.*[_:])?({either}|{either.lower()})(_total|_rate)?"


def read_metric(name: str, labels: Mapping[str, str], *, job: str = "") -> Metric | None:
    """Return what a series is; `None` where it is nothing that an estimate reads.

    Args:
        name: Of the series.
        labels: Of the series, without `__name__`.
        job: Name of the job, to take names apart that have the scope in them.
    """
    found = _NAME.fullmatch(name)
    if found is None:
        return None
    scope = found[1] or ""
    role: Role = _NAMES[found[2].lower()]
    if role is Role.LATENCY:
        if labels.get("quantile") != QUANTILE or not _first(labels, _OPERATOR):
            return None
        place = _first(labels, _OPERATOR), ""
    else:
        place = _first(labels, _VERTEX), _first(labels, _VERTEX_NAME)
    part = _first(labels, _OPERATOR) if "operator" in scope.lower() else ""
    subtask, job_name = _first(labels, _SUBTASK) or "0", _first(labels, _JOB)
    manager = _first(labels, _TASK_MANAGER)
    if not any(place):
        flat = re.fullmatch(
            rf"(?P<tm>.*)[_.]{re.escape(job)}[_.](?P<vertex>.+)[_.](?P<subtask>\d+)[_.]", scope
        )
        if not job or flat is None:
            return None
        place, subtask, manager, job_name = ("", flat["vertex"]), flat["subtask"], flat["tm"], job
    if role is Role.RECORDS_IN and part:
        role = Role.SOURCE_IN
    elif part and role is not Role.PENDING and role is not Role.LATENCY:
        return None
    if not subtask.isdecimal():
        return None
    job_id = _first(labels, _JOB_ID)
    return Metric(
        role=role,
        job=job_name,
        job_id=job_id,
        vertex=place[0] or place[1],
        vertex_name=place[1] or place[0],
        subtask=int(subtask),
        part=part,
        run=(job_id, *(labels.get(each, "") for each in _ATTEMPT), manager),
        task_manager=manager,
    )


def _first(labels: Mapping[str, str], names: Iterable[str]) -> str:
    return next((labels[name] for name in names if labels.get(name)), "")
