"""The protocol between Weir and the place where Flink's processes run: local processes, or pods.

A runtime owns only processes: it starts and ends the JobManager and TaskManagers of one StreamApp
and sizes them. What runs in them (jobs, savepoints) is reached through `FlinkRest`, the same for
every runtime.

Every method is idempotent and level-based: a controller that died half-way calls it again. Each
has its own time limit and raises `TemporaryError` past it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from weir_operator.runtime.revision import AgentImage, Revision

Deployments = Mapping[str, Mapping[str, int]]
"""Replicas of each operator by node type (`pool/size`), such as {"match": {"small/250m": 2}}."""

CheckProgram = Callable[[str, str], Awaitable[None]]
"""Checks a revision's program: called with the REST address of a JobManager that can run it, and
with the id of the job's jar there. Raises `PermanentError` if the job cannot run, and
`TemporaryError` where that is not known yet."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ReplicaSpec:
    """A replica as it is wanted."""

    operator: str
    pool: str
    size: str
    """A size of the pool, as the StreamApp writes it, such as `250m`."""
    avoid: tuple[str, ...] = ()
    """Nodes that it must not run on; without nodes, of no meaning."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Replica:
    """A TaskManager that exists, whether or not Flink knows it yet."""

    id: str
    """`taskmanager.resource-id`; on Kubernetes the pod's name."""
    operator: str
    pool: str
    size: str
    started: float
    """Unix time at which it was started."""
    metrics_url: str
    """Where its Prometheus reporter listens; empty while it has no address yet."""
    pending: str = ""
    """Why no node has taken it yet, one sentence; empty once it runs."""
    terminating: str = ""
    """Why it is about to go (its node is drained, a spot notice), one sentence; else empty."""
    evicted: bool = False
    """Whether it is already ending, has been replaced, and only works on until its operator was
    moved: it counts as a replica that exists, but not as one of those that are wanted."""
    revision: str = ""
    """Id of the revision that it was made of; empty where that does not matter."""
    place: str = ""
    """`Revision.place_id` that it was made with; empty where that does not matter."""
    node: str = ""
    """Name of the node that it runs on; empty while it has none, and on one machine."""
    process: str = ""
    """Which process it is, where a lost one is started again under its id; empty where it is not
    known, or no id is used twice."""
    ended: str = ""
    """Why the process before this one ended, in few words; empty where there was none."""

    @property
    def node_type(self) -> str:
        """Name of its node type."""
        return f"{self.pool}/{self.size}"


class Runtime(Protocol):
    """Where one StreamApp's JobManager and TaskManagers live."""

    @property
    def rest_url(self) -> str:
        """Flink's REST address, such as `http://127.0.0.1:34567`, without a final slash."""
        ...

    @property
    def job_manager_process(self) -> str:
        """Which process the JobManager was when it was last ensured; empty if unknown."""
        ...

    @property
    def listed_within(self) -> float:
        """Seconds after which the storage lists what was written to it; 0 where it does at once."""
        ...

    @property
    def agent(self) -> AgentImage | None:
        """Where pods of a new revision get Weir's agent from; `None` without, and on one machine.

        Those of a revision that names another one get it from there.
        """
        ...

    def use(self, revision: Revision) -> None:
        """Make what is started from now on of `revision`; touches nothing that runs.

        `ensure_job_manager` replaces a JobManager of another revision. TaskManagers of another one
        go on: `replicas` lists them.
        """
        ...

    async def find_misfit(
        self, revision: Revision, pools: Collection[str], check: CheckProgram | None = None
    ) -> str:
        """Return why a job of `revision` would not run now, one sentence; empty if none is known.

        Args:
            revision: What the job is to be made of.
            pools: Where its replicas are to run.
            check: Called with a JobManager that has the revision's program; `None` looks only at
                what costs nothing and may change at any moment, such as nodes.
        """
        ...

    async def begin_job_manager(self) -> None:
        """Begin to replace a JobManager of another revision; `ensure_job_manager` waits for it.

        After that nothing of the other revision answers any more, and TaskManagers that are
        started register with the new one alone.

        Raises:
            PodsPendingError: No node has room for the new JobManager.
            TemporaryError: It gets no node in time, or the old one is not gone.
        """
        ...

    async def ensure_job_manager(self) -> bool:
        """Start the JobManager where none runs, wait for REST; return whether it was started.

        True means that a session that was running before is gone: jobs must be submitted again.
        """
        ...

    async def replicas(self) -> tuple[Replica, ...]:
        """Return the TaskManagers that are alive now, ordered by id."""
        ...

    async def start(self, wanted: Sequence[ReplicaSpec]) -> tuple[str, ...]:
        """Start one TaskManager per spec, return their ids; does not wait for registration.

        Raises:
            PodsPendingError: They cannot be made at all now, as where a quota is used up.
        """
        ...

    async def prepare_stop(self, ids: Sequence[str]) -> None:
        """Get ready to end these TaskManagers, so that `stop` takes no longer than it must.

        Touches nothing that runs, and binds nobody: they may go on, and others be ended.
        """
        ...

    async def end_boosts(self) -> None:
        """Give what has more CPU while it starts its size again; called once a change has ended."""
        ...

    async def stop(self, ids: Sequence[str]) -> None:
        """End these TaskManagers and wait until they are gone; unknown ids are already gone."""
        ...

    async def resize(self, sizes: Mapping[str, str]) -> None:
        """Give replicas (by id) another size of their pool, in place.

        Raises:
            ResizeRefusedError: The node cannot give it; nothing was changed.
        """
        ...

    async def provide_jar(self) -> str:
        """Return the id under which the JobManager has the job's jar, uploaded where it must be."""
        ...

    async def snapshots(self, job_id: str) -> tuple[str, ...]:
        """Return the job's complete savepoints and checkpoints in the storage, oldest first.

        Asked where Flink does not know them any more, so it looks at the storage itself.

        Raises:
            TemporaryError: The storage cannot be read now; what it holds is unknown.
            PermanentError: It cannot be read without a change by a person.
        """
        ...

    async def savepoint_stopped_job(self, path: str) -> bool | None:
        """Return whether a savepoint was taken to stop its job; `None` where it does not say.

        Raises:
            TemporaryError: It cannot be read now.
            PermanentError: It cannot be read without a change by a person.
        """
        ...

    async def remove_empty_folders(self, job_ids: Sequence[str]) -> None:
        """Remove the folders that ended jobs left in the storage, where nothing is in them.

        Flink leaves them: on a volume they would cost inodes for ever.

        Raises:
            TemporaryError: The storage cannot be reached now.
            PermanentError: It cannot be reached without a change by a person.
        """
        ...

    async def close(self) -> None:
        """End every process of the StreamApp and wait until all are gone."""
        ...

    async def detach(self) -> None:
        """Close without ending anything: the job runs on, and the next start adopts it."""
        ...


async def release_replicas(runtime: Runtime) -> None:
    """End all TaskManagers of a job that needs none any more.

    Raises:
        TemporaryError: One did not get the signal to end, or Flink still lists it.
    """
    alive = await runtime.replicas()
    if alive:
        await runtime.stop([replica.id for replica in alive])
