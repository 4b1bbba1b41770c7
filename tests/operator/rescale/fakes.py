"""A miniature Flink and runtime for unit tests of the engine; no process is started.

It counts how many records were lost or duplicated, from the state with which each job started and
its progress, so that a wrong order of steps fails.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from weir_operator.errors import PermanentError, ResizeRefusedError, TemporaryError
from weir_operator.flink.answers import JobFailure, JobState, SavepointProgress, StateSnapshot
from weir_operator.flink.job_graph import JobGraph, Plan
from weir_operator.flink.programs import Program
from weir_operator.rescale.flink import Progress
from weir_operator.rescale.flow import Reading
from weir_operator.rescale.replicas import deployments_of
from weir_operator.rescale.status import AppStatus
from weir_operator.runtime.protocol import CheckProgram, Replica, ReplicaSpec
from weir_operator.runtime.revision import AgentImage, Revision


class FakeClock:
    """A clock that moves only when somebody sleeps, or sets it."""

    def __init__(self, now: float = 1000.0) -> None:
        self.time = now
        self._set_by = 0.0

    def now(self) -> float:
        return self.time

    def monotonic(self) -> float:
        return self.time - self._set_by

    def set_by(self, seconds: float) -> None:
        """Set the wall clock ahead, or back; no time passes."""
        self.time += seconds
        self._set_by += seconds

    async def sleep(self, seconds: float) -> None:
        self.time += seconds


class TurnTakingClock(FakeClock):
    """A clock under which others have their turn while somebody sleeps."""

    async def sleep(self, seconds: float) -> None:
        """Jump ahead, and let the others go on."""
        await super().sleep(seconds)
        await asyncio.sleep(0)


@dataclass
class FakeJob:
    """One job: where in the stream it started and where it is."""

    state: str
    position: int
    arguments: tuple[str, ...]
    configuration: dict[str, str] = field(default_factory=dict)
    """What the request says above the cluster's."""
    committed: int = 0
    """Up to where a transactional sink has committed."""
    savepoints: dict[str, SavepointProgress] = field(default_factory=dict)
    seen: list[StateSnapshot] = field(default_factory=list)
    """Snapshots that this JobManager saw complete."""
    restored: str | None = None
    """What it was started from, by Weir or by a new JobManager."""
    stopping: tuple[str, float] | None = None
    """Trigger of the savepoint being written, and when it is complete."""
    ending: tuple[str, float] | None = None
    """Trigger of the savepoint that is complete, and when the job has ended with it."""
    started: float = 0.0
    """When this JobManager began to run it."""
    runs_since: float = 1.0
    forgets_end_until: float = -math.inf
    """Until when a JobManager that is lost takes the job back, though it has finished."""


RETAINED = 3
"""Checkpoints that a job keeps, as Weir's configuration says."""


