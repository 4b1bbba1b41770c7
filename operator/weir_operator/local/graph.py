"""The operators of a job, read on this machine before the job ever runs: what `weir graph` does.

A JobManager is started for it, with Weir's agent, and asked for the job's plan. Nothing is
submitted, and everything is ended again.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import yaml

from weir_operator.errors import PermanentError
from weir_operator.flink.agent import DEFAULT_PARALLELISM, find_agent
from weir_operator.flink.commands import Installation
from weir_operator.flink.jars import find_java, flink_home
from weir_operator.flink.job_graph import NO_LIMIT, Plan
from weir_operator.flink.programs import read_plan
from weir_operator.flink.rest import FlinkRest
from weir_operator.runtime.local.runtime import LocalRuntime
from weir_operator.runtime.settings import LocalSettings
from weir_operator.streamapp.loading import find_jar, load_manifest
from weir_operator.wiring import assembly

_DEFAULT_REPLICAS = 10
"""The manifest's own default, which is not written."""


async def read_job(file: Path, *, entry_class: str | None, arguments: tuple[str, ...]) -> Plan:
    """Return the operators of the job in a manifest or a jar.

    Args:
        file: A StreamApp's manifest, or a jar.
        entry_class: Class whose `main` to run; `None` takes the manifest's, or the jar's own.
        arguments: Of the program, after the manifest's.

    Raises:
        InvalidStreamAppError: The manifest cannot be right.
        PermanentError: Java, Flink or the agent is missing, or the program builds no job.
    """
    config: dict[str, str] = {}
    jar = file
    if file.suffix != ".jar":
        app = load_manifest(file)
        jar = find_jar(app, file)
        job = assembly.job_spec(app, beside=file.parent, extra=arguments)
        arguments, entry_class = job.arguments, entry_class or job.entry_class
        config = dict(app.spec.flink.config or {})
    elif not jar.is_file():
        raise PermanentError(f"Expected a manifest or a jar, got {str(file)!r}; correct the path")
    agent = find_agent()
    if agent is None:
        raise PermanentError("Weir's agent is not installed here: run `make jars`")
    with tempfile.TemporaryDirectory(prefix="weir-graph-") as folder:
        runtime = await LocalRuntime.open(
            LocalSettings(
                root=Path(folder),
                namespace="default",
                name="graph",
                installation=Installation(java=Path(find_java()), flink_home=Path(flink_home())),
                job_jar=jar,
                cache=Path(folder),
                speeds={},
                agent=agent,
                config=config,
            )
        )
        try:
            await runtime.ensure_job_manager()
            async with FlinkRest(runtime.rest_url) as rest:
                return await read_plan(
                    rest,
                    await runtime.provide_jar(),
                    entry_class=entry_class,
                    arguments=arguments,
                    configuration={
                        "weir.pin": "true",
                        "parallelism.default": str(DEFAULT_PARALLELISM),
                    },
                )
        finally:
            await runtime.close()


def render_plan(plan: Plan) -> str:
    """Return the operators as people read them, and as a manifest has them.

    Raises:
        PermanentError: The agent cannot pin the job.
    """
    if plan.agent != "ready":
        raise PermanentError(
            f"Weir's agent cannot pin the job's operators: {plan.agent}; leave out spec.operators "
            "to run the job as one operator"
        )
    return "\n".join((*_drawing(plan), "", *_manifest(plan)))


def _drawing(plan: Plan) -> Iterator[str]:
    for operator in plan.operators:
        yield f"# {operator}"
        for vertex in plan.vertices:
            if vertex.operator == operator:
                yield f"#   {vertex.id}  {vertex.name}"
    if plan.groups:
        yield f"# The program itself names the slot sharing groups {', '.join(sorted(plan.groups))}"


def _manifest(plan: Plan) -> list[str]:
    limits = {vertex.operator: vertex.limit for vertex in plan.vertices}
    operators = [
        {"name": name, **({"maxReplicas": limits[name]} if _is_limited(limits[name]) else {})}
        for name in plan.operators
    ]
    written: str = yaml.safe_dump({"operators": operators}, sort_keys=False)
    return written.splitlines()


def _is_limited(limit: int) -> bool:
    return limit < min(_DEFAULT_REPLICAS, NO_LIMIT)
