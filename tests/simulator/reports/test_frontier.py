"""The page of a frontier: its prices, what it says where there are none, and that it is drawn."""

import json
import re

import pytest
from plotly import graph_objects

from tests.chromium import on_every_screen
from weir_simulator.reports import frontier
from weir_simulator.reports.frontier import render_frontier_page
from weir_simulator.testing import a_frontier

COLOUR_NAME = re.compile(r'"var\(--[\w-]+\)"')
WORLDS = {"as it is": a_frontier(), "what if: price of t1 times 2": a_frontier(dearer=2.0)}


def text_of(page):
    body = page[page.index("<main>") : page.index("</main>")]
    return " ".join(re.sub(r"<script.*?</script>|<[^>]+>", " ", body, flags=re.DOTALL).split())


def test_prices_stand_by_bound_and_share():
    text = text_of(render_frontier_page("taxi", {"as it is": a_frontier()}))

    assert "at most 20 ms impossible impossible" in text
    assert "at most 50 ms 3.00 2.00" in text
    assert "at most 100 ms 2.00 2.00" in text


def test_the_experiments_own_objective_stands_first_with_what_others_save():
    text = text_of(render_frontier_page("taxi", {"as it is": a_frontier()}))

    assert "This objective 2.00" in text.replace("2.000", "2.00")
    assert "Kept more often 3.000 50 ms, 1 % missed; +50.0 %" in text


def test_a_bound_that_nothing_keeps_has_its_sentence():
    sentences = list(frontier.explain_gaps(a_frontier()))

    assert sentences == [
        "No deployment meets 20 ms in more than 88.00 % of the slots: "
        "even all replicas on the fastest node type do not."
    ]


def test_an_interval_is_shown_where_chance_has_a_part():
    by_chance = a_frontier(spread=0.1)
    certain = a_frontier()

    assert "±" in frontier.price(by_chance.at(0.1, 1.0))
    assert frontier.price(certain.at(0.1, 1.0)) == "2.00"


def test_what_if_is_told_as_a_difference():
    text = text_of(render_frontier_page("taxi", WORLDS))

    assert "What it changes" in text
    assert "at most 50 ms +100.0 % +100.0 %" in text
    assert "Dotted: as it is." in text


@pytest.mark.parametrize("draw", [frontier.price_by_bound, frontier.price_by_share])
def test_every_chart_is_a_figure_that_plotly_accepts(draw):
    figure = json.dumps(draw(WORLDS), allow_nan=False)

    graph_objects.Figure(json.loads(COLOUR_NAME.sub('"#123456"', figure)))


@pytest.mark.browser
@on_every_screen
async def test_the_page_is_drawn_whole_and_never_scrolls_sideways(
    page, tmp_path, width, touch, dark
):
    path = tmp_path / "report.html"
    path.write_text(render_frontier_page("taxi", WORLDS))

    await page.open(path, width=width, touch=touch, dark=dark)

    lines = (
        "[...document.querySelectorAll('.plot')].map(p => p.querySelectorAll('.js-line').length)"
    )
    # A line per share and world; a bound that is never kept has none.
    assert await page.evaluate(lines) == [4, 4]
    overflow = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert await page.evaluate(overflow) == 0
    assert page.complaints == []
