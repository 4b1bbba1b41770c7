"""Where the pods of a job run and what memory they get, as values that outlive the manifest.

A pool's sizes, price and limits are what decisions are made of; its selector, tolerations and
memory are what pods are made of, and they are kept with the revision that runs: whoever goes back
after a change that failed can no longer read them from the StreamApp.
"""

from __future__ import annotations

import hashlib
import json

from pydantic import BaseModel, ConfigDict, Field
from pydantic.types import JsonValue

from weir_operator.streamapp import world
from weir_operator.streamapp.models import StreamApp
from weir_operator.streamapp.pools import NodePool

MIB = 2**20


class Place(BaseModel):
    """What pods ask of their node."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    node_selector: dict[str, str] = Field(default_factory=dict)
    tolerations: tuple[dict[str, JsonValue], ...] = ()
    memory: int
    """MiB of the container."""
    cpu: str | None = None
    """CPU quantity; `None` where replicas have sizes."""

    def digest(self, *, managed_memory: int = 0) -> str:
        """Return a short name, the same for equal places.

        Args:
            managed_memory: MiB that Flink manages in a container here.
        """
        # Without defaults: a field that a later Weir adds must not rename places that stay.
        content = [self.model_dump(mode="json", exclude_defaults=True), managed_memory]
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:10]


def places_of(app: StreamApp) -> dict[str, Place]:
    """Return where replicas run, by pool."""
    return {
        pool.name: _place(pool, memory=pool.memory.bytes // MIB) for pool in app.spec.node_pools
    }


def job_manager_place(app: StreamApp) -> Place:
    """Return where the JobManager runs."""
    wanted, pools = app.spec.flink.job_manager, app.spec.node_pools
    pool = pools[0] if wanted.pool is None else world.pool_named(app, wanted.pool)
    return _place(pool, memory=wanted.memory.bytes // MIB, cpu=str(wanted.cpu))


def managed_memory_of(app: StreamApp) -> dict[str, int]:
    """Return the MiB that Flink manages per operator; operators left out take none."""
    return {
        each.name: each.managed_memory.bytes // MIB
        for each in world.operators(app)
        if each.managed_memory
    }


def _place(pool: NodePool, *, memory: int, cpu: str | None = None) -> Place:
    return Place(
        node_selector=dict(pool.node_selector or {}),
        tolerations=tuple(
            each.model_dump(mode="json", by_alias=True, exclude_none=True)
            for each in pool.tolerations
        ),
        memory=memory,
        cpu=cpu,
    )
