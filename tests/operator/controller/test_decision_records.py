"""Decision records come back as they went in, and nothing half-written is ever seen."""

import math
import sqlite3

import pytest

from weir_operator.controller.records import DecisionRecord, Event, RecordStore
from weir_operator.errors import PermanentError, TemporaryError
from weir_operator.rescale.journal import Kind, plan
from weir_policies.model.node_types import Deployment, NodeType
from weir_policies.promise import Candidate, Decision, Expectation, Observation, OperatorModel


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


def test_a_change_is_updated_in_place(store):
    change = plan(
        kind=Kind.START, reason="r", now=1.0, source={}, target={"a": {"p/1": 1}}, old_job=None
    )
    store.write([], change=change)
    done = change.model_copy(update={"failure": "it broke"})

    store.write([], change=done)

    assert store.change(change.id) == done
    assert store.changes() == (done,)


def test_a_file_that_is_no_database_is_refused_with_the_remedy(tmp_path):
    path = tmp_path / "records.sqlite"
    path.write_text("not a database, but long enough to be looked at as one" * 10)

    with pytest.raises(PermanentError, match="move the file away"):
        RecordStore(path)


def test_a_disk_that_takes_nothing_is_a_temporary_error(store, tmp_path):
    blocker = sqlite3.connect(tmp_path / "records.sqlite", isolation_level=None)
    blocker.execute("PRAGMA max_page_count = 1")
    store._connection.execute("PRAGMA max_page_count = 1")

    with pytest.raises(TemporaryError, match="free the disk"):
        store.write([a_record(str(n)) for n in range(200)])

    blocker.close()
    assert store.decisions() == ()
