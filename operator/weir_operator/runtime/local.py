"""Flink as processes of this machine: serves `weir local` and the fast end-to-end tests.

JVMs are children in name only. They run in sessions of their own, and everything about them is on
disk before they are, so a Weir that was killed is followed by one that adopts what it left: the
JobManager and every TaskManager with a valid record. What has none, or was about to be ended, is
ended. A resize writes the replica's speed file, which jobs with synthetic work obey.

Known limit: Flink's metric reporter listens on all interfaces; everything else is on loopback.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Self

from weir_operator.errors import PermanentError, ResizeRefusedError
from weir_operator.flink.commands import (
    flink_environment,
    java_options,
    render_log4j,
    task_manager_command,
)
from weir_operator.flink.configuration import (
    TaskManagerIdentity,
    render_yaml,
    task_manager_configuration,
)
from weir_operator.flink.rest import FlinkRest
from weir_operator.runtime import processes
from weir_operator.runtime.app_lock import AppLock
from weir_operator.runtime.class_archive import ClassArchive
from weir_operator.runtime.folders import AppFolder, ReplicaRecord, TaskManagerFolder
from weir_operator.runtime.job_manager import METRIC_PORTS, LocalJobManager, metrics_port
from weir_operator.runtime.jvm_cache import memory_arguments
from weir_operator.runtime.ports import LOOPBACK, free_ports
from weir_operator.runtime.registration import wait_unregistered
from weir_operator.runtime.seam import Replica, ReplicaSpec
from weir_operator.runtime.settings import LocalSettings

UNREGISTER_LIMIT = 15.0
"""Seconds until Flink forgets a TaskManager: 0.2 if it left politely, a heartbeat's if not."""
_FILE_NAME = re.compile(r"[A-Za-z0-9_.-]+")


