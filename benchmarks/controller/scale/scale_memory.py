"""What a planner with a plan takes: memory, disk where its tables are in files, and time.

A controller's first twenty minutes show nothing of it (`make bench NAME=scale`), so here planners
live through an hour of intervals each, once with their tables in the process and once in mapped
files as the controller has them. Each kind is measured in a process of its own.

Where they are in files, one more interval is timed: with their pages in memory, and with those on
the disk alone, as the kernel leaves them when memory is short. Then what each has learned is
packed, as the controller keeps it, and the same bytes are compressed by ISA-L and by zlib.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
import time
import zlib
from base64 import b64decode
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from isal import isal_zlib

from benchmarks.figures import Figure, at_most
from weir_operator.kubernetes.process.mapped_tables import MappedTables
from weir_policies import registry
from weir_policies.kernels.policy import KernelPolicy
from weir_policies.testing import a_transition, an_observation

ABOUT = "memory and disk per operator of planners that have a plan"
DURATION = "1 min"

OPERATORS = 40
INTERVALS = 60
TOGETHER = 10
"""Operators of a StreamApp."""
IN_MEMORY = "pages in memory"
FETCHED = "pages on the disk, fetched together before"
PAGE_BY_PAGE = "pages on the disk, read one by one"
PACKED = "what an operator has learned, packed to be kept"
BY_ISAL = "of it: compressed by ISA-L"
BY_ZLIB = "zlib in place of ISA-L"
SIZE = "size of what is kept"
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
        *(Figure(figure=f"an interval of an operator, {pages}", value=in_files[pages], unit="ms")
          for pages in (IN_MEMORY, FETCHED, PAGE_BY_PAGE)),
        *(Figure(figure=name, value=in_files[name], unit="ms")
          for name in (PACKED, BY_ISAL, BY_ZLIB)),
        Figure(figure=SIZE, value=in_files[SIZE], unit="KiB"),
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
    found = {
        "resident": (_resident() - before) / KIB / len(policies),
        "disk": (_on_disk() - held) / KIB / len(policies),
    }
    if room is None:
        return found
    found[IN_MEMORY] = _time_interval(policies, INTERVALS, fetch=False)
    _evict()
    found[FETCHED] = _time_interval(policies, INTERVALS + 1, fetch=True)
    _evict()
    found[PAGE_BY_PAGE] = _time_interval(policies, INTERVALS + 2, fetch=False)
    return found | _time_packing(policies)


def _live_one(room: MappedTables | None, number: int) -> KernelPolicy:
    """Return a planner after an hour of a rate that swings."""
    policy = registry.build("planner", rng=np.random.default_rng(number))
    if not isinstance(policy, KernelPolicy):
        raise TypeError(f"Expected the planner to be compiled, got {type(policy).__name__}")
    if room is not None:
        policy.keep_in(room)
    for interval in range(INTERVALS):
        _live_on(policy, number, interval)
    return policy


def _live_on(policy: KernelPolicy, number: int, interval: int) -> None:
    """Let a planner learn from one interval, and decide."""
    before, seen = (
        an_observation(
            rate=100 * (1 + 0.5 * math.sin(each / 20 + number)),
            time=60.0 * each,
            time_of_week=each / 10_080,
        )
        for each in (interval - 1, interval)
    )
    if interval > 0:
        policy.learn(a_transition(before, seen))
    policy.decide(seen)


def _time_interval(policies: Sequence[KernelPolicy], interval: int, *, fetch: bool) -> float:
    """Return the mean milliseconds that an interval of one of them takes."""
    began = time.perf_counter()
    for first in range(0, len(policies), TOGETHER):
        group = policies[first : first + TOGETHER]
        for policy in group:
            if fetch:
                policy.fetch_tables()
        for number, policy in enumerate(group, start=first):
            _live_on(policy, number, interval)
    return 1000 * (time.perf_counter() - began) / len(policies)


def _time_packing(policies: Sequence[KernelPolicy]) -> dict[str, float]:
    """Return the mean milliseconds to pack what one has learned and to compress it, and its KiB."""
    for policy in policies:
        policy.fetch_tables()
    began = time.perf_counter()
    packed = [policy.state_dict()["memory"]["data"] for policy in policies]
    taken = time.perf_counter() - began
    contents = [zlib.decompress(b64decode(each)) for each in packed]
    return {
        PACKED: 1000 * taken / len(policies),
        SIZE: sum(map(len, packed)) / KIB / len(policies),
        BY_ISAL: _time_each(lambda content: isal_zlib.compress(content, 1), contents),
        BY_ZLIB: _time_each(lambda content: zlib.compress(content, 1), contents),
    }


def _time_each(compress: Callable[[bytes], bytes], contents: Sequence[bytes]) -> float:
    """Return the mean milliseconds for one of them."""
    began = time.perf_counter()
    for content in contents:
        compress(content)
    return 1000 * (time.perf_counter() - began) / len(contents)


def _evict() -> None:
    """Take out of memory what open files without a name have there."""
    for each in list(Path("/proc/self/fd").iterdir()):
        if each.is_symlink() and str(each.readlink()).endswith("(deleted)"):
            os.fsync(int(each.name))
            os.posix_fadvise(int(each.name), 0, 0, os.POSIX_FADV_DONTNEED)


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
