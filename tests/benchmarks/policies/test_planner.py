"""The table of the planner's costs on the page."""

from __future__ import annotations

from benchmarks.figures import Figure
from benchmarks.papers.taas2023 import settings
from benchmarks.policies.planner import table_of
from benchmarks.raw_results import Result

VALUES = {
    "clairvoyant optimum": 0.02,
    "planner": 0.022,
    "planner / clairvoyant": 1.1,
    "started from an erroneous model / clairvoyant": 1.15,
    "the best of 35 others, ds2, each policy's own moves": 0.03,
    "planner, moves of one replica": 0.023,
    "the best of 34 others, ql, moves of one replica": 0.04,
}


def test_each_setting_has_a_line_with_the_best_of_the_others_for_either_kind_of_move():
    result = Result(
        benchmark="planner", date=None, commit=None, load=None, processors=2, seeds={}, settings={},
        figures=tuple(
            Figure(figure=f"{setting}: {figure}", value=value, unit="")
            for setting in settings()
            for figure, value in VALUES.items()
        ),
    )  # fmt: skip

    table = table_of(result)

    assert [cells[0] for cells in table.cells] == [str(each) for each in settings()]
    assert {cells[1:] for cells in table.cells} == {
        (".0200", ".0220", "1.1000", "1.1500", ".0300 `ds2`", ".0230", ".0400 `ql`")
    }
