"""Tunings in their own process: one machine, no cluster.

The process is tied to this one by its standard input: if Weir dies, the tuning ends. It leads a
process group, so that its child processes end with it too. Its request is stored under the tuning's
name, and evaluations that were made are not repeated.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import sys
from pathlib import Path

from weir_operator.limits import TUNING_RESULT, TooLargeError, read_end, read_file
from weir_operator.runtime.files import storing
from weir_operator.tuning.protocol import (
    REFUSED,
    TuningLostError,
    TuningRefusedError,
    pack_request,
    read_answer,
)
from weir_simulator.tuning.order import TuningRequest, TuningResult

WORKER = (sys.executable, "-m", "weir_operator.tuning.worker")
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
LONGEST_SENTENCE = 400
"""Characters of what the process says on its way out."""


class ProcessTuner:
    """Makes tunings as processes, one at a time."""

    def __init__(self, folder: Path, *, deadline: float, command: tuple[str, ...] = WORKER) -> None:
        """Create the tuner.

        Args:
            folder: Of the tunings; each gets one of its own in it, and those before are removed.
            deadline: Seconds after which a process that has not answered is ended.
            command: What is run, with the file of the request and the folder as arguments.
        """
        self._folder = folder
        self.deadline = deadline
        self._command = command

    async def tune(self, request: TuningRequest, *, name: str) -> TuningResult:
        """Return the result of the request; see `Tuner`."""
        folder = self._folder / name
        await asyncio.to_thread(self._prepare, folder, request)
        process = await self._start(folder)
        try:
            async with asyncio.timeout(self.deadline):
                status = await process.wait()
        except TimeoutError as error:
            raise TuningLostError(
                f"Expected a result within {self.deadline:.0f} s, got none: Weir ended the tuning"
            ) from error
        finally:
            _end_group(process)
            await process.wait()
            if process.stdin is not None:
                process.stdin.close()
        if status != 0:
            raise _failure(status, folder)
        return await asyncio.to_thread(_read, folder / "answer.json")

    def _prepare(self, folder: Path, request: TuningRequest) -> None:
        """Write the request down, and remove what tunings before it left."""
        with storing(self._folder):
            folder.mkdir(parents=True, exist_ok=True)
            for other in self._folder.iterdir():
                if other != folder and other.is_dir():
                    shutil.rmtree(other)
            packed = pack_request(request)
            kept = folder / "work.json.gz"
            if kept.exists() and kept.read_bytes() != packed:
                # Another request under its name, of no use for this.
                shutil.rmtree(folder)
                folder.mkdir()
            (folder / "answer.json").unlink(missing_ok=True)
            kept.write_bytes(packed)

    async def _start(self, folder: Path) -> asyncio.subprocess.Process:
        with storing(folder), (folder / "log.txt").open("wb") as output:
            return await asyncio.create_subprocess_exec(
                *self._command,
                str(folder / "work.json.gz"),
                str(folder),
                "--tied",
                stdin=asyncio.subprocess.PIPE,
                stdout=output,
                stderr=output,
                start_new_session=True,
                # Its own libraries must not take every core from the job beside it.
                env={**os.environ, **ONE_THREAD},
            )


def _end_group(process: asyncio.subprocess.Process) -> None:
    """End a process and everything that it has begun."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _failure(status: int, folder: Path) -> TuningLostError | TuningRefusedError:
    if status < 0:
        return TuningLostError(f"Signal {-status} ended the process of the tuning")
    said = read_end(folder / "log.txt").strip()
    last = said.splitlines()[-1][:LONGEST_SENTENCE] if said else "without a message"
    if status == REFUSED:
        return TuningRefusedError(last)
    return TuningLostError(f"The process of the tuning ended with status {status}: {last}")


def _read(path: Path) -> TuningResult:
    try:
        return read_answer(read_file(path, TUNING_RESULT.bytes))
    except TooLargeError as error:
        raise TuningLostError(f"Weir cannot read the result of the tuning: {error}") from error
    except FileNotFoundError as error:
        raise TuningLostError(f"Expected a result in {path}, got none") from error
