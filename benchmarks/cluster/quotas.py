"""CPU time and quotas of pods whose nodes are on this machine, by cgroups of version 1."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

GROUPS = Path("/sys/fs/cgroup")
UNLIMITED = "-1"
NANOSECONDS = 1e9


@dataclass(slots=True)
class PodQuotas:
    """Reads the CPU time of pods, and reads and lifts their CPU quotas, by their uids."""

    root: Path = GROUPS
    _groups: dict[str, Path] = field(default_factory=dict)

    def check(self) -> None:
        """Return if there are nodes here.

        Raises:
            RuntimeError: There are none.
        """
        if not [*self.root.glob("cpu/*/kubepods")]:
            raise RuntimeError(
                f"Expected the CPU groups of nodes under {self.root}/cpu, got none: run this where "
                "the cluster's nodes are on this machine, with cgroups of version 1"
            )

    def throttled(self, uid: str) -> float:
        """Return the seconds for which a pod's containers had to wait, 0 where it has none yet.

        Processors count apart: two threads that wait on two processors count twice.
        """
        return sum(
            int(_read_statistics(each)["throttled_time"]) / NANOSECONDS
            for each in self._containers(uid)
        )

    def used(self, uid: str) -> float:
        """Return the CPU seconds that a pod has used, 0 where it has no group yet or no more."""
        group = self._group(uid)
        if group is None:
            return 0.0
        accounts = self.root / "cpuacct" / group.relative_to(self.root / "cpu")
        try:
            return int((accounts / "cpuacct.usage").read_text()) / NANOSECONDS
        except FileNotFoundError:
            return 0.0  # it has just ended

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
        """Return the CPU groups of a pod's containers."""
        group = self._group(uid)
        return [] if group is None else [each.parent for each in group.glob("*/cpu.stat")]

    def _group(self, uid: str) -> Path | None:
        """Return a pod's CPU group."""
        if uid not in self._groups:
            found = [*self.root.glob(f"cpu/**/pod{uid}")]
            if not found:
                return None
            [self._groups[uid]] = found
        return self._groups[uid]


def _read_statistics(group: Path) -> dict[str, str]:
    try:
        lines = (group / "cpu.stat").read_text().splitlines()
    except FileNotFoundError:
        return {"throttled_time": "0"}  # it has just ended
    return dict(line.split() for line in lines)
