"""What tests of `weir local` on real Flink share."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.operator.reporting.builders import read_run
from weir_operator.loop.run_record import RecordedRun

QUICK_STARTS = {"env.java.opts.all": "-XX:TieredStopAtLevel=1"}
"""The first compiler alone: JVMs that live for a minute, on few cores."""
PATIENCE = {
    # Many JVMs start at once: on a busy machine one may be silent for longer than Weir allows, and
    # Flink would give it up. How fast a loss is noticed is asked elsewhere.
    "heartbeat.timeout": "120000",
    "heartbeat.rpc-failure-threshold": "-1",
    "taskmanager.slot.timeout": "120 s",
}
BY_SAVEPOINT = {
    # However long one takes: a checkpoint lets a plain sink see records again.
    "via": "Savepoint",
    "savepointDeadline": "2m",
    "startDeadline": "3m",
    "submitDeadline": "2m",
}


@pytest.fixture
def run_locally(tmp_path: Path) -> Callable[..., RecordedRun]:
    """Run a StreamApp by `weir local` and return what it told.

    It ends with its job, or, as by Ctrl-C, at the first interval at which `enough` says so of what
    it has told until then.
    """

    def run(
        manifest: dict[str, Any],
        *options: str,
        enough: Callable[[RecordedRun], bool] = lambda run: False,
    ) -> RecordedRun:
        flink = manifest["spec"]["flink"]
        flink["config"] = QUICK_STARTS | PATIENCE | flink.get("config", {})
        manifest["spec"]["rescale"] = BY_SAVEPOINT
        path = tmp_path / "app.yaml"
        path.write_text(yaml.safe_dump(manifest))
        command = [sys.executable, "-m", "weir_cli.main", "local", str(path), "--json"]
        state = ["--state", str(tmp_path / "state"), "--duration", "10m"]
        weir = subprocess.Popen([*command, *state, *options], stdout=subprocess.PIPE, text=True)
        assert weir.stdout is not None
        lines, ends_by_itself = [], False
        try:
            for line in weir.stdout:
                lines.append(line)
                if '"type":"tick"' in line and enough(read_run(lines)):
                    break
            else:
                ends_by_itself = True
        finally:
            if not ends_by_itself:
                weir.send_signal(signal.SIGINT)  # it ends what it has started
            rest, _ = weir.communicate(timeout=300)
        assert weir.returncode == 0
        return read_run([*lines, *rest.splitlines()])

    return run
