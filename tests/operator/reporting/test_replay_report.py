"""A replay in the terminal, on a page and for programs."""

import io
import json
import math

import pytest
from rich.console import Console

from tests.chromium import on_every_screen
from weir_operator.loop.replay import add_up
from weir_operator.reporting.replay import (
    find_changes,
    render_replay,
    to_plain,
)
from weir_operator.reporting.replay_page import render_replay_page, response_figure
from weir_operator.reporting.testing import a_replay
from weir_operator.rescale.journal import Kind, Step, plan

OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


def shown(replay, width):
    console = Console(width=width, file=io.StringIO())
    with console.capture() as capture:
        console.print(render_replay(replay))
    return capture.get()


def test_totals_add_up_time_cost_restarts_and_intervals_over_the_bound():
    totals = a_replay(ticks=60).totals

    assert (totals.intervals, totals.undecided, totals.predicted) == (60, 1, 59)
    assert totals.seconds == 300
    assert (totals.was.late, totals.would.late) == (59, 29)
    assert (totals.measured, totals.measured_late) == (60, 60)
    assert (totals.was.restarts, totals.would.restarts) == (0, 1)
    assert (totals.was.replicas, totals.would.replicas) == (2, 2.5)
    assert totals.was.cost == pytest.approx(0.12)
    assert totals.would.cost == pytest.approx(0.15)
    assert (totals.comparable, totals.equal) == (29, 0)


def test_restarts_that_are_no_scaling_count_for_neither_side():
    def a_change(kind, target):
        change = plan(
            kind=kind,
            reason="a test",
            now=1.0,
            source={"match": {"small/1": 1}},
            target=target,
            old_job="j",
        )
        return change if kind is Kind.RESIZE else change.at(Step.SUBMIT, 2.0)

    two = {"match": {"small/1": 2}}
    separated = {"match": {"small/1": 1}, "count": {"small/1": 1}}
    changes = [
        a_change(Kind.RESCALE, two),
        a_change(Kind.RESIZE, two),
        a_change(Kind.RECOVER, two),
        a_change(Kind.UPGRADE, two),
        a_change(Kind.RESCALE, separated),
    ]

    was = add_up(a_replay().intervals, changes).was

    assert (was.restarts, was.resizes) == (1, 1)


def test_only_decisions_that_say_something_new_are_shown():
    found = find_changes(a_replay().intervals)

    # It is denied, denied, ..., granted; then the replay has it, and both stay.
    assert [each.would.granted for _, each in found] == [False, True]


@pytest.mark.parametrize("width", [160, 120, 80, 60])
def test_the_terminal_shows_both_sides_within_its_width(width):
    text = shown(a_replay(), width)

    assert max(map(len, text.splitlines())) <= width
    words = " ".join(text.split())
    assert "1 small/500m → 2 small/500m; Denied:" in words
    for part in ("streams/trips", "hold, 500 ms", "queueing, 500 ms", "59 of 59", "29 of 59"):
        assert part in words
    assert "What this replay does not know" in words
    assert "no gap of a restart" in words


def test_what_is_unknown_is_null_for_programs_and_what_is_unlimited_a_word():
    plain = json.loads(json.dumps(to_plain(a_replay()), allow_nan=False))

    first, second = plain["intervals"][:2]
    assert first["was"]["response_time"] == "Infinity"
    assert second["was"]["response_time"] is None
    assert first["decisions"][0]["was"]["deployment"] == {"small/500m": 1}
    assert plain["totals"]["would"]["restarts"] == 1


def test_an_overload_is_a_mark_because_no_line_can_show_it():
    figure = response_figure(a_replay().intervals)

    marks = [each for each in figure["data"] if each["mode"] == "markers"]
    assert [len(each["x"]) for each in marks] == [59, 29]
    assert all(
        value is None or math.isfinite(value) for each in figure["data"] for value in each["y"]
    )


@pytest.mark.browser
@on_every_screen
async def test_the_page_is_drawn_whole_and_never_scrolls_sideways(
    page, tmp_path, width, touch, dark
):
    path = tmp_path / "replay.html"
    path.write_text(render_replay_page(a_replay()))

    await page.open(path, width=width, dark=dark, touch=touch)

    # Response time, rate, the operator that changes, cost; what stays as it is has no chart.
    assert await page.evaluate("document.querySelectorAll('.plot').length") == 4
    assert await page.evaluate(OVERFLOW) == 0
    assert page.complaints == []
