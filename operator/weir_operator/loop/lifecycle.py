"""Keeps one job running: start, check, change and end it.

Level-based: each check compares what runs with what the status says should run, and moves towards
it. This module decides no deployment; requests of users (another revision, a suspension) come as
directives. There is one change at a time: another one waits, or is refused with a reason.

The ids of processes show which were lost between two checks: a ReplicaSet, a kubelet or Flink
replaces them without Weir, and often before Weir checks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import PurePosixPath
from typing import Protocol

from weir_operator.errors import (
    JobFailedError,
    ResizeRefusedError,
)
from weir_operator.flink.answers import JobFailure, JobState
from weir_operator.flink.job_graph import JobGraph
from weir_operator.loop import planned_changes
from weir_operator.loop.directives import Directives
from weir_operator.loop.events import Event, Notices
from weir_operator.loop.planned_changes import PATIENT, URGENT, PlacementSearch, Retries
from weir_operator.loop.proposals import count_per_pool
from weir_operator.rescale.engine import EngineParts, Rescaler
from weir_operator.rescale.flink import Progress
from weir_operator.rescale.journal import Kind, RescaleJournal, Step
from weir_operator.rescale.replicas import (
    deployments_of,
    excess_replicas,
    missing_replicas,
    size_changes,
)
from weir_operator.rescale.status import AppStatus, Checkpointed, match_status
from weir_operator.rescale.stopping import StateFinder, StateMissingError
from weir_operator.runtime.protocol import Deployments, Replica, release_replicas
from weir_operator.runtime.revision import Revision
from weir_policies.kernels.wording import format_time
from weir_policies.policy import OperatorModel

Loss = tuple[str, str]
"""Reason and message of an event."""

FAILING = 2
"""Failures of the job from which people are told. Flink restarts it by itself, in a second or two:
one may be a lost node, of which an event speaks already; several matter, although it seems to run
most of the time."""
WITHIN = 600.0
"""Seconds after which a failure counts no more."""


class Losses:
    """Compares the processes of a job with those of the previous check."""

    def __init__(self) -> None:
        self._deployments: Deployments | None = None
        self._replicas: Mapping[str, Replica] = {}
        self._job_manager = ""

    def forget(self, *, job_manager: bool) -> None:
        """Take what is found next as it is: a change has ended and started processes.

        Args:
            job_manager: Whether the change may have made another JobManager, too.
        """
        self._deployments = None
        if job_manager:
            self._job_manager = ""

    def find(
        self,
        replicas: Sequence[Replica],
        job_manager: str,
        deployments: Deployments,
        *,
        ended: Collection[str] = (),
    ) -> tuple[Loss, ...]:
        """Return what was lost since the previous check.

        Args:
            replicas: TaskManagers that are alive.
            job_manager: Which process the JobManager is; empty where that is not known.
            deployments: What is to run; where it has changed, so have the TaskManagers.
            ended: Of the replicas, those that Weir ends now.
        """
        now = {each.id: each for each in replicas}
        before = self._replicas if self._deployments == deployments else now
        gone = [_say(each, "is gone") for name, each in before.items() if name not in now]
        again = [
            _say(each, f"ended{(f' ({each.ended})' if each.ended else '')} and was restarted")
            for name, each in now.items()
            if name in before and _differ(before[name].process, each.process)
        ]
        losses = [("TaskManagerLost", "; ".join(gone + again))] if gone or again else []
        if _differ(self._job_manager, job_manager):
            losses.append(("JobManagerLost", "The JobManager ended and was restarted"))
        self._replicas = {name: each for name, each in now.items() if name not in ended}
        self._deployments = deployments
        self._job_manager = job_manager or self._job_manager
        return tuple(losses)


def _differ(before: str, now: str) -> bool:
    return bool(before and now) and before != now


def _say(replica: Replica, what: str) -> str:
    node = f" ({replica.node})" if replica.node else ""
    why = f": {replica.terminating}" if replica.terminating else ""
    return f"TaskManager {replica.id} of {replica.operator} on {replica.pool}{node} {what}{why}"


NOTE_CHECKPOINT_EVERY = 600.0
"""Seconds between two notes of where a job's newest checkpoint is; the storage has the newest."""


PROGRAM_REFUSED_FOR = 300.0
"""Seconds for which a refusal of a revision stands: what it depends on beside the revision, such as
a policy of the cluster, is seldom mended, and each question runs the program's `main`."""
SPEC_STANDS = 1.0
"""Seconds for which a spec must have stood before the job is stopped for it: edits come in pairs,
and each is an upgrade."""


