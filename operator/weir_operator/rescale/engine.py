"""The engine that walks a journal: one path for every change of a job.

First start, rescale, recovery and suspension are the same steps, some left out (see `journal`).
The engine writes the journal before each step, makes every step idempotent, bounds it in time, and
goes back when the target does not come to run. It decides nothing: what the target is, is the
loops' business.

Source of the order (added TaskManagers registered, stop with savepoint, removed ones gone,
submission with the new parallelism, verification): measured on Flink 2.3.0, see
docs/decisions/0001.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

import structlog

from weir_operator.clock import Clock
from weir_operator.errors import (
    PermanentError,
    PodsPendingError,
    ResizeRefusedError,
    TemporaryError,
)
from weir_operator.rescale.closing import close_change
from weir_operator.rescale.job import JobSpec, RescaleSettings
from weir_operator.rescale.jobs import FINISHED, LIVE_STATES, Jobs, Progress, SavepointState
from weir_operator.rescale.journal import Kind, RescaleJournal, Step, new_id
from weir_operator.rescale.patience import Patience
from weir_operator.rescale.replicas import (
    excess_replicas,
    explain_absence,
    missing_replicas,
    size_changes,
    stale_replicas,
)
from weir_operator.rescale.turning import Setback, never_stopped, turn_round
from weir_operator.runtime.seam import Replica, Runtime
from weir_operator.status import StatusStore

log = structlog.get_logger()

SLOW_START = 3
"""Start deadlines after which TaskManagers that have a node and do not register are given up."""


class Rescaler:
    """Takes one StreamApp's job from deployment to deployment."""

    def __init__(
        self,
        *,
        runtime: Runtime,
        jobs: Jobs,
        spec: JobSpec,
        store: StatusStore,
        settings: RescaleSettings,
        clock: Clock,
    ) -> None:
        self._runtime = runtime
        self._jobs = jobs
        self._spec = spec
        self._store = store
        self._settings = settings
        self._clock = clock
        patience = Patience(clock, limit=settings.submit_deadline)
        self._until, self._retried = patience.until, patience.retried

    async def walk(self, journal: RescaleJournal) -> RescaleJournal:
        """Take the steps of `journal` from where it stands to an end, and return that end.

        Raises:
            TemporaryError: The status could not be written; nothing was done since.
        """
        steps: dict[Step, Callable[[RescaleJournal], Awaitable[RescaleJournal]]] = {
            Step.START: self._start,
            Step.STOP: self._stop,
            Step.CANCEL: self._cancel,
            Step.REMOVE: self._remove,
            Step.SUBMIT: self._submit,
            Step.VERIFY: self._verify,
        }
        while not journal.step.is_end:
            await self._write(journal)
            log.info("step", change=journal.id, step=str(journal.step), way=str(journal.direction))
            revision = journal.made_of(self._store.load().revision)
            if revision is not None:
                self._runtime.use(revision)
            try:
                # Whatever the step asks, somebody must be there to answer.
                await self._runtime.ensure_job_manager()
                journal = await steps[journal.step](journal)
            except PodsPendingError as error:
                journal = self._give_up(journal, str(error), pending=error.groups)
            except (TemporaryError, PermanentError, ResizeRefusedError) as error:
                # Steps retry what may pass; what is left over ends the step, never the engine.
                journal = self._give_up(journal, str(error))
        await self._finish(journal)
        return journal

    async def drop(self, journal: RescaleJournal) -> None:
        """End a change of which nothing has run yet; what it knows of the state is kept."""
        await self._finish(journal.at(Step.FAILED, self._clock.now(), failure="It is begun anew"))

    async def _start(self, journal: RescaleJournal) -> RescaleJournal:
        """Start what is missing and wait until Flink has it; the old job runs on meanwhile."""
        await self._runtime.ensure_job_manager()
        await self._retried(self._jobs.prepare)
        revision = journal.made_of(self._store.load().revision)

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
        await self._runtime.start([replace(spec, avoid=avoid) for spec in missing])

        leave_job = journal.kind is Kind.RESCALE and not journal.is_back
        if leave_job:
            stay = {replica.id for replica in await remaining()}
            alive = await self._runtime.replicas()
            await self._runtime.prepare_stop([each.id for each in alive if each.id not in stay])

        async def lacking() -> bool | None:
            present = await remaining()
            if missing_replicas(present, journal.wanted):
                raise PermanentError("A TaskManager ended while it started: see its log")
            ids = tuple(replica.id for replica in present)
            return True if not await self._jobs.unregistered(ids) else None

        limit = self._settings.start_deadline
        if await self._until(lacking, limit) is None:
            absence = explain_absence(await remaining(), limit)
            # Whoever has a place is on the way: a busy node, or a large image, takes its time.
            more = (SLOW_START - 1) * limit
            if isinstance(absence, PodsPendingError) or await self._until(lacking, more) is None:
                raise absence
        if journal.kind is Kind.UPGRADE:
            return journal.at(Step.SUBMIT, self._clock.now())
        if leave_job:
            # While the job runs: it adds nothing to the gap, and a refusal costs no restart.
            await self._give_sizes(await remaining(), journal)
        return journal.at(Step.STOP if leave_job else Step.REMOVE, self._clock.now())

    async def _stop(self, journal: RescaleJournal) -> RescaleJournal:
        """Stop the old job with a savepoint, or past the deadline go by its newest checkpoint."""
        job = _required(journal.old_job)
        settings = self._settings
        if journal.by_checkpoint or await self._goes_by_checkpoint(journal):
            return await self._stop_by_checkpoint(journal)

        async def ended() -> SavepointState | None:
            # The trigger id makes asking again harmless, so a lost answer costs nothing.
            state = await self._jobs.savepoint(job, journal.trigger)
            if state is None:
                await self._jobs.stop(job, journal.trigger)
                return None
            return state if state.path or state.failure else None

        deadline = settings.savepoint_deadline
        try:
            found = await self._until(ended, deadline)
        except PermanentError as error:
            return await self._savepoint_failed(journal, str(error))
        if found is None:
            if settings.via != "Savepoint" and await self._has_checkpoint(job):
                log.warning("savepoint is late, going by checkpoint", deadline=deadline)
                late = journal.at(Step.STOP, self._clock.now(), by_checkpoint=True)
                await self._write(late)
                return await self._stop_by_checkpoint(late)
            found = await self._until(ended, settings.start_deadline)
        if found is None or found.path is None:
            cause = found.failure if found else "it did not come to an end"
            return await self._savepoint_failed(journal, f"The savepoint failed: {cause}")
        return self._stopped(journal, found.path)

    async def _goes_by_checkpoint(self, journal: RescaleJournal) -> bool:
        """Whether no savepoint is even tried.

        A job without a checkpoint would begin anew; and what stops for long, or goes on as another
        revision, is worth a savepoint.
        """
        if self._settings.via != "Checkpoint" or journal.kind is not Kind.RESCALE:
            return False
        return await self._has_checkpoint(_required(journal.old_job))

    async def _has_checkpoint(self, job: str) -> bool:
        return await self._runtime.newest_checkpoint(job) is not None

    async def _savepoint_failed(self, journal: RescaleJournal, cause: str) -> RescaleJournal:
        """Leave a job that lives as it is; take the checkpoint of one that is gone or must end."""
        progress = await self._retried(lambda: self._jobs.progress(_required(journal.old_job)))
        lives = progress is not None and progress.state in LIVE_STATES
        if lives and journal.kind is not Kind.SUSPEND:
            return self._give_up(journal, cause)
        late = journal.at(Step.STOP, self._clock.now(), by_checkpoint=True)
        await self._write(late)
        return await self._stop_by_checkpoint(late)

    async def _stop_by_checkpoint(self, journal: RescaleJournal) -> RescaleJournal:
        job = _required(journal.old_job)
        await self._retried(lambda: self._jobs.cancel(job))
        await self._ended(job)
        # A savepoint that came at the last moment has ended the job by itself: it is the newest.
        state = await self._retried(lambda: self._jobs.savepoint(job, journal.trigger))
        path = state.path if state else None
        if path is not None:
            return self._stopped(
                journal.at(Step.STOP, self._clock.now(), by_checkpoint=False), path
            )
        progress = await self._retried(lambda: self._jobs.progress(job))
        if progress is not None and progress.state == FINISHED and journal.kind is not Kind.SUSPEND:
            # Begun again, it would emit everything once more.
            return self._give_up(journal, "The job came to its own end")
        restore = await self._runtime.newest_checkpoint(job) or self._store.load().restore_path
        return self._stopped(journal.at(Step.STOP, self._clock.now(), by_checkpoint=True), restore)

    def _stopped(self, journal: RescaleJournal, restore_path: str | None) -> RescaleJournal:
        step = Step.DONE if journal.kind is Kind.SUSPEND else Step.REMOVE
        return journal.at(step, self._clock.now(), restore_path=restore_path)

    async def _cancel(self, journal: RescaleJournal) -> RescaleJournal:
        """End what was submitted; its own newest checkpoint, if any, is where to go on from."""
        job = journal.new_job
        progress = await self._retried(lambda: self._jobs.progress(job))
        ran = journal.ran
        if progress is not None:
            ran = ran or progress.ran
            await self._retried(lambda: self._jobs.cancel(job))
            await self._ended(job)
        restore = await self._runtime.newest_checkpoint(job) or journal.restore_path
        if journal.kind is Kind.UPGRADE and journal.attempt == 0:
            # What the new revision wrote is not for the old one to read.
            restore = journal.restore_path
        now = self._clock.now()
        if journal.kind is Kind.START or journal.attempt >= self._settings.back_attempts:
            return journal.at(Step.FAILED, now, ran=ran, restore_path=restore)
        return journal.at(
            Step.REMOVE if journal.kind is Kind.UPGRADE else Step.START,
            now,
            ran=ran,
            restore_path=restore,
            new_job=new_id(),
            attempt=journal.attempt + 1,
        )

    async def _remove(self, journal: RescaleJournal) -> RescaleJournal:
        """End what is not wanted and give the rest its sizes."""
        revision = journal.made_of(self._store.load().revision)
        alive = await self._runtime.replicas()
        stale = stale_replicas(alive, revision, journal.replaced)
        stay = [replica for replica in alive if replica.id not in stale]
        await self._runtime.stop((*stale, *excess_replicas(stay, journal.wanted)))
        try:
            await self._give_sizes(await self._runtime.replicas(), journal)
        except ResizeRefusedError as error:
            # With other sizes the job runs all the same, and whoever looks next sees to them.
            log.warning("sizes refused", change=journal.id, failure=str(error))
        if journal.is_back and never_stopped(journal):
            return await self._abandon(journal)
        step = Step.START if journal.kind is Kind.UPGRADE else Step.SUBMIT
        return journal.at(step, self._clock.now())

    async def _give_sizes(self, replicas: Sequence[Replica], journal: RescaleJournal) -> None:
        sizes = size_changes(replicas, journal.wanted)
        if sizes:
            await self._runtime.resize(sizes)

    async def _abandon(self, journal: RescaleJournal) -> RescaleJournal:
        """Leave the old job running; where the stop got through after all, start it again."""
        job = _required(journal.old_job)
        now = self._clock.now()
        state = await self._retried(lambda: self._jobs.savepoint(job, journal.trigger))
        if state is not None and state.path is not None:
            return journal.at(Step.SUBMIT, now, restore_path=state.path, new_job=new_id())
        progress = await self._retried(lambda: self._jobs.progress(job))
        if progress is not None and (progress.state in LIVE_STATES or progress.state == FINISHED):
            return journal.at(Step.ABANDONED, now)
        restore = await self._runtime.newest_checkpoint(job) or self._store.load().restore_path
        return journal.at(
            Step.SUBMIT, now, restore_path=restore, new_job=new_id(), by_checkpoint=True
        )

    async def _submit(self, journal: RescaleJournal) -> RescaleJournal:
        """Submit the job under the id in the journal, unless an earlier attempt got through."""
        if await self._runtime.ensure_job_manager():
            await self._retried(self._jobs.prepare)
        spec = self._spec.of(journal.made_of(self._store.load().revision))

        async def submitted() -> bool | None:
            if await self._jobs.progress(journal.new_job) is None:
                await self._jobs.submit(
                    journal.new_job,
                    arguments=spec.program_arguments(journal.wanted),
                    parallelism=spec.default_parallelism(journal.wanted),
                    entry_class=spec.entry_class,
                    restore_path=journal.restore_path,
                )
            return True

        if await self._until(submitted, self._settings.submit_deadline) is None:
            raise TemporaryError(
                f"The job could not be submitted within {self._settings.submit_deadline:g} s"
            )
        return journal.at(Step.VERIFY, self._clock.now())

    async def _verify(self, journal: RescaleJournal) -> RescaleJournal:
        """Wait until every task runs where it should."""
        job = journal.new_job
        ran = False

        async def settled() -> Progress | None:
            nonlocal ran
            progress = await self._jobs.progress(job)
            if progress is None:
                raise PermanentError("The JobManager lost the job before it ran")
            ran = ran or progress.ran
            return progress if progress.running or progress.state not in LIVE_STATES else None

        try:
            progress = await self._until(settled, self._settings.submit_deadline, period=0.02)
        except PermanentError as error:
            return self._give_up(journal, str(error), ran=ran)
        if progress is not None and progress.state == FINISHED:  # there was little left to do
            return self._verified(journal)
        if progress is None or not progress.running:
            cause = await self._retried(lambda: self._jobs.failure(job))
            return self._give_up(journal, f"The job did not come to run: {cause}", ran=ran)
        wrong = await self._retried(lambda: self._jobs.misplaced(job))
        if wrong is not None:
            return self._give_up(journal, wrong, ran=True)
        return self._verified(journal)

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
    ) -> RescaleJournal:
        log.warning("step failed", change=journal.id, step=str(journal.step), failure=failure)
        setback = Setback(failure=failure, ran=ran, pending=pending)
        return turn_round(
            journal, setback, now=self._clock.now(), attempts=self._settings.back_attempts
        )

    async def _ended(self, job: str) -> None:
        async def gone() -> bool | None:
            progress = await self._jobs.progress(job)
            return True if progress is None or progress.state not in LIVE_STATES else None

        if await self._until(gone, self._settings.submit_deadline) is None:
            # Two jobs at once would emit every record twice: better to wait than to go on.
            raise TemporaryError(f"Job {job} did not end; it must, before the next one starts")

    async def _write(self, journal: RescaleJournal) -> None:
        await self._store.save(self._store.load().model_copy(update={"rescale": journal}))

    async def _finish(self, journal: RescaleJournal) -> None:
        """Write what is true now, then clear what nobody needs any more."""
        status, superseded = close_change(
            self._store.load(), journal, self._settings, now=self._clock.now()
        )
        await self._store.save(status)
        for path in superseded:
            try:
                await self._jobs.dispose(path)
            except (TemporaryError, PermanentError) as error:
                # Clearing up is no reason to disturb a job that runs; the log names what is left.
                log.warning("savepoint left behind", path=path, failure=str(error))


def _required(job: str | None) -> str:
    if job is None:
        raise PermanentError("Expected a job to stop, got none: start it first")
    return job
