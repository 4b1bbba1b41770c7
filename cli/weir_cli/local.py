"""`weir local`: runs a StreamApp on this machine, with a live view, records and a report.

The log is a file of JSON lines, because the terminal belongs to the view.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from weir_cli.options import read_duration


def send_logs_to(path: Path) -> None:
    """Append structured log lines to `path`, those of libraries included."""
    import logging

    import structlog

    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
    ]
    handler = logging.FileHandler(path, encoding="utf-8")
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.JSONRenderer(),
            ],
            foreign_pre_chain=shared,
        )
    )
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
    )


def local(
    manifest: Annotated[Path, typer.Argument(help="The StreamApp's manifest.", show_default=False)],
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
    prometheus: Annotated[
        str | None,
        typer.Option(
            help=("Read metrics from this Prometheus server. Default: scrape the job's reporters.")
        ),
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(help="Write the HTML report to this file. Default: in the state folder."),
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

    Ctrl-C stops the job with a savepoint, ends all processes and writes the report. The next start
    resumes from there.
    """
    import asyncio

    from rich.console import Console

    from weir_operator.local.run import LocalRun, run_local
    from weir_operator.loop.run_record import Record, Run, to_json_line
    from weir_operator.reporting.live_view import LiveView
    from weir_operator.reporting.report import render_report, write_figures
    from weir_operator.runtime.files import storing
    from weir_operator.streamapp.loading import load_manifest

    run = LocalRun(
        manifest=manifest,
        state=state,
        cache=state / "cache",
        duration=None if duration is None else read_duration(duration, "--duration"),
        policy=policy,
        arguments=_read_arguments(job_args),
        prometheus=prometheus,
        ledger=ledger,
        keep=keep,
        fresh=fresh,
    )
    with storing(state):
        state.mkdir(parents=True, exist_ok=True)
        send_logs_to(state / "weir.log")
    seen = Run()
    if as_json:

        def show_json(record: Record) -> None:
            nonlocal seen
            seen = seen.with_record(record)
            typer.echo(to_json_line(record))

        asyncio.run(run_local(run, show=show_json))
    else:
        console = Console()
        with LiveView(console) as view:

            def show(record: Record) -> None:
                nonlocal seen
                seen = seen.with_record(record)
                view.show(record)

            asyncio.run(run_local(run, show=show))
    if summary is not None and seen.summary is not None:
        allowed = load_manifest(manifest).spec.objective.max_violations.share
        write_figures(seen.summary, summary, most_violations=allowed)
    path = report or state / "report.html"
    with storing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(render_report(seen), encoding="utf-8")
    typer.echo(f"Report: {path}", err=as_json)


def _read_arguments(text: str) -> tuple[str, ...]:
    """Return the words of a command line.

    Raises:
        PermanentError: A quotation mark is not closed.
    """
    from weir_operator.errors import PermanentError

    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        raise PermanentError(
            f"--job-args: expected words quoted as in a shell, got {text!r} "
            f"({error}); close the quotes"
        ) from error
