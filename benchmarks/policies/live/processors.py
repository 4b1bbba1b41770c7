"""What a run and all other processes used of the machine's processors meanwhile.

The load average does not tell them apart: threads of a dozen JVMs wake up at the same moments, so
that a run alone comes to a load of 6 on two processors that idle 40 % of the time.

Uses the accounting controller of cgroups version 1, which counts ended processes, too.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from benchmarks.policies.live.quotas import CONTROLLERS, own_group

ACCOUNTING = "cpuacct"
REMOVED_WITHIN = 10.0
"""Seconds for a group to be removed; one that is left does no harm."""


_MACHINE = CONTROLLERS / ACCOUNTING


@dataclass(frozen=True, kw_only=True, slots=True)
class Use:
    """Shares of the time of all processors, in [0, 1]."""

    run: float
    """That of this process and of all that it started."""
    others: float
    """That of the other processes, and of the kernel."""


@contextmanager
def account() -> Iterator[Callable[[], Use]]:
    """Count what this process, and all that it starts in the block, use of the processors.

    Gives a function that returns the use since the block began.

    Raises:
        QuotaError: The machine has no accounting controller of cgroups version 1.
    """
    before = own_group(ACCOUNTING)
    group = before / f"weir-live-{time.time_ns()}"
    group.mkdir()
    try:
        _move(os.getpid(), group)
        began, all_before, run_before = time.monotonic(), _seconds(_MACHINE), _seconds(group)

        def use() -> Use:
            available = (time.monotonic() - began) * (os.cpu_count() or 1)
            run = _seconds(group) - run_before
            # The two counters are not read at the same moment.
            others = max(0.0, _seconds(_MACHINE) - all_before - run)
            return Use(run=run / available, others=others / available)

        yield use
    finally:
        deadline = time.monotonic() + REMOVED_WITHIN
        while not _remove(group, before) and time.monotonic() < deadline:
            time.sleep(0.1)


def _remove(group: Path, before: Path) -> bool:
    """Try to remove a group; a process that just starts or ends keeps it."""
    for process in (group / "cgroup.procs").read_text().split():
        _move(int(process), before)
    try:
        group.rmdir()
    except OSError:
        return False
    return True


def _seconds(group: Path) -> float:
    return int((group / "cpuacct.usage").read_text()) / 1e9


def _move(process: int, group: Path) -> None:
    with suppress(ProcessLookupError):  # it has ended
        (group / "cgroup.procs").write_text(str(process))
