"""Writes files that are complete or absent, however the process ends."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def write_whole(path: Path, content: str | bytes, *, shared: bool = False) -> None:
    """Replace a file in one step: readers see the old content or the new, never a part.

    Text becomes UTF-8. A file is readable by its owner only, or `shared` as any new file is.

    Raises:
        OSError: It cannot be written; what was there before is left as it was.
    """
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        if shared:
            mask = os.umask(0)  # it can only be read by setting it
            os.umask(mask)
            os.chmod(temporary, 0o666 & ~mask)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
