"""What Weir remembers of a StreamApp between two moments: its status, and where it is kept.

The status is the only thing that a controller needs besides the world itself to go on after a
crash. On one machine it is a JSON file, replaced atomically; on Kubernetes it is the resource's
status.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from weir_operator.errors import PermanentError
from weir_operator.rescale.journal import DeploymentMap, RescaleJournal
from weir_operator.runtime.files import write_atomically
from weir_operator.runtime.revision import Revision


class FailedDeployment(BaseModel):
    """A deployment that did not hold, and until when it is not to be tried again."""

    model_config = ConfigDict(frozen=True)

    deployment: DeploymentMap
    until: float
    """Unix time."""
    reason: str


class FullPool(BaseModel):
    """A pool that had no room for an operator's replica, and until when it counts as full."""

    model_config = ConfigDict(frozen=True)

    operator: str
    pool: str
    until: float
    """Unix time."""
    reason: str


class AppStatus(BaseModel):
    """What is known of one StreamApp's job."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    job_id: str | None = None
    """The job that runs, or ran last; `None` before the first start."""
    deployments: DeploymentMap = Field(default_factory=dict)
    """What was applied, after the last guard."""
    restore_path: str | None = None
    """Newest savepoint or checkpoint that Weir started or stopped the job with."""
    savepoints: tuple[str, ...] = ()
    """Savepoints that still exist, oldest first."""
    rescale: RescaleJournal | None = None
    """The change under way, or the last one."""
    failed: tuple[FailedDeployment, ...] = ()
    full: tuple[FullPool, ...] = ()
    """Pools without room for more of an operator's replicas."""
    revision: Revision | None = None
    """What the job is made of; `None` before that was known."""
    refused_revision: str | None = None
    """Fingerprint of the revision that was tried in vain; it is not tried again."""
    restart_tokens: dict[str, Any] = Field(default_factory=dict)
    """State of the restart budget."""
    suspended: bool = False
    """Stopped with a savepoint, on purpose."""


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
            return AppStatus.model_validate_json(self._path.read_bytes())
        except FileNotFoundError:
            return AppStatus()
        except ValidationError as error:
            raise PermanentError(
                f"Expected a status of Weir in {self._path}, got something else "
                f"({error.error_count()} errors): move the file away to start afresh"
            ) from error

    async def save(self, status: AppStatus) -> None:
        """Replace the file in one step.

        Raises:
            TemporaryError: The disk is full; the old status stands.
        """
        self._path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(self._path, status.model_dump_json(indent=1))
