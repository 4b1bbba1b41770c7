"""Where a StreamApp's state lies on disk, and what the files in it mean.

    <root>/<namespace>.<name>/
        weir.lock            held by the Weir that manages it, with its process id
        next-replica         number of the next TaskManager; a number is never given twice
        jm/                  a process folder; `ports.json` beside it
        tm/<id>/             a process folder; `replica.json`, `speed`, `removed` beside it
        checkpoints/ savepoints/ jars/

A process folder holds `conf/`, `log/`, `tmp/` and `pid.json`. The folder with its configuration is
there before the process is, and `pid.json` after it, so a process without a record is found by its
command line; a folder without a process is only a log.

One Weir per StreamApp: a lock that the kernel drops when its holder dies, however it dies.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, TypeVar

from pydantic import TypeAdapter, ValidationError

from weir_operator.errors import AlreadySteeredError
from weir_operator.flink.commands import render_log4j
from weir_operator.flink.configuration import render_yaml
from weir_operator.flink.stored_state import HEAD_BYTES, snapshot_number
from weir_operator.runtime.files import read_if_present, storing, write_atomically
from weir_operator.runtime.processes.processes import ProcessIdentity, is_alive

KEPT = 5
"""Folders of ended TaskManagers that stay, for their logs."""


class AppLock:
    """The exclusive right to manage one StreamApp, held from construction until `release`.

    Raises:
        AlreadySteeredError: Another Weir holds it.
    """

    def __init__(self, path: Path, *, app: str) -> None:
        with storing(path):
            # Not inherited by children: Python opens files close-on-exec.
            self._file: IO[str] = path.open("a+", encoding="utf-8")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            self._file.seek(0)
            holder = self._file.read().strip() or "unknown"
            self._file.close()
            raise AlreadySteeredError(
                f"Process {holder} already runs StreamApp {app}; end it first"
            ) from error
        self._file.truncate(0)
        self._file.write(f"{os.getpid()}\n")
        self._file.flush()

    def release(self) -> None:
        """Release it; a second call changes nothing."""
        self._file.close()


@contextmanager
def hold_app(root: Path, app: str) -> Iterator[AppLock]:
    """Hold the right to manage a StreamApp, whose folder is made.

    Args:
        root: Folder of all StreamApps' state.
        app: `NAMESPACE.NAME`.

    Raises:
        AlreadySteeredError: Another Weir holds it.
        PermanentError: The folder cannot be used.
    """
    folder = AppFolder((root / app).absolute())
    folder.create()
    lock = AppLock(folder.lock, app=app)
    try:
        yield lock
    finally:
        lock.release()


def refuse_second_weir(root: Path, app: str) -> None:
    """Refuse a StreamApp that another Weir manages; nothing is made or held.

    Raises:
        AlreadySteeredError: Another Weir manages it.
    """
    path = AppFolder((root / app).absolute()).lock
    if path.exists():
        AppLock(path, app=app).release()


T = TypeVar("T")


def _read(path: Path, kind: type[T]) -> T | None:
    """Return the record in a file; `None` where there is none, or something else."""
    text = read_if_present(path)
    try:
        return None if text is None else TypeAdapter(kind).validate_json(text)
    except ValidationError:
        return None


class ProcessFolder:
    """The folder of one process."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.configuration = path / "conf"
        self.log = path / "log"
        self.output = self.log / "output.txt"
        self.temporary = path / "tmp"
        self._identity = path / "pid.json"

    def prepare(self, configuration: Mapping[str, str]) -> None:
        """Write what the process needs to start: Flink's configuration, and where it logs."""
        with storing(self.path):
            for folder in (self.configuration, self.log, self.temporary):
                folder.mkdir(parents=True, exist_ok=True)
        write_atomically(self.configuration / "config.yaml", render_yaml(configuration))
        log4j = render_log4j(self.log / "flink.log")
        write_atomically(self.configuration / "log4j.properties", log4j)

    def record(self, identity: ProcessIdentity) -> None:
        """Note which process runs from here."""
        write_atomically(self._identity, json.dumps(asdict(identity)))

    def alive(self) -> ProcessIdentity | None:
        """Return the process that runs from here, or `None`."""
        identity = _read(self._identity, ProcessIdentity)
        if identity is None:
            return None  # or not written by us: the command line shows it, at the next start
        return identity if is_alive(identity, self.configuration) else None

    def clear_log(self) -> None:
        """Put the last process's log aside, so that a cause found in the log is the new one's."""
        for name in (self.output.name, "flink.log"):
            with storing(self.log):
                if (self.log / name).exists():
                    (self.log / name).replace(self.log / f"{name}.before")

    def logged(self) -> str:
        """Return what the process wrote since it was started, to look for a cause."""
        files = (self.log / "flink.log", self.output)
        return "\n".join(read_if_present(file) or "" for file in files)


@dataclass(frozen=True, kw_only=True, slots=True)
class JobManagerPorts:
    """Where a JobManager listens."""

    rpc: int
    rest: int
    metrics: tuple[int, ...]
    """Candidates of the metric reporter; it takes the first that is free."""


