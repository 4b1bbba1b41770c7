"""The state of a job in the storage, when its JobManager no longer knows it.

Only Flink has the plugins and credentials of the storage, so the JobManager lists it
(`java/dev/weir/FindState.java`). Measured on Flink 2.3.0: 0.2 s, upload included.

Besides what every program raises (`programs`), there is a `TemporaryError` where the storage gives
an error.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from weir_operator.errors import TemporaryError
from weir_operator.flink.causes import root_cause
from weir_operator.flink.configuration import Storage
from weir_operator.flink.programs import ask_program, read_lines
from weir_operator.flink.rest import FlinkRest

MAIN = "dev.weir.FindState"
REMOVE = "dev.weir.RemoveEmptyFolders"
READ = "dev.weir.ReadSavepoint"
_MARK = "weir-state"
_HEAD = struct.Struct(">iiq")
"""What a `_metadata` begins with: Flink's magic number, a version, the number of the snapshot
(Flink 2.3.0, `Checkpoints.storeCheckpointMetadata`)."""

HEAD_BYTES = _HEAD.size
_MAGIC = 0x4960672D
_UNREADABLE = 2**63 - 1


async def list_snapshots(rest: FlinkRest, job_id: str, storage: Storage) -> tuple[str, ...]:
    """Return the job's complete savepoints and checkpoints in the storage, oldest first."""
    trace = await ask_program(rest, MAIN, (job_id, storage.checkpoints, storage.savepoints))
    if not trace:
        raise TemporaryError(
            f"Expected the list of the state of job {job_id} in the storage, got a plan"
        )
    return read_answer(trace)


async def remove_empty_folders(rest: FlinkRest, job_ids: Sequence[str], storage: Storage) -> None:
    """Remove the folders of ended jobs in the storage of checkpoints, where nothing is in them."""
    read_answer(await ask_program(rest, REMOVE, (storage.checkpoints, *job_ids)))


async def savepoint_stopped_job(rest: FlinkRest, path: str) -> bool | None:
    """Return whether a savepoint was taken to stop its job; `None` where it does not say.

    Args:
        rest: The JobManager that looks; it need not know the job.
        path: Of the savepoint.
    """
    trace = await ask_program(rest, READ, (path,))
    lines = read_lines(trace, "weir-savepoint")
    if not lines:
        raise TemporaryError(f"Savepoint {path} cannot be read: {root_cause(trace)}")
    return {"stop": True, "running": False}.get(lines[0])


def snapshot_number(head: bytes) -> int:
    """Return the number of a snapshot from the first `HEAD_BYTES` of its `_metadata`. Pure.

    Flink counts the checkpoints and savepoints of a job in one row, so the largest is the newest,
    whatever the clocks say. What Flink did not write counts as newest: Flink then refuses it and
    says why, where older state would else stand in for it without a word.
    """
    if len(head) < HEAD_BYTES:
        return _UNREADABLE
    magic, _, number = _HEAD.unpack(head)
    return number if magic == _MAGIC else _UNREADABLE


def read_answer(trace: str) -> tuple[str, ...]:
    """Return the paths in an answer, oldest first. Pure.

    Raises:
        TemporaryError: It is no whole answer: the storage could not be looked at.
    """
    lines = read_lines(trace, _MARK)
    if lines is None:
        raise TemporaryError(
            f"The storage of checkpoints and savepoints cannot be listed: {root_cause(trace)}"
        )
    found = []
    for line in lines:
        number, _, path = line.partition(" ")
        found.append((int(number), path))
    return tuple(path for _, path in sorted(found))
