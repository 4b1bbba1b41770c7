"""The deep cells of Tables 2 to 5: which are near by their mean, above or below."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks.figures import NEITHER, WITHIN
from benchmarks.papers.reproduce_deep import deep_cells, judge, row_of


@pytest.fixture(scope="module")
def cell():
    return deep_cells()[0]


def runs_of(*costs) -> Any:
    rest = {"violations": 0.0, "reconfigurations": 0.0, "resources": 0.0}
    return [SimpleNamespace(average_cost=cost, **rest) for cost in costs]


@pytest.mark.parametrize(
    ("parts", "match", "among_seeds"),
    [
        ((0.9, 1.0, 1.1), WITHIN, 1),
        ((0.5, 0.6, 0.7), NEITHER, 0),
        ((0.5, 1.0, 5.0), NEITHER, 1),
        ((1.9, 2.0, 2.1), NEITHER, 0),
    ],
    ids=["near", "lower than published", "with seeds that differ", "above"],
)
def test_a_cell_is_near_only_by_its_mean_above_or_below(cell, parts, match, among_seeds):
    runs = runs_of(*(part * float(cell.cost) for part in parts))

    row = row_of(cell, runs)
    figures = {each.figure: each for each in judge([row], {cell: runs})}

    assert row.match == match
    assert figures["mean within 10 % of the published"].holds is (match == WITHIN)
    assert figures["the published cost lies within our seeds"].value == among_seeds
