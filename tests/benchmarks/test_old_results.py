"""Which results are of older code than this."""

import pytest

from benchmarks.pages import print_old
from benchmarks.results import describe_age, measured_trees


def test_a_result_of_the_same_trees_is_new_whatever_its_commit(capsys):
    trees = measured_trees("policies", "simulator")
    assert trees.keys() == {"policies", "simulator"}

    status = print_old({"chaos-3": {"trees": trees}})

    assert (status, capsys.readouterr().err) == (0, "")


def test_the_lines_that_differ_between_two_trees_are_counted():
    trees = {"simulator": measured_trees("pipelines")["pipelines"]}

    age = describe_age({"trees": trees})

    assert age.startswith("of older code, ")
    assert int(age.split()[3].replace(",", "")) > 1000


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("speed", "speed.json: of older code that git does not have"),
        ("of-nowhere", "of-nowhere.json: of a benchmark that is gone"),
    ],
)
def test_a_result_that_cannot_be_compared_counts_as_old(capsys, name, said):
    status = print_old({name: {"trees": {"policies": "0" * 40}}})

    assert status == 1
    assert capsys.readouterr().err.strip() == said
