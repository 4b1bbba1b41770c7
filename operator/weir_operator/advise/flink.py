"""Flink's REST interface of an external job: read only.

In addition to what Weir reads of its own clusters, it reads what a job without reporters provides:
`GET /jobs/:id/vertices/:id` has, for every subtask, records in and out and its busy, idle and
back-pressured times.

The JobManager collects these every 10 s (`metrics.fetcher.update-interval`), so an answer can be
that old. The answer shows its age: the three times of a task add up to the task's age when they
were collected. Verified on Flink 2.3.0; the fields exist since 1.16.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote

from weir_operator.errors import PermanentError
from weir_operator.flink.rest import FlinkRest
from weir_operator.limits import Json

_NO_CHECKPOINTS = 2**63 - 1
"""Interval that Flink shows of a job without periodic checkpoints, ms."""
_BEFORE_RUNNING = ("DEPLOYING", "INITIALIZING")
"""States of a subtask from its `start-time` until it runs."""
_QUERY_LIMIT = 3000
"""Characters of ids in one request; Flink's server takes a first line of 4096."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SubtaskCounters:
    """What one subtask has counted since it runs."""

    index: int
    records_in: float
    records_out: float
    busy_ms: float
    """NaN for a source of the old kind, which does not report it."""
    back_pressured_ms: float
    lag: float
    """Seconds between the counting and the answer; NaN if the task does not report it."""


SUCCEEDED = "SUCCEEDED"
"""Flink's reason of a rescale that ended with the job running."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FlinkRescale:
    """A rescale that Flink's adaptive scheduler made or gave up (FLIP-495)."""

    id: str
    started: float
    """Unix time, by the JobManager's clock."""
    reason: str
    """Why it ended, such as `SUCCEEDED`; empty while it goes on."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RescaleDetails:
    """What the history has of one rescale, on request."""

    stopped: float | None
    """Unix time at which the job stopped executing, by the same clock; `None` if it did not."""
    parallelism: Mapping[str, int]
    """That of each vertex afterwards; a vertex that has none yet is left out."""


class ExternalFlink(FlinkRest):
    """A client that sends nothing but GET."""

    def __init__(self, base_url: str) -> None:
        super().__init__(base_url, timeout=10.0, guard=_refuse_changes)

    async def configuration(self) -> dict[str, str]:
        """Return the JobManager's configuration, without what Flink hides."""
        return await self._ask(
            "GET",
            "/jobmanager/config",
            lambda answer: {str(each["key"]): str(each["value"]) for each in answer},
        )

    async def checkpoint_interval(self, job_id: str) -> float | None:
        """Return seconds between two checkpoints, `inf` without; `None` if Flink knows of none."""
        found = await self._find(
            f"/jobs/{job_id}/checkpoints/config", lambda answer: int(answer["interval"]), None
        )
        if found is None:
            return None
        return math.inf if found >= _NO_CHECKPOINTS else found / 1000

    async def requirements(self, job_id: str) -> dict[str, int]:
        """Return the parallelism that a job of the adaptive scheduler is to have, by vertex id."""
        return await self._ask(
            "GET",
            f"/jobs/{job_id}/resource-requirements",
            lambda answer: {
                str(vertex): int(each["parallelism"]["upperBound"])
                for vertex, each in answer.items()
            },
        )

    async def rescales(self, job_id: str) -> tuple[FlinkRescale, ...]:
        """Return the job's rescales that Flink remembers, since Flink 2.3.

        There are none where `web.adaptive-scheduler.rescale-history.size` is not set.
        """
        return await self._find(f"/jobs/{job_id}/rescales/history", read_rescales, ())

    async def rescale(self, job_id: str, rescale_id: str) -> RescaleDetails:
        """Return more of one of these rescales."""
        path = f"/jobs/{job_id}/rescales/details/{rescale_id}"
        return await self._ask("GET", path, read_rescale)

    async def ran_at(self, job_id: str, vertex_id: str) -> float:
        """Return when the last subtask of a vertex began to run, seconds of the same clock."""
        return await self._ask("GET", f"/jobs/{job_id}/vertices/{vertex_id}", read_run)

    async def counters(self, job_id: str, vertex_id: str) -> tuple[SubtaskCounters, ...]:
        """Return what the running subtasks of a vertex have counted."""
        return await self._ask("GET", f"/jobs/{job_id}/vertices/{vertex_id}", read_counters)

    async def metric_ids(self, job_id: str, vertex_id: str) -> tuple[str, ...]:
        """Return the ids of all metrics of a vertex, such as `0.Source__trips.pendingRecords`."""
        return await self._ask(
            "GET",
            f"/jobs/{job_id}/vertices/{vertex_id}/metrics",
            lambda answer: tuple(str(each["id"]) for each in answer),
        )

    async def metrics(self, job_id: str, vertex_id: str, ids: Sequence[str]) -> dict[str, float]:
        """Return the values of some metrics of a vertex; one that is gone is left out."""
        path = f"/jobs/{job_id}/vertices/{vertex_id}/metrics"
        found: dict[str, float] = {}
        for some in _in_short_queries(ids):
            found |= await self._ask("GET", f"{path}?get={some}", _read_values)
        return found


