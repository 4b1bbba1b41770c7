"""Plain values that are kept for long and read seldom: as objects, a status takes 25 KiB."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping

from pydantic.types import JsonValue
from pydantic_core import from_json


def pack(values: Mapping[str, JsonValue]) -> bytes:
    """Return an object in a few bytes."""
    return zlib.compress(json.dumps(values, separators=(",", ":")).encode(), level=1)


def unpack(packed: bytes) -> dict[str, JsonValue]:
    """Return an object that was packed."""
    text = zlib.decompress(packed)
    values: dict[str, JsonValue]
    try:
        values = from_json(text)  # in a third of the time
    except ValueError:
        values = json.loads(text)  # what is nested too deeply for the other
    return values
