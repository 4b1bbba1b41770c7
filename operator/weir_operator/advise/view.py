"""Translates an external job into operators, replicas and deployments. Pure.

Each vertex of the job, which is a chain of functions, is an operator named after it, and each
subtask is a replica. Vertices of such a job share slots, so a replica is a thread, not a process.
Its assumed size is one core, or its TaskManager's CPU if that is less: a task is one thread, and
gets that much while its neighbours are idle. Busy neighbours leave it less; its service time is
then measured too long, and the advice errs towards more replicas.

The advice describes the job under Weir, where every replica has its own TaskManager. Today's cost
is counted from its TaskManagers, not from these replicas: see `advice`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count

from weir_operator.errors import TemporaryError
from weir_operator.flink.answers import FINISHED, JobDetails, Subtask
from weir_operator.flink.topology import Topology, group_vertices
from weir_operator.runtime.protocol import Deployments, Replica
from weir_operator.streamapp.managers import Policy
from weir_operator.streamapp.models import Mode, StreamApp
from weir_operator.streamapp.operators import Operator
from weir_operator.streamapp.pools import NodePool
from weir_operator.streamapp.quantities import Cpu
from weir_operator.streamapp.section import LONGEST_NAME
from weir_policies import registry
from weir_simulator.naming import plain_name

FORWARD = "FORWARD"
"""Ship strategy of an edge on which each subtask sends to one subtask."""
WHOLE_CORE = 1.0
"""Cores that one task can use: it is one thread."""
SEEN_FIRST = 5
"""Intervals whose largest rate an advice must be able to carry; none is given before."""
ASKED = Policy(name="queueing", settings={"minimum_saving": 0.0, "scale_in_window": SEEN_FIRST})
"""What answers in place of a policy that asks whether a change is worth its restart, as the
planner, which has no plan before twenty minutes: what the job needs. A job that comes to Weir is
restarted anyway."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PodPlace:
    """Where a pod runs, and what it has there: of the foreign job, or of the job under Weir."""

    pool: str
    """Pool of the StreamApp whose nodes it is on."""
    cores: float
    """CPU of its container, which is what is paid for."""
    memory: float = math.nan
    """Memory of its container, bytes; NaN if unknown."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ExternalJob:
    """The foreign job as it runs now."""

    id: str
    name: str
    runs_since: float
    """When it began to run, or was restarted last, Unix seconds."""
    topology: Topology
    replicas: tuple[Replica, ...]
    max_parallelism: int
    """The minimum over its vertices that can have several subtasks."""
    most: Mapping[str, int]
    """By operator, the minimum of its vertices' max parallelism."""
    places: Mapping[str, PodPlace]
    """By TaskManager id."""
    entries: frozenset[str]
    """Vertices that nothing flows into."""

    @property
    def deployments(self) -> Deployments:
        """Replicas per operator and node type."""
        counted: dict[str, Counter[str]] = {name: Counter() for name in self.topology.operators}
        for replica in self.replicas:
            counted[replica.operator][replica.node_type] += 1
        return {name: dict(counts) for name, counts in counted.items()}

    def replica_at(self, vertex_id: str, subtask: str) -> str | None:
        """Return the id of the replica that is this subtask, or `None`."""
        for name, vertices in self.topology.vertices.items():
            if any(vertex.id == vertex_id for vertex in vertices):
                return replica_id(name, subtask)
        return None

    def is_like(self, other: ExternalJob) -> bool:
        """Return whether the loops made for `other` serve this one as well."""
        mine, others = (
            {(name, kind) for name, counts in each.deployments.items() for kind in counts}
            for each in (self, other)
        )
        return (
            self.topology.operators == other.topology.operators
            and mine <= others
            and self.most == other.most
        )


