"""Decision records as the loops write them: what is wrong with their file costs history alone.

A job must not go without scaling because its records cannot be kept. So a damaged file is put aside
and another begun; where the disk takes nothing, nothing is kept until it does; and both are told.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path

import structlog

from weir_operator.controller.events import Event
from weir_operator.controller.record_file import DamagedRecordsError, telling
from weir_operator.controller.records import DecisionRecord, RecordStore
from weir_operator.errors import WeirError
from weir_operator.rescale.journal import RescaleJournal
from weir_simulator.fitting.samples import IntervalSample

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
            tell: Told when records were damaged, are not kept, and are kept again.
            monotonic: Seconds of a clock that nobody sets.
        """
        self._path = path
        self._tell = tell
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

    def forget_intervals(self) -> None:
        """Remove what was measured; decisions, changes and events stay."""
        self._do(lambda store: store.forget_intervals())

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
                work(self._opened())
            except DamagedRecordsError as error:
                log.warning("decision records are damaged", failure=str(error))
                damaged = True
                self._put_aside()
                work(self._opened())
            failure = ""
        except WeirError as error:
            failure = str(error)
        except Exception as error:  # a defect in keeping records is no reason to stop scaling
            log.exception("defect in keeping records")
            failure = f"a defect of Weir, {type(error).__name__}; see the log"
        now, before = self._monotonic(), self.failure
        if failure:
            self._failed_at = now
        elif before and now - self._failed_at < AGAIN:
            return
        self.failure = failure
        if damaged and not failure:
            aside = self._path.name + ASIDE
            self._tell(
                "RecordsDamaged",
                f"The decision records were damaged and begin anew; what was there is in {aside}",
            )
        if failure and not before:
            self._tell("RecordsNotKept", f"Decisions go on and are not recorded: {failure}")
        if before and not failure:
            self._tell("RecordsKept", "Decisions are recorded again")

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
