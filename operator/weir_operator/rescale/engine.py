"""The engine that executes a journal: one path for every change of a job.

First start, rescale, recovery and suspension are the same steps, some left out (see `journal`).
The engine writes the journal before each step, makes every step idempotent, limits its time, and
rolls back if the target does not run. The loops choose the target.

Source of the order (added TaskManagers registered, stop with savepoint, removed ones gone,
submission with the new parallelism, verification): measured on Flink 2.3.0, see
docs/decisions/0001.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, replace

import structlog

from weir_operator.clock import Clock, Retrier
from weir_operator.errors import (
    PermanentError,
    PodsPendingError,
    ResizeRefusedError,
    TemporaryError,
)
from weir_operator.flink.answers import JobState
from weir_operator.rescale.closing import (
    BACK_ATTEMPTS,
    WITH_A_WAY_BACK,
    WithdrawnError,
    close_change,
    is_between_jobs,
    never_stopped,
    plan_rollback,
)
from weir_operator.rescale.flink import (
    FlinkJobs,
    Progress,
    is_pinned_by_agent,
    refuse_script,
    with_graph,
)
from weir_operator.rescale.flow import Flow, Reading, explain_standstill, is_silent, judge_flow
from weir_operator.rescale.journal import Direction, Kind, RescaleJournal, Step, new_id
from weir_operator.rescale.replicas import (
    excess_replicas,
    explain_absence,
    explain_wait,
    missing_replicas,
    size_changes,
    stale_replicas,
)
from weir_operator.rescale.settings import JobSpec, RescaleSettings
from weir_operator.rescale.status import StatusStore, add_node_time, expected_node_time, may_submit
from weir_operator.rescale.stopping import (
    StateFinder,
    StateMissingError,
    Stop,
    find_own_failure,
    is_of,
    is_savepoint,
)
from weir_operator.runtime.protocol import Replica, Runtime
from weir_operator.runtime.revision import Revision

log = structlog.get_logger()

OWN_END = "The job has finished"
OLD_JOB_PERIOD = 1.0
"""Seconds between two questions whether the old job still runs while TaskManagers start."""
REPORT_WAIT_AFTER = 10.0
"""Seconds from the start of TaskManagers until the status names those without a place: on most
clusters, all have one by then."""
SLOW_START = 3
"""Start deadlines after which TaskManagers that have a node and do not register are given up."""
WARM_UP_DEADLINE = 10.0
"""Seconds for the first task of new TaskManagers, while the old job runs; it takes less than a
second of CPU."""
STOP_POLL = 0.02
"""Seconds between two questions after a stop: the job is down once its savepoint is written."""
VERIFY_POLL = 0.05
"""Seconds between two questions whether all tasks run. The answer costs the JobManager CPU that the
tasks need to start, and is up to 100 ms old (`flink/configuration`)."""
FLOW_PERIOD = 2.0
"""Seconds for which a job is watched before it is stopped, until a record passes."""
FLOW_POLL = 0.1
"""Seconds between two counts of records; Flink counts anew as often (`flink/configuration`)."""
FLOW_RECENT = 5.0
"""Seconds before the stop within which the count before TaskManagers started is compared with the
next one; an older one is taken again."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EngineParts:
    """What the engine of one StreamApp needs."""

    runtime: Runtime
    """Where TaskManagers run."""
    jobs: FlinkJobs
    """Who asks Flink."""
    spec: JobSpec
    """How the job is submitted."""
    store: StatusStore
    settings: RescaleSettings
    """How long each step may take."""
    clock: Clock
    adapt: Callable[[RescaleJournal], Awaitable[RescaleJournal]] | None = None
    """Gives a change to another revision the operators of the program that it starts; `None` leaves
    them as they were planned."""


