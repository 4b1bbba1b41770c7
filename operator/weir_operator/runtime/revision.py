"""What a job is made of: a change of it is an upgrade, not a rescale.

A revision is a value that outlives its manifest: it is kept in the status, because whoever goes
back to it after a failed upgrade can no longer read it from the StreamApp.
"""

from __future__ import annotations

import hashlib
import json

from pydantic import BaseModel, ConfigDict, Field
from pydantic.types import JsonValue


class Revision(BaseModel):
    """One make of a job: how it is submitted, and what its processes are made of."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    entry_class: str | None = None
    """`None` takes the jar's own main class."""
    arguments: tuple[str, ...] = ()
    """The job's own arguments."""
    parallelism_arguments: dict[str, str] = Field(default_factory=dict)
    """Program argument per operator."""
    whole_job: str | None = None
    """Name of the single operator of a job that was not written for Weir."""
    processes: dict[str, JsonValue] = Field(default_factory=dict)
    """What the runtime makes pods or processes of: image, jar, configuration, pod template, as the
    StreamApp writes them."""

    @property
    def id(self) -> str:
        """Short name, the same for equal content: processes carry it."""
        content = json.dumps(self.model_dump(mode="json"), sort_keys=True)
        return hashlib.sha256(content.encode()).hexdigest()[:10]
