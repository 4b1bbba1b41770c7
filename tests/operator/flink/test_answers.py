"""What Flink 2.3.0 really answered, read into values; `recorded/` holds the answers."""

import json
from pathlib import Path

import pytest

from weir_operator.flink import answers
from weir_operator.flink.answers import JobState

RECORDED = Path(__file__).parent / "recorded"


def recorded(name):
    return json.loads((RECORDED / f"{name}.json").read_text())


def test_a_running_job_shows_its_vertices_in_order_and_its_edges():
    job = answers.read_job(recorded("job"))

    assert job.state is JobState.RUNNING
    assert [(vertex.name, vertex.parallelism) for vertex in job.vertices] == [
        ("Source: numbers", 1),
        ("work -> discard: Writer", 2),
    ]
    numbers, work = job.vertices
    assert [(edge.source, edge.target, edge.ship_strategy) for edge in job.edges] == [
        (numbers.id, work.id, "HASH")
    ]
    assert numbers.slot_sharing_group != work.slot_sharing_group
    assert job.runs


def test_a_job_with_one_subtask_that_does_not_run_does_not_run():
    answer = recorded("job")
    answer["vertices"][1]["tasks"] |= {"RUNNING": 1, "SCHEDULED": 1}

    job = answers.read_job(answer)

    assert not job.runs
    assert job.vertices[1].tasks == {"RUNNING": 1, "SCHEDULED": 1}


def test_a_job_that_failed_before_it_had_a_graph_has_no_vertices():
    job = answers.read_job(recorded("job-failed-early"))

    assert job.state.is_over
    assert not job.runs
    assert job.vertices == ()
    assert job.edges == ()


def test_the_list_of_jobs_gives_times_in_seconds():
    (job,) = answers.read_jobs(recorded("jobs"))

    assert job.id == "a" * 32
    assert job.started == pytest.approx(recorded("jobs")["jobs"][0]["start-time"] / 1000)


def test_task_managers_show_their_pins():
    managers = answers.read_task_managers(recorded("taskmanagers"))

    assert sorted((each.id.rsplit("-", 1)[0], each.free_slots) for each in managers) == [
        ("tm-numbers-small", 0),
        ("tm-work-large", 0),
        ("tm-work-small", 0),
    ]
    assert {name for each in managers for name in each.extended_resources} == {
        "op-numbers",
        "op-work",
    }


def test_a_subtask_without_a_task_manager_has_none():
    answer = {"subtasks": [{"subtask": 0, "status": "SCHEDULED", "taskmanager-id": "(unassigned)"}]}

    (subtask,) = answers.read_subtasks(answer)

    assert subtask.task_manager is None


def test_the_newest_checkpoint_is_found_with_its_path():
    checkpoints = answers.read_checkpoints(recorded("checkpoints"))

    assert checkpoints.newest is not None
    assert checkpoints.newest.path is not None
    assert checkpoints.newest.path.endswith(f"{'a' * 32}/chk-{checkpoints.newest.id}")
    assert not checkpoints.newest.is_savepoint
    assert 0 < checkpoints.newest.duration < 60


def test_a_savepoint_that_is_newer_than_the_last_checkpoint_is_the_newest():
    answer = recorded("checkpoints")
    answer["latest"]["savepoint"] = answer["latest"]["completed"] | {
        "id": answer["latest"]["completed"]["id"] + 1,
        "is_savepoint": True,
        "external_path": "file:/state/savepoints/savepoint-1",
    }

    checkpoints = answers.read_checkpoints(answer)

    assert checkpoints.newest is not None
    assert checkpoints.newest.is_savepoint


def test_what_a_new_jobmanager_restored_the_job_from_is_known():
    answer = recorded("checkpoints")
    answer["latest"] |= {
        "completed": None,
        "restored": {
            "id": 7, "restore_timestamp": 1, "is_savepoint": False,
            "external_path": "file:/state/checkpoints/a/chk-7",
        },
    }  # fmt: skip

    checkpoints = answers.read_checkpoints(answer)

    assert checkpoints.newest is None
    assert checkpoints.restored == "file:/state/checkpoints/a/chk-7"


def test_the_savepoint_of_a_stop_is_told_from_one_that_a_person_asked_for():
    answer = recorded("checkpoints")
    newer = answer["latest"]["completed"] | {"id": 9, "is_savepoint": True}

    found = []
    for kind in ("SYNC_SAVEPOINT", "SAVEPOINT"):
        answer["latest"]["savepoint"] = newer | {"checkpoint_type": kind}
        found.append(answers.read_checkpoints(answer).newest)

    assert [each is not None and each.stopped for each in found] == [True, False]


def test_retained_checkpoints_are_those_that_flink_has_not_deleted():
    answer = recorded("checkpoints")
    answer["history"][-1]["discarded"] = True

    checkpoints = answers.read_checkpoints(answer)

    assert checkpoints.retained == (f"file:/state/checkpoints/{'a' * 32}/chk-2",)


def test_a_complete_savepoint_has_a_path():
    progress = answers.read_savepoint(recorded("savepoint-complete"))

    assert not progress.in_progress
    assert progress.path is not None
    assert "savepoints/savepoint-aaaaaa" in progress.path


def test_a_failed_savepoint_says_why_in_one_line():
    progress = answers.read_savepoint(recorded("savepoint-failed"))

    assert progress.path is None
    assert progress.failure == "IOException: Failed to create savepoint directory at /proc/nope"


def test_an_exception_is_told_by_its_root_cause():
    cause = answers.read_root_exception(recorded("exceptions"))

    assert cause == (
        "FileNotFoundException: Cannot find checkpoint or savepoint file/directory '/state/gone'"
        " on file system 'file'."
    )


def test_a_job_without_exceptions_has_no_root_exception():
    assert answers.read_root_exception({"exceptionHistory": {"entries": []}}) is None
