"""The operators of a running job, found by where its tasks run.

Flink's REST interface shows slot sharing groups as numbers without names. But every operator has
its own TaskManagers, so the TaskManager of a subtask identifies the operator of its vertex. If a
vertex runs on the TaskManagers of several operators, the job did not pin it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from weir_operator.errors import PermanentError, TemporaryError
from weir_operator.flink.answers import FINISHED, JobDetails, Subtask, Vertex
from weir_operator.flink.rest import FlinkRest

KEYED = "HASH"
BALANCED = frozenset({"REBALANCE", "RESCALE"})

_REMEDY = (
    "list in spec.operators what `weir graph` prints; or, for a job that pins itself, call "
    'Weir.pin(stream, "<operator>") on each of them; or leave out spec.operators'
)


@dataclass(frozen=True, kw_only=True, slots=True)
class OperatorEdge:
    """Streams from one operator to another."""

    source: str
    target: str
    keyed: bool
    """At least one of them is dealt by key."""
    balanced: bool
    """At least one of them is dealt by turn, and follows speed under backlog."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Topology:
    """The job as a graph of operators, in topological order."""

    operators: tuple[str, ...]
    vertices: Mapping[str, tuple[Vertex, ...]]
    """Job vertices per operator."""
    edges: tuple[OperatorEdge, ...]
    sources: tuple[str, ...]
    """Operators with a vertex that nothing flows into."""
    entries: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Ids of the vertices that take in what comes from other operators or from outside, by
    operator."""
    exits: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Ids of the vertices that give to other operators; at a sink, of those that give to none."""
    keyed: tuple[tuple[str, Vertex], ...] = ()
    """Vertices that send records to others by key or get such, each behind its operator."""
    drained: frozenset[str] = frozenset()
    """TaskManagers on which the subtask that takes records in has come to its own end, as one of a
    source without splits does."""
    running_for: float = 0.0
    """Seconds for which all tasks have run that have not ended; 0 if one does not, or unknown."""


async def discover(
    rest: FlinkRest, job_id: str, operator_of_task_manager: Mapping[str, str]
) -> Topology:
    """Return the operators of a job whose tasks all have a TaskManager.

    Raises:
        TemporaryError: The job is unknown or has no graph yet, or a subtask has no TaskManager yet.
        PermanentError: A vertex is spread over TaskManagers of several operators.
    """
    job = await rest.job(job_id)
    if job is None:
        raise TemporaryError(f"Flink does not know job {job_id} yet")
    if not job.vertices:
        # A JobManager that was started again lists the job before it has read its graph.
        raise TemporaryError(f"Flink has no graph of job {job_id} yet ({job.state.value})")
    subtasks = {vertex.id: await rest.subtasks(job_id, vertex.id) for vertex in job.vertices}
    return build_topology(job, subtasks, operator_of_task_manager)


async def misplaced(
    rest: FlinkRest, job_id: str, operator_of_task_manager: Mapping[str, str]
) -> str | None:
    """Return a sentence where tasks do not run where they should, `None` where all do.

    Raises:
        TemporaryError: A subtask has no TaskManager yet.
    """
    try:
        found = await discover(rest, job_id, operator_of_task_manager)
    except PermanentError as error:
        return str(error)
    return idle_operators(found, operator_of_task_manager.values())


def idle_operators(topology: Topology, expected: Iterable[str]) -> str | None:
    """Return a sentence naming operators that have TaskManagers but no task, `None` without.

    Either the job does not have them, or it does not pin them: all its vertices then share slots.
    """
    idle = sorted(set(expected) - set(topology.operators))
    if not idle:
        return None
    return (
        f"Expected tasks of operators {idle}, but the job's vertices run only on "
        f"the TaskManagers of {list(topology.operators)}; {_REMEDY}"
    )


async def waiting(rest: FlinkRest, job_id: str) -> str | None:
    """Return a sentence naming the vertices that wait for a TaskManager, `None` without."""
    job = await rest.job(job_id)
    if job is None:
        return None
    names = [
        vertex.name
        for vertex in job.vertices
        if any(task.task_manager is None for task in await rest.subtasks(job_id, vertex.id))
    ]
    if not names:
        return None
    return (
        f"Vertices {names} wait for TaskManagers; if Weir starts none for their "
        "operator, list the operator in spec.operators under the name in the "
        "job's call of Weir.pin"
    )


