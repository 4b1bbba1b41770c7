"""What is stored of a tick: what was measured, what was decided on it, and why.

A SQLite file in a directory that survives the controller; `weir explain`, fits and tests read it.
A tick is one row, written before anything is done. Its parts (the job, the interval as it is fitted
to, the decisions) are JSON as Python and SQLite's own shell read it, with NaN and infinity, each in
a column of its own, because readers want one of them and decisions are large. What is too old is
deleted, decisions first.

A job must be scaled even if its records cannot be kept (`TolerantRecords`): a damaged file is moved
aside and a new one started; while the file cannot be written, because the disk is full or somebody
else holds it, nothing is recorded. Both are reported.
"""

from __future__ import annotations

import asyncio
import math
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar

import structlog
from pydantic import ConfigDict, TypeAdapter

from weir_operator.errors import PermanentError, TemporaryError, WeirError
from weir_operator.metrics.keys import KeyReport
from weir_operator.rescale.journal import RescaleJournal
from weir_policies.model.dataflow import Edge
from weir_policies.policy import Decision, Observation
from weir_simulator.fitting.samples import IntervalSample

log = structlog.get_logger()

RECORDS = "records.sqlite"
"""The file, in the folder of each StreamApp's state."""
ASIDE = ".damaged"
"""Ends the name of a file that was put aside; the next one takes its place."""
VERSION = 2
"""Of what the file holds."""

INTERVALS_KEPT = 8 * 86_400.0
"""Seconds for which measured intervals and changes are kept: what a job is fitted to, a week and a
little."""
DECISIONS_KEPT = 3 * 86_400.0
"""Seconds for which a tick keeps more than its interval. A decision takes 3 to 4 kB: 15 MB for an
operator that decides every minute."""
MOST_INTERVALS = 12_000
"""Intervals that are read at once, and of which anything is kept, however short they are: those of
8 days of minutes, of 17 hours of 5 seconds."""
MAX_MEASURED = 150_000
"""Operators and their replicas, each counted in every interval, that are read at once. Each is a
few hundred bytes of objects, and a controller has many jobs and little memory. Three operators of
three replicas come to 12,000 intervals; ten of five to 2,500, of minutes nearly two days."""

MOST_BYTES = 512 * 2**20
"""Bytes of all records. The volume has the files of all StreamApps, and one of a hundred operators
that decide every second would take ten times that."""

FEWEST_TICKS = 10
"""With so few decided ticks left in a file that is still too large, intervals are cut, too."""

CACHE_KIB = 64
"""KiB of a file's pages in memory: they are written once and hardly read, and every StreamApp has
a file. SQLite would take 2,000."""
LOG_BYTES = 2**20
"""Size from which the write-ahead log, a second file, is worked into the first. At four times that,
a write does it itself, and so makes the event loop wait for the disk."""
WAIT = 1.0
"""Seconds to wait for somebody else who writes to the file, such as a new controller."""
RETRY_AFTER = 30.0
"""Seconds after a failure in which the file is not used."""
KEPT_AGAIN_AFTER = 60.0
"""Seconds without a failure after which records count as kept again: a disk that is nearly full
takes some and not others."""

_DAMAGED = frozenset(
    {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT, sqlite3.SQLITE_ERROR}
)
"""Codes of a file that is none of Weir's, wholly or in part: a table that is not there is a plain
SQLITE_ERROR."""


class DamagedRecordsError(PermanentError):
    """The file is no database, or a damaged one."""


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
    """One tick of a job: what was measured and decided, and what decisions depend on beside it."""

    time: float
    """Unix seconds; that of the decisions."""
    seconds: float
    """Since the tick before."""
    violated: bool | None
    """Whether the interval exceeded a bound; `None` where that is unknown."""
    operators: tuple[str, ...]
    """Of the dataflow; empty before it was known."""
    edges: tuple[Edge, ...]
    """With the selectivities that were measured."""
    splits: Mapping[str, float]
    """Partitions of the sources where they are known."""
    lesson: LearningOutcome
    fixed: Mapping[str, Observation]
    """Of the operators that no decision is made for."""
    keys: Mapping[str, KeyReport] = field(default_factory=dict)
    """What was known of the keys of operators."""
    sample: IntervalSample | None = None
    """The interval as the job is fitted to it; `None` where its metrics were missing or bad, and
    where `ticks` read it: `intervals` reads this part."""
    decisions: tuple[DecisionRecord, ...] = ()
    """Of the operators that may change; empty where nothing was decided, and where `ticks` read it:
    `decisions` reads this part."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LoopStart:
    """With what the loops of a StreamApp began, or began again."""

    time: float
    """Unix seconds."""
    app: Mapping[str, Any]
    """The StreamApp, as far as decisions depend on it."""
    policy: str
    """Name of the operators' policy."""


