"""What the logs of TaskManagers say of the memory that RocksDB was given.

Of a slot's managed memory Flink gives RocksDB a cache, and lets write buffers take two fifths of
that cache. Too little for one write buffer is a warning in the log, which is an error here.
"""

from __future__ import annotations

import re
from pathlib import Path

_CACHE = re.compile(r"Obtained shared RocksDB cache of size (\d+) bytes")
_POOR = re.compile(r"RocksDBStateBackend performance will be poor.*")


def read_caches(state: Path) -> dict[str, set[int]]:
    """Return the bytes of each slot's cache, which write buffers are a part of, by operator.

    Args:
        state: The folder that `weir local --state` was given; one StreamApp ran there.

    Raises:
        ValueError: RocksDB says that it was given too little for its write buffers.
    """
    found: dict[str, set[int]] = {}
    for log in sorted(state.glob("*/tm/tm-*/log/flink.log*")):
        text = log.read_text(encoding="utf-8")
        if poor := _POOR.search(text):
            raise ValueError(f"Expected write buffers for RocksDB, got: {poor[0]} ({log})")
        if sizes := _CACHE.findall(text):
            operator = log.parts[-3].removeprefix("tm-").rsplit("-", 2)[0]
            found.setdefault(operator, set()).update(map(int, sizes))
    return found
