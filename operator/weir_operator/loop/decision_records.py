"""Decision records: measurements, candidates, expectations and results of each decision.

A SQLite file in a directory that survives the controller; `weir explain`, fits and tests read it.
Each row is JSON as Python and SQLite's own shell read it, with NaN and infinity. A tick's decisions
are written in one transaction, before anything is done. What is too old is deleted.

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
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar

import structlog
from pydantic import ConfigDict, TypeAdapter

from weir_operator.errors import PermanentError, TemporaryError, WeirError
from weir_operator.rescale.journal import RescaleJournal
from weir_policies.model.dataflow import Edge
from weir_policies.policy import Decision, Observation
from weir_simulator.fitting.samples import IntervalSample

log = structlog.get_logger()

RECORDS = "records.sqlite"
"""The file, in the folder of each StreamApp's state."""
ASIDE = ".damaged"
"""Ends the name of a file that was put aside; the next one takes its place."""
VERSION = 1
"""Of what the file holds."""

INTERVALS_KEPT = 8 * 86_400.0
"""Seconds for which measured intervals and changes are kept: what a job is fitted to, a week and a
little."""
DECISIONS_KEPT = 3 * 86_400.0
"""Seconds for which decisions are kept, and what those of a tick have in common. A decision takes 3
to 4 kB: 15 MB for an operator that decides every minute."""
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
"""With so few ticks left in a file that is still too large, intervals are cut, too."""

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
    """The job as a whole at one tick: what its decisions depend on beside their observations."""

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


@dataclass(frozen=True, kw_only=True, slots=True)
class LoopStart:
    """With what the loops of a StreamApp began, or began again."""

    time: float
    """Unix seconds."""
    app: Mapping[str, Any]
    """The StreamApp, as far as decisions depend on it."""
    policy: str
    """Name of the operators' policy."""


Record = DecisionRecord | RescaleJournal | IntervalSample | JobTick | LoopStart
"""What is written, a row each."""
_R = TypeVar("_R", bound=Record)
_Found = TypeVar("_Found")


# Pydantic can be told to write NaN and infinity in a union of types, but not in a class.
_NOT_FINITE = ConfigDict(ser_json_inf_nan="constants")


@dataclass(frozen=True, slots=True)
class _Table:
    """Where records of one kind are."""

    name: str
    kept: float | None
    """Seconds; `None` as long as anything that follows."""
    adapter: TypeAdapter[Any]


