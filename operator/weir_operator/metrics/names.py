"""The series that Weir reads, so that a source transfers no others.

A TaskManager's reporter offers about 300 series, of which a decision needs about twenty. Both
sources ask only for these names. Names are those of Flink 2.3 (`flink_<scope>_<metric>`), of the
Java helper, whose counters are in the operator scope, and of the agent, whose gauges are in the
task scope. A series that a StreamApp may lack is optional: without it, a value is NaN.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

APP_LABEL = "weir_app"
"""Label of the StreamApp: on a reporter's page as Flink mangles it, on the targets of a Prometheus
server as `namespace/name`, which no other StreamApp has."""

TASK = "flink_taskmanager_job_task_"
OPERATOR = f"{TASK}operator_"

UP = "up"
"""1 where the last scrape of a target succeeded, 0 where not; made by the source, not by Flink."""

RECORDS_IN = f"{TASK}numRecordsIn"
RECORDS_OUT = f"{TASK}numRecordsOut"
BUSY_MS = f"{TASK}accumulateBusyTimeMs"
BACK_PRESSURED_MS = f"{TASK}accumulateBackPressuredTimeMs"
LATENCY_MARKER = f"{TASK}latency_source_id_operator_id_operator_subtask_index_latency"
"""Milliseconds from the source to the entry of an operator, by `quantile`."""
MARKER_QUANTILE = "0.5"
"""The only quantile of the markers that is read; sources leave the others out."""

OPERATOR_RECORDS_IN = f"{OPERATOR}numRecordsIn"
PENDING_RECORDS = f"{OPERATOR}pendingRecords"
"""Records that wait in the source's outside system (FLIP-33)."""
PARTITION_OFFSET = f"{OPERATOR}KafkaSourceReader_topic_partition_currentOffset"
"""One for each partition that a reader of Kafka was given."""

SERVICE_N = f"{OPERATOR}weir_service_n"
SERVICE_US = f"{OPERATOR}weir_service_us_sum"
SERVICE_US2 = f"{OPERATOR}weir_service_us2_sum"
TASK_SERVICE_N = f"{TASK}weir_service_n"
TASK_SERVICE_US = f"{TASK}weir_service_us_sum"
TASK_SERVICE_US2 = f"{TASK}weir_service_us2_sum"
"""The agent's, of records that it timed, which need not be all."""
TASK_OTHER_US = f"{TASK}weir_other_us_sum"
"""The agent's, of work that belongs to no record: watermarks, timers."""
TASK_AGE_N = f"{TASK}weir_age_n"
TASK_AGE_US = f"{TASK}weir_age_us_sum"
"""The agent's: records that a task took in, and their age by the latency markers among them."""
AGE_N = f"{OPERATOR}weir_age_n"
AGE_US = f"{OPERATOR}weir_age_us_sum"
"""Age of records, since their event time, when the operator took them in."""
LATENCY_N = f"{OPERATOR}weir_latency_n"
LATENCY_US = f"{OPERATOR}weir_latency_us_sum"
LATENCY_BUCKET = f"{OPERATOR}le_weir_latency_bucket"
"""Records no later than the label `le`, milliseconds; cumulative, `LATENCY_N` being the last."""

GC_MS = "flink_taskmanager_Status_JVM_GarbageCollector_All_Time"

REQUIRED = (RECORDS_IN, RECORDS_OUT, BUSY_MS)
"""What every task reports in any job; a value here that is no number makes the sample bad."""

NAMES = frozenset(
    {
        *REQUIRED,
        BACK_PRESSURED_MS,
        LATENCY_MARKER,
        OPERATOR_RECORDS_IN,
        PENDING_RECORDS,
        PARTITION_OFFSET,
        SERVICE_N,
        SERVICE_US,
        SERVICE_US2,
        TASK_SERVICE_N,
        TASK_SERVICE_US,
        TASK_SERVICE_US2,
        TASK_OTHER_US,
        TASK_AGE_N,
        TASK_AGE_US,
        AGE_N,
        AGE_US,
        LATENCY_N,
        LATENCY_US,
        LATENCY_BUCKET,
        GC_MS,
    }
)
"""Everything that Weir reads from Flink's reporters."""

LABELS = (
    APP_LABEL,
    "weir_operator",
    "weir_pool",
    "tm_id",
    "job_id",
    "task_id",
    "task_attempt_id",
    "task_attempt_num",
    "subtask_index",
    "operator_id",
    "operator_subtask_index",
    "source_id",
    "topic",
    "partition",
    "group",
    "quantile",
    "le",
)
"""Labels of a page that are read, or by which two series of one name differ. Names of a job, a
task, an operator and a host only repeat what an id says."""

GROUP = "group"
"""Label that Weir gives to a series of a connector's own group, with what tells the groups of one
function apart: a source of several Kafka clusters (`DynamicKafkaSource`) has one for each."""
NESTED = f"{OPERATOR}[a-zA-Z0-9_]+_(pendingRecords|KafkaSourceReader_topic_partition_currentOffset)"
"""Pattern of the names that `PENDING_RECORDS` and `PARTITION_OFFSET` have below such groups."""
_NESTED = re.compile(NESTED)


def read_name(name: str, labels: Mapping[str, str]) -> tuple[str, Mapping[str, str]]:
    """Return a series' name and labels; of one below a connector's group, as without the group.

    A group with a value has a label of its own, whose name is part of the series' name.
    """
    found = None if name in NAMES else _NESTED.fullmatch(name)
    if found is None:
        return name, labels
    groups = name[len(OPERATOR) - 1 : -len(found[1])]
    values = (f"{key}={labels[key]}" for key in sorted(labels) if f"_{key}_" in groups)
    return f"{OPERATOR}{found[1]}", {**labels, GROUP: ",".join(values)}


_MANGLED = re.compile(r"[^a-zA-Z0-9:_]")


def mangle(value: str) -> str:
    """Return a label's value as Flink's Prometheus reporter writes it, `a-0` as `a_0`."""
    return _MANGLED.sub("_", value)
