"""The SQLite file of a StreamApp's records: opened, kept small, and its errors told apart.

Rows of texts are packed: field names and candidates repeat from one decision to the next, so that a
dictionary of them leaves a fifth of the text.
"""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from weir_operator.errors import PermanentError, TemporaryError

VERSION = 2
"""Of what the file holds. In version 1 texts were not packed."""
CACHE_KIB = 64
"""KiB of a file's pages in memory: they are written once and hardly read, and every StreamApp has
a file. SQLite would take 2,000."""
LOG_PAGES = 64
"""Pages after which the write-ahead log, a second file, is worked into the first. SQLite would let
it grow to 4 MiB, and keep that."""
WAIT = 1.0
"""Seconds to wait for somebody else who writes to the file, such as a new controller."""
STEPS = 50
"""Deletions in which what may be deleted for want of room would all be deleted."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS decisions (
    id TEXT PRIMARY KEY,
    time REAL NOT NULL,
    operator TEXT NOT NULL,
    policy TEXT NOT NULL,
    observation TEXT NOT NULL,
    decision TEXT NOT NULL,
    verdict TEXT NOT NULL,
    change TEXT
);
CREATE INDEX IF NOT EXISTS decisions_by_time ON decisions (time, operator);
CREATE TABLE IF NOT EXISTS changes (id TEXT PRIMARY KEY, time REAL NOT NULL, journal TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS events (time REAL NOT NULL, reason TEXT NOT NULL, message TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS changes_by_time ON changes (time);
CREATE INDEX IF NOT EXISTS events_by_time ON events (time);
CREATE TABLE IF NOT EXISTS intervals (time REAL PRIMARY KEY, sample TEXT NOT NULL);
"""
_HISTORY = ("decisions", "events", "changes")
"""Tables whose oldest rows go where the file is too large."""

_DAMAGED = frozenset(
    {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT, sqlite3.SQLITE_ERROR}
)
"""Codes of a file that is none of Weir's, wholly or in part: a table that is not there is a plain
SQLITE_ERROR."""
_OF_WEIR = frozenset({sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_MISUSE, sqlite3.SQLITE_RANGE})
"""Codes of a defect of Weir."""

# Part of the format: a file cannot be read with another one. What stands last is found cheapest.
_DICTIONARY = (
    b'"is_savepoint","failure":null,"kind":"Rescale","step":"Done","reason":"","times":{'
    b'"operators":{"deployment":{"response_time":,"disturbed":false,"seconds":60.0,'
    b'"records":,"replicas":[{"node_type":"processed":,"emitted":'
    b'"Rejected: the plan asks for another step""Chosen by the plan""Chosen by the rule"'
    b'"The least that keeps the objective""dearest":null,"most_replicas":null}'
    b'"weights":{"violation":0.6,"resources":0.2,"reconfiguration":0.2},"replica_ages":['
    b'"budget":,"backlog":0.0,"utilisation":[,"processed":,"rate":NaN,"max_replicas":'
    b'"service_mean":0.0,"service_scv":1.0,"arrival_scv":1.0,"keyed":false,"sharing":"byLoad",'
    b'"aggregation":"worst","key_groups":null,"network_time":0.0},"node_types":[{"name":"/1",'
    b'"pool":"","speedup":1.0,"price":0.0,"pool_limit":null},{"name":'
    b'{"time":17,"time_of_week":0.,"interval":60.0,"model":{"name":'
    b'"urgency":0.0}{"target":{"counts":[1]},"reason":"Stays: ","candidates":['
    b'"score":Infinity,"expectation":{"response_time":0.0,"utilisation":0.,"cost_per_hour":0.0},'
    b'"verdict":"Rejected: "},{"deployment":{"counts":[0,0,1]},"score":0.'
)
_RAW = -15  # window bits of zlib without a header


class DamagedRecordsError(PermanentError):
    """The file is no database, or a damaged one."""


