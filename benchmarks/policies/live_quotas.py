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
import threading
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from weir_operator.runtime.local.folders import AppFolder

CONTROLLER = Path("/sys/fs/cgroup/cpu")
CORE = 0.2
"""CPU seconds per second that stand for one core of speed 1."""
MINIMUM = 1_000
"""Microseconds of CPU per period: the kernel takes no smaller quota."""
SHORTEST, LONGEST = 5_000, 10_000
"""Microseconds of a period, at whose end a quota starts over. What is left of one when a record
comes is served at full speed, so a period is as short as its quota allows, down to where the
kernel's own ticks are longer; where it would be longer than a record, a speed is refused."""
LOOK = 0.1
"""Seconds between two looks at the threads; a new one is not limited for so long."""
LOOKS = 20
"""How often a new thread is looked at: it is started before it is named."""


class QuotaError(RuntimeError):
    """Quotas cannot be had on this machine."""


def limit_of(speed: float) -> tuple[int, int]:
    """Return the quota of a replica of this speed and the period that it is for, microseconds.

    Raises:
        QuotaError: The kernel does not take so small a quota.
    """
    share = speed * CORE
    period = max(SHORTEST, math.ceil(MINIMUM / share))
    if period > LONGEST:
        raise QuotaError(
            f"Expected a speed of at least {MINIMUM / CORE / LONGEST:g}, got {speed:g}; take a "
            "larger size"
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


class Quotas:
    """Keeps the quotas of TaskManagers while it is entered."""

    def __init__(self, find: Callable[[], Iterator[Limited]]) -> None:
        """Take over what tells whose threads to limit, again and again."""
        self._find = find
        self._group = _own_group() / f"weir-live-{time.time_ns()}"
        self._replicas: dict[str, _Replica] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="quotas")
        self._failure: Exception | None = None

    def __enter__(self) -> Self:
        """Begin to watch.

        Raises:
            QuotaError: Quotas cannot be had here.
        """
        try:
            self._group.mkdir()
        except OSError as error:
            raise QuotaError(
                f"Expected to make groups in {self._group.parent}, got {error.strerror}: the "
                "benchmark needs root and the CPU controller of cgroups version 1"
            ) from error
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stop watching; the processes should have ended."""
        self._over.set()
        self._thread.join()
        for replica in self._replicas.values():
            replica.leave()
        self._group.rmdir()
        if self._failure is not None:
            raise self._failure

    def _keep(self) -> None:
        while not self._over.wait(LOOK):
            try:
                self._look()
            except Exception as error:  # raised in the thread that waits for the run
                self._failure = error
                return

    def _look(self) -> None:
        for limited in self._find():
            if limited.id not in self._replicas:
                self._replicas[limited.id] = _Replica(limited, self._group / limited.id)
            self._replicas[limited.id].look(limited.speed)


class _Replica:
    """One TaskManager, its group, and which of its threads are in it."""

    def __init__(self, limited: Limited, group: Path) -> None:
        self._pid, self._group = limited.pid, group
        # Flink names a thread `match (1/3)#0`; the kernel keeps the first 15 letters.
        self._names = tuple(f"{operator} ("[:15] for operator in limited.operators)
        self._looks: dict[str, int] = {}
        self._limit = (0, 0)
        group.mkdir()

    def look(self, speed: float) -> None:
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
        self._looks = {each: looks for each, looks in self._looks.items() if each in threads}
        for thread in threads:
            looks = self._looks.get(thread, 0)
            if looks < LOOKS:
                self._looks[thread] = LOOKS if self._take(thread) else looks + 1

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


def _own_group() -> Path:
    """Return the group of this process, in which groups for the replicas are made.

    Raises:
        QuotaError: It is in none.
    """
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if "cpu" in controllers.split(","):
            return CONTROLLER / path.lstrip("/")
    raise QuotaError(
        "Expected the CPU controller of cgroups version 1, got none; run on a kernel with "
        "`systemd.unified_cgroup_hierarchy=0`, or in a machine that has it"
    )