class JobManagerFolder(ProcessFolder):
    """The JobManager's folder."""

    def ports(self) -> JobManagerPorts | None:
        """Return the ports that were chosen, `None` where none were."""
        return _read(self.path / "ports.json", JobManagerPorts)

    def record_ports(self, ports: JobManagerPorts) -> None:
        """Note the ports."""
        with storing(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
        write_atomically(self.path / "ports.json", json.dumps(asdict(ports)))


@dataclass(frozen=True, kw_only=True, slots=True)
class ReplicaRecord:
    """What a TaskManager is for; its presence says that the StreamApp claims it."""

    operator: str
    pool: str
    size: str
    started: float
    """Unix time."""
    metrics: tuple[int, ...]
    """Candidates of the metric reporter."""


class TaskManagerFolder(ProcessFolder):
    """A TaskManager's folder, named by its id."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.id = path.name
        self.speed = path / "speed"

    def replica(self) -> ReplicaRecord | None:
        """Return what it is for, `None` where no valid record claims it."""
        return _read(self.path / "replica.json", ReplicaRecord)

    def record_replica(self, record: ReplicaRecord, *, speed: float) -> None:
        """Note what it is for, and how fast it is from now on."""
        with storing(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
        write_atomically(self.path / "replica.json", json.dumps(asdict(record)))
        write_atomically(self.speed, f"{speed!r}\n")

    @property
    def removed(self) -> bool:
        """Whether its end was decided."""
        return (self.path / "removed").exists()

    def mark_removed(self) -> None:
        """Note that it will end, before it gets the signal, so that nobody adopts it half-way."""
        write_atomically(self.path / "removed", "")


class AppFolder:
    """The folder of one StreamApp."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lock = path / "weir.lock"
        self.job_manager = JobManagerFolder(path / "jm")
        self.checkpoints = path / "checkpoints"
        self.savepoints = path / "savepoints"
        self.jars = path / "jars"
        self._task_managers = path / "tm"
        self._next = path / "next-replica"

    def create(self) -> None:
        """Make the folder."""
        with storing(self.path):
            for folder in (self.checkpoints, self.savepoints, self.jars, self._task_managers):
                folder.mkdir(parents=True, exist_ok=True)

    def task_manager(self, id: str) -> TaskManagerFolder:  # noqa: A002 - Flink's word
        """Return the folder of a TaskManager, which need not exist."""
        return TaskManagerFolder(self._task_managers / id)

    def task_managers(self) -> tuple[TaskManagerFolder, ...]:
        """Return the folders of all TaskManagers that are or were, ordered by id."""
        return tuple(TaskManagerFolder(path) for path in sorted(self._task_managers.iterdir()))

    def take_numbers(self, count: int) -> range:
        """Return numbers that were never taken before, nor will be again."""
        text = read_if_present(self._next)
        first = int(text) if text is not None and text.strip().isdigit() else self._after_folders()
        write_atomically(self._next, f"{first + count}\n")
        return range(first, first + count)

    def _after_folders(self) -> int:
        """Return a number above all that the folders still show, should the counter be lost."""
        tails = (folder.id.rsplit("-", 1)[-1] for folder in self.task_managers())
        return 1 + max((int(tail) for tail in tails if tail.isdigit()), default=0)

    def prune(self) -> None:
        """Delete the folders of ended TaskManagers but the newest."""
        ended = [folder for folder in self.task_managers() if folder.alive() is None]
        ended.sort(key=lambda folder: folder.path.stat().st_mtime, reverse=True)
        for folder in ended:
            shutil.rmtree(folder.temporary, ignore_errors=True)
        for folder in ended[KEPT:]:
            shutil.rmtree(folder.path, ignore_errors=True)

    def forget_jars(self) -> None:
        """Delete what was uploaded to an earlier JobManager: a new one gets the jar again."""
        shutil.rmtree(self.jars, ignore_errors=True)
        with storing(self.jars):
            self.jars.mkdir()

    def snapshots(self, job_id: str) -> tuple[str, ...]:
        """Return the complete checkpoints and savepoints of a job, oldest first.

        Flink writes the metadata last, and begins a savepoint's name with the job's first digits.
        """
        complete = []
        for file in (
            *self.checkpoints.glob(f"{job_id}/chk-*/_metadata"),
            *self.savepoints.glob(f"savepoint-{job_id[:6]}-*/_metadata"),
        ):
            try:
                with file.open("rb") as metadata:
                    head = metadata.read(HEAD_BYTES)
            except FileNotFoundError:
                continue  # Flink has replaced it by a newer one in this moment
            if head:
                complete.append((snapshot_number(head), str(file.parent)))
        return tuple(path for _, path in sorted(complete))

    def remove_empty_folders(self, job_ids: Iterable[str]) -> None:
        """Remove the folders of ended jobs among the checkpoints, where nothing is in them."""
        for job_id in job_ids:
            folder = self.checkpoints / job_id
            with storing(folder):
                for each in (folder / "shared", folder / "taskowned", folder):
                    if each.is_dir() and not any(each.iterdir()):
                        each.rmdir()
