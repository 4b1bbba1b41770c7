"""Decision records: what was seen, what was weighed, what was expected, what came of it.

SQLite in a directory that outlives the controller. Written each tick in one transaction; read by
`weir explain`. Values go in and come out whole: Python's own JSON knows NaN and infinity.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import structlog
from pydantic import TypeAdapter

from weir_operator.errors import PermanentError, TemporaryError
from weir_operator.rescale.journal import RescaleJournal
from weir_policies.promise import Decision, Observation
from weir_simulator.fitting.samples import IntervalSample

log = structlog.get_logger()

_OBSERVATION = TypeAdapter(Observation)
_DECISION = TypeAdapter(Decision)
_INTERVAL = TypeAdapter(IntervalSample)

RECORDS = "records.sqlite"
"""The file, in the folder of each StreamApp's state."""

INTERVALS_KEPT = 8 * 86_400.0
"""Seconds for which measured intervals are kept: what a job is fitted to, a week and a little."""

MOST_INTERVALS = 12_000
"""Measured intervals that are read at once: all that is kept of minutes, 17 hours of 5 seconds."""
MOST_MEASURED = 150_000
"""Operators and their replicas, each counted in every interval, that are read at once. Each is a
few hundred bytes of objects, and a controller has many jobs and little memory. Three operators of
three replicas come to 12,000 intervals; ten of five to 2,500, of minutes nearly two days."""

