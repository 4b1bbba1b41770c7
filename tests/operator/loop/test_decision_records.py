"""Decision records come back as they went in, and nothing half-written is ever seen."""

import math
import sqlite3

import pytest

from tests.cli.recorded import a_tick
from weir_operator.errors import PermanentError, TemporaryError
from weir_operator.loop.decision_records import (
    KEPT,
    PRUNE_EVERY,
    DamagedRecordsError,
    DecisionRecord,
    RecordStore,
    pack,
    unpack,
    work_log_in,
)
from weir_operator.loop.events import Event
from weir_operator.rescale.journal import Kind, plan
from weir_policies.model.node_types import Deployment, NodeType
from weir_policies.policy import Candidate, Decision, Expectation, Observation, OperatorModel
from weir_simulator.fitting.samples import IntervalSample


def a_record(key="d1", *, time=10.0, operator="match", change=None):
    model = OperatorModel(
        name=operator,
        node_types=(NodeType(name="small/1", pool="small", speedup=1.0, price=0.04),),
        max_replicas=4,
        service_mean=0.02,
        service_scv=math.nan,
    )
    observation = Observation(
        time=time,
        time_of_week=0.5,
        interval=5.0,
        model=model,
        deployment=Deployment((1,)),
        rate=math.nan,
        processed=20.0,
        response_time=0.03,
        utilisation=(0.4, math.nan),
        backlog=0.0,
        replica_ages=(60.0,),
        budget=0.1,
    )
    expectation = Expectation(response_time=math.inf, utilisation=1.2, cost_per_hour=0.04)
    candidate = Candidate(
        deployment=Deployment((2,)), score=math.inf, expectation=expectation, verdict="too slow"
    )
    decision = Decision(
        target=Deployment((2,)),
        reason="more is needed",
        candidates=(candidate,),
        expectation=expectation,
        urgency=0.7,
    )
    return DecisionRecord(
        id=key,
        time=time,
        operator=operator,
        policy="queueing",
        observation=observation,
        decision=decision,
        verdict="granted",
        change=change,
    )


@pytest.fixture
def store(tmp_path):
    with_file = RecordStore(tmp_path / "records.sqlite")
    yield with_file
    with_file.close()


def test_a_record_comes_back_whole_with_nan_and_infinity(store):
    record = a_record()

    store.write([record])
    [found] = store.decisions()

    assert repr(found) == repr(record)


def test_the_newest_decision_of_each_operator_up_to_a_time_is_found(store):
    store.write([a_record("a", time=10.0), a_record("b", time=10.0, operator="aggregate")])
    store.write([a_record("c", time=15.0), a_record("d", time=15.0, operator="aggregate")])

    found = store.decisions(until=12.0)

    assert [record.id for record in found] == ["a", "b"]


def test_what_was_seen_next_is_what_followed(store):
    first = a_record("a", time=10.0)
    store.write([first])
    store.write([a_record("c", time=15.0)])

    following = store.following(first)

    assert following is not None
    assert following.id == "c"


def test_a_tick_that_cannot_be_written_whole_is_not_written_at_all(store):
    store.write([a_record("a")])

    with pytest.raises(sqlite3.IntegrityError):
        store.write([a_record("b"), a_record("a")], events=[Event(time=1, reason="X", message="x")])

    assert [record.id for record in store.decisions(limit=9)] == ["a"]
    assert store.events() == ()


def a_change(now=1.0):
    return plan(
        kind=Kind.START, reason="r", now=now, source={}, target={"a": {"p/1": 1}}, old_job=None
    )


def test_a_change_is_updated_in_place(store):
    change = a_change()
    store.write([], change=change)
    done = change.model_copy(update={"failure": "it broke"})

    store.write([], change=done)

    assert store.change(change.id) == done
    assert store.changes() == (done,)


def test_a_file_that_is_no_database_is_refused_with_the_remedy(tmp_path):
    path = tmp_path / "records.sqlite"
    path.write_text("not a database, but long enough to be looked at as one" * 10)

    with pytest.raises(PermanentError, match=r"records\.sqlite"):
        RecordStore(path)


def test_what_is_older_than_a_month_goes(store):
    store.write([a_record("old", time=10.0)], events=[Event(time=10.0, reason="X", message="x")])
    new = 10.0 + KEPT

    for number in range(PRUNE_EVERY):
        store.write([a_record(f"new{number}", time=new + 1 + number)])

    assert [each.id for each in store.decisions(until=new)] == []
    assert store.events() == ()
    assert len(store.decisions(limit=2 * PRUNE_EVERY)) == PRUNE_EVERY


