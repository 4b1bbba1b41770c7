"""What Flink's REST interface answers, as values; the parts that Weir uses and no more.

Times are Unix seconds, durations seconds, sizes bytes; Flink writes milliseconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

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


@dataclass(frozen=True, kw_only=True, slots=True)
class Vertex:
    """A job vertex: one or more chained operators."""

    id: str
    name: str
    parallelism: int
    max_parallelism: int
    slot_sharing_group: str | None
    """Flink's id of the group, not its name: equal for vertices that share slots."""
    tasks: Mapping[str, int]
    """Subtasks by status; statuses with none are left out."""

    @property
    def is_running(self) -> bool:
        """Whether every subtask runs, or has come to its own end (a source without splits)."""
        return self.tasks.get("RUNNING", 0) + self.tasks.get(FINISHED, 0) == self.parallelism


@dataclass(frozen=True, kw_only=True, slots=True)
class Edge:
    """A stream between two vertices."""

    source: str
    target: str
    ship_strategy: str
    """`FORWARD`, `REBALANCE`, `RESCALE`, `HASH`, `BROADCAST`, `CUSTOM`, ..."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """A job with its vertices in topological order."""

    id: str
    name: str
    state: JobState
    started: float
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


@dataclass(frozen=True, kw_only=True, slots=True)
class Subtask:
    """One parallel instance of a vertex."""

    index: int
    status: str
    task_manager: str | None
    """Id of the TaskManager; `None` while none is assigned."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskManager:
    """A TaskManager that is registered."""

    id: str
    slots: int
    free_slots: int
    extended_resources: Mapping[str, float]
    """External resources that it advertises, such as {"op-match": 1.0}."""
    managed_memory: int = 0
    """MiB of managed memory in its slots."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SavepointProgress:
    """Where a savepoint stands: in progress while both fields are `None`."""

    path: str | None = None
    """Where it is, once complete."""
    failure: str | None = None
    """Why there will be none, one line."""

    @property
    def in_progress(self) -> bool:
        """Whether Flink is still at it."""
        return self.path is None and self.failure is None


@dataclass(frozen=True, kw_only=True, slots=True)
class Checkpoint:
    """The newest completed checkpoint of a job."""

    id: int
    path: str | None
    """External path; `None` where it was not retained."""
    completed: float
    duration: float
    state_size: int
    """Bytes of state that it refers to in full, uploaded or not."""
    is_savepoint: bool
    stopped: bool = False
    """It is the savepoint of a stop: the job ended with it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Checkpoints:
    """The checkpoints of a job since it was submitted."""

    completed: int
    failed: int
    in_progress: int
    newest: Checkpoint | None
    """The newest that this JobManager saw complete."""
    restored: str | None = None
    """Path of what the job was restored from when this JobManager took it over, if anything."""
    retained: tuple[str, ...] = ()
    """Paths of checkpoints, but no savepoints, that Flink has not deleted, oldest first."""
