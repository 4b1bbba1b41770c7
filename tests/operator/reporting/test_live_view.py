"""The live view, against pictures under `golden/`.

`WEIR_REWRITE_GOLDEN=1 pytest tests/operator/reporting/test_live_view.py` writes them again; look at
the difference before you commit it.
"""

import io
import math
import os
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from tests.operator.reporting.builders import a_run, a_tick, an_operator
from weir_operator.loop.run_record import (
    EventRecord,
    Record,
    RecordedRun,
    RescaleRecord,
    ResponseTime,
    Step,
)
from weir_operator.reporting.live_view import LiveView, render, render_line

GOLDEN = Path(__file__).parent / "golden"


def draw(run, *, width=80, height=40):
    console = Console(file=io.StringIO(), width=width, height=height, record=True)
    console.print(render(run))
    return "\n".join(line.rstrip() for line in console.export_text().splitlines()) + "\n"


def styles_of(run, text):
    console = Console(file=io.StringIO(), width=100, height=40, force_terminal=True)
    segments = console.render(render(run))
    return {str(segment.style) for segment in segments if text in segment.text}


def up_to(run, ticks):
    """Return the run as it stood after that many ticks."""
    now = run.ticks[ticks - 1].time
    return RecordedRun(
        ticks=run.ticks[:ticks],
        rescales=tuple(change for change in run.rescales if change.started <= now),
        events=tuple(event for event in run.events if event.time <= now),
    )


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("ticks", [1, 23, 32])
def test_the_picture_is_the_golden_one(width, ticks):
    golden = GOLDEN / f"live_{width}_columns_{ticks}_ticks.txt"

    picture = draw(up_to(a_run(ticks=60, blind=(22,)), ticks), width=width)

    if os.environ.get("WEIR_REWRITE_GOLDEN") == "1":
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(picture, encoding="utf-8")
    assert picture == golden.read_text(encoding="utf-8")


def test_a_violation_is_red_and_says_over_while_a_kept_bound_is_green_and_says_ok():
    over = RecordedRun(ticks=(a_tick(response=0.7, violated=True),))
    kept = RecordedRun(ticks=(a_tick(response=0.3, violated=False),))

    assert styles_of(over, "over ") == {"bold red"}
    assert styles_of(kept, "ok ") == {"green"}


def test_what_the_gate_found_is_shown():
    sentence = "enrich sent no samples for 30 s."
    run = RecordedRun(ticks=(a_tick(healthy=False, problems=(sentence,), violated=None),))

    picture = draw(run)

    assert f"! {sentence}" in picture
    assert "not judged" in picture


def test_what_could_not_be_measured_is_a_dash_and_a_blank_bar():
    run = RecordedRun(ticks=tuple(a_tick(rate=rate) for rate in (100.0, math.nan, 100.0, math.nan)))

    picture = draw(run)

    line = next(line for line in picture.splitlines() if line.startswith("rate"))
    assert " - /s █ █  backlog" in line


def test_before_the_first_tick_the_view_says_what_it_waits_for():
    run = RecordedRun().with_record(EventRecord(time=0.0, message="The JobManager is up."))

    picture = draw(run)

    assert "Waiting for the first control interval to end." in picture
    assert "00:00:00  The JobManager is up." in picture


def test_a_change_under_way_shows_its_step():
    change = RescaleRecord(
        id="1",
        kind="rescale",
        started=0.0,
        finished=None,
        before={"enrich": {"small/500m": 3}},
        after={"enrich": {"small/500m": 4}},
        outcome="running",
        steps=(Step(name="starting", time=0.0), Step(name="savepoint", time=1.0)),
        reason="More.",
    )

    picture = draw(RecordedRun(ticks=(a_tick(),)).with_record(change))

    assert "rescale in progress: savepoint; enrich small/500m 3 → 4" in picture


def test_of_more_operators_than_fit_those_nearest_to_their_budgets_are_shown():
    operators = tuple(
        an_operator(name=f"operator-{number}", response=0.1 if number in (7, 30) else 0.01)
        for number in range(50)
    )
    run = RecordedRun(ticks=(a_tick(operators=operators),))

    picture = draw(run, height=24)

    assert "operator-7 " in picture
    assert "operator-30 " in picture
    assert "further from the budget: 42 operators" in picture


