"""Weir's own programs that a JobManager runs.

Only Flink can read and clean its storage, because it has the plugins and credentials, and only
Flink can say what a job's program builds. So Weir uploads a jar with small programs
(`java/dev/weir`) and asks for a plan. They build no job; the answer is the message of the exception
that they throw.

To read a job's graph before the job runs, the JobManager runs the job's own `main` with an
`execute` that submits nothing (`java/dev/weir/ReadGraph.java`). Measured on Flink 2.3.0: 0.9 s for
a query in SQL, upload included, once the JobManager has planned one.

Whoever asks one gets a `TemporaryError` where the JobManager does not answer, and a
`PermanentError` where the programs are not installed beside Weir.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from weir_operator.errors import NotInProgramError, PermanentError, TemporaryError
from weir_operator.flink.causes import find_missing_class, root_cause
from weir_operator.flink.jars import find_own_jar
from weir_operator.flink.job_graph import JobGraph, Plan, parse_graph, parse_plan
from weir_operator.flink.rest import FlinkRest
from weir_operator.flink.scripts import read_failure, read_refusal
from weir_operator.flink.transport import RefusedByFlinkError

JAR = "weir-programs.jar"


async def ask_program(
    rest: FlinkRest,
    main: str,
    arguments: Sequence[str],
    *,
    parallelism: int | None = None,
    configuration: Mapping[str, str] | None = None,
) -> str:
    """Return what a program answered: a stack trace; empty where it built a job instead."""
    jar = await rest.upload_jar(str(find_own_jar(JAR)))
    try:
        await rest.plan_jar(
            jar,
            entry_class=main,
            arguments=arguments,
            parallelism=parallelism,
            configuration=configuration,
        )
    except RefusedByFlinkError as answer:
        return answer.trace
    finally:
        await rest.delete_jar(jar)
    return ""


def read_lines(trace: str, mark: str) -> tuple[str, ...] | None:
    """Return the lines of an answer without their mark; `None` where it is no whole answer. Pure.

    Flink repeats the message of an exception.
    """
    mark = f"{mark} "
    lines = [line.partition(mark)[2] for line in trace.splitlines() if mark in line]
    if "begin" not in lines:
        return None
    first = lines.index("begin")
    if "end" not in lines[first:]:
        return None
    return tuple(lines[first + 1 : lines.index("end", first)])


MAIN = "dev.weir.ReadGraph"
_MARK = "weir-graph"


@dataclass(frozen=True, kw_only=True, slots=True)
class Program:
    """A job's program, and how it is run."""

    entry_class: str | None
    """Class whose `main` to run; `None` takes the jar's own."""
    arguments: tuple[str, ...]
    configuration: Mapping[str, str]
    """Keys above the cluster's."""
    parallelism: int | None = None
    """Default parallelism; `None` is the cluster's."""


async def read_plan(rest: FlinkRest, jar: str, program: Program) -> Plan:
    """Return the operators of the job that a program builds.

    Raises:
        TemporaryError: A catalog of a SQL script does not answer.
        PermanentError: The program ended without a job.
    """
    return parse_plan(await _read_lines(rest, jar, program))


async def read_graph(
    rest: FlinkRest,
    jar: str,
    program: Program,
    *,
    operators: Collection[str],
    whole_job: str | None,
) -> JobGraph:
    """Return the graph of the job that a program builds; see `read_plan`.

    Args:
        rest: The JobManager.
        jar: Its id.
        program: As for a submission.
        operators: Whose slot sharing groups are asked for; others are left out.
        whole_job: Name of the operator that stands for all groups; `None` where each is one.

    Raises:
        TemporaryError: A catalog of a SQL script does not answer.
        PermanentError: The program ended without a job.
    """
    lines = await _read_lines(rest, jar, program)
    return parse_graph(lines, operators=operators, whole_job=whole_job)


async def _read_lines(rest: FlinkRest, jar: str, program: Program) -> tuple[str, ...]:
    trace = await ask_program(
        rest,
        MAIN,
        (jar, program.entry_class or "-", *program.arguments),
        parallelism=program.parallelism,
        configuration=program.configuration,
    )
    lines = read_lines(trace, _MARK)
    if lines is None:
        refusal = read_refusal(trace)
        if refusal is not None:
            raise PermanentError(refusal)
        failure = read_failure(trace)
        if failure is not None:
            raise TemporaryError(failure)
        missing = find_missing_class(trace, program.entry_class)
        if missing is not None:
            raise NotInProgramError(missing)
        raise PermanentError(
            f"Expected the job's program to build a job, got {root_cause(trace)}; correct the "
            "program or its arguments"
        )
    return lines


WARM_UP_MAIN = "dev.weir.WarmUp"
_WARM_UP_ID = "7765697200000000"
"""How the ids of these jobs begin; that of a random id cannot: its version is not 0."""


def warm_up_id() -> str:
    """Return a fresh id for a job that warms up TaskManagers."""
    return _WARM_UP_ID + uuid.uuid4().hex[16:]


def is_warm_up(job_id: str) -> bool:
    """Return whether the job is one that warms up TaskManagers."""
    return job_id.startswith(_WARM_UP_ID)


async def warm_up(
    rest: FlinkRest, operators: Mapping[str, int], *, job_id: str, configuration: Mapping[str, str]
) -> None:
    """Submit a job of a moment to TaskManagers with free slots (`java/dev/weir/WarmUp.java`).

    Args:
        rest: The JobManager.
        operators: How many TaskManagers of each operator it is to run on.
        job_id: Of `warm_up_id`.
        configuration: The managed memory of their slots.

    Raises:
        PermanentError: Flink refuses the job.
    """
    jar = await rest.upload_jar(str(find_own_jar(JAR)))
    try:
        await rest.run_jar(
            jar,
            job_id=job_id,
            entry_class=WARM_UP_MAIN,
            arguments=[word for name, count in operators.items() for word in (name, str(count))],
            configuration=configuration,
        )
    finally:
        await rest.delete_jar(jar)
