"""What the storage holds of a job is asked of a JobManager that does not know the job."""

from __future__ import annotations

import os

import pytest

from tests.operator.runtime.snapshots import write_metadata
from weir_operator.errors import TemporaryError
from weir_operator.flink.configuration import Storage
from weir_operator.flink.stored_state import (
    list_snapshots,
    read_answer,
    remove_empty_folders,
)

JOB = "a1b2c3" + "0" * 26
TRACE = """<Exception on server side:
org.apache.flink.client.program.ProgramInvocationException: The main method caused an error: \
weir-state begin
weir-state 20 s3://bucket/savepoints/savepoint-a1b2c3-77
weir-state 10 s3://bucket/checkpoints/a1b2c3/chk-4
weir-state end

\tat org.apache.flink.client.program.PackagedProgram.callMainMethod(PackagedProgram.java:376)
Caused by: dev.weir.FindState$Answer: weir-state begin
weir-state 20 s3://bucket/savepoints/savepoint-a1b2c3-77
weir-state 10 s3://bucket/checkpoints/a1b2c3/chk-4
weir-state end
"""


def test_an_answer_is_read_oldest_first():
    assert read_answer(TRACE) == (
        "s3://bucket/checkpoints/a1b2c3/chk-4",
        "s3://bucket/savepoints/savepoint-a1b2c3-77",
    )


def test_an_empty_storage_is_an_answer():
    assert read_answer("x: weir-state begin\nweir-state end\n") == ()


@pytest.mark.parametrize(
    "trace",
    ["java.nio.file.AccessDeniedException: bucket", "x: weir-state begin\nweir-state 1 a\n"],
    ids=["an error", "half an answer"],
)
def test_what_is_no_whole_answer_is_no_empty_storage(trace):
    with pytest.raises(TemporaryError):
        read_answer(trace)


@pytest.mark.flink
@pytest.mark.asyncio(loop_scope="module")
async def test_a_real_jobmanager_finds_the_complete_state_of_a_job_that_it_never_knew(
    lone_job_manager, tmp_path
):
    storage = Storage(checkpoints=f"file:{tmp_path}/chk", savepoints=f"file:{tmp_path}/svp")
    folders = (
        tmp_path / "chk" / JOB / "chk-3",
        tmp_path / "svp" / "savepoint-a1b2c3-77aa",
        tmp_path / "svp" / "savepoint-ffffff-77aa",
    )
    for when, (folder, number) in enumerate(zip(folders, (3, 2, 1), strict=True)):
        write_metadata(folder, number)
        os.utime(folder / "_metadata", (when, when))  # a clock that went back tells otherwise
    (tmp_path / "chk" / JOB / "chk-4").mkdir()  # begun, never completed
    nowhere = Storage(checkpoints="file:/none", savepoints="file:/none")

    found = await list_snapshots(lone_job_manager, JOB, storage)
    none = await list_snapshots(lone_job_manager, "f" * 32, nowhere)
    jars = await lone_job_manager.jars()

    assert found == (f"file:{folders[1]}", f"file:{folders[0]}")
    assert none == ()
    assert jars == ()


@pytest.mark.flink
@pytest.mark.asyncio(loop_scope="module")
async def test_a_real_jobmanager_removes_folders_only_where_nothing_is_in_them(
    lone_job_manager, tmp_path
):
    storage = Storage(checkpoints=f"file:{tmp_path}/chk", savepoints=f"file:{tmp_path}/svp")
    empty, with_state, shared, running = ("0" * 32, "1" * 32, "2" * 32, "3" * 32)
    for job in (empty, with_state, shared, running):
        (tmp_path / "chk" / job / "shared").mkdir(parents=True)
        (tmp_path / "chk" / job / "taskowned").mkdir()
    (tmp_path / "chk" / with_state / "chk-7").mkdir()
    (tmp_path / "chk" / shared / "shared" / "part").write_text("x")

    await remove_empty_folders(lone_job_manager, (empty, with_state, shared, "4" * 32), storage)

    left = {folder.name for folder in (tmp_path / "chk").iterdir()}
    assert left == {with_state, shared, running}
    assert (tmp_path / "chk" / with_state / "chk-7").is_dir()
    assert (tmp_path / "chk" / shared / "shared" / "part").is_file()
    assert (tmp_path / "chk" / running / "taskowned").is_dir()
