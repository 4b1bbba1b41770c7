"""What a change does after a failed step, and what is true of a job once it has ended. Pure."""

from __future__ import annotations

from collections.abc import Collection

from weir_operator.errors import PermanentError
from weir_operator.rescale.journal import Direction, Kind, RescaleJournal, Step, new_id
from weir_operator.rescale.settings import FULL_FOR
from weir_operator.rescale.status import AppStatus, FullPool, add_failed
from weir_operator.rescale.stopping import is_of

FAILED_FOR = 1800.0
"""Seconds for which a deployment that did not hold is not tried again."""
BACK_ATTEMPTS = 5
"""Submissions on the way back before the change ends as failed, to be recovered later."""


def close_change(
    status: AppStatus, journal: RescaleJournal, *, keep: int, now: float
) -> tuple[AppStatus, tuple[str, ...]]:
    """Return the status after the change, and the savepoints beyond those that are kept."""
    # The revision is in the status by now, or of no use: two of them are large.
    changes: dict[str, object] = {"rescale": journal.model_copy(update={"revision": None})}
    if journal.restore_path is not None and not _came_to_nothing(journal):
        changes["restore_path"] = journal.restore_path
    if str(Step.STOP) in journal.times:
        changes["stop_asked"] = journal.old_job
        changes["stop_asked_at"] = journal.times[str(Step.STOP)]
    if journal.superseded:
        changes["superseded"] = tuple(dict.fromkeys((*status.superseded, *journal.superseded)))
    failed_after_it_ran = journal.step is Step.FAILED and journal.ran
    if journal.restore_nonce is not None and (journal.step is Step.DONE or failed_after_it_ran):
        # The job has had that state: obeyed twice, what it wrote since would be emitted again.
        changes["restore_nonce"] = journal.restore_nonce
    if journal.step in (Step.DONE, Step.ROLLED_BACK):
        changes["finished"] = False
        changes["suspended"] = journal.kind is Kind.SUSPEND
        if journal.kind is not Kind.SUSPEND:
            changes |= {"job_id": journal.new_job, "deployments": journal.wanted}
    if journal.step is Step.DONE and journal.revision is not None:
        changes["revision"] = journal.revision
    submitted = journal.kind is not Kind.START and journal.has_submitted
    may_run = (journal.ran or submitted) and not journal.in_place
    if journal.step is Step.FAILED and may_run:
        # Its newest checkpoint is where to resume, not that of the job before it; where nobody
        # could say whether it ran, it is the one to ask about.
        changes["job_id"] = journal.new_job
    # A pool that has no room besides a node is not full.
    if journal.pending and not journal.avoid and journal.step is not Step.DONE:
        changes["full"] = add_full(
            status.full,
            journal.pending,
            lasts=FULL_FOR,
            reason=journal.failure or journal.reason,
            now=now,
        )
    elif _has_failed(journal):
        changes |= _remember_failure(status, journal, now)
    changes["savepoints"], superseded = sort_savepoints(status.savepoints, journal, keep=keep)
    return status.model_copy(update=changes), superseded


def add_full(
    known: tuple[FullPool, ...],
    groups: Collection[tuple[str, str]],
    *,
    lasts: float,
    reason: str,
    now: float,
) -> tuple[FullPool, ...]:
    """Return what is known of full pools with more of them; what is over is left out."""
    kept = [each for each in known if each.holds(now) and (each.operator, each.pool) not in groups]
    new = [
        FullPool(operator=operator, pool=pool, until=now + lasts, lasts=lasts, reason=reason)
        for operator, pool in sorted(groups)
    ]
    return (*kept, *new)


def _remember_failure(status: AppStatus, journal: RescaleJournal, now: float) -> dict[str, object]:
    reason = journal.failure or journal.reason
    if journal.revision is not None:
        if _only_separates(status, journal):
            return {}  # the revision is the one that runs: `ChangeExecutor` remembers the target
        refused = journal.step is Step.ROLLED_BACK or _goes_on_from_before(status, journal)
        return {"refused_revision": journal.fingerprint_asked} if refused else {}
    if journal.target == journal.source:
        return {}  # replicas were to be replaced: the deployment itself is right
    known = add_failed(status.failed, journal.target, first=FAILED_FOR, reason=reason, now=now)
    return {"failed": known}


def _only_separates(status: AppStatus, journal: RescaleJournal) -> bool:
    """Return whether the same program was to run with other operators."""
    running, revision = status.revision, journal.revision
    if running is None or revision is None or journal.kind is not Kind.RESCALE:
        return False
    return revision.vertices != running.vertices and revision.id == running.id


def _goes_on_from_before(status: AppStatus, journal: RescaleJournal) -> bool:
    """Return whether a recovery failed whose revision wrote no state itself.

    The revision from before can read what there is, so it is the one to be started next.
    """
    path, before = journal.restore_path, journal.old_job
    from_before = path is None or path == status.restore_path
    if path is not None and before is not None:
        from_before = from_before or is_of(path, before)
    return journal.kind is Kind.RECOVER and journal.step is Step.FAILED and from_before


