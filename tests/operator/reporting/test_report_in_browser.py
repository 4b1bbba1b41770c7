from dataclasses import replace

import pytest

from tests.chromium import on_every_screen
from tests.operator.reporting.builders import a_run
from tests.operator.reporting.test_report import keys_of
from weir_operator.reporting.report import render_report

pytestmark = pytest.mark.browser

OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


@pytest.fixture
def report(tmp_path):
    path = tmp_path / "report.html"
    run = a_run(ticks=60, blind=(22, 23))
    [first, *others] = run.ticks[-1].operators
    uneven = replace(first, keys=keys_of(0.2, 0.65, 0.15))
    last = replace(run.ticks[-1], operators=(uneven, *others))
    path.write_text(render_report(replace(run, ticks=(*run.ticks[:-1], last))))
    return path


@on_every_screen
async def test_the_report_is_drawn_whole_and_never_scrolls_sideways(
    page, report, width, touch, dark
):
    await page.open(report, width=width, dark=dark, touch=touch)

    plots = await page.evaluate("document.querySelectorAll('.plot').length")
    lines = await page.evaluate(
        "[...document.querySelectorAll('.plot')].map("
        "p => p.querySelectorAll('.js-line, .bars .point').length)"
    )
    assert plots == 8  # rate, response, three operators, cost per hour, accumulated cost, keys
    assert all(lines)
    assert await page.evaluate(OVERFLOW) == 0
    assert page.complaints == []


async def test_the_report_fetches_nothing(page, report):
    await page.open(report)

    assert [url for url in page.requests if not url.startswith("data:")] == [report.as_uri()]


async def test_charts_change_their_colours_with_the_readers_mode(page, report):
    colour = "getComputedStyle(document.querySelector('.plot .xtick text')).fill"
    await page.open(report, dark=False)
    light = await page.evaluate(colour)

    await page.emulate_mode(dark=True)

    assert light == "rgb(91, 104, 120)"
    await page.wait_until(f"{colour} === 'rgb(154, 168, 184)'")


async def test_all_charts_follow_the_zoom_of_one(page, report):
    await page.open(report)
    wanted = ["2023-11-14 22:14:00", "2023-11-14 22:16:00"]

    ranges = await page.evaluate(
        f"""(async () => {{
          const plots = [...document.querySelectorAll('.plot')].slice(0, 7);  // those over time
          const followed = new Promise(done => plots.at(-1).on('plotly_relayout', done));
          await Plotly.relayout(plots[0], {{
            'xaxis.range[0]': '{wanted[0]}', 'xaxis.range[1]': '{wanted[1]}'
          }});
          await followed;
          return plots.map(plot => plot.layout.xaxis.range);
        }})()"""
    )

    assert ranges == [wanted] * 7
