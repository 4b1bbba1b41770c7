"""What the kernel says of the controller and of the machine while `scale` runs."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.registry import BenchmarkError

MIB = 2**20
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(slots=True)
class Process:
    pid: int
    highest: float = 0.0
    """MiB resident, the most that was seen."""
    _stop: threading.Event = field(default_factory=threading.Event)

    def check(self) -> None:
        if self._words()[0] == "Z":
            raise RuntimeError("The controller has ended")

    def cpu(self) -> float:
        """Return the CPU seconds it has used, in the system too."""
        words = self._words()
        return (int(words[11]) + int(words[12])) / _TICKS

    def resident(self) -> dict[str, float]:
        """Return MiB in memory: of everything, the most so far, and what no file holds."""
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        values = dict(line.split(":", 1) for line in lines)
        return {
            name: int(values[name].split()[0]) * 1024 / MIB
            for name in ("VmRSS", "VmHWM", "RssAnon")
            if name in values  # one that has ended holds nothing
        }

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Keep the most that it holds while the block runs."""
        self.highest = 0.0
        self._stop.clear()
        watching = threading.Thread(target=self._watch, daemon=True)
        watching.start()
        try:
            yield
        finally:
            self._stop.set()
            watching.join()

    def _watch(self) -> None:
        while not self._stop.wait(1.0):
            self.highest = max(self.highest, self.resident().get("VmRSS", 0.0))

    def _words(self) -> list[str]:
        return Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()


@contextmanager
def memory_limit(mebibytes: int) -> Iterator[Callable[[int], None]]:
    """Make a control group with a limit of memory while the block runs, as a pod has."""
    v1_tree = Path("/sys/fs/cgroup/memory")  # version 1 has a tree for each resource
    has_v1 = v1_tree.is_dir()
    group = (v1_tree if has_v1 else v1_tree.parent) / f"weir-scale-{os.getpid()}"
    limit = group / ("memory.limit_in_bytes" if has_v1 else "memory.max")
    group.mkdir()
    try:
        if not limit.exists():
            raise BenchmarkError(
                f"Expected {limit}, got no such file: WEIR_SCALE_MEMORY needs control groups that "
                "limit memory"
            )
        limit.write_text(str(mebibytes * MIB))

        def put(pid: int) -> None:
            (group / "cgroup.procs").write_text(str(pid))

        yield put
    finally:
        group.rmdir()


def machine_cpu() -> float:
    """Return the CPU seconds that all processes of the machine have used together."""
    line = Path("/proc/stat").read_text().splitlines()[0].split()
    user, nice, system, _, _, interrupts, soft, *_ = (int(word) for word in line[1:])
    return (user + nice + system + interrupts + soft) / _TICKS
