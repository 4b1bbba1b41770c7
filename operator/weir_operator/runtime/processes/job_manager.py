"""The JobManager of one StreamApp as a process of this machine."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from pathlib import Path

from weir_operator.errors import PermanentError, TemporaryError
from weir_operator.flink.causes import cause_in_log
from weir_operator.flink.commands import (
    flink_environment,
    java_options,
    job_manager_command,
)
from weir_operator.flink.configuration import (
    ClusterAddress,
    Storage,
    job_manager_configuration,
)
from weir_operator.flink.memory import split_job_manager
from weir_operator.flink.rest import FlinkRest
from weir_operator.runtime.processes import processes
from weir_operator.runtime.processes.folders import AppFolder, JobManagerPorts
from weir_operator.runtime.processes.processes import (
    LOOPBACK,
    METRIC_PORTS,
    ProcessIdentity,
    free_ports,
)
from weir_operator.runtime.settings import LocalSettings

_ATTEMPTS = 3  # starts, each with other ports, before giving up
_POLL = 0.05  # seconds between two questions while it starts
_PORT_TAKEN = re.compile(r"BindException|Address already in use|Could not start rest endpoint on")


class LocalJobManager:
    """Starts, finds and ends the one JobManager of a StreamApp.

    Its ports stay the same over restarts, so that TaskManagers find it again; only when another
    program has taken one of them are new ones chosen.
    """

    def __init__(self, settings: LocalSettings, app: AppFolder) -> None:
        self._settings = settings
        self._app = app
        self._folder = app.job_manager
        self._ports = self._folder.ports() or self._choose_ports()

    @property
    def address(self) -> ClusterAddress:
        """Its address."""
        return ClusterAddress(host=LOOPBACK, rpc_port=self._ports.rpc, rest_port=self._ports.rest)

    @property
    def storage(self) -> Storage:
        """Where state goes."""
        return Storage(
            checkpoints=self._app.checkpoints.as_uri(), savepoints=self._app.savepoints.as_uri()
        )

    @property
    def rest_url(self) -> str:
        """Flink's REST address."""
        return f"http://{LOOPBACK}:{self._ports.rest}"

    def alive(self) -> ProcessIdentity | None:
        """Return its process, `None` where none runs."""
        return self._folder.alive()

    def adopt(self, found: Mapping[Path, ProcessIdentity]) -> set[Path]:
        """Claim the one that an earlier Weir left running; return its configuration folder."""
        identity = found.get(self._folder.configuration)
        if identity is None:
            return set()
        self._folder.record(identity)
        return {self._folder.configuration}

    async def ensure(self) -> bool:
        """Start it where none runs and wait until it answers; return whether it was started.

        Raises:
            TemporaryError: It does not answer in time, and was ended.
            PermanentError: It cannot start, for the reason that its log gives.
        """
        identity = self._folder.alive()
        if identity is not None and await self._answers(identity):
            return False
        for _ in range(_ATTEMPTS):
            if await self._answers(self._start()):
                return True
            log = self._folder.logged()
            if _PORT_TAKEN.search(log) is None:
                raise PermanentError(
                    f"The JobManager of {self._settings.app} exited at once: "
                    f"{cause_in_log(log)}; its log is in {self._folder.log}"
                )
            # Whoever took the port may keep it, and TaskManagers that know the old one are lost.
            self._ports = self._choose_ports()
        raise TemporaryError(
            f"The ports of the JobManager of {self._settings.app} were in use "
            f"{_ATTEMPTS} times; another program takes ports as fast as they become "
            "free"
        )

    async def end(self) -> None:
        """End it and wait until it is gone."""
        identity = self._folder.alive()
        if identity is not None:
            await processes.end(
                {self._folder.configuration: identity}, grace=self._settings.stop_grace
            )

    def _choose_ports(self) -> JobManagerPorts:
        rpc, rest, *metrics = free_ports(2 + METRIC_PORTS)
        ports = JobManagerPorts(rpc=rpc, rest=rest, metrics=tuple(metrics))
        self._folder.record_ports(ports)
        return ports

    def _start(self) -> ProcessIdentity:
        settings, folder = self._settings, self._folder
        configuration = job_manager_configuration(
            app=settings.app,
            address=self.address,
            storage=self.storage,
            metrics_ports=self._ports.metrics,
            max_parallelism=settings.max_parallelism,
            user=settings.config,
            place={
                "jobmanager.bind-host": LOOPBACK,
                "rest.bind-address": LOOPBACK,
                # The range has one port only: another would not be where Weir looks.
                "rest.bind-port": str(self._ports.rest),
                "io.tmp.dirs": str(folder.temporary),
                "web.upload.dir": str(self._app.jars),
            },
        )
        folder.clear_log()
        self._app.forget_jars()
        folder.prepare(configuration)
        identity = processes.spawn(
            job_manager_command(
                settings.installation,
                configuration_dir=folder.configuration,
                memory=split_job_manager(settings.config, process=settings.job_manager_memory).jvm,
                agent=settings.agent,
                user_options=java_options(settings.config, "jobmanager"),
            ),
            environment=flink_environment(settings.installation),
            output=folder.output,
        )
        folder.record(identity)
        return identity

    async def _answers(self, identity: ProcessIdentity) -> bool:
        """Wait until it answers; return False where it has ended instead."""
        limit = self._settings.start_limit
        loop = asyncio.get_running_loop()
        deadline = loop.time() + limit
        async with FlinkRest(self.rest_url) as rest:
            while processes.is_alive(identity, self._folder.configuration):
                if await self._serves(identity, rest, deadline - loop.time()):
                    return True
                if loop.time() >= deadline:
                    await self.end()
                    raise TemporaryError(
                        f"The JobManager of {self._settings.app} did not answer within {limit:g} "
                        f"s, so Weir ended it; its log is in {self._folder.log}"
                    )
                await asyncio.sleep(_POLL)
        return False

    async def _serves(self, identity: ProcessIdentity, rest: FlinkRest, left: float) -> bool:
        # Asking the port alone might reach a stranger that took it.
        if self._ports.rest not in processes.listening_ports(identity.pid):
            return False
        try:
            await rest.version(timeout=max(left, 1.0))
        except TemporaryError:
            return False  # it listens before it has elected itself
        return True
