"""The graph that a job's program builds, as far as its operators and their memory depend on it.

Pure.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

from pydantic import BaseModel, ConfigDict, Field

from weir_operator.errors import NotInProgramError, PermanentError
from weir_operator.limits import MAX_VERTICES
from weir_simulator.validation import suggest

_BY_AGENT = "agent-"
_VERTEX = re.compile(r"vertex (\S+) ([0-9a-f]{32}) (\d+) (\d+) (.*)")
_UNPINNED = "default"
NO_LIMIT = 1 << 15
"""Parallelism that no job of Flink exceeds."""


class JobGraph(BaseModel):
    """Which operators use managed memory, and how many streams connect them."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    managed: dict[str, bool] = Field(default_factory=dict)
    """Whether an operator uses managed memory: state in RocksDB, SQL, Python."""
    streams: tuple[tuple[str, str, int], ...] = ()
    """Operators and the number of streams from the first to the second, chains left out."""


class PlannedVertex(BaseModel):
    """A vertex that Flink would make of a program, with the operator that the agent makes of it."""

    model_config = ConfigDict(frozen=True)

    operator: str
    id: str
    """32 hexadecimal digits; the key of its state in a savepoint."""
    parallelism: int
    """What the program gives it."""
    limit: int
    """The most that its operator can have; `NO_LIMIT` where nothing limits it."""
    name: str
    """The functions of the chain."""
    uids: tuple[str, ...] = ()
    """Those that the program gives functions of the chain."""


class Plan(BaseModel):
    """What a program builds, and who gives its operators TaskManagers of their own."""

    model_config = ConfigDict(frozen=True)

    groups: frozenset[str]
    """Slot sharing groups that the program itself names."""
    agent: str
    """`ready`, `absent`, or why it would not pin the job."""
    vertices: tuple[PlannedVertex, ...]
    """Empty without the agent."""
    edges: tuple[tuple[str, str], ...] = ()
    """Operators between which records flow; empty without the agent."""
    pins_itself: bool = False
    """The program asks for the slots of Weir's operators by itself."""
    not_restartable: str = ""
    """What the job is, where Flink takes no savepoint from which all of it could go on."""
    several_jobs: bool = False
    """The program submits another job after the first one, which is the one described here."""
    joins: bool = True
    """The agent can join vertices in one operator; that of an earlier Weir cannot."""

    @property
    def operators(self) -> tuple[str, ...]:
        """Operators that the agent makes, in the order of the program."""
        return tuple(dict.fromkeys(vertex.operator for vertex in self.vertices))

    def limit_of(self, operators: Collection[str]) -> int:
        """Return the most replicas that these operators can have together in one."""
        limits = (vertex.limit for vertex in self.vertices if vertex.operator in operators)
        return min(limits, default=NO_LIMIT)


def parse_plan(lines: Sequence[str]) -> Plan:
    """Return what the lines of `dev.weir.ReadGraph` tell of operators.

    Raises:
        PermanentError: The job has more vertices than Weir manages.
    """
    groups = {line.split(" ")[1] for line in lines if re.fullmatch(r"slot \S+ (true|false)", line)}
    said = [line.removeprefix("agent ") for line in lines if line.startswith("agent ")]
    vertices = [found for line in lines if (found := _VERTEX.fullmatch(line)) is not None]
    if len(vertices) > MAX_VERTICES:
        raise PermanentError(
            f"spec.flink.job: expected a program of at most {MAX_VERTICES:,} vertices, got "
            f"{len(vertices):,}; split the job"
        )
    uids: dict[str, list[str]] = {}
    for line in lines:
        if line.startswith("uid "):
            _, vertex, uid = line.split(" ", 2)
            uids.setdefault(vertex, []).append(uid)
    return Plan(
        groups=frozenset(groups - {_UNPINNED}),
        agent=said[-1].removeprefix("failed ") if said else "absent",
        vertices=tuple(
            PlannedVertex(
                operator=found[1],
                id=found[2],
                parallelism=int(found[3]),
                limit=int(found[4]),
                name=found[5],
                uids=tuple(uids.get(found[2], ())),
            )
            for found in vertices
        ),
        edges=tuple(
            (source, target)
            for line in lines
            if line.startswith("edge ")
            for _, source, target in [line.split(" ")]
        ),
        pins_itself="pins-itself" in lines,
        not_restartable=next(
            (line.partition(" ")[2] for line in lines if line.startswith("not-restartable ")), ""
        ),
        several_jobs="several-jobs" in lines,
        joins="joins-nothing" not in lines,
    )


