"""The operators of a job, found in what its program builds.

Every vertex could be an operator, but a TaskManager for each is expensive, and most vertices are
nearly idle. So what the manifest does not say is decided by what was measured:

1. What `spec.operators` names is as it says.
2. A vertex whose subtasks together were busy for a tenth of the time, and one for which
   `objective.paths` has a bound, is an operator of its own (`loop/separation.py`).
3. The others share: all that lie behind the same ones of these. So records never leave a shared
   operator and come back to it, and the operators form a graph without a circle. Before anything
   was measured, this makes the whole job one operator.

What was once separated stays so: its name is in the status, as an operator of the deployment. So
the same manifest, plan and status always give the same operators.

Vertices here are those of the agent, which has joined what Flink cannot run apart: co-located
vertices, and those between which records pass one to one into keyed state.

Pure.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from graphlib import CycleError, TopologicalSorter

from weir_operator.errors import PermanentError
from weir_operator.flink.job_graph import Plan
from weir_operator.loop.separation import SharedOperators, count_replicas
from weir_operator.runtime.protocol import Deployments
from weir_operator.streamapp import world
from weir_operator.streamapp.models import StreamApp
from weir_operator.streamapp.operators import ALL_OTHERS, WHOLE_JOB, Operator
from weir_operator.streamapp.rules import MAX_PAIRS
from weir_operator.streamapp.section import LONGEST_NAME
from weir_simulator.naming import plain_name

Vertices = dict[str, tuple[str, ...]]
"""Names of vertices by operator."""


def discover_operators(app: StreamApp, plan: Plan | None, known: Collection[str]) -> StreamApp:
    """Return the StreamApp with all operators of its job, each with its vertices.

    It is returned as it is where the agent does not keep operators apart: without an agent, in a
    batch job, in a job that names the slot sharing groups of `operators` itself.

    Args:
        app: As written.
        plan: What the program builds; `None` if that was not read.
        known: Operators of the deployment that runs; of a first start none.

    Raises:
        PermanentError: `operators` do not fit the job's vertices, or need an agent that is missing.
    """
    written = app.spec.operators
    if plan is None or not is_pinnable(plan) or _pins_some(plan, written):
        _refuse_vertices(plan, written)
        return app
    separated = () if set(known) == {WHOLE_JOB} else known  # a vertex may have that name, too
    sinks = (path.sink for path in app.spec.objective.paths)
    vertices = group_vertices(plan, written, {*separated, *sinks})
    limits = {name: plan.limit_of(parts) for name, parts in vertices.items()}
    return with_operators(app, vertices, limits)


def with_operators(
    app: StreamApp, vertices: Mapping[str, tuple[str, ...]], limits: Mapping[str, int]
) -> StreamApp:
    """Return the StreamApp with these operators, of at most so many replicas by name."""
    named = {operator.name: operator for operator in app.spec.operators}
    maximum = app.spec.flink.max_parallelism
    operators = []
    for name, parts in vertices.items():
        operator = named.get(name) or Operator(name=name)
        limit = min(operator.max_replicas, maximum, limits.get(name, maximum))
        operators.append(operator.model_copy(update={"max_replicas": limit, "vertices": parts}))
    spec = app.spec.model_copy(update={"operators": tuple(operators)})
    return app.model_copy(update={"spec": spec})


def share_operators(
    app: StreamApp, plan: Plan | None, vertices: Mapping[str, tuple[str, ...]]
) -> SharedOperators | None:
    """Return the operators that vertices share until they are busy; `None` without any."""
    named = {operator.name for operator in app.spec.operators}
    shared = {
        name: {each.id: each.operator for each in plan.vertices if each.operator in parts}
        for name, parts in vertices.items()
        if plan is not None and len(parts) > 1 and name not in named
    }
    if plan is None or not shared:
        return None
    return SharedOperators(
        vertices=shared,
        separate=partial(separate_vertices, app, plan),
        max_operators=MAX_PAIRS // max(1, world.count_node_types(app)),
        pool_limits={
            pool.name: pool.max_replicas
            for pool in app.spec.node_pools
            if pool.max_replicas is not None
        },
    )


def separate_vertices(
    app: StreamApp,
    plan: Plan,
    deployments: Deployments,
    work: Mapping[str, float],
    names: Collection[str],
) -> tuple[Deployments, Vertices]:
    """Return the deployment in which some vertices are operators of their own, and its vertices.

    They, and what is left of the operator that they were in, get the replicas that their work
    needs, but no more than that operator has, and on its fastest node types.

    Args:
        app: As written.
        plan: What the program builds.
        deployments: What runs.
        work: Of each vertex, seconds of work per second; NaN where that is unknown.
        names: Vertices that are part of operators there.
    """
    before = vertices_of(discover_operators(app, plan, deployments))
    after = discover_operators(app, plan, {*deployments, *names})
    vertices = vertices_of(after)
    target = {}
    for operator in after.spec.operators:
        name = operator.name
        if name in deployments:
            target[name] = dict(deployments[name])
            continue
        source = next(each for each, own in before.items() if vertices[name][0] in own)
        counts = deployments[source]
        needed = count_replicas(
            sum(work.get(each, math.nan) for each in vertices[name]), sum(counts.values())
        )
        speeds = {each.name: each.speedup for each in world.node_types(after, name)}
        target[name] = _take_fastest(counts, min(needed, operator.max_replicas), speeds)
    return target, vertices


def _take_fastest(
    counts: Mapping[str, int], maximum: int, speeds: Mapping[str, float]
) -> dict[str, int]:
    found: dict[str, int] = {}
    for node_type in sorted(counts, key=lambda name: -speeds.get(name, 0.0)):
        taken = min(counts[node_type], maximum - sum(found.values()))
        if taken:
            found[node_type] = taken
    return found


def vertices_of(app: StreamApp) -> Vertices:
    """Return what each operator of a discovered job is made of; empty for any other job."""
    found = {each.name: each.vertices for each in app.spec.operators if each.vertices}
    return found if len(found) == len(app.spec.operators) else {}


def group_vertices(plan: Plan, operators: Sequence[Operator], alone: Collection[str]) -> Vertices:
    """Return the vertices of each operator, operators in the order of the program.

    Args:
        plan: What the program builds.
        operators: As the manifest names them.
        alone: Vertices that are operators of their own, whatever else these names may be.

    Raises:
        PermanentError: An operator names a vertex that there is not or that another one names, or
            records would leave an operator and come back to it.
    """
    of_vertex = _named_vertices(plan, operators)
    for vertex in plan.operators:
        if vertex in alone:
            of_vertex.setdefault(vertex, vertex)
    rest = [vertex for vertex in plan.operators if vertex not in of_vertex]
    _refuse_circle(plan, of_vertex)
    reached = _downstream(plan, of_vertex)
    behind: dict[frozenset[str], list[str]] = {}
    for vertex in rest:
        before = frozenset(name for name, found in reached.items() if vertex in found)
        behind.setdefault(before, []).append(vertex)
    for shared in behind.values():
        name = _name_shared(shared, whole=len(shared) == len(plan.operators))
        of_vertex |= dict.fromkeys(shared, name)
    found: dict[str, list[str]] = {}
    for vertex in plan.operators:
        found.setdefault(of_vertex[vertex], []).append(vertex)
    return {name: tuple(parts) for name, parts in found.items()}


def _named_vertices(plan: Plan, operators: Sequence[Operator]) -> dict[str, str]:
    found: dict[str, str] = {}
    rest = None
    for operator in operators:
        if operator.vertices is None:
            field = f'spec.operators["{operator.name}"].name'
        else:
            field = f'spec.operators["{operator.name}"].vertices'
        for each in operator.vertices or (operator.name,):
            if each == ALL_OTHERS:
                rest = operator.name
                continue
            vertex = _find_vertex(plan, each, field)
            owner = found.setdefault(vertex, operator.name)
            if owner != operator.name:
                raise PermanentError(
                    f"{field}: expected vertices that no other operator has, got {each!r}, which "
                    f"{owner} has{_describe_joined(plan, vertex)}; remove it from one of them"
                )
    if rest is not None:
        for vertex in plan.operators:
            found.setdefault(vertex, rest)
    for operator in operators:
        own = [vertex for vertex, owner in found.items() if owner == operator.name]
        if operator.name in plan.operators and operator.name not in own:
            raise PermanentError(
                f'spec.operators["{operator.name}"].name: expected a name that no other vertex '
                f"has, got {operator.name!r}; rename the operator, or add that vertex to it"
            )
        if not own:
            raise PermanentError(
                f'spec.operators["{operator.name}"].vertices: expected vertices that are left, got '
                "none, because other operators name all; remove the operator"
            )
    return found


def _find_vertex(plan: Plan, asked: str, field: str) -> str:
    """Return the vertex of that name, id, uid, functions, or name in an advice."""
    if asked in plan.operators:
        return asked
    found = {
        each.operator
        for each in plan.vertices
        if asked in (each.id, *each.uids, each.name, plain_name(each.name, longest=LONGEST_NAME))
    }
    if len(found) == 1:
        return found.pop()
    which = "a vertex of the job" if not found else "the name of one vertex"
    raise PermanentError(
        f"{field}: expected {which} ({', '.join(plan.operators)}), got {asked!r}; `weir graph` "
        "prints all of them"
    )


def _describe_joined(plan: Plan, vertex: str) -> str:
    chains = [each.name for each in plan.vertices if each.operator == vertex]
    return f" ({' and '.join(map(repr, chains))} have to share slots)" if len(chains) > 1 else ""


def _downstream(plan: Plan, of_vertex: Mapping[str, str]) -> dict[str, set[str]]:
    after: dict[str, list[str]] = {}
    for source, target in plan.edges:
        after.setdefault(source, []).append(target)
    unseen: dict[str, list[str]] = {}
    for vertex, operator in of_vertex.items():
        unseen.setdefault(operator, []).append(vertex)
    reached: dict[str, set[str]] = {}
    for operator, ahead in unseen.items():
        found = reached[operator] = set()
        while ahead:
            for target in after.get(ahead.pop(), ()):
                if target not in found:
                    found.add(target)
                    ahead.append(target)
    return reached


def _refuse_circle(plan: Plan, of_vertex: Mapping[str, str]) -> None:
    feeders: dict[str, set[str]] = {}
    for source, target in plan.edges:
        feeder, fed = of_vertex.get(source, source), of_vertex.get(target, target)
        if feeder != fed:
            feeders.setdefault(fed, set()).add(feeder)
    try:
        tuple(TopologicalSorter(feeders).static_order())
    except CycleError as error:
        circle = error.args[1]
        named = next(each for each in circle if each in of_vertex.values())
        raise PermanentError(
            f'spec.operators["{named}"].vertices: expected vertices that records do not leave and '
            f"come back to, got {' -> '.join(reversed(circle))}; add what lies in between, or "
            "remove the vertices behind it"
        ) from error


def describe_operators(vertices: Mapping[str, Sequence[str]]) -> str:
    """Return a sentence about the operators of a job."""
    if not vertices:
        return "The job keeps its operators apart by itself, or is one operator as a whole"
    each = ", ".join(
        name if tuple(parts) == (name,) else f"{name} ({', '.join(parts)})"
        for name, parts in vertices.items()
    )
    return f"The job's operators, with the vertices that share one: {each}"


def describe_parallelism(plan: Plan | None) -> str:
    """Return that a program's own parallelism is overridden, a sentence, or nothing."""
    asked = 1 if plan is None else max((each.parallelism for each in plan.vertices), default=1)
    if asked <= 1:
        return ""
    return (
        f"The program asks for parallelism {asked}, which Weir overrides: it chooses the replicas "
        "of each operator. To begin with more than one, set operators[].initial"
    )