_TABLES: dict[type[Any], _Table] = {
    DecisionRecord: _Table(
        "decisions", DECISIONS_KEPT, TypeAdapter(DecisionRecord | None, config=_NOT_FINITE)
    ),
    RescaleJournal: _Table(
        "changes", INTERVALS_KEPT, TypeAdapter(RescaleJournal | None, config=_NOT_FINITE)
    ),
    IntervalSample: _Table(
        "intervals", INTERVALS_KEPT, TypeAdapter(IntervalSample | None, config=_NOT_FINITE)
    ),
    JobTick: _Table("ticks", DECISIONS_KEPT, TypeAdapter(JobTick | None, config=_NOT_FINITE)),
    LoopStart: _Table("starts", None, TypeAdapter(LoopStart | None, config=_NOT_FINITE)),
}


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
        if version not in (0, VERSION):
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
            tables = "".join(
                f"CREATE TABLE {each.name} (id PRIMARY KEY, time REAL NOT NULL,"
                " operator TEXT NOT NULL, record TEXT NOT NULL);"
                f"CREATE INDEX {each.name}_by_time ON {each.name} (time, operator);"
                for each in _TABLES.values()
            )
            self._connection.executescript(
                f"BEGIN; {tables} PRAGMA user_version = {VERSION}; COMMIT"
            )

    def write(self, records: Iterable[Record]) -> None:
        """Write records in one transaction; one that was written before is replaced.

        With a tick, what is too old by then is deleted.
        """
        given = [(each, _TABLES[type(each)]) for each in records]
        rows = [(table, _row_of(each, table)) for each, table in given]
        with _wrapping_errors(self._path):
            with self._connection:
                for table, row in rows:
                    self._cursor.execute(
                        f"INSERT OR REPLACE INTO {table.name} VALUES (?,?,?,?)", row
                    )
                for each, _ in given:
                    if isinstance(each, JobTick):
                        self._prune(each.time)
            self._cursor.execute("PRAGMA shrink_memory")  # not used until the next tick

    def _prune(self, now: float) -> None:
        """Delete what is too old by a Unix time."""
        [longest_ago] = self._cursor.execute(
            "SELECT ifnull((SELECT time FROM ticks ORDER BY time DESC LIMIT 1 OFFSET ?), -9e18)",
            (MOST_INTERVALS - 1,),
        ).fetchone()
        # Decisions fill a file, so they and their ticks are cut first; intervals and changes follow
        # once hardly any tick is left.
        cut = {DECISIONS_KEPT: longest_ago, INTERVALS_KEPT: longest_ago}
        if self._used > MOST_BYTES:
            cut[DECISIONS_KEPT] = max(longest_ago, self._third_oldest("ticks", now))
            [ticks] = self._cursor.execute("SELECT count(*) FROM ticks").fetchone()
            if ticks <= FEWEST_TICKS:
                cut[INTERVALS_KEPT] = max(longest_ago, self._third_oldest("intervals", now))
        for table in _TABLES.values():
            if table.kept is not None:
                oldest_kept = max(now - table.kept, cut[table.kept])
                self._cursor.execute(f"DELETE FROM {table.name} WHERE time < ?", (oldest_kept,))
        # The ticks that are left need the start that they follow.
        self._cursor.execute(
            "DELETE FROM starts WHERE time <"
            " (SELECT max(time) FROM starts WHERE time <= (SELECT min(time) FROM ticks))"
        )

    def _third_oldest(self, table: str, now: float) -> float:
        """Return the Unix time of a table's third row, `now` with fewer.

        If each tick adds one row and deletes the two before this one, the file becomes smaller.
        """
        third = f"SELECT time FROM {table} ORDER BY time LIMIT 1 OFFSET 2"
        [found] = self._cursor.execute(third).fetchone() or [now]
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
            self._cursor.execute("DELETE FROM intervals")

    def intervals(
        self, *, since: float = 0.0, most: int = MOST_INTERVALS, measured: int = MAX_MEASURED
    ) -> tuple[IntervalSample, ...]:
        """Return what was measured in the intervals that ended after a Unix time, oldest first.

        Of more than `most`, or than `measured` operators and replicas, the newest: with intervals
        left out in between, neither the traffic nor what hangs over from one interval to the next
        could be followed.
        """
        newest_first: list[IntervalSample] = []
        newest = "WHERE time > ? ORDER BY time DESC LIMIT ?"
        for sample in self._read(IntervalSample, newest, since, most):
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
        """Return the ticks after a Unix time and up to another, oldest first."""
        return tuple(
            self._read(JobTick, "WHERE time > ? AND time <= ? ORDER BY time", since, until)
        )

    def starts(self) -> tuple[LoopStart, ...]:
        """Return with what the loops began, oldest first."""
        return tuple(self._read(LoopStart, "ORDER BY time"))

    def decisions(
        self, *, until: float = math.inf, operator: str | None = None, limit: int = 1
    ) -> tuple[DecisionRecord, ...]:
        """Return the newest decisions up to a Unix time, of one operator or all, newest first.

        `limit` counts decisions per operator.
        """
        known = "SELECT operator FROM decisions GROUP BY operator ORDER BY min(rowid)"
        names = [operator] if operator is not None else [row[0] for row in self._rows(known)]
        newest = "WHERE operator = ? AND time <= ? ORDER BY time DESC LIMIT ?"
        return tuple(
            each
            for name in names
            for each in self._read(DecisionRecord, newest, name, until, limit)
        )

    def following(self, record: DecisionRecord) -> DecisionRecord | None:
        """Return the same operator's next decision: what was seen after this one."""
        later = "WHERE operator = ? AND time > ? ORDER BY time LIMIT 1"
        return next(self._read(DecisionRecord, later, record.operator, record.time), None)

    def change(self, change_id: str) -> RescaleJournal | None:
        """Return a change by its id."""
        return next(self._read(RescaleJournal, "WHERE id = ?", change_id), None)

    def changes(self, *, since: float = 0.0) -> tuple[RescaleJournal, ...]:
        """Return the changes decided since a Unix time, oldest first."""
        return tuple(self._read(RescaleJournal, "WHERE time >= ? ORDER BY time", since))

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def _read(self, kind: type[_R], condition: str, *values: object) -> Iterator[_R]:
        table = _TABLES[kind]
        for [text] in self._rows(f"SELECT record FROM {table.name} {condition}", *values):
            try:
                yield table.adapter.validate_json(text, by_alias=False, by_name=True)
            except ValueError as error:
                raise DamagedRecordsError(
                    f"Expected decision records in {self._path}, got a damaged row; move the file "
                    "away"
                ) from error

    def _rows(self, query: str, *values: object) -> Iterator[tuple[Any, ...]]:
        """Yield rows as they are read: those of a large job would not fit into memory together."""
        with _wrapping_errors(self._path):
            yield from self._connection.execute(query, values)


def _row_of(record: Record, table: _Table) -> tuple[str | float, float, str, str]:
    """Return the columns of a record: its id, Unix time, operator if it is of one, and JSON."""
    text = table.adapter.dump_json(record).decode()
    if isinstance(record, RescaleJournal):
        return record.id, record.created, "", text
    if isinstance(record, DecisionRecord):
        return record.id, record.time, record.operator, text
    return record.time, record.time, "", text


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
                    "The decision records were damaged, so Weir started new ones; the old "
                    f"file is {self._path.name + ASIDE}",
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
        """Give the file and what belongs to it another name."""
        self.close()
        for end in ("", "-wal", "-shm"):
            kept = self._path.with_name(self._path.name + end)
            if kept.exists():
                kept.replace(self._path.with_name(self._path.name + ASIDE + end))
