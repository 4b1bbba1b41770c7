"""The journals of the changes by which a job is kept alive and as it is asked for. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from weir_operator.rescale.journal import DeploymentMap, Kind, RescaleJournal, plan
from weir_operator.runtime.revision import Revision
from weir_operator.runtime.seam import Replica
from weir_operator.status import AppStatus


def start(
    status: AppStatus,
    target: DeploymentMap,
    restore_path: str | None,
    revision: Revision | None,
    *,
    now: float,
) -> RescaleJournal:
    """Return the first start, or that of a suspended job."""
    return plan(
        kind=Kind.START,
        reason="The job is to run",
        now=now,
        source=status.deployments,
        target=target,
        old_job=status.job_id,
        restore_path=restore_path,
        revision=revision,
    )


def recover(
    status: AppStatus,
    target: DeploymentMap,
    restore_path: str | None,
    revision: Revision | None,
    cause: str,
    *,
    now: float,
) -> RescaleJournal:
    """Return the start of a job that has ended without being told to."""
    return plan(
        kind=Kind.RECOVER,
        reason=cause,
        now=now,
        source=status.deployments,
        target=target,
        old_job=status.job_id,
        restore_path=restore_path,
        revision=None if revision == status.revision else revision,
    )


def suspend(status: AppStatus, *, now: float) -> RescaleJournal:
    """Return the stop with a savepoint."""
    return plan(
        kind=Kind.SUSPEND,
        reason="The job is to stop",
        now=now,
        source=status.deployments,
        target={},
        old_job=status.job_id,
    )


def upgrade(
    status: AppStatus, revision: Revision, target: DeploymentMap, *, now: float
) -> RescaleJournal:
    """Return the way to another revision."""
    before = status.revision.id if status.revision else "an unknown one"
    return plan(
        kind=Kind.UPGRADE,
        reason=f"The job is upgraded from revision {before} to {revision.id}",
        now=now,
        source=status.deployments,
        target=target,
        old_job=status.job_id,
        revision=revision,
    )


def obey_manifest(status: AppStatus, target: DeploymentMap, *, now: float) -> RescaleJournal:
    """Return the way from what the manifest allows no more."""
    return plan(
        kind=Kind.RESCALE,
        reason="The manifest has other operators, pools, sizes or limits than what runs",
        now=now,
        source=status.deployments,
        target=target,
        old_job=status.job_id,
    )


def replace_doomed(status: AppStatus, doomed: Mapping[str, str], *, now: float) -> RescaleJournal:
    """Return the replacement of replicas about to go; `doomed` says why, by id."""
    reasons = "; ".join(f"{replica} ({why})" for replica, why in sorted(doomed.items()))
    return plan(
        kind=Kind.RESCALE,
        reason=f"Replicas leave before they are lost: {reasons}",
        now=now,
        source=status.deployments,
        target=status.deployments,
        old_job=status.job_id,
        replace=tuple(sorted(doomed)),
    )


def make_do(
    status: AppStatus,
    target: DeploymentMap,
    pending: Sequence[Replica],
    reason: str,
    *,
    now: float,
) -> RescaleJournal:
    """Return the way of a job that is down to a deployment without those that find no place."""
    return plan(
        kind=Kind.RESCALE,
        reason=reason,
        now=now,
        source=status.deployments,
        target=target,
        old_job=status.job_id,
        replace=tuple(each.id for each in pending),
        by_checkpoint=True,  # a job that does not run makes no savepoint
    )
