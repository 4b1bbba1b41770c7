"""Decision records: what was seen, what was weighed, what was expected, what came of it.

SQLite in a directory that outlives the controller. Written each tick in one transaction; read by
`weir explain`. Values go in and come out whole: Python's own JSON knows NaN and infinity. What is
old goes, and what would be too much.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from pydantic import TypeAdapter

from weir_operator.controller.events import Event
from weir_operator.controller.record_file import (
    DamagedRecordsError,
    open_file,
    pack,
    prune,
    telling,
    unpack,
)
from weir_operator.rescale.journal import RescaleJournal
from weir_policies.promise import Decision, Observation
from weir_simulator.fitting.samples import IntervalSample

_OBSERVATION = TypeAdapter(Observation)
_DECISION = TypeAdapter(Decision)
_INTERVAL = TypeAdapter(IntervalSample)

RECORDS = "records.sqlite"
"""The file, in the folder of each StreamApp's state."""

INTERVALS_KEPT = 8 * 86_400.0
"""Seconds for which measured intervals are kept: what a job is fitted to, a week and a little."""

MOST_INTERVALS = 12_000
"""Measured intervals that are kept and read at once: those of 8 days of minutes, of 17 hours of 5
seconds."""
MOST_MEASURED = 150_000
"""Operators and their replicas, each counted in every interval, that are read at once. Each is a
few hundred bytes of objects, and a controller has many jobs and little memory. Three operators of
three replicas come to 12,000 intervals; ten of five to 2,500, of minutes nearly two days."""

KEPT = 30 * 86_400.0
"""Seconds for which decisions, changes and events are kept."""
MOST_BYTES = 64 * 2**20
"""Bytes of one StreamApp's records; of more, the oldest decisions, changes and events go. Two
operators that decide every minute stay below it for 30 days: `make bench NAME=records`."""
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

    def forget_intervals(self) -> None:
        """Remove what was measured; decisions, changes and events stay."""
        ...


class RecordStore:
    """Decision records of one StreamApp in one SQLite file.

    Every call raises `DamagedRecordsError` where the file is none of Weir's or damaged,
    `TemporaryError` where the disk does not take or give it, and else does all of what it says.
    """

    def __init__(self, path: Path) -> None:
        """Open or make the file.

        Raises:
            PermanentError: It was written by a newer Weir, is no database, or may not be written.
            TemporaryError: The disk does not take it.
        """
        self._path = path
        self._connection = open_file(path)
        self._until_prune = 0

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
                pack(_text(_OBSERVATION.dump_python(record.observation))),
                pack(_text(_DECISION.dump_python(record.decision))),
                record.verdict,
                record.change,
            )
            for record in given
        ]
        with telling(self._path), closing(self._connection.cursor()) as cursor:
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
        for time in [*(each.time for each in given), *(each.time for each in told)][:1]:
            self._prune(time)

    def note(self, *, events: Iterable[Event] = (), change: RescaleJournal | None = None) -> None:
        """Write what has happened already."""
        self.write((), events=events, change=change)

    def note_interval(self, sample: IntervalSample) -> None:
        """Write what was measured in an interval, and forget what is never read again."""
        packed = pack(_text(_INTERVAL.dump_python(sample)))
        with telling(self._path):
            self._connection.execute(
                "INSERT OR REPLACE INTO intervals VALUES (?,?)", (sample.time, packed)
            )
            self._connection.execute(
                "DELETE FROM intervals WHERE time < ?", (sample.time - INTERVALS_KEPT,)
            )
        self._prune(sample.time)

    def forget_intervals(self) -> None:
        """Remove what was measured; decisions, changes and events stay."""
        with telling(self._path):
            self._connection.execute("DELETE FROM intervals")

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
                most=MOST_BYTES,
            )

    def intervals(
        self, *, since: float = 0.0, most: int = MOST_INTERVALS, measured: int = MOST_MEASURED
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
            return self._connection.execute(query, values).fetchall()

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
                observation=_OBSERVATION.validate_python(self._plain(observation)),
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
                f"Expected decision records in {self._path}, got a row that is damaged; "
                "move the file away"
            ) from error


def _text(plain: Any) -> str:
    return json.dumps(plain, separators=(",", ":"))
