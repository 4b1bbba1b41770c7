"""`weir local` on real Flink, as a user runs it: to the end, interrupted, and killed."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.operator.reporting.builders import read_run
from weir_operator.flink.jars import HELPER, REPOSITORY, build_jar

pytestmark = pytest.mark.flink

MANIFEST = """\
apiVersion: weir.dev/v1alpha1
kind: StreamApp
metadata: {name: small}
spec:
  flink:
    job:
      jar: trips.jar
      entryClass: example.Trips
      args: [--trace, trace.txt, --service.match-ms, "10", --service.aggregate-ms, "5"]
    maxParallelism: 128
    config: {env.java.opts.all: "-XX:TieredStopAtLevel=1"}  # many short-lived JVMs
  objective: {responseTime: 500ms}
  nodePools:
    - {name: small, sizes: [500m, "1"], memory: 1Gi, price: "0.04", speedup: "1.0"}
  operators:
    - {name: source, maxReplicas: 1, fixed: {small/500m: 1}}
    - {name: match, maxReplicas: 2, initial: {small/1: 1}}
    - {name: aggregate, maxReplicas: 2, initial: {small/1: 1}}
    - {name: sink, maxReplicas: 1, fixed: {small/500m: 1}}
  operatorManager: {interval: 3s}
"""


class LocalRuns:
    """Runs of one StreamApp in one folder, one after the other."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "app.yaml").write_text(MANIFEST)
        (folder / "trace.txt").write_text("20\n" * 5)

    def start(self, *arguments: str) -> "subprocess.Popen[str]":
        command = [sys.executable, "-m", "weir_cli.main", "local", str(self.folder / "app.yaml")]
        paths = ["--state", str(self.folder / "state"), "--ledger", str(self.folder / "out")]
        job = ["--job-args", f"--out {self.folder / 'out'}", "--json"]
        return subprocess.Popen(
            [*command, *paths, *job, *arguments], stdout=subprocess.PIPE, text=True
        )

    def lines_until_tick(self, weir, count=1):
        """Read what the run tells until it has told of so many intervals."""
        lines = []
        for line in weir.stdout:
            lines.append(line)
            count -= json.loads(line)["type"] == "tick"
            if not count:
                return lines
        raise AssertionError(f"It ended before the tick: {lines[-3:]}")

    def lines_until_event(self, weir, reason):
        """Read what the run tells until it has told of this event."""
        lines = []
        for line in weir.stdout:
            lines.append(line)
            told = json.loads(line)
            if told["type"] == "event" and told["message"].startswith(f"{reason}:"):
                return lines
        raise AssertionError(f"It ended before {reason}: {lines[-3:]}")

    def write(self, manifest):
        """Put a manifest in the place of the one that Weir reads."""
        (self.folder / "app.yaml").write_text(manifest)

    def processes(self):
        found = []
        for process in psutil.process_iter(["cmdline"]):
            words = " ".join(process.info["cmdline"] or ())
            if str(self.folder) in words and "org.apache.flink" in words:
                found.append(("StandaloneSession" not in words, process.pid))
        return [pid for _, pid in sorted(found)]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("local")
    trips = sorted((REPOSITORY / "examples/trips").glob("*.java"))
    build_jar([HELPER, *trips], folder / "trips.jar", entry_class="example.Trips")
    return LocalRuns(folder)


