"""Commands that read decision records leave the file as it is."""

import sqlite3
from contextlib import closing

import pytest
from typer.testing import CliRunner

from tests.cli.recorded import write_records
from weir_cli import main

COMMANDS = ("explain", "replay")


def read(command, state):
    return CliRunner().invoke(main.app, [command, "trips", "--state", str(state)])


@pytest.fixture
def foreign(tmp_path):
    """Return a folder of state in which another program keeps its data."""
    folder = tmp_path / "default.trips"
    folder.mkdir()
    with closing(sqlite3.connect(folder / "records.sqlite")) as connection:
        connection.execute("CREATE TABLE theirs (value TEXT)")
    return folder


@pytest.mark.parametrize("command", COMMANDS)
def test_the_file_of_another_program_is_refused_and_stays_as_it_is(foreign, command):
    before = (foreign / "records.sqlite").read_bytes()

    result = read(command, foreign.parent)

    assert result.exit_code == 1
    assert "--state" in result.stderr
    assert (foreign / "records.sqlite").read_bytes() == before
    assert [each.name for each in foreign.iterdir()] == ["records.sqlite"]


@pytest.mark.parametrize("command", COMMANDS)
def test_an_empty_file_is_refused_and_stays_empty(foreign, command):
    (foreign / "records.sqlite").write_bytes(b"")

    result = read(command, foreign.parent)

    assert result.exit_code == 1
    assert (foreign / "records.sqlite").stat().st_size == 0


@pytest.mark.parametrize("command", COMMANDS)
def test_records_stay_as_they_are(tmp_path, command):
    folder = tmp_path / "default.trips"
    write_records(folder, 6)
    before = (folder / "records.sqlite").read_bytes()

    read(command, tmp_path)

    assert (folder / "records.sqlite").read_bytes() == before


def test_decisions_of_a_weir_that_kept_no_intervals_are_explained(tmp_path):
    folder = tmp_path / "default.trips"
    write_records(folder, 6)
    with closing(sqlite3.connect(folder / "records.sqlite")) as connection:
        for table in ("ticks", "starts", "intervals"):
            connection.execute(f"DROP TABLE {table}")

    assert read("explain", tmp_path).exit_code == 0
    assert read("replay", tmp_path).exit_code == 1


def test_records_without_decisions_ask_for_no_later_time(tmp_path):
    write_records(tmp_path / "default.trips", 0)

    result = read("explain", tmp_path)

    assert result.exit_code == 1
    assert "--at" not in result.stderr
