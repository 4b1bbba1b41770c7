"""How much memory the controller's container uses, and how much it may: what its cgroup says.

Past the limit the kernel ends the process. Not counted is what the kernel takes back before that:
pages of files, such as the mapped tables, which the process's resident memory has in it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

CGROUP = Path("/sys/fs/cgroup")
"""Where a container has its own."""

_UNBOUNDED = 2**60
"""Bytes; version 1 writes so large a number where there is no limit."""


class ContainerMemory(Collector):
    """Shows both numbers as they are when somebody asks; NaN where they are not known."""

    def __init__(self, cgroup: Path = CGROUP) -> None:
        self._cgroup = cgroup

    def collect(self) -> Iterable[Metric]:
        """Return use and limit now."""
        used, limit = measure_memory(self._cgroup)
        return (
            GaugeMetricFamily("weir_memory_bytes", "Memory in use, but for files'.", used),
            GaugeMetricFamily("weir_memory_limit_bytes", "Most memory that may be used.", limit),
        )


def measure_memory(cgroup: Path) -> tuple[float, float]:
    """Return memory in use and its limit, bytes: of version 2, else of version 1, else NaN."""
    for folder, current, limit, prefix in (
        (cgroup, "memory.current", "memory.max", ""),
        (cgroup / "memory", "memory.usage_in_bytes", "memory.limit_in_bytes", "total_"),
    ):
        try:
            used = float((folder / current).read_text())
            most = (folder / limit).read_text().strip()
            lines = (folder / "memory.stat").read_text().splitlines()
            stat = {key: float(value) for key, value in map(str.split, lines)}
            files = stat[f"{prefix}active_file"] + stat[f"{prefix}inactive_file"]
        except (OSError, KeyError, ValueError):
            continue  # of the other version, or no cgroup at all
        bounded = most != "max" and float(most) < _UNBOUNDED
        return used - files, float(most) if bounded else math.nan
    return math.nan, math.nan