async def test_the_file_stays_small_however_much_is_written(store, tmp_path, monkeypatch):
    maximum = 400_000
    monkeypatch.setattr("weir_operator.loop.decision_records.MAX_BYTES", maximum)
    monkeypatch.setattr("weir_operator.loop.decision_records.PRUNE_EVERY", 10)
    sizes = []

    for tick in range(400):
        store.write(
            [a_record(f"{tick}-{name}", time=60.0 * tick, operator=name) for name in "abcdefgh"],
            events=[Event(time=60.0 * tick, reason="TickFailed", message=f"{tick}: " + 500 * "x")],
            change=a_change(now=60.0 * tick),
        )
        await store.shorten_log()
        sizes.append(sum(each.stat().st_size for each in tmp_path.iterdir()))

    assert max(sizes) < 3 * maximum  # the log grows while the file is pruned
    assert sizes[-1] < 2 * sizes[100]
    newest = store.decisions(limit=4000)
    assert {f"399-{name}" for name in "abcdefgh"} <= {each.id for each in newest}
    assert 500 < len(newest) < 3200
    assert store.events()[-1].message.startswith("399")
    assert store.changes()[-1].created == 60.0 * 399


def test_changes_stay_as_long_as_the_ticks_in_which_they_were_made(store, monkeypatch):
    monkeypatch.setattr("weir_operator.loop.decision_records.MAX_BYTES", 100_000)
    monkeypatch.setattr("weir_operator.loop.decision_records.PRUNE_EVERY", 10)

    for tick in range(200):
        if tick == 20:
            store.note_tick(a_tick(time=60.0 * tick))
        store.write(
            [a_record(f"{tick}-{name}", time=60.0 * tick, operator=name) for name in "abcdefgh"],
            change=a_change(now=60.0 * tick),
        )

    assert [each.created for each in store.changes()] == [60.0 * tick for tick in range(20, 200)]


def test_room_that_becomes_free_is_given_back_to_the_disk(store, tmp_path, monkeypatch):
    for tick in range(300):
        store.write([a_record(f"{tick}-{name}", time=tick) for name in "abcdefgh"])
    store._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    before = (tmp_path / "records.sqlite").stat().st_size

    for number in range(PRUNE_EVERY):
        store.write([a_record(f"late{number}", time=1e9 + number)])
    store._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    assert (tmp_path / "records.sqlite").stat().st_size < before / 3


def test_the_log_of_a_file_that_is_gone_is_not_worked_into_a_new_one(tmp_path):
    gone = tmp_path / "records.sqlite"

    with pytest.raises(TemporaryError):
        work_log_in(gone)

    assert not gone.exists()


def test_no_more_measurements_are_kept_than_are_ever_read(store, monkeypatch):
    monkeypatch.setattr("weir_operator.loop.decision_records.MOST_INTERVALS", 5)

    for number in range(2 * PRUNE_EVERY):
        store.note_interval(IntervalSample(time=float(number), seconds=1.0, operators={}))

    [count] = store._connection.execute("SELECT count(*) FROM intervals").fetchone()
    assert count <= PRUNE_EVERY + 5
    assert store.intervals()[-1].time == 2 * PRUNE_EVERY - 1


def test_records_of_the_version_before_are_read_and_become_of_this_one(tmp_path):
    path = tmp_path / "records.sqlite"
    store = RecordStore(path)
    record = a_record()
    change = a_change()
    store.write([record], change=change)
    as_text = {"decisions": ("observation", "decision"), "changes": ("journal",)}
    for table, columns in as_text.items():
        for column in columns:
            [kept] = store._connection.execute(f"SELECT {column} FROM {table}").fetchone()
            store._connection.execute(f"UPDATE {table} SET {column} = ?", (unpack(kept),))
    store._connection.execute("PRAGMA user_version = 1")
    store.close()

    again = RecordStore(path)
    [found], [changed] = again.decisions(), again.changes()
    [version] = again._connection.execute("PRAGMA user_version").fetchone()
    again.close()

    assert repr(found) == repr(record)
    assert changed == change
    assert version == 2


def test_records_of_a_newer_weir_are_refused_with_the_remedy(tmp_path):
    path = tmp_path / "records.sqlite"
    store = RecordStore(path)
    store._connection.execute("PRAGMA user_version = 3")
    store.close()

    with pytest.raises(PermanentError, match=r"records\.sqlite"):
        RecordStore(path)


def test_a_row_that_is_damaged_is_told_of(store):
    store.write([a_record()])
    store._connection.execute("UPDATE decisions SET decision = x'00ff'")

    with pytest.raises(DamagedRecordsError):
        store.decisions()


@pytest.mark.parametrize("text", ["", "{}", "é" * 1000, '{"time": NaN}'])
def test_a_text_comes_back_as_it_was_packed(text):
    assert unpack(pack(text)) == text


def test_a_disk_that_takes_nothing_is_a_temporary_error(store, tmp_path):
    blocker = sqlite3.connect(tmp_path / "records.sqlite", isolation_level=None)
    blocker.execute("PRAGMA max_page_count = 1")
    store._connection.execute("PRAGMA max_page_count = 1")

    with pytest.raises(TemporaryError):
        store.write([a_record(str(n)) for n in range(200)])

    blocker.close()
    assert store.decisions() == ()
