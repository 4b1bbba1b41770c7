"""The series that history uses: names of Flink and of the Java helper, and the purpose of each.

A TaskManager reports about 300 series; only these are exported. Names are those of Flink 2.3
(`flink_<scope>_<metric>`); a test compares them with those that the controller reads.
"""

from __future__ import annotations

from collections.abc import Mapping

_TASK = "flink_taskmanager_job_task_"
_OPERATOR = f"{_TASK}operator_"

RECORDS_IN = "records_in"
RECORDS_OUT = "records_out"
BUSY = "busy_ms"
IDLE = "idle_ms"
BLOCKED = "blocked_ms"
PENDING = "pending"
SERVICE_N = "service_n"
SERVICE_US = "service_us"
SERVICE_US2 = "service_us2"
LATENCY_N = "latency_n"
LATENCY_US = "latency_us"

METRICS: Mapping[str, str] = {
    RECORDS_IN: f"{_TASK}numRecordsIn",
    RECORDS_OUT: f"{_TASK}numRecordsOut",
    BUSY: f"{_TASK}accumulateBusyTimeMs",
    IDLE: f"{_TASK}accumulateIdleTimeMs",
    BLOCKED: f"{_TASK}accumulateBackPressuredTimeMs",
    PENDING: f"{_OPERATOR}pendingRecords",
    SERVICE_N: f"{_OPERATOR}weir_service_n",
    SERVICE_US: f"{_OPERATOR}weir_service_us_sum",
    SERVICE_US2: f"{_OPERATOR}weir_service_us2_sum",
    LATENCY_N: f"{_OPERATOR}weir_latency_n",
    LATENCY_US: f"{_OPERATOR}weir_latency_us_sum",
}
"""Name of the series by its role."""

ROLES: Mapping[str, str] = {name: role for role, name in METRICS.items()}
"""Role by the series' name."""

COUNTERS = (RECORDS_IN, RECORDS_OUT, SERVICE_N, SERVICE_US, SERVICE_US2, LATENCY_N, LATENCY_US)
"""They only rise: a fall is a restart."""

STATES = (BUSY, IDLE, BLOCKED)
"""A task's time, in one of three states. Flink computes the first as what is left of the elapsed
time, so that the three together are the task's own clock; each alone may run back a little."""

GAUGES = (PENDING,)