def open_file(path: Path) -> sqlite3.Connection:
    """Open or make the file.

    Raises:
        DamagedRecordsError: It is no database, or a damaged one.
        PermanentError: It was written by a newer Weir, or may not be written.
        TemporaryError: The disk does not take it.
    """
    with telling(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(path, timeout=WAIT, isolation_level=None)
        try:
            _prepare(connection, path)
        except BaseException:
            connection.close()
            raise
    return connection


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    [version] = connection.execute("PRAGMA user_version").fetchone()
    if version > VERSION:
        raise PermanentError(
            f"Expected records of version {VERSION} at most in {path}, got {version}: "
            "use a newer weir, or move the file away"
        )
    # Before the first table: pages that become free can then be given back to the disk.
    connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
    # A reader (weir explain) must never hold up the loop that writes.
    connection.execute("PRAGMA journal_mode = WAL")
    # A power failure may take the last records, nothing else does; and the loop of a thousand
    # StreamApps does not wait for the disk a thousand times an interval.
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
    connection.execute(f"PRAGMA wal_autocheckpoint = {LOG_PAGES}")
    connection.execute("PRAGMA journal_size_limit = 0")
    connection.executescript(_SCHEMA)
    if version < VERSION:
        connection.execute(f"PRAGMA user_version = {VERSION}")


@contextmanager
def telling(path: Path) -> Iterator[None]:
    """Turn errors of SQLite and of the operating system about a file into Weir's.

    Raises:
        DamagedRecordsError: It is no database, or a damaged one.
        PermanentError: It may not be written.
        TemporaryError: The disk does not take or give it now.
    """
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_MISUSE) & 0xFF
        if code in _OF_WEIR:
            raise
        if code in _DAMAGED:
            raise DamagedRecordsError(
                f"Expected decision records in {path}, got: {error}; move the file away"
            ) from error
        raise TemporaryError(f"Could not use {path}: {error}; free or mend the disk") from error
    except OSError as error:
        raise PermanentError(
            f"Expected {path.parent} to be a folder that can be written, got: "
            f"{error.strerror or error}; change its rights"
        ) from error


def pack(text: str) -> bytes:
    """Return a text as it is kept."""
    packing = zlib.compressobj(6, zlib.DEFLATED, _RAW, zdict=_DICTIONARY)
    return packing.compress(text.encode()) + packing.flush()


def unpack(kept: str | bytes) -> str:
    """Return a text that was kept, in version 1 too.

    Raises:
        ValueError: It is damaged.
    """
    if isinstance(kept, str):
        return kept
    try:
        return zlib.decompressobj(_RAW, zdict=_DICTIONARY).decompress(kept).decode()
    except zlib.error as error:
        raise ValueError(str(error)) from error


def prune(connection: sqlite3.Connection, *, before: float, most_intervals: int, most: int) -> None:
    """Delete what is too old, then the oldest of what is too much, and give the room back.

    Args:
        connection: To the file.
        before: Unix time; what happened earlier goes.
        most_intervals: Of which measurements are kept, the newest.
        most: Bytes that may be used.
    """
    connection.execute(
        "DELETE FROM intervals WHERE time <="
        " (SELECT time FROM intervals ORDER BY time DESC LIMIT 1 OFFSET ?)",
        (most_intervals,),
    )
    for table in _HISTORY:
        connection.execute(f"DELETE FROM {table} WHERE time < ?", (before,))
    step = _step(connection)
    while _used(connection) > most:
        deleted = sum(
            connection.execute(
                f"DELETE FROM {table} WHERE rowid IN"
                f" (SELECT rowid FROM {table} ORDER BY time LIMIT ?)",
                (count,),
            ).rowcount
            for table, count in step.items()
        )
        if not deleted:
            break
    if connection.execute("PRAGMA auto_vacuum").fetchone()[0] == 0:
        connection.execute("VACUUM")  # once, for a file of version 1
    connection.executescript("PRAGMA incremental_vacuum")  # `execute` would free one page


def _step(connection: sqlite3.Connection) -> dict[str, int]:
    """Return how many rows of each table go at once."""
    counts = {
        table: connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
        for table in _HISTORY
    }
    return {table: -(-count // STEPS) for table, count in counts.items()}


def _used(connection: sqlite3.Connection) -> int:
    """Return the bytes that are used; free pages are not."""
    pages, free, size = (
        int(connection.execute(f"PRAGMA {name}").fetchone()[0])
        for name in ("page_count", "freelist_count", "page_size")
    )
    return (pages - free) * size
