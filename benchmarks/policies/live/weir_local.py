"""`weir local` as a user runs it, for the benchmarks that compare policies on real Flink."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

from weir_operator.flink.jars import REPOSITORY
from weir_operator.loop.run_record import RECORDS, RecordedRun


def run_weir_local(
    manifest: Path,
    *,
    seconds: float,
    state: Path,
    ledger: Path | None = None,
    options: tuple[str, ...] = (),
    until: str | None = None,
) -> RecordedRun:
    """Run a StreamApp for a time; its record and its report go beside the manifest."""
    lines = manifest.with_name("run.jsonl")
    command = [
        *(sys.executable, "-m", "weir_cli.main", "local", str(manifest), "--json"),
        *("--duration", f"{seconds:g}s", "--state", str(state)),
        *("--report", str(manifest.with_name("report.html"))),
        *(() if ledger is None else ("--ledger", str(ledger))),
        *options,
    ]
    with lines.open("w") as file:
        reader = file if until is None else subprocess.PIPE
        with subprocess.Popen(command, stdout=reader, text=True, cwd=REPOSITORY) as weir:
            for line in weir.stdout or ():
                file.write(line)
                if until is not None and _tells_of(line, until):
                    weir.send_signal(signal.SIGINT)
                    until = None
    if weir.returncode:
        raise subprocess.CalledProcessError(weir.returncode, command)
    run = RecordedRun()
    for line in lines.read_text().splitlines():
        run = run.with_record(RECORDS.validate_json(line))
    return run


def _tells_of(line: str, reason: str) -> bool:
    """Return whether a line of the record is an event with this reason."""
    record = json.loads(line)
    return record["type"] == "event" and str(record["message"]).startswith(f"{reason}:")
