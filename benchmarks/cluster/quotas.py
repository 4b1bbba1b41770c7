"""CPU quotas of pods on a cluster whose nodes are on this machine, by cgroups of version 1."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

CPU_GROUPS = Path("/sys/fs/cgroup/cpu")
UNLIMITED = "-1"
NANOSECONDS = 1e9


@dataclass(slots=True)
class PodQuotas:
    """Reads and lifts the CPU quotas of pods, by their uids."""

    root: Path = CPU_GROUPS
    _groups: dict[str, Path] = field(default_factory=dict)

    def check(self) -> None:
        """Return if there are nodes here.

        Raises:
            RuntimeError: There are none.
        """
        if not [*self.root.glob("*/kubepods")]:
            raise RuntimeError(
                f"Expected the CPU groups of nodes under {self.root}, got none: run this where the "
                "cluster's nodes are on this machine, with cgroups of version 1"
            )

    def throttled(self, uid: str) -> float:
        """Return the seconds for which a pod's containers had to wait, 0 where it has none yet.

        Processors count apart: two threads that wait on two processors count twice.
        """
        return sum(
            int(_read_statistics(each)["throttled_time"]) / NANOSECONDS
            for each in self._containers(uid)
        )

    def lift(self, uids: Iterable[str]) -> None:
        """Let pods use the machine's processors without a quota."""
        for uid in uids:
            containers = self._containers(uid)
            # A container may have no more than its pod, so the pod is first.
            for group in (*(each.parent for each in containers[:1]), *containers):
                try:
                    (group / "cpu.cfs_quota_us").write_text(UNLIMITED)
                except FileNotFoundError:
                    continue  # it has just ended

    def _containers(self, uid: str) -> list[Path]:
        """Return the groups of a pod's containers."""
        if uid not in self._groups:
            found = [*self.root.glob(f"**/pod{uid}")]
            if not found:
                return []
            [self._groups[uid]] = found
        return [each.parent for each in self._groups[uid].glob("*/cpu.stat")]


def _read_statistics(group: Path) -> dict[str, str]:
    try:
        lines = (group / "cpu.stat").read_text().splitlines()
    except FileNotFoundError:
        return {"throttled_time": "0"}  # it has just ended
    return dict(line.split() for line in lines)
