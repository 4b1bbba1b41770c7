"""`weir graph`: the operators of a job, before it runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from weir_cli.options import DEFAULT_STATE, find_records, is_file, read_words


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
    keys: Annotated[
        bool,
        typer.Option(
            "--keys",
            help="Print how keys share the records of the running job, and nothing else. FILE may "
            "then be the StreamApp, as NAME or NAMESPACE/NAME.",
        ),
    ] = False,
    state: Annotated[
        Path, typer.Option(help="Folder of Weir's state, for --keys.")
    ] = DEFAULT_STATE,
    as_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False,
) -> None:
    """Print a job's operators, and the manifest's list of them.

    The job need not know anything of Weir. Its program is run in a JobManager that is started
    for this; nothing is submitted. With --keys, Weir's agent has counted the keys of the job while
    it ran.
    """
    if keys:
        _print_keys(file, state, as_json=as_json)
        return
    import asyncio

    from weir_operator.local.graph import read_job, render_plan

    arguments = read_words(job_args, "--job-args")
    plan, app = asyncio.run(read_job(file, entry_class=entry_class, arguments=arguments))
    if as_json:
        typer.echo(json.dumps([each.model_dump() for each in plan.vertices], indent=1))
        return
    typer.echo(render_plan(plan, app))


def _print_keys(file: Path, state: Path, *, as_json: bool) -> None:
    """Print what was last known of the keys of a job."""
    from pydantic import TypeAdapter
    from rich.console import Console

    from weir_operator.errors import PermanentError
    from weir_operator.local.program import default_manifest, is_program, load_app
    from weir_operator.loop.record import RecordStore
    from weir_operator.metrics.keys import KeyReport
    from weir_operator.reporting.keys_view import render_keys
    from weir_policies.model.estimation import ENOUGH_KEYS

    name = str(file)
    if is_program(file):
        name = default_manifest(file)["metadata"]["name"]
    elif is_file(name):
        metadata = load_app(file).metadata
        name = f"{metadata.namespace}/{metadata.name}"
    records = RecordStore(find_records(state, name), read_only=True)
    try:
        found = next((each.keys for each in reversed(records.ticks()) if each.keys), {})
    finally:
        records.close()
    if not found:
        raise PermanentError(
            f"{name}: expected counts of keys, found none; wait until {ENOUGH_KEYS:,.0f} records "
            "with keys have been counted within some minutes, and see that Weir's agent pins the "
            "job"
        )
    if as_json:
        plain = TypeAdapter(dict[str, KeyReport]).dump_python(dict(found), mode="json")
        typer.echo(json.dumps(plain, indent=1))
        return
    Console().print(render_keys(found), highlight=False)
