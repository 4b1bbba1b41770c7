"""Which results are of older code than this."""

import json

import pytest

from benchmarks.results import find_commit
from benchmarks.tables import print_old


@pytest.fixture
def write(tmp_path):
    def write_one(name, commit):
        (tmp_path / f"{name}.json").write_text(json.dumps({"benchmark": name, "commit": commit}))
        return tmp_path

    return write_one


def test_a_result_of_this_commit_is_new(write, capsys):
    commit = find_commit()
    assert commit is not None

    status = print_old(write("chaos-3", commit.removesuffix("-dirty")))

    assert (status, capsys.readouterr().err) == (0, "")


@pytest.mark.parametrize(
    ("name", "commit", "said"),
    [
        ("speed", "0" * 40, "speed.json: of code that is not known"),
        ("speed", None, "speed.json: of code that is not known"),
        ("of-nowhere", "0" * 40, "of-nowhere.json: of a benchmark that is gone"),
    ],
)
def test_a_result_that_cannot_be_compared_counts_as_old(write, capsys, name, commit, said):
    status = print_old(write(name, commit))

    assert status == 1
    assert capsys.readouterr().err.strip() == said