class FakeWorld:
    """One StreamApp's processes and jobs, behind `Runtime` and `FlinkJobs`."""

    rest_url = "http://fake"

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.alive: dict[str, Replica] = {}
        self.job_manager_process = "jm-1"
        self.jobs: dict[str, FakeJob] = {}
        self.positions: dict[str, int] = {}
        """Stream position held by each savepoint and checkpoint path."""
        self.stops: set[str] = set()
        self.savepoints_say_nothing = False
        self.stored: dict[str, list[str]] = {}
        """Complete snapshots in the storage, oldest first, by job."""
        self.folders: set[str] = set()
        """Jobs that have a folder for their checkpoints."""
        self.committed: list[tuple[str, int, int]] = []
        """(job, from, to) of what a transactional sink made visible."""
        self.emitted: list[tuple[str, int, int]] = []
        """(job, from, to) of every run of records that left a sink."""
        self.disposed: list[str] = []
        self.deaf_pools: set[str] = set()
        """Pools whose TaskManagers never register."""
        self.nodes: tuple[str, ...] = ()
        """Where TaskManagers run, a new one where the fewest do; empty has no nodes at all."""
        self.full_pools: dict[str, int] = {}
        self.lists_late_until = -math.inf
        """Pools with so many places: further TaskManagers stay pending."""
        self.nodes_added_at = math.inf
        """When a node autoscaler has made room in full pools."""
        self.terminating: dict[str, str] = {}
        """Why a TaskManager is about to go, by id."""
        self.evicted: set[str] = set()
        """Ids of TaskManagers that work on, though the cluster has replaced them already."""
        self.broken_revisions: set[str] = set()
        """Ids of revisions at which the job does not run."""
        self.agent: AgentImage | None = None
        """Where new revisions get Weir's agent from."""
        self.agents: list[AgentImage | None] = []
        """The agent of each revision that was to be used."""
        self.deaf_revisions: set[str] = set()
        """Ids of revisions whose JobManager does not start."""
        self.broken_totals: set[int] = set()
        """Total replicas at which the job does not run."""
        self.dry_totals: set[int] = set()
        """Total replicas at which the job ends at once, without a record."""
        self.readings: dict[int, Reading] = {}
        """What the job says that it has read, by total replicas."""
        self.rate = 0.0
        """Records per second that pass a job whose reading no test has set."""
        self.failed: list[JobFailure] = []
        """What made the job fail, the newest last."""
        self.savepoints_hang = False
        self.savepoint_takes = 0.0
        """Seconds until a savepoint is complete; the job emits until then."""
        self.garbage_calls = 0
        """How many of the next calls to Flink get an answer that is none."""
        self.end_takes = 0.0
        """Seconds from a complete savepoint until the job has ended; Flink reports only then."""
        self.end_is_written_after = 0.0
        """Seconds from then until Flink has written that, and deleted the job's checkpoints; the
        next submission comes later."""
        self.graph: JobGraph | None = None
        self.by_agent: bool | PermanentError = False
        self.plan: Plan | None = None
        self.unread = ""
        """Why the plan could not be read."""
        self.flink_version = "2.3.0"
        self.plans: dict[tuple[str, ...], Plan] = {}
        """What the job's program builds, for given arguments; for others it is `plan`."""
        self.read: list[tuple[str, ...]] = []
        """Arguments of every program whose graph was read."""
        self.on_deed: Callable[[], None] = lambda: None
        """Called right after each call that has changed something."""
        self.storage_away = False
        """The storage cannot be read."""
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
        """Whether it got a revision at all."""
        self.begun: list[str] = []
        """Ids of the revisions whose JobManager was begun and not waited for."""
        self.answering: str | None = None
        """Id of the revision of the JobManager that answers; `None` while one only starts."""
        self.misfit = ""
        """Why no node takes the processes of another revision."""
        self.listed_within = 90.0
        """Seconds after which the storage lists what was written to it."""
        self.tries = False
        """Whether a JobManager is tried for another revision."""
        self.lost_places: set[str] = set()
        """Short names of places that no node offers."""
        self.about_to_go: set[str] = set()
        """TaskManagers whose end was announced while a job ran."""
        self.warmed_up: list[tuple[str, ...]] = []
        """Ids of the TaskManagers of each warm-up."""
        self.warm_up_takes = 0.0
        """Seconds until it has ended."""
        self.warms_up_until = -math.inf
        self.no_warm_up = ""
        """Why there can be none."""
        self._next = 0
        self._registered: set[str] = set()

    # Runtime

    def use(self, revision: Revision) -> None:
        """Make what is started from now on of this."""
        self.used, self.named = revision, True
        self.agents.append(revision.agent)

    async def find_misfit(
        self, revision: Revision, pools: Collection[str], check: CheckProgram | None = None
    ) -> str:
        """Return that there is no node, if a test said so, or what is wrong with the program."""
        try:
            if self.tries and check is not None:
                await check("http://trial:8081", "trial.jar")
        except PermanentError as error:
            return str(error)
        return self.misfit

    async def ensure_job_manager(self) -> bool:
        """Answer that it runs, unless its revision does not."""
        if self.used.id in self.deaf_revisions:
            raise TemporaryError("The JobManager did not start: its image cannot be pulled")
        self.is_found = True
        self.answering = self.used.id
        return False

    async def begin_job_manager(self) -> None:
        """End one of another revision, of which no TaskManager may be left to find the next."""
        if self.used.id in self.deaf_revisions:
            raise TemporaryError("The JobManager was not placed: its image cannot be pulled")
        if {each.revision for each in self.alive.values()} - {self.used.id}:
            raise AssertionError(f"TaskManagers of before would register: {self.alive}")
        self.answering = None
        self.begun.append(self.used.id)
        self.on_deed()

    async def replicas(self) -> tuple[Replica, ...]:
        """Return what is alive."""
        return tuple(
            replace(
                self.alive[key],
                pending="0/3 nodes are available" if self._is_pending(key) else "",
                terminating=self.terminating.get(key, ""),
                evicted=key in self.evicted,
            )
            for key in sorted(self.alive)
        )

    async def start(self, wanted: Sequence[ReplicaSpec]) -> tuple[str, ...]:
        ids = []
        if wanted and self.named and self.answering not in (None, self.used.id):
            raise AssertionError(f"They would register with the JobManager of {self.answering}")
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
        if ids:
            self.on_deed()
        return tuple(ids)

    async def prepare_stop(self, ids: Sequence[str]) -> None:
        """Note who is about to go while a job runs."""
        if self.running():
            self.about_to_go |= set(ids)

    async def end_boosts(self) -> None:
        """Do nothing: nothing here takes long to start."""

    async def stop(self, ids: Sequence[str]) -> None:
        ended = [self.alive.pop(key) for key in ids if key in self.alive]
        if ended:
            self.on_deed()

    async def resize(self, sizes: Mapping[str, str]) -> None:
        if self.refuse_sizes:
            raise ResizeRefusedError("The node is full")
        for key, size in sizes.items():
            self.alive[key] = replace(self.alive[key], size=size)

    async def provide_jar(self) -> str:
        return "job.jar"

    async def snapshots(self, job_id: str) -> tuple[str, ...]:
        if self.storage_away:
            raise TemporaryError("The storage cannot be listed")
        self._advance()
        stored = tuple(self.stored.get(job_id, ()))
        return stored[:-1] if self.clock.now() < self.lists_late_until else stored

    async def savepoint_stopped_job(self, path: str) -> bool | None:
        """Return what the savepoint says of itself."""
        if self.storage_away:
            raise TemporaryError("The storage cannot be read")
        return None if self.savepoints_say_nothing else path in self.stops

    async def remove_empty_folders(self, job_ids: Sequence[str]) -> None:
        """Remove the folders in which no checkpoint is."""
        if self.storage_away:
            raise TemporaryError("The storage cannot be reached")
        kept = {job for job, paths in self.stored.items() if any("/chk-" in each for each in paths)}
        self.folders -= set(job_ids) - kept

    async def close(self) -> None:
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
        return Progress(
            state=JobState(job.state),
            running=running,
            ran=running,
            started=job.started,
            runs_since=job.runs_since,
        )

    async def live(self) -> tuple[str, ...]:
        self._answer()
        return tuple(key for key, job in self.jobs.items() if not JobState(job.state).is_over)

    async def warm_up(self, ids: tuple[str, ...]) -> None:
        """Note who is warmed up, or fail."""
        self._answer()
        if self.no_warm_up:
            raise PermanentError(self.no_warm_up)
        self.warmed_up.append(ids)
        self.warms_up_until = self.clock.now() + self.warm_up_takes
        self.on_deed()

    async def is_warming_up(self) -> bool:
        self._answer()
        return self.clock.now() < self.warms_up_until

    async def cancel_warm_up(self) -> None:
        self._answer()
        self.warms_up_until = -math.inf

    async def savepoint(self, job_id: str, trigger: str) -> SavepointProgress | None:
        self._answer()
        job = self.jobs.get(job_id)
        return job.savepoints.get(trigger) if job else None

    async def cancel(self, job_id: str) -> None:
        self._answer()
        job = self.jobs.get(job_id)
        if job is not None and not JobState(job.state).is_over:
            job.state = "CANCELLING" if self.cancel_takes else "CANCELED"
            if job.stopping is not None:
                job.savepoints[job.stopping[0]] = SavepointProgress(failure="The job was cancelled")
                job.stopping = None
        self.on_deed()

    async def prepare(self) -> None:
        """Know the jar."""
        self._answer()

    async def is_pinned_by_agent(
        self,
        program: Program,
        *,
        most: Mapping[str, int],
        vertices: Mapping[str, tuple[str, ...]],
    ) -> bool:
        """Return what a test has set, or raise it."""
        if isinstance(self.by_agent, PermanentError):
            raise self.by_agent
        return self.by_agent

    async def read_plan(self, program: Program) -> Plan | None:
        """Return the plan that a test has set, for these arguments or for all."""
        return self.plans.get(program.arguments, self.plan)

    async def version(self) -> str:
        return self.flink_version

    async def read_graph(
        self, program: Program, *, operators: tuple[str, ...], whole_job: str | None
    ) -> JobGraph:
        self._answer()
        self.read.append(program.arguments)
        if self.graph is None:
            raise PermanentError("The program builds no job")
        return self.graph

    async def submit(self, job_id: str, program: Program, *, restore_path: str | None) -> None:
        """Run a job; two live jobs at once would be a defect of the caller."""
        self._answer()
        live = [key for key, job in self.jobs.items() if not JobState(job.state).is_over]
        if live or job_id in self.jobs:
            raise AssertionError(f"submitted {job_id} beside {live}")
        if self.clock.now() < self.warms_up_until:
            raise AssertionError(f"submitted {job_id} while TaskManagers are warmed up")
        position = self.positions[restore_path] if restore_path else 0
        total = self._total()
        broken = total in self.broken_totals or self.used.id in self.broken_revisions
        state = "FAILED" if broken else "FINISHED" if total in self.dry_totals else "RUNNING"
        self.folders.add(job_id)
        for ended in self.jobs.values():
            ended.forgets_end_until = -math.inf
        self.jobs[job_id] = FakeJob(
            state=state,
            position=position,
            arguments=program.arguments,
            configuration=dict(program.configuration),
            committed=position,
            restored=restore_path,
            started=self.clock.now(),
        )
        self.on_deed()

    async def failures(self, job_id: str) -> tuple[JobFailure, ...]:
        return tuple(reversed(self.failed))

    async def failure(self, job_id: str) -> str:
        return "it broke"

    async def newest(self, job_id: str) -> StateSnapshot | None:
        """Return what the JobManager saw complete, else what it restored the job from."""
        self._answer()
        job = self.jobs.get(job_id)
        if job is None:
            return None
        if job.seen:
            return job.seen[-1]
        return (
            None if job.restored is None else StateSnapshot(path=job.restored, seen_complete=False)
        )

    async def retained(self, job_id: str) -> tuple[str, ...]:
        self._answer()
        if job_id not in self.jobs:
            return ()
        return tuple(path for path in self.stored.get(job_id, ()) if "/chk-" in path)

    async def dispose(self, path: str) -> None:
        self.disposed.append(path)
        del self.positions[path]
        for paths in self.stored.values():
            if path in paths:
                paths.remove(path)

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

    async def reading(self, job_id: str) -> Reading | None:
        """Return that records pass, unless a test has set something else."""
        self._answer()
        job = self.jobs.get(job_id)
        if job is None:
            return None
        total = self._total()
        if total in self.dry_totals:
            return Reading(records=0.0, pending=math.nan, ended=job.state == "FINISHED")
        usual = Reading(
            records=1.0 + self.rate * self.clock.monotonic(), pending=math.nan, ended=False
        )
        return self.readings.get(total, usual)

    async def misplaced(self, job_id: str) -> str | None:
        """Find everything in place."""
        return None

    # What a test does to it

    def process(self, records: int) -> None:
        """Make the running job emit `records` more."""
        for key, job in self.jobs.items():
            if job.state == "RUNNING" and job.ending is None:
                self.emitted.append((key, job.position, job.position + records))
                job.position += records

    def checkpoint(self) -> None:
        for key, job in self.jobs.items():
            if job.state == "RUNNING" and job.ending is None:
                paths = self.stored.setdefault(key, [])
                numbers = [int(path.rpartition("-")[2]) for path in paths if "/chk-" in path]
                path = f"file:/checkpoints/{key}/chk-{max(numbers, default=0) + 1}"
                self._complete(key, job, StateSnapshot(path=path))
                for old in [path for path in paths if "/chk-" in path][:-RETAINED]:
                    paths.remove(old)
                    del self.positions[old]

    def stop_with_savepoint(self, job_id: str, trigger: str) -> None:
        """Begin a stop; it is complete at once, after a time, or never."""
        job = self.jobs[job_id]
        takes = math.inf if self.savepoints_hang else self.savepoint_takes
        job.savepoints[trigger] = SavepointProgress()
        job.stopping = (trigger, self.clock.now() + takes)
        self._advance()

    def forget_triggers(self) -> None:
        """Make Flink forget the state of savepoints, as it does after a time."""
        for job in self.jobs.values():
            job.savepoints = {}

    def lose_job_manager(self, *, recovers: bool, keeps_results: bool = False) -> None:
        """Start a new JobManager: it knows no trigger, no ended job and nothing that completed.

        Args:
            recovers: It restarts jobs that had not ended from their newest checkpoint, never from a
                savepoint (as Flink's high availability does); else it knows no job at all.
            keeps_results: It lists jobs that had finished, without anything that they wrote: the
                old JobManager was lost before it could clear up.
        """
        self._advance()
        lost, self.jobs = self.jobs, {}
        for key, job in lost.items():
            if keeps_results and job.state == "FINISHED":
                self.jobs[key] = replace(job, savepoints={}, seen=[], restored=None)
            ends_unknown = job.state == "FINISHED" and self.clock.now() < job.forgets_end_until
            lives = not JobState(job.state).is_over and job.state != "CANCELLING"
            if not recovers or not (lives or ends_unknown):
                continue
            own = [path for path in self.stored.get(key, ()) if "/chk-" in path]
            restored = own[-1] if own else job.restored
            position = 0 if restored is None else self.positions[restored]
            self.jobs[key] = replace(
                job,
                state="RUNNING" if ends_unknown else job.state,
                started=self.clock.now() + 0.001,  # later than what was asked before
                position=position,
                committed=position,
                savepoints={},
                seen=[],
                restored=restored,
                stopping=None,
                ending=None,
            )

    def take_savepoint(self) -> str:
        """Have the job that runs write a savepoint, as a person asks for, and go on."""
        [(key, job)] = [each for each in self.jobs.items() if each[1].state == "RUNNING"]
        path = f"file:/savepoints/savepoint-{key[:6]}-{len(self.stored.get(key, ()))}"
        self._complete(key, job, StateSnapshot(path=path))
        return path

    def finish(self) -> None:
        """Make the running job finish: Flink deletes its checkpoints."""
        for key, job in self.jobs.items():
            if job.state == "RUNNING":
                self._commit(key, job)
                self._end(key, job)

    def _advance(self) -> None:
        """Complete savepoints that are due."""
        for key, job in self.jobs.items():
            if job.stopping is not None and job.stopping[1] <= self.clock.now():
                trigger, when = job.stopping
                job.stopping, job.ending = None, (trigger, when + self.end_takes)
                path = f"file:/savepoints/savepoint-{key[:6]}-{trigger[:6]}"
                self._complete(key, job, StateSnapshot(path=path, stopped=True))
            if job.ending is not None and job.ending[1] <= self.clock.now():
                job.savepoints[job.ending[0]] = SavepointProgress(path=job.seen[-1].path)
                if not JobState(job.state).is_over:  # else it was cancelled meanwhile
                    job.forgets_end_until = job.ending[1] + self.end_is_written_after
                job.ending = None
                self._end(key, job)
            if job.state == "FINISHED" and self.clock.now() >= job.forgets_end_until:
                self._discard_checkpoints(key)

    def _complete(self, key: str, job: FakeJob, snapshot: StateSnapshot) -> None:
        self.positions[snapshot.path] = job.position
        if snapshot.stopped:
            self.stops.add(snapshot.path)
        self.stored.setdefault(key, []).append(snapshot.path)
        job.seen.append(snapshot)
        self._commit(key, job)

    def _commit(self, key: str, job: FakeJob) -> None:
        self.committed.append((key, job.committed, job.position))
        job.committed = job.position

    def _end(self, key: str, job: FakeJob) -> None:
        job.state = "FINISHED"
        if self.clock.now() >= job.forgets_end_until:
            self._discard_checkpoints(key)

    def _discard_checkpoints(self, key: str) -> None:
        for path in [path for path in self.stored.get(key, ()) if "/chk-" in path]:
            self.stored[key].remove(path)
            del self.positions[path]

    def give_sizes(self, size: str) -> None:
        """Give every replica this size, as a workload that replaces lost ones might."""
        self.alive = {key: replace(each, size=size) for key, each in self.alive.items()}

    def lost_and_doubled(self) -> tuple[int, int]:
        """Count records that never left a sink and that left more than once, up to the furthest."""
        return _lost_and_doubled(self.emitted)

    def committed_wrong(self) -> tuple[int, int]:
        """Count records that a transactional sink lost, and that it made visible more than once."""
        return _lost_and_doubled(self.committed)

    def running(self) -> list[str]:
        return [key for key, job in self.jobs.items() if job.state == "RUNNING"]

    def _choose_node(self, avoid: Sequence[str]) -> str:
        """Return where a TaskManager goes; empty where it finds no node."""
        taken = Counter(each.node for each in self.alive.values())
        left = [node for node in self.nodes if node not in avoid]
        return min(left, key=lambda node: taken[node], default="")

    def _total(self) -> int:
        return sum(sum(counts.values()) for counts in deployments_of(self.alive.values()).values())

    def _is_pending(self, key: str) -> bool:
        """Whether those of its pool that were started before it have taken all places."""
        if self.alive[key].place in self.lost_places or (self.nodes and not self.alive[key].node):
            return True
        pool = self.alive[key].pool
        places = self.full_pools.get(pool)
        if places is None or self.clock.now() >= self.nodes_added_at:
            return False
        same = sorted(
            (each for each in self.alive.values() if each.pool == pool), key=lambda r: r.started
        )
        return key in [each.id for each in same[places:]]

    def _answer(self) -> None:
        self._advance()
        if self.garbage_calls:
            self.garbage_calls -= 1
            raise PermanentError("Expected an answer of Flink 2.x, got '<html>'")
        if not self.is_found:
            raise TemporaryError("The JobManager's name is not known here")
        if self.refuse_calls:
            self.refuse_calls -= 1
            raise TemporaryError("The JobManager did not answer")


