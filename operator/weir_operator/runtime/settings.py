"""Settings of a StreamApp that runs as processes of this machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from weir_operator.flink.commands import Installation
from weir_operator.flink.configuration import DEFAULT_PROCESS_MEMORY, TaskManagerMemory
from weir_operator.runtime.places import MemoryNeeds, size_memory


@dataclass(frozen=True, kw_only=True)
class LocalSettings:
    """What a `LocalRuntime` needs to know."""

    root: Path
    """Folder of all StreamApps' state; this one's is `<root>/<namespace>.<name>`."""
    namespace: str
    name: str
    installation: Installation
    job_jar: Path
    cache: Path
    """Folder of what can be made again, shared by all StreamApps: archives of classes."""
    speeds: Mapping[str, float]
    """Speed per node type (`pool/size`), relative to 1; replicas read it from their speed file."""
    pool_memory: Mapping[str, int] = field(default_factory=dict)
    """MiB of a TaskManager's process per pool; pools left out take 1024."""
    pool_cores: Mapping[str, int] = field(default_factory=dict)
    """Cores of the largest size per pool; pools left out take one."""
    memory_needs: Mapping[str, MemoryNeeds] = field(default_factory=dict)
    """What operators ask of that memory; those left out leave it to Flink's shares."""
    job_manager_memory: int = 1024
    """MiB of the JobManager's process."""
    max_parallelism: int | None = None
    """Key groups of the job; `None` leaves it to the job."""
    agent: Path | None = None
    """Weir's agent, with which jobs that know nothing of Weir are pinned; `None` runs without."""
    config: Mapping[str, str] = field(default_factory=dict)
    """The user's keys for Flink; Weir's own win."""
    max_processes: int = 64
    """JVMs that may exist at once, the JobManager included: a guard against a runaway."""
    start_limit: float = 60.0
    """Seconds in which a JobManager must answer."""
    stop_grace: float = 10.0
    """Seconds between the polite signal and the one that cannot be refused."""

    @property
    def app(self) -> str:
        """The StreamApp as metrics and folders name it."""
        return f"{self.namespace}.{self.name}"

    def memory_of(self, operator: str, pool: str) -> TaskManagerMemory:
        """Return the memory of a replica.

        Raises:
            PermanentError: No TaskManager can run in so little memory.
        """
        return size_memory(
            self.memory_needs.get(operator, MemoryNeeds(pools=(pool,))),
            pool,
            process={pool: DEFAULT_PROCESS_MEMORY, **self.pool_memory},
            config=self.config,
        )