def _came_to_nothing(journal: RescaleJournal) -> bool:
    """Return whether it is a start of which nothing ran.

    A person may have chosen where it began: state older than the newest, which counts again as soon
    as that is taken back.
    """
    return journal.kind is Kind.START and journal.step is Step.FAILED and not journal.ran


def _has_failed(journal: RescaleJournal) -> bool:
    """Return whether the target did not run although it was still wanted."""
    if journal.withdrawn or journal.disturbed:
        return False
    recovers = journal.kind is Kind.RECOVER and journal.revision is not None
    went_nowhere = journal.step is Step.FAILED and (journal.kind is Kind.RESCALE or recovers)
    return went_nowhere or journal.step in (Step.ROLLED_BACK, Step.ABANDONED)


def sort_savepoints(
    known: tuple[str, ...], journal: RescaleJournal, *, keep: int
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return (kept, superseded) savepoints, oldest first, once `journal` has ended.

    Only a job that runs supersedes a savepoint, and the one it started from is always kept.
    """
    # Only what this change's own stop wrote: a savepoint that a person gave is never Weir's to
    # delete, and checkpoints are Flink's.
    if journal.savepoint is not None and journal.savepoint not in known:
        known = (*known, journal.savepoint)
    runs = journal.step in (Step.DONE, Step.ROLLED_BACK) and journal.kind is not Kind.SUSPEND
    if not runs or len(known) <= max(1, keep):
        return known, ()
    return known[-max(1, keep) :], known[: -max(1, keep)]


WITH_A_WAY_BACK = (Kind.RESCALE, Kind.UPGRADE)
"""Kinds of change that leave a job behind to return to."""


class WithdrawnError(PermanentError):
    """A change is not asked for any more."""


def plan_rollback(
    journal: RescaleJournal,
    failure: str,
    *,
    ran: bool,
    pending: tuple[tuple[str, str], ...],
    withdrawn: bool,
    now: float,
) -> RescaleJournal:
    """Return the change at the step that follows a failed one; nothing has been forgotten.

    Args:
        journal: At the step that failed.
        failure: Why, one sentence.
        ran: A task of the new deployment ran.
        pending: (operator, pool) whose replicas found no place in time.
        withdrawn: The spec asks for something else by now.
        now: Unix time.
    """
    if journal.in_place:
        return _plan_way_back_in_place(journal, failure, withdrawn=withdrawn, now=now)
    first = journal.failure or failure
    ran = ran or journal.ran
    if journal.step is Step.CANCEL:
        attempt = journal.attempt + 1
        step = Step.FAILED if attempt >= BACK_ATTEMPTS else Step.CANCEL
        return journal.at(step, now, failure=first, attempt=attempt)
    if journal.kind is Kind.SUSPEND:
        return journal.at(Step.FAILED, now, failure=first)
    if not journal.is_back and journal.kind in WITH_A_WAY_BACK:
        submitted = _may_be_submitted(journal)
        return journal.at(
            Step.CANCEL if submitted else Step.REMOVE,
            now,
            failure=first,
            direction=Direction.BACK,
            ran=ran,
            pending=pending,
            withdrawn=withdrawn,
            new_job=journal.new_job if submitted else new_id(),
        )
    if pending and journal.step is Step.START and journal.kind.begins:
        # The same again finds no place either: the next check goes where there is one.
        return journal.at(Step.FAILED, now, failure=first, pending=pending)
    # A start or recovery has no way back, and the way back has none either: the same again.
    return journal.at(Step.CANCEL, now, failure=first, ran=ran, pending=pending or journal.pending)


def _plan_way_back_in_place(
    journal: RescaleJournal, failure: str, *, withdrawn: bool, now: float
) -> RescaleJournal:
    """Return the change of an external job at the step that follows a failed one.

    What was written is taken back. Of a job that is another one by now, nothing is: its loops are
    made again, and decide again.
    """
    if withdrawn:
        return journal.at(Step.ABANDONED, now, failure=failure, withdrawn=True)
    first, attempt = journal.failure or failure, journal.attempt + 1
    if journal.is_back and attempt >= BACK_ATTEMPTS:
        return journal.at(Step.FAILED, now, failure=first)
    if journal.is_back:
        return journal.at(Step.SUBMIT, now, failure=first, attempt=attempt)
    if journal.step is Step.START:
        return journal.at(Step.ABANDONED, now, failure=first)
    return journal.at(Step.SUBMIT, now, failure=first, direction=Direction.BACK)


def never_stopped(journal: RescaleJournal) -> bool:
    """Return whether the job from before the change still runs, as far as the journal knows."""
    return journal.kind in WITH_A_WAY_BACK and str(Step.REMOVE) not in journal.times


def is_between_jobs(journal: RescaleJournal) -> bool:
    """Return whether the job has ended, and the next one has yet to be submitted."""
    has_ended = journal.has_submitted or not never_stopped(journal)
    return journal.step in (Step.REMOVE, Step.START) and has_ended


def _may_be_submitted(journal: RescaleJournal) -> bool:
    """Return whether the job may run under its new id; a rescale knows that from its stop on."""
    first = Step.SUBMIT if journal.kind is Kind.UPGRADE else Step.REMOVE
    return str(first) in journal.times
