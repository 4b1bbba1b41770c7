"""The last spec of a StreamApp that was right, kept beside what its loops have learned.

A spec that the API server takes and the controller refuses must not part a job from its keeper,
however often the controller starts anew meanwhile: the job goes on, and ends, by the spec before.
"""

from __future__ import annotations

import json
from pathlib import Path

import structlog

from weir_operator.cluster.objects import Resource
from weir_operator.errors import InvalidStreamAppError, WeirError
from weir_operator.runtime.files import storing, write_atomically
from weir_operator.streamapp.loading import parse_manifest
from weir_operator.streamapp.models import StreamApp

log = structlog.get_logger()

_FILE = "last-right-spec.json"


def keep_spec(folder: Path, resource: Resource) -> None:
    """Remember the spec of `resource`, which is right; the same again writes nothing.

    A disk that is full for a moment keeps no job from being steered, so it is only told.
    """
    text = json.dumps({"uid": resource.uid, "manifest": resource.manifest}, sort_keys=True)
    path = folder / _FILE
    try:
        with storing(path):
            folder.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            write_atomically(path, text)
    except WeirError as error:
        log.warning("the right spec is not kept", reason=str(error))


def recall_spec(folder: Path, resource: Resource) -> StreamApp | None:
    """Return the last right spec of this very object, not of a namesake before it."""
    path = folder / _FILE
    if not path.exists():
        return None
    kept = json.loads(path.read_text(encoding="utf-8"))
    if kept["uid"] != resource.uid:
        return None
    try:
        return parse_manifest(kept["manifest"])
    except InvalidStreamAppError as mistake:  # another version of Weir thought it right
        log.warning("the last right spec is not right any more", mistake=str(mistake))
        return None
