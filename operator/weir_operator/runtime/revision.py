"""What defines a job: a change of it is an upgrade, or a rescale if only pools changed.

A revision is a value that outlives its manifest: the status stores it, because a rollback after a
failed upgrade can no longer read it from the StreamApp.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, Field
from pydantic.types import JsonValue

from weir_operator.flink.job_graph import JobGraph
from weir_operator.runtime.places import Place


@dataclass(frozen=True, kw_only=True, slots=True)
class AgentImage:
    """Where Flink's pods get Weir's agent from, so that the job's image need not have it."""

    image: str
    """Weir's own, which holds the jar."""
    digest: str
    """SHA-256 of the jar, hexadecimal; another one is not used."""


class Revision(BaseModel):
    """What defines a job: how to submit it, and how to create its processes."""

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
    """What the runtime makes pods or processes of: image, jar, configuration, pod template and
    storage, as the StreamApp writes them."""
    job_manager: Place | None = None
    """Where the JobManager runs; `None` on one machine."""
    places: dict[str, Place] = Field(default_factory=dict)
    """Where replicas run, by pool; empty on one machine. Another place is no upgrade: replicas
    move there by a rescale, and the JobManager stays."""
    managed_memory: dict[str, int] = Field(default_factory=dict)
    """MiB of managed memory that operators ask for; belongs to the places."""
    vertices: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """What each operator is made of, as in `JobSpec`. Other operators of the same program are no
    upgrade: the job gets there by a rescale."""
    graph: JobGraph | None = None
    """What the job's program builds; `None` where that was not read. Follows from the rest."""

    agent: AgentImage | None = None
    """Where the job's pods got Weir's agent from, for the way back to them: a newer Weir is no
    upgrade of the job. `None` where none was recorded: they get it from where all do now."""

    @property
    def id(self) -> str:
        """Short name, the same for all that differ in places alone: processes carry it."""
        left_out = {"places", "managed_memory", "graph", "vertices", "agent"}
        if self.job_manager is None:
            left_out.add("job_manager")
        content = json.dumps(self.model_dump(mode="json", exclude=left_out), sort_keys=True)
        return hashlib.sha256(content.encode()).hexdigest()[:10]

    def knowing(self, running: Revision | None) -> Revision:
        """Return this revision with what is only known of the running one, where it is the same.

        The graph also needs the same operators.
        """
        if running is None or running.id != self.id:
            return self
        known: dict[str, object] = {"agent": running.agent or self.agent}
        if self.graph is None and running.vertices == self.vertices:
            known["graph"] = running.graph
        return self.model_copy(update=known)

    @property
    def fingerprint(self) -> str:
        """Short name of the whole, places and vertices included."""
        if not self.places and not self.vertices:
            return self.id
        places = {name: each.digest() for name, each in self.places.items()}
        parts = [places, self.managed_memory, *([self.vertices] if self.vertices else [])]
        content = json.dumps(parts, sort_keys=True)
        return f"{self.id}-{hashlib.sha256(content.encode()).hexdigest()[:10]}"

    def place_id(self, operator: str, pool: str) -> str:
        """Return the short name of a replica's place; empty where places do not matter."""
        if pool not in self.places:
            return ""
        return self.places[pool].digest(managed_memory=self.managed_memory.get(operator, 0))
