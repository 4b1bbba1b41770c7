"""Where the pods of a job run and what memory they get, as values that outlive the manifest.

Decisions use a pool's sizes, price and limits. Pods use its selector, tolerations and memory, which
are stored with the running revision: a rollback can no longer read them from the StreamApp.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from pydantic import BaseModel, ConfigDict, Field
from pydantic.types import JsonValue

from weir_operator.flink.configuration import TaskManagerMemory
from weir_operator.flink.job_graph import JobGraph
from weir_operator.flink.memory import size_task_manager
from weir_operator.streamapp import world
from weir_operator.streamapp.models import StreamApp
from weir_operator.streamapp.pools import NodePool

MIB = 2**20
_STREAMS_OF_A_WHOLE_JOB = 8
"""Exchanges within a job that is one operator; more of them find room in Flink's own share of
network memory unless there are hundreds of replicas."""


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
        """Return a short name, the same for equal places with as many MiB of managed memory."""
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
    """Return the MiB of managed memory that operators ask for; others leave it to Flink's share."""
    return {
        each.name: each.managed_memory.bytes // MIB
        for each in world.operators(app)
        if each.managed_memory
    }


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryNeeds:
    """What an operator asks of the memory of its TaskManagers."""

    pools: tuple[str, ...]
    """Where its replicas may run; their managed memory is the same in all of them."""
    managed: int | None = None
    """MiB that the manifest asks for; `None` leaves it to Flink's share."""
    channels: int = 0
    """Subtasks that one of its slots receives from, and as many that it sends to, at most."""
    exchanges: int = 0
    """Streams into one of its slots, and as many out of it."""
    replicas: int = 1
    """The most that there may be."""


def memory_needs_of(app: StreamApp) -> dict[str, MemoryNeeds]:
    """Return what each operator needs at the most replicas that it and the others may have.

    What flows where is not known before the job's program was run, so each operator is taken to
    use managed memory, and to send to every other one and to itself.
    """
    operators = world.operators(app)
    managed = managed_memory_of(app)
    channels, exchanges = sum(each.max_replicas for each in operators), len(operators)
    if not app.spec.operators:
        channels, exchanges = channels * _STREAMS_OF_A_WHOLE_JOB, _STREAMS_OF_A_WHOLE_JOB
    return {
        each.name: MemoryNeeds(
            pools=tuple(pool.name for pool in world.pools_of(app, each.name)),
            managed=managed.get(each.name),
            channels=channels,
            exchanges=exchanges,
            replicas=each.max_replicas,
        )
        for each in operators
    }


def needs_in(graph: JobGraph, needs: Mapping[str, MemoryNeeds]) -> dict[str, MemoryNeeds]:
    """Return what operators need in a job whose graph is known; what it leaves out stays."""
    return {
        name: _needs_in(graph, name, needs) if name in graph.managed else needs[name]
        for name in needs
    }


def _needs_in(graph: JobGraph, name: str, needs: Mapping[str, MemoryNeeds]) -> MemoryNeeds:
    own = needs[name]
    known = [stream for stream in graph.streams if stream[0] in needs and stream[1] in needs]
    # Of each stream: how many there are, and the subtasks at its other end.
    into = [(n, needs[source].replicas) for source, to, n in known if to == name]
    out = [(n, needs[to].replicas) for source, to, n in known if source == name]
    return replace(
        own,
        managed=0 if own.managed is None and not graph.managed[name] else own.managed,
        channels=max(sum(n * replicas for n, replicas in streams) for streams in (into, out)),
        exchanges=max(sum(n for n, _ in streams) for streams in (into, out)),
    )


def size_memory(
    needs: MemoryNeeds, pool: str, *, process: Mapping[str, int], config: Mapping[str, str]
) -> TaskManagerMemory:
    """Return the memory of an operator's TaskManager in a pool.

    Where pools differ, the managed memory is that of the smallest, because Flink asks for the same
    in every slot of an operator; the heap gets what is left.

    Args:
        needs: The operator's.
        pool: Where the TaskManager runs.
        process: MiB of a container, by pool.
        config: The user's keys for Flink.

    Raises:
        PermanentError: No TaskManager can run in so little memory.
    """
    sizes = {
        each: size_task_manager(
            config,
            process=process[each],
            managed=needs.managed,
            channels=needs.channels,
            exchanges=needs.exchanges,
            field=f'spec.nodePools["{each}"].memory',
        )
        for each in {pool, *needs.pools}
        if each in process
    }
    return replace(sizes[pool], managed=min(each.managed for each in sizes.values()))


def cores_of(pool: NodePool) -> int:
    """Return the cores of the largest size of a pool, rounded up."""
    return max(math.ceil(size.cores) for size in pool.sizes)


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
