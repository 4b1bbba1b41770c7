"""The TaskManagers of one StreamApp as processes of this machine.

Everything about a TaskManager is on disk before it starts: a folder with a valid record claims the
process that runs from it, and a folder without a process is only a log.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from weir_operator.errors import PermanentError, ResizeRefusedError
from weir_operator.flink.commands import (
    flink_environment,
    java_options,
    task_manager_command,
)
from weir_operator.flink.configuration import (
    ClusterAddress,
    Storage,
    TaskManagerIdentity,
    task_manager_configuration,
)
from weir_operator.flink.memory import MemorySplit, split_memory
from weir_operator.runtime.processes import processes
from weir_operator.runtime.processes.class_archive import ClassArchive
from weir_operator.runtime.processes.folders import (
    AppFolder,
    ReplicaRecord,
    TaskManagerFolder,
)
from weir_operator.runtime.processes.processes import (
    LOOPBACK,
    METRIC_PORTS,
    ProcessIdentity,
    free_ports,
    metrics_url,
    reporting_port,
)
from weir_operator.runtime.protocol import Replica, ReplicaSpec
from weir_operator.runtime.settings import LocalSettings

_FILE_NAME = re.compile(r"[A-Za-z0-9_.-]+")


class LocalTaskManagers:
    """Starts, finds, sizes and ends the TaskManagers of a StreamApp."""

    def __init__(self, settings: LocalSettings, app: AppFolder) -> None:
        self._settings = settings
        self._app = app
        self._archive = ClassArchive(
            settings.installation, cache=settings.cache, workshop=app.path / "archive"
        )
        self._reporting: dict[str, int] = {}  # port by id, once it is seen to listen
        self._ending: asyncio.Task[None] | None = None  # of those that were asked to end last

    def adopt(self, found: Mapping[Path, ProcessIdentity]) -> set[Path]:
        """Claim what an earlier Weir left running; return the configuration folders claimed.

        `found` has processes by configuration folder.
        """
        claimed: set[Path] = set()
        for folder in self._app.task_managers():
            identity = found.get(folder.configuration)
            if identity is None or folder.removed:
                continue
            record = folder.replica()
            if record is None:
                continue
            # A Weir that died between record and speed file is put right here. A size that the
            # manifest no longer has keeps its old speed until the replica is changed.
            speed = self._settings.speeds.get(f"{record.pool}/{record.size}")
            if speed is not None:
                folder.record_replica(record, speed=speed)
            folder.record(identity)
            claimed.add(folder.configuration)
        return claimed

    def replicas(self) -> tuple[Replica, ...]:
        """Return those that are alive and claimed, ordered by id."""
        return tuple(
            Replica(
                id=folder.id,
                operator=record.operator,
                pool=record.pool,
                size=record.size,
                started=record.started,
                metrics_url=metrics_url(self._port(folder, record)),
            )
            for folder, record in self._claimed()
        )

    async def start(
        self, wanted: Sequence[ReplicaSpec], *, address: ClusterAddress, storage: Storage
    ) -> tuple[str, ...]:
        """Start one per spec for the JobManager at an address; return their ids."""
        await self.until_ended()
        for spec in wanted:
            self._check(spec)
        running = len(self._alive())
        limit = self._settings.max_processes
        if 1 + running + len(wanted) > limit:
            raise PermanentError(
                f"Expected at most {limit} processes, got a JobManager, {running} "
                f"TaskManagers and {len(wanted)} more to start; lower maxReplicas of the "
                "operators"
            )
        numbers = self._app.take_numbers(len(wanted))
        return tuple(
            [
                await self._start(spec, number, address=address, storage=storage)
                for spec, number in zip(wanted, numbers, strict=True)
            ]
        )

    def resize(self, sizes: Mapping[str, str]) -> None:
        """Give replicas (by id) another size of their pool, by their speed files."""
        claimed = {folder.id: (folder, record) for folder, record in self._claimed()}
        missing = sorted(set(sizes) - set(claimed))
        if missing:
            raise ResizeRefusedError(f"Expected running TaskManagers, got {missing}")
        changed = [
            (claimed[each][0], replace(claimed[each][1], size=size)) for each, size in sizes.items()
        ]
        speeds = [self._speed(record.pool, record.size) for _, record in changed]
        for (folder, record), speed in zip(changed, speeds, strict=True):
            folder.record_replica(record, speed=speed)

    async def end(self, ids: Iterable[str]) -> None:
        """Ask those of these that are alive to end; `until_ended` waits until they are gone.

        Raises:
            TemporaryError: One that was asked before did not end.
        """
        await self.until_ended()
        wanted = set(ids)
        ending = self._mark_removed(folder for folder in self._alive() if folder.id in wanted)
        processes.terminate(ending)
        self._ending = asyncio.create_task(self._wait_for_end(ending))

    async def until_ended(self) -> None:
        """Wait until those that were asked to end are gone.

        Raises:
            TemporaryError: One did not end.
        """
        if self._ending is not None:
            ending = self._ending
            try:
                # Whoever waits may be cancelled; the processes are ended all the same.
                await asyncio.shield(ending)
            finally:
                if ending.done():
                    self._ending = None

    async def end_all(self) -> None:
        """End all that are alive, and wait until they are gone."""
        try:
            await self._wait_for_end(self._mark_removed(self._alive()))
        finally:
            await self.until_ended()

    def _mark_removed(self, folders: Iterable[TaskManagerFolder]) -> dict[Path, ProcessIdentity]:
        ending: dict[Path, ProcessIdentity] = {}
        for folder in folders:
            folder.mark_removed()
            self._reporting.pop(folder.id, None)
            if (identity := folder.alive()) is not None:
                ending[folder.configuration] = identity
        return ending

    async def _wait_for_end(self, ending: Mapping[Path, ProcessIdentity]) -> None:
        await processes.end(ending, grace=self._settings.stop_grace)
        self._app.prune()

    def _alive(self) -> list[TaskManagerFolder]:
        return [folder for folder in self._app.task_managers() if folder.alive() is not None]

    def _claimed(self) -> list[tuple[TaskManagerFolder, ReplicaRecord]]:
        return [
            (folder, record)
            for folder in self._alive()
            if not folder.removed and (record := folder.replica()) is not None
        ]

    async def _start(
        self, spec: ReplicaSpec, number: int, *, address: ClusterAddress, storage: Storage
    ) -> str:
        settings = self._settings
        folder = self._app.task_manager(f"tm-{spec.operator}-{spec.pool}-{number}")
        configuration, memory = self._claim(folder, spec, address=address, storage=storage)
        folder.prepare(configuration)
        identity = processes.spawn(
            task_manager_command(
                settings.installation,
                configuration_dir=folder.configuration,
                memory=memory.jvm,
                processors=settings.pool_cores.get(spec.pool, 1),
                archive_options=await self._archive.options(),
                agent=settings.agent,
                user_options=java_options(settings.config, "taskmanager"),
            ),
            environment={
                **flink_environment(settings.installation),
                "WEIR_OPERATOR": spec.operator,
                "WEIR_POOL": spec.pool,
                "WEIR_SPEED_FILE": str(folder.speed),
            },
            output=folder.output,
        )
        folder.record(identity)
        return folder.id

    def _claim(
        self,
        folder: TaskManagerFolder,
        spec: ReplicaSpec,
        *,
        address: ClusterAddress,
        storage: Storage,
    ) -> tuple[dict[str, str], MemorySplit]:
        """Note what a TaskManager is for, and return its configuration and memory."""
        settings, ports = self._settings, free_ports(METRIC_PORTS)
        record = ReplicaRecord(
            operator=spec.operator,
            pool=spec.pool,
            size=spec.size,
            started=time.time(),
            metrics=ports,
        )
        configuration = task_manager_configuration(
            identity=TaskManagerIdentity(
                app=settings.app, id=folder.id, operator=spec.operator, pool=spec.pool
            ),
            address=address,
            storage=storage,
            memory=settings.memory_of(spec.operator, spec.pool),
            metrics_ports=ports,
            user=settings.config,
            place={
                "taskmanager.host": LOOPBACK,
                "taskmanager.bind-host": LOOPBACK,
                "io.tmp.dirs": str(folder.temporary),
            },
        )
        memory = split_memory(configuration)
        folder.record_replica(record, speed=self._speed(spec.pool, spec.size))
        return {**configuration, **memory.settings}, memory

    def _port(self, folder: TaskManagerFolder, record: ReplicaRecord) -> int:
        known = self._reporting.get(folder.id)
        if known is not None:
            return known
        port = reporting_port(folder.alive(), record.metrics)
        if port is None:
            return record.metrics[0]  # it has not started to listen
        if port == record.metrics[0]:
            # Another one may be Flink's RPC, which takes any free port and listens before the
            # reporter does: so it is not remembered.
            self._reporting[folder.id] = port
        return port

    def _check(self, spec: ReplicaSpec) -> None:
        self._speed(spec.pool, spec.size)
        for name in (spec.operator, spec.pool):
            if _FILE_NAME.fullmatch(name) is None:
                raise PermanentError(
                    f"Expected a name of letters, digits, `_`, `.` and `-`, got {name!r}; rename it"
                )

    def _speed(self, pool: str, size: str) -> float:
        node_type = f"{pool}/{size}"
        try:
            return self._settings.speeds[node_type]
        except KeyError:
            known = sorted(self._settings.speeds)
            raise PermanentError(
                f"Expected a node type out of {known}, got {node_type!r}"
            ) from None
