"""An evaluation in sentences, in figures, on a page and for programs."""

import io
import json
import math
from dataclasses import replace

import pytest
from rich.console import Console

from tests.pages import charts_of
from weir_operator.reporting.evaluation import (
    EvaluationReport,
    EvaluationTotals,
    render_evaluation,
    render_evaluation_page,
    summarise,
    to_plain,
)
from weir_simulator.switchback import (
    BlockTotals,
    Comparison,
    Design,
    Effect,
    ExperimentResult,
    Side,
)

NOTHING = Comparison(weir=0.05, baseline=0.05, mean=0.0, low=-0.1, high=0.1)


def an_estimate(mean, low, high, *, left_out=0, pairs=12):
    return ExperimentResult(
        pairs=pairs,
        left_out=left_out,
        relative_cost=Effect(mean=mean, low=low, high=high),
        cost=Comparison(weir=0.2, baseline=0.25, mean=-0.05, low=-0.07, high=-0.03),
        late=NOTHING,
        restarts=Comparison(weir=math.inf, baseline=2, mean=math.inf, low=math.nan, high=math.nan),
    )


def a_report(estimate, *, ended=""):
    blocks = {
        0: BlockTotals(side=Side.WEIR, seconds=45, cost=0.01, measured=9, late=1),
        1: BlockTotals(side=Side.BASELINE, seconds=45, cost=0.02, restarts=1),
    }
    return EvaluationReport(
        app="streams/trips",
        began=1_777_914_300.0,
        until=1_777_914_420.0,
        policy="queueing",
        bound=0.5,
        statistic="mean",
        design=Design(block=60.0, pairs=12, seed=0),
        ended=ended,
        standby=False,
        weir=EvaluationTotals(blocks=1, hours=0.5, cost_per_hour=0.8, late=1 / 9, restarts=0),
        baseline=EvaluationTotals(
            blocks=1, hours=0.5, cost_per_hour=1.6, late=math.nan, restarts=1
        ),
        estimate=estimate,
        blocks=blocks,
    )


@pytest.mark.parametrize(
    ("estimate", "sentence"),
    [
        (None, "Nothing can be said before 2 pairs of blocks are measured"),
        (
            an_estimate(-0.2, math.nan, math.nan),
            "The costs of 12 pairs of blocks do not say how much is chance",
        ),
        (
            an_estimate(-0.2, math.nan, math.nan, pairs=3),
            "Chance cannot be judged before 4 pairs of blocks are measured",
        ),
        (
            an_estimate(-0.2, -0.5, 0.1),
            "No difference in cost was found over 12 pairs of blocks: it is between -50 % and "
            "+10 %",
        ),
        (
            an_estimate(-0.2, -0.25, -0.15),
            "Weir costs 20 % less than the baseline over 12 pairs of blocks; with 95 % confidence "
            "between -25 % and -15 %",
        ),
        (
            an_estimate(0.2, 0.15, 0.25),
            "Weir costs 20 % more than the baseline over 12 pairs of blocks; with 95 % confidence "
            "between +15 % and +25 %",
        ),
    ],
)
def test_what_was_found_is_said_in_one_sentence(estimate, sentence):
    assert summarise(a_report(estimate)) == sentence


def shown(report):
    console = Console(width=160, file=io.StringIO())
    with console.capture() as capture:
        console.print(render_evaluation(report))
    return [line.split("  ") for line in capture.get().splitlines()]


def row_of(report, label):
    """Return the cells of a row of the table: Weir, baseline, difference, interval."""
    [row] = [cells for cells in shown(report) if cells[0].strip() == label]
    return [cell.strip() for cell in row[1:] if cell.strip()]


@pytest.mark.parametrize(
    ("label", "cells"),
    [
        ("cost, relative", ["-", "-", "-20 %", "-25 % to -15 %"]),
        ("cost per hour", ["0.200", "0.250", "-0.0500", "-0.0700 to -0.0300"]),
        ("intervals over 500 ms", ["5 %", "5 %", "+0.0 points", "-10.0 points to +10.0 points"]),
        ("restarts per hour", ["inf", "2.00", "-", "-"]),
    ],
)
def test_each_figure_has_both_sides_the_difference_and_its_interval(label, cells):
    assert row_of(a_report(an_estimate(-0.2, -0.25, -0.15)), label) == cells


def test_without_an_estimate_only_the_sides_are_known():
    assert row_of(a_report(None), "cost per hour") == ["0.800", "1.600", "-", "-"]


@pytest.mark.parametrize(
    ("report", "notices"),
    [
        (a_report(None), 2),
        (a_report(an_estimate(0, -1, 1)), 3),
        (replace(a_report(an_estimate(0, -1, 1)), standby=True), 4),
        (a_report(an_estimate(0, -1, 1, left_out=1)), 4),
        (a_report(an_estimate(0, -1, 1, left_out=1), ended="It has ended."), 5),
    ],
)
def test_an_end_and_pairs_that_do_not_count_are_noticed(report, notices):
    listed = ["".join(cells) for cells in shown(report) if cells[0].startswith("- ")]

    assert len(listed) == notices
    assert any("It has ended" in each for each in listed) == bool(report.ended)


def test_a_refused_baseline_is_noticed_before_anything_can_be_estimated_and_no_bar_of_it(tmp_path):
    report = a_report(None)
    refused = {1: replace(report.blocks[1], refused=4)}
    page = tmp_path / "evaluation.html"

    listed = shown(replace(report, blocks=report.blocks | refused))
    page.write_text(render_evaluation_page(replace(report, blocks=report.blocks | refused)))

    assert any("EvaluationHeld" in "".join(cells) for cells in listed)
    cost = charts_of(page)["Cost per hour"]["data"]
    assert [each["x"] for each in cost] == [[1], [], [2]]


def test_the_page_has_a_bar_for_each_block_of_each_side(tmp_path):
    page = tmp_path / "evaluation.html"

    page.write_text(render_evaluation_page(a_report(an_estimate(-0.2, -0.25, -0.15))))

    charts = charts_of(page)
    cost = charts["Cost per hour"]["data"]
    late = charts["Share of intervals over the bound"]["data"]
    assert [(each["name"], each["x"]) for each in cost] == [("Weir", [1]), ("Baseline", [2])]
    assert [each["y"] for each in cost] == [[pytest.approx(0.8)], [pytest.approx(1.6)]]
    assert [each["y"] for each in late] == [[pytest.approx(1 / 9)], [None]]


def test_programs_get_null_for_what_is_unknown_and_a_word_for_what_is_unlimited():
    estimate = an_estimate(-0.2, -0.25, -0.15)
    unlimited = replace(estimate.cost, mean=-math.inf, low=math.nan, high=math.nan)
    report = a_report(replace(estimate, cost=unlimited))

    plain = json.loads(json.dumps(to_plain(report), allow_nan=False))

    assert plain["baseline"]["late"] is None
    assert plain["estimate"]["restarts"] == {
        "weir": "Infinity",
        "baseline": 2,
        "mean": "Infinity",
        "low": None,
        "high": None,
    }
    assert plain["estimate"]["cost"]["mean"] == "-Infinity"
    assert plain["blocks"]["1"]["restarts"] == 1
