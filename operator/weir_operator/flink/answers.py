"""Values for the answers of Flink's REST interface, limited to what Weir uses. Pure.

Times are Unix seconds, durations seconds, sizes bytes. Flink uses milliseconds; the functions that
read its JSON convert them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from urllib.parse import urlsplit

from weir_operator.errors import PermanentError
from weir_operator.flink.causes import root_cause
from weir_operator.limits import MAX_VERTICES, Json

FINISHED = "FINISHED"
"""Status of a subtask that has come to its own end."""


class JobState(StrEnum):
    """State of a job, as Flink names it."""

    INITIALIZING = "INITIALIZING"
    CREATED = "CREATED"
    RUNNING = "RUNNING"
    FAILING = "FAILING"
    FAILED = "FAILED"
    CANCELLING = "CANCELLING"
    CANCELED = "CANCELED"
    FINISHED = "FINISHED"
    RESTARTING = "RESTARTING"
    SUSPENDED = "SUSPENDED"
    RECONCILING = "RECONCILING"

    @property
    def is_over(self) -> bool:
        """Whether the job has ended for good."""
        return self in (JobState.FAILED, JobState.CANCELED, JobState.FINISHED)


@dataclass(frozen=True, kw_only=True, slots=True)
class JobSummary:
    """One line of the list of jobs."""

    id: str
    name: str
    state: JobState
    started: float
    changed: float
    """When the job or one of its tasks last changed its state."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Vertex:
    """A job vertex: one or more chained operators."""

    id: str
    name: str
    parallelism: int
    max_parallelism: int
    tasks: Mapping[str, int]
    """Subtasks by status; statuses with none are left out."""
    records: float = field(default=math.nan, compare=False)
    """Records that its subtasks took from, or gave to, other vertices since the job was submitted,
    by their latest counts; NaN where one of them has not been counted yet."""

    @property
    def is_running(self) -> bool:
        """Whether every subtask runs, or has finished (a source without splits)."""
        return self.tasks.get("RUNNING", 0) + self.tasks.get(FINISHED, 0) == self.parallelism

    @property
    def has_ended(self) -> bool:
        """Whether every subtask has come to its own end."""
        return self.tasks.get(FINISHED, 0) == self.parallelism


@dataclass(frozen=True, kw_only=True, slots=True)
class Edge:
    """A stream between two vertices."""

    source: str
    target: str
    ship_strategy: str
    """`FORWARD`, `REBALANCE`, `RESCALE`, `HASH`, `BROADCAST`, `CUSTOM`, ..."""


@dataclass(frozen=True, kw_only=True, slots=True)
class JobDetails:
    """A job with its vertices in topological order."""

    id: str
    name: str
    state: JobState
    started: float
    runs_since: float
    """When it began to run, or was restarted last; 0 before."""
    vertices: tuple[Vertex, ...]
    edges: tuple[Edge, ...]

    @property
    def runs(self) -> bool:
        """Whether the job and every one of its subtasks run."""
        return (
            self.state is JobState.RUNNING
            and bool(self.vertices)
            and all(vertex.is_running for vertex in self.vertices)
        )

    @property
    def sources(self) -> tuple[Vertex, ...]:
        """The vertices that nothing flows into."""
        fed = {edge.target for edge in self.edges}
        return tuple(vertex for vertex in self.vertices if vertex.id not in fed)


