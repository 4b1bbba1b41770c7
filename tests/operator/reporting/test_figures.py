"""A run's figures say what they claim, and null where nothing was measured."""

import json
import math
from dataclasses import replace

from tests.operator.reporting.builders import a_run
from weir_operator.reporting.report import write_figures


def figures_of(summary, tmp_path):
    path = tmp_path / "build" / "summary.json"
    write_figures(summary, path, most_violations=0.1)
    return {row["figure"]: row for row in json.loads(path.read_text())}


def a_summary(**changes):
    summary = a_run(ticks=3).summary
    assert summary is not None
    return replace(summary, **changes)


def test_a_lost_record_breaks_its_goal(tmp_path):
    whole = figures_of(a_summary(lost=0, doubled=0), tmp_path)
    short = figures_of(a_summary(lost=1, doubled=0), tmp_path)

    assert whole["records lost"]["holds"] is True
    assert short["records lost"] | {"value": 1, "holds": False} == short["records lost"]
    assert short["records doubled"]["holds"] is True


def test_what_cannot_be_proven_is_null_and_holds_nothing(tmp_path):
    rows = figures_of(a_summary(lost=None, violation_share=math.nan, gaps=()), tmp_path)

    for name in ("records lost", "intervals over the bound", "longest output gap"):
        assert rows[name]["value"] is None
        assert rows[name]["holds"] is None


def test_violations_are_held_against_what_the_objective_allows(tmp_path):
    rows = figures_of(a_summary(violation_share=0.11), tmp_path)

    assert rows["intervals over the bound"]["goal"] == "at most 0.1"
    assert rows["intervals over the bound"]["holds"] is False
