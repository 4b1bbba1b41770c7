"""Plain values that are kept for long and read seldom: as objects, a status takes 25 KiB."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping

from pydantic.types import JsonValue


def pack(values: Mapping[str, JsonValue]) -> bytes:
    """Return an object in a few bytes."""
    return zlib.compress(json.dumps(values, separators=(",", ":")).encode(), level=1)


def unpack(packed: bytes) -> dict[str, JsonValue]:
    """Return an object that was packed."""
    values: dict[str, JsonValue] = json.loads(zlib.decompress(packed))
    return values
