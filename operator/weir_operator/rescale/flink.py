"""The jobs of a session cluster, as the engine asks for them with Flink's REST interface.

What a program builds is asked before TaskManagers are started: their memory depends on the graph,
and a program that can never run, or that the agent cannot pin, is refused before anything is
touched.

How much a job has read: Flink counts records between vertices, and, in each function of a source,
records from outside. Verified on Flink 2.3.0 and 1.20.5.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, replace

import structlog

from weir_operator.clock import Clock, SystemClock
from weir_operator.errors import NotInProgramError, PermanentError, TemporaryError
from weir_operator.fence import Guard
from weir_operator.flink import job_graph
from weir_operator.flink.agent import KEY_COUNTS
from weir_operator.flink.answers import JobFailure, JobState, SavepointProgress, StateSnapshot
from weir_operator.flink.job_graph import JobGraph, Plan
from weir_operator.flink.programs import (
    Program,
    is_warm_up,
    read_graph,
    read_plan,
    warm_up,
    warm_up_id,
)
from weir_operator.flink.rest import FlinkRest
from weir_operator.flink.scripts import is_script
from weir_operator.flink.topology import Topology, discover, misplaced, waiting
from weir_operator.flink.transport import NotKnownToFlinkError
from weir_operator.limits import KEY_TASKS, MAX_KEY_TASKS
from weir_operator.rescale.flow import Reading
from weir_operator.rescale.journal import RescaleJournal
from weir_operator.rescale.replicas import parallelism
from weir_operator.rescale.settings import JobSpec
from weir_operator.runtime.protocol import Runtime
from weir_operator.runtime.registration import registered

_BEGUN = frozenset({"INITIALIZING", "RUNNING", "FINISHED"})
"""States of a task that has run, or may already have emitted."""

COUNTERS = ("numRecordsIn", "numRecordsOut")
"""Of the functions in a source. One of the old kind counts only what it gives out."""
PENDING = "pendingRecords"
READ_AGAIN_AFTER = 60.0
"""Seconds after which a program that could not be read is read again; it is asked for at each
check, and runs in the JobManager."""

log = structlog.get_logger()


@dataclass(frozen=True, kw_only=True, slots=True)
class Progress:
    """The progress of a submitted job."""

    state: JobState
    running: bool
    """Every task runs."""
    ran: bool
    """At least one task runs or ran: records may have left it."""
    started: float = 0.0
    """Unix time at which this JobManager began to run it."""
    runs_since: float = 0.0
    """Unix time at which it began to run, or Flink restarted it last."""


class FlinkJobs:
    """The jobs of one runtime's session cluster; follows it when its address changes.

    Unknown jobs and triggers are `None`, never an error.
    """

    def __init__(
        self, runtime: Runtime, guard: Guard | None = None, *, clock: Clock | None = None
    ) -> None:
        self._runtime = runtime
        self._clock = clock or SystemClock()
        self._guard = guard
        self._rest: FlinkRest | None = None
        self._url = ""
        self._jar: str | None = None
        self.unread = ""
        """Why the program that was last asked for could not be read; empty where it was."""
        self._plans: dict[object, Plan] = {}
        self._unread: dict[object, tuple[float, str]] = {}  # when, by the monotonic clock, and why

    async def rest(self) -> FlinkRest:
        """Return a client of the JobManager that the runtime has now."""
        url = self._runtime.rest_url
        if self._rest is None or url != self._url:
            # Before anything is waited for: two who ask at once get the same one.
            former, self._rest = self._rest, FlinkRest(url, guard=self._guard)
            self._url = url
            if former is not None:
                await former.close()
        return self._rest

    async def close(self) -> None:
        """Release the connections."""
        if self._rest is not None:
            await self._rest.close()
        self._rest = None

    async def progress(self, job_id: str) -> Progress | None:
        """Return the progress of the job."""
        job = await (await self.rest()).job(job_id)
        if job is None:
            return None
        return Progress(
            state=job.state,
            running=job.runs,
            ran=any(status in _BEGUN for vertex in job.vertices for status in vertex.tasks),
            started=job.started,
            runs_since=job.runs_since,
        )

    async def live(self) -> tuple[str, ...]:
        """Return the ids of all jobs that have not ended, without those of `warm_up`."""
        return tuple(each for each in await self._live() if not is_warm_up(each))

    async def _live(self) -> tuple[str, ...]:
        jobs = await (await self.rest()).jobs()
        return tuple(job.id for job in jobs if not job.state.is_over)

    async def warm_up(self, ids: tuple[str, ...]) -> None:
        """Begin to run a job of a moment on these TaskManagers, which have no other task."""
        operators = Counter(
            operator for each, operator in (await self._operators()).items() if each in ids
        )
        memory = await self.managed_memory()
        await warm_up(await self.rest(), operators, job_id=warm_up_id(), configuration=memory)

    async def is_warming_up(self) -> bool:
        """Return whether a job of `warm_up` runs."""
        return any(is_warm_up(each) for each in await self._live())

    async def cancel_warm_up(self) -> None:
        """Ask for the cancellation of the jobs of `warm_up` that run."""
        for each in await self._live():
            if is_warm_up(each):
                await self.cancel(each)

    async def stop(self, job_id: str, trigger: str) -> None:
        """Ask for a stop with savepoint under this trigger id; a second call changes nothing."""
        await (await self.rest()).stop_with_savepoint(job_id, trigger_id=trigger)

    async def savepoint(self, job_id: str, trigger: str) -> SavepointProgress | None:
        """Return what became of a savepoint that was asked for."""
        return await (await self.rest()).savepoint_status(job_id, trigger)

    async def cancel(self, job_id: str) -> None:
        """Ask for cancellation; a job that has ended is left alone."""
        await (await self.rest()).cancel(job_id)

    async def version(self) -> str:
        """Return Flink's version.

        Raises:
            TemporaryError: The JobManager does not answer.
        """
        return await (await self.rest()).version()

    async def prepare(self) -> None:
        """Make sure that the JobManager has the job's jar."""
        self._jar = await self._runtime.provide_jar()

    async def _known_jar(self) -> str:
        """Return the id of the job's jar in the JobManager; upload it first if needed."""
        if self._jar is None:
            self._jar = await self._runtime.provide_jar()
        return self._jar

    async def is_pinned_by_agent(
        self,
        program: Program,
        *,
        most: Mapping[str, int],
        vertices: Mapping[str, tuple[str, ...]],
    ) -> bool:
        """Return whether Weir's agent is to pin the operators; the program is asked once.

        A program that cannot be read is submitted as one that pins itself: it may need what the
        arguments say, and if it cannot run at all, its submission tells. A script gets no such
        arguments.

        Args:
            program: As for a submission of a job that the agent pins.
            most: Replicas at a time, by operator.
            vertices: What each operator is made of, as in `JobSpec`.

        Raises:
            PermanentError: The agent cannot pin them; the job must not be touched.
            TemporaryError: What pins them cannot be read now.
        """
        plan = await self.read_plan(program)
        if plan is None and vertices:
            self._unread.clear()
            raise TemporaryError("Weir cannot read what the job's program builds: see the log")
        return plan is not None and job_graph.is_pinned_by_agent(plan, most, vertices)

    async def read_plan(self, program: Program) -> Plan | None:
        """Return what the program builds, submitted so; `None` where it cannot be read.

        It is read once, and again some time after it could not be read.
        """
        jar, given = await self._known_jar(), program.configuration
        joined = {k: v for k, v in given.items() if k.startswith("weir.vertices.")}
        # On Kubernetes, the jar of another image has the same id.
        where = self._runtime.job_manager_process, jar
        key = (*where, program.entry_class, program.arguments, tuple(sorted(joined.items())))
        self.unread = ""
        if key in self._plans:
            return self._plans[key]
        since, cause = self._unread.get(key, (-math.inf, ""))
        if self._clock.monotonic() - since >= READ_AGAIN_AFTER:
            try:
                self._plans[key] = await read_plan(await self.rest(), jar, program)
                return self._plans[key]
            except PermanentError as error:
                if is_script(program.entry_class):
                    raise
                cause = str(error)
                log.warning("plan not read", failure=cause)
                self._unread[key] = self._clock.monotonic(), cause
        self.unread = cause
        return None

    async def read_graph(
        self, program: Program, *, operators: tuple[str, ...], whole_job: str | None
    ) -> JobGraph:
        """Return what the program would build, submitted so; nothing is submitted.

        Raises:
            PermanentError: It builds no job.
        """
        jar = await self._known_jar()
        return await read_graph(
            await self.rest(), jar, program, operators=operators, whole_job=whole_job
        )

    async def submit(self, job_id: str, program: Program, *, restore_path: str | None) -> None:
        """Submit the job under this id, with the managed memory that its TaskManagers have.

        Raises:
            TemporaryError: An operator has no TaskManager that is registered.
        """
        jar, configuration = await self._known_jar(), program.configuration
        if configuration:
            configuration = {**configuration, **await self.managed_memory()}
        await (await self.rest()).run_jar(
            jar,
            job_id=job_id,
            entry_class=program.entry_class,
            arguments=program.arguments,
            parallelism=program.parallelism,
            savepoint_path=restore_path,
            configuration=configuration,
        )

    async def managed_memory(self) -> dict[str, str]:
        """Return the keys that say how much managed memory a slot of each operator may ask for.

        It is what the TaskManagers that are there offer, the least of them: Flink passes over a
        TaskManager that has less than is asked for, in silence, and the job would wait for ever.
        """
        rest = await self.rest()
        operators, registered_now = await asyncio.gather(self._operators(), rest.task_managers())
        offered: dict[str, list[int]] = {operator: [] for operator in operators.values()}
        for each in registered_now:
            if each.id in operators:
                offered[operators[each.id]].append(each.managed_memory)
        absent = sorted(operator for operator, found in offered.items() if not found)
        if absent:
            raise TemporaryError(f"No TaskManager of {', '.join(absent)} is registered")
        return {f"weir.managed-memory.{name}": f"{min(found)}m" for name, found in offered.items()}

    async def failure(self, job_id: str) -> str:
        """Return why the job failed, or what it waits for."""
        rest = await self.rest()
        try:
            cause = await rest.root_exception(job_id)
        except NotKnownToFlinkError:
            return "Flink no longer knows it"
        return cause or await waiting(rest, job_id) or "its tasks did not all start in time"

    async def failures(self, job_id: str) -> tuple[JobFailure, ...]:
        """Return the failures of the job that Flink remembers, the newest first."""
        return await (await self.rest()).failures(job_id)

    async def newest(self, job_id: str) -> StateSnapshot | None:
        """Return the newest snapshot of the job that Flink knows of, if any."""
        found = await (await self.rest()).checkpoints(job_id)
        if found is not None and found.newest is None and found.restored is not None:
            return StateSnapshot(path=found.restored, seen_complete=False)
        return None if found is None else found.newest

    async def retained(self, job_id: str) -> tuple[str, ...]:
        """Return the job's checkpoints that Flink will not delete itself, oldest first."""
        found = await (await self.rest()).checkpoints(job_id)
        return () if found is None else found.retained

    async def dispose(self, path: str) -> None:
        """Delete a savepoint or checkpoint."""
        await (await self.rest()).dispose_savepoint(path)

    async def unregistered(self, ids: tuple[str, ...]) -> tuple[str, ...]:
        """Return which TaskManagers are not registered with their operator's resource."""
        operators = {each: op for each, op in (await self._operators()).items() if each in ids}
        known = await registered(await self.rest(), operators)
        return tuple(each for each in ids if each not in known)

    async def reading(self, job_id: str) -> Reading | None:
        """Return how much the job has read since it was submitted."""
        return await read_records(await self.rest(), job_id)

    async def misplaced(self, job_id: str) -> str | None:
        """Return a sentence where tasks do not run on their operator's TaskManagers."""
        return await misplaced(await self.rest(), job_id, await self._operators())

    async def topology(self, job_id: str) -> Topology:
        """Return the job as a graph of operators.

        Raises:
            TemporaryError: Tasks have no TaskManager yet.
        """
        return await discover(await self.rest(), job_id, await self._operators())

    async def key_texts(self, job_id: str, topology: Topology) -> tuple[str, ...]:
        """Return what Weir's agent counted of keys, as it writes it; empty without the agent.

        Lines of a task's own key groups, which begin with a point, get its operator behind it.

        Raises:
            TemporaryError: Flink does not answer.
        """
        rest = await self.rest()
        texts: list[str] = []
        for operator, vertex in topology.keyed:
            subtasks = range(min(vertex.parallelism, MAX_KEY_TASKS))
            for first in subtasks[::KEY_TASKS]:
                some = subtasks[first : first + KEY_TASKS]
                found = await rest.task_texts(job_id, vertex.id, KEY_COUNTS, some)
                texts += (f"\n{each}".replace("\n. ", f"\n.{operator} ")[1:] for each in found)
        return tuple(texts)

    async def _operators(self) -> dict[str, str]:
        return {replica.id: replica.operator for replica in await self._runtime.replicas()}


