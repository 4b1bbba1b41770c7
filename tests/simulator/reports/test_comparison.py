import re

import pytest

from tests.simulator.builders import a_finished_run
from weir_simulator.comparison import summarise
from weir_simulator.reports.comparison import render_comparison


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
    text = text_of(render_comparison(some_rows()))

    taxi = text[text.index(" taxi ") : text.index(" tweets ")]
    assert taxi.index("queueing 0.0305 ± 0.0064") < taxi.index("ql-pds 0.0805 ± 0.0064")


def test_a_refused_policy_is_shown_with_its_sentence():
    text = text_of(render_comparison(some_rows()))

    assert "ql refused" in text
    assert "ql rejects this experiment: 9 million states; give fewer" in text


def test_standings_are_shown_where_there_are_several_experiments():
    several = text_of(render_comparison(some_rows()))
    one = text_of(render_comparison(summarise([a_finished_run()])))

    assert "All experiments" in several
    assert "All experiments" not in one


def test_a_comparison_in_which_everything_was_refused_has_no_charts():
    page = render_comparison(summarise([a_finished_run(refusal="Too large")]))

    assert 'class="plot"' not in page
    assert "rejects this experiment: Too large" in page


@pytest.mark.browser
async def test_the_page_is_drawn_whole(page, tmp_path):
    path = tmp_path / "report.html"
    path.write_text(render_comparison(some_rows()))

    await page.open(path)

    assert await page.evaluate("document.querySelectorAll('.plot svg.main-svg').length") >= 2
    assert page.complaints == []
