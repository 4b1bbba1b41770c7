"""What is true of a job once a change has come to its end. Pure."""

from __future__ import annotations

from collections.abc import Collection

from weir_operator.rescale.job import RescaleSettings
from weir_operator.rescale.journal import Kind, RescaleJournal, Step
from weir_operator.status import AppStatus, FailedDeployment, FullPool


def close_change(
    status: AppStatus, journal: RescaleJournal, settings: RescaleSettings, *, now: float
) -> tuple[AppStatus, tuple[str, ...]]:
    """Return the status after the change, and the savepoints that nobody needs any more."""
    # The revision is in the status by now, or of no use: two of them are large.
    changes: dict[str, object] = {"rescale": journal.model_copy(update={"revision": None})}
    if journal.restore_path is not None:
        changes["restore_path"] = journal.restore_path
    if journal.step in (Step.DONE, Step.ROLLED_BACK):
        changes["suspended"] = journal.kind is Kind.SUSPEND
        if journal.kind is not Kind.SUSPEND:
            changes |= {"job_id": journal.new_job, "deployments": journal.wanted}
    if journal.step is Step.DONE and journal.revision is not None:
        changes["revision"] = journal.revision
    if journal.step is Step.FAILED and journal.ran:
        # Its newest checkpoint is where to go on from, not that of the job before it.
        changes["job_id"] = journal.new_job
    # A pool that has no room besides a node is not full.
    if journal.pending and not journal.avoid and journal.step is not Step.DONE:
        changes["full"] = add_full(
            status.full,
            journal.pending,
            until=now + settings.full_for,
            reason=journal.failure or journal.reason,
            now=now,
        )
    elif journal.step in (Step.ROLLED_BACK, Step.ABANDONED):
        changes |= _remember_failure(status, journal, settings, now)
    changes["savepoints"], superseded = sort_savepoints(
        status.savepoints, journal, keep=settings.keep_savepoints
    )
    return status.model_copy(update=changes), superseded


def add_full(
    known: tuple[FullPool, ...],
    groups: Collection[tuple[str, str]],
    *,
    until: float,
    reason: str,
    now: float,
) -> tuple[FullPool, ...]:
    """Return what is known of full pools with more of them; what is over is left out."""
    kept = [each for each in known if each.until > now and (each.operator, each.pool) not in groups]
    new = [
        FullPool(operator=operator, pool=pool, until=until, reason=reason)
        for operator, pool in sorted(groups)
    ]
    return (*kept, *new)


def _remember_failure(
    status: AppStatus, journal: RescaleJournal, settings: RescaleSettings, now: float
) -> dict[str, object]:
    """Return what is not to be tried again for a while, as changes of the status."""
    reason = journal.failure or journal.reason
    if journal.revision is not None:
        rolled_back = journal.step is Step.ROLLED_BACK
        return {"refused_revision": journal.revision.fingerprint} if rolled_back else {}
    if journal.target == journal.source:
        return {}  # replicas were to be replaced: the deployment itself is right
    failed = FailedDeployment(
        deployment=journal.target, until=now + settings.failed_for, reason=reason
    )
    return {"failed": (*status.failed[-9:], failed)}


def sort_savepoints(
    known: tuple[str, ...], journal: RescaleJournal, *, keep: int
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return (kept, superseded) savepoints, oldest first, once `journal` has ended.

    Only a job that runs supersedes a savepoint, and the one it started from is always kept.
    """
    path = journal.restore_path
    # Only what this change's own stop wrote: a savepoint that a person gave is never Weir's to
    # delete, and checkpoints are Flink's.
    stopped = str(Step.STOP) in journal.times and not journal.by_checkpoint
    if stopped and path is not None and "/chk-" not in path and path not in known:
        known = (*known, path)
    runs = journal.step in (Step.DONE, Step.ROLLED_BACK) and journal.kind is not Kind.SUSPEND
    if not runs or len(known) <= max(1, keep):
        return known, ()
    return known[-max(1, keep) :], known[: -max(1, keep)]
