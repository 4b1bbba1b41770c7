import errno
import json
import os
from pathlib import Path

import pytest

from tests.operator.runtime.snapshots import write_metadata
from weir_operator.errors import AlreadySteeredError, PermanentError, TemporaryError
from weir_operator.runtime.files import write_atomically
from weir_operator.runtime.processes.folders import (
    AppFolder,
    AppLock,
    JobManagerPorts,
    ReplicaRecord,
    hold_app,
    refuse_second_weir,
)

RECORD = ReplicaRecord(operator="match", pool="small", size="250m", started=1.5, metrics=(1, 2))


@pytest.fixture
def app(tmp_path):
    folder = AppFolder(tmp_path / "streams.trips")
    folder.create()
    return folder


def test_a_number_is_never_given_twice(app):
    first = app.take_numbers(2)
    second = AppFolder(app.path).take_numbers(1)

    assert [*first, *second] == [1, 2, 3]


def test_a_lost_counter_goes_on_above_what_the_folders_show(app):
    app.task_manager("tm-match-small-41").record_replica(RECORD, speed=1.0)
    (app.path / "next-replica").write_text("")

    assert app.take_numbers(1)[0] == 42


def test_a_replica_and_its_speed_are_read_back(app):
    folder = app.task_manager("tm-match-small-1")

    folder.record_replica(RECORD, speed=0.5)

    (found,) = app.task_managers()
    assert found.id == "tm-match-small-1"
    assert found.replica() == RECORD
    assert found.speed.read_text() == "0.5\n"


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"operator": "a"}', "\x00"])
def test_a_folder_without_a_valid_record_is_claimed_by_nobody(app, text):
    folder = app.task_manager("tm-match-small-1")
    folder.record_replica(RECORD, speed=0.5)
    (folder.path / "replica.json").write_text(text)

    assert folder.replica() is None


def test_ports_are_kept(app):
    ports = JobManagerPorts(rpc=1, rest=2, metrics=(3, 4))

    app.job_manager.record_ports(ports)

    assert AppFolder(app.path).job_manager.ports() == ports


def test_a_process_record_that_names_another_process_is_not_believed(app):
    folder = app.task_manager("tm-match-small-1")
    folder.prepare({})
    (folder.path / "pid.json").write_text(json.dumps({"pid": os.getpid(), "started": 0.0}))

    assert folder.alive() is None


def test_old_folders_go_and_the_newest_stay_for_their_logs(app):
    for number in range(1, 8):
        folder = app.task_manager(f"tm-match-small-{number}")
        folder.prepare({})
        os.utime(folder.path, (number, number))

    app.prune()

    left = app.task_managers()
    assert [folder.id for folder in left] == [f"tm-match-small-{number}" for number in range(3, 8)]
    assert all(folder.log.exists() and not folder.temporary.exists() for folder in left)


def test_the_complete_checkpoints_and_savepoints_of_a_job_are_found_oldest_first(app):
    job, other = "a" * 32, "b" * 32
    chk = app.checkpoints / job
    mine, theirs = app.savepoints / "savepoint-aaaaaa-77", app.savepoints / "savepoint-bbbbbb-77"
    numbered = {
        chk / "chk-10": 10, mine: 9, chk / "chk-8": 8,
        app.checkpoints / other / "chk-19": 19, theirs: 20,
    }  # fmt: skip
    for when, (folder, number) in enumerate(numbered.items()):
        write_metadata(folder, number)
        os.utime(folder / "_metadata", (when, when))  # a clock that went back tells otherwise
    (chk / "chk-11").mkdir()
    (chk / "chk-11" / "_metadata").touch()  # begun, never completed

    found = app.snapshots(job)

    assert found == (str(chk / "chk-8"), str(mine), str(chk / "chk-10"))
    assert app.snapshots("c" * 32) == ()


def test_a_full_disk_leaves_the_old_file_and_says_what_to_do(tmp_path, monkeypatch):
    path = tmp_path / "replica.json"
    write_atomically(path, "old")
    monkeypatch.setattr(os, "fsync", full_disk)

    with pytest.raises(TemporaryError, match=r"replica\.json"):
        write_atomically(path, "new")

    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def full_disk(handle):
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_folder_that_cannot_be_written_is_named():
    with pytest.raises(PermanentError, match="/proc/streams"):
        AppFolder(Path("/proc/streams")).create()


def test_a_second_weir_on_one_streamapp_is_told_who_steers_it(tmp_path):
    path = tmp_path / "weir.lock"
    lock = AppLock(path, app="streams.trips")

    with pytest.raises(AlreadySteeredError, match=rf"{os.getpid()}.*streams\.trips"):
        AppLock(path, app="streams.trips")

    lock.release()
    AppLock(path, app="streams.trips").release()


def test_a_second_weir_is_refused_before_it_makes_anything(tmp_path):
    refused = pytest.raises(AlreadySteeredError, match=rf"{os.getpid()}.*streams\.trips")

    with hold_app(tmp_path, "streams.trips"), refused:
        refuse_second_weir(tmp_path, "streams.trips")

    refuse_second_weir(tmp_path, "streams.trips")
    refuse_second_weir(tmp_path, "streams.other")
    assert [path.name for path in tmp_path.iterdir()] == ["streams.trips"]
