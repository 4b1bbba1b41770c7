"""Keeps the last valid spec of a StreamApp, beside what its loops have learned.

If the API server accepts a spec that the controller refuses, the job must still be managed, even
after restarts of the controller: it runs, and ends, by the last valid spec.
"""

from __future__ import annotations

import json
from pathlib import Path

import structlog

from weir_operator.api.objects import Resource
from weir_operator.errors import InvalidStreamAppError, WeirError
from weir_operator.runtime.files import read_if_present, storing, write_atomically
from weir_operator.streamapp.loading import parse_manifest
from weir_operator.streamapp.models import StreamApp

log = structlog.get_logger()

_FILE = "last-right-spec.json"


def keep_spec(folder: Path, resource: Resource) -> None:
    """Remember the spec of `resource`, which is right; the same again writes nothing.

    A disk that is full for a moment does not stop the management of a job, so it is only reported.
    """
    text = json.dumps({"uid": resource.uid, "manifest": resource.manifest}, sort_keys=True)
    path = folder / _FILE
    try:
        with storing(path):
            folder.mkdir(parents=True, exist_ok=True)
            kept = path.read_bytes() if path.exists() else b""  # torn bytes are no text
        if kept != text.encode():
            write_atomically(path, text)
    except WeirError as error:
        log.warning("the right spec is not kept", reason=str(error))


def load_spec(folder: Path, resource: Resource) -> StreamApp | None:
    """Return the last valid spec of this very object, not of a namesake before it.

    A file that cannot be read is reported and ignored, and the next valid spec replaces it.
    """
    try:
        text = read_if_present(folder / _FILE)
        kept = None if text is None else json.loads(text)
        if kept is None or kept["uid"] != resource.uid:
            return None
        manifest = kept["manifest"]
    except (OSError, RecursionError, ValueError, KeyError, TypeError) as error:
        log.warning(
            "the last right spec cannot be read", failure=f"{type(error).__name__}: {error}"
        )
        return None
    try:
        return parse_manifest(manifest)
    except InvalidStreamAppError as mistake:  # another version of Weir thought it right
        log.warning("the last right spec is not right any more", mistake=str(mistake))
        return None
