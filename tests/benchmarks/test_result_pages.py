"""The pages of figures say what the kept results say, and a check fails where they do not."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from types import ModuleType

import pytest

from benchmarks import page, quotes
from benchmarks.figures import Figure
from benchmarks.raw_results import (
    FOLDER,
    Result,
    ResultError,
    Table,
    read_result,
    settings_of,
    write_result,
)
from benchmarks.rows import EQUAL, NEITHER, WITHIN, Row, count_matches, match_numbers
from weir_policies import registry


@pytest.fixture
def results(tmp_path):
    """Copy the kept results to a folder where they may be changed."""
    return shutil.copytree(FOLDER, tmp_path / "results")


def a_result(**fields):
    values = {
        "benchmark": "sums", "date": "2026-01-02T03:04:05+00:00", "commit": "0" * 40,
        "load": (1.0, 2.0), "processors": 2, "seeds": {}, "settings": {},
        "figures": (Figure(figure="two and two", value=4.25, unit="s"),),
    }  # fmt: skip
    return Result(**{**values, **fields})


def test_the_pages_are_what_the_results_say():
    assert page.main(["--check"]) == 0


def test_a_page_that_differs_from_its_result_fails(results, capsys):
    change_a_number(results / "records.json", "64.3 MiB", "64.4 MiB")

    status = page.main(["--check"], results)

    assert status == 1
    assert "docs/figures.md is not what the results say" in capsys.readouterr().err


def test_a_figure_that_a_sentence_quotes_is_compared_too(results, capsys):
    change_a_number(results / "demo-policies.json", '"value": 98.4', '"value": 91.4')

    status = page.main(["--check"], results)

    assert status == 1
    assert "README.md is not what the results say" in capsys.readouterr().err


def test_a_reproduced_row_that_differs_fails(results, capsys):
    change_a_number(results / "edf.json", "403 / 369 / 699", "404 / 369 / 699")

    status = page.main(["--check"], results)

    assert status == 1
    assert "docs/reproduction.md is not what the results say" in capsys.readouterr().err


def test_a_result_that_is_missing_fails_in_one_sentence(results, capsys):
    (results / "speed.json").unlink()

    status = page.main(["--check"], results)

    assert status == 1
    assert "got no file: make bench NAME=speed" in capsys.readouterr().err


def test_the_number_of_policies_is_counted(monkeypatch):
    monkeypatch.setattr(registry, "names", lambda: tuple("abcd"))

    rendered = page.render_pages()[page.ROOT / "README.md"]

    assert "There are [3 others]" in " ".join(rendered.split())


def test_words_around_a_quoted_number_that_are_gone_are_refused():
    with pytest.raises(ResultError, match="Expected the words"):
        quotes.quote("Nothing is said here.", "README.md", FOLDER)


def test_a_table_is_written_between_its_comments():
    text = "before\n<!-- x -->\nold\n<!-- end of x -->\nafter\n"

    written = page.replace_table(text, "x", Table(columns=("a",), cells=(("1",),)))

    assert written == "before\n<!-- x -->\n| a |\n|---|\n| 1 |\n<!-- end of x -->\nafter\n"


def test_a_figure_that_is_not_in_a_result_is_refused():
    with pytest.raises(ResultError, match="Expected a figure 'five' in the result of sums"):
        page.Shown(result=a_result()).say("five")


def test_a_row_that_is_not_in_a_result_is_refused():
    with pytest.raises(ResultError, match="Expected a row 'a' in the table 'Table 1'"):
        page.Shown(result=a_result()).ours("Table 1", "a")


def test_a_result_is_read_as_it_was_written(tmp_path):
    result = a_result(
        rows=(Row(table="Table 1", row="a", beside="1", ours="2", holds=None, match=EQUAL),),
        tables={"1": Table(columns=("a", "b"), cells=(("1", "2"),))},
        outcomes=({"money": 1.5},),
    )

    path = write_result(result, tmp_path)

    assert read_result("sums", tmp_path) == result
    assert json.loads(path.read_text())["commit"] == "0" * 40


def test_a_section_says_when_it_was_taken_and_how_busy_the_machine_was():
    assert page.Shown(result=a_result()).taken() == (
        "*Taken 2026-01-02 at commit 000000000, load 1 at the beginning and 2 at the end on 2 "
        "processors.*"
    )


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.json")), ids=lambda path: path.stem)
def test_a_kept_result_is_of_committed_code_or_says_that_nobody_knows(path):
    result = read_result(path.stem)

    if result.recorded is None:
        assert re.fullmatch("[0-9a-f]{40}", result.commit or "")
        assert result.load is not None
    else:
        assert (result.date, result.commit, result.load) == (None, None, None)


def test_settings_are_the_constants_that_are_plain():
    module = ModuleType("module")
    vars(module).update(SEEDS=range(2), FILE=Path("file"), ABOUT="That sums come out", word="no")

    assert settings_of(module) == {"SEEDS": [0, 1]}


@pytest.mark.parametrize(
    ("ours", "equal", "match"),
    [(1.0, True, EQUAL), (1.09, False, WITHIN), (0.91, False, WITHIN), (1.11, False, NEITHER)],
)
def test_equal_near_and_neither_are_told_apart(ours, equal, match):
    assert match_numbers(ours, 1.0, equal=equal) == match


def test_each_way_to_match_is_counted_apart():
    rows = [
        Row(table="", row="", beside="", ours="", holds=None, match=match)
        for match in (EQUAL, WITHIN, WITHIN, NEITHER)
    ]

    counted = count_matches(rows, "rows")

    assert [(each.value, each.unit, each.goal) for each in counted] == [
        (1, "of 4", None), (2, "of 4", None), (1, "of 4", None),
    ]  # fmt: skip


def change_a_number(path, before, after):
    """Change what stands once in a file."""
    text = path.read_text()
    assert text.count(before) == 1
    path.write_text(text.replace(before, after))
