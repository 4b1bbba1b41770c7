"""Divides the memory of Flink's processes as Flink does. Pure.

On Kubernetes, Weir must know the division before it creates the pod; running Flink's own tool in
the pod would start a second JVM on a share of a core. The arithmetic and the defaults are those of
Flink's `TaskExecutorProcessUtils` and `JobManagerProcessUtils` for a given total process size; a
test compares them with Flink's tool.

Departures: a TaskManager has one slot and one CPU. Keys that would set the total twice are refused.
If the amount of managed memory is not set, it leaves the job's heap at least 256 MiB, or half of
the memory for both if that is less.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal

import numpy as np

from weir_operator.errors import PermanentError
from weir_operator.flink.configuration import TaskManagerMemory
from weir_operator.flink.options import read_size
from weir_operator.flink_keys import add_own_names

MIN_TASK_HEAP = 64
"""MiB that `Weir.pin` asks for in a slot: a TaskManager with less never gets one of its tasks."""
MIN_JOB_MANAGER_HEAP = 128
"""MiB, as Flink asks."""
MANAGED_FRACTION = 0.4
"""Flink's own share of managed memory."""
KEPT_TASK_HEAP = 256
"""MiB of heap that this share leaves to the job; Flink would leave it 26 of a process of 1 GiB."""
POOL_MEMORY = "spec.nodePools[].memory"
JOB_MANAGER_MEMORY = "spec.flink.jobManager.memory"

_TASK_MANAGER = "taskmanager.memory."
_JOB_MANAGER = "jobmanager.memory."
_MIB = 2**20
_SECOND_TOTALS = {
    f"{_TASK_MANAGER}flink.size": POOL_MEMORY,
    f"{_TASK_MANAGER}task.heap.size": POOL_MEMORY,
    f"{_JOB_MANAGER}flink.size": JOB_MANAGER_MEMORY,
    f"{_JOB_MANAGER}heap.size": JOB_MANAGER_MEMORY,
}
_LARGEST = 2**43  # bytes; stands for no bound


class TooLittleMemoryError(PermanentError):
    """A process of Flink cannot run in a container of this size."""

    def __init__(self, message: str, *, enough: int) -> None:
        """Create it; `enough` is the size in MiB that suffices."""
        super().__init__(message)
        self.enough = enough


@dataclass(frozen=True, kw_only=True, slots=True)
class MemorySplit:
    """How a process of Flink divides its memory."""

    jvm: tuple[str, ...]
    """Options of the JVM."""
    settings: Mapping[str, str]
    """Keys of Flink's configuration that a TaskManager's runner wants to find set; a JobManager's
    wants none."""


def size_task_manager(
    user: Mapping[str, str],
    *,
    process: int,
    managed: int | None = None,
    channels: int = 0,
    exchanges: int = 0,
    field: str = POOL_MEMORY,
) -> TaskManagerMemory:
    """Return what a TaskManager of this size is configured with.

    Args:
        user: The user's keys for Flink.
        process: MiB of its container.
        managed: MiB of managed memory that the manifest asks for; `None` takes
            `taskmanager.memory.managed.size` or `.fraction` of the user's, and without them Flink's
            share, or less where the job's heap would be too small.
        channels: Subtasks that a slot receives from, and as many that it sends to, at most.
        exchanges: Streams into a slot, and as many out of it.
        field: What an error calls the size.

    Raises:
        PermanentError: A key cannot be read, or gives a second total.
        TooLittleMemoryError: No TaskManager can run in so little memory.
    """
    user = add_own_names(user)
    network = network_for(user, channels=channels, exchanges=exchanges)

    def sized(mib: int) -> TaskManagerMemory:
        found = TaskManagerMemory(process=mib, managed=managed or 0, network=network)
        if managed is not None:
            return found
        default = _default_managed(_Sizes(user, _TASK_MANAGER), _parts_of(user, found))
        return replace(found, managed=default)

    def suffices(mib: int) -> bool:
        return _parts_of(user, sized(mib)).task_heap >= MIN_TASK_HEAP * _MIB

    if suffices(process):
        return sized(process)
    enough = sized(_least(suffices, above=process))
    parts = _parts_of(user, enough)
    taken = ", ".join(f"{size // _MIB} of {name}" for name, size in parts.named().items() if size)
    asks = managed is not None or any(key.startswith(f"{_TASK_MANAGER}managed.") for key in user)
    remedy = ", or reduce managed memory" if asks else ""
    raise TooLittleMemoryError(
        f"{field}: expected at least {enough.process}Mi for a TaskManager ({taken}), got"
        f" {process}Mi; raise it{remedy}",
        enough=enough.process,
    )


