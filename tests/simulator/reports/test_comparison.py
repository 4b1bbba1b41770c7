"""The page of a comparison: its tables, its charts, and that it is drawn in a browser."""

import json
import re

import pytest
from plotly import graph_objects

from tests.chromium import on_every_screen
from weir_simulator.comparison import summarise
from weir_simulator.reports.comparison import (
    cost_against_violations,
    cost_bars,
    cost_curves,
    policy_styles,
    render_comparison_page,
)
from weir_simulator.testing import a_finished_run

COLOUR_NAME = re.compile(r'"var\(--[\w-]+\)"')


def some_rows(*, seeds=2):
    return summarise(
        [
            a_finished_run(name=name, policy=policy, seed=seed, cost=cost + 0.001 * seed)
            for name in ("taxi", "tweets")
            for policy, cost in (("ql-pds", 0.08), ("queueing", 0.03))
            for seed in range(seeds)
        ]
        + [a_finished_run(name="tweets", policy="ql", refusal="9 million states; give fewer")]
    )


def text_of(page):
    body = page[page.index("<main>") : page.index("</main>")]
    return " ".join(re.sub(r"<script.*?</script>|<[^>]+>", " ", body, flags=re.DOTALL).split())


def test_every_experiment_has_a_table_with_the_lowest_cost_first():
    text = text_of(render_comparison_page(some_rows()))

    taxi = text[text.index(" taxi ") : text.index(" tweets ")]
    assert taxi.index("queueing 0.0305 ± 0.0064") < taxi.index("ql-pds 0.0805 ± 0.0064")


def test_a_refused_policy_is_shown_with_its_sentence():
    text = text_of(render_comparison_page(some_rows()))

    assert "ql refused" in text
    assert "ql rejects this experiment: 9 million states; give fewer" in text


def test_one_seed_shows_no_interval():
    text = text_of(render_comparison_page(some_rows(seeds=1)))

    assert "queueing 0.0300 1.00 %" in text
    assert "±" not in text


def test_standings_are_shown_where_there_are_several_experiments():
    several = text_of(render_comparison_page(some_rows()))
    one = text_of(render_comparison_page(summarise([a_finished_run()])))

    assert "All experiments" in several
    assert "All experiments" not in one


def test_a_comparison_in_which_everything_was_refused_has_no_charts():
    page = render_comparison_page(summarise([a_finished_run(refusal="Too large")]))

    assert 'class="plot"' not in page
    assert "rejects this experiment: Too large" in page


@pytest.mark.parametrize("chart", ["bars", "curves", "scatter"])
def test_every_chart_is_a_figure_that_plotly_accepts(chart):
    rows = some_rows()
    measured = {row.policy: row.measured for row in rows if row.name == "taxi" and row.measured}
    styles = policy_styles(rows)
    figure = {
        "bars": cost_bars(measured),
        "curves": cost_curves(measured, styles),
        "scatter": cost_against_violations(measured, styles),
    }[chart]

    resolved = json.loads(COLOUR_NAME.sub('"#123456"', json.dumps(figure, allow_nan=False)))

    graph_objects.Figure(resolved)  # raises where a property does not exist or has no such value


def test_no_two_policies_look_the_same():
    rows = summarise([a_finished_run(policy=f"policy-{number}") for number in range(32)])

    styles = policy_styles(rows)

    assert len(set(styles.values())) == 32


def test_the_course_of_a_cost_that_falls_far_is_drawn_on_a_logarithmic_axis():
    [near] = summarise([a_finished_run(cost=0.05)])
    [far] = summarise([a_finished_run(cost=0.0005)])

    kinds = []
    for row in (near, far):
        assert row.measured is not None
        drawn = json.dumps(cost_curves({row.policy: row.measured}, policy_styles([row])))
        kinds.append(json.loads(drawn)["layout"]["yaxis"].get("type"))

    assert kinds == [None, "log"]


@pytest.mark.browser
@on_every_screen
async def test_the_page_is_drawn_whole_and_never_scrolls_sideways(
    page, tmp_path, width, touch, dark
):
    path = tmp_path / "report.html"
    path.write_text(render_comparison_page(some_rows()))

    await page.open(path, width=width, touch=touch, dark=dark)

    assert await page.evaluate("document.querySelectorAll('.plot svg.main-svg').length") >= 6
    overflow = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert await page.evaluate(overflow) == 0
    assert page.complaints == []
