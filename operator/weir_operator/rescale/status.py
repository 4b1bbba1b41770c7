"""What Weir remembers of a StreamApp: its status, and where it is stored.

After a crash, a controller needs nothing else but the outside world to continue. On one machine,
the status is a JSON file that is replaced atomically; on Kubernetes, it is the resource's status.

A status may be wrong: edited by hand, deleted, or restored from a backup. Two jobs of one StreamApp
would emit every record twice. So Weir asks the JobManager which jobs it runs before it checks a
job, and again before each submission.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from weir_operator.errors import PermanentError, UnexpectedJobError
from weir_operator.rescale.journal import RescaleJournal
from weir_operator.runtime.files import write_atomically
from weir_operator.runtime.protocol import Deployments
from weir_operator.runtime.revision import Revision

LONGEST_PAUSE = 6 * 3600.0
"""Seconds to which the pauses between two tries of what fails again and again grow."""
LONG_AGO = 86_400.0
"""Seconds after a pause was over from which another failure counts as the first one."""
ROUNDING = 1.0
"""Seconds by which a time that was added up may be off."""


class _Passing(BaseModel):
    """Something that is remembered for a while."""

    model_config = ConfigDict(frozen=True)

    until: float
    """Unix time."""
    lasts: float
    """Seconds for which it held when it was noted."""
    reason: str

    def holds(self, now: float) -> bool:
        """Return whether it does at a Unix time.

        One that would hold for longer than it ever did was noted by a clock that was set back
        since, and holds no more.
        """
        return 0 < self.until - now <= self.lasts + ROUNDING


class FailedDeployment(_Passing):
    """A deployment that did not hold, and until when it is not to be tried again."""

    deployment: Deployments
    lasts: float = 1800.0


class FailedChange(_Passing):
    """A change that came to nothing, and until when it is not to be tried again."""

    subject: str
    """What it was to achieve, as `loop.planned_changes` writes it."""
    lasts: float = 60.0


class FullPool(_Passing):
    """A pool that had no room for an operator's replica, and until when it counts as full."""

    operator: str
    pool: str
    lasts: float = 600.0


class Checkpointed(BaseModel):
    """The last snapshot of a job that Weir has seen; there are usually newer ones."""

    model_config = ConfigDict(frozen=True)

    job: str
    path: str
    seen: float
    """Unix time."""


NODE_TIMES = 20
"""Times that are kept of each pool."""


def add_node_time(
    known: Mapping[str, tuple[float, ...]], pools: Collection[str], seconds: float
) -> dict[str, tuple[float, ...]]:
    """Return how long replicas without room waited, with one more time for each of these pools."""
    new = {pool: (*known.get(pool, ()), round(seconds, 1))[-NODE_TIMES:] for pool in pools}
    return {**known, **new}


def expected_node_time(times: Sequence[float]) -> float:
    """Return seconds in which nine of ten replicas without room got a node; NaN if unknown.

    The largest of fewer than ten: of a few times, the longest says most about the next one.
    """
    return sorted(times)[math.ceil(0.9 * len(times)) - 1] if times else math.nan


STATE_VERSION = 1
"""Of what this Weir writes. It is raised where an older Weir could not read what is written."""


class AppStatus(BaseModel):
    """What is known of one StreamApp's job."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    version: int = STATE_VERSION
    """Of the Weir that wrote it; states from before there were versions are of the first."""

    job_id: str | None = None
    """The job that runs, or ran last; `None` before the first start."""
    deployments: Deployments = Field(default_factory=dict)
    """What was applied, after the last guard."""
    restore_path: str | None = None
    """Newest savepoint or checkpoint that Weir started or stopped the job with."""
    checkpointed: Checkpointed | None = None
    """That the job has state of its own, and where it was a while ago."""
    savepoints: tuple[str, ...] = ()
    """Savepoints that still exist, oldest first."""
    stop_asked: str | None = None
    """The last job for whose stop Weir asked: a savepoint may complete after its change was given
    up."""
    stop_asked_at: float = 0.0
    """Unix time of that."""
    superseded: tuple[str, ...] = ()
    """Checkpoints of earlier jobs, to be deleted once the present job has one of its own."""
    finished: bool = False
    """The job came to its own end: it is not started again by itself."""
    restore_nonce: int = 0
    """`spec.flink.job.restoreNonce` that was obeyed last."""
    rescale: RescaleJournal | None = None
    """The change under way, or the last one."""
    failed: tuple[FailedDeployment, ...] = ()
    failed_changes: tuple[FailedChange, ...] = ()
    edition: str = ""
    """Of the spec under which these failed; empty before one was noted."""
    full: tuple[FullPool, ...] = ()
    """Pools without room for more of an operator's replicas."""
    node_times: dict[str, tuple[float, ...]] = Field(default_factory=dict)
    """Seconds that replicas without room waited until they had joined, by pool, newest last."""
    revision: Revision | None = None
    """What the job is made of; `None` before that was known."""
    refused_revision: str | None = None
    """Fingerprint of the revision that was tried in vain; it is not tried again."""
    restart_tokens: dict[str, Any] = Field(default_factory=dict)
    """State of the restart budget."""
    suspended: bool = False
    """Stopped with a savepoint, on purpose."""


