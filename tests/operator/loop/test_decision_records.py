"""Decision records come back as they went in, and nothing half-written is ever seen."""

import math

import pytest

from tests.cli.recorded import a_tick
from weir_operator.errors import PermanentError
from weir_operator.loop.record import (
    DECISIONS_KEPT,
    INTERVALS_KEPT,
    DamagedRecordsError,
    DecisionRecord,
    LoopStart,
    RecordStore,
)
from weir_operator.rescale.journal import Kind, plan
from weir_policies.model.node_types import Deployment, NodeType
from weir_policies.policy import Candidate, Decision, Expectation, Observation, OperatorModel
from weir_simulator.fitting.samples import IntervalSample, OperatorSample


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

    store.write([a_tick(10.0, record)])
    [found] = store.decisions()

    assert repr(found) == repr(record)


def test_the_newest_decision_of_each_operator_up_to_a_time_is_found(store):
    for time, (one, other) in ((10.0, "ab"), (15.0, "cd")):
        second = a_record(other, time=time, operator="aggregate")
        store.write([a_tick(time, a_record(one, time=time), second)])

    found = store.decisions(until=12.0)

    assert [record.id for record in found] == ["a", "b"]


def test_what_was_seen_next_is_what_followed(store):
    first = a_record("a", time=10.0)
    store.write([a_tick(10.0, first)])
    store.write([a_tick(15.0, a_record("c", time=15.0))])

    following = store.following(first)

    assert following is not None
    assert following.id == "c"


def a_change(now=1.0):
    return plan(
        kind=Kind.START, reason="r", now=now, source={}, target={"a": {"p/1": 1}}, old_job=None
    )


def test_a_change_is_updated_in_place(store):
    change = a_change()
    store.write([change])
    done = change.model_copy(update={"failure": "it broke"})

    store.write([done])

    assert store.change(change.id) == done
    assert store.changes() == (done,)


def test_a_file_that_is_no_database_is_refused_with_the_remedy(tmp_path):
    path = tmp_path / "records.sqlite"
    path.write_text("not a database, but long enough to be looked at as one" * 10)

    with pytest.raises(PermanentError, match=r"records\.sqlite"):
        RecordStore(path)


def test_what_is_older_than_its_kind_is_kept_goes_with_the_next_tick(store):
    store.write([a_change(now=10.0), a_tick(10.0, a_record("old"), sample=a_measurement(10.0))])
    on_time = 10.0 + DECISIONS_KEPT

    store.write([a_tick(on_time + 1, a_record("kept", time=on_time + 1))])
    later = store.decisions(limit=9), store.changes(), store.intervals(), store.ticks()
    store.write([a_tick(time=11.0 + INTERVALS_KEPT)])

    assert [each.id for each in later[0]] == ["kept"]
    assert [len(each) for each in later[1:]] == [1, 1, 1]
    assert (store.decisions(), store.changes(), store.intervals()) == ((), (), ())


def test_of_short_intervals_no_more_are_kept_than_are_ever_read(store, monkeypatch):
    monkeypatch.setattr("weir_operator.loop.record.MOST_INTERVALS", 5)

    for number in range(20):
        time = float(number)
        decided = a_record(f"{number}", time=time)
        store.write([a_tick(time, decided, sample=a_measurement(time))])

    newest = [15.0, 16.0, 17.0, 18.0, 19.0]
    assert [each.time for each in store.intervals()] == newest
    assert [each.time for each in store.ticks(since=-1.0)] == newest
    assert [each.time for each in reversed(store.decisions(limit=20))] == newest


def test_records_of_many_operators_and_short_intervals_leave_room_for_others(
    store, tmp_path, monkeypatch
):
    monkeypatch.setattr("weir_operator.loop.record.MOST_BYTES", 400_000)

    for number in range(100):
        at = 10.0 + number
        each = [a_record(f"{at}-{n}", time=at, operator=f"o{n}") for n in range(2)]
        store.write([a_tick(at, *each, sample=a_measurement(at))])

    assert len(store.intervals()) == 100
    assert 10 < len(store.ticks()) < 100
    assert (tmp_path / "records.sqlite").stat().st_size < 500_000
    assert store.ticks()[-1].time == 109.0
    assert len(store.decisions(limit=1)) == 2


def test_intervals_make_room_where_hardly_a_tick_is_left(store, tmp_path, monkeypatch):
    monkeypatch.setattr("weir_operator.loop.record.MOST_BYTES", 200_000)
    measured = OperatorSample(deployment={"small": 1}, arrived=1.0, taken=1.0)

    for number in range(100):
        at = 10.0 + number
        operators = {f"o{n}": measured for n in range(50)}
        sample = IntervalSample(time=at, seconds=1.0, operators=operators)
        store.write([a_tick(at, sample=sample)])

    assert (tmp_path / "records.sqlite").stat().st_size < 300_000
    assert store.ticks()[-1].time == store.intervals()[-1].time == 109.0


def test_the_start_that_the_oldest_tick_follows_stays(store):
    starts = [LoopStart(time=time, app={}, policy="hold") for time in (1.0, 2.0, 3.0)]
    store.write([*starts, a_tick(time=2.5), a_tick(time=4.0)])

    assert [each.time for each in store.starts()] == [2.0, 3.0]


def a_measurement(time):
    return IntervalSample(time=time, seconds=1.0, operators={})


def test_records_of_another_version_of_weir_are_refused_with_the_remedy(tmp_path):
    path = tmp_path / "records.sqlite"
    store = RecordStore(path)
    store._connection.execute("PRAGMA user_version = 9")
    store.close()

    for read_only in (False, True):
        with pytest.raises(PermanentError, match=r"records\.sqlite.* the version of Weir"):
            RecordStore(path, read_only=read_only)


def test_a_row_that_is_damaged_is_told_of(store):
    store.write([a_tick(10.0, a_record())])
    store._connection.execute("UPDATE ticks SET decisions = '{}'")

    with pytest.raises(DamagedRecordsError):
        store.decisions()