def network_for(user: Mapping[str, str], *, channels: int, exchanges: int) -> int:
    """Return the MiB of network memory that Flink announces for a slot of a pipelined job.

    It is part of the slot's profile: a TaskManager that has less is passed over in silence.
    Two buffers per channel and eight per stream, in both directions, are Flink's own.

    Raises:
        PermanentError: `taskmanager.memory.segment-size` cannot be read.
    """
    segment = _Sizes(user, _TASK_MANAGER).get("segment-size", 32 * 2**10)
    per_channel = _whole(user, "taskmanager.network.memory.buffers-per-channel", 2)
    per_gate = _whole(user, "taskmanager.network.memory.floating-buffers-per-gate", 8)
    buffers = 2 * (max(1, per_channel) * channels + per_gate * exchanges)
    return -(-buffers * segment // _MIB)


def split_memory(configuration: Mapping[str, str]) -> MemorySplit:
    """Return the split of `taskmanager.memory.process.size`, as the other keys ask for it.

    Raises:
        PermanentError: A key cannot be read, gives a second total, or the parts leave no heap.
    """
    parts = _parts(_Sizes(configuration, _TASK_MANAGER))
    if parts.task_heap < 0:
        raise PermanentError(
            f"{POOL_MEMORY}: expected memory for every part of a TaskManager, got"
            f" {parts.process // _MIB} MiB, which is {-parts.task_heap // _MIB + 1} MiB too little;"
            " raise it, or lower spec.operators[].managedMemory"
        )
    named = {
        "framework.heap.size": parts.framework_heap,
        "task.heap.size": parts.task_heap,
        "framework.off-heap.size": parts.framework_direct,
        "task.off-heap.size": parts.task_direct,
        "network.min": parts.network,
        "network.max": parts.network,
        "managed.size": parts.managed,
        "jvm-metaspace.size": parts.metaspace,
        "jvm-overhead.min": parts.overhead,
        "jvm-overhead.max": parts.overhead,
    }
    direct = parts.framework_direct + parts.task_direct + parts.network
    heap = _heap_options(parts.framework_heap + parts.task_heap, parts.metaspace)
    return MemorySplit(
        jvm=(*heap, f"-XX:MaxDirectMemorySize={direct}"),
        settings={
            **{f"{_TASK_MANAGER}{name}": f"{size}b" for name, size in named.items()},
            "taskmanager.cpu.cores": "1.0",
        },
    )


def split_job_manager(user: Mapping[str, str], *, process: int) -> MemorySplit:
    """Return the split of a JobManager's memory, by the user's keys and MiB of its container.

    Raises:
        PermanentError: A key cannot be read, or gives a second total.
        TooLittleMemoryError: No JobManager can run in so little memory.
    """
    sizes = _Sizes(add_own_names(user), _JOB_MANAGER)
    sizes.refuse_second_totals()

    def heap_of(mib: int) -> int:
        overhead = sizes.share("jvm-overhead", of=mib * _MIB, fraction=0.1, low=192, high=1024)
        return mib * _MIB - overhead - metaspace - sizes.get("off-heap.size", 128 * _MIB)

    metaspace = sizes.get("jvm-metaspace.size", 256 * _MIB)
    minimum = MIN_JOB_MANAGER_HEAP * _MIB
    if heap_of(process) < minimum:
        enough = _least(lambda mib: heap_of(mib) >= minimum, above=process)
        raise TooLittleMemoryError(
            f"{JOB_MANAGER_MEMORY}: expected at least {enough}Mi for a JobManager (including "
            f"{metaspace // _MIB} MiB of metaspace and {MIN_JOB_MANAGER_HEAP} of "
            f"heap), got {process}Mi; raise it",
            enough=enough,
        )
    return MemorySplit(jvm=_heap_options(heap_of(process), metaspace), settings={})


def _heap_options(heap: int, metaspace: int) -> tuple[str, ...]:
    return f"-Xmx{heap}", f"-Xms{heap}", f"-XX:MaxMetaspaceSize={metaspace}"


@dataclass(frozen=True, kw_only=True, slots=True)
class _Parts:
    """A TaskManager's memory part by part, bytes."""

    process: int
    flink: int
    metaspace: int
    overhead: int
    framework_heap: int
    framework_direct: int
    task_direct: int
    network: int
    managed: int

    @property
    def task_heap(self) -> int:
        """What is left for the job; below zero where the others are too much."""
        others = self.framework_heap + self.framework_direct + self.task_direct
        return self.flink - others - self.network - self.managed

    def named(self) -> dict[str, int]:
        """Return all parts as people call them."""
        return {
            "metaspace": self.metaspace,
            "overhead of the JVM": self.overhead,
            "Flink itself": self.framework_heap + self.framework_direct,
            "network buffers": self.network,
            "managed memory": self.managed,
            "other memory off the heap": self.task_direct,
            "heap for the job": self.task_heap,
        }


def _parts_of(user: Mapping[str, str], memory: TaskManagerMemory) -> _Parts:
    return _parts(_Sizes({**user, **memory.settings(user)}, _TASK_MANAGER))


def _parts(sizes: _Sizes) -> _Parts:
    sizes.refuse_second_totals()
    process = sizes.get("process.size", None)
    metaspace = sizes.get("jvm-metaspace.size", 256 * _MIB)
    overhead = sizes.share("jvm-overhead", of=process, fraction=0.1, low=192, high=1024)
    flink = process - metaspace - overhead
    return _Parts(
        process=process,
        flink=flink,
        metaspace=metaspace,
        overhead=overhead,
        framework_heap=sizes.get("framework.heap.size", 128 * _MIB),
        framework_direct=sizes.get("framework.off-heap.size", 128 * _MIB),
        task_direct=sizes.get("task.off-heap.size", 0),
        network=sizes.share("network", of=max(0, flink), fraction=0.1, low=64, high=None),
        managed=sizes.get("managed.size", 0),
    )


def _default_managed(user: _Sizes, parts: _Parts) -> int:
    """Return the MiB of managed memory where the manifest asks for none in particular."""
    if user.has("managed.size"):
        return user.get("managed.size", None) // _MIB
    share = user.fraction("managed", MANAGED_FRACTION, of=max(0, parts.flink))
    if user.has("managed.fraction"):
        return share // _MIB
    left = max(0, parts.task_heap)
    return min(share, left - min(KEPT_TASK_HEAP * _MIB, left // 2)) // _MIB


def _least(suffices: Callable[[int], bool], *, above: int) -> int:
    """Return the least MiB that suffice; more of them always do."""
    low, high = above, _LARGEST // _MIB
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if suffices(middle) else (middle + 1, high)
    return low


def _whole(user: Mapping[str, str], key: str, default: int) -> int:
    text = user.get(key, str(default)).strip()
    if not text.isdecimal():
        raise PermanentError(f"{key}: expected a whole number such as {default}, got {text!r}")
    return int(text)


@dataclass(frozen=True, slots=True)
class _Sizes:
    """Reads sizes in Flink's spelling."""

    configuration: Mapping[str, str]
    prefix: str

    def has(self, name: str) -> bool:
        return f"{self.prefix}{name}" in self.configuration

    def refuse_second_totals(self) -> None:
        for key, field in _SECOND_TOTALS.items():
            if key.startswith(self.prefix) and key in self.configuration:
                raise PermanentError(
                    f"spec.flink.config[{key}]: expected no second total, got "
                    f"{self.configuration[key]}; remove it and set {field}"
                )

    def get(self, name: str, default: int | None) -> int:
        key = f"{self.prefix}{name}"
        text = self.configuration.get(key)
        if text is None:
            if default is None:
                raise PermanentError(f"Expected {key} to be set, got nothing")
            return default
        size = read_size(text)
        if size is None:
            raise PermanentError(f"{key}: expected a size such as 64m, got {text!r}")
        return size

    def share(self, name: str, *, of: int, fraction: float, low: int, high: int | None) -> int:
        """Return a fraction of a whole within bounds; the defaults of these are in MiB."""
        minimum = self.get(f"{name}.min", low * _MIB)
        maximum = self.get(f"{name}.max", _LARGEST if high is None else high * _MIB)
        return min(max(self.fraction(name, fraction, of=of), minimum), maximum)

    def fraction(self, name: str, default: float, *, of: int) -> int:
        key = f"{self.prefix}{name}.fraction"
        text = self.configuration.get(key)
        try:
            # Flink's fractions are of single precision: its 0.1 is a bit more than ours.
            exact = Decimal(repr(float(np.float32(text if text else default))))
        except ValueError as error:
            raise PermanentError(f"{key}: expected a share such as 0.1, got {text!r}") from error
        if not 0 <= exact < 1:
            raise PermanentError(f"{key}: expected a share from 0 to below 1, got {text!r}")
        return int(of * exact)