Record = JobTick | RescaleJournal | LoopStart
"""What is written, a row each."""
_T = TypeVar("_T")
_Found = TypeVar("_Found")

# Pydantic can be told to write NaN and infinity in a union of types, but not in a class.
_NOT_FINITE = ConfigDict(ser_json_inf_nan="constants")
_TICK = TypeAdapter(JobTick | None, config=_NOT_FINITE)
_SAMPLE = TypeAdapter(IntervalSample | None, config=_NOT_FINITE)
_DECISIONS = TypeAdapter(tuple[DecisionRecord, ...] | None, config=_NOT_FINITE)
_CHANGE = TypeAdapter(RescaleJournal | None, config=_NOT_FINITE)
_START = TypeAdapter(LoopStart | None, config=_NOT_FINITE)

_TABLES = """
CREATE TABLE ticks (
    time REAL PRIMARY KEY, operators TEXT, record TEXT, sample TEXT, decisions TEXT
);
CREATE INDEX recorded ON ticks (time) WHERE record IS NOT NULL;
CREATE INDEX sampled ON ticks (time) WHERE sample IS NOT NULL;
CREATE TABLE changes (id TEXT PRIMARY KEY, time REAL NOT NULL, record TEXT NOT NULL);
CREATE INDEX changes_by_time ON changes (time);
CREATE TABLE starts (time REAL PRIMARY KEY, record TEXT NOT NULL);
"""
"""`operators` are the names of those with a decision, a space before and after each."""


