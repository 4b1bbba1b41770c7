"""Limits the CPU of TaskManagers by cgroup quotas, as a container's limit would.

The quota of a replica is its node type's speed times `CORE`, and holds for the thread that runs its
operator; a TaskManager of a Flink that knows nothing of operators may run any of them. The rest of
the JVM (heartbeats, metrics, compiling) is left alone: it would not shrink with the core that is
scaled down here so that a job of many cores fits on a small machine.

Weir's local runtime knows nothing of this. It tells a replica's speed by a file, again after every
resize, which is where its quota is read from (`find_replicas`). The job must do the same work at
every speed (`--work limited`), or the speed would count twice.

Uses the CPU controller of cgroups version 1, which limits single threads.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.spawned import call_repeatedly
from weir_operator.runtime.processes.folders import AppFolder

CONTROLLERS = Path("/sys/fs/cgroup")
CORE = 0.2
"""CPU seconds per second that stand for one core of speed 1."""
MIN_QUOTA = 1_000
"""Microseconds of CPU per period: the kernel takes no smaller quota."""
MIN_PERIOD, MAX_PERIOD = 5_000, 10_000
"""Microseconds of a period, at whose end a quota starts over. What is left of one when a record
comes is served at full speed, so a period is as short as its quota allows, down to where the
kernel's own ticks are longer; where it would be longer than a record, a speed is refused."""
CHECK_PERIOD = 0.1
"""Seconds between two checks of the threads; a new one is not limited for so long."""
MAX_CHECKS = 20
"""How often a new thread is checked: it is started before it is named."""


class QuotaError(RuntimeError):
    """Quotas cannot be had on this machine."""


def limit_of(speed: float) -> tuple[int, int]:
    """Return the quota of a replica of this speed and the period that it is for, microseconds."""
    share = speed * CORE
    period = max(MIN_PERIOD, math.ceil(MIN_QUOTA / share))
    if period > MAX_PERIOD:
        raise QuotaError(
            f"Expected a speed of at least {MIN_QUOTA / CORE / MAX_PERIOD:g}, got {speed:g}; take "
            "a larger size"
        )
    return round(share * period), period


@dataclass(frozen=True, kw_only=True, slots=True)
class Limited:
    """A TaskManager whose operator's thread is limited."""

    id: str
    pid: int
    operators: Collection[str]
    """Those that it may run; the threads of others are left alone."""
    speed: float
    """The present one."""


def find_replicas(app: AppFolder, *, operators: Collection[str]) -> Iterator[Limited]:
    """Yield the replicas of a local run that serve one of these operators."""
    if not (app.path / "tm").is_dir():
        return
    for folder in app.task_managers():
        record, identity = folder.replica(), folder.alive()
        if record is None or identity is None or record.operator not in operators:
            continue
        try:
            speed = float(folder.speed.read_text())
        except FileNotFoundError:
            continue  # it has ended
        yield Limited(id=folder.id, pid=identity.pid, operators=(record.operator,), speed=speed)


@contextmanager
def keep_quotas(find: Callable[[], Iterator[Limited]]) -> Iterator[None]:
    """Keep the quotas of TaskManagers while the block runs; they should have ended at its end."""
    group = own_group("cpu") / f"weir-live-{time.time_ns()}"
    replicas: dict[str, _Replica] = {}
    try:
        group.mkdir()
    except OSError as error:
        raise QuotaError(
            f"Expected to make groups in {group.parent}, got {error.strerror}: the "
            "benchmark needs root and the CPU controller of cgroups version 1"
        ) from error

    def limit_all() -> None:
        for limited in find():
            if limited.id not in replicas:
                replicas[limited.id] = _Replica(limited, group / limited.id)
            replicas[limited.id].limit(limited.speed)

    try:
        with call_repeatedly(limit_all, period=CHECK_PERIOD, name="quotas"):
            yield
    finally:
        for replica in replicas.values():
            replica.leave()
        group.rmdir()


class _Replica:
    """One TaskManager, its group, and which of its threads are in it."""

    def __init__(self, limited: Limited, group: Path) -> None:
        self._pid, self._group = limited.pid, group
        # Flink names a thread `match (1/3)#0`; the kernel keeps the first 15 letters.
        self._names = tuple(f"{operator} ("[:15] for operator in limited.operators)
        self._checks: dict[str, int] = {}
        self._limit = (0, 0)
        group.mkdir()

    def limit(self, speed: float) -> None:
        """Put new threads of the operator in the group, and obey a new speed."""
        limit = limit_of(speed)
        try:
            threads = {path.name for path in Path(f"/proc/{self._pid}/task").iterdir()}
        except FileNotFoundError:
            return  # it has ended
        if limit != self._limit:
            for name, value in zip(("cpu.cfs_quota_us", "cpu.cfs_period_us"), limit, strict=True):
                (self._group / name).write_text(str(value))
            self._limit = limit
        self._checks = {each: checks for each, checks in self._checks.items() if each in threads}
        for thread in threads:
            checks = self._checks.get(thread, 0)
            if checks < MAX_CHECKS:
                self._checks[thread] = MAX_CHECKS if self._take(thread) else checks + 1

    def leave(self) -> None:
        """Remove the group; threads that are left fall back to its parent's parent."""
        for thread in (self._group / "tasks").read_text().split():
            _move(thread, self._group.parent.parent)
        self._group.rmdir()

    def _take(self, thread: str) -> bool:
        """Put a thread in the group if it is the operator's; return whether it is."""
        try:
            name = Path(f"/proc/{self._pid}/task/{thread}/comm").read_text()
        except (FileNotFoundError, ProcessLookupError):
            return False
        return name.startswith(self._names) and _move(thread, self._group)


def _move(thread: str, group: Path) -> bool:
    """Move a thread to a group; return whether it was still there."""
    try:
        (group / "tasks").write_text(thread)
    except ProcessLookupError:
        return False
    return True


def own_group(controller: str) -> Path:
    """Return this process's group of a controller of cgroups version 1, such as `cpu`.

    Raises:
        QuotaError: The machine does not have that controller.
    """
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if controller in controllers.split(","):
            return CONTROLLERS / controller / path.lstrip("/")
    raise QuotaError(
        f"Expected the controller {controller} of cgroups version 1, got none; run on a kernel "
        "with `systemd.unified_cgroup_hierarchy=0`, or in a machine that has it"
    )
