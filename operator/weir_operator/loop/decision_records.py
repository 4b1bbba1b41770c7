"""Decision records: measurements, candidates, expectations and results of each decision.

SQLite in a directory that survives the controller, written once per tick in one transaction; `weir
explain` reads it. Values are stored as Python's JSON, which supports NaN and infinity. Texts are
compressed with a dictionary, because field names and candidates repeat; that leaves a fifth. Old
and surplus rows are deleted.

A job must be scaled even if its records cannot be kept (`TolerantRecords`). A damaged file is moved
aside and a new one started; while the disk is full, nothing is recorded. Both are reported.
"""

from __future__ import annotations

import asyncio
import json
import math
import sqlite3
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

import structlog
from pydantic import ConfigDict, TypeAdapter

from weir_operator.errors import PermanentError, TemporaryError, WeirError
from weir_operator.loop.events import Event
from weir_operator.loop.guards import Guard
from weir_operator.rescale.journal import DeploymentMap, RescaleJournal
from weir_policies.model.dataflow import Edge
from weir_policies.policy import Decision, Observation
from weir_simulator.fitting.samples import IntervalSample

VERSION = 2
"""Of what the file holds. In version 1 texts were not packed."""
CACHE_KIB = 64
"""KiB of a file's pages in memory: they are written once and hardly read, and every StreamApp has
a file. SQLite would take 2,000."""
LOG_BYTES = 256 * 1024
"""Size from which the write-ahead log, a second file, is worked into the first."""
LOG_PAGES = 250
"""Pages after which a write does that itself, and so makes the event loop wait for the disk."""
STATEMENTS = 0
"""Statements that stay prepared between two ticks: preparing one takes some microseconds, and each
keeps some kilobytes of every StreamApp."""
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
CREATE TABLE IF NOT EXISTS ticks (time REAL PRIMARY KEY, tick TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS starts (time REAL PRIMARY KEY, start TEXT NOT NULL);
"""
_HISTORY = ("decisions", "events", "changes")
"""Tables whose oldest rows go where the file is too large."""
_LATER = {"intervals": "sample", "ticks": "tick", "starts": "start"}
"""Tables that older files do not have, and their second column."""

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
        connection = sqlite3.connect(
            path, timeout=WAIT, isolation_level=None, cached_statements=STATEMENTS
        )
        try:
            _prepare(connection, path)
        except BaseException:
            connection.close()
            raise
    return connection


def open_to_read(path: Path) -> sqlite3.Connection:
    """Open the file to read what it holds, and leave it as it is.

    Raises:
        DamagedRecordsError: It is no database, a damaged one, or not one of Weir's.
        PermanentError: It was written by a newer Weir.
        TemporaryError: The disk does not give it.
    """
    with telling(path):
        # Not `mode=ro`, which leaves the files of the write-ahead log behind.
        address = f"{path.resolve().as_uri()}?mode=rw"
        connection = sqlite3.connect(address, uri=True, timeout=WAIT, isolation_level=None)
        try:
            _refuse_foreign(connection, path)
            connection.execute("PRAGMA query_only = ON")
        except BaseException:
            connection.close()
            raise
    return connection


def _refuse_foreign(connection: sqlite3.Connection, path: Path) -> None:
    """Refuse a file without decisions, and read tables that an older Weir did not write as empty.

    Raises:
        DamagedRecordsError: It has none.
        PermanentError: It was written by a newer Weir.
    """
    _refuse_newer(connection, path)
    tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master")}
    if not tables.issuperset(_HISTORY):
        raise DamagedRecordsError(
            f"Expected decision records in {path}, got another file; name the folder of Weir's "
            "state with --state"
        )
    for table, column in _LATER.items():
        if table not in tables:
            connection.execute(f"CREATE TEMP TABLE {table} (time REAL, {column} TEXT)")


def _refuse_newer(connection: sqlite3.Connection, path: Path) -> int:
    """Return the version of what the file holds.

    Raises:
        PermanentError: It was written by a newer Weir.
    """
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    if version > VERSION:
        raise PermanentError(
            f"Expected records of version {VERSION} or older in {path}, got "
            f"{version}: use a newer Weir, or move the file away"
        )
    return version


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    version = _refuse_newer(connection, path)
    # A new file is written without waiting for the disk, for which a thousand StreamApps would wait
    # in turn. If the power fails meanwhile, it is damaged, and put aside at the next start.
    if version == 0:
        connection.execute("PRAGMA synchronous = OFF")
    # Before the first table: pages that become free can then be given back to the disk.
    connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
    # A reader (weir explain) must never hold up the loop that writes.
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
    connection.execute(f"PRAGMA wal_autocheckpoint = {LOG_PAGES}")
    connection.execute("PRAGMA journal_size_limit = 0")
    connection.executescript(_SCHEMA)
    if version < VERSION:
        connection.execute(f"PRAGMA user_version = {VERSION}")
    # A power failure may take the last records, nothing else does; and the loop of a thousand
    # StreamApps does not wait for the disk a thousand times an interval.
    connection.execute("PRAGMA synchronous = NORMAL")


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
        raise TemporaryError(
            f"Could not use {path}: {error}; free space on the disk, or repair it"
        ) from error
    except OSError as error:
        raise PermanentError(
            f"Expected write access to the folder {path.parent}, got: "
            f"{error.strerror or error}; change its permissions"
        ) from error


def work_log_in(path: Path) -> None:
    """Work the write-ahead log of a file into it, over a connection of its own.

    Raises:
        DamagedRecordsError: It is damaged.
        TemporaryError: The disk does not take it now, or there is no file.
    """
    # Not made anew where it was moved aside or deleted meanwhile.
    address = f"{path.resolve().as_uri()}?mode=rw"
    with telling(path), closing(sqlite3.connect(address, uri=True, timeout=WAIT)) as connection:
        connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()


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
        most_intervals: Of which measurements and ticks are kept, the newest.
        most: Bytes that may be used.
    """
    for table in ("intervals", "ticks"):
        connection.execute(
            f"DELETE FROM {table} WHERE time <="
            f" (SELECT time FROM {table} ORDER BY time DESC LIMIT 1 OFFSET ?)",
            (most_intervals,),
        )
    for table in _HISTORY:
        connection.execute(f"DELETE FROM {table} WHERE time < ?", (before,))
    # The ticks that are left need the start that they follow.
    connection.execute(
        "DELETE FROM starts WHERE time <"
        " (SELECT max(time) FROM starts WHERE time <= (SELECT min(time) FROM ticks))"
    )
    # An evaluation counts the restarts in its ticks.
    [oldest_tick] = connection.execute("SELECT ifnull(min(time), 9e18) FROM ticks").fetchone()
    step = _step(connection)
    while _used(connection) > most:
        deleted = sum(
            connection.execute(
                f"DELETE FROM {table} WHERE rowid IN"
                f" (SELECT rowid FROM {table} WHERE time < ? ORDER BY time LIMIT ?)",
                (oldest_tick if table == "changes" else 9e18, count),
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


_OBSERVATION = TypeAdapter(Observation)
_DECISION = TypeAdapter(Decision)
_INTERVAL = TypeAdapter(IntervalSample)

# Pydantic writes the many texts of a tick in a fifth of the time that `_text` takes. It can be told
# to write NaN and infinity in a union of types, but not in a dataclass alone.
_PYTHON_JSON = ConfigDict(ser_json_inf_nan="constants")
_OBSERVATION_TEXT: TypeAdapter[Observation | None] = TypeAdapter(
    Observation | None, config=_PYTHON_JSON
)
_DECISION_TEXT: TypeAdapter[Decision | None] = TypeAdapter(Decision | None, config=_PYTHON_JSON)

RECORDS = "records.sqlite"
"""The file, in the folder of each StreamApp's state."""

INTERVALS_KEPT = 8 * 86_400.0
"""Seconds for which measured intervals and ticks are kept: what a job is fitted to and what can be
replayed, a week and a little."""

MOST_INTERVALS = 12_000
"""Measured intervals that are kept and read at once, and ticks that are kept: those of 8 days of
minutes, of 17 hours of 5 seconds."""
MAX_MEASURED = 150_000
"""Operators and their replicas, each counted in every interval, that are read at once. Each is a
few hundred bytes of objects, and a controller has many jobs and little memory. Three operators of
three replicas come to 12,000 intervals; ten of five to 2,500, of minutes nearly two days."""

KEPT = 30 * 86_400.0
"""Seconds for which decisions, changes and events are kept."""
MAX_BYTES = 64 * 2**20
"""Bytes of one StreamApp's records; of more, the oldest decisions and events go, and the changes
that are older than all ticks. Two operators that decide every minute stay below it for 30 days:
`make bench NAME=records`."""
PRUNE_EVERY = 100
"""Writes between two looks for what is too old or too much."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DecisionRecord:
    """One operator's decision at one tick."""

    id: str
    time: float
    """Unix seconds."""
    operator: str
    policy: str
    observation: Observation
    decision: Decision
    verdict: str
    """What became of the proposal, one sentence; empty where the decision was to stay."""
    change: str | None
    """Id of the change that the decision is part of, if it was granted."""


class LearningOutcome(StrEnum):
    """What the managers were told of their decisions at the end of a tick."""

    NOTHING = "Nothing"
    ACTED = "Acted"
    """What was granted is carried out."""
    WAITED = "Waited"
    """A change is under way or not settled yet."""
    MISSED = "Missed"
    """The same, and the objective was missed."""
    SKIPPED = "Skipped"
    """Nothing is learned from the interval before."""


@dataclass(frozen=True, kw_only=True, slots=True)
class JobTick:
    """The job as a whole at one tick: what the decisions of its operators have in common."""

    time: float
    """Unix seconds; that of the decisions."""
    seconds: float
    """Since the tick before."""
    deployments: DeploymentMap
    operators: tuple[str, ...]
    """Of the dataflow; empty before it was known."""
    edges: tuple[Edge, ...]
    """With the selectivities that were measured."""
    mean: float
    """Response time from source to sink, seconds; NaN where it was not measured."""
    response_time: float
    """The statistic of it that the objective bounds."""
    tail: float
    """How many times the mean the bounded statistic is, as far as it was measured."""
    violated: bool | None
    """Whether the interval exceeded a bound; `None` where that is unknown."""
    held: str
    """Why nothing was decided, one sentence; empty where it was."""
    guards: tuple[Guard, ...]
    """What forbade changes."""
    splits: Mapping[str, float]
    """Partitions of the sources where they are known."""
    tokens: Mapping[str, Any]
    """The restart budget before the decisions, as `RestartTokens.to_dict`."""
    lesson: LearningOutcome
    fixed: Mapping[str, Observation]
    """Of the operators that no decision is made for."""
    rate: float = math.nan
    """Records/s that arrived at the sources; NaN where unknown, as in older records."""
    sinks_late: bool = False
    """Whether a single sink exceeded its own bound; unknown, and `False`, in older records."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LoopStart:
    """With what the loops of a StreamApp began, or began again."""

    time: float
    """Unix seconds."""
    app: Mapping[str, Any]
    """The StreamApp, as far as decisions depend on it."""
    policy: str
    """Name of the operators' policy."""
    learned: bool
    """Whether something was known that records before this do not show."""


class Records(Protocol):
    """What the loops write to."""

    def write(
        self,
        decisions: Iterable[DecisionRecord],
        *,
        events: Iterable[Event] = (),
        change: RescaleJournal | None = None,
    ) -> None:
        """Write one tick's records."""
        ...

    def note(self, *, events: Iterable[Event] = (), change: RescaleJournal | None = None) -> None:
        """Write what has happened already."""
        ...

    def note_interval(self, sample: IntervalSample) -> None:
        """Write what was measured in an interval."""
        ...

    def note_tick(self, tick: JobTick) -> None:
        """Write what the decisions of a tick have in common."""
        ...

    def note_start(self, start: LoopStart) -> None:
        """Write with what the loops begin."""
        ...

    def last_tick(self, *, until: float) -> float:
        """Return the Unix time of the last tick up to one; `-inf` where none is known."""
        ...

    def forget_intervals(self) -> None:
        """Remove what was measured; decisions, changes and events stay."""
        ...

    async def shorten_log(self) -> None:
        """Do what writing leaves to do, which waits for the disk."""
        ...


_TICK = TypeAdapter(JobTick)
_START = TypeAdapter(LoopStart)


class RecordStore:
    """Decision records of one StreamApp in one SQLite file.

    Every call raises `DamagedRecordsError` where the file is none of Weir's or damaged,
    `TemporaryError` where the disk does not take or give it, and else does all of what it says.
    """

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        """Open or make the file.

        Args:
            path: The file.
            read_only: Whether nothing is to be written, and no file made.

        Raises:
            PermanentError: It was written by a newer Weir, is no database, or may not be written.
            TemporaryError: The disk does not take it.
        """
        self._path = path
        self._connection = open_to_read(path) if read_only else open_file(path)
        # A connection remembers its last 200 cursors, and `Connection.execute` makes one each time:
        # 16 KiB of each StreamApp.
        self._cursor = self._connection.cursor()
        self._until_prune = 0

    def release_memory(self) -> None:
        """Release the pages in memory: the file is not used until the next tick."""
        with telling(self._path):
            self._cursor.execute("PRAGMA shrink_memory")

    async def shorten_log(self) -> None:
        """Work the write-ahead log into the file once it has grown, in another thread.

        That waits for the disk, which may take seconds. Who writes meanwhile does not wait.

        Raises:
            TemporaryError: The disk did not take it; the log stays as it is.
        """
        with telling(self._path):
            log = self._path.with_name(f"{self._path.name}-wal")
            if log.exists() and log.stat().st_size > LOG_BYTES:
                await asyncio.to_thread(work_log_in, self._path)

    def write(
        self,
        decisions: Iterable[DecisionRecord],
        *,
        events: Iterable[Event] = (),
        change: RescaleJournal | None = None,
    ) -> None:
        """Write one tick's records in one transaction.

        Raises:
            TemporaryError: The disk did not take them; none was written.
        """
        given, told = tuple(decisions), tuple(events)
        rows = [
            (
                record.id,
                record.time,
                record.operator,
                record.policy,
                pack(_OBSERVATION_TEXT.dump_json(record.observation).decode()),
                pack(_DECISION_TEXT.dump_json(record.decision).decode()),
                record.verdict,
                record.change,
            )
            for record in given
        ]
        cursor = self._cursor
        with telling(self._path):
            cursor.execute("BEGIN")
            try:
                cursor.executemany("INSERT INTO decisions VALUES (?,?,?,?,?,?,?,?)", rows)
                cursor.executemany(
                    "INSERT INTO events VALUES (?,?,?)",
                    [(event.time, event.reason, event.message) for event in told],
                )
                if change is not None:
                    cursor.execute(
                        "INSERT OR REPLACE INTO changes VALUES (?,?,?)",
                        (change.id, change.created, pack(change.model_dump_json())),
                    )
                cursor.execute("COMMIT")
            except BaseException:
                # A disk that is full has rolled it back already.
                if self._connection.in_transaction:
                    cursor.execute("ROLLBACK")
                raise
        for newest in [*(each.time for each in given), *(each.time for each in told)][:1]:
            self._prune(newest)

    def note(self, *, events: Iterable[Event] = (), change: RescaleJournal | None = None) -> None:
        """Write what has happened already."""
        self.write((), events=events, change=change)

    def note_interval(self, sample: IntervalSample) -> None:
        """Write what was measured in an interval, and forget what is never read again."""
        packed = pack(_text(_INTERVAL.dump_python(sample)))
        with telling(self._path):
            self._cursor.execute(
                "INSERT OR REPLACE INTO intervals VALUES (?,?)", (sample.time, packed)
            )
            self._cursor.execute(
                "DELETE FROM intervals WHERE time < ?", (sample.time - INTERVALS_KEPT,)
            )
        self._prune(sample.time)

    def note_tick(self, tick: JobTick) -> None:
        """Write what the decisions of a tick have in common."""
        packed = pack(_text(_TICK.dump_python(tick, mode="json")))
        with telling(self._path):
            self._cursor.execute("INSERT OR REPLACE INTO ticks VALUES (?,?)", (tick.time, packed))
            self._cursor.execute("DELETE FROM ticks WHERE time < ?", (tick.time - INTERVALS_KEPT,))

    def note_start(self, start: LoopStart) -> None:
        """Write with what the loops begin."""
        packed = pack(_text(_START.dump_python(start, mode="json")))
        with telling(self._path):
            self._cursor.execute("INSERT OR REPLACE INTO starts VALUES (?,?)", (start.time, packed))

    def forget_intervals(self) -> None:
        """Remove what was measured; decisions, changes and events stay."""
        with telling(self._path):
            self._cursor.execute("DELETE FROM intervals")

    def _prune(self, now: float) -> None:
        """Now and then, delete what is too old or too much by a Unix time."""
        self._until_prune -= 1
        if self._until_prune > 0:
            return
        self._until_prune = PRUNE_EVERY
        with telling(self._path):
            prune(
                self._connection,
                before=now - KEPT,
                most_intervals=MOST_INTERVALS,
                most=MAX_BYTES,
            )

    def intervals(
        self, *, since: float = 0.0, most: int = MOST_INTERVALS, measured: int = MAX_MEASURED
    ) -> tuple[IntervalSample, ...]:
        """Return what was measured in the intervals that ended after a Unix time, oldest first.

        Of more than `most`, or than `measured` operators and replicas, the newest: with intervals
        left out in between, neither the traffic nor what hangs over from one interval to the next
        could be followed.
        """
        newest_first: list[IntervalSample] = []
        for row in self._rows(
            "SELECT sample FROM intervals WHERE time > ? ORDER BY time DESC LIMIT ?", since, most
        ):
            sample = _INTERVAL.validate_python(self._plain(row[0]))
            measured -= sample.measured
            if measured < 0:
                break
            newest_first.append(sample)
        return tuple(reversed(newest_first))

    def tick_times(self, *, until: float) -> tuple[float, ...]:
        """Return the Unix times of the ticks up to one, oldest first."""
        return tuple(
            row[0]
            for row in self._rows("SELECT time FROM ticks WHERE time <= ? ORDER BY time", until)
        )

    def last_tick(self, *, until: float) -> float:
        """Return the Unix time of the last tick up to one; `-inf` without."""
        [[found]] = self._rows("SELECT max(time) FROM ticks WHERE time <= ?", until)
        return -math.inf if found is None else float(found)

    def job_ticks(self, *, until: float) -> Iterator[JobTick]:
        """Yield the ticks up to a Unix time, oldest first."""
        for moment in self.tick_times(until=until):
            # Read one by one: 8 days of them would not fit into a small machine's memory.
            for row in self._rows("SELECT tick FROM ticks WHERE time = ?", moment):
                with self._telling_damage():
                    tick = _TICK.validate_python(self._plain(row[0]), by_alias=False, by_name=True)
                yield tick

    def ticks(self, *, until: float) -> Iterator[tuple[JobTick, tuple[DecisionRecord, ...]]]:
        """Yield the ticks up to a Unix time with the decisions of each, oldest first."""
        for tick in self.job_ticks(until=until):
            rows = self._rows("SELECT * FROM decisions WHERE time = ? ORDER BY rowid", tick.time)
            yield tick, tuple(self._decision_of(each) for each in rows)

    def starts(self) -> tuple[LoopStart, ...]:
        """Return with what the loops began, oldest first."""
        rows = self._rows("SELECT start FROM starts ORDER BY time")
        with self._telling_damage():
            return tuple(_START.validate_python(self._plain(row[0])) for row in rows)

    def decisions(
        self, *, until: float | None = None, operator: str | None = None, limit: int = 1
    ) -> tuple[DecisionRecord, ...]:
        """Return the newest decisions up to a Unix time, of one operator or all, newest first.

        `limit` counts decisions per operator.
        """
        operators = (
            [operator]
            if operator is not None
            else [
                row[0]
                for row in self._rows(
                    "SELECT operator FROM decisions GROUP BY operator ORDER BY min(rowid)"
                )
            ]
        )
        found: list[DecisionRecord] = []
        for name in operators:
            rows = self._rows(
                "SELECT * FROM decisions WHERE operator = ? AND time <= ?"
                " ORDER BY time DESC LIMIT ?",
                name,
                until if until is not None else 9e18,
                limit,
            )
            found += [self._decision_of(row) for row in rows]
        return tuple(found)

    def following(self, record: DecisionRecord) -> DecisionRecord | None:
        """Return the same operator's next decision: what was seen after this one."""
        rows = self._rows(
            "SELECT * FROM decisions WHERE operator = ? AND time > ? ORDER BY time LIMIT 1",
            record.operator,
            record.time,
        )
        return self._decision_of(rows[0]) if rows else None

    def change(self, change_id: str) -> RescaleJournal | None:
        """Return a change by its id."""
        rows = self._rows("SELECT journal FROM changes WHERE id = ?", change_id)
        return self._journal_of(rows[0]) if rows else None

    def changes(self, *, since: float = 0.0) -> tuple[RescaleJournal, ...]:
        """Return the changes decided since a Unix time, oldest first."""
        rows = self._rows("SELECT journal FROM changes WHERE time >= ? ORDER BY time", since)
        return tuple(self._journal_of(row) for row in rows)

    def events(self, *, since: float = 0.0) -> tuple[Event, ...]:
        """Return the events since a Unix time, oldest first."""
        rows = self._rows(
            "SELECT time, reason, message FROM events WHERE time >= ? ORDER BY time", since
        )
        return tuple(Event(time=row[0], reason=row[1], message=row[2]) for row in rows)

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def _rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        with telling(self._path):
            return self._cursor.execute(query, values).fetchall()

    def _plain(self, kept: str | bytes) -> Any:
        """Return the JSON values of a text that was kept."""
        with self._telling_damage():
            return json.loads(unpack(kept))

    def _journal_of(self, row: Sequence[Any]) -> RescaleJournal:
        with self._telling_damage():
            return RescaleJournal.model_validate_json(unpack(row[0]))

    def _decision_of(self, row: Sequence[Any]) -> DecisionRecord:
        key, time, operator, policy, observation, decision, verdict, change = row
        with self._telling_damage():
            return DecisionRecord(
                id=str(key),
                time=float(time),
                operator=str(operator),
                policy=str(policy),
                observation=_OBSERVATION.validate_python(
                    self._plain(observation), by_alias=False, by_name=True
                ),
                decision=_DECISION.validate_python(self._plain(decision)),
                verdict=str(verdict),
                change=None if change is None else str(change),
            )

    @contextmanager
    def _telling_damage(self) -> Iterator[None]:
        try:
            yield
        except (TypeError, ValueError) as error:
            raise DamagedRecordsError(
                f"Expected decision records in {self._path}, got a damaged row; move the file away"
            ) from error


def _text(plain: Any) -> str:
    return json.dumps(plain, separators=(",", ":"))


log = structlog.get_logger()

AGAIN = 60.0
"""Seconds between two attempts to open a file that could not be opened, and without a failure after
which records count as kept again: a disk that is nearly full takes some and not others."""
ASIDE = ".damaged"
"""Ends the name of a file that was put aside; the next one takes its place."""

Tell = Callable[[str, str], None]
"""Takes the reason and the message of a fact."""


class TolerantRecords:
    """Decision records of one StreamApp; nothing that is wrong with them is raised."""

    def __init__(
        self, path: Path, tell: Tell, *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        """Open the file, or go without.

        Args:
            path: The file.
            tell: Called when records were damaged, are not kept, and are kept again.
            monotonic: Seconds of a clock that cannot be set.
        """
        self._path = path
        self._report = tell
        self._monotonic = monotonic
        self._store: RecordStore | None = None
        self._open_at = monotonic()
        self._failed_at = 0.0
        self.failure = ""
        """Why records are not kept; empty where they are."""
        self._do(lambda store: None)

    def write(
        self,
        decisions: Iterable[DecisionRecord],
        *,
        events: Iterable[Event] = (),
        change: RescaleJournal | None = None,
    ) -> None:
        """Write one tick's records in one transaction."""
        given, told = tuple(decisions), tuple(events)
        self._do(lambda store: store.write(given, events=told, change=change))

    def note(self, *, events: Iterable[Event] = (), change: RescaleJournal | None = None) -> None:
        """Write what has happened already."""
        self.write((), events=events, change=change)

    def note_interval(self, sample: IntervalSample) -> None:
        """Write what was measured in an interval."""
        self._do(lambda store: store.note_interval(sample))

    def note_tick(self, tick: JobTick) -> None:
        """Write what the decisions of a tick have in common."""
        self._do(lambda store: store.note_tick(tick))

    def note_start(self, start: LoopStart) -> None:
        """Write with what the loops begin."""
        self._do(lambda store: store.note_start(start))

    def last_tick(self, *, until: float) -> float:
        """Return the Unix time of the last tick up to one; `-inf` where it cannot be read."""
        found = -math.inf

        def read(store: RecordStore) -> None:
            nonlocal found
            found = store.last_tick(until=until)

        self._do(read)
        return found

    def forget_intervals(self) -> None:
        """Remove what was measured; decisions, changes and events stay."""
        self._do(lambda store: store.forget_intervals())

    async def shorten_log(self) -> None:
        """Do what writing leaves to do, in another thread."""
        try:
            if self._store is not None:
                await self._store.shorten_log()
        except WeirError as error:  # the next write says what is wrong with the file
            log.warning("decision records not worked in", failure=str(error))

    def close(self) -> None:
        """Close the file."""
        if self._store is not None:
            self._store.close()
            self._store = None

    def _do(self, work: Callable[[RecordStore], None]) -> None:
        """Do something with the records, in another file where this one is damaged."""
        if self._store is None and self._monotonic() < self._open_at:
            return
        damaged = False
        try:
            try:
                self._work(work)
            except DamagedRecordsError as error:
                log.warning("decision records are damaged", failure=str(error))
                damaged = True
                self._put_aside()
                self._work(work)
            failure = ""
        except WeirError as error:
            failure = str(error)
        except Exception as error:  # a defect in keeping records is no reason to stop scaling
            log.exception("defect in keeping records")
            failure = f"a defect in Weir, {type(error).__name__}; see the log"
        now, before = self._monotonic(), self.failure
        if failure:
            self._failed_at = now
        elif before and now - self._failed_at < AGAIN:
            return
        self.failure = failure
        if damaged and not failure:
            aside = self._path.name + ASIDE
            self._report(
                "RecordsDamaged",
                "The decision records were damaged, so Weir started new ones; the old "
                f"file is {aside}",
            )
        if failure and not before:
            self._report(
                "RecordsNotKept", f"Weir decides, but cannot record its decisions: {failure}"
            )
        if before and not failure:
            self._report("RecordsKept", "Weir records its decisions again")

    def _work(self, work: Callable[[RecordStore], None]) -> None:
        store = self._opened()
        work(store)
        store.release_memory()

    def _opened(self) -> RecordStore:
        if self._store is None:
            self._open_at = self._monotonic() + AGAIN
            self._store = RecordStore(self._path)
        return self._store

    def _put_aside(self) -> None:
        """Give the file and what belongs to it another name.

        Raises:
            PermanentError: The folder cannot be written.
        """
        self.close()
        with telling(self._path):
            for end in ("", "-wal", "-shm"):
                kept = self._path.with_name(self._path.name + end)
                if kept.exists():
                    kept.replace(self._path.with_name(self._path.name + ASIDE + end))