def refuse_unsuitable_program(plan: Plan) -> None:
    """Refuse a program whose job Weir could never stop and go on with.

    Raises:
        PermanentError: It submits several jobs, or a batch job, or one with an iteration.
    """
    if plan.several_jobs:
        raise PermanentError(
            "spec.flink.job: expected a program that submits one job, got one that submits "
            "several; call execute once, or write all INSERT INTO of a Table program into one "
            "StatementSet"
        )
    if plan.not_restartable:
        raise PermanentError(
            "spec.flink.job: expected a streaming job that can go on from a savepoint, got "
            f"{plan.not_restartable}; run it without Weir"
        )


def is_pinned_by_agent(
    plan: Plan, most: Mapping[str, int], vertices: Mapping[str, tuple[str, ...]] | None = None
) -> bool:
    """Return whether the agent is to pin the operators of a job.

    It is not where the program names their slot sharing groups itself, and where there is no agent.

    Args:
        plan: What the program builds.
        most: Replicas at a time, by operator.
        vertices: What each operator is made of, names of the plan's operators, if Weir has read
            that before; otherwise, each is an operator of the plan, or of the program's own.

    Raises:
        PermanentError: The agent cannot pin these operators, or the job cannot be restarted.
    """
    refuse_unsuitable_program(plan)
    if vertices:
        _check_vertices(plan, vertices)
    elif _names_its_groups(plan, most):
        return False
    there = tuple(vertices) if vertices else plan.operators
    if there and set(there) != set(most):
        own = f", or its own slot sharing groups {sorted(plan.groups)}" if plan.groups else ""
        raise PermanentError(
            f"spec.operators: expected the job's operators {list(there)}{own}, got {sorted(most)}; "
            f"{_suggest_operator(there, most)}"
        )
    for name, replicas in most.items():
        limit = plan.limit_of((vertices or {}).get(name, (name,)))
        if replicas > limit:
            raise PermanentError(
                f'spec.operators["{name}"].maxReplicas: expected at most {limit}, which is '
                f"the operator's maximum parallelism in the program, got {replicas}; lower it"
            )
    if plan.agent != "ready":
        raise PermanentError(
            f"Weir's agent cannot pin the job's operators: {plan.agent}; leave out spec.operators "
            "to run the job as one operator"
        )
    return True


def _names_its_groups(plan: Plan, operators: Collection[str]) -> bool:
    """Return whether the agent has nothing to pin: the program does it, or there is no agent.

    Raises:
        NotInProgramError: The program does it, but has no such operator.
    """
    if plan.agent != "absent" and not plan.groups.intersection(operators):
        return False
    if plan.groups and not plan.groups.issuperset({*operators} - {_UNPINNED}):
        there = sorted(plan.groups)
        raise NotInProgramError(
            f"spec.operators: expected the program's slot sharing groups {there}, "
            f"got {sorted(operators)}; {_suggest_operator(there, operators)}"
        )
    return True


def _suggest_operator(there: Collection[str], operators: Collection[str]) -> str:
    unknown = next((each for each in operators if each not in there), "")
    return suggest(unknown, there, otherwise="`weir graph` prints them")


def _check_vertices(plan: Plan, vertices: Mapping[str, tuple[str, ...]]) -> None:
    if plan.agent == "absent":
        raise PermanentError(
            "The JobManager has no agent of Weir's, which keeps the job's operators apart; on "
            "Kubernetes, set agent.enabled in the chart"
        )
    there, known = plan.operators, {each for part in vertices.values() for each in part}
    if there and set(there) != known:
        raise PermanentError(
            f"Expected a program with the vertices {sorted(known)}, got {list(there)}"
        )


def parse_graph(
    lines: Sequence[str], *, operators: Collection[str], whole_job: str | None
) -> JobGraph:
    """Parse the lines of a graph: `slot GROUP true`, `stream GROUP GROUP COUNT`.

    Where the program names no slot sharing group of an operator, those of the agent count.

    Args:
        lines: From `dev.weir.ReadGraph`.
        operators: Whose slot sharing groups count; others are left out.
        whole_job: Name of the operator that stands for all groups; `None` where each is one.

    Raises:
        NotInProgramError: The program names its groups, and lacks one of the operators.
    """
    managed: dict[str, bool] = {}
    streams: dict[tuple[str, str], int] = {}
    known = {whole_job} if whole_job else set(operators)
    if whole_job is None and not _names_its_groups(parse_plan(lines), known):
        lines = [line.removeprefix(_BY_AGENT) for line in lines if line.startswith(_BY_AGENT)]
    for line in lines:
        kind, *words = line.split(" ")
        groups = [whole_job or word for word in words[:-1]]
        if not known.issuperset(groups):
            continue
        if kind == "slot" and len(groups) == 1:
            managed[groups[0]] = managed.get(groups[0], False) or words[-1] == "true"
        elif kind == "stream" and len(groups) == 2 and words[-1].isdecimal():
            between = (groups[0], groups[1])
            streams[between] = streams.get(between, 0) + int(words[-1])
    return JobGraph(
        managed=managed,
        streams=tuple((source, target, count) for (source, target), count in streams.items()),
    )
