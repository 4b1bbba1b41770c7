"""`weir explain` leaves the file of the records as it is."""

import sqlite3
from contextlib import closing

import pytest
from typer.testing import CliRunner

from tests.cli.recorded import write_records
from weir_cli import main


def explain(state):
    return CliRunner().invoke(main.app, ["explain", "trips", "--state", str(state)])


@pytest.fixture
def foreign(tmp_path):
    """Return a folder of state in which another program keeps its data."""
    folder = tmp_path / "default.trips"
    folder.mkdir()
    with closing(sqlite3.connect(folder / "records.sqlite")) as connection:
        connection.execute("CREATE TABLE theirs (value TEXT)")
    return folder


def test_the_file_of_another_program_is_refused_and_stays_as_it_is(foreign):
    before = (foreign / "records.sqlite").read_bytes()

    result = explain(foreign.parent)

    assert result.exit_code == 1
    assert "--state" in result.stderr
    assert (foreign / "records.sqlite").read_bytes() == before
    assert [each.name for each in foreign.iterdir()] == ["records.sqlite"]


def test_an_empty_file_is_refused_and_stays_empty(foreign):
    (foreign / "records.sqlite").write_bytes(b"")

    result = explain(foreign.parent)

    assert result.exit_code == 1
    assert (foreign / "records.sqlite").stat().st_size == 0


def test_records_stay_as_they_are(tmp_path):
    folder = tmp_path / "default.trips"
    write_records(folder, 6)
    before = (folder / "records.sqlite").read_bytes()

    explain(tmp_path)

    assert (folder / "records.sqlite").read_bytes() == before


def test_records_without_decisions_ask_for_no_later_time(tmp_path):
    write_records(tmp_path / "default.trips", 0)

    result = explain(tmp_path)

    assert result.exit_code == 1
    assert "--at" not in result.stderr
