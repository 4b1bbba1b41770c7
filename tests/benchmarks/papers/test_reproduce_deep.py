"""The deep cells of Tables 2 to 5: which hold by their mean, and which by chance alone."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks.papers.reproduce_deep import deep_cells, judge

ANY_COST = (
    "explained by chance alone, where any published cost would be: the interval of a single run "
    "reaches below 0"
)


@pytest.fixture(scope="module")
def cell():
    return deep_cells()[0]


def runs_of(*costs) -> Any:
    return [SimpleNamespace(average_cost=cost) for cost in costs]


@pytest.mark.parametrize(
    ("parts", "near", "chance", "below_zero", "above", "all_hold"),
    [
        ((0.9, 1.0, 1.1), 1, 0, 0, 0, True),
        ((0.5, 0.6, 0.7), 1, 0, 0, 1, True),
        ((1.2, 1.4, 1.6), 0, 1, 0, 0, True),
        ((0.5, 1.0, 5.0), 0, 1, 1, 0, True),
        ((1.9, 2.0, 2.1), 0, 0, 0, 0, False),
    ],
    ids=["near", "lower than published", "by chance", "by chance whatever was published", "above"],
)
def test_a_cell_is_counted_by_what_makes_it_hold(
    cell, parts, near, chance, below_zero, above, all_hold
):
    runs = runs_of(*(part * float(cell.cost) for part in parts))

    figures = {each.figure: each for each in judge({cell: runs})}

    assert figures["within 30 % or lower"].value == near
    assert figures["explained by chance alone"].value == chance
    assert figures[ANY_COST].value == below_zero
    assert figures["the published cost lies above all our seeds"].value == above
    assert figures["within 30 % or lower, or explained by chance"].holds is all_hold