class ScaledFlink(FlinkRest):
    """A client that sets the parallelism that a job is to have, and triggers its checkpoints."""

    async def checkpoint(self, job_id: str) -> None:
        """Trigger a checkpoint; it goes on in the background."""
        await self._ask(
            "POST",
            f"/jobs/{job_id}/checkpoints",
            lambda answer: None,
            body={"checkpointType": "CONFIGURED"},
            what=f"a checkpoint of job {job_id}",
        )

    async def require(self, job_id: str, parallelism: Mapping[str, int]) -> None:
        """Ask the adaptive scheduler for a parallelism of every vertex, by vertex id.

        The lower bound is 1, as the Flink Kubernetes Operator's, which would otherwise correct it.
        """
        await self._ask(
            "PUT",
            f"/jobs/{job_id}/resource-requirements",
            lambda answer: None,
            body={
                vertex: {"parallelism": {"lowerBound": 1, "upperBound": number}}
                for vertex, number in parallelism.items()
            },
            what=f"another parallelism of job {job_id}",
        )


async def _refuse_changes() -> None:
    """Refuse: whatever the code above believes, an external job is not changed."""
    raise PermanentError(
        "Expected only GET requests to an external job, got another method: "
        "Weir only advises it, see spec.flink.ref"
    )


def read_rescales(answer: Json) -> tuple[FlinkRescale, ...]:
    """Read `GET /jobs/:id/rescales/history`, whose entries lack vertices and states."""
    return tuple(
        FlinkRescale(
            id=each["rescaleUuid"],
            started=each["startTimestampInMillis"] / 1000,
            reason=each["terminatedReason"] or "",
        )
        for each in answer
    )


def read_rescale(answer: Json) -> RescaleDetails:
    """Read `GET /jobs/:id/rescales/details/:id`."""
    stops = [
        float(each["enterTimestampInMillis"]) / 1000
        for each in answer["schedulerStates"]
        if each["state"] != "Executing"
    ]
    return RescaleDetails(
        stopped=min(stops, default=None),
        parallelism={
            vertex: each["postRescaleParallelism"]
            for vertex, each in answer["vertices"].items()
            if each["postRescaleParallelism"] is not None
        },
    )


def read_run(answer: Json) -> float:
    """Read from `GET /jobs/:id/vertices/:id` when its state was restored in the last subtask."""
    return max(
        float(each["start-time"] + sum(each["status-duration"][name] for name in _BEFORE_RUNNING))
        / 1000
        for each in answer["subtasks"]
    )


def read_counters(answer: Json) -> tuple[SubtaskCounters, ...]:
    """Read `GET /jobs/:id/vertices/:id`; a subtask that does not run has counted nothing."""
    return tuple(
        _read_subtask(subtask)
        for subtask in answer["subtasks"]
        if subtask["status"] == "RUNNING"
        and subtask["metrics"]["read-records-complete"]
        and subtask["metrics"]["write-records-complete"]
    )


def _read_subtask(answer: Json) -> SubtaskCounters:
    counted = answer["metrics"]
    busy, held = float(counted["accumulated-busy-time"]), counted["accumulated-backpressured-time"]
    age = answer["status-duration"]["RUNNING"]
    return SubtaskCounters(
        index=answer["subtask"],
        records_in=float(counted["read-records"]),
        records_out=float(counted["write-records"]),
        busy_ms=busy,
        back_pressured_ms=float(held),
        lag=max(0.0, age - busy - held - counted["accumulated-idle-time"]) / 1000
        if math.isfinite(busy)
        else math.nan,
    )


def _read_values(answer: Json) -> dict[str, float]:
    return {str(each["id"]): float(each["value"]) for each in answer if "value" in each}


def _in_short_queries(ids: Iterable[str]) -> Iterator[str]:
    """Yield the ids, escaped and joined, in as few requests as the server takes."""
    line = ""
    for escaped in (quote(each, safe="") for each in ids):
        if line and len(line) + len(escaped) > _QUERY_LIMIT:
            yield line
            line = ""
        line = f"{line},{escaped}" if line else escaped
    if line:
        yield line
