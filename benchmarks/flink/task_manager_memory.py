"""What the JVM of a TaskManager takes beside the job's heap and managed memory, by part.

Jobs run under `weir local` with native memory tracking. Every five seconds each TaskManager is
asked for what it has committed: metaspace; direct memory, which network buffers and Flink's
framework share; and what Flink calls overhead (stacks, compiled code, the collector, symbols, the
class archive). RocksDB allocates past the tracking: resident memory has it, too. Live heap is what
a collection leaves, of Flink itself and of the job.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil
import yaml

from benchmarks.figures import Figure
from benchmarks.policies.live.weir_local import run_weir_local
from benchmarks.results import BUILD
from benchmarks.spawned import call_repeatedly
from weir_operator.flink.jars import REPOSITORY

ABOUT = "What a TaskManager's JVM takes beside the job's heap and managed memory, by part"
DURATION = "8 min"

FOLDER = BUILD / "task-manager-memory"
SECONDS, EVERY = 120.0, 5.0
MIB_KB = 1024
ROCKSDB = {"state.backend.type": "rocksdb"}
JOBS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "trips": ("examples/trips/morning.yaml", {}),
    "Nexmark q5": ("examples/nexmark/streamapp.yaml", {}),
    "Nexmark q5, RocksDB": ("examples/nexmark/streamapp.yaml", ROCKSDB),
}
"""Manifest, and keys for Flink beside its own."""
HEAP = "Java Heap"
PARTS = {"Class": "metaspace", "Metaspace": "metaspace", "Other": "direct memory"}
"""By what the JVM calls them; all others but the heap are overhead."""


def _sample(folder: Path, peaks: dict[str, int]) -> None:
    """Note KiB by part, the most of any TaskManager whose command line names a folder."""
    for process in psutil.process_iter(["cmdline", "memory_info"]):
        command = " ".join(process.info["cmdline"] or ())  # none of one that has ended
        if "TaskManagerRunner" in command and str(folder) in command:
            parts = {
                **read_native(_ask(process.pid, "VM.native_memory", "summary")),
                "resident": process.info["memory_info"].rss // 1024,
                "live heap": _live_heap(process.pid),
            }
            for name, size in parts.items():
                peaks[name] = max(size, peaks.get(name, 0))


def read_native(text: str) -> dict[str, int]:
    """Return KiB committed by part from the summary that `jcmd` prints; empty without tracking."""
    parts: dict[str, int] = {}
    for name, committed in re.findall(
        r"^-\s+([A-Z][\w ]*?) \(reserved=\d+KB, committed=(\d+)KB\)", text, re.MULTILINE
    ):
        if name == HEAP:
            continue
        part = PARTS.get(name, "overhead")
        parts[part] = parts.get(part, 0) + int(committed)
    return parts


def _ask(pid: int, *command: str) -> str:
    # A process that has just ended answers nothing.
    asked = subprocess.run(
        ["jcmd", str(pid), *command], capture_output=True, text=True, check=False
    )
    return asked.stdout


def _live_heap(pid: int) -> int:
    histogram = _ask(pid, "GC.class_histogram")  # collects first
    found = re.search(r"^Total\s+\d+\s+(\d+)", histogram, re.MULTILINE)
    return int(found[1]) // 1024 if found else 0


def run() -> list[Figure]:
    """Run each job once."""
    return [figure for name in JOBS for figure in _measure(name)]


def _measure(name: str) -> list[Figure]:
    path, keys = JOBS[name]
    folder = FOLDER / re.sub(r"\W+", "-", name)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    manifest = REPOSITORY / path
    app: dict[str, Any] = yaml.safe_load(manifest.read_text())
    flink = app["spec"]["flink"]
    flink["job"]["jar"] = str((manifest.parent / flink["job"]["jar"]).resolve())
    flink["job"]["args"] = [
        str(manifest.parent / each) if (manifest.parent / each).is_file() else each
        for each in flink["job"]["args"]
    ]
    flink["config"] = {
        **flink.get("config", {}),
        **keys,
        "env.java.opts.taskmanager": "-XX:NativeMemoryTracking=summary",
    }
    copy = folder / "app.yaml"
    copy.write_text(yaml.safe_dump(app))
    peaks: dict[str, int] = {}
    with call_repeatedly(lambda: _sample(folder, peaks), period=EVERY, name="memory"):
        run_weir_local(
            copy,
            seconds=SECONDS,
            state=folder / "state",
            options=("--job-args", f"--out {folder / 'out'}") if name == "trips" else (),
        )
    return [
        Figure(f"{name}: {part}", peaks.get(part, 0) / MIB_KB, "MiB")
        for part in ("metaspace", "overhead", "direct memory", "live heap", "resident")
    ]
