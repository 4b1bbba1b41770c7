"""What is wrong with the records costs history, and nothing else."""

from __future__ import annotations

import asyncio
import sqlite3

import pytest

from tests.cli.recorded import a_tick
from tests.operator.loop.test_decision_records import a_record
from weir_operator.loop.record import (
    KEPT_AGAIN_AFTER,
    LOG_BYTES,
    RETRY_AFTER,
    RecordStore,
    TolerantRecords,
)
from weir_simulator.fitting.samples import IntervalSample

SAMPLE = a_tick(1.0, sample=IntervalSample(time=1.0, seconds=1.0, operators={}))


def in_tick(*names, time=10.0):
    """Return a tick whose decisions have these ids."""
    return a_tick(time, *(a_record(name, time=time) for name in names))


class KeptRecords:
    """Records in a folder, what was told of them, and a clock."""

    def __init__(self, folder):
        self.path = folder / "records.sqlite"
        self.aside = folder / "records.sqlite.damaged"
        self.told = []
        self.time = 0.0
        self.records = None

    def open(self):
        self.records = TolerantRecords(
            self.path, lambda reason, message: self.told.append(reason), monotonic=lambda: self.time
        )
        return self.records

    @property
    def kept(self):
        store = RecordStore(self.path)
        try:
            return [each.id for each in store.decisions(limit=1000)]
        finally:
            store.close()


@pytest.fixture
def storage(tmp_path):
    storage = KeptRecords(tmp_path)
    yield storage
    if storage.records is not None:
        storage.records.close()


def use(records):
    """Do everything that the loops do with records."""
    records.write([in_tick("first")])
    records.write([SAMPLE])
    records.forget_intervals()
    records.last_tick(until=1.0)


@pytest.mark.parametrize(
    "content", [b"no database " * 100, b"\xff" * 5000, b"SQLite format 3\0" * 99]
)
def test_a_file_that_is_no_database_is_put_aside_and_another_begun(storage, content):
    storage.path.write_bytes(content)

    use(storage.open())

    assert storage.kept == ["first"]
    assert storage.aside.read_bytes() == content
    assert storage.told == ["RecordsDamaged"]
    assert storage.records.failure == ""


async def test_the_log_is_worked_in_between_ticks_while_others_write(storage):
    records = storage.open()
    log = storage.path.with_name("records.sqlite-wal")

    for number in range(300):
        records.write([in_tick(*(f"{number}-{name}" for name in "abcdefgh"), time=number)])
        working = asyncio.create_task(records.shorten_log())
        await asyncio.sleep(0)
        records.write([SAMPLE])
        await working
    # Where somebody wrote meanwhile, the log may have stayed as long as it was. Nobody does now.
    while log.stat().st_size <= LOG_BYTES:
        records.write([SAMPLE])
    await records.shorten_log()
    records.write([SAMPLE])

    assert log.stat().st_size < LOG_BYTES
    assert storage.records.failure == ""
    records.close()
    assert storage.kept[0].startswith("299-")
    await records.shorten_log()  # a tick that ends after the loops


def test_a_database_that_is_damaged_inside_is_put_aside_at_the_write_that_finds_it(storage):
    before = RecordStore(storage.path)
    for number in range(300):
        before.write([in_tick(*(f"{number}-{name}" for name in "abc"), time=number)])
    before.close()
    damage(storage.path)
    records = storage.open()

    for number in range(300):
        records.write([in_tick(f"new{number}", time=1000.0 + number)])

    assert "RecordsDamaged" in storage.told
    assert storage.aside.exists()
    assert "new299" in storage.kept
    assert records.failure == ""


def damage(path):
    """Overwrite all pages but the first, which says what the file is."""
    content = bytearray(path.read_bytes())
    content[4096:] = b"\x5a" * (len(content) - 4096)
    path.write_bytes(bytes(content))


def test_a_database_of_somebody_else_is_put_aside(storage):
    other = sqlite3.connect(storage.path)
    other.execute("CREATE TABLE ticks (something TEXT)")
    other.commit()
    other.close()

    use(storage.open())

    assert storage.kept == ["first"]
    assert storage.told == ["RecordsDamaged"]


