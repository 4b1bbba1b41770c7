"""What a change does after a failed step: roll back, retry, or end. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from weir_operator.errors import PermanentError
from weir_operator.rescale.journal import Direction, Kind, RescaleJournal, Step, new_id

WITH_A_WAY_BACK = (Kind.RESCALE, Kind.UPGRADE)
"""Kinds of change that leave a job behind to return to."""


class WithdrawnError(PermanentError):
    """A change is not asked for any more."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StepFailure:
    """Why a step came to nothing."""

    reason: str
    """One sentence."""
    ran: bool = False
    """A task of the new deployment ran."""
    pending: tuple[tuple[str, str], ...] = ()
    """(operator, pool) whose replicas found no place in time."""
    withdrawn: bool = False
    """The spec asks for something else by now."""


def plan_rollback(
    journal: RescaleJournal, failure: StepFailure, *, now: float, attempts: int
) -> RescaleJournal:
    """Return the change at the step that follows a failed one; nothing has been forgotten.

    Args:
        journal: At the step that failed.
        failure: Why.
        now: Unix time.
        attempts: Submissions on the way back before the change ends as failed.
    """
    if journal.in_place:
        return _plan_way_back_in_place(journal, failure, now=now, attempts=attempts)
    first = journal.failure or failure.reason
    ran = failure.ran or journal.ran
    if journal.step is Step.CANCEL:
        attempt = journal.attempt + 1
        step = Step.FAILED if attempt >= attempts else Step.CANCEL
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
            pending=failure.pending,
            withdrawn=failure.withdrawn,
            new_job=journal.new_job if submitted else new_id(),
        )
    if failure.pending and journal.step is Step.START and journal.kind.begins:
        # The same again finds no place either: the next check goes where there is one.
        return journal.at(Step.FAILED, now, failure=first, pending=failure.pending)
    # A start or recovery has no way back, and the way back has none either: the same again.
    return journal.at(
        Step.CANCEL, now, failure=first, ran=ran, pending=failure.pending or journal.pending
    )


def _plan_way_back_in_place(
    journal: RescaleJournal, failure: StepFailure, *, now: float, attempts: int
) -> RescaleJournal:
    """Return the change of an external job at the step that follows a failed one.

    What was written is taken back. Of a job that is another one by now, nothing is: its loops are
    made again, and decide again.
    """
    if failure.withdrawn:
        return journal.at(Step.ABANDONED, now, failure=failure.reason, withdrawn=True)
    first, attempt = journal.failure or failure.reason, journal.attempt + 1
    if journal.is_back and attempt >= attempts:
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
