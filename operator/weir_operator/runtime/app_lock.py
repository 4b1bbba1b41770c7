"""One Weir per StreamApp: a lock that the kernel drops when its holder dies, however it dies."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import IO

from weir_operator.errors import AlreadySteeredError
from weir_operator.runtime.files import storing


class AppLock:
    """The exclusive right to steer one StreamApp, held from construction until `release`.

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
                f"StreamApp {app} is steered by process {holder} already; end that one first"
            ) from error
        self._file.truncate(0)
        self._file.write(f"{os.getpid()}\n")
        self._file.flush()

    def release(self) -> None:
        """Let go; a second call changes nothing."""
        self._file.close()
