"""What is kept of a deterministic benchmark, held against another run."""

import json
from dataclasses import asdict

import pytest

from benchmarks import verify
from benchmarks.figures import Figure, Row
from benchmarks.registry import find_benchmarks
from benchmarks.results import FOLDER

FOUND = (
    Figure(figure="cost", value=1.25, unit=""),
    Figure(figure="longest decision, ten operators", value=7.5, unit="ms"),
    Row(table="Table 2", row="A3", beside=".03", ours=".031"),
)


def kept(**changes):
    values = json.loads(json.dumps([asdict(each) for each in FOUND]))
    values[0] |= changes
    return {"figures": values[:2], "rows": values[2:]}


def test_the_same_run_differs_in_nothing_but_its_times():
    slower = Figure(figure="longest decision, ten operators", value=9.0, unit="ms")
    again = (FOUND[0], slower, FOUND[2])

    assert list(verify.find_differences(kept(), again)) == []


@pytest.mark.parametrize(
    ("was", "said"),
    [
        ({"value": 1.2500001}, ["cost: value was 1.2500001, is 1.25"]),
        ({"figure": "price"}, ["price: gone", "cost: new"]),
    ],
)
def test_each_difference_is_named(was, said):
    assert list(verify.find_differences(kept(**was), FOUND)) == said


def test_what_is_deterministic_has_a_result():
    names = [each.name for each in find_benchmarks().values() if each.deterministic]

    assert "planner" in names
    assert all((FOLDER / f"{name}.json").exists() for name in names)