def test_a_run_is_killed_adopted_interrupted_and_gone_on_with(runs):
    # Chapter 1: Weir is killed; the job runs on.
    weir = runs.start()
    runs.lines_until_tick(weir, 2)
    before = runs.processes()
    weir.kill()
    weir.wait(timeout=10)
    weir.stdout.close()
    assert runs.processes() == before
    assert len(before) == 5

    # Chapter 2: the next start adopts the processes, and Ctrl-C ends them with a savepoint.
    weir = runs.start()
    lines = runs.lines_until_tick(weir, 2)
    assert runs.processes()[0] == before[0]
    weir.send_signal(signal.SIGINT)
    rest, _ = weir.communicate(timeout=60)
    interrupted = read_run([*lines, *rest.splitlines()])
    assert weir.returncode == 0
    assert runs.processes() == []
    assert interrupted.summary is not None
    assert (interrupted.summary.lost, interrupted.summary.doubled) == (0, 0)
    status = json.loads((runs.folder / "state/default.small/status.json").read_text())
    assert status["suspended"]
    assert status["restore_path"] in status["savepoints"]

    # Chapter 3: the start after that goes on from the savepoint; the ledger continues.
    weir = runs.start("--duration", "8s")
    told, _ = weir.communicate(timeout=90)
    summary = read_run(told.splitlines()).summary
    assert weir.returncode == 0
    assert runs.processes() == []
    assert summary is not None
    assert (summary.lost, summary.doubled) == (0, 0)
    assert summary.received is not None
    assert summary.received > (interrupted.summary.received or 0)
    assert (runs.folder / "state/default.small/report.html").stat().st_size > 10_000

    # Chapter 4: what was decided can be explained afterwards.
    explained = subprocess.run(
        [
            *(sys.executable, "-m", "weir_cli.main", "explain", "small"),
            *("--operator", "match", "--state", str(runs.folder / "state")),
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env=os.environ | {"COLUMNS": "160"},
    ).stdout
    assert "default/small" in explained or "small · match" in explained
    assert all(word in explained for word in ("measured", "model", "candidate", "decision"))
    assert "result" in explained


def test_a_job_is_upgraded_suspended_and_resumed_by_its_manifest_as_it_runs(runs):
    weir = runs.start()
    lines = runs.lines_until_tick(weir, 2)
    upgraded = MANIFEST.replace('--service.match-ms, "10"', '--service.match-ms, "11"')

    # Chapter 0: a program that builds no job is refused while the job runs.
    runs.write(MANIFEST.replace("trace.txt", "missing.txt"))
    lines += (refused := runs.lines_until_event(weir, "ChangeAbandoned"))
    assert "missing.txt" in refused[-1]
    assert not any("RolledBack" in line for line in refused)

    # Chapter 1: other arguments are an upgrade by savepoint.
    runs.write(upgraded)
    lines += runs.lines_until_event(weir, "UpgradeDone")
    lines += runs.lines_until_tick(weir, 1)
    assert len(runs.processes()) == 5

    # Chapter 2: a suspended job keeps only its JobManager, and goes on where it stopped.
    runs.write(upgraded.replace("spec:", "spec:\n  state: Suspended"))
    lines += runs.lines_until_event(weir, "Suspended")
    lines += runs.lines_until_tick(weir, 1)
    assert len(runs.processes()) == 1
    runs.write(upgraded)
    lines += runs.lines_until_event(weir, "StartDone")
    lines += runs.lines_until_tick(weir, 1)
    weir.send_signal(signal.SIGINT)
    rest, _ = weir.communicate(timeout=60)

    summary = read_run([*lines, *rest.splitlines()]).summary
    assert weir.returncode == 0
    assert runs.processes() == []
    assert summary is not None
    assert (summary.lost, summary.doubled) == (0, 0)


def test_a_floor_by_a_window_is_kept_whatever_the_load(runs):
    window = """\
  windows:
    - {name: peak, schedule: "* * * * *", timeZone: Europe/Berlin, duration: 1h,
       minReplicas: {match: 2}}
"""
    runs.write(MANIFEST + window)
    weir = runs.start()

    # A load that one replica serves in a tenth of its time.
    lines = runs.lines_until_event(weir, "RescaleDone")
    lines += runs.lines_until_tick(weir, 2)
    weir.send_signal(signal.SIGINT)
    rest, _ = weir.communicate(timeout=60)

    run = read_run([*lines, *rest.splitlines()])
    status = json.loads((runs.folder / "state/default.small/status.json").read_text())
    explained = subprocess.run(
        [
            *(sys.executable, "-m", "weir_cli.main", "explain", "small"),
            *("--operator", "match", "--state", str(runs.folder / "state")),
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env=os.environ | {"COLUMNS": "300"},
    ).stdout
    assert weir.returncode == 0
    assert sum(status["deployments"]["match"].values()) == 2
    assert "a floor of 2 by the window peak until" in explained
    assert "Europe/Berlin" in explained
    assert run.summary is not None
    assert (run.summary.lost, run.summary.doubled) == (0, 0)