class LocalRuntime:
    """The `Runtime` of one StreamApp on one machine; made by `open`."""

    def __init__(
        self,
        settings: LocalSettings,
        *,
        app: AppFolder,
        lock: AppLock,
        now: Callable[[], float],
    ) -> None:
        self._settings = settings
        self._app = app
        self._lock = lock
        self._now = now
        self._job_manager = LocalJobManager(settings, app)
        # One change at a time: numbers, folders and ports are read and then written.
        self._changing = asyncio.Lock()
        self._archive = ClassArchive(
            settings.installation, cache=settings.cache, workshop=app.path / "archive"
        )
        self._metrics_ports: dict[str, int] = {}

    @classmethod
    async def open(cls, settings: LocalSettings, *, now: Callable[[], float] = time.time) -> Self:
        """Take over the StreamApp: adopt what an earlier Weir left, end what nobody claims.

        Args:
            settings: What to run and where.
            now: Unix time in seconds.

        Raises:
            AlreadySteeredError: Another Weir steers it.
            PermanentError: The folder cannot be used.
        """
        app = AppFolder((settings.root / settings.app).absolute())
        app.create()
        runtime = cls(
            settings, app=app, lock=AppLock(app.path / "weir.lock", app=settings.app), now=now
        )
        try:
            await runtime._adopt()
        except BaseException:
            runtime._lock.release()
            raise
        return runtime

    @property
    def rest_url(self) -> str:
        """Flink's REST address; may change when a JobManager is started."""
        return self._job_manager.rest_url

    @property
    def job_manager_metrics_url(self) -> str:
        """Where the JobManager's Prometheus reporter listens."""
        return f"http://{LOOPBACK}:{self._job_manager.metrics_port()}/metrics"

    @property
    def folder(self) -> Path:
        """Where the StreamApp's state and logs lie."""
        return self._app.path

    @property
    def savepoints(self) -> str:
        """URI of the folder in which savepoints are made; the cluster's default."""
        return self._job_manager.storage.savepoints

    async def ensure_job_manager(self) -> bool:
        """Start the JobManager where none runs, wait for REST; return whether it was started."""
        async with self._changing:
            before = self._job_manager.address
            started = await self._job_manager.ensure()
            if self._job_manager.address != before:
                # They look for a JobManager where none will ever be again.
                await self._end(self._alive())
            return started

    async def replicas(self) -> tuple[Replica, ...]:
        """Return the TaskManagers that are alive now, ordered by id."""
        return tuple(
            Replica(
                id=folder.id,
                operator=record.operator,
                pool=record.pool,
                size=record.size,
                started=record.started,
                metrics_url=self._metrics_url(folder, record),
            )
            for folder, record in self._claimed()
        )

    async def start(self, wanted: Sequence[ReplicaSpec]) -> tuple[str, ...]:
        """Start one TaskManager per spec, return their ids; does not wait for registration.

        Raises:
            PermanentError: A node type is unknown, or there would be too many processes.
        """
        for spec in wanted:
            self._check(spec)
        async with self._changing:
            running = len(self._alive())
            limit = self._settings.max_processes
            if 1 + running + len(wanted) > limit:
                raise PermanentError(
                    f"Expected at most {limit} processes, got a JobManager, {running} TaskManagers"
                    f" and {len(wanted)} more to start; lower maxReplicas of the operators"
                )
            numbers = self._app.take_numbers(len(wanted))
            return tuple(
                [await self._start(spec, n) for spec, n in zip(wanted, numbers, strict=True)]
            )

    async def stop(self, ids: Sequence[str]) -> None:
        """End these TaskManagers, wait until they are gone, from Flink's list too.

        Raises:
            TemporaryError: One did not end, or Flink does not forget it.
        """
        async with self._changing:
            alive = {folder.id: folder for folder in self._alive()}
            await self._end([alive[each] for each in ids if each in alive])
        if self._job_manager.alive() is not None:
            async with FlinkRest(self.rest_url) as rest:
                await wait_unregistered(rest, ids, timeout=UNREGISTER_LIMIT)

    async def resize(self, sizes: Mapping[str, str]) -> None:
        """Give replicas (by id) another size of their pool, in place.

        Raises:
            ResizeRefusedError: A replica is not alive; nothing was changed.
            PermanentError: A pool has no such size; nothing was changed.
        """
        async with self._changing:
            claimed = {folder.id: (folder, record) for folder, record in self._claimed()}
            missing = sorted(set(sizes) - set(claimed))
            if missing:
                raise ResizeRefusedError(f"Expected running TaskManagers, got {missing}")
            changed = [
                (claimed[each][0], replace(claimed[each][1], size=size))
                for each, size in sizes.items()
            ]
            speeds = [self._speed(record.pool, record.size) for _, record in changed]
            for (folder, record), speed in zip(changed, speeds, strict=True):
                folder.record_replica(record, speed=speed)

    def job_jar(self) -> str:
        """Return the path of the job's jar on this machine, to be uploaded."""
        return str(self._settings.job_jar)

    def newest_checkpoint(self, job_id: str) -> str | None:
        """Return the path of this job's newest complete checkpoint in storage, if any."""
        return self._app.newest_checkpoint(job_id)

    async def close(self) -> None:
        """End every process of the StreamApp and wait until all are gone."""
        async with self._changing:
            await self._end(self._alive())
            await self._job_manager.end()
        self._lock.release()

    async def detach(self) -> None:
        """Let go without ending anything: the job runs on and the next start adopts it."""
        self._lock.release()

    # -- TaskManagers -----------------------------------------------------------------------------

    async def _adopt(self) -> None:
        found = processes.find_under(self._app.path)
        unclaimed = dict(found)
        for folder in (self._app.job_manager, *self._app.task_managers()):
            identity = found.get(folder.configuration)
            if identity is None:
                continue
            if isinstance(folder, TaskManagerFolder):
                record = folder.replica()
                if record is None or folder.removed:
                    continue
                # A Weir that died between record and speed file is put right here.
                folder.record_replica(record, speed=self._speed(record.pool, record.size))
            folder.record(identity)
            del unclaimed[folder.configuration]
        await processes.end(unclaimed, grace=self._settings.stop_grace)
        self._app.prune(keep=self._settings.kept_folders)

    def _alive(self) -> list[TaskManagerFolder]:
        return [folder for folder in self._app.task_managers() if folder.alive() is not None]

    def _claimed(self) -> list[tuple[TaskManagerFolder, ReplicaRecord]]:
        return [
            (folder, record)
            for folder in self._alive()
            if not folder.removed and (record := folder.replica()) is not None
        ]

    async def _start(self, spec: ReplicaSpec, number: int) -> str:
        settings = self._settings
        id_ = f"tm-{spec.operator}-{spec.pool}-{number}"
        folder = self._app.task_manager(id_)
        ports = free_ports(METRIC_PORTS)
        configuration = task_manager_configuration(
            identity=TaskManagerIdentity(
                app=settings.app, id=id_, operator=spec.operator, pool=spec.pool
            ),
            address=self._job_manager.address,
            storage=self._job_manager.storage,
            memory=settings.memory_of(spec.operator, spec.pool),
            metrics_ports=ports,
            user=settings.config,
            place={
                "taskmanager.host": LOOPBACK,
                "taskmanager.bind-host": LOOPBACK,
                "io.tmp.dirs": str(folder.temporary),
            },
        )
        memory = await memory_arguments(
            settings.installation, cache=settings.cache, configuration=configuration
        )
        record = ReplicaRecord(
            operator=spec.operator,
            pool=spec.pool,
            size=spec.size,
            started=self._now(),
            metrics=ports,
        )
        folder.record_replica(record, speed=self._speed(spec.pool, spec.size))
        folder.prepare(
            configuration=render_yaml(configuration),
            log4j=render_log4j(folder.log / "flink.log"),
        )
        identity = processes.spawn(
            task_manager_command(
                settings.installation,
                configuration_dir=folder.configuration,
                memory=memory,
                archive_options=await self._archive.options(memory),
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
        return id_

    async def _end(self, folders: Iterable[TaskManagerFolder]) -> None:
        ending = {}
        for folder in folders:
            folder.mark_removed()
            self._metrics_ports.pop(folder.id, None)
            if (identity := folder.alive()) is not None:
                ending[folder.configuration] = identity
        await processes.end(ending, grace=self._settings.stop_grace)
        self._app.prune(keep=self._settings.kept_folders)

    def _metrics_url(self, folder: TaskManagerFolder, record: ReplicaRecord) -> str:
        port = self._metrics_ports.get(folder.id)
        if port is None:
            identity = folder.alive()
            port = metrics_port(identity, record.metrics)
            if identity is not None and port in processes.listening_ports(identity.pid):
                self._metrics_ports[folder.id] = port  # it listens: this does not change any more
        return f"http://{LOOPBACK}:{port}/metrics"

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
