"""Reading a job's graph: what is left of it on this machine."""

import shutil

import pytest

from weir_operator.errors import PermanentError, TemporaryError
from weir_operator.local.graph import temporary_folder


def end_with(error, make):
    """Leave a folder by an error that is told its path; return the path."""
    with pytest.raises(error), temporary_folder() as folder:  # noqa: PT012 - it is left by it
        (folder / "log").write_text("no memory")
        raise make(folder)
    return folder


def test_a_log_that_an_error_names_can_be_read_afterwards():
    folder = end_with(TemporaryError, lambda made: TemporaryError(f"its log is in {made / 'log'}"))

    assert (folder / "log").read_text() == "no memory"
    shutil.rmtree(folder)


def test_nothing_is_left_after_another_error():
    folder = end_with(PermanentError, lambda made: PermanentError("The script is empty"))

    assert not folder.exists()
