import math
import re
from dataclasses import replace
from typing import Any

import pytest

from tests.operator.reporting.builders import a_run, a_tick, an_operator
from weir_operator.loop.run_record import RecordedRun, Step
from weir_operator.metrics.keys import KeyReport
from weir_operator.reporting.report import draw_charts, draw_keys, render_report
from weir_simulator.reports.page import LineChart, ShareChart, draw_shares


def text_of(page):
    """Return what a reader sees of a page, without scripts, styles and markup."""
    page = re.sub(r"<(script|style).*?</\1>", " ", page, flags=re.DOTALL)
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page))


def charts_of(run):
    return {block.title: block for block in draw_charts(run) if isinstance(block, LineChart)}


def keys_of(*replicas):
    return KeyReport(replicas=replicas, heaviest=94, heaviest_share=0.4, heavy=(), counted=5000.0)


def with_ticks(run, change):
    return replace(run, ticks=tuple(change(tick) for tick in run.ticks))


def test_a_tick_without_measurements_has_no_rate_in_the_chart():
    [rate] = charts_of(a_run(ticks=10, blind=(4,)))["Arrival rate"].lines

    assert [slot for slot, value in enumerate(rate.y) if math.isnan(value)] == [4]


def test_neighbouring_violations_are_one_shade_from_the_start_of_their_first_interval():
    ticks = tuple(
        a_tick(time=1000.0 + 5 * number, violated=number in (2, 3, 6)) for number in range(8)
    )

    for chart in charts_of(RecordedRun(ticks=ticks)).values():
        assert chart.shades == [(1005.0, 1015.0), (1025.0, 1030.0)]


def test_the_response_time_stands_beside_its_bound():
    chart = charts_of(RecordedRun(ticks=(a_tick(response=math.nan, violated=None),)))[
        "Response time"
    ]

    assert [line.name for line in chart.lines] == ["mean", "95th percentile"]
    assert chart.limit == 0.5


def test_every_operator_has_its_replicas_by_node_type_in_the_same_colours():
    charts = charts_of(a_run(ticks=60))

    shown = {
        (line.name, line.colour)
        for operator in ("source", "enrich", "aggregate")
        for line in charts[operator].lines
    }
    assert shown == {("large/1", 0), ("small/250m", 1), ("small/500m", 2)}


def test_a_change_is_marked_on_every_chart_with_its_gap():
    run = a_run(ticks=60)

    for chart in charts_of(run).values():
        assert len(chart.marks) == len(run.rescales) == 8
        assert chart.marks[0].text.startswith(
            "rescale done, no output for 720 ms\nenrich: 2 small/500m"
        )


@pytest.mark.parametrize(("outcome", "is_bad"), [("done", False), ("rolledBack", True)])
def test_a_change_that_did_not_succeed_is_marked_as_bad(outcome, is_bad):
    run = a_run(ticks=23)
    changed = replace(run, rescales=(replace(run.rescales[0], outcome=outcome),))

    assert charts_of(changed)["Arrival rate"].marks[0].is_bad == is_bad


def test_the_report_says_whether_the_promise_was_kept_and_at_what_cost():
    text = text_of(render_report(a_run(ticks=60, blind=(22, 23))))

    assert "Within the bound 94.8 %" in text
    assert "3 of 58 intervals exceeded it" in text
    assert "Lost / duplicated 0 / 0 of 98,312 records" in text
    assert "objective: mean response time at most 500 ms" in text


def test_the_steps_of_a_change_are_told_without_its_end_which_takes_no_time():
    run = a_run(ticks=23)
    [first, *_] = run.rescales
    steps = (
        Step(name="Stopping", time=first.started),
        Step(name="Verifying", time=first.started + 2.0),
        Step(name="Done", time=first.started + 2.5),
    )
    told = replace(first, steps=steps, finished=first.started + 2.5)

    text = text_of(render_report(replace(run, rescales=(told,))))

    assert "Stopping 2.00 s, Verifying 500 ms" in text
    assert "Done 0" not in text


