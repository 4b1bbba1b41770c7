"""What a planner with a plan takes: memory of the process, and disk where its tables are in files.

A controller's first twenty minutes show nothing of it (`make bench NAME=scale`), so here planners
live through an hour of intervals each, once with their tables in the process and once in mapped
files as the controller has them. Each kind is measured in a process of its own.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.figures import Figure, at_most
from weir_operator.kubernetes.process.mapped_tables import MappedTables
from weir_policies import registry
from weir_policies.kernels.policy import KernelPolicy
from weir_policies.testing import a_transition, an_observation

ABOUT = "memory and disk per operator of planners that have a plan"
DURATION = "1 min"

OPERATORS = 40
INTERVALS = 60
KIB = 1024
LIMIT = 30.0
"""KiB per operator: 512 MiB for ten thousand, less 200 MiB that the controller takes by itself."""


def run() -> list[Figure]:
    """Measure both kinds."""
    in_process, in_files = _measure("process"), _measure("files")
    return [
        at_most(figure="memory per operator, tables in files", value=in_files["resident"],
                unit="KiB", limit=LIMIT),
        Figure(figure="disk per operator, tables in files", value=in_files["disk"], unit="KiB"),
        Figure(figure="memory per operator, tables in the process", value=in_process["resident"],
               unit="KiB"),
    ]  # fmt: skip


def _measure(kind: str) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.controller.scale.scale_memory", kind]
    answer = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(answer.stdout)
    return found


def _live(kind: str, folder: Path) -> dict[str, float]:
    """Let planners live, return KiB per operator, on the disk too."""
    room = MappedTables(folder) if kind == "files" else None
    # What the first ones load, and the heap keeps of them, all have in common.
    for number in range(3):
        _live_one(room, number)
    before, held = _resident(), _on_disk()
    policies = [_live_one(room, number) for number in range(OPERATORS)]
    return {
        "resident": (_resident() - before) / KIB / len(policies),
        "disk": (_on_disk() - held) / KIB / len(policies),
    }


def _live_one(room: MappedTables | None, number: int) -> KernelPolicy:
    """Return a planner after an hour of a rate that swings."""
    policy = registry.build("planner", rng=np.random.default_rng(number))
    if not isinstance(policy, KernelPolicy):
        raise TypeError(f"Expected the planner to be compiled, got {type(policy).__name__}")
    if room is not None:
        policy.keep_in(room)
    before = None
    for interval in range(INTERVALS):
        rate = 100 * (1 + 0.5 * math.sin(interval / 20 + number))
        seen = an_observation(rate=rate, time=60.0 * interval, time_of_week=interval / 10_080)
        if before is not None:
            policy.learn(a_transition(before, seen))
        policy.decide(seen)
        before = seen
    return policy


def _resident() -> int:
    """Return the bytes that the process has in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _on_disk() -> int:
    """Return the bytes of disk that open files without a name take."""
    found: dict[int, int] = {}  # by file: several descriptors may be of one
    for each in Path("/proc/self/fd").iterdir():
        try:
            if str(each.readlink()).endswith("(deleted)"):
                file = each.stat()
                found[file.st_ino] = file.st_blocks * 512
        except FileNotFoundError:  # the folder's own
            continue
    return sum(found.values())


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        print(json.dumps(_live(sys.argv[1], Path(place))))
