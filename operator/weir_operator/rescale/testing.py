"""A miniature Flink and runtime for unit tests of what steers them; no process is started.

It keeps the one promise that matters: how many records were lost or doubled is counted from where
each job was started and where it had got to, so that a wrong order of steps shows.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from weir_operator.errors import PermanentError, ResizeRefusedError, TemporaryError
from weir_operator.rescale.jobs import LIVE_STATES, Progress, SavepointState
from weir_operator.rescale.replicas import deployments_of
from weir_operator.runtime.revision import Revision
from weir_operator.runtime.seam import Replica, ReplicaSpec
from weir_operator.status import AppStatus


class FakeClock:
    """A clock that moves only when somebody sleeps."""

    def __init__(self, now: float = 1000.0) -> None:
        self.time = now

    def now(self) -> float:
        """Return the present."""
        return self.time

    async def sleep(self, seconds: float) -> None:
        """Jump ahead."""
        self.time += seconds


@dataclass
class FakeJob:
    """One job: where in the stream it started and where it is."""

    state: str
    position: int
    arguments: tuple[str, ...]
    savepoints: dict[str, SavepointState] = field(default_factory=dict)


class FakeWorld:
    """One StreamApp's processes and jobs, behind both seams: `Runtime` and `Jobs`."""

    rest_url = "http://fake"
    job_manager_metrics_url = "http://fake/metrics"

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.alive: dict[str, Replica] = {}
        self.jobs: dict[str, FakeJob] = {}
        self.positions: dict[str, int] = {}
        """Stream position held by each savepoint and checkpoint path."""
        self.emitted: list[tuple[str, int, int]] = []
        """(job, from, to) of every run of records that left a sink."""
        self.disposed: list[str] = []
        self.deaf_pools: set[str] = set()
        """Pools whose TaskManagers never register."""
        self.nodes: tuple[str, ...] = ()
        """Where TaskManagers run, a new one where the fewest do; empty has no nodes at all."""
        self.full_pools: dict[str, int] = {}
        """Pools with so many places: further TaskManagers stay pending."""
        self.doomed: dict[str, str] = {}
        """Why a TaskManager is about to go, by id."""
        self.broken_revisions: set[str] = set()
        """Ids of revisions at which the job does not come to run."""
        self.deaf_revisions: set[str] = set()
        """Ids of revisions whose JobManager does not start."""
        self.broken_totals: set[int] = set()
        """Total replicas at which the job does not come to run."""
        self.savepoints_hang = False
        self.refuse_sizes = False
        self.cancel_takes = 0
        """How often a job is asked about before its cancellation has come to an end."""
        self.refuse_calls = 0
        """How many of the next calls to Flink fail in a way that passes."""
        self.is_found = True
        """Whether the JobManager's address is known; asking for the JobManager finds it."""
        self.used: Revision = Revision()
        """What is started is made of it."""
        self.slow_until = -math.inf
        """Unix time until which no TaskManager registers that was not registered before."""
        self.named = False
        """Whether it was told a revision at all."""
        self.lost_places: set[str] = set()
        """Short names of places that no node offers."""
        self.about_to_go: set[str] = set()
        """TaskManagers whose end was announced while a job ran."""
        self._next = 0
        self._registered: set[str] = set()

    # Runtime

    def use(self, revision: Revision) -> None:
        """Make what is started from now on of this."""
        self.used, self.named = revision, True

    async def ensure_job_manager(self) -> bool:
        """Answer that it runs, unless its revision does not."""
        if self.used.id in self.deaf_revisions:
            raise TemporaryError("The JobManager did not start: its image cannot be pulled")
        self.is_found = True
        return False

    async def replicas(self) -> tuple[Replica, ...]:
        """Return what is alive."""
        return tuple(
            replace(
                self.alive[key],
                pending="0/3 nodes are available" if self._is_pending(key) else "",
                doomed=self.doomed.get(key, ""),
            )
            for key in sorted(self.alive)
        )

    async def start(self, wanted: Sequence[ReplicaSpec]) -> tuple[str, ...]:
        """Start at once."""
        ids = []
        for spec in wanted:
            self._next += 1
            replica = Replica(
                id=f"tm-{spec.operator}-{spec.pool}-{self._next}",
                operator=spec.operator,
                pool=spec.pool,
                size=spec.size,
                started=self.clock.now() + self._next / 1000,
                metrics_url="http://fake/metrics",
                revision=self.used.id if self.named else "",
                place=self.used.place_id(spec.operator, spec.pool),
                node=self._choose_node(spec.avoid),
            )
            self.alive[replica.id] = replica
            ids.append(replica.id)
        return tuple(ids)

    async def prepare_stop(self, ids: Sequence[str]) -> None:
        """Note who is about to go while a job runs."""
        if self.running():
            self.about_to_go |= set(ids)

    async def stop(self, ids: Sequence[str]) -> None:
        """End at once."""
        for key in ids:
            self.alive.pop(key, None)

    async def resize(self, sizes: Mapping[str, str]) -> None:
        """Change sizes, unless told to refuse."""
        if self.refuse_sizes:
            raise ResizeRefusedError("The node is full")
        for key, size in sizes.items():
            self.alive[key] = replace(self.alive[key], size=size)

    async def provide_jar(self) -> str:
        """Return a name."""
        return "job.jar"

    async def newest_checkpoint(self, job_id: str) -> str | None:
        """Return the checkpoint that the job took last."""
        path = f"file:/checkpoints/{job_id}/chk-1"
        return path if path in self.positions else None

    async def close(self) -> None:
        """End everything."""
        self.alive.clear()

    async def detach(self) -> None:
        """Leave everything."""

    # Jobs

    async def progress(self, job_id: str) -> Progress | None:
        """Return the job's state; it runs where its TaskManagers suffice."""
        self._answer()
        job = self.jobs.get(job_id)
        if job is None:
            return None
        running = job.state == "RUNNING"
        if job.state == "CANCELLING":
            self.cancel_takes -= 1
            if self.cancel_takes <= 0:
                job.state = "CANCELED"
        return Progress(state=job.state, running=running, ran=running)

    async def savepoint(self, job_id: str, trigger: str) -> SavepointState | None:
        """Return what became of the trigger."""
        self._answer()
        job = self.jobs.get(job_id)
        return job.savepoints.get(trigger) if job else None

    async def cancel(self, job_id: str) -> None:
        """End the job where it is."""
        self._answer()
        job = self.jobs[job_id]
        if job.state in LIVE_STATES:
            job.state = "CANCELLING" if self.cancel_takes else "CANCELED"

    async def prepare(self) -> None:
        """Know the jar."""
        self._answer()

    async def submit(
        self,
        job_id: str,
        *,
        arguments: tuple[str, ...],
        parallelism: int | None,
        entry_class: str | None,
        restore_path: str | None,
    ) -> None:
        """Run a job; two live jobs at once would be a defect of the caller."""
        self._answer()
        live = [key for key, job in self.jobs.items() if job.state in LIVE_STATES]
        if live or job_id in self.jobs:
            raise AssertionError(f"submitted {job_id} beside {live}")
        position = self.positions[restore_path] if restore_path else 0
        total = sum(sum(counts.values()) for counts in deployments_of(self.alive.values()).values())
        broken = total in self.broken_totals or self.used.id in self.broken_revisions
        state = "FAILED" if broken else "RUNNING"
        self.jobs[job_id] = FakeJob(state=state, position=position, arguments=arguments)

    async def failure(self, job_id: str) -> str:
        """Return a cause."""
        return "it broke"

    async def dispose(self, path: str) -> None:
        """Forget a savepoint."""
        self.disposed.append(path)
        del self.positions[path]

    async def unregistered(self, ids: tuple[str, ...]) -> tuple[str, ...]:
        """Return those of deaf pools."""
        late = self.clock.now() < self.slow_until
        missing = tuple(
            key
            for key in ids
            if (late and key not in self._registered)
            or self.alive[key].pool in self.deaf_pools
            or self._is_pending(key)
        )
        self._registered |= {*ids} - {*missing}
        return missing

    async def misplaced(self, job_id: str) -> str | None:
        """Find everything in place."""
        return None

    # What a test does to it

    def process(self, records: int) -> None:
        """Let the job that runs emit `records` more."""
        for key, job in self.jobs.items():
            if job.state == "RUNNING":
                self.emitted.append((key, job.position, job.position + records))
                job.position += records

    def checkpoint(self) -> None:
        """Let the job that runs complete a checkpoint."""
        for key, job in self.jobs.items():
            if job.state == "RUNNING":
                self.positions[f"file:/checkpoints/{key}/chk-1"] = job.position

    def give_sizes(self, size: str) -> None:
        """Give every replica this size, as a workload that replaces lost ones might."""
        self.alive = {key: replace(each, size=size) for key, each in self.alive.items()}

    def lost_and_doubled(self) -> tuple[int, int]:
        """Count records that never left a sink and that left more than once, up to the furthest."""
        counts: dict[int, int] = {}
        for _, start, end in self.emitted:
            for record in range(start, end):
                counts[record] = counts.get(record, 0) + 1
        lost = (max(counts) + 1 - len(counts)) if counts else 0
        return lost, sum(count - 1 for count in counts.values())

    def running(self) -> list[str]:
        """Return the jobs that run."""
        return [key for key, job in self.jobs.items() if job.state == "RUNNING"]

    def _choose_node(self, avoid: Sequence[str]) -> str:
        """Return where a TaskManager goes; empty where it finds no node."""
        taken = Counter(each.node for each in self.alive.values())
        left = [node for node in self.nodes if node not in avoid]
        return min(left, key=lambda node: taken[node], default="")

    def _is_pending(self, key: str) -> bool:
        """Whether those of its pool that were started before it have taken all places."""
        if self.alive[key].place in self.lost_places or (self.nodes and not self.alive[key].node):
            return True
        pool = self.alive[key].pool
        places = self.full_pools.get(pool)
        if places is None:
            return False
        same = sorted(
            (each for each in self.alive.values() if each.pool == pool), key=lambda r: r.started
        )
        return key in [each.id for each in same[places:]]

    def _answer(self) -> None:
        if not self.is_found:
            raise TemporaryError("The JobManager's name is not known here")
        if self.refuse_calls:
            self.refuse_calls -= 1
            raise TemporaryError("The JobManager did not answer")