class Health(StrEnum):
    """What a check of the job found."""

    RUNS = "runs"
    CHANGING = "changing"
    RESTARTING = "restarting"
    SUSPENDED = "suspended"
    FINISHED = "finished"
    """The job came to its own end; there is nothing left to scale."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FirstStart:
    """With what a job begins that never ran under Weir."""

    deployments: Deployments
    savepoint: str | None = None
    """Where its state comes from; `None` starts without."""
    restore_nonce: int = 0
    """A new value makes a job that ran start from the savepoint again."""


class ProgramChecks(Protocol):
    """Refuses what the manifest does not fit, as `wiring.discovery` does."""

    async def check(self, status: AppStatus, wanted: Revision | None) -> None:
        """Return if the loops are made for the operators of the job that runs, or shall run."""

    async def check_upgrade(
        self, journal: RescaleJournal, rest_url: str, jar: str
    ) -> JobGraph | None:
        """Return the graph of the upgrade's program, a jar on a JobManager.

        Returns `None` if the graph is not known before the job is stopped.

        Raises:
            PermanentError: The program's job does not fit the manifest.
        """


class Lifecycle:
    """One StreamApp's job from its first start to its end."""

    def __init__(
        self,
        parts: EngineParts,
        *,
        rescaler: Rescaler,
        start: FirstStart,
        on_event: Callable[[Event], None],
        on_change: Callable[[RescaleJournal], None],
        directives: Callable[[], Directives] = Directives,
        models: Mapping[str, OperatorModel] | None = None,
        checks: ProgramChecks | None = None,
    ) -> None:
        clock, store = parts.clock, parts.store
        self._notices = Notices(on_event, clock)
        self._checks = checks
        self._runtime = parts.runtime
        self._jobs = parts.jobs
        self._states = StateFinder(jobs=parts.jobs, runtime=parts.runtime, clock=clock)
        self._rescaler = rescaler
        self._store = store
        self._start = start
        self._clock = clock
        self._on_change = on_change
        self._directives = directives
        self._room = PlacementSearch(parts, start.deployments, models)
        self._losses = Losses()
        self._failures: tuple[JobFailure, ...] = ()
        self._runs_since = 0.0  # by the last look
        self._retries = Retries(store, clock)
        self._refused: tuple[Revision, frozenset[str]] | None = None  # and its pools
        self._refusal, self._refused_at = "", 0.0
        self._graph: JobGraph | None = None  # of the upgrade that was tried last
        self._busy = asyncio.Lock()
        self._changing = False

    @property
    def is_changing(self) -> bool:
        """Whether a change is in progress; a check is none."""
        return self._changing

    @property
    def failing(self) -> str:
        """That the job fails again and again, and why; empty where it does not."""
        return describe_failures(self._failures, self._clock.now())

    def fits(self, deployments: Deployments) -> bool:
        """Whether the manifest has these operators and allows them these deployments."""
        return self._room.fit(deployments) == deployments

    async def bring_up(self) -> None:
        """Resume what an earlier controller left half-done, or start, or find the job running.

        A job that is to be suspended is not started.

        Raises:
            JobFailedError: The job did not run; the reason is Flink's.
        """
        async with self._busy:
            await self._reconcile()

    async def heal(self) -> Health:
        """Check the job once, and move it towards its desired state.

        Replaces what was lost or is about to go, recovers what ended unexpectedly,
        suspends, resumes and upgrades.

        Raises:
            JobFailedError: The job could not be recovered.
        """
        if self._changing:
            return Health.CHANGING
        async with self._busy:
            return await self._reconcile()

    async def change(
        self,
        target: Deployments,
        reason: str,
        change_id: str | None = None,
        *,
        resize_refused: bool = False,
        replace: tuple[str, ...] = (),
        avoid: tuple[str, ...] = (),
        vertices: Mapping[str, tuple[str, ...]] | None = None,
    ) -> RescaleJournal:
        """Take the job to `target` by one restart; return how it ended.

        Args:
            target: Where to go.
            reason: Why, for people.
            change_id: Under which the change is found again.
            resize_refused: Nodes do not give the sizes in place, so that replicas of another size
                take the place of those that have the wrong one.
            replace: Replicas whose place others take.
            avoid: Nodes that what is started must not run on.
            vertices: What the operators of `target` are made of, if they are others than before.
        """
        async with self._busy:
            await self._resume_unfinished()
            status = self._store.load()
            if resize_refused:
                replace = tuple(size_changes(await self._runtime.replicas(), target))
            return await self._execute(
                planned_changes.plan_from(
                    status,
                    Kind.RESCALE,
                    reason,
                    target,
                    now=self._clock.now(),
                    change_id=change_id,
                    replace=replace,
                    avoid=avoid,
                    revision=self._with_vertices(status.revision, vertices),
                )
            )

    def _with_vertices(
        self, running: Revision | None, vertices: Mapping[str, tuple[str, ...]] | None
    ) -> Revision | None:
        if running is None or vertices is None:
            return None
        return running.model_copy(update={"vertices": dict(vertices), "graph": None})

    async def resize(self, target: Deployments, change_id: str | None = None) -> str:
        """Give replicas other sizes in place; return why nodes refused, empty where they did not.

        Where they did, nothing was changed.
        """
        async with self._busy:
            began = self._clock.now()
            sizes = size_changes(await self._runtime.replicas(), target)
            try:
                await self._runtime.resize(sizes)
            except ResizeRefusedError as error:
                self._notices.report("ResizeRefused", str(error))
                return str(error)
            status = self._store.load()
            await self._store.save(status.model_copy(update={"deployments": target}))
            planned = planned_changes.plan_from(
                status, Kind.RESIZE, "Resized in place", target, now=began, change_id=change_id
            )
            self._on_change(planned.at(Step.DONE, self._clock.now()))
            return ""

    async def suspend(self) -> RescaleJournal | None:
        """Stop the job with a savepoint; `None` where none runs.

        A change under way goes no further than it has to: nobody is there to wait for it.
        """
        async with self._busy:
            await self._reach()
            await self._resume_unfinished(to_stop=True)
            return await self._suspend()

    async def reach(self) -> None:
        """Ensure that the JobManager of a started job answers."""
        async with self._busy:
            await self._reach()

    async def _reach(self) -> None:
        status = self._store.load()
        if (status.job_id is not None and not status.suspended) or await self._runtime.replicas():
            self._use(status.revision or self._directives().revision)
            await self._runtime.ensure_job_manager()
            await self._match_running_job()

    async def _suspend(self) -> RescaleJournal | None:
        status = self._store.load()
        if status.job_id is None or status.suspended:
            return None
        job = status.job_id
        progress = await self._jobs.progress(job)
        if progress is None or progress.state.is_over:
            return None
        if await self._was_stopped(status, job):
            await self._jobs.cancel(job)  # its savepoint is newer than what it was restored from
            return None
        return await self._execute(
            planned_changes.plan_from(
                status, Kind.SUSPEND, "The job should stop", {}, now=self._clock.now()
            )
        )

    async def _reconcile(self) -> Health:
        """Take one step towards what is asked, whatever was found."""
        asked = self._directives()
        self._use(self._store.load().revision or asked.revision)
        await self._resume_unfinished()
        await self._retries.note_spec(asked.edition)
        status = self._store.load()
        self._use(status.revision or asked.revision)
        if asked.suspended and status.job_id is None and not await self._runtime.replicas():
            if not status.suspended:
                await self._store.save(status.model_copy(update={"suspended": True}))
            return Health.SUSPENDED
        restarted = await self._runtime.ensure_job_manager()
        status = await self._match_running_job()
        if asked.suspended:
            return await self._keep_suspended(status)
        # A job that was suspended may be another program's by now: its start looks at that.
        was_stopped_before = status.job_id is not None and (status.suspended or status.finished)
        if self._checks is not None and not was_stopped_before:
            await self._checks.check(status, self._wanted(status))
        if status.job_id is None:
            # Before anything ran, the manifest may still be mended: it alone says where to begin.
            await self._begin(status, self._start.savepoint)
        elif status.restore_nonce != self._start.restore_nonce:
            await self._restore_as_asked()
        elif status.finished:
            return Health.FINISHED
        elif status.suspended:
            await self._begin(status, status.restore_path)
        else:
            return await self._look(status.job_id, restarted=restarted)
        return Health.RUNS

    async def _match_running_job(self) -> AppStatus:
        before, live = self._store.load(), await self._jobs.live()
        if live in ((), (before.job_id,)):
            return before
        alive = deployments_of(await self._runtime.replicas())
        status = match_status(before, live, alive, restore_nonce=self._start.restore_nonce)
        await self._store.save(status)
        named = f"job {before.job_id}" if before.job_id else "no job"
        self._notices.report(
            "JobAdopted",
            (f"The status named {named}, but job {status.job_id} is running: Weir takes it over"),
        )
        return status

    async def _begin(self, status: AppStatus, restore: str | None) -> None:
        wanted = self._wanted(status)
        await self._walk_to_a_place(
            lambda now, target: planned_changes.plan_from(
                status,
                Kind.START,
                "The job should run",
                target,
                now=now,
                restore_path=restore,
                revision=wanted,
                restore_nonce=self._start.restore_nonce,
            )
        )

    async def _restore_as_asked(self) -> None:
        """Stop what runs, with a savepoint, and start it from the state that the manifest names."""
        await self._suspend()
        kept, restore = self._store.load(), self._start.savepoint
        before = f"; the previous state is in {kept.restore_path}" if kept.restore_path else ""
        self._notices.report(
            "RestoreAsked",
            f"spec.flink.job.restoreNonce is new: the job starts from {restore or 'empty state'}"
            f"{before}",
        )
        await self._begin(kept, restore)

    async def _keep_suspended(self, status: AppStatus) -> Health:
        """Stop the job with a savepoint where it runs, and see that no TaskManager is paid for."""
        if status.job_id is not None and not status.suspended:
            if await self._suspend() is None:
                # It has ended by itself: there is nothing to stop, and its checkpoint goes on.
                await self._note_end(status, status.job_id)
            self._notices.report("Suspended", f"The state is in {self._store.load().restore_path}")
        await release_replicas(self._runtime)
        return Health.SUSPENDED

    async def _note_end(self, status: AppStatus, job: str) -> None:
        if status.finished or await self._came_to_its_end(status, job):
            left: dict[str, object] = {"finished": True}
        else:
            left = {"restore_path": await self._restore_point(job)}
        await self._store.save(status.model_copy(update={**left, "suspended": True}))

    async def _came_to_its_end(self, status: AppStatus, job: str) -> bool:
        try:
            return await self._states.came_to_its_end(job, status)
        except StateMissingError as error:
            self._notices.report("StateMissing", str(error))
            raise

    async def _was_stopped(self, status: AppStatus, job: str) -> bool:
        return status.stop_asked == job and await self._states.was_stopped(
            job, asked_at=status.stop_asked_at
        )

    async def _restore_point(self, job: str) -> str | None:
        return await self._states.find_restore_point(job, self._store.load())

    def _use(self, revision: Revision | None) -> None:
        if revision is not None:
            self._runtime.use(revision)

    def _wanted(self, status: AppStatus) -> Revision | None:
        """Return the revision that the job should have; a failed one is not tried again."""
        asked = self._directives().revision
        if asked is None or asked.fingerprint == status.refused_revision:
            return None if asked is None else status.revision
        asked = asked.model_copy(update={"agent": self._runtime.agent})
        return asked.knowing(status.revision)

    async def _resume_unfinished(self, *, to_stop: bool = False) -> None:
        """Finish a change that was interrupted, before anything else is checked.

        By a controller that died, or by this one when the disk did not take the journal. A first
        start that comes to nothing, because its processes are gone, is started again by `bring_up`.

        Args:
            to_stop: The job is to be stopped next, for good: the change goes no further than that.
        """
        journal = self._store.load().rescale
        if journal is None or journal.step.is_end:
            return
        not_begun = journal.kind.begins and journal.step is Step.START
        if not_begun or not self._rescaler.can_resume(journal):
            # Nothing of it runs yet, and the manifest may have been mended since it was planned.
            await self._rescaler.end_unstarted(journal, "Weir starts it again")
            return
        if to_stop:
            journal = await self._only_stop(journal)
        else:
            journal = await self._redirect(journal)
        self._notices.report(
            "ChangeResumed",
            f"Weir continues the change ({journal.reason!r}) at step {journal.step}",
        )
        try:
            await self._execute(journal, to_stop=to_stop)
        except JobFailedError as error:
            if to_stop:
                return  # nothing runs, as it should be
            if journal.kind is not Kind.START:
                raise
            self._notices.report("StartRestarted", str(error))

    async def _look(self, job: str, *, restarted: bool) -> Health:
        status = self._store.load()
        progress = None if restarted else await self._jobs.progress(job)
        # Only of one that finished: a check asks the JobManager no more than it has to.
        finished = progress is not None and progress.state is JobState.FINISHED
        if finished and await self._came_to_its_end(status, job):
            await self._store.save(status.model_copy(update={"finished": True}))
            return Health.FINISHED
        if progress is None or progress.state.is_over:
            await self._recover(job, await self._find_cause(job, progress))
            return Health.RUNS
        if await self._was_stopped(status, job):
            self._notices.report(
                "JobTakenBack",
                f"Flink restored job {job} from a checkpoint after Weir had asked it to stop with "
                "a savepoint; Weir cancelled it and resumes from the newest state",
            )
            await self._jobs.cancel(job)  # once it has ended, it is recovered
            return Health.RESTARTING
        # Flink restarts a job that failed in a second, mostly between two looks.
        if not progress.running or progress.runs_since != self._runs_since:
            self._failures = await self._jobs.failures(job)
            self._runs_since = progress.runs_since
        self._notices.report_while("JobFailing", self.failing)
        await self._note_checkpoint(status, job)
        status = self._store.load()
        alive = await self._runtime.replicas()
        staying = [each for each in alive if not each.evicted]
        lost = missing_replicas(staying, status.deployments)
        if lost:
            # Flink's failover waits for the slot; the state comes from its newest checkpoint.
            started = await self._runtime.start(lost)
            names = ", ".join(sorted({f"{spec.operator} on {spec.pool}" for spec in lost}))
            replaced = f"{len(started)} lost TaskManager{'' if len(started) == 1 else 's'}"
            self._notices.report("ReplicaLost", f"Replaced {replaced}: {names}")
        unclaimed = excess_replicas(staying, status.deployments)
        for reason, message in self._losses.find(
            alive, self._runtime.job_manager_process, status.deployments, ended=unclaimed
        ):
            self._notices.report(reason, message)
        if unclaimed:
            await self._runtime.stop(unclaimed)
            self._notices.report(
                "ReplicaUnclaimed", f"Deleted {', '.join(unclaimed)}: no operator uses them"
            )
        if not progress.running or lost:
            await self._degrade(alive)
            return Health.RESTARTING
        self._room.forget_waiting()
        await self._runtime.end_boosts()  # of a change that an earlier controller made
        await self._improve(alive)
        return Health.RUNS

    async def _degrade(self, alive: tuple[Replica, ...]) -> None:
        """Continue with the existing replicas if the others of a job that is down find no place."""
        pending = tuple(replica for replica in alive if replica.pending)
        reason = await self._room.note_waiting(pending)
        if not reason:
            return
        self._notices.report("PoolFull", f"{reason}; the job continues with the remaining replicas")
        status = self._store.load()
        target = await self._room.find_target(status)
        if target == status.deployments:
            return  # there is nowhere else to go: the place may come free
        await self._execute(
            planned_changes.plan_from(
                status,
                Kind.RESCALE,
                reason,
                target,
                now=self._clock.now(),
                replace=tuple(each.id for each in pending),
                by_checkpoint=True,  # a job that does not run makes no savepoint
            )
        )

    async def _improve(self, alive: tuple[Replica, ...]) -> None:
        """Make a job that runs what is asked, or take its replicas from where they cannot stay."""
        status = self._store.load()
        wanted, now = self._wanted(status), self._clock.now()
        target = self._room.fit(status.deployments)
        leave = planned_changes.replace_terminating(
            status, alive, self._room.find_way_out(status, alive), now=now
        )
        journal = planned_changes.improve(status, alive, wanted, target, now=now) or leave
        if journal is not None and not self._retries.allows(journal):
            # What waits for another try must not hold up replicas that are about to be lost.
            journal = leave
            if journal is None or not self._retries.allows(journal):
                return
        if journal is None and wanted != status.revision and wanted is not None:
            # Nothing that runs has to change for it: a pool without replicas, or a job of before
            # revisions were kept.
            await self._store.save(status.model_copy(update={"revision": wanted}))
        sizes = size_changes(alive, status.deployments)
        wrong = planned_changes.replace_sizes(status, sizes, "", now=now)
        if journal is None and sizes and self._retries.allows(wrong):
            journal = await self._give_back_sizes(status, sizes)
        if journal is None:
            return
        terminating = {each.id for each in alive if each.terminating}
        if journal.kind is Kind.UPGRADE and not await self._spec_stands():
            return
        if await self._refuse_upgrade(journal):
            return
        try:
            await self._execute(self._with_tried_graph(journal))
        finally:
            end = self._store.load().rescale
            if end is not None and end.id == journal.id and end.step.is_end:
                hurries = bool(terminating.intersection(journal.replace))
                await self._retries.note(journal, end, URGENT if hurries else PATIENT)

    async def _spec_stands(self) -> bool:
        """Wait a moment; return whether the spec was not edited in the meantime."""
        before = self._directives()
        await self._clock.sleep(SPEC_STANDS)
        now = self._directives()
        return (now.edition, now.revision, now.suspended) == (
            before.edition,
            before.revision,
            before.suspended,
        )

    def _is_asked_for(self, journal: RescaleJournal) -> bool:
        asked = self._directives()
        return not asked.suspended and journal.edition in ("", asked.edition)

    async def _redirect(self, journal: RescaleJournal) -> RescaleJournal:
        """Return an upgrade that goes to what the spec asks for now, if another was begun.

        Until it submits a job, nothing but pods is lost by that.
        """
        status = self._store.load()
        wanted, before = self._wanted(status), journal.revision
        too_late = journal.is_back or journal.has_submitted
        if journal.kind is not Kind.UPGRADE or too_late or wanted is None or before is None:
            return journal
        if wanted.fingerprint in (before.fingerprint, journal.asked_revision):
            return journal
        now = self._clock.now()
        other = planned_changes.upgrade(status, wanted, self._room.fit(status.deployments), now=now)
        redirected = journal.at(
            Step.STOP if journal.step is Step.STOP else Step.REMOVE,  # which ends pods of the other
            now,
            revision=wanted,
            asked_revision="",
            target=other.target,
            reason=other.reason,
        )
        await self._store.save(status.model_copy(update={"rescale": redirected}))
        return redirected

    async def _only_stop(self, journal: RescaleJournal) -> RescaleJournal:
        if journal.step is not Step.STOP or journal.kind is Kind.SUSPEND:
            return journal
        status = self._store.load()
        only = journal.model_copy(update={"kind": Kind.SUSPEND, "revision": None, "target": {}})
        await self._store.save(status.model_copy(update={"rescale": only}))
        return only

    async def _refuse_upgrade(self, journal: RescaleJournal) -> bool:
        """Refuse an upgrade that could not run; return whether it was refused."""
        if journal.kind is not Kind.UPGRADE or journal.revision is None:
            return False
        pools = count_per_pool(journal.target.values()).keys()
        misfit = await self._runtime.find_misfit(journal.revision, pools)
        misfit = misfit or await self._try_program(journal, journal.revision, pools)
        if not misfit:
            return False
        end = await self._rescaler.end_unstarted(journal, misfit, step=Step.ABANDONED)
        self._on_change(end)
        for reason, message in planned_changes.describe_end(end):
            self._notices.report(reason, message)
        await self._retries.note(journal, end, URGENT)
        return True

    def _with_tried_graph(self, journal: RescaleJournal) -> RescaleJournal:
        """Return an upgrade with the graph that its program was seen to build just now."""
        graph, revision = self._graph, journal.revision
        if journal.kind is not Kind.UPGRADE or revision is None or graph is None:
            return journal
        known = revision.model_copy(update={"graph": graph})
        return journal.model_copy(update={"revision": known})

    async def _try_program(
        self, journal: RescaleJournal, revision: Revision, pools: Collection[str]
    ) -> str:
        """Return why Flink would not run the program of an upgrade; empty where it would.

        An upgrade that waits asks again and again, so a refusal is believed for a while.
        """
        now, asked = self._clock.monotonic(), (revision, frozenset(pools))
        if asked == self._refused and now - self._refused_at < PROGRAM_REFUSED_FOR:
            return self._refusal

        self._graph = None

        async def check(rest_url: str, jar: str) -> None:
            if self._checks is not None:
                self._graph = await self._checks.check_upgrade(journal, rest_url, jar)

        self._refusal = await self._runtime.find_misfit(revision, pools, check)
        self._refused = asked if self._refusal else None
        self._refused_at = self._clock.monotonic()
        return self._refusal

    async def _give_back_sizes(
        self, status: AppStatus, sizes: Mapping[str, str]
    ) -> RescaleJournal | None:
        """Give sizes to replicas that came back from a loss; return how, where nodes refuse."""
        names = ", ".join(f"{name} {size}" for name, size in sorted(sizes.items()))
        try:
            await self._runtime.resize(sizes)
        except ResizeRefusedError as error:
            return planned_changes.replace_sizes(status, sizes, str(error), now=self._clock.now())
        self._notices.report("ReplicaResized", f"Restored their sizes in place: {names}")
        return None

    async def _find_cause(self, job: str, progress: Progress | None) -> str:
        if progress is None:
            return "The JobManager was lost"
        if progress.state is JobState.FINISHED:
            return "The job was stopped with a savepoint, but spec.state is Running"
        return await self._jobs.failure(job)

    async def _note_checkpoint(self, status: AppStatus, job: str) -> None:
        """Remember that the job has its own state, and delete what that supersedes."""
        now, known = self._clock.now(), status.checkpointed
        if known is not None and known.job == job and 0 <= now - known.seen < NOTE_CHECKPOINT_EVERY:
            return
        newest = await self._jobs.newest(job)
        if newest is None or not newest.seen_complete:
            return
        noted = Checkpointed(job=job, path=newest.path, seen=now)
        changes: dict[str, object] = {"checkpointed": noted, "superseded": ()}
        if status.superseded:
            # The job was started without claiming them: with a checkpoint of its own it needs none.
            changes["restore_path"] = newest.path
        await self._store.save(status.model_copy(update=changes))
        for path in status.superseded:
            await self._rescaler.dispose(path)
        if status.superseded:
            owners = {PurePosixPath(path).parent.name for path in status.superseded}
            await self._rescaler.remove_empty_folders(sorted(owners))

    async def _recover(self, job: str, cause: str) -> None:
        status = self._store.load()
        wanted = self._wanted(status)
        try:
            restore = await self._restore_point(job)
        except StateMissingError as error:
            held = planned_changes.recover(status, status.deployments, None, wanted, cause,
                                 now=self._clock.now())  # fmt: skip
            self._on_change(await self._rescaler.end_unstarted(held, str(error)))
            self._notices.report("StateMissing", str(error))
            raise
        left = await self._rescaler.retained(job)
        self._notices.report(
            "JobLost", f"{cause}; the job resumes from {restore or 'the beginning'}"
        )
        await self._walk_to_a_place(
            lambda now, target: planned_changes.recover(
                status, target, restore, wanted, cause, now=now, superseded=left
            )
        )

    async def _walk_to_a_place(self, make: Callable[[float, Deployments], RescaleJournal]) -> None:
        """Start a job that is down where it was, or in the next best place that has room."""
        target = await self._room.find_target(self._store.load())
        while True:
            try:
                await self._execute(make(self._clock.now(), target))
                return
            except JobFailedError as error:
                status, before = self._store.load(), target
                target = await self._room.find_target(status)
                if status.rescale is None or not status.rescale.pending or target == before:
                    raise
                self._notices.report("PoolFull", f"{error}; Weir tries the next best place")

    async def _execute(self, journal: RescaleJournal, *, to_stop: bool = False) -> RescaleJournal:
        if journal != self._store.load().rescale:  # it is not one that is resumed
            journal = journal.model_copy(update={"edition": self._directives().edition})
        self._on_change(journal)
        self._changing = True
        try:
            end = await self._rescaler.execute(journal, self._is_asked_for, to_stop=to_stop)
        finally:
            self._changing = False
            # A rescale leaves the JobManager as it is: another one is there because it was lost.
            self._losses.forget(job_manager=journal.kind is not Kind.RESCALE)
            self._failures, self._runs_since = (), 0.0
        self._on_change(end)
        if end.step not in (Step.DONE, Step.ROLLED_BACK, Step.ABANDONED):
            raise JobFailedError(end.failure or "The job did not start")
        for reason, message in planned_changes.describe_end(end):
            self._notices.report(reason, message)
        return end


def describe_failures(failures: Sequence[JobFailure], now: float) -> str:
    """Return that a job fails again and again, a sentence without a full stop, or nothing."""
    recent = [each for each in failures if now - each.time <= WITHIN]
    if len(recent) < FAILING:
        return ""
    span = now - min(each.time for each in recent)
    return (
        f"The job has failed {len(recent)} times in {format_time(span)}, and Flink restarts it: "
        f"{recent[0].cause}"
    )
