"""What tests of `weir local` on real Flink share."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from weir_operator.faces.run_record import Run, read_run

PATIENCE = {
    # Many JVMs start at once: on a busy machine one may be silent for longer than Weir allows, and
    # Flink would give it up. How fast a loss is noticed is asked elsewhere.
    "heartbeat.timeout": "120000",
    "heartbeat.rpc-failure-threshold": "-1",
    "taskmanager.slot.timeout": "120 s",
}


@pytest.fixture
def run_locally(tmp_path: Path) -> Callable[..., Run]:
    """Run a StreamApp by `weir local` until its job ends, or for a time; return what it told."""

    def run(manifest: dict[str, Any], *options: str, duration: str = "10m") -> Run:
        flink = manifest["spec"]["flink"]
        flink["config"] = PATIENCE | flink.get("config", {})
        # By savepoint, however long one takes: a checkpoint lets a plain sink see records again.
        manifest["spec"]["rescale"] = {
            "via": "Savepoint",
            "savepointDeadline": "2m",
            "startDeadline": "3m",
            "submitDeadline": "2m",
        }
        path = tmp_path / "app.yaml"
        path.write_text(yaml.safe_dump(manifest))
        weir = subprocess.run(
            [
                *(sys.executable, "-m", "weir_cli.main", "local", str(path), "--json"),
                *("--state", str(tmp_path / "state"), "--duration", duration, *options),
            ],
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
        )
        assert weir.returncode == 0, weir.stderr
        return read_run(weir.stdout.splitlines())

    return run