class JobsOf:
    """The `Jobs` face of a `FakeWorld`."""

    def __init__(self, world: FakeWorld) -> None:
        self._world = world
        self.progress = world.progress
        self.savepoint = world.savepoint
        self.cancel = world.cancel
        self.prepare = world.prepare
        self.submit = world.submit
        self.failure = world.failure
        self.dispose = world.dispose
        self.unregistered = world.unregistered
        self.misplaced = world.misplaced

    async def stop(self, job_id: str, trigger: str) -> None:
        """Stop with savepoint: at once, never, or with an error where the job does not run."""
        world = self._world
        job = world.jobs[job_id]
        if trigger in job.savepoints:
            return
        if job.state != "RUNNING":
            raise PermanentError(f"Job {job_id} is {job.state}")
        if world.savepoints_hang:
            job.savepoints[trigger] = SavepointState()
            return
        path = f"file:/savepoints/{trigger}"
        world.positions[path] = job.position
        job.savepoints[trigger] = SavepointState(path=path)
        job.state = "FINISHED"


class MemoryStatusStore:
    """A status in memory; a test may make a save fail, or die right after one."""

    def __init__(self) -> None:
        self.status = AppStatus()
        self.history: list[AppStatus] = []
        self.die_after: int | None = None

    def load(self) -> AppStatus:
        """Return the last status saved."""
        return self.status

    async def save(self, status: AppStatus) -> None:
        """Keep `status`, through JSON as a real store would."""
        self.status = AppStatus.model_validate_json(status.model_dump_json())
        self.history.append(self.status)
        if self.die_after is not None and len(self.history) >= self.die_after:
            raise ControllerDied


class ControllerDied(BaseException):
    """The controller's process ended here, as by `kill -9`."""
