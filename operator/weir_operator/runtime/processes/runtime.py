"""Flink as processes of this machine, for `weir local` and the fast end-to-end tests.

JVMs run in their own sessions, and everything about them is on disk before they start. So after
Weir was killed, the next Weir adopts the JobManager and every TaskManager with a valid record. It
ends processes without a record, and those that were about to be ended. A resize writes the
replica's speed file, which jobs with synthetic work obey.

Known limit: Flink's metric reporter listens on all interfaces; everything else is on loopback.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Self

import structlog

from weir_operator.errors import PermanentError, TemporaryError
from weir_operator.flink.rest import FlinkRest
from weir_operator.flink.stored_state import savepoint_stopped_job
from weir_operator.runtime.processes import processes
from weir_operator.runtime.processes.folders import AppFolder, AppLock
from weir_operator.runtime.processes.job_manager import LocalJobManager
from weir_operator.runtime.processes.task_managers import LocalTaskManagers
from weir_operator.runtime.protocol import CheckProgram, Replica, ReplicaSpec
from weir_operator.runtime.registration import forgotten_within, wait_unregistered
from weir_operator.runtime.revision import Revision
from weir_operator.runtime.settings import LocalSettings

log = structlog.get_logger()


class LocalRuntime:
    """The `Runtime` of one StreamApp on one machine; made by `open`."""

    job_manager_process = ""  # one that was lost has lost its session, which is reported
    listed_within = 0.0
    agent: None = None

    def __init__(
        self,
        settings: LocalSettings,
        *,
        app: AppFolder,
        lock: AppLock | None,
    ) -> None:
        self._settings = settings
        self._job_jar = str(settings.job_jar)
        self._uploaded: dict[str, tuple[int, str]] = {}  # date and Flink's id by path
        self._app = app
        self._lock = lock
        self._job_manager = LocalJobManager(settings, app)
        self._task_managers = LocalTaskManagers(settings, app)
        # One change at a time: numbers, folders and ports are read and then written.
        self._changing = asyncio.Lock()

    @classmethod
    async def open(
        cls,
        settings: LocalSettings,
        *,
        lock: AppLock | None = None,
    ) -> Self:
        """Open the StreamApp: adopt what an earlier Weir left, end what has no valid record.

        Args:
            settings: What to run and where.
            lock: The right to manage the StreamApp, which its holder releases; `None` takes it,
                and releases it at the end.

        Raises:
            AlreadySteeredError: Another Weir manages it.
            PermanentError: The folder cannot be used.
        """
        app = AppFolder((settings.root / settings.app).absolute())
        app.create()
        own = AppLock(app.lock, app=settings.app) if lock is None else None
        try:
            runtime = cls(settings, app=app, lock=own)
            await runtime._adopt()
        except BaseException:
            if own is not None:
                own.release()
            raise
        return runtime

    async def _adopt(self) -> None:
        found = processes.find_under(self._app.path)
        claimed = self._job_manager.adopt(found) | self._task_managers.adopt(found)
        await processes.end(
            {folder: identity for folder, identity in found.items() if folder not in claimed},
            grace=self._settings.stop_grace,
        )
        self._app.prune()

    @property
    def folder(self) -> Path:
        """The folder of the StreamApp's state and logs."""
        return self._app.path

    @property
    def rest_url(self) -> str:
        """Flink's REST address; may change when a JobManager is started."""
        return self._job_manager.rest_url

    def use(self, revision: Revision) -> None:
        """Take the jar of a revision; the processes are the same for all of them."""
        jar = revision.processes.get("jar")
        if isinstance(jar, str):
            self._job_jar = jar

    async def find_misfit(
        self, revision: Revision, pools: Collection[str], check: CheckProgram | None = None
    ) -> str:
        """Return why the program of `revision` would not run; the machine takes any process.

        One JobManager serves all revisions, so that which runs is asked.
        """
        if check is None:
            return ""
        jar = revision.processes.get("jar")
        try:
            await check(self.rest_url, await self._upload(str(jar) if jar else self._job_jar))
        except TemporaryError as error:
            log.info("program not checked", app=self._settings.app, failure=str(error))
        except PermanentError as error:
            return str(error)
        return ""

    async def begin_job_manager(self) -> None:
        """Do nothing: one process serves all revisions."""

    async def ensure_job_manager(self) -> bool:
        """Start the JobManager where none runs, wait for REST; return whether it was started."""
        async with self._changing:
            before = self._job_manager.address
            try:
                return await self._job_manager.ensure()
            finally:
                if self._job_manager.address != before:
                    # They look for a JobManager where none will ever be again.
                    await self._task_managers.end_all()

    async def replicas(self) -> tuple[Replica, ...]:
        """Return the TaskManagers that are alive now, ordered by id."""
        return self._task_managers.replicas()

    async def start(self, wanted: Sequence[ReplicaSpec]) -> tuple[str, ...]:
        """Start one TaskManager per spec, return their ids; does not wait for registration."""
        async with self._changing:
            return await self._task_managers.start(
                wanted, address=self._job_manager.address, storage=self._job_manager.storage
            )

    async def prepare_stop(self, ids: Sequence[str]) -> None:
        """Do nothing: processes end at once."""

    async def end_boosts(self) -> None:
        """Do nothing: a process has the whole machine while it starts."""

    async def stop(self, ids: Sequence[str]) -> None:
        """End these TaskManagers and wait until Flink counts on them no more.

        Their processes take a moment longer to be gone, for which only the next change and the end
        of the runtime wait.
        """
        async with self._changing:
            await self._task_managers.end(ids)
            if self._job_manager.alive() is None:
                await self._task_managers.until_ended()
                return
        async with FlinkRest(self.rest_url) as rest:
            limit = forgotten_within(self._settings.config)
            await wait_unregistered(rest, ids, timeout=limit)

    async def resize(self, sizes: Mapping[str, str]) -> None:
        """Give replicas (by id) another size of their pool, in place."""
        async with self._changing:
            self._task_managers.resize(sizes)

    async def provide_jar(self) -> str:
        """Return the id under which the JobManager has the job's jar, uploaded where it must be."""
        return await self._upload(self._job_jar)

    async def _upload(self, jar: str) -> str:
        file = Path(jar)  # which may have been built again since
        edition = file.stat().st_mtime_ns if file.is_file() else 0
        async with FlinkRest(self.rest_url) as rest:
            date, known = self._uploaded.get(jar, (0, ""))
            if date != edition or known not in await rest.jars():
                # No job is made of a former copy any more.
                await rest.delete_jar(known)
                known = await rest.upload_jar(jar)
                self._uploaded[jar] = edition, known
        return known

    async def snapshots(self, job_id: str) -> tuple[str, ...]:
        """Return the job's complete savepoints and checkpoints in the storage, oldest first."""
        return await asyncio.to_thread(self._app.snapshots, job_id)

    async def savepoint_stopped_job(self, path: str) -> bool | None:
        """Return whether a savepoint was taken to stop its job; `None` where it does not say."""
        async with FlinkRest(self.rest_url) as rest:
            return await savepoint_stopped_job(rest, path)

    async def remove_empty_folders(self, job_ids: Sequence[str]) -> None:
        """Remove the empty folders that ended jobs left among the checkpoints."""
        await asyncio.to_thread(self._app.remove_empty_folders, job_ids)

    async def close(self) -> None:
        """End every process of the StreamApp and wait until all are gone."""
        try:
            async with self._changing:
                await self._task_managers.end_all()
                await self._job_manager.end()
        finally:
            self._release()

    async def detach(self) -> None:
        """Close without ending anything more: the job runs on, and the next start adopts it."""
        try:
            await self._task_managers.until_ended()
        finally:
            self._release()

    def _release(self) -> None:
        if self._lock is not None:
            self._lock.release()