class RecordStore:
    """Decision records of one StreamApp in one SQLite file.

    Every call raises `DamagedRecordsError` where the file is none of Weir's or damaged,
    `TemporaryError` where the disk does not take or give it, and else does all of what it says.
    """

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        """Open or make the file.

        Raises:
            PermanentError: Another version of Weir wrote it, or it is no database.
            TemporaryError: The disk does not take it.
        """
        self._path = path
        # Not `mode=ro`, which leaves the files of the write-ahead log behind.
        address = f"{path.resolve().as_uri()}?mode={'rw' if read_only else 'rwc'}"
        with _wrapping_errors(path):
            if not read_only:
                path.parent.mkdir(parents=True, exist_ok=True)
            # Statements that stay prepared would keep some kilobytes of every StreamApp.
            self._connection = sqlite3.connect(address, uri=True, timeout=WAIT, cached_statements=0)
            try:
                version = self._refuse_foreign(read_only=read_only)
                if read_only:
                    self._connection.execute("PRAGMA query_only = ON")
                else:
                    self._prepare(is_new=version == 0)
            except BaseException:
                self._connection.close()
                raise
        # A connection remembers its last 200 cursors, and `Connection.execute` makes one each time:
        # 16 KiB of each StreamApp.
        self._cursor = self._connection.cursor()

    def _refuse_foreign(self, *, read_only: bool) -> int:
        """Return the version of what the file holds, 0 where that is nothing yet."""
        version = int(self._connection.execute("PRAGMA user_version").fetchone()[0])
        if version == 0 and read_only:
            raise DamagedRecordsError(
                f"Expected decision records in {self._path}, got another file; name the folder of "
                "Weir's state with --state"
            )
        if 0 < version < VERSION:
            raise DamagedRecordsError(
                f"Expected records of version {VERSION} in {self._path}, got {version}, which an "
                "earlier version of Weir wrote; move the file away"
            )
        if version > VERSION:
            raise PermanentError(
                f"Expected records of version {VERSION} in {self._path}, got {version}: use the "
                "version of Weir that wrote them, or move the file away"
            )
        return version

    def _prepare(self, *, is_new: bool) -> None:
        # A reader (weir explain) must never hold up the loop that writes.
        self._connection.execute("PRAGMA journal_mode = WAL")
        # A power failure may take the last records, nothing else does; and the loop of many
        # StreamApps does not wait for the disk as many times an interval.
        self._connection.execute("PRAGMA synchronous = NORMAL")
        self._connection.execute("PRAGMA journal_size_limit = 0")
        self._connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
        if is_new:
            self._connection.executescript(
                f"BEGIN; {_TABLES} PRAGMA user_version = {VERSION}; COMMIT"
            )

    def write(self, records: Iterable[Record]) -> None:
        """Write records in one transaction; one that was written before is replaced.

        With a tick, what is too old by then is deleted.
        """
        rows = [(each, _row_of(each)) for each in records]
        with _wrapping_errors(self._path):
            with self._connection:
                for each, (table, row) in rows:
                    values = ",".join("?" * len(row))
                    self._cursor.execute(f"INSERT OR REPLACE INTO {table} VALUES ({values})", row)
                    if isinstance(each, JobTick):
                        self._prune(each.time)
            self._cursor.execute("PRAGMA shrink_memory")  # not used until the next tick

    def _prune(self, now: float) -> None:
        [longest_ago] = self._cursor.execute(
            "SELECT ifnull((SELECT time FROM ticks ORDER BY time DESC LIMIT 1 OFFSET ?), -9e18)",
            (MOST_INTERVALS - 1,),
        ).fetchone()
        # Decisions fill a file, so they are cut first; intervals and changes follow once hardly any
        # are left.
        oldest, oldest_recorded = (
            max(longest_ago, now - kept) for kept in (INTERVALS_KEPT, DECISIONS_KEPT)
        )
        if self._used > MOST_BYTES:
            oldest_recorded = max(oldest_recorded, self._third_oldest("record", now))
            [recorded] = self._cursor.execute(
                "SELECT count(*) FROM ticks WHERE record IS NOT NULL"
            ).fetchone()
            if recorded <= FEWEST_TICKS:
                oldest = max(oldest, self._third_oldest("sample", now))
        for table in ("ticks", "changes"):
            self._cursor.execute(f"DELETE FROM {table} WHERE time < ?", (oldest,))
        self._cursor.execute(
            "UPDATE ticks SET operators = NULL, record = NULL, decisions = NULL"
            " WHERE time < ? AND record IS NOT NULL",
            (oldest_recorded,),
        )
        # The decisions that are left need the start that they follow.
        self._cursor.execute(
            "DELETE FROM starts WHERE time < (SELECT max(time) FROM starts WHERE time <="
            " (SELECT min(time) FROM ticks WHERE record IS NOT NULL))"
        )

    def _third_oldest(self, part: str, now: float) -> float:
        """Return the Unix time of the third tick that has a part, `now` with fewer.

        If each tick adds one row and cuts the two before this one, the file becomes smaller.
        """
        [found] = self._cursor.execute(
            f"SELECT time FROM ticks WHERE {part} IS NOT NULL ORDER BY time LIMIT 1 OFFSET 2"
        ).fetchone() or [now]
        return float(found)

    @property
    def _used(self) -> int:
        """Bytes of pages that hold records: those that are free are used again."""
        counts = ("page_size", "page_count", "freelist_count")
        size, pages, free = (
            self._cursor.execute(f"PRAGMA {each}").fetchone()[0] for each in counts
        )
        return int(size * (pages - free))

    def forget_intervals(self) -> None:
        """Remove what was measured; decisions and changes stay."""
        with _wrapping_errors(self._path), self._connection:
            self._cursor.execute("UPDATE ticks SET sample = NULL")

    def intervals(
        self, *, since: float = 0.0, most: int = MOST_INTERVALS, measured: int = MAX_MEASURED
    ) -> tuple[IntervalSample, ...]:
        """Return what was measured in the intervals that ended after a Unix time, oldest first.

        Of more than `most`, or than `measured` operators and replicas, the newest: with intervals
        left out in between, neither the traffic nor what hangs over from one interval to the next
        could be followed.
        """
        newest_first: list[IntervalSample] = []
        newest = (
            "SELECT sample FROM ticks WHERE sample IS NOT NULL AND time > ?"
            " ORDER BY time DESC LIMIT ?"
        )
        for sample in self._read(_SAMPLE, newest, since, most):
            measured -= sample.measured
            if measured < 0:
                break
            newest_first.append(sample)
        return tuple(reversed(newest_first))

    def last_tick(self, *, until: float) -> float:
        """Return the Unix time of the last tick up to one; `-inf` without."""
        [[found]] = self._rows("SELECT max(time) FROM ticks WHERE time <= ?", until)
        return -math.inf if found is None else float(found)

    def ticks(self, *, since: float = 0.0, until: float = math.inf) -> tuple[JobTick, ...]:
        """Return the ticks after a Unix time and up to another, oldest first; see `JobTick`."""
        between = (
            "SELECT record FROM ticks WHERE record IS NOT NULL AND time > ? AND time <= ?"
            " ORDER BY time"
        )
        return tuple(self._read(_TICK, between, since, until))

    def starts(self) -> tuple[LoopStart, ...]:
        """Return with what the loops began, oldest first."""
        return tuple(self._read(_START, "SELECT record FROM starts ORDER BY time"))

    def decisions(
        self, *, until: float = math.inf, operator: str | None = None, limit: int = 1
    ) -> tuple[DecisionRecord, ...]:
        """Return the newest decisions up to a Unix time, of one operator or all, newest first.

        `limit` counts decisions per operator.
        """
        known = (
            "SELECT operators FROM ticks WHERE decisions IS NOT NULL"
            " GROUP BY operators ORDER BY min(time)"
        )
        names = " ".join(row[0] for row in self._rows(known)).split()
        newest = (
            "SELECT decisions FROM ticks WHERE decisions IS NOT NULL AND instr(operators, ?)"
            " AND time <= ? ORDER BY time DESC LIMIT ?"
        )
        return tuple(
            each
            for name in ([operator] if operator is not None else dict.fromkeys(names))
            for decided in self._read(_DECISIONS, newest, f" {name} ", until, limit)
            for each in decided
            if each.operator == name
        )

    def following(self, record: DecisionRecord) -> DecisionRecord | None:
        """Return the same operator's next decision: what was seen after this one."""
        later = (
            "SELECT decisions FROM ticks WHERE decisions IS NOT NULL AND instr(operators, ?)"
            " AND time > ? ORDER BY time LIMIT 1"
        )
        decided = next(self._read(_DECISIONS, later, f" {record.operator} ", record.time), ())
        return next((each for each in decided if each.operator == record.operator), None)

    def change(self, change_id: str) -> RescaleJournal | None:
        """Return a change by its id."""
        return next(self._read(_CHANGE, "SELECT record FROM changes WHERE id = ?", change_id), None)

    def changes(self, *, since: float = 0.0) -> tuple[RescaleJournal, ...]:
        """Return the changes decided since a Unix time, oldest first."""
        newer = "SELECT record FROM changes WHERE time >= ? ORDER BY time"
        return tuple(self._read(_CHANGE, newer, since))

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def _read(self, kind: TypeAdapter[_T | None], query: str, *values: object) -> Iterator[_T]:
        for [text] in self._rows(query, *values):
            try:
                found = kind.validate_json(text, by_alias=False, by_name=True)
            except ValueError as error:
                raise DamagedRecordsError(
                    f"Expected decision records in {self._path}, got a damaged row; move the file "
                    "away"
                ) from error
            if found is not None:
                yield found

    def _rows(self, query: str, *values: object) -> Iterator[tuple[Any, ...]]:
        """Yield rows as they are read: those of a large job would not fit into memory together."""
        with _wrapping_errors(self._path):
            yield from self._connection.execute(query, values)


