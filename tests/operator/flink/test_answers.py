"""What Flink 2.3.0 really answered, read into values; `recorded/` holds the answers."""

import json
from pathlib import Path

import pytest

from weir_operator.flink import answers
from weir_operator.limits import FLINK_SUBTASKS, check_size

RECORDED = Path(__file__).parent / "recorded"


def recorded(name):
    return json.loads((RECORDED / f"{name}.json").read_text())


JOB, VERTEX = recorded("job"), next(iter(recorded("vertices").values()))


@pytest.mark.parametrize(
    "answer",
    [
        JOB
        | {"vertices": JOB["vertices"][:1] * 1000}
        | {"plan": JOB["plan"] | {"nodes": JOB["plan"]["nodes"][-1:] * 1000}},
        VERTEX | {"subtasks": VERTEX["subtasks"][:1] * 1000},
        {"taskmanagers": recorded("taskmanagers")["taskmanagers"][:1] * 1000},
    ],
    ids=["vertices", "subtasks", "TaskManagers"],
)
def test_a_thousand_of_each_are_within_the_limits(answer):
    check_size(json.dumps(answer), FLINK_SUBTASKS)


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


def test_a_subtask_without_a_task_manager_has_none():
    answer = {"subtasks": [{"subtask": 0, "status": "SCHEDULED", "taskmanager-id": "(unassigned)"}]}

    (subtask,) = answers.read_subtasks(answer)

    assert subtask.task_manager is None


def test_a_savepoint_that_is_newer_than_the_last_checkpoint_is_the_newest():
    answer = recorded("checkpoints")
    answer["latest"]["savepoint"] = answer["latest"]["completed"] | {
        "id": answer["latest"]["completed"]["id"] + 1,
        "is_savepoint": True,
        "external_path": "file:/state/savepoints/savepoint-1",
    }

    checkpoints = answers.read_checkpoints(answer)

    assert checkpoints.newest is not None
    assert checkpoints.newest.path == "file:/state/savepoints/savepoint-1"


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


def test_a_failed_savepoint_says_why_in_one_line():
    progress = answers.read_savepoint(recorded("savepoint-failed"))

    assert progress.path is None
    assert progress.failure == "IOException: Failed to create savepoint directory at /proc/nope"


def test_an_exception_is_told_by_its_root_cause():
    [failure] = answers.read_failures(recorded("exceptions"))

    assert failure.cause == (
        "FileNotFoundException: Cannot find checkpoint or savepoint file/directory '/state/gone'"
        " on file system 'file'."
    )
