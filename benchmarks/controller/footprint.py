"""What Weir takes at its smallest: memory of a controller and of `weir local`, and its first start.

The controller looks after one StreamApp of ten operators with `planner`, on the stage of `scale`: a
real API server, a real Prometheus, and a simulated job. It is watched after its first decision.

`weir local` runs `examples/trips/morning.yaml` on a real Flink with the default policy. Its state
and Numba's cache are new, as on a new machine, and what Weir brings compiled is there. Only the
process of `weir` counts, not the JVMs that it starts. Its memory is the highest until it ends, and
includes the report, which comes last.

A first start waits for Flink, then for control intervals to pass. What Weir adds to that by the
clock is the sum of three parts:

1. from the start of the process until it starts the JobManager: imports, manifest, the check of
   Java, folders;
2. from the end of Flink's start until the first tick, less the interval: what is not loaded yet;
3. from the time of the tick that decides first until its record is written.

The policy's functions are loaded beside Flink's start. That costs no time by the clock unless it
takes longer, which is the second part, but processor time: so the CPU time of the process until the
first decision is reported, too. It includes looking after Flink while that starts. The machine is
shared: how long the process waited for a processor in the first part, as the kernel counts it, is
reported and not taken off.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import psutil

from benchmarks.controller.scale import stage
from benchmarks.controller.scale.machine import Process
from benchmarks.controller.scale.scale import running_bench
from benchmarks.figures import Figure, at_most
from weir_operator.flink.jars import REPOSITORY
from weir_operator.loop.run_record import RecordedRun, TickRecord, read_run
from weir_operator.streamapp.loading import load_manifest

ABOUT = "memory of a controller with one StreamApp and of `weir local`, and its first start"
DURATION = "6 min"

WATCHED = 120.0
"""Seconds for which the controller is watched."""
LOCAL = 90
"""Seconds for which the loops of `weir local` run."""
LOOK_EVERY = 0.05
"""Seconds between two looks at the process of `weir local`."""
CONTROLLER_LIMIT = 200.0
LOCAL_LIMIT = 350.0
START_LIMIT = 5.0
MANIFEST = REPOSITORY / "examples" / "trips" / "morning.yaml"
IMPORTS = "import sys, benchmarks.controller.scale.controller"
"""What the controller's process imports."""
PLANNER = """
import numpy as np
from weir_policies import registry
registry.build("planner", rng=np.random.default_rng(0)).compile()
"""
"""Loads the functions that a planner computes with."""
SAID = "print(flush=True); sys.stdin.read()"
"""Says that all is there, and waits to be measured."""


def run() -> list[Figure]:
    """Measure the controller, then `weir local`."""
    subprocess.run([sys.executable, "scripts/compile_kernels.py"], check=True, cwd=REPOSITORY)
    with tempfile.TemporaryDirectory(prefix="weir-footprint-") as folder:
        return [*measure_controller(), *measure_local(Path(folder))]


def measure_controller() -> list[Figure]:
    """Watch a controller with one StreamApp, once that has been decided on."""
    with running_bench(1) as bench, bench.controller():
        bench.wait_until_all_decided()
        start = bench.process.resident()["VmHWM"]
        calm = bench.watch(WATCHED)
    imported, loaded = measure_process(IMPORTS), measure_process(f"{IMPORTS}\n{PLANNER}")
    return [
        at_most(figure="controller: memory", value=calm.highest, unit="MiB",
                limit=CONTROLLER_LIMIT),
        Figure(figure="controller: of it, not in files", value=calm.anonymous, unit="MiB"),
        Figure(figure="controller: memory until the first decision", value=start, unit="MiB"),
        Figure(figure="controller: memory after its imports", value=imported["VmRSS"], unit="MiB"),
        Figure(figure="controller: of that, not in files", value=imported["RssAnon"], unit="MiB"),
        Figure(figure="controller: memory with the planner's functions", value=loaded["VmRSS"],
               unit="MiB"),
        Figure(figure="controller: of it, not in files, with the planner's functions",
               value=loaded["RssAnon"], unit="MiB"),
    ]  # fmt: skip


