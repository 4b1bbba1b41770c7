"""`weir graph`: the operators of a job, before it runs."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Annotated

import typer


def graph(
    file: Annotated[
        Path,
        typer.Argument(
            help="A StreamApp's manifest, or a job: a jar, a SQL script (.sql), PyFlink (.py).",
            show_default=False,
        ),
    ],
    entry_class: Annotated[
        str | None, typer.Option(help="Class whose main to run. Default: as the file says.")
    ] = None,
    job_args: Annotated[
        str, typer.Option(help='Additional arguments of the job, such as "--trace other.txt".')
    ] = "",
    as_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False,
) -> None:
    """Print a job's operators, and the manifest's list of them.

    The job need not know anything of Weir. Its program is run in a JobManager that is started
    for this; nothing is submitted.
    """
    import asyncio

    from weir_operator.errors import PermanentError
    from weir_operator.local.graph import read_job, render_plan

    try:
        arguments = tuple(shlex.split(job_args))
    except ValueError as error:
        raise PermanentError(
            f"--job-args: expected words quoted as in a shell, got {job_args!r} "
            f"({error}); close the quotes"
        ) from error
    found = asyncio.run(read_job(file, entry_class=entry_class, arguments=arguments))
    if as_json:
        typer.echo(json.dumps([each.model_dump() for each in found.plan.vertices], indent=1))
        return
    typer.echo(render_plan(found.plan, found.app))
