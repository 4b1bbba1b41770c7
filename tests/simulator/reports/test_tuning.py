"""The page of a tuning: its verdict, its charts, and that it is drawn in a browser."""

import json
import re

import pytest
from plotly import graph_objects

from tests.chromium import on_every_screen
from weir_simulator.reports import tuning
from weir_simulator.reports.tuning import render_tuning_page
from weir_simulator.testing import a_tuning

COLOUR_NAME = re.compile(r'"var\(--[\w-]+\)"')


def text_of(page):
    body = page[page.index("<main>") : page.index("</main>")]
    return " ".join(re.sub(r"<script.*?</script>|<[^>]+>", " ", body, flags=re.DOTALL).split())


def test_what_was_gained_stands_first():
    text = text_of(render_tuning_page("taxi", *a_tuning()))

    assert "Price per hour 3.000 ± 0.100 before 4.000 ± 0.100; -25.0 %" in text
    assert "Missed 4.00 ± 0.20 % of the slots; before 1.00 ± 0.20, allowed 5" in text
    assert "Better than before: it costs 25.0 % less (probability 99.0%) and keeps the " in text
    assert "constraints (probability 98.0%)." in text


def test_a_result_that_is_not_surely_better_says_so():
    verdict = tuning.verdict(*a_tuning(better=False))

    assert verdict.startswith(
        "Not better with enough confidence: it costs less with a probability of 60"
    )
    assert "98.0%" in verdict
    assert "95.0%" in verdict


def test_where_too_little_was_simulated_it_says_what_is_missing():
    order, result = a_tuning(better=False)
    doubt = "40 slots were simulated, and traffic shows only in 160"

    verdict = tuning.verdict(order, result.model_copy(update={"certainty": None, "doubt": doubt}))

    assert verdict.startswith(
        f"Not better with enough confidence: {doubt}; keep the current settings"
    )


def test_constraints_that_nothing_keeps_are_named():
    assert tuning.verdict(*a_tuning(keeps=False)).startswith(
        "No simulated settings meet the limits of 5 % missed slots and 144 restarts per day"
    )


def test_a_short_simulation_is_never_the_best():
    _, result = a_tuning()
    cheap = result.evaluations[1].model_copy(update={"feasible": True})

    best = tuning.best_of([*result.evaluations, cheap])

    assert best == result.evaluations[2]


def test_progress_says_the_best_so_far():
    order, result = a_tuning()

    before = tuning.best_so_far(order, result.evaluations[1:2])
    after = tuning.best_so_far(order, result.evaluations)

    assert before == "1 simulation, none meets the constraints yet"
    assert after == "Best of 3: 3.000 per hour, 4.00 % missed, 28.8 restarts a day"


def test_the_line_of_the_best_goes_down_only_where_the_constraints_were_kept():
    _, result = a_tuning()

    *_, line = json.loads(json.dumps(tuning.convergence(result)))["data"]

    assert line["x"] == [1000, 1100, 2100]
    assert line["y"] == [4.0, 4.0, 3.0]


@pytest.mark.parametrize("chart", ["convergence", "violations", "restarts", "budgets"])
def test_every_chart_is_a_figure_that_plotly_accepts(chart):
    order, result = a_tuning()
    figure = {
        "convergence": tuning.convergence(result),
        "violations": tuning.price_against_violations(order, result),
        "restarts": tuning.price_against_restarts(order, result),
        "budgets": tuning.budgets(result),
    }[chart]

    resolved = json.loads(COLOUR_NAME.sub('"#123456"', json.dumps(figure, allow_nan=False)))

    graph_objects.Figure(resolved)  # raises where a property does not exist or has no such value


@pytest.mark.browser
@on_every_screen
async def test_the_page_is_drawn_whole_and_never_scrolls_sideways(
    page, tmp_path, width, touch, dark
):
    path = tmp_path / "report.html"
    path.write_text(render_tuning_page("taxi", *a_tuning()))

    await page.open(path, width=width, touch=touch, dark=dark)

    assert await page.evaluate("document.querySelectorAll('.plot svg.main-svg').length") >= 8
    overflow = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert await page.evaluate(overflow) == 0
    assert page.complaints == []
