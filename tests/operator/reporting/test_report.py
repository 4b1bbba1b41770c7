import json
import math
import re
from dataclasses import replace

import pytest
from plotly import graph_objects

from weir_operator.loop.run_record import RecordedRun, Step
from weir_operator.reporting import report
from weir_operator.reporting.report import render_report
from weir_operator.reporting.testing import a_run, a_tick, an_operator
from weir_simulator.reports.page import Chart, Charts, Section, render_page
from weir_simulator.reports.trace import render_trace_page
from weir_simulator.traces import as_trace

COLOUR_NAME = re.compile(r'"var\((--[\w-]+)\)"')


def text_of(page):
    """Return what a reader sees of a page, without scripts, styles and markup."""
    page = re.sub(r"<(script|style).*?</\1>", " ", page, flags=re.DOTALL)
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page))


def plain(figure):
    """Return a figure as the browser gets it."""
    return json.loads(json.dumps(figure, allow_nan=False))


def figures_of(run):
    colours = report.node_type_colours(run)
    return {
        "rate": report.rate_figure(run),
        "response": report.response_figure(run),
        "replicas": report.replicas_figure(run, "aggregate", colours),
        "cost rate": report.cost_rate_figure(run),
        "cost": report.cost_figure(run),
    }


def with_ticks(run, change):
    return replace(run, ticks=tuple(change(tick) for tick in run.ticks))


@pytest.mark.parametrize("name", ["rate", "response", "replicas", "cost rate", "cost"])
def test_every_chart_is_a_figure_that_plotly_accepts(name):
    figure = figures_of(a_run(ticks=60, blind=(5,)))[name]

    resolved = json.loads(COLOUR_NAME.sub('"#123456"', json.dumps(figure, allow_nan=False)))

    graph_objects.Figure(resolved)  # raises where a property does not exist or has no such value


def test_every_colour_of_the_charts_is_defined_in_the_look_for_light_and_dark():
    page = render_report(a_run(ticks=60))

    used = set(COLOUR_NAME.findall(page))
    light, dark = page.split("@media (prefers-color-scheme: dark)")[:2]

    assert used
    for name in used:
        assert f"{name}:" in light
        assert f"{name}:" in dark.split("* { box-sizing")[0]


def test_a_tick_without_measurements_is_a_hole_in_the_lines():
    figure = plain(report.rate_figure(a_run(ticks=10, blind=(4,))))

    rates = figure["data"][0]["y"]

    assert [slot for slot, rate in enumerate(rates) if rate is None] == [4]


def test_neighbouring_violations_are_one_shade_from_the_start_of_their_first_interval():
    ticks = tuple(
        a_tick(time=1000.0 + 5 * number, violated=number in (2, 3, 6)) for number in range(8)
    )

    figure = plain(report.rate_figure(RecordedRun(ticks=ticks)))

    shades = [shape for shape in figure["layout"]["shapes"] if shape["type"] == "rect"]
    assert [(shade["x0"][-9:], shade["x1"][-9:]) for shade in shades] == [
        ("16:45.000", "16:55.000"),
        ("17:05.000", "17:10.000"),
    ]


def test_response_times_far_apart_are_drawn_on_a_logarithmic_axis():
    near = RecordedRun(ticks=(a_tick(time=0.0, response=0.2), a_tick(time=5.0, response=0.3)))
    far = RecordedRun(ticks=(a_tick(time=0.0, response=0.02), a_tick(time=5.0, response=30.0)))

    linear, logarithmic = (plain(report.response_figure(run)) for run in (near, far))

    assert "type" not in linear["layout"]["yaxis"]
    assert logarithmic["layout"]["yaxis"]["type"] == "log"


def test_a_response_time_that_is_known_nowhere_still_gives_a_chart_with_the_bound():
    run = RecordedRun(ticks=(a_tick(response=math.nan, violated=None),))

    figure = plain(report.response_figure(run))

    assert figure["data"][0]["y"] == [None]
    assert figure["layout"]["shapes"][-1]["y0"] == 0.5


def test_a_change_is_marked_on_every_chart_with_its_gap():
    run = a_run(ticks=60)

    figures = figures_of(run)

    for figure in figures.values():
        marks = plain(figure)["data"][-1]
        assert len(marks["x"]) == len(run.rescales) == 8
        assert "rescale done, no output for 720 ms<br>enrich: 2 small/500m" in marks["text"][0]


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


def test_a_page_refuses_a_number_that_json_does_not_have():
    chart = Chart(title="Wrong", figure={"data": [{"y": [math.nan]}], "layout": {}})

    with pytest.raises(ValueError, match="not JSON compliant"):
        render_page("Wrong", [Section(title="", blocks=[Charts([chart])])])


def test_a_short_trace_is_drawn_slot_by_slot_and_a_long_one_as_mean_and_range():
    short = render_trace_page("short", as_trace([1.0, 2.0, 3.0]))
    long = render_trace_page("long", as_trace([1.0, 5.0] * 5000))

    assert "The line is the mean of" not in short
    assert "The line is the mean of 5 slots each, the band their range." in long


def test_the_policy_is_named_though_the_last_tick_held():
    run = a_run(ticks=3)
    held = [replace(operator, policy="") for operator in run.ticks[-1].operators]
    last = replace(run.ticks[-1], operators=tuple(held))

    page = render_report(replace(run, ticks=(*run.ticks[:-1], last)))

    assert "policy queueing" in page


def test_the_cost_names_the_standby_that_it_counts():
    run = a_run(ticks=5)
    paid = with_ticks(run, lambda tick: replace(tick, standby=2))

    assert "2 standby TaskManagers" in text_of(render_report(paid))
    assert "standby" not in text_of(render_report(run))
