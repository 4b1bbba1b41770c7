"""How a TaskManager's memory is split, where no Flink is at hand to work it out. Pure.

On Kubernetes the split must be known before the pod is made, and asking Flink's own tool inside the
pod would start a second JVM on a share of a core. The arithmetic is that of Flink's
`TaskExecutorProcessUtils` for a given size of the whole process; a test holds it against the tool.

Departures: one slot and one CPU, and keys that would give the total twice are refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

import numpy as np

from weir_operator.errors import PermanentError

_PREFIX = "taskmanager.memory."
_UNITS = {"": 1, "b": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
_SPELLED = {"bytes": "b", "kb": "k", "kibibytes": "k", "mb": "m", "mebibytes": "m", "gb": "g",
            "gibibytes": "g", "tb": "t", "tebibytes": "t"}  # fmt: skip
_MIB = 2**20
_SECOND_TOTALS = (f"{_PREFIX}flink.size", f"{_PREFIX}task.heap.size")


@dataclass(frozen=True, kw_only=True, slots=True)
class MemorySplit:
    """A TaskManager's memory, bytes."""

    heap: int
    direct: int
    metaspace: int
    settings: Mapping[str, str]
    """Keys of Flink's configuration that its runner wants to find set."""

    @property
    def jvm(self) -> tuple[str, ...]:
        """Options of the JVM."""
        return (
            f"-Xmx{self.heap}",
            f"-Xms{self.heap}",
            f"-XX:MaxDirectMemorySize={self.direct}",
            f"-XX:MaxMetaspaceSize={self.metaspace}",
        )


def split_memory(configuration: Mapping[str, str]) -> MemorySplit:
    """Return the split of `taskmanager.memory.process.size`, as the other keys ask for it.

    Raises:
        PermanentError: A key cannot be read, gives a second total, or the parts leave no heap.
    """
    for key in _SECOND_TOTALS:
        if key in configuration:
            raise PermanentError(
                f"spec.flink.config[{key}]: expected no second total, got {configuration[key]};"
                " leave it out and set spec.nodePools[].memory"
            )
    sizes = _Sizes(configuration)
    process = sizes.get("process.size", None)
    metaspace = sizes.get("jvm-metaspace.size", 256 * _MIB)
    overhead = sizes.share("jvm-overhead", of=process, fraction=0.1, low=192, high=1024)
    flink = process - metaspace - overhead
    framework_heap = sizes.get("framework.heap.size", 128 * _MIB)
    framework_direct = sizes.get("framework.off-heap.size", 128 * _MIB)
    task_direct = sizes.get("task.off-heap.size", 0)
    managed = sizes.get("managed.size", 0)
    network = sizes.share("network", of=flink, fraction=0.1, low=64, high=2**43)
    task_heap = flink - framework_heap - framework_direct - task_direct - managed - network
    if task_heap < 0:
        raise PermanentError(
            f"A TaskManager of {process // _MIB} MiB lacks {-task_heap // _MIB + 1} MiB for its"
            " parts; raise spec.nodePools[].memory, or lower spec.operators[].managedMemory"
        )
    parts = {
        "framework.heap.size": framework_heap,
        "task.heap.size": task_heap,
        "framework.off-heap.size": framework_direct,
        "task.off-heap.size": task_direct,
        "network.min": network,
        "network.max": network,
        "managed.size": managed,
        "jvm-metaspace.size": metaspace,
        "jvm-overhead.min": overhead,
        "jvm-overhead.max": overhead,
    }
    return MemorySplit(
        heap=framework_heap + task_heap,
        direct=framework_direct + task_direct + network,
        metaspace=metaspace,
        settings={
            **{f"{_PREFIX}{name}": f"{size}b" for name, size in parts.items()},
            "taskmanager.cpu.cores": "1.0",
        },
    )


@dataclass(frozen=True, slots=True)
class _Sizes:
    """Reads sizes in Flink's spelling."""

    configuration: Mapping[str, str]

    def get(self, name: str, default: int | None) -> int:
        key = f"{_PREFIX}{name}"
        text = self.configuration.get(key)
        if text is None:
            if default is None:
                raise PermanentError(f"Expected {key} to be set, got nothing")
            return default
        found = re.fullmatch(r"\s*(\d+)\s*([a-z]*)\s*", text.lower())
        unit = _SPELLED.get(found[2], found[2]) if found else None
        if found is None or unit not in _UNITS:
            raise PermanentError(f"{key}: expected a size such as 64m, got {text!r}")
        return int(found[1]) * _UNITS[unit]

    def share(self, name: str, *, of: int, fraction: float, low: int, high: int) -> int:
        """Return a fraction of a whole within bounds; the defaults of these are in MiB."""
        text = self.configuration.get(f"{_PREFIX}{name}.fraction")
        least, most = self.get(f"{name}.min", low * _MIB), self.get(f"{name}.max", high * _MIB)
        try:
            # Flink's fractions are of single precision: its 0.1 is a bit more than ours.
            exact = Decimal(repr(float(np.float32(text if text else fraction))))
        except ValueError as error:
            raise PermanentError(
                f"{_PREFIX}{name}.fraction: expected a share such as 0.1, got {text!r}"
            ) from error
        return min(max(int(of * exact), least), most)