def lengthen(before: _Passing | None, first: float, longest: float, now: float) -> float:
    """Return the seconds for which something that failed is not tried again.

    Twice as many as after the failure before, at most `longest`; `first` after the first failure
    and after one that is long ago. `now` is Unix time.
    """
    if before is None or now - before.until >= LONG_AGO:
        return first
    return max(first, min(longest, 2 * before.lasts))


def find_failed(
    failed: tuple[FailedDeployment, ...],
    current: Deployments,
    target: Deployments,
    now: float,
) -> FailedDeployment | None:
    """Return what is known of a target that failed and is not to be tried again yet.

    To go to the current deployment is to stay. `now` is Unix time.
    """
    if target == current:
        return None
    return next((each for each in failed if each.deployment == target and each.holds(now)), None)


def add_failed(
    known: tuple[FailedDeployment, ...],
    deployment: Deployments,
    *,
    first: float,
    reason: str,
    now: float,
    longest: float = LONGEST_PAUSE,
) -> tuple[FailedDeployment, ...]:
    """Return the deployments that failed with one more, which is not tried again for a while.

    For `first` seconds; twice as many each time that it fails again, at most `longest`. `now` is
    Unix time.
    """
    before = next((each for each in known if each.deployment == deployment), None)
    lasts = lengthen(before, first, longest, now)
    failed = FailedDeployment(deployment=deployment, until=now + lasts, lasts=lasts, reason=reason)
    return (*[each for each in known if each is not before][-9:], failed)


def read_status(kept: Mapping[str, object], *, place: str, remove: str) -> AppStatus:
    """Return what an earlier controller kept.

    Args:
        kept: Its status; older ones lack fields, which have defaults.
        place: Where it is, for people.
        remove: How to go on without it, as the end of a sentence.

    Raises:
        PermanentError: A newer Weir wrote it, or it is not a status of Weir.
    """
    version = kept.get("version", STATE_VERSION)
    if not isinstance(version, int):
        raise PermanentError(
            f"{place}: expected the version of the state as a whole number, got {version!r:.40}; "
            f"{remove}"
        )
    if version > STATE_VERSION:
        raise PermanentError(
            f"{place}: expected state of version {STATE_VERSION} or older, got "
            f"version {version!r:.40}, which a newer Weir wrote; install that version again"
        )
    try:
        return AppStatus.model_validate({**kept, "version": STATE_VERSION})
    except ValidationError as error:
        path = kept.get("restore_path")
        known = (
            f"set spec.flink.job.initialSavepoint to the job's newest state ({path} or newer), "
            if isinstance(path, str)
            else ""
        )
        raise PermanentError(
            f"{place}: expected state that Weir wrote, got something else "
            f"({error.error_count()} errors); {known}{remove}"
        ) from error


class StatusStore(Protocol):
    """Where a status is kept."""

    def load(self) -> AppStatus:
        """Return the last status saved, or a fresh one."""
        ...

    async def save(self, status: AppStatus) -> None:
        """Keep `status`; when this returns, it outlives the process."""


class FileStatusStore:
    """A status in a JSON file, replaced atomically."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def load(self) -> AppStatus:
        """Return the last status saved, or a fresh one.

        Raises:
            PermanentError: The file is not a status.
        """
        try:
            kept = json.loads(self._path.read_bytes())
        except FileNotFoundError:
            return AppStatus()
        except ValueError:
            kept = None
        remove = "move the file away to start from scratch"
        if not isinstance(kept, dict):
            raise PermanentError(
                f"{self._path}: expected state that Weir wrote, got no JSON object; {remove}"
            )
        return read_status(kept, place=str(self._path), remove=remove)

    async def save(self, status: AppStatus) -> None:
        """Replace the file in one step.

        Raises:
            TemporaryError: The disk is full; the old status stands.
        """
        self._path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(self._path, status.model_dump_json(indent=1))


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