def view_job(
    job: JobDetails,
    subtasks: Mapping[str, Sequence[Subtask]],
    places: Mapping[str, PodPlace],
    *,
    pools: Sequence[NodePool],
    url: str,
    in_place: bool = False,
) -> ExternalJob:
    """Return the job as operators and replicas.

    Under Weir, each vertex is an operator. Where the job is scaled in place, vertices between which
    records pass one to one are one operator: Flink has already decided to connect subtask to
    subtask, so another parallelism on one side would leave subtasks without records, or send
    records to subtasks that do not have their keys.

    Args:
        job: What Flink says of it.
        subtasks: By vertex id.
        places: By TaskManager id.
        pools: Of the StreamApp, as written.
        url: Flink's REST address, where all of it is measured.
        in_place: Whether the job is scaled where it runs.

    Raises:
        TemporaryError: A subtask has no TaskManager that is known, as while the job restarts, or
            the job has no graph yet.
    """
    if not job.vertices:
        raise TemporaryError(
            f"Flink does not show the graph of job {job.id} yet ({job.state.value})"
        )
    named = dict(zip((v.id for v in job.vertices), name_vertices(job), strict=True))
    if in_place:
        named = join_forward(job, named)
    topology = group_vertices(job, named)
    replicas, drained = _read_replicas(
        job, subtasks, places, named=named, topology=topology, pools=pools, url=url, whole=in_place
    )
    return ExternalJob(
        id=job.id,
        name=job.name,
        runs_since=job.runs_since,
        topology=replace(topology, drained=drained),
        replicas=replicas,
        max_parallelism=min((m for v in job.vertices if (m := v.max_parallelism) > 1), default=1),
        most={
            name: min(vertex.max_parallelism for vertex in vertices)
            for name, vertices in topology.vertices.items()
        },
        places=places,
        entries=frozenset(v.id for v in job.vertices) - {edge.target for edge in job.edges},
    )


def _read_replicas(
    job: JobDetails,
    subtasks: Mapping[str, Sequence[Subtask]],
    places: Mapping[str, PodPlace],
    *,
    named: Mapping[str, str],
    topology: Topology,
    pools: Sequence[NodePool],
    url: str,
    whole: bool,
) -> tuple[tuple[Replica, ...], frozenset[str]]:
    """Return the replicas, and the ids of those that have come to their own end."""
    written = {pool.name: {size.cores: size.text for size in pool.sizes} for pool in pools}
    replicas, drained = [], set()
    for vertices in topology.vertices.values():
        vertex = max(vertices, key=lambda each: len(subtasks[each.id]))
        for subtask in subtasks[vertex.id]:
            place = places.get(subtask.task_manager or "")
            if place is None:
                raise TemporaryError(
                    f"Subtask {subtask.index} of {vertex.name!r} runs on no known TaskManager "
                    f"({subtask.status}); the job may be restarting"
                )
            replica = replica_id(named[vertex.id], str(subtask.index))
            if subtask.status == FINISHED:
                drained.add(replica)
            size = pools[0].sizes[0].text if whole else size_of(min(place.cores, WHOLE_CORE))
            replicas.append(
                Replica(
                    id=replica,
                    operator=named[vertex.id],
                    pool=place.pool,
                    size=written[place.pool].get(Cpu(size).cores, size),
                    started=job.started,
                    metrics_url=url,
                )
            )
    return tuple(replicas), frozenset(drained)


def join_forward(job: JobDetails, named: Mapping[str, str]) -> dict[str, str]:
    """Return the operator of each vertex, of which `named` has the names, by the vertex's id.

    Those joined by forward edges have the name of the first one in topological order.
    """
    beside: dict[str, list[str]] = {vertex.id: [] for vertex in job.vertices}
    for edge in job.edges:
        if edge.ship_strategy == FORWARD:
            beside[edge.source].append(edge.target)
            beside[edge.target].append(edge.source)
    joined: dict[str, str] = {}
    for vertex in job.vertices:
        unseen = [vertex.id]
        while unseen:
            found = unseen.pop()
            if found not in joined:
                joined[found] = joined.get(vertex.id, named[vertex.id])
                unseen += beside[found]
    return {vertex.id: joined[vertex.id] for vertex in job.vertices}


def external_app(
    app: StreamApp,
    job: ExternalJob,
    *,
    pools: Sequence[NodePool] | None = None,
    most_slots: int | None = None,
) -> StreamApp:
    """Return the StreamApp as it would be written for the job: its operators, and room for today's.

    What the manifest says of an operator by its name is kept; today's replicas and sizes are
    allowed whatever it says, because they are where the advice begins. In mode Advise, the policy
    that everybody has gives way to one that answers sooner, see `ASKED`.

    Args:
        app: The manifest.
        job: As it runs.
        pools: Node pools; `None` takes the manifest's.
        most_slots: The most slots that the job's cluster may have; `None` has no limit.
    """
    written = {operator.name: operator for operator in app.spec.operators}
    deployments = job.deployments
    operators = tuple(
        _with_room(
            written.get(name) or _unwritten(name, deployments[name]),
            deployments[name],
            maximum=min(job.most[name], most_slots or job.most[name]),
        )
        for name in job.topology.operators
    )
    pools = tuple(_with_sizes(pool, job.replicas) for pool in pools or app.spec.node_pools)
    flink = app.spec.flink.model_copy(update={"max_parallelism": job.max_parallelism})
    loops = app.spec.operator_manager
    if app.spec.mode is not Mode.AUTO and registry.find(loops.policy.name).weighs_restarts:
        loops = loops.model_copy(update={"policy": ASKED})
    spec = app.spec.model_copy(
        update={
            "operators": operators,
            "node_pools": pools,
            "flink": flink,
            "operator_manager": loops,
        }
    )
    return app.model_copy(update={"spec": spec})