async def read_records(rest: FlinkRest, job_id: str) -> Reading | None:
    """Return what the job has read, `None` where Flink does not know it.

    Records are those of all tasks: a source may be back-pressured from its first moment, while what
    the state held is being worked off.

    Raises:
        TemporaryError: Flink does not answer.
    """
    job = await rest.job(job_id)
    if job is None:
        return None
    records = [vertex.records for vertex in job.vertices]
    ended = bool(job.vertices) and all(source.has_ended for source in job.sources)
    if job.state.is_over:
        # A vertex that is a whole job exchanges nothing; the counts inside it are gone.
        known = job.state is JobState.FINISHED and bool(job.edges)
        return Reading(
            records=_total(records) if known else math.nan, pending=math.nan, ended=ended
        )
    pending = []
    for source in job.sources:
        sums = await rest.metric_sums(job_id, source.id, (*COUNTERS, PENDING))
        pending.append(_total(value for name, value in sums.items() if name.endswith(PENDING)))
        records.append(_total(value for name, value in sums.items() if name.endswith(COUNTERS)))
    return Reading(records=_total(records), pending=_total(pending), ended=ended)


def _total(values: Iterable[float]) -> float:
    """Return the sum; NaN of no values, or if some are unknown and the others sum to 0."""
    listed = list(values)
    known = [value for value in listed if not math.isnan(value)]
    total = sum(known)
    return total if total > 0 or (listed and len(known) == len(listed)) else math.nan