def _row_of(record: Record) -> tuple[str, tuple[str | float | None, ...]]:
    if isinstance(record, RescaleJournal):
        return "changes", (record.id, record.created, _CHANGE.dump_json(record).decode())
    if isinstance(record, LoopStart):
        return "starts", (record.time, _START.dump_json(record).decode())
    sample, decisions = record.sample, record.decisions
    return "ticks", (
        record.time,
        f" {' '.join(dict.fromkeys(each.operator for each in decisions))} " if decisions else None,
        _TICK.dump_json(record, exclude={"sample", "decisions"}).decode(),
        None if sample is None else _SAMPLE.dump_json(sample).decode(),
        _DECISIONS.dump_json(decisions).decode() if decisions else None,
    )


@contextmanager
def _wrapping_errors(path: Path) -> Iterator[None]:
    """Turn errors of SQLite and of the operating system about a file into Weir's."""
    try:
        yield
    except sqlite3.Error as error:
        if getattr(error, "sqlite_errorcode", sqlite3.SQLITE_MISUSE) & 0xFF in _DAMAGED:
            raise DamagedRecordsError(
                f"Expected decision records in {path}, got: {error}; move the file away"
            ) from error
        raise TemporaryError(
            f"Could not use {path}: {error}; free space on the disk, or repair it"
        ) from error
    except OSError as error:
        raise TemporaryError(
            f"Expected write access to the folder {path.parent}, got: "
            f"{error.strerror or error}; change its permissions"
        ) from error