class JobsOf:
    """The jobs of a `FakeWorld`, as `FlinkJobs` shows those of a cluster."""

    def __init__(self, world: FakeWorld) -> None:
        self._world = world

    def __getattr__(self, name: str) -> Any:
        return getattr(self._world, name)

    async def stop(self, job_id: str, trigger: str) -> None:
        """Stop with savepoint: at once, never, or with an error where the job does not run."""
        world = self._world
        world._answer()
        job = world.jobs.get(job_id)
        if job is None or trigger in job.savepoints:
            return  # Flink accepts a stop of an unknown job: only its status shows that
        if job.state != "RUNNING":
            raise PermanentError(f"Job {job_id} is {job.state}")
        world.stop_with_savepoint(job_id, trigger)
        world.on_deed()


def _lost_and_doubled(runs: Sequence[tuple[str, int, int]]) -> tuple[int, int]:
    counts: Counter[int] = Counter()
    for _, start, end in runs:
        counts.update(range(start, end))
    lost = (max(counts) + 1 - len(counts)) if counts else 0
    return lost, sum(count - 1 for count in counts.values())


class MemoryStatusStore:
    """A status in memory; a test may make a save fail, or die right after one."""

    def __init__(self) -> None:
        self.status = AppStatus()
        self.history: list[AppStatus] = []
        self.die_after: int | None = None
        self.on_save: Callable[[], None] = lambda: None
        """Called right after each save."""

    def load(self) -> AppStatus:
        return self.status

    async def save(self, status: AppStatus) -> None:
        """Keep `status`, through JSON as a real store would."""
        self.status = AppStatus.model_validate_json(status.model_dump_json())
        self.history.append(self.status)
        if self.die_after is not None and len(self.history) >= self.die_after:
            raise ControllerDied
        self.on_save()


class ControllerDied(BaseException):
    """The controller's process ended here, as by `kill -9`."""
