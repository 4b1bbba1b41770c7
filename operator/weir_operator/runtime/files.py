"""Small files that survive a crash: each exists completely, or not at all."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from weir_operator.errors import PermanentError, TemporaryError
from weir_simulator.whole_files import write_whole

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


@contextmanager
def storing(where: Path) -> Iterator[None]:
    """Turn the operating system's errors about `where` into Weir's.

    Raises:
        TemporaryError: The disk or the quota is full.
        PermanentError: Anything else, such as missing rights.
    """
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise TemporaryError(f"The disk of {where} is full; free some space there") from error
        raise PermanentError(
            f"Expected write access to {where}, got: {error.strerror or error}; "
            "change its permissions, or choose another state folder"
        ) from error


def write_atomically(path: Path, content: str | bytes) -> None:
    """Replace a file in one step; readers see the old content or the new, never a part.

    Raises:
        TemporaryError: The disk is full; the old file is untouched.
        PermanentError: The folder cannot be written.
    """
    with storing(path):
        write_whole(path, content)


def read_if_present(path: Path) -> str | None:
    """Return a file's text, or `None`."""
    content = read_bytes_if_present(path)
    return None if content is None else content.decode()


def read_bytes_if_present(path: Path) -> bytes | None:
    """Return a file's bytes, or `None`."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