def measure_process(program: str) -> dict[str, float]:
    """Return MiB in memory of a process that has run a program in Python, and has not ended."""
    command = [sys.executable, "-c", f"{program}\n{SAID}"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, cwd=REPOSITORY) as process:
        if process.stdout is None or process.stdout.readline() != b"\n":
            raise RuntimeError(f"Expected a process that has run a program: {program}")
        found = Process(process.pid).resident()
        process.communicate()
    return found


def measure_local(folder: Path) -> list[Figure]:
    """Watch `weir local` from its start to its end.

    Raises:
        RuntimeError: It ended with an error, or decided nothing.
    """
    log = folder / "run.log"
    command = [
        *(sys.executable, "-m", "weir_cli.main", "local", str(MANIFEST), "--json"),
        *("--duration", f"{LOCAL}s", "--state", str(folder / "state")),
        *("--job-args", f"--out {folder / 'out'}", "--ledger", str(folder / "out")),
        *("--report", str(folder / "report.html")),
    ]
    with stage.running(command, log, {"NUMBA_CACHE_DIR": str(folder / "numba")}) as weir:
        process, began = Process(weir.pid), psutil.Process(weir.pid).create_time()
        memory = waited = cpu = written = 0.0
        flink: float | None = None
        decision: TickRecord | None = None
        while weir.poll() is None:
            memory = max(memory, process.resident().get("VmHWM", 0.0))
            if flink is None and (flink := find_start_of_flink(weir.pid)) is not None:
                waited = read_waiting(weir.pid)
            if decision is None and (decision := find_decision(read_lines(log))) is not None:
                written, cpu = time.time(), process.cpu()
            time.sleep(LOOK_EVERY)
    if weir.returncode or flink is None or decision is None:
        raise RuntimeError(f"Expected a run that decides, got: {log.read_text()[-2000:]}")
    record = read_lines(log)
    [started] = [each.time for each in record.events if each.message.startswith("StartDone:")]
    interval = load_manifest(MANIFEST).spec.operator_manager.interval.seconds
    parts = {
        "until it starts Flink": flink - began,
        "first tick late": max(0.0, record.ticks[0].time - started - interval),
        "tick of the first decision": written - decision.time,
    }
    return [
        at_most(figure="weir local: memory", value=memory, unit="MiB", limit=LOCAL_LIMIT),
        at_most(figure="weir local: added before the first decision",
                value=sum(parts.values()), unit="s", limit=START_LIMIT),
        *(Figure(figure=f"weir local: of it, {part}", value=seconds, unit="s")
          for part, seconds in parts.items()),
        Figure(figure="weir local: beside it, until Flink and the job have started",
               value=started - flink, unit="s"),
        Figure(figure="weir local: beside it, intervals until one with a decision",
               value=decision.time - started, unit="s"),
        Figure(figure="weir local: waiting for a processor until it starts Flink", value=waited,
               unit="s"),
        Figure(figure="weir local: CPU time until the first decision", value=cpu, unit="s"),
        Figure(figure="weir local: first decision after the start, Flink and intervals included",
               value=written - began, unit="s"),
    ]  # fmt: skip


def read_lines(log: Path) -> RecordedRun:
    """Return what has been recorded so far; the last line may be half."""
    text = log.read_text()
    complete = text[: text.rfind("\n") + 1]
    return read_run(line for line in complete.splitlines() if line.startswith("{"))


def find_decision(record: RecordedRun) -> TickRecord | None:
    """Return the first tick in which a policy decided."""
    return next((tick for tick in record.ticks if any(op.policy for op in tick.operators)), None)


def find_start_of_flink(pid: int) -> float | None:
    """Return when a process started its first JVM of Flink, Unix seconds; `None` before that."""
    started = []
    for child in psutil.Process(pid).children():
        with suppress(psutil.NoSuchProcess):  # one that only tells its version ends at once
            if "--configDir" in child.cmdline():
                started.append(child.create_time())
    return min(started, default=None)


def read_waiting(pid: int) -> float:
    """Return for how many seconds a process's main thread was ready and had no processor."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) / 1e9