def test_a_second_damage_takes_the_place_of_the_first(storage):
    for content in (b"first " * 1000, b"second " * 1000):
        storage.path.write_bytes(content)
        storage.open().close()

    assert storage.aside.read_bytes() == b"second " * 1000


def test_on_a_full_disk_nothing_is_kept_and_nothing_raised_until_it_is_freed(storage):
    records = storage.open()
    fill(records)

    records.write([in_tick(*map(str, range(200)))])
    failure = records.failure
    records.write([in_tick("at once")])
    storage.time += RETRY_AFTER
    records.write([in_tick("soon")])
    told = list(storage.told)
    storage.time += KEPT_AGAIN_AFTER
    records.write([in_tick("late", time=11.0)])

    assert failure != ""
    assert told == ["RecordsNotKept"]
    assert storage.told == ["RecordsNotKept", "RecordsKept"]
    assert set(storage.kept) == {"soon", "late"}
    assert records.failure == ""


def test_on_a_disk_that_takes_some_and_not_others_records_do_not_count_as_kept(storage):
    records = storage.open()
    too_many = [in_tick(*map(str, range(200)))]

    for _ in range(3):  # longer than KEPT_AGAIN_AFTER in all
        fill(records)
        records.write(too_many)
        storage.time += RETRY_AFTER
        records.write([in_tick("small")])

    assert storage.told == ["RecordsNotKept"]
    assert records.failure != ""


def fill(records):
    """Leave the open file no room to grow, as a full disk does."""
    records._store._connection.execute("PRAGMA max_page_count = 1")


def test_while_somebody_else_holds_the_file_the_loop_waits_once_and_goes_on(storage, monkeypatch):
    monkeypatch.setattr("weir_operator.loop.record.WAIT", 0.01)
    records = storage.open()
    other = sqlite3.connect(storage.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")

    records.write([in_tick("lost")])
    failure = records.failure
    other.close()
    storage.time += KEPT_AGAIN_AFTER
    records.write([in_tick("late")])

    assert "locked" in failure
    assert storage.told == ["RecordsNotKept", "RecordsKept"]
    assert storage.kept == ["late"]


def test_where_the_file_cannot_be_made_it_is_tried_again_after_a_while(storage):
    storage.path = storage.path.parent / "state" / "records.sqlite"
    storage.path.parent.write_text("a file in the place of the folder")
    records = storage.open()

    use(records)
    told = list(storage.told)
    storage.path.parent.unlink()
    records.write([in_tick("early")])
    storage.time += KEPT_AGAIN_AFTER
    records.write([in_tick("late")])

    assert told == ["RecordsNotKept"]
    assert storage.told == ["RecordsNotKept", "RecordsKept"]
    assert storage.kept == ["late"]


def test_records_of_an_earlier_weir_are_put_aside_and_others_begun(storage):
    earlier = sqlite3.connect(storage.path)
    earlier.execute("CREATE TABLE decisions (id, time, operator, record)")
    earlier.execute("PRAGMA user_version = 1")
    earlier.close()
    before = storage.path.read_bytes()

    use(storage.open())

    assert storage.kept == ["first"]
    assert storage.told == ["RecordsDamaged"]
    assert storage.aside.read_bytes() == before


def test_records_of_a_newer_weir_are_left_as_they_are(storage):
    newer = RecordStore(storage.path)
    newer.write([in_tick("kept")])
    newer._connection.execute("PRAGMA user_version = 9")
    newer.close()
    before = storage.path.read_bytes()

    use(storage.open())

    assert storage.told == ["RecordsNotKept"]
    assert storage.records.failure != ""
    assert storage.path.read_bytes() == before


def test_a_defect_in_keeping_records_is_none_of_the_loops(storage):
    records = storage.open()

    records.write([object()])
    failure = records.failure
    storage.time += KEPT_AGAIN_AFTER
    records.write([in_tick("once")])

    assert "object" in failure
    assert storage.told == ["RecordsNotKept", "RecordsKept"]
    assert storage.kept == ["once"]
