"""Tables that another user wrote for themselves are named, and not taken for none."""

import os
from contextlib import contextmanager
from datetime import date

import pytest

from tests.pipelines.known_history import KnownJob, write_day
from weir_pipelines.errors import InputError
from weir_pipelines.history import read_history, read_seasons
from weir_pipelines.schemas import TABLES
from weir_pipelines.store import Partition, Tables

DAY = Partition("trips", date(2026, 3, 2))
NOBODY = 65534


@contextmanager
def unreadable(folder):
    """Take the right to read a folder away, from root too, who has it wherever they are root."""
    is_root = os.geteuid() == 0
    folder.chmod(0)
    if is_root:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if is_root:
            os.seteuid(0)
        folder.chmod(0o700)


def read_all_traffic(root):
    read_history(root, DAY.app, operators=["match"], node_types=["small/1"])


@pytest.mark.parametrize("folder", ["arrivals/v1/app=trips", "work/v1/app=trips/day=2026-03-02"])
def test_a_folder_that_may_not_be_read_is_named(tmp_path, folder):
    write_day(tmp_path, DAY, KnownJob(rate=lambda _: 20.0))
    tables = Tables(tmp_path)
    table = TABLES[folder.partition("/")[0]]

    with (
        unreadable(tmp_path / folder),
        pytest.raises(
            InputError, match=f"{folder}.*: expected a readable folder .*, got: Permission denied"
        ),
    ):
        tables.read(table, DAY)
    with (
        unreadable(tmp_path / folder),
        pytest.raises(
            InputError, match=r"app=trips.*: expected a readable folder .*, got: Permission denied"
        ),
    ):
        tables.partitions(table, DAY.app)


def test_history_that_may_not_be_read_is_not_taken_for_none(tmp_path):
    write_day(tmp_path, DAY, KnownJob(rate=lambda _: 20.0))

    with (
        unreadable(tmp_path / "arrivals/v1/app=trips"),
        pytest.raises(InputError, match="got: Permission denied"),
    ):
        read_all_traffic(tmp_path)


def test_seasons_that_may_not_be_read_are_not_taken_for_none(tmp_path):
    folder = tmp_path / "profiles/v1/app=trips"
    folder.mkdir(parents=True)

    with (
        unreadable(folder),
        pytest.raises(InputError, match=r"profiles/v1/app=trips: expected a readable folder"),
    ):
        read_seasons(Tables(tmp_path), DAY.app)