CACHE_KIB = 64
"""KiB of a file's pages in memory: they are written once and hardly read, and every StreamApp has
a file. SQLite would take 2,000."""

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
CREATE TABLE IF NOT EXISTS intervals (time REAL PRIMARY KEY, sample TEXT NOT NULL);
PRAGMA user_version = 1;
"""


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


@dataclass(frozen=True, kw_only=True, slots=True)
class Event:
    """A fact worth telling: `reason` in CamelCase, a message for people."""

    time: float
    reason: str
    message: str


class RecordStore:
    """Decision records of one StreamApp in one SQLite file.

    Raises:
        PermanentError: The file was written by a newer Weir, or is no database.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._connection = sqlite3.connect(path, timeout=10.0, isolation_level=None)
            [version] = self._connection.execute("PRAGMA user_version").fetchone()
            if version > 1:
                raise PermanentError(
                    f"Expected records of version 1 in {path}, got {version}: use a newer weir"
                )
            # A reader (weir explain) must never hold up the loop that writes.
            self._connection.execute("PRAGMA journal_mode = WAL")
            # A power failure may take the last records, nothing else does; and the loop of a
            # thousand StreamApps does not wait for the disk a thousand times an interval.
            self._connection.execute("PRAGMA synchronous = NORMAL")
            self._connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
            self._connection.executescript(_SCHEMA)
        except sqlite3.DatabaseError as error:
            raise PermanentError(
                f"Expected decision records in {path}, got: {error}; move the file away"
            ) from error

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
        rows = [
            (
                record.id,
                record.time,
                record.operator,
                record.policy,
                json.dumps(_OBSERVATION.dump_python(record.observation)),
                json.dumps(_DECISION.dump_python(record.decision)),
                record.verdict,
                record.change,
            )
            for record in decisions
        ]
        try:
            with closing(self._connection.cursor()) as cursor:
                cursor.execute("BEGIN")
                try:
                    cursor.executemany("INSERT INTO decisions VALUES (?,?,?,?,?,?,?,?)", rows)
                    cursor.executemany(
                        "INSERT INTO events VALUES (?,?,?)",
                        [(event.time, event.reason, event.message) for event in events],
                    )
                    if change is not None:
                        cursor.execute(
                            "INSERT OR REPLACE INTO changes VALUES (?,?,?)",
                            (change.id, change.created, change.model_dump_json()),
                        )
                    cursor.execute("COMMIT")
                except BaseException:
                    cursor.execute("ROLLBACK")
                    raise
        except sqlite3.OperationalError as error:
            raise TemporaryError(f"Could not write {self._path}: {error}; free the disk") from error

    def note(self, *, events: Iterable[Event] = (), change: RescaleJournal | None = None) -> None:
        """Write what has happened already; a disk that does not take it stops nobody.

        A decision that cannot be recorded is not taken. But a fact is one whether or not it is
        written, and the job must not fall because its diary is full.
        """
        try:
            self.write((), events=events, change=change)
        except TemporaryError as error:
            log.warning("not recorded", failure=str(error))

    def note_interval(self, sample: IntervalSample) -> None:
        """Write what was measured in an interval; a disk that does not take it stops nobody."""
        text = json.dumps(_INTERVAL.dump_python(sample))
        try:
            self._connection.execute(
                "INSERT OR REPLACE INTO intervals VALUES (?,?)", (sample.time, text)
            )
            self._connection.execute(
                "DELETE FROM intervals WHERE time < ?", (sample.time - INTERVALS_KEPT,)
            )
        except sqlite3.OperationalError as error:
            log.warning("interval not recorded", failure=str(error))

    def forget_intervals(self) -> None:
        """Remove what was measured; decisions, changes and events stay.

        Raises:
            TemporaryError: The disk did not take it.
        """
        try:
            self._connection.execute("DELETE FROM intervals")
        except sqlite3.OperationalError as error:
            raise TemporaryError(f"Could not write {self._path}: {error}; free the disk") from error

    def intervals(
        self, *, since: float = 0.0, most: int = MOST_INTERVALS, measured: int = MOST_MEASURED
    ) -> tuple[IntervalSample, ...]:
        """Return what was measured in the intervals that ended after a Unix time, oldest first.

        Of more than `most`, or than `measured` operators and replicas, the newest: with intervals
        left out in between, neither the traffic nor what hangs over from one interval to the next
        could be followed.
        """
        rows = self._connection.execute(
            "SELECT sample FROM intervals WHERE time > ? ORDER BY time DESC LIMIT ?", (since, most)
        )
        newest_first: list[IntervalSample] = []
        for row in rows:
            sample = _INTERVAL.validate_python(json.loads(row[0]))
            measured -= sample.measured
            if measured < 0:
                break
            newest_first.append(sample)
        return tuple(reversed(newest_first))

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
                for row in self._connection.execute(
                    "SELECT operator FROM decisions GROUP BY operator ORDER BY min(rowid)"
                )
            ]
        )
        found: list[DecisionRecord] = []
        for name in operators:
            rows = self._connection.execute(
                "SELECT * FROM decisions WHERE operator = ? AND time <= ?"
                " ORDER BY time DESC LIMIT ?",
                (name, until if until is not None else 9e18, limit),
            )
            found += [_decision_of(row) for row in rows]
        return tuple(found)

    def following(self, record: DecisionRecord) -> DecisionRecord | None:
        """Return the same operator's next decision: what was seen after this one."""
        row = self._connection.execute(
            "SELECT * FROM decisions WHERE operator = ? AND time > ? ORDER BY time LIMIT 1",
            (record.operator, record.time),
        ).fetchone()
        return _decision_of(row) if row else None

    def change(self, change_id: str) -> RescaleJournal | None:
        """Return a change by its id."""
        row = self._connection.execute(
            "SELECT journal FROM changes WHERE id = ?", (change_id,)
        ).fetchone()
        return RescaleJournal.model_validate_json(row[0]) if row else None

    def changes(self, *, since: float = 0.0) -> tuple[RescaleJournal, ...]:
        """Return the changes decided since a Unix time, oldest first."""
        rows = self._connection.execute(
            "SELECT journal FROM changes WHERE time >= ? ORDER BY time", (since,)
        )
        return tuple(RescaleJournal.model_validate_json(row[0]) for row in rows)

    def events(self, *, since: float = 0.0) -> tuple[Event, ...]:
        """Return the events since a Unix time, oldest first."""
        rows = self._connection.execute(
            "SELECT time, reason, message FROM events WHERE time >= ? ORDER BY time", (since,)
        )
        return tuple(Event(time=row[0], reason=row[1], message=row[2]) for row in rows)

    def close(self) -> None:
        """Close the file."""
        self._connection.close()


def _decision_of(row: Sequence[str | float | None]) -> DecisionRecord:
    key, time, operator, policy, observation, decision, verdict, change = row
    return DecisionRecord(
        id=str(key),
        time=float(time or 0.0),
        operator=str(operator),
        policy=str(policy),
        observation=_OBSERVATION.validate_python(json.loads(str(observation))),
        decision=_DECISION.validate_python(json.loads(str(decision))),
        verdict=str(verdict),
        change=None if change is None else str(change),
    )