class Rescaler:
    """Takes one StreamApp's job from deployment to deployment."""

    def __init__(self, parts: EngineParts) -> None:
        self._adapt = parts.adapt
        self._runtime = parts.runtime
        self._jobs = parts.jobs
        self._spec = parts.spec
        self._store = parts.store
        self._settings = parts.settings
        self._clock = parts.clock
        self._states = StateFinder(jobs=parts.jobs, runtime=parts.runtime, clock=parts.clock)
        retrier = Retrier(parts.clock, limit=parts.settings.submit_deadline)
        self._until, self._retried = retrier.until, retrier.retried
        self._resumed = False  # it goes on with what an earlier one left
        self._earlier: tuple[float, Reading] | None = None  # when, by the monotonic clock, and what
        self._is_asked_for: Callable[[RescaleJournal], bool] = lambda journal: True
        self._to_stop = False

    def can_resume(self, journal: RescaleJournal) -> bool:
        """Return whether it can continue a change that an earlier controller left half-done.

        Not one of an external job: since then, the StreamApp was given a job of its own.
        """
        return not journal.in_place

    async def execute(
        self,
        journal: RescaleJournal,
        is_asked_for: Callable[[RescaleJournal], bool] = lambda journal: True,
        *,
        to_stop: bool = False,
    ) -> RescaleJournal:
        """Execute the remaining steps of `journal`, and return it at its end.

        Args:
            journal: The change.
            is_asked_for: Whether the spec still asks for it. A rescale that it does not ask for is
                given up as long as that costs nothing: until the job is stopped.
            to_stop: The job is to be stopped for good: what waits for a start fails instead.

        Raises:
            TemporaryError: The status could not be written; nothing was done since.
            UnexpectedJobError: A job runs that the change does not know; the step is left as it is.
        """
        steps: dict[Step, Callable[[RescaleJournal], Awaitable[RescaleJournal]]] = {
            Step.START: self._start,
            Step.STOP: self._stop,
            Step.CANCEL: self._cancel,
            Step.REMOVE: self._remove,
            Step.SUBMIT: self._submit,
            Step.VERIFY: self._verify,
        }
        self._resumed = self._store.load().rescale == journal
        self._earlier = None
        self._is_asked_for, self._to_stop = is_asked_for, to_stop
        while not journal.step.is_end:
            if to_stop and is_between_jobs(journal):
                why = "The job is to be stopped"
                journal = journal.at(Step.FAILED, self._clock.now(), failure=why, withdrawn=True)
                break
            await self._write(journal)
            log.info("step", change=journal.id, step=str(journal.step), way=str(journal.direction))
            self._use(journal.revision_of_processes(self._store.load().revision), journal)
            try:
                if journal.kind is Kind.UPGRADE and journal.is_back and journal.step is Step.REMOVE:
                    # First: TaskManagers that wait for a node would take the place of the new
                    # JobManager once it ends, and the old one would get none.
                    await self._end_unwanted(journal)
                # Every step needs a JobManager that answers. A submission ensures one at each
                # attempt; an upgrade whose pods all start at once replaces it in `_remove`, after
                # the old TaskManagers have ended.
                if journal.step is not Step.SUBMIT and not self._starts_at_once(journal):
                    await self._runtime.ensure_job_manager()
                journal = await steps[journal.step](journal)
            except StateMissingError as error:
                # On no way is there anything that the job could resume from.
                journal = journal.at(Step.FAILED, self._clock.now(), failure=str(error))
            except WithdrawnError as error:
                journal = self._give_up(journal, str(error), withdrawn=True)
            except PodsPendingError as error:
                journal = self._give_up(journal, str(error), pending=error.groups)
            except (TemporaryError, PermanentError, ResizeRefusedError) as error:
                # Steps retry what may pass; what is left over ends the step, never the engine.
                journal = self._give_up(journal, str(error))
        await self._finish(journal)
        return journal

    async def end_unstarted(
        self, journal: RescaleJournal, failure: str, *, step: Step = Step.FAILED
    ) -> RescaleJournal:
        """End a change of which nothing has run yet, and return its journal at `step`.

        The status says why, and keeps what the change knows of the state.
        """
        end = journal.at(step, self._clock.now(), failure=failure)
        await self._finish(end)
        return end

    async def retained(self, job: str) -> tuple[str, ...]:
        """Return checkpoints of an ended job, to delete once the next job has its own."""
        try:
            return await self._states.find_retained(job)
        except (TemporaryError, PermanentError) as error:
            # Clearing up is no reason to fail a change; the log names whose checkpoints are left.
            log.warning("checkpoints left behind", job=job, failure=str(error))
            return ()

    async def dispose(self, path: str) -> None:
        """Delete a savepoint or checkpoint that is no longer needed."""
        try:
            await self._jobs.dispose(path)
        except (TemporaryError, PermanentError) as error:
            # Clearing up is no reason to disturb a job that runs; the log names what is left.
            log.warning("state left behind", path=path, failure=str(error))

    async def remove_empty_folders(self, jobs: Sequence[str]) -> None:
        """Remove the folders that ended jobs left in the storage, where nothing is in them."""
        try:
            await self._runtime.remove_empty_folders(jobs)
        except (TemporaryError, PermanentError) as error:
            log.warning("empty folders left behind", jobs=jobs, failure=str(error))

    async def _start(self, journal: RescaleJournal) -> RescaleJournal:
        """Start what is missing and wait until Flink has it, while the old job runs."""
        self._withdraw_if_unasked(journal)
        await self._runtime.ensure_job_manager()
        await self._retried(self._jobs.prepare)
        adapt = self._adapt
        if adapt is not None:
            before = journal
            adapted = await self._retried(lambda: adapt(before))
            if adapted is not journal:
                await self._end_those_of_another_graph(journal, adapted)
                journal = adapted
                await self._write(journal)
                self._use(journal.revision, journal)
        revision = journal.revision_of_processes(self._store.load().revision)
        # Before anything is started or stopped: a job that cannot be pinned is left alone.
        spec = self._spec.of(revision)
        await self._retried(lambda: refuse_script(journal, jobs=self._jobs, spec=spec))
        await self._retried(lambda: is_pinned_by_agent(journal, jobs=self._jobs, spec=spec))
        known = await with_graph(journal, jobs=self._jobs, spec=spec)
        if known is not journal:
            journal = known
            await self._write(journal)
            self._use(journal.revision, journal)

        def stale(alive: Sequence[Replica]) -> tuple[str, ...]:
            return stale_replicas(alive, revision, journal.replaced)

        if journal.kind.begins:
            # An earlier attempt may have left what has been mended since; nobody works there.
            await self._runtime.stop(stale(await self._runtime.replicas()))

        async def remaining() -> list[Replica]:
            alive = await self._runtime.replicas()
            leaving = stale(alive)
            stay = [replica for replica in alive if replica.id not in leaving]
            excess = excess_replicas(stay, journal.wanted)
            return [replica for replica in stay if replica.id not in excess]

        avoid = () if journal.is_back else journal.avoid
        missing = missing_replicas(await remaining(), journal.wanted)
        added = await self._runtime.start([replace(spec, avoid=avoid) for spec in missing])
        if added and not journal.is_back:
            journal = journal.model_copy(update={"started": journal.started + len(added)})

        leave_job = journal.kind is Kind.RESCALE and not journal.is_back
        asked = -math.inf
        if leave_job:
            # While TaskManagers start, it takes no time of the change.
            self._earlier = await self._reading_or_none(journal)
            stay = {replica.id for replica in await remaining()}
            alive = await self._runtime.replicas()
            await self._runtime.prepare_stop([each.id for each in alive if each.id not in stay])

        began = self._clock.monotonic()

        async def lacking() -> bool | None:
            nonlocal asked, journal
            self._withdraw_if_unasked(journal)
            now = self._clock.monotonic()
            if leave_job and journal.old_job is not None and now - asked >= OLD_JOB_PERIOD:
                asked = now
                old = await self._jobs.progress(journal.old_job)
                if old is not None and old.state.is_over:
                    raise PermanentError("The job ended while TaskManagers were starting")
            present = await remaining()
            if missing_replicas(present, journal.wanted):
                raise PermanentError("A TaskManager ended while it was starting: see its log")
            waits_for = explain_wait(present) if now - began >= REPORT_WAIT_AFTER else ""
            if waits_for != journal.waits_for:
                journal = journal.model_copy(update={"waits_for": waits_for})
                await self._write(journal)
            ids = tuple(replica.id for replica in present)
            return True if not await self._jobs.unregistered(ids) else None

        await self._wait_for_task_managers(journal, lacking, remaining)
        await self._warm_up(added if leave_job else ())
        if journal.kind is Kind.UPGRADE:
            return journal.at(Step.SUBMIT, self._clock.now())
        if leave_job:
            # While the job runs: it adds nothing to the gap, and a refusal costs no restart.
            await self._give_sizes(await remaining(), journal)
        return journal.at(Step.STOP if leave_job else Step.REMOVE, self._clock.now())

    def _use(self, revision: Revision | None, journal: RescaleJournal) -> None:
        """Make all processes from now on of this revision, with the agent of this direction.

        The way back leads to the image that ran, which the nodes could pull: the one of now may be
        why the target does not run. All else is made with the one of now; an old one may be gone.
        """
        if revision is not None:
            agent = revision.agent if journal.is_back else None
            self._runtime.use(revision.model_copy(update={"agent": agent}))

    async def _end_those_of_another_graph(
        self, before: RescaleJournal, adapted: RescaleJournal
    ) -> None:
        """End TaskManagers that an upgrade started for another graph: it decides their memory.

        Called before the new graph is written, because a later controller sees only that one.
        """
        expected = None if before.revision is None else before.revision.graph
        found = None if adapted.revision is None else adapted.revision.graph
        if before.kind is Kind.UPGRADE and expected is not None and found != expected:
            await self._runtime.stop([each.id for each in await self._runtime.replicas()])

    async def _warm_up(self, added: tuple[str, ...]) -> None:
        """Have new TaskManagers run their first task while the old job runs.

        What their first task loads would be a part of the gap. Another job on the JobManager must
        have ended before the next step, and so must one that an earlier controller left.
        """

        async def idle() -> bool | None:
            return None if await self._jobs.is_warming_up() else True

        if added:
            try:
                await self._jobs.warm_up(added)
                if await self._until(idle, WARM_UP_DEADLINE) is not None:
                    return
            except (TemporaryError, PermanentError) as error:
                # Not worth a failed change: without it, the gap is longer.
                log.info("not warmed up", replicas=added, failure=str(error))
        await self._retried(self._jobs.cancel_warm_up)
        if await self._until(idle, self._settings.submit_deadline) is None:
            raise TemporaryError("The job that warms up TaskManagers did not end")

    async def _wait_for_task_managers(
        self,
        journal: RescaleJournal,
        lacking: Callable[[], Awaitable[bool | None]],
        remaining: Callable[[], Awaitable[list[Replica]]],
    ) -> None:
        """Wait until all TaskManagers are registered, for nodes that are being added too."""
        limit, began = self._settings.start_deadline, self._clock.monotonic()
        if await self._until(lacking, limit) is not None:
            return
        absence = explain_absence(await remaining(), limit)
        if isinstance(absence, PodsPendingError):
            waiting = {pool for _, pool in absence.groups}
            patience = self._patience(journal, absence)
            if patience <= limit:
                raise absence
            joined = await self._until(lacking, patience - limit) is not None
            if not joined:
                absence = explain_absence(await remaining(), patience)
                if isinstance(absence, PodsPendingError):
                    raise self._with_node_times(absence)
                joined = await self._until(lacking, (SLOW_START - 1) * limit) is not None
            if not joined:
                raise absence
            await self._note_node_times(waiting, self._clock.monotonic() - began)
            return
        # Whoever has a place is on the way: a busy node, or a large image, takes its time.
        if await self._until(lacking, (SLOW_START - 1) * limit) is None:
            raise absence

    def _patience(self, journal: RescaleJournal, absence: PodsPendingError) -> float:
        """Return seconds until pods without a place are given up: a node may be on its way."""
        if journal.kind is Kind.RECOVER or journal.is_back:
            return self._settings.start_deadline  # nothing runs: fewer replicas now come first
        known = self._store.load().node_times
        return min(
            (self._settings.node_patience(pool, known) for _, pool in absence.groups), default=0.0
        )

    async def _note_node_times(self, pools: Collection[str], seconds: float) -> None:
        """Remember how long replicas without room waited for a node that was added."""
        status = self._store.load()
        times = add_node_time(status.node_times, pools, seconds)
        await self._store.save(status.model_copy(update={"node_times": times}))

    def _with_node_times(self, absence: PodsPendingError) -> PodsPendingError:
        known = self._store.load().node_times
        before = "; ".join(
            f"in pool {pool}, {len(times)} earlier waits for a node took up to "
            f"{expected_node_time(times):.0f} s"
            for pool in sorted({pool for _, pool in absence.groups})
            if (times := known.get(pool))
        )
        return PodsPendingError(f"{absence}; {before}", absence.groups) if before else absence

    def _withdraw_if_unasked(self, journal: RescaleJournal) -> None:
        runs = journal.kind is Kind.RESCALE and not journal.is_back
        unasked = not (journal.by_checkpoint or self._is_asked_for(journal))
        if runs and (self._to_stop or unasked):
            raise WithdrawnError("The StreamApp asks for another deployment now")

    async def _stop(self, journal: RescaleJournal) -> RescaleJournal:
        """Stop the old job with a savepoint, or past the deadline go by its newest checkpoint."""
        job = _required(journal.old_job)
        settings = self._settings
        if journal.kind is not Kind.SUSPEND and not self._resumed:
            journal = await self._note_flow(journal, FLOW_PERIOD)
        if journal.by_checkpoint or await self._goes_by_checkpoint(journal):
            return await self._stop_by_checkpoint(journal)
        stop = Stop(
            self._states,
            job,
            journal.trigger,
            asked=self._resumed,
            asked_at=journal.times[str(Step.STOP)],
        )
        deadline = settings.savepoint_deadline
        found = await self._until(stop.outcome, deadline, period=STOP_POLL)
        if found is None:
            if settings.via != "Savepoint" and await self._jobs.newest(job) is not None:
                log.warning("savepoint is late, going by checkpoint", deadline=deadline)
                return await self._stop_by_checkpoint_instead(journal)
            # Flink gives up by itself, after its checkpoint timeout.
            found = await self._until(stop.outcome, settings.savepoint_limit)
        if found is not None and found.path is not None:
            return self._stopped(journal, found.path)
        if found is not None and found.ended:
            return await self._after_end(journal)
        cause = found.failure if found is not None else "it did not finish"
        return await self._savepoint_failed(journal, f"The savepoint failed: {cause}")

    async def _note_flow(self, journal: RescaleJournal, seconds: float) -> RescaleJournal:
        first: Reading | None = None
        if self._earlier is not None and self._clock.monotonic() - self._earlier[0] <= FLOW_RECENT:
            first = self._earlier[1]

        async def flows() -> bool | None:
            nonlocal first
            reading = await self._jobs.reading(_required(journal.old_job))
            if reading is None or reading.ended:
                return False
            if math.isnan(reading.records):
                return None  # a job that has just begun is counted soon
            first = first or reading
            return reading.since(first).records > 0 or None

        try:
            found = await self._until(flows, seconds, period=FLOW_POLL)
        except (TemporaryError, PermanentError) as error:
            # Not worth a failed change: without it, silence counts as a job without input.
            log.info("records not counted", change=journal.id, failure=str(error))
            return journal
        if not found:
            return journal
        journal = journal.model_copy(update={"flowed": True})
        await self._write(journal)
        return journal

    async def _reading_or_none(self, journal: RescaleJournal) -> tuple[float, Reading] | None:
        try:
            reading = await self._jobs.reading(_required(journal.old_job))
        except (TemporaryError, PermanentError) as error:
            log.info("records not counted", change=journal.id, failure=str(error))
            return None
        if reading is None or math.isnan(reading.records):
            return None
        return self._clock.monotonic(), reading

    async def _goes_by_checkpoint(self, journal: RescaleJournal) -> bool:
        """Whether no savepoint is even tried.

        A job without a checkpoint would start over; and what stops for long, or goes on as another
        revision, is worth a savepoint.
        """
        if self._settings.via != "Checkpoint" or journal.kind is not Kind.RESCALE:
            return False
        return await self._jobs.newest(_required(journal.old_job)) is not None

    async def _savepoint_failed(self, journal: RescaleJournal, cause: str) -> RescaleJournal:
        """Leave a job that lives as it is; take the checkpoint of one that is gone or must end."""
        progress = await self._retried(lambda: self._jobs.progress(_required(journal.old_job)))
        if progress is None or progress.state.is_over:
            return await self._after_end(journal)
        if journal.kind is not Kind.SUSPEND:
            job = _required(journal.old_job)
            why = find_own_failure(await self._retried(lambda: self._jobs.failures(job)), journal)
            if why:
                # Any other target would have failed, too.
                journal = journal.model_copy(update={"disturbed": True})
                cause = f"The job failed while Weir was about to restart it: {why}"
            return self._give_up(journal, cause)
        return await self._stop_by_checkpoint_instead(journal)

    async def _stop_by_checkpoint_instead(self, journal: RescaleJournal) -> RescaleJournal:
        """Note that the savepoint came to nothing, and stop the job by its newest checkpoint."""
        late = journal.at(Step.STOP, self._clock.now(), by_checkpoint=True)
        await self._write(late)
        return await self._stop_by_checkpoint(late)

    async def _stop_by_checkpoint(self, journal: RescaleJournal) -> RescaleJournal:
        job = _required(journal.old_job)
        await self._retried(lambda: self._jobs.cancel(job))
        await self._ended(job)
        # A savepoint that came at the last moment has ended the job by itself: it is the newest.
        state = await self._retried(lambda: self._jobs.savepoint(job, journal.trigger))
        if state is not None and state.path is not None:
            return self._stopped(journal, state.path)
        return await self._after_end(journal)

    async def _after_end(self, journal: RescaleJournal) -> RescaleJournal:
        job = _required(journal.old_job)
        if await self._came_to_its_end(job):
            # Begun again, it would emit everything once more.
            return self._give_up(journal, OWN_END)
        restore = await self._restore_point(journal)
        left = await self._retained(job, journal)
        return self._stopped(journal.model_copy(update={"superseded": left}), restore)

    async def _retained(self, job: str, journal: RescaleJournal) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*journal.superseded, *await self.retained(job))))

    async def _came_to_its_end(self, job: str) -> bool:
        status = self._store.load()
        return await self._retried(
            lambda: self._states.came_to_its_end(job, status, stop_asked=True)
        )

    async def _was_stopped(self, journal: RescaleJournal) -> bool:
        """Whether the old job, which runs, was stopped by this change or an earlier one."""
        job, status = _required(journal.old_job), self._store.load()
        asked_at = journal.times.get(str(Step.STOP))
        if status.stop_asked == job:
            asked_at = status.stop_asked_at
        if asked_at is None:
            return False
        since = asked_at
        return await self._retried(lambda: self._states.was_stopped(job, asked_at=since))

    async def _restore_point(self, journal: RescaleJournal) -> str | None:
        job, status = _required(journal.old_job), self._store.load()
        only_cancels = self._settings.via == "Checkpoint" and journal.kind is Kind.RESCALE
        return await self._retried(
            lambda: self._states.find_restore_point(job, status, stop_asked=not only_cancels)
        )

    def _stopped(self, journal: RescaleJournal, restore_path: str | None) -> RescaleJournal:
        step = Step.DONE if journal.kind is Kind.SUSPEND else Step.REMOVE
        return journal.at(step, self._clock.now(), **_left_by_stop(journal, restore_path))

    async def _cancel(self, journal: RescaleJournal) -> RescaleJournal:
        """End what was submitted; its own newest checkpoint, if any, is where to resume."""
        job = journal.new_job
        progress = await self._retried(lambda: self._jobs.progress(job))
        ran = journal.ran
        if progress is not None:
            ran = ran or progress.ran
            await self._retried(lambda: self._jobs.cancel(job))
            await self._ended(job)
        own = await self._retried(lambda: self._states.find_newest(job, stop_asked=False))
        if (
            progress is not None
            and progress.state is JobState.FINISHED
            and not (own and is_savepoint(own))
        ):
            own = None  # Flink has deleted its checkpoints
        ran = ran or own is not None
        now = self._clock.now()
        if own is not None and journal.kind is Kind.UPGRADE and journal.attempt == 0:
            # The new revision has committed records, and what it wrote is not for the old one to
            # read: it resumes from its own state, and the next check starts it again.
            return journal.at(
                Step.DONE, now, direction=Direction.FORWARD, ran=True, restore_path=own
            )
        restore = own or journal.restore_path
        superseded = journal.superseded if own is None else await self._retained(job, journal)
        if journal.kind is Kind.START or journal.attempt >= BACK_ATTEMPTS:
            return journal.at(
                Step.FAILED, now, ran=ran, restore_path=restore, superseded=superseded
            )
        return journal.at(
            Step.REMOVE if journal.kind is Kind.UPGRADE else Step.START,
            now,
            ran=ran,
            restore_path=restore,
            new_job=new_id(),
            attempt=journal.attempt + 1,
            superseded=superseded,
        )

    def _starts_at_once(self, journal: RescaleJournal) -> bool:
        """Return whether TaskManagers are to be started while the JobManager of an upgrade starts.

        For their memory, the graph of the new program must be known before its JobManager answers.
        Not on one machine, where they need its address; not on the way back, nor by a controller
        that goes on with what another one began, which cannot know who still answers.
        """
        revision = journal.revision
        if journal.kind is not Kind.UPGRADE or journal.step is not Step.REMOVE or self._resumed:
            return False
        has_graph = revision is not None and revision.graph is not None and bool(revision.places)
        return has_graph and not journal.is_back

    async def _remove(self, journal: RescaleJournal) -> RescaleJournal:
        """End what is not wanted and give the rest its sizes, which a rescale did in its start.

        An upgrade ends the old TaskManagers while the old JobManager answers, so that none of them
        registers with the new JobManager. It starts the new TaskManagers once the old JobManager is
        gone, so that none registers with that.
        """
        await self._end_unwanted(journal)
        if journal.kind is not Kind.RESCALE or journal.is_back:
            try:
                await self._give_sizes(await self._runtime.replicas(), journal)
            except ResizeRefusedError as error:
                # With other sizes the job runs all the same, and the next check sees to them.
                log.warning("sizes refused", change=journal.id, failure=str(error))
        if journal.is_back and never_stopped(journal) and not journal.has_submitted:
            return await self._abandon(journal)
        if self._starts_at_once(journal):
            await self._runtime.begin_job_manager()
            missing = missing_replicas(await self._runtime.replicas(), journal.wanted)
            added = await self._runtime.start(
                [replace(each, avoid=journal.avoid) for each in missing]
            )
            journal = journal.model_copy(update={"started": journal.started + len(added)})
        step = Step.START if journal.kind is Kind.UPGRADE else Step.SUBMIT
        return journal.at(step, self._clock.now())

    async def _end_unwanted(self, journal: RescaleJournal) -> None:
        revision = journal.revision_of_processes(self._store.load().revision)
        alive = await self._runtime.replicas()
        stale = stale_replicas(alive, revision, journal.replaced)
        stay = [replica for replica in alive if replica.id not in stale]
        await self._runtime.stop((*stale, *excess_replicas(stay, journal.wanted)))

    async def _give_sizes(self, replicas: Sequence[Replica], journal: RescaleJournal) -> None:
        sizes = size_changes(replicas, journal.wanted)
        if sizes:
            await self._runtime.resize(sizes)

    async def _abandon(self, journal: RescaleJournal) -> RescaleJournal:
        """Leave the old job running; where the stop got through after all, start it again."""
        job = _required(journal.old_job)
        # An earlier controller may have left one, on TaskManagers that are gone now.
        await self._retried(self._jobs.cancel_warm_up)
        state = await self._retried(lambda: self._jobs.savepoint(job, journal.trigger))
        restore = state.path if state is not None else None
        if restore is None:
            progress = await self._retried(lambda: self._jobs.progress(job))
            lives = progress is not None and not progress.state.is_over
            if lives and await self._was_stopped(journal):
                await self._retried(lambda: self._jobs.cancel(job))
                await self._ended(job)
            elif lives or await self._came_to_its_end(job):
                # A savepoint still being written may end the job later; the next check finds it.
                return journal.at(Step.ABANDONED, self._clock.now())
            restore = await self._restore_point(journal)
        return journal.at(
            Step.SUBMIT,
            self._clock.now(),
            new_job=new_id(),
            **_left_by_stop(journal, restore),
        )

    async def _submit(self, journal: RescaleJournal) -> RescaleJournal:
        """Submit the job under the id in the journal, unless an earlier attempt got through."""
        spec = self._spec.of(journal.revision_of_processes(self._store.load().revision))
        may_have_run = self._resumed

        async def submitted() -> bool | None:
            nonlocal journal, may_have_run
            # Each time: a JobManager that was lost takes longer to be back than an attempt may.
            if await self._runtime.ensure_job_manager():
                await self._jobs.prepare()
            known, live = await asyncio.gather(
                self._jobs.progress(journal.new_job), self._jobs.live()
            )
            if known is None:
                if not may_submit(journal, live):
                    journal = await self._end_old_job(journal)
                    return None
                if may_have_run and await self._states.find_newest(
                    journal.new_job, stop_asked=False
                ):
                    # It has come further than the state that it is to be submitted with.
                    raise PermanentError("The JobManager lost the job after it had started")
                by_agent = await is_pinned_by_agent(journal, jobs=self._jobs, spec=spec)
                may_have_run = True
                program = spec.program(journal.wanted, by_agent=by_agent)
                await self._jobs.submit(journal.new_job, program, restore_path=journal.restore_path)
            return True

        if await self._until(submitted, self._settings.submit_deadline) is None:
            raise TemporaryError(
                f"Weir could not submit the job within {self._settings.submit_deadline:g} s"
            )
        return journal.at(Step.VERIFY, self._clock.now())

    async def _end_old_job(self, journal: RescaleJournal) -> RescaleJournal:
        """Cancel the job of before the change, which Flink brought back; return where to resume.

        Flink writes that a job has ended a moment after its savepoint. A JobManager that is lost in
        between restarts the job from a checkpoint, and what it completes then is newer. What Flink
        did not see complete is only known to be newer where the storage lists the savepoint, too.
        """
        job, restore = _required(journal.old_job), journal.restore_path
        known = await self._jobs.newest(job)
        if known is not None and known.seen_complete:
            newest: str | None = known.path
        else:
            stored = await self._runtime.snapshots(job)
            own_savepoint = restore is not None and is_savepoint(restore) and is_of(restore, job)
            is_late = own_savepoint and restore not in stored
            newest = stored[-1] if stored and not is_late else restore
        await self._jobs.cancel(job)
        if newest in (None, restore) or journal.restore_nonce is not None:
            return journal
        journal = journal.model_copy(
            update={"restore_path": newest, "by_checkpoint": not is_savepoint(newest)}
        )
        await self._write(journal)
        return journal

    async def _verify(self, journal: RescaleJournal) -> RescaleJournal:
        """Wait until every task runs where it should, and records pass or there are none."""
        job = journal.new_job
        ran = False

        async def settled() -> Progress | None:
            nonlocal ran
            progress = await self._jobs.progress(job)
            if progress is None:
                raise PermanentError("The JobManager lost the job before it started")
            ran = ran or progress.ran
            return progress if progress.running or progress.state.is_over else None

        try:
            progress = await self._until(
                settled, self._settings.submit_deadline, period=VERIFY_POLL
            )
        except PermanentError as error:
            return self._give_up(journal, str(error), ran=ran)
        if progress is not None and progress.state is JobState.FINISHED:
            return await self._verify_end(journal)
        if progress is None or not progress.running:
            cause = await self._retried(lambda: self._jobs.failure(job))
            return self._give_up(journal, f"The job did not start: {cause}", ran=ran)
        wrong = await self._retried(lambda: self._jobs.misplaced(job))
        if wrong is not None:
            return self._give_up(journal, wrong, ran=True)
        return await self._verify_flow(journal, lambda: self._jobs.reading(job))

    async def _verify_flow(
        self, journal: RescaleJournal, read: Callable[[], Awaitable[Reading | None]]
    ) -> RescaleJournal:
        """Wait until the running job processes records, or has no backlog."""
        job, settings = journal.new_job, self._settings
        began = self._clock.monotonic()

        async def judged() -> Flow | None:
            progress = await self._jobs.progress(job)
            if progress is None:
                raise PermanentError("The JobManager lost the job after it had started")
            if progress.state.is_over:
                return Flow.ENDED
            reading = await read() if progress.running else None
            waited = self._clock.monotonic() - began
            if reading is None:
                return None
            return judge_flow(reading, waited, flowed=journal.flowed)

        try:
            flow = await self._until(judged, settings.flow_deadline, period=FLOW_POLL)
        except (PermanentError, TemporaryError) as error:
            return self._give_up(journal, str(error), ran=True)
        if flow in (Flow.FLOWS, Flow.IDLE):
            return self._verified(journal)
        progress = await self._retried(lambda: self._jobs.progress(job))
        if progress is not None and progress.state is JobState.FINISHED:
            return await self._verify_end(journal)
        if progress is None or not progress.running:
            cause = await self._retried(lambda: self._jobs.failure(job))
            return self._give_up(journal, f"The job did not go on running: {cause}", ran=True)
        reading = await self._retried(read)
        wrong = None if reading is None else explain_standstill(reading, settings.flow_deadline)
        # Counts of an external job may be old, unless they were seen to grow.
        known = journal.flowed or not journal.in_place
        may_go_back = journal.kind in WITH_A_WAY_BACK and not journal.is_back
        if wrong is not None and known and may_go_back:
            return self._give_up(journal, wrong, ran=True)
        if wrong is not None:
            log.warning("job left standing still", change=journal.id, failure=wrong)
            return self._verified(journal)
        if reading is not None and is_silent(reading):
            # The input may have ended just now, so that this is no reason to restart once more.
            return self._verified(journal.model_copy(update={"no_record_seen": True}))
        log.warning("records not counted", change=journal.id)
        return self._verified(journal)

    async def _verify_end(self, journal: RescaleJournal) -> RescaleJournal:
        """Accept that the job has come to its end, and note if it did so without a single record.

        Even then it may have emitted: at the end of its input, windows fire and sinks commit what
        the savepoint held. Begun again from that savepoint, it would emit this twice.
        """
        reading = await self._retried(lambda: self._jobs.reading(journal.new_job))
        unread = reading is not None and reading.records == 0 and journal.restore_path is not None
        return self._verified(journal.model_copy(update={"ended_unread": unread}))

    def _verified(self, journal: RescaleJournal) -> RescaleJournal:
        step = Step.ROLLED_BACK if journal.is_back else Step.DONE
        return journal.at(step, self._clock.now(), ran=True)

    def _give_up(
        self,
        journal: RescaleJournal,
        failure: str,
        *,
        ran: bool = False,
        pending: tuple[tuple[str, str], ...] = (),
        withdrawn: bool = False,
    ) -> RescaleJournal:
        log.warning("step failed", change=journal.id, step=str(journal.step), failure=failure)
        return plan_rollback(
            journal,
            failure,
            ran=ran,
            pending=pending,
            withdrawn=withdrawn,
            now=self._clock.now(),
        )

    async def _ended(self, job: str) -> None:
        async def gone() -> bool | None:
            progress = await self._jobs.progress(job)
            return True if progress is None or progress.state.is_over else None

        if await self._until(gone, self._settings.submit_deadline) is None:
            # Two jobs at once would emit every record twice: better to wait than to go on.
            raise TemporaryError(f"Job {job} did not end; it must end before the next one starts")

    async def _write(self, journal: RescaleJournal) -> None:
        await self._store.save(self._store.load().model_copy(update={"rescale": journal}))

    async def _finish(self, journal: RescaleJournal) -> None:
        """Write what is true now, then delete what is no longer needed."""
        status, superseded = close_change(
            self._store.load(),
            journal,
            keep=self._settings.keep_savepoints,
            now=self._clock.now(),
        )
        await self._store.save(status)
        await self._runtime.end_boosts()
        for path in superseded:
            await self.dispose(path)
        if journal.old_job is not None and journal.old_job != status.job_id:
            await self.remove_empty_folders((journal.old_job,))


def _left_by_stop(journal: RescaleJournal, path: str | None) -> dict[str, object]:
    if path is None or not is_savepoint(path):
        return {"restore_path": path, "by_checkpoint": True}
    # A savepoint that a person gave the job to start from is not Weir's.
    own = path if is_of(path, _required(journal.old_job)) else None
    return {"restore_path": path, "by_checkpoint": False, "savepoint": own}


def _required(job: str | None) -> str:
    if job is None:
        raise PermanentError("Expected a running job to stop, got none: start it first")
    return job