async def with_graph(journal: RescaleJournal, *, jobs: FlinkJobs, spec: JobSpec) -> RescaleJournal:
    """Return the change with the graph of the revision that it leads to.

    Args:
        journal: Before TaskManagers are started; the JobManager is that of the revision, with its
            jar.
        jobs: Who asks Flink.
        spec: How the job is submitted at the revision.

    Raises:
        NotInProgramError: See `read_graph_of`; nothing has been started.
    """
    revision = journal.revision
    # On one machine memory is not scarce enough to be worth a second run of the program.
    if revision is None or revision.graph is not None or journal.is_back or not revision.places:
        return journal
    by_agent = await is_pinned_by_agent(journal, jobs=jobs, spec=spec)
    graph = await read_graph_of(journal, spec, jobs.read_graph, by_agent=by_agent)
    if graph is None:
        return journal
    return journal.model_copy(update={"revision": revision.model_copy(update={"graph": graph})})


async def read_graph_of(
    journal: RescaleJournal,
    spec: JobSpec,
    read: Callable[..., Awaitable[JobGraph]],
    *,
    by_agent: bool,
) -> JobGraph | None:
    """Return the graph of the program that a change leads to; `None` if it cannot be read.

    That stops nothing: every operator is then taken to use managed memory, and a program that
    cannot run says so when it is submitted. Only one without the class to run, or without an
    operator of the manifest, can never run.

    Args:
        journal: The change.
        spec: How the job is submitted at its revision.
        read: `FlinkJobs.read_graph`, or what asks another JobManager.
        by_agent: Whether Weir's agent is to pin the job.

    Raises:
        NotInProgramError: It lacks the class or an operator.
    """
    try:
        return await read(
            spec.program(journal.wanted, by_agent=by_agent),
            operators=spec.pinned_groups,
            whole_job=spec.only_operator,
        )
    except NotInProgramError:
        raise
    except (TemporaryError, PermanentError) as error:
        log.warning("graph not read", change=journal.id, failure=str(error))
        return None


async def refuse_script(journal: RescaleJournal, *, jobs: FlinkJobs, spec: JobSpec) -> None:
    """Refuse a script that is no job; a program that is none says so when it is submitted.

    Raises:
        PermanentError: The script cannot run as one job; nothing has been touched.
    """
    if spec.whole_job is None or not is_script(spec.entry_class) or journal.is_back:
        return  # one whose operators are listed is read for these
    program = replace(spec.program(journal.wanted), configuration={})
    await jobs.read_graph(program, operators=(), whole_job=spec.whole_job)


async def is_pinned_by_agent(journal: RescaleJournal, *, jobs: FlinkJobs, spec: JobSpec) -> bool:
    """Return whether Weir's agent is to pin the job, because its program does not.

    Raises:
        PermanentError: The agent cannot pin the operators that the manifest lists.
    """
    if spec.whole_job is not None and not spec.vertices:
        return False
    return await jobs.is_pinned_by_agent(
        spec.program(journal.wanted, by_agent=True),
        most=parallelism(journal.wanted),
        vertices=spec.vertices,
    )