def unknown_operators(app: StreamApp, job: ExternalJob) -> str:
    """Return a sentence naming operators of the manifest that the job lacks; empty without."""
    unknown = sorted(
        {operator.name for operator in app.spec.operators} - set(job.topology.operators)
    )
    if not unknown:
        return ""
    return (
        f"spec.operators: expected vertices of job {job.name!r} "
        f"({', '.join(job.topology.operators)}), got {', '.join(unknown)}; Weir "
        "ignores them"
    )


def other_max_parallelism(app: StreamApp, job: ExternalJob) -> str:
    """Return a sentence where the manifest has another max parallelism; empty where the same."""
    if app.spec.flink.max_parallelism == job.max_parallelism:
        return ""
    return (
        f"spec.flink.maxParallelism: expected {job.max_parallelism}, as in job "
        f"{job.name!r}, got {app.spec.flink.max_parallelism}; the advice does not "
        "depend on it, but Weir can resume from a savepoint of the job only with "
        f"{job.max_parallelism}"
    )


def name_vertices(job: JobDetails) -> tuple[str, ...]:
    """Return a name for every vertex that can be an operator's, in their order, each once.

    Of vertices with one name, the first has it, and the others a number that no name ends in.
    """
    plain = [plain_name(vertex.name, longest=LONGEST_NAME) for vertex in job.vertices]
    taken = set(plain)
    numbers: dict[str, Iterator[int]] = {}  # of each name that there is again
    names = []
    for name in plain:
        if name not in numbers:
            numbers[name] = count(2)
            names.append(name)
            continue
        endings = (f"-{number}" for number in numbers[name])
        free = (name[: LONGEST_NAME - len(each)].strip("-") + each for each in endings)
        names.append(next(each for each in free if each not in taken))
        taken.add(names[-1])
    return tuple(names)


def replica_id(operator: str, subtask: str) -> str:
    """Return the id of the replica that is a subtask of an operator."""
    return f"{operator}-{subtask}"


def size_of(cores: float) -> str:
    """Write cores as a manifest does, to the thousandth."""
    thousandths = max(1, round(cores * 1000))
    return str(thousandths // 1000) if thousandths % 1000 == 0 else f"{thousandths}m"


def _unwritten(name: str, now: Mapping[str, int]) -> Operator:
    """Return an operator that the manifest does not mention, with room to grow."""
    usual = Operator(name=name)
    return usual.model_copy(update={"max_replicas": max(usual.max_replicas, 2 * sum(now.values()))})


def _with_room(operator: Operator, now: Mapping[str, int], *, maximum: int) -> Operator:
    replicas = sum(now.values())
    allowed = operator.pools
    if allowed is not None:
        allowed = (*allowed, *sorted({kind.split("/")[0] for kind in now} - set(allowed)))
    return operator.model_copy(
        update={
            "max_replicas": max(replicas, min(maximum, operator.max_replicas)),
            "pools": allowed,
        }
    )


def _with_sizes(pool: NodePool, replicas: Sequence[Replica]) -> NodePool:
    """Return the pool with today's sizes and counts allowed, its own sizes first."""
    here = [replica for replica in replicas if replica.pool == pool.name]
    sizes = list(pool.sizes)
    for text in sorted({replica.size for replica in here}):
        if Cpu(text) not in sizes:
            sizes.append(Cpu(text))
    maximum = max(Counter(replica.operator for replica in here).values(), default=0)
    limit = pool.max_replicas
    return pool.model_copy(
        update={
            "sizes": tuple(sizes),
            "max_replicas": None if limit is None else max(limit, maximum),
        }
    )