@dataclass(frozen=True, kw_only=True, slots=True)
class Subtask:
    """One parallel instance of a vertex."""

    index: int
    status: str
    task_manager: str | None
    """Id of the TaskManager; `None` while none is assigned."""
    running_for: float = 0.0
    """Seconds since its present attempt began to run; 0 where it does not run."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskManager:
    """A TaskManager that is registered."""

    id: str
    slots: int
    extended_resources: Mapping[str, float]
    """External resources that it advertises, such as {"op-match": 1.0}."""
    managed_memory: int = 0
    """MiB of managed memory in its slots."""
    host: str = ""
    """Its address as Flink knows it; on Kubernetes the pod's IP."""
    cores: int = 0
    """Processors that its JVM sees."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SavepointProgress:
    """The state of a savepoint: in progress while both fields are `None`."""

    path: str | None = None
    """Where it is, once complete."""
    failure: str | None = None
    """Why there will be none, one line."""

    @property
    def in_progress(self) -> bool:
        """Whether Flink is still at it."""
        return self.path is None and self.failure is None


@dataclass(frozen=True, kw_only=True, slots=True)
class StateSnapshot:
    """A savepoint or checkpoint that a job can resume from."""

    path: str
    stopped: bool = False
    """It is the savepoint of a stop: the job ended with it."""
    seen_complete: bool = True
    """The JobManager saw it complete, so that the storage has nothing newer. False for what a new
    JobManager restored the job from: a savepoint that the old one completed may be newer."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Checkpoints:
    """The checkpoints of a job since it was submitted."""

    completed: int
    newest: StateSnapshot | None
    """The newest that this JobManager saw complete."""
    restored: str | None = None
    """Path of what the job was restored from when this JobManager took it over, if anything."""
    retained: tuple[str, ...] = ()
    """Paths of checkpoints, but no savepoints, that Flink has not deleted, oldest first."""


def read_jobs(answer: Json) -> tuple[JobSummary, ...]:
    """Read `GET /jobs/overview`."""
    return tuple(
        JobSummary(
            id=job["jid"],
            name=job["name"],
            state=JobState(job["state"]),
            started=job["start-time"] / 1000,
            changed=job["last-modification"] / 1000,
        )
        for job in answer["jobs"]
    )


def read_job(answer: Json) -> JobDetails:
    """Read `GET /jobs/:id`.

    Raises:
        PermanentError: The job has more vertices than Weir manages.
    """
    if len(answer["vertices"]) > MAX_VERTICES:
        raise PermanentError(
            f"Expected a job of at most {MAX_VERTICES:,} vertices, got "
            f"{len(answer['vertices']):,}; split the job"
        )
    return JobDetails(
        id=answer["jid"],
        name=answer["name"],
        state=JobState(answer["state"]),
        started=answer["start-time"] / 1000,
        runs_since=answer["timestamps"]["RUNNING"] / 1000,
        vertices=tuple(_read_vertex(vertex) for vertex in answer["vertices"]),
        # A job that failed before it had a graph has an empty plan, without nodes.
        edges=tuple(
            Edge(source=given["id"], target=node["id"], ship_strategy=given["ship_strategy"])
            for node in (answer.get("plan") or {}).get("nodes", ())
            for given in node.get("inputs", ())
        ),
    )


def _read_vertex(answer: Json) -> Vertex:
    return Vertex(
        id=answer["id"],
        name=answer["name"],
        parallelism=answer["parallelism"],
        max_parallelism=answer["maxParallelism"],
        tasks={status: count for status, count in answer["tasks"].items() if count},
        records=_read_records(answer.get("metrics") or {}),
    )


def _read_records(answer: Json) -> float:
    counted = answer.get("read-records-complete") and answer.get("write-records-complete")
    return float(answer["read-records"] + answer["write-records"]) if counted else math.nan


def read_subtasks(answer: Json) -> tuple[Subtask, ...]:
    """Read `GET /jobs/:id/vertices/:id`."""
    return tuple(
        Subtask(
            index=subtask["subtask"],
            status=subtask["status"],
            task_manager=_assigned(subtask.get("taskmanager-id")),
            running_for=(
                subtask.get("status-duration", {}).get("RUNNING", 0) / 1000
                if subtask["status"] == "RUNNING"
                else 0.0
            ),
        )
        for subtask in answer["subtasks"]
    )


def _assigned(task_manager: str | None) -> str | None:
    return None if task_manager in (None, "", "(unassigned)") else task_manager


