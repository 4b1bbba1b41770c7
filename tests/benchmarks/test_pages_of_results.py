"""The pages of results say what the kept results say, and a check fails where they do not."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

from benchmarks import pages
from benchmarks.figures import EQUAL, NEITHER, WITHIN, Row, count_matches
from benchmarks.pictures import Axes, draw_points
from benchmarks.results import FOLDER, REQUIRED

FIGURE = {"figure": "two and two", "value": 4.25, "unit": "s", "goal": None, "holds": None}
ROW = {
    "table": "Table 1", "row": "a", "beside": "1", "ours": "2", "holds": None, "seeds": 3,
    "beside_what": "published", "claim": "match", "match": EQUAL,
}  # fmt: skip


def a_result(**fields):
    values = {
        "benchmark": "sums", "date": "2026-01-02T03:04:05+00:00", "commit": "0" * 40,
        "load": [1.0, 2.0], "trees": {"policies": "0" * 40}, "processors": 2,
        "figures": [FIGURE], "rows": [],
    }  # fmt: skip
    return {**values, **fields}


def test_a_page_that_differs_and_one_of_no_result_fail_and_are_written_anew(tmp_path, capsys):
    results, docs = tmp_path / "kept", tmp_path / "docs"
    results.mkdir()
    (docs / "results").mkdir(parents=True)
    (results / "sums.json").write_text(json.dumps(a_result()))
    (docs / "results" / "gone.md").write_text("")

    before = pages.main(["--check"], results, docs)
    told = capsys.readouterr().err
    pages.main([], results, docs)

    assert before == 1
    assert "gone.md is not" in told
    assert "sums.md is not" in told
    assert pages.main(["--check"], results, docs) == 0
    assert [path.name for path in (docs / "results").iterdir()] == ["sums.md"]


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        (
            {"value": None, "goal": "at most 4 s", "holds": False},
            "| **no** | not measured | at most 4 s | two and two |",
        ),
        (
            {"value": 12345.6, "goal": "at most 4 s", "holds": False},
            "| **no** | 12,346 s | at most 4 s | two and two |",
        ),
        (
            {"goal": "at most 4 s", "holds": False},
            "| **no** | 4.25 s | at most 4 s | two and two |",
        ),
        ({"goal": "at most 5 s", "holds": True}, "| yes | 4.25 s | at most 5 s | two and two |"),
        ({"goal": "at most 4 s"}, "| not shown | 4.25 s | at most 4 s | two and two |"),
    ],
)
def test_a_figure_has_a_line_with_its_goal_and_verdict(fields, line):
    assert line in page_of(a_result(figures=[FIGURE | fields])).splitlines()


def test_a_goal_that_all_figures_have_stands_above_them():
    figures = [
        FIGURE | {"figure": name, "goal": "at most 5 s", "holds": True} for name in ("two", "three")
    ]

    page = page_of(a_result(figures=figures))

    assert page.count("at most 5 s") == 1
    assert "| yes | 4.25 s | three |" in page


def page_of(result):
    return pages.render_all({"sums": result})["results/sums.md"]


def test_what_nobody_promised_is_in_the_result_alone():
    shown, hidden = ROW, ROW | {"row": "b", "match": None}

    page = page_of(a_result(rows=[shown, hidden]))

    assert "two and two" not in page
    assert "| a | equal | 3 | 1 | 2 |" in page
    assert "| b |" not in page
    assert "benchmarks/results/sums.json" in page


def test_a_table_of_many_rows_may_leave_out_those_that_are_equal():
    rows = [ROW, ROW | {"row": "b", "match": NEITHER}, ROW | {"table": "Table 2", "row": "c"}]

    shown = pages.Quotes({"sums": a_result(rows=rows)}).rows("sums", without_equal=["Table 1"])

    assert re.findall(r"^\| (\w) \|", shown, re.MULTILINE) == ["b", "c"]


def test_a_quote_is_rounded_and_has_its_unit_and_one_that_is_wrong_fails():
    quotes = pages.Quotes({"sums": a_result()})

    assert quotes.value("sums", "two and two", 2) == "4.2 s"
    with pytest.raises(KeyError, match="Expected sums to have the figure 'three'"):
        quotes.value("sums", "three")


@pytest.fixture
def check(tmp_path, capsys):
    """Check a result that is kept, with its page; return what is said."""

    def check_one(**fields):
        results = tmp_path / "kept"
        results.mkdir()
        (results / "sums.json").write_text(json.dumps(a_result(**fields)))
        pages.main([], results, tmp_path)
        status = pages.main(["--check"], results, tmp_path)
        return status, capsys.readouterr().err.strip()

    return check_one


def test_a_result_that_says_how_it_came_about_passes_although_its_code_has_changed(check):
    assert check() == (0, "")


@pytest.mark.parametrize("lacking", REQUIRED)
def test_a_result_that_does_not_say_how_it_came_about_fails(check, lacking):
    status, said = check(**{lacking: None})

    assert status == 1
    assert f"sums.json lacks {lacking}: run it again on committed code, or delete it" in said


def test_a_result_of_code_that_was_not_committed_fails(check):
    status, said = check(commit="0" * 40 + "-dirty")

    assert (status, said.split(":")[0]) == (1, "sums.json lacks a commit without changes")


def test_a_page_says_that_the_code_has_changed_and_its_check_ignores_by_how_much(tmp_path):
    results = tmp_path / "kept"
    results.mkdir()
    (results / "sums.json").write_text(json.dumps(a_result()))
    pages.main([], results, tmp_path)
    page = tmp_path / "results" / "sums.md"

    assert "*Of older code that git does not have.*" in page.read_text()
    page.write_text(page.read_text().replace(" that git does not have", ", 1,234 lines changed"))
    assert pages.main(["--check"], results, tmp_path) == 0


def test_each_way_to_match_is_counted_apart():
    rows = [
        Row(table="", row="", beside="", ours="", match=match)
        for match in (EQUAL, WITHIN, WITHIN, NEITHER)
    ]

    counted = count_matches(rows, "rows")

    assert [(each.value, each.unit, each.goal) for each in counted] == [
        (1, "of 4", None), (2, "of 4", None), (1, "of 4", None),
    ]  # fmt: skip


def test_the_page_of_evidence_shows_the_match_and_the_night_once_they_are_measured():
    kept = dict(pages.load_results(FOLDER))
    match = [
        {"figure": name, "value": value, "unit": unit, "goal": "at most 1", "holds": True}
        for name, value, unit in (
            ("intervals over the bound, 9 pairs", 0.25, ""),
            ("cost of what is requested, 9 pairs", 0.75, ""),
            ("intervals over the bound in second halves, 9 pairs", 0.5, "points"),
            ("cost of what is requested in second halves, 9 pairs", 0.875, ""),
            ("restarts, 9 pairs", 0.5, ""),
        )
    ]
    night = [
        FIGURE | {"figure": "planner: cost per hour"},
        FIGURE | {"figure": "planner: intervals over the bound"},
    ]
    kept |= {
        "live-match-pools": a_result(figures=match),
        "live-night": a_result(figures=night),
        "keys-live": a_result(figures=[FIGURE]),
    }

    page = pages.render_all(kept)["evidence.md"]

    assert "over the bound 0.25 times as often, at 0.75 times the cost; in second halves" in page
    assert "differ by 0.5 points, the costs by 0.875 times. Restarts: 0.5 times" in page
    assert "(pictures/evidence-match.svg)" in page
    assert "(pictures/evidence-night.svg)" in page
    assert "Not measured" not in page


def test_a_picture_shows_all_of_its_points(tmp_path):
    points = np.array([1.0, 2.0]), np.array([10.0, 50.0])

    path = draw_points("points", {"runs": points}, Axes("Runs", "cost", "share"), folder=tmp_path)

    text = path.read_text()
    drawn = re.findall(r'y="(-?[\d.]+)" style="fill: #1f77b4; fill-opacity: 0.7', text)
    (height,) = re.findall(r'viewBox="0 0 [\d.]+ ([\d.]+)"', text)
    assert len(drawn) == len(points[0]) + 1  # and its mark in the legend
    assert all(0 <= float(each) <= float(height) for each in drawn)
