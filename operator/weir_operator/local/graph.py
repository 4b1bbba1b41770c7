"""The operators of a job, read on this machine before the job ever runs: what `weir graph` does.

A JobManager is started for it, with Weir's agent, and asked for the job's plan. Nothing is
submitted, and everything is ended again.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml

from weir_operator.errors import PermanentError, WeirError
from weir_operator.flink.agent import PINNED, find_agent
from weir_operator.flink.commands import Installation
from weir_operator.flink.jars import find_java, flink_home
from weir_operator.flink.job_graph import Plan, refuse_unsuitable_program
from weir_operator.flink.program_jars import refuse_unsuitable_jar
from weir_operator.flink.programs import Program, read_plan
from weir_operator.flink.rest import FlinkRest
from weir_operator.flink.scripts import read_python_error
from weir_operator.limits import read_end
from weir_operator.local.program import (
    default_manifest,
    find_program,
    flink_configuration,
    is_program,
    load_app,
    operators_of,
    with_script,
)
from weir_operator.loop.separation import BUSY
from weir_operator.runtime.processes.runtime import LocalRuntime
from weir_operator.runtime.settings import LocalSettings
from weir_operator.streamapp.loading import parse_manifest
from weir_operator.streamapp.models import StreamApp
from weir_operator.streamapp.operators import WHOLE_JOB
from weir_operator.wiring import assembly
from weir_operator.wiring.vertices import discover_operators, vertices_of


async def read_job(
    file: Path, *, entry_class: str | None, arguments: tuple[str, ...]
) -> tuple[Plan, StreamApp | None]:
    """Return the operators of a job before it runs, and the manifest that it is in, if any.

    Args:
        file: A StreamApp's manifest, a jar, a SQL script or a PyFlink program.
        entry_class: Class whose `main` to run; `None` takes the manifest's, or the jar's own.
        arguments: Of the program, after the manifest's.

    Raises:
        InvalidStreamAppError: The manifest cannot be right.
        PermanentError: Java, Flink or the agent is missing, or the program builds no job that Weir
            can run.
    """
    is_alone = is_program(file)
    if is_alone:
        given = default_manifest(file, entry_class=entry_class, arguments=arguments)
        app, arguments = with_script(parse_manifest(given), file), ()
    else:
        app = load_app(file)
    jar = find_program(app, file)
    written = app.spec.flink.job
    if written is not None and written.jar is not None:
        refuse_unsuitable_jar(jar, entry_class or written.entry_class)
    job = assembly.job_spec(app, beside=file.parent, extra=arguments)
    agent = find_agent()
    if agent is None:
        raise PermanentError("Weir's agent is not installed here: run `make jars`")
    with temporary_folder() as folder:
        runtime = await LocalRuntime.open(
            LocalSettings(
                root=folder,
                namespace="default",
                name="graph",
                installation=Installation(java=Path(find_java()), flink_home=Path(flink_home())),
                job_jar=jar,
                cache=folder,
                speeds={},
                agent=agent,
                config=flink_configuration(app),
            )
        )
        try:
            await runtime.ensure_job_manager()
            plan = await _ask(runtime, entry_class or job.entry_class, job.arguments)
        except PermanentError as error:
            raise PermanentError(_with_python_error(error, runtime)) from error
        finally:
            await runtime.close()
    refuse_unsuitable_program(plan)
    return plan, None if is_alone else app


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """Make a folder and remove it, unless an error names a file in it."""
    folder, is_named = Path(tempfile.mkdtemp(prefix="weir-graph-")), False
    try:
        yield folder
    except WeirError as error:
        is_named = str(folder) in str(error)
        raise
    finally:
        if not is_named:
            shutil.rmtree(folder, ignore_errors=True)


async def _ask(runtime: LocalRuntime, entry_class: str | None, arguments: tuple[str, ...]) -> Plan:
    async with FlinkRest(runtime.rest_url) as rest:
        program = Program(entry_class=entry_class, arguments=arguments, configuration=PINNED)
        return await read_plan(rest, await runtime.provide_jar(), program)


def _with_python_error(error: PermanentError, runtime: LocalRuntime) -> str:
    """Return the sentence of an error; that of a Python program says nothing but its exit code."""
    if "Python process exits" not in str(error):
        return str(error)
    log = runtime.folder / "jm/log/flink.log"
    said = read_python_error(read_end(log)) if log.is_file() else None
    return f"{error}, after {said!r}" if said else str(error)


def render_plan(plan: Plan, app: StreamApp | None = None) -> str:
    """Return the operators as people read them, and as a manifest has them.

    Raises:
        PermanentError: The agent cannot pin the job, or the manifest's operators are not its.
    """
    if plan.agent != "ready":
        raise PermanentError(
            f"Weir's agent cannot pin the job's operators: {plan.agent}; leave out spec.operators "
            "to run the job as one operator"
        )
    return "\n".join((*_drawing(plan), *_beginning(plan, app), "", *_manifest(plan)))


def _drawing(plan: Plan) -> Iterator[str]:
    for operator in plan.operators:
        yield f"# {operator}"
        for vertex in plan.vertices:
            if vertex.operator == operator:
                uids = f"  (uid {', '.join(vertex.uids)})" if vertex.uids else ""
                yield f"#   {vertex.id}  {vertex.name}{uids}"
        targets = [target for source, target in plan.edges if source == operator]
        if targets:
            yield f"#   -> {', '.join(targets)}"
    if plan.groups:
        yield f"# The program itself names the slot sharing groups {', '.join(sorted(plan.groups))}"


def _beginning(plan: Plan, app: StreamApp | None) -> Iterator[str]:
    """Yield what the job begins with, if it does not pin itself."""
    if plan.pins_itself:
        return
    yield "#"
    if app is None or not app.spec.operators:
        yield f"# Without `operators`, they begin as one operator, {WHOLE_JOB}; each that is"
        yield f"# busy for {BUSY:.0%} of the time gets its own once that is worth a restart. To"
        yield "# scale each by itself from the beginning, add this to the manifest:"
        return
    yield "# The manifest's operators, and those that share what it does not name:"
    for name, parts in vertices_of(discover_operators(app, plan, ())).items():
        yield f"#   {name}: {', '.join(parts)}"
    yield "# All of them, one by one:"


def _manifest(plan: Plan) -> list[str]:
    written: str = yaml.safe_dump({"operators": operators_of(plan)}, sort_keys=False)
    return written.splitlines()