def build_topology(
    job: JobDetails,
    subtasks: Mapping[str, Sequence[Subtask]],
    operator_of_task_manager: Mapping[str, str],
) -> Topology:
    """Return the operators of a job, from what Flink said of it.

    Raises:
        TemporaryError: A subtask has no TaskManager that is known.
        PermanentError: A vertex is spread over TaskManagers of several operators.
    """
    operator_of = {
        vertex.id: _operator_of(vertex, subtasks[vertex.id], operator_of_task_manager)
        for vertex in job.vertices
    }
    topology = group_vertices(job, operator_of)
    entries = [vertices[0].id for vertices in topology.vertices.values()]
    drained = frozenset(
        task.task_manager
        for entry in entries
        for task in subtasks[entry]
        if task.status == FINISHED and task.task_manager is not None
    )
    ran = [
        task.running_for for tasks in subtasks.values() for task in tasks if task.status != FINISHED
    ]
    return replace(topology, drained=drained, running_for=min(ran, default=0.0))


def group_vertices(job: JobDetails, operator_of: Mapping[str, str]) -> Topology:
    """Return the operators of a job, given the operator of each vertex by the vertex's id."""
    operators = tuple(dict.fromkeys(operator_of[vertex.id] for vertex in job.vertices))
    fed = {edge.target for edge in job.edges}
    feeding = {edge.source for edge in job.edges}
    between = [e for e in job.edges if operator_of[e.source] != operator_of[e.target]]
    entering = {edge.target for edge in between} | {v.id for v in job.vertices} - fed
    leaving = {edge.source for edge in between}
    ends = {v.id for v in job.vertices} - feeding
    dealt = [edge for edge in job.edges if edge.ship_strategy == KEYED]
    keyed = {end for edge in dealt for end in (edge.source, edge.target)}
    vertices: dict[str, list[Vertex]] = {operator: [] for operator in operators}
    for vertex in job.vertices:
        vertices[operator_of[vertex.id]].append(vertex)
    own = {operator: frozenset(v.id for v in parts) for operator, parts in vertices.items()}
    return Topology(
        entries={operator: ids & entering for operator, ids in own.items()},
        exits={operator: ids & leaving or ids & ends for operator, ids in own.items()},
        operators=operators,
        vertices={operator: tuple(parts) for operator, parts in vertices.items()},
        edges=_edges_between(job, operator_of),
        sources=tuple(each for each in operators if own[each] - fed),
        keyed=tuple((operator_of[v.id], v) for v in job.vertices if v.id in keyed),
    )


def _edges_between(job: JobDetails, operator_of: Mapping[str, str]) -> tuple[OperatorEdge, ...]:
    strategies: dict[tuple[str, str], set[str]] = {}
    for edge in job.edges:
        source, target = operator_of[edge.source], operator_of[edge.target]
        if source != target:
            strategies.setdefault((source, target), set()).add(edge.ship_strategy)
    return tuple(
        OperatorEdge(
            source=source,
            target=target,
            keyed=KEYED in found,
            balanced=bool(BALANCED & found),
        )
        for (source, target), found in strategies.items()
    )


def _operator_of(
    vertex: Vertex, subtasks: Iterable[Subtask], operator_of_task_manager: Mapping[str, str]
) -> str:
    operators: set[str] = set()
    for subtask in subtasks:
        if subtask.task_manager is None:
            raise TemporaryError(
                f"Subtask {subtask.index} of {vertex.name!r} has no TaskManager yet"
                f" ({subtask.status})"
            )
        operator = operator_of_task_manager.get(subtask.task_manager)
        if operator is None:
            raise TemporaryError(
                f"Subtask {subtask.index} of {vertex.name!r} runs on "
                f"{subtask.task_manager}, which is not a TaskManager of Weir; it may just "
                "have ended"
            )
        operators.add(operator)
    if len(operators) != 1:
        raise PermanentError(
            f"Expected vertex {vertex.name!r} on the TaskManagers of one operator, "
            f"got {sorted(operators)}: the job does not set the slot sharing groups; "
            f"{_REMEDY}"
        )
    return operators.pop()
