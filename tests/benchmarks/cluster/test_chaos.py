"""The pure parts of the benchmark chaos: which faults are drawn, and what a run shows."""

from __future__ import annotations

from benchmarks.cluster.chaos.verdict import (
    Committed,
    FaultOutcome,
    figures_of,
    read_committed,
)
from benchmarks.cluster.chaos.world import JobsSeen, find_excess
from benchmarks.flink.ledger import Ledger

GOOD = Ledger(emitted=10, lost=0, doubled=0, sequence_errors=0, replayed=4)
WHOLE = Committed(records=10, lost=0, doubled=0)


def an_outcome(took: float | None = 5.0, **more) -> FaultOutcome:
    return FaultOutcome(kind="kill", load=1.0, took=took, **more)


def values(outcomes, orphans=(), jobs_at_once=1, ledger: Ledger | None = GOOD):
    figures = figures_of(2, outcomes, ledger, WHOLE, orphans, jobs_at_once=jobs_at_once)
    return {each.figure: each for each in figures}


def test_a_record_in_two_committed_files_is_doubled_and_one_in_none_is_lost(tmp_path):
    (tmp_path / "part-0").write_text("0\n1\n3\n")
    (tmp_path / "part-1").write_text("1\n")

    found = read_committed(tmp_path, emitted=5)

    assert found == Committed(records=4, lost=2, doubled=1)


def test_files_know_of_more_records_than_a_ledger_that_went_back_with_the_state(tmp_path):
    (tmp_path / "part-0").write_text("0\n1\n2\n4\n")
    (tmp_path / "part-1").write_text("1\n2\n")

    assert read_committed(tmp_path, emitted=3) == Committed(records=6, lost=1, doubled=2)


def test_what_was_not_committed_does_not_count(tmp_path):
    (tmp_path / "part-0").write_text("0\n")
    (tmp_path / ".part-1.inprogress").write_text("0\n1\n")

    assert read_committed(tmp_path, emitted=1) == Committed(records=1, lost=0, doubled=0)


def test_recoveries_of_a_kind_have_a_median_and_a_longest():
    found = values([an_outcome(), an_outcome(9.0)])

    assert found["kill: time to recover, median of 2"].value == 7.0
    assert found["kill: time to recover, longest of 2"].value == 9.0


def test_an_app_that_is_not_well_in_time_is_stuck():
    found = values([an_outcome(), an_outcome(None)])

    assert found["stuck apps"].value == 1
    assert found["stuck apps"].holds is False


def test_of_a_job_that_could_not_be_stopped_nobody_knows_what_is_lost():
    found = values([an_outcome()], ledger=None)

    assert found["transactional sink: records lost"].value is None
    assert found["transactional sink: records lost"].holds is False
    assert found["transactional sink: records doubled"].holds is True


def test_two_jobs_at_once_miss_the_goal():
    assert values([an_outcome()])["jobs alive at once, most"].holds is True
    assert values([an_outcome()], jobs_at_once=2)["jobs alive at once, most"].holds is False


def test_a_job_that_is_down_and_a_controller_that_restarts_without_a_reason_miss_goals():
    found = values([an_outcome(), an_outcome(down=True, restarts=2)])

    down = found["faults that took down a job that they left alone"]
    restarted = found["controller restarted by a fault that left it alone"]
    assert (down.value, down.holds) == (1, False)
    assert (restarted.value, restarted.holds) == (2, False)


def test_seconds_without_a_job_count_from_the_last_time_that_one_was_alive():
    seen = JobsSeen()

    seen.begin(10.0)
    for now, alive in ((11.0, 1), (13.0, 0), (16.0, 2), (17.0, 1)):
        seen.note(alive, now)

    assert seen == JobsSeen(most=2, alive=17.0, longest=5.0)


def test_pods_beyond_the_deployment_are_excess_the_youngest_first():
    def pod(name, created):
        labels = {"weir.dev/operator": "match", "weir.dev/pool": "any"}
        return {"metadata": {"name": name, "creationTimestamp": created, "labels": labels}}

    status = {"controller": {"deployments": {"match": {"any/500m": 1}}}}

    assert find_excess(status, [pod("new", "2"), pod("old", "1")]) == ["new"]