def _name_shared(vertices: Sequence[str], *, whole: bool) -> str:
    if len(vertices) == 1:
        return vertices[0]
    return WHOLE_JOB if whole else f"{vertices[0]}-and-{len(vertices) - 1}-more"


def _pins_some(plan: Plan, operators: Sequence[Operator]) -> bool:
    return not plan.groups.isdisjoint(each.name for each in operators if not each.vertices)


def is_pinnable(plan: Plan | None) -> bool:
    """Return whether the agent can keep operators apart in what a program builds."""
    return plan is not None and plan.agent == "ready" and plan.joins and not plan.pins_itself


def _refuse_vertices(plan: Plan | None, operators: Sequence[Operator]) -> None:
    """Refuse vertices that are named where nobody can join them."""
    if plan is None:
        got = "one that Weir cannot read (see the log)"
    elif plan.agent == "absent":
        got = "a JobManager without the agent"
    elif plan.agent != "ready":
        got = plan.agent
    elif not plan.joins:
        got = "a JobManager with an earlier agent, which an upgrade of the job replaces"
    else:
        got = "one that names the slot sharing groups of operators itself"
    for operator in operators:
        if operator.vertices:
            raise PermanentError(
                f'spec.operators["{operator.name}"].vertices: expected a job that Weir\'s agent '
                f"pins, got {got}; remove the field"
            )