def _checkpoint_log(path: Path) -> None:
    # Not made anew where it was moved aside or deleted meanwhile.
    address = f"{path.resolve().as_uri()}?mode=rw"
    with (
        _wrapping_errors(path),
        closing(sqlite3.connect(address, uri=True, timeout=WAIT)) as connection,
    ):
        connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()


class TolerantRecords:
    """Decision records of one StreamApp; nothing that is wrong with them is raised."""

    def __init__(
        self,
        path: Path,
        tell: Callable[[str, str], None],
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Open the file, or go without.

        Args:
            path: The file.
            tell: Called with a reason and a message when records were damaged, are not kept, and
                are kept again.
            monotonic: Seconds of a clock that cannot be set.
        """
        self._path = path
        self._report = tell
        self._monotonic = monotonic
        self._store: RecordStore | None = None
        self._failed_at = -math.inf
        self.failure = ""
        """Why records are not kept; empty where they are."""
        self._do(lambda store: None)

    def write(self, records: Iterable[Record]) -> None:
        """Write records in one transaction."""
        given = tuple(records)
        self._do(lambda store: store.write(given))

    def last_tick(self, *, until: float) -> float:
        """Return the Unix time of the last tick up to one; `-inf` where it cannot be read."""
        found = self._do(lambda store: store.last_tick(until=until))
        return -math.inf if found is None else found

    def forget_intervals(self) -> None:
        """Remove what was measured; decisions and changes stay."""
        self._do(lambda store: store.forget_intervals())

    async def shorten_log(self) -> None:
        """Checkpoint the write-ahead log once it has grown, in another thread.

        That waits for the disk, which may take seconds. Who writes meanwhile does not wait.
        """
        written = self._path.with_name(f"{self._path.name}-wal")
        try:
            if written.exists() and written.stat().st_size > LOG_BYTES:
                await asyncio.to_thread(_checkpoint_log, self._path)
        except (WeirError, OSError) as error:  # the next write says what is wrong with the file
            log.warning("decision records not worked in", failure=str(error))

    def close(self) -> None:
        """Close the file."""
        if self._store is not None:
            self._store.close()
            self._store = None

    def _do(self, work: Callable[[RecordStore], _Found]) -> _Found | None:
        """Use the records; `None` where that fails, and for a while after a failure."""
        now = self._monotonic()
        if now - self._failed_at < RETRY_AFTER:
            return None
        try:
            try:
                found = work(self._open())
            except DamagedRecordsError as error:
                log.warning("decision records are damaged", failure=str(error))
                self._put_aside()
                found = work(self._open())
                self._report(
                    "RecordsDamaged",
                    "The decision records were damaged, or of an earlier version of Weir, so Weir "
                    f"started new ones; the old file is {self._path.name + ASIDE}",
                )
        except Exception as error:  # not even a defect in keeping records is a reason not to scale
            log.warning("decision records not kept", exc_info=True)
            self.close()
            self._failed_at, before, self.failure = now, self.failure, str(error) or repr(error)
            if not before:
                message = f"Weir decides, but cannot record its decisions: {self.failure}"
                self._report("RecordsNotKept", message)
            return None
        if self.failure and now - self._failed_at >= KEPT_AGAIN_AFTER:
            self.failure = ""
            self._report("RecordsKept", "Weir records its decisions again")
        return found

    def _open(self) -> RecordStore:
        if self._store is None:
            self._store = RecordStore(self._path)
        return self._store

    def _put_aside(self) -> None:
        self.close()
        for end in ("", "-wal", "-shm"):
            kept = self._path.with_name(self._path.name + end)
            if kept.exists():
                kept.replace(self._path.with_name(self._path.name + ASIDE + end))
