"""Which jobs the JobManager of a StreamApp may run: one at a time, and one that Weir knows. Pure.

Two jobs of one StreamApp emit every record twice, and a status may be wrong: edited by hand,
deleted, or restored from a backup. So Weir asks the JobManager which jobs it runs before it checks
a job, and again before each submission.
"""

from __future__ import annotations

from collections.abc import Collection

from weir_operator.errors import UnexpectedJobError
from weir_operator.rescale.journal import RescaleJournal
from weir_operator.rescale.status import AppStatus
from weir_operator.runtime.protocol import Deployments


def may_submit(journal: RescaleJournal, live: Collection[str]) -> bool:
    """Return whether no job runs any more; false while that of before the change still ends.

    Raises:
        UnexpectedJobError: A job runs that the change does not know.
    """
    unknown = sorted({*live} - {journal.old_job, journal.new_job})
    if unknown:
        raise UnexpectedJobError(
            f"Expected no running job before the submission of {journal.new_job}, got "
            f"{', '.join(unknown)}: two jobs would emit every record twice, so Weir "
            "submits none; cancel the running job in Flink if you do not want it, or "
            "remove status.rescale and status.controller to have Weir take it over"
        )
    return not live


def match_status(
    status: AppStatus,
    live: Collection[str],
    deployments: Deployments,
    *,
    restore_nonce: int,
) -> AppStatus:
    """Return the status with the job that runs in the place of the one it names.

    Args:
        status: As it was read.
        live: Ids of the jobs that the JobManager runs, at least one.
        deployments: The TaskManagers that are there.
        restore_nonce: `spec.flink.job.restoreNonce`; a status that names no job may have lost that
            it was obeyed, and to obey it twice would give up the state of the job that runs.

    Raises:
        UnexpectedJobError: More than one job runs.
    """
    if len(live) > 1:
        raise UnexpectedJobError(
            f"Expected one running job, got {' and '.join(sorted(live))}: they may "
            "emit every record twice; in Flink, cancel the job that you do not want, "
            "and Weir continues with the other"
        )
    [job] = live
    known = status.deployments or deployments
    if status.rescale is not None and job == status.rescale.new_job:
        known = status.rescale.wanted
    found: dict[str, object] = {"job_id": job, "deployments": known}
    if status.job_id is None:
        found["restore_nonce"] = restore_nonce
    return status.model_copy(update={**found, "suspended": False, "finished": False})