def test_a_decision_stands_beside_what_was_expected_and_what_was_measured():
    target = {"small/500m": 4}
    before = an_operator(name="enrich", target=target, predicted=0.02, verdict="Granted.")
    restarting, after = (
        an_operator(name="enrich", replicas=target, response=response) for response in (0.9, 0.025)
    )
    run = RecordedRun(
        ticks=tuple(
            a_tick(time=5.0 * number, operators=(operator,))
            for number, operator in enumerate((before, restarting, after, after))
        )
    )

    text = text_of(render_report(run))

    assert "enrich 3 small/500m → 4 small/500m" in text
    assert "Granted. 20 ms 25 ms" in text  # not the 900 ms of the interval that restarted


def test_a_proposal_that_never_ran_has_no_measurement():
    denied = an_operator(name="enrich", target={"small/500m": 9}, predicted=0.02, verdict="Denied.")
    stays = an_operator(name="enrich")
    run = RecordedRun(ticks=(a_tick(operators=(denied,)), a_tick(time=5.0, operators=(stays,))))

    text = text_of(render_report(run))

    assert "Denied. 20 ms - " in text


def test_what_was_last_known_of_keys_is_said_though_the_last_tick_knows_nothing():
    first, last = (
        replace(an_operator(name="enrich"), keys=keys) for keys in (keys_of(0.2, 0.65, 0.15), None)
    )
    run = RecordedRun(
        ticks=(a_tick(operators=(first,)), a_tick(time=5.0, operators=(last, an_operator())))
    )

    text = text_of(render_report(run))

    assert "enrich: the fullest of 3 replicas gets 65.0% of the records" in text
    assert "Keys" not in text_of(render_report(a_run(ticks=3)))


def test_each_replica_has_a_bar_and_the_mean_is_dashed():
    charts = [
        block
        for block in draw_keys({"enrich": keys_of(0.2, 0.65, 0.15), "single": keys_of(1.0)})
        if isinstance(block, ShareChart)
    ]

    figures: list[Any] = [draw_shares(chart) for chart in charts]  # Any: JSON
    [figure] = figures
    [bars] = figure["data"]
    [mean] = figure["layout"]["shapes"]
    assert bars["y"] == [0.2, 0.65, 0.15]
    assert bars["marker"]["color"].count("var(--series-2)") == 1  # the fullest
    assert mean["y0"] == mean["y1"] == pytest.approx(1 / 3)


def test_a_run_that_was_not_ended_cleanly_is_reported_as_such():
    run = replace(a_run(ticks=12), summary=None)

    text = text_of(render_report(run))

    assert "There is no summary" in text
    assert "Arrival rate" in text


def test_a_run_without_ticks_has_a_report_without_charts():
    page = render_report(RecordedRun())

    assert "No control interval was recorded." in text_of(page)
    assert "Plotly" not in page


def test_what_cannot_be_proven_is_not_claimed():
    run = a_run(ticks=12)
    assert run.summary is not None
    unproven = replace(run, summary=replace(run.summary, lost=None, doubled=None))

    text = text_of(render_report(unproven))

    assert "Lost / duplicated - cannot be proven here" in text


def test_names_from_a_manifest_cannot_inject_markup():
    evil = "<img src=x onerror=alert(1)></script>"
    run = with_ticks(
        a_run(ticks=6),
        lambda tick: replace(
            tick, app=evil, operators=(an_operator(name=evil, replicas={evil: 1}, reason=evil),)
        ),
    )

    page = render_report(run)

    assert "<img src=x" not in page


def test_the_report_is_one_file_below_five_megabytes():
    page = render_report(a_run(ticks=500))

    assert len(page.encode()) < 5_200_000
    assert page.count("<script>") == 2  # Plotly's and the page's own, both inline


def test_the_policy_is_named_though_the_last_tick_held():
    run = a_run(ticks=3)
    held = [replace(operator, policy="") for operator in run.ticks[-1].operators]
    last = replace(run.ticks[-1], operators=tuple(held))

    page = render_report(replace(run, ticks=(*run.ticks[:-1], last)))

    assert "policy queueing" in page