def test_names_are_shown_as_they_are_even_where_they_look_like_markup():
    operator = an_operator(name="[red]evil", reason="[bold]no[/bold]")
    run = RecordedRun(ticks=(replace(a_tick(operators=(operator,)), app="[link]x"),))

    picture = draw(run, width=120)

    assert "[link]x" in picture
    assert "[red]evil" in picture
    assert "[bold]no[/bold]" in picture


def test_without_a_terminal_every_record_is_one_plain_line():
    output = io.StringIO()
    run = a_run(ticks=3)
    assert run.summary is not None
    records: list[Record] = [a_tick(rate=125.0), *run.ticks[1:], run.summary]

    with LiveView(Console(file=output, width=80)) as view:
        for record in records:
            view.show(record)

    lines = output.getvalue().splitlines()
    assert len(lines) == 4
    assert lines[0].startswith("22:13:20 rate 125/s, mean response 200 ms of 500 ms ok, backlog 0")
    assert "\x1b" not in output.getvalue()


def test_on_a_terminal_the_picture_is_drawn_over_itself_and_stays_at_the_end():
    output = io.StringIO()
    run = a_run(ticks=2)
    console = Console(file=output, width=80, height=40, force_terminal=True, color_system=None)

    with LiveView(console) as view:
        for tick in run.ticks:
            view.show(tick)

    frames = output.getvalue().split("\x1b[2K")  # each frame erases the one before
    assert len(frames) > 3
    assert "Waiting" not in frames[-1]
    assert "operator" in output.getvalue().rsplit("trips", 1)[-1]


def test_the_line_of_a_tick_names_what_was_asked_for():
    asks = an_operator(name="enrich", target={"small/500m": 4}, reason="More", verdict="Granted")

    line = render_line(a_tick(operators=(asks,), violated=True, problems=("Stale.",)))

    assert " over, " in line
    assert line.endswith(" | Stale. | enrich → 4 small/500m: More. Granted")


def test_the_line_of_the_summary_claims_proof_only_where_there_is_one():
    run = a_run(ticks=60)
    assert run.summary is not None

    proven = render_line(run.summary)
    unproven = render_line(replace(run.summary, lost=None, doubled=None))

    assert proven.endswith("7 restarts, 1 resize, 0 records lost, 0 doubled")
    assert unproven.endswith("7 restarts, 1 resize")


def test_a_proposal_that_stays_as_it_is_is_in_one_line_only():
    written = io.StringIO()
    console = Console(file=written, width=200)
    ticks = [
        a_tick(operators=(an_operator(target={"small/1": count}, verdict=f"Denied: in {m} min"),))
        for count, m in ((2, 56), (2, 55), (2, 54))
    ]

    with LiveView(console) as view:
        for tick in ticks:
            view.show(tick)

    lines = written.getvalue().splitlines()
    assert ["Denied" in line for line in lines] == [True, False, False]


def test_an_interval_without_a_measurement_says_whether_it_counts():
    nothing = replace(a_tick(), rate=math.nan, response_time=UNKNOWN)

    over = render_line(replace(nothing, violated=True))
    uncounted = render_line(replace(nothing, violated=None))

    assert "no measurement: the interval counts as over" in over
    assert "no measurement: the interval does not count" in uncounted


UNKNOWN = ResponseTime(mean=math.nan, p50=math.nan, p95=math.nan, p99=math.nan)


def test_the_lines_of_a_change_are_in_the_order_of_time_and_a_recovery_says_why():
    change = RescaleRecord(
        id="r", kind="rescale", started=0.0, finished=3661.0, before={}, after={}, outcome="done",
        steps=(Step(name="Start", time=1.0), Step(name="Done", time=3661.0)),
        reason="The JobManager was lost",
    )  # fmt: skip

    assert render_line(change) == "01:01:01 rescale done; The JobManager was lost"
