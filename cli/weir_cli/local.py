"""`weir local`: runs a StreamApp on this machine, with a live view, records and a report.

The log is a file of JSON lines, because the terminal belongs to the view.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from weir_cli.options import read_duration, read_words

if TYPE_CHECKING:
    from weir_operator.loop.run_record import Record, RecordedRun


_INTERRUPTED = 130
"""Exit code of a program that Ctrl-C ended, as shells count it."""


def local(
    file: Annotated[
        Path,
        typer.Argument(
            help="The StreamApp's manifest, or a job: a jar, a SQL script (.sql), PyFlink (.py).",
            show_default=False,
        ),
    ],
    objective: Annotated[
        str | None,
        typer.Option(
            help=(
                "For a job without a manifest: scale it to this mean response time, such as 500ms. "
                "Default: only show what Weir would do."
            )
        ),
    ] = None,
    entry_class: Annotated[
        str | None,
        typer.Option(help="For a jar without a manifest: class whose main to run."),
    ] = None,
    duration: Annotated[
        str | None, typer.Option(help="Stop after this time, such as 4m. Default: at Ctrl-C.")
    ] = None,
    policy: Annotated[
        str | None, typer.Option(help="Use this policy instead of the manifest's.")
    ] = None,
    job_args: Annotated[
        str, typer.Option(help='Additional arguments of the job, such as "--trace other.txt".')
    ] = "",
    state: Annotated[Path, typer.Option(help="Folder of Weir's state.")] = Path(".weir"),
    report: Annotated[
        Path | None,
        typer.Option(
            help="Write the HTML report to this file. Default: in the job's folder of the state."
        ),
    ] = None,
    ledger: Annotated[
        Path | None, typer.Option(help="Folder of the job's ledger, for counting records.")
    ] = None,
    summary: Annotated[
        Path | None, typer.Option(help="Write a summary of the run to this file, as JSON.")
    ] = None,
    fresh: Annotated[
        bool,
        typer.Option(
            "--fresh",
            help=(
                "Stop what an earlier run left running, and start without its state, "
                "which is kept elsewhere."
            ),
        ),
    ] = False,
    keep: Annotated[bool, typer.Option("--keep", help="Leave the job running at the end.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object per line.")] = False,
) -> None:
    """Run a StreamApp on this machine, without a cluster.

    A job without a manifest gets one: this machine is its only pool, it begins as one operator,
    which busy vertices leave, and Weir only advises unless there is an objective.

    Ctrl-C stops the job with a savepoint, ends all processes and writes the report. The next start
    resumes from there.
    """
    import asyncio
    import logging

    from weir_operator.cluster.process.logs import send_logs
    from weir_operator.local.graph import read_job
    from weir_operator.local.program import load_app, write_manifest
    from weir_operator.local.run import LocalRun, run_local
    from weir_operator.loop.run_record import RecordedRun
    from weir_operator.runtime.processes.folders import hold_app, refuse_second_weir
    from weir_operator.streamapp.loading import parse_manifest

    manifest, arguments = file, read_words(job_args, "--job-args")
    made = _make_manifest(file, objective, entry_class, arguments)
    metadata = (load_app(file) if made is None else parse_manifest(made)).metadata
    name = f"{metadata.namespace}.{metadata.name}"
    # Before anything is started or written: the job of another Weir stays as it is.
    refuse_second_weir(state, name)
    if made is not None:
        # What is no job that Weir can run is refused before anything is written or started.
        asyncio.run(read_job(file, entry_class=entry_class, arguments=arguments))
    folder, seen, stopped = state / name, RecordedRun(), False
    with ExitStack() as stack:
        lock = stack.enter_context(hold_app(state, name))
        lines = logging.FileHandler(folder / "weir.log", encoding="utf-8")
        stack.callback(lines.close)
        send_logs(lines, as_json=True)
        if made is not None:
            manifest, arguments = write_manifest(made, state), ()
            _describe_manifest(manifest, objective, as_json=as_json)
        view = stack.enter_context(_view(as_json=as_json))

        def show(record: Record) -> None:
            nonlocal seen
            seen = seen.with_record(record)
            view(record)

        run = LocalRun(
            manifest=manifest,
            state=state,
            cache=state / "cache",
            duration=None if duration is None else read_duration(duration, "--duration"),
            policy=policy,
            arguments=arguments,
            ledger=ledger,
            keep=keep,
            fresh=fresh,
        )
        try:
            asyncio.run(run_local(run, show=show, lock=lock))
        except asyncio.CancelledError:  # by a second signal, see `run_local`
            stopped = True
    if stopped:
        typer.echo(
            "Error: a second signal stopped Weir before the job's savepoint; the next start "
            "resumes from the newest checkpoint",
            err=True,
        )
        raise typer.Exit(_INTERRUPTED)
    _report(seen, manifest, summary=summary, path=report or folder / "report.html", as_json=as_json)


def _make_manifest(
    file: Path, objective: str | None, entry_class: str | None, arguments: tuple[str, ...]
) -> dict[str, Any] | None:
    """Return a manifest for a job alone; `None` where the file is a manifest."""
    from weir_operator.errors import PermanentError
    from weir_operator.local.program import default_manifest, is_program, with_objective

    if is_program(file):
        made = default_manifest(file, entry_class=entry_class, arguments=arguments)
        return made if objective is None else with_objective(made, objective)
    if objective is not None or entry_class is not None:
        option = "--objective" if objective is not None else "--entry-class"
        raise PermanentError(
            f"{option}: expected a jar, a SQL script or a PyFlink program with it, got "
            f"{str(file)!r}; set the field in the manifest instead"
        )
    return None


def _describe_manifest(manifest: Path, objective: str | None, *, as_json: bool) -> None:
    typer.echo(f"Manifest: {manifest}", err=as_json)
    if objective is None:
        typer.echo(
            "Weir shows what it would do and does not scale the job; to scale it, add an "
            "objective, such as --objective 500ms",
            err=as_json,
        )


@contextmanager
def _view(*, as_json: bool) -> Iterator[Callable[[Record], None]]:
    """Show records as a live view, or as lines of JSON."""
    from rich.console import Console

    from weir_operator.loop.run_record import to_json_line
    from weir_operator.reporting.live_view import LiveView

    if as_json:
        yield lambda record: typer.echo(to_json_line(record))
        return
    with LiveView(Console()) as view:
        yield view.show


def _report(
    seen: RecordedRun, manifest: Path, *, summary: Path | None, path: Path, as_json: bool
) -> None:
    from weir_operator.reporting.report import render_report, write_figures
    from weir_operator.runtime.files import storing
    from weir_operator.streamapp.loading import load_manifest

    if summary is not None and seen.summary is not None:
        allowed = load_manifest(manifest).spec.objective.max_violations.share
        write_figures(seen.summary, summary, most_violations=allowed)
    with storing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(render_report(seen), encoding="utf-8")
    typer.echo(f"Report: {path}", err=as_json)