def read_metric_names(answer: Json) -> tuple[str, ...]:
    """Read `GET /jobs/:id/vertices/:id/subtasks/metrics`."""
    return tuple(str(each["id"]) for each in answer)


def read_metric_sums(answer: Json) -> dict[str, float]:
    """Read the same with `get` and `agg=sum`."""
    return {str(each["id"]): float(each["sum"]) for each in answer}


def read_texts(answer: Json) -> tuple[str, ...]:
    """Read `GET /jobs/:id/vertices/:id/metrics` with `get`: the values, which may be texts."""
    return tuple(str(each["value"]) for each in answer)


def read_task_managers(answer: Json) -> tuple[TaskManager, ...]:
    """Read `GET /taskmanagers`."""
    return tuple(
        TaskManager(
            id=each["id"],
            slots=each["slotsNumber"],
            extended_resources={
                name: float(amount)
                for name, amount in each["totalResource"]["extendedResources"].items()
            },
            managed_memory=each["totalResource"]["managedMemory"],
            host=_host(each["path"]),
            cores=each["hardware"]["cpuCores"],
        )
        for each in answer["taskmanagers"]
    )


def _host(path: str) -> str:
    """Return the host in an actor's path, `pekko.tcp://flink@10.1.2.3:6122/user/...`."""
    return urlsplit(path.replace(".tcp", "", 1)).hostname or ""


def read_savepoint(answer: Json) -> SavepointProgress:
    """Read `GET /jobs/:id/savepoints/:trigger`."""
    if answer["status"]["id"] != "COMPLETED":
        return SavepointProgress()
    operation = answer["operation"]
    if "failure-cause" in operation:
        return SavepointProgress(failure=root_cause(operation["failure-cause"]["stack-trace"]))
    return SavepointProgress(path=operation["location"])


def read_disposal(answer: Json) -> SavepointProgress:
    """Read `GET /savepoint-disposal/:trigger`; a success has no path, so it is the empty one."""
    if answer["status"]["id"] != "COMPLETED":
        return SavepointProgress()
    failure = (answer["operation"] or {}).get("failure-cause")
    if failure is not None:
        return SavepointProgress(failure=root_cause(failure["stack-trace"]))
    return SavepointProgress(path="")


def read_checkpoints(answer: Json) -> Checkpoints:
    """Read `GET /jobs/:id/checkpoints`."""
    latest = answer["latest"]
    completed = [
        each
        for each in (latest["completed"], latest["savepoint"])
        if each and each["external_path"]
    ]
    newest = max(completed, key=lambda each: int(each["id"]), default=None)
    return Checkpoints(
        completed=answer["counts"]["completed"],
        newest=None
        if newest is None
        else StateSnapshot(
            path=newest["external_path"],
            stopped=newest.get("checkpoint_type") == "SYNC_SAVEPOINT",
        ),
        restored=(latest.get("restored") or {}).get("external_path"),
        retained=tuple(
            each["external_path"]
            for each in sorted(answer.get("history", ()), key=lambda each: int(each["id"]))
            if each.get("external_path") and not each["is_savepoint"] and not each["discarded"]
        ),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class JobFailure:
    """A failure of a job, after which Flink restarted it or gave it up."""

    time: float
    """Unix seconds."""
    cause: str
    """One line, with the task that it hit."""


def read_failures(answer: Json) -> tuple[JobFailure, ...]:
    """Read `GET /jobs/:id/exceptions`: all failures that Flink remembers, the newest first."""
    return tuple(
        JobFailure(time=each["timestamp"] / 1000, cause=_cause_of(each))
        for each in answer["exceptionHistory"]["entries"]
    )


def _cause_of(entry: Json) -> str:
    where = entry.get("taskName")
    cause = root_cause(entry["stacktrace"])
    return cause if where is None else f"{cause} (in {where})"
