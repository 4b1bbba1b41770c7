import json
import math
import re
from typing import Any

import pytest
from plotly import graph_objects

from weir_simulator.reports.page import (
    Cell,
    Fact,
    Facts,
    Heading,
    Line,
    LineChart,
    Mark,
    Table,
    Text,
    draw_figure,
    render_page,
)

COLOUR_NAME = re.compile(r'"var\((--[\w-]+)\)"')
START = 1_700_000_000.0  # 2023-11-14 22:13:20 UTC
EVIL = "<img src=x onerror=alert(1)></script>"


def a_line(*values, name="mean", colour=0):
    times = [START + 5 * number for number in range(len(values))]
    return Line(name=name, x=times, y=values, colour=colour)


def a_mark(*, text="rescale done", is_bad=False):
    return Mark(time=START + 5, text=text, symbol="diamond", is_bad=is_bad)


def a_chart(*lines, **changes):
    fields: dict[str, Any] = {"title": "Response time", "unit": "s", "lines": lines}
    return LineChart(**fields | changes)


def drawn(*lines, **changes):
    """Return the figure of a chart as the browser gets it."""
    return json.loads(json.dumps(draw_figure(a_chart(*lines, **changes)), allow_nan=False))


CHARTS = {
    "plain": a_chart(a_line(1.0, 2.0)),
    "one moment": a_chart(a_line(1.0)),
    "everything": a_chart(
        a_line(1.0, math.nan, 90.0),
        a_line(2.0, 3.0, 4.0, colour=9),
        is_wide=True,
        limit=0.5,
        marks=[a_mark(), a_mark(is_bad=True)],
        shades=[(START, START + 5)],
    ),
    "stack": a_chart(a_line(1.0, 2.0), a_line(3.0, 0.0, colour=1), shape="stack"),
    "steps": a_chart(a_line(1.0, 2.0), shape="steps"),
    "slots": a_chart(Line(name="ql", x=[1, 10, 100], y=[0.2, 0.1, 0.08], colour=0), over="slots"),
}


@pytest.mark.parametrize("name", CHARTS)
def test_every_chart_is_a_figure_that_plotly_accepts(name):
    figure = json.dumps(draw_figure(CHARTS[name]), allow_nan=False)

    # Raises where a property does not exist or has no such value.
    graph_objects.Figure(json.loads(COLOUR_NAME.sub('"#123456"', figure)))


def test_every_colour_is_defined_in_the_look_for_light_and_dark():
    lines = [a_line(1.0, 2.0, colour=number) for number in range(8)]
    page = render_page("All", [a_chart(*lines), *CHARTS.values()])

    used = set(COLOUR_NAME.findall(page))
    light, dark = page.split("@media (prefers-color-scheme: dark)")[:2]

    assert len(used) > 8
    for name in used:
        assert f"{name}:" in light
        assert f"{name}:" in dark.split("* { box-sizing")[0]


def test_what_is_not_known_is_a_hole_in_the_line():
    assert drawn(a_line(1.0, math.nan, 3.0, math.inf))["data"][0]["y"] == [1.0, None, 3.0, None]


def test_no_two_of_many_lines_look_the_same():
    figure = drawn(*(a_line(1.0, 2.0, colour=number) for number in range(32)))

    looks = {(each["line"]["color"], each["line"]["dash"]) for each in figure["data"]}
    assert len(looks) == 32


@pytest.mark.parametrize(
    ("values", "limit", "kind"),
    [
        ((0.2, 0.3), 0.5, None),
        ((0.02, 30.0), 0.5, "log"),
        ((0.02, 0.03), 0.5, "log"),
        ((math.nan, math.nan), None, None),
        ((0.0, 0.0), None, None),
    ],
)
def test_values_far_apart_from_each_other_or_the_limit_are_on_a_logarithmic_axis(
    values, limit, kind
):
    figure = drawn(a_line(*values), is_wide=True, limit=limit)

    assert figure["layout"]["yaxis"].get("type") == kind


def test_few_counts_are_shown_as_whole_numbers():
    few = drawn(a_line(3, 2), a_line(1, 2, colour=1), shape="stack")
    many = drawn(a_line(3, 2), a_line(1, 12, colour=1), shape="stack")

    assert few["layout"]["yaxis"]["dtick"] == 1
    assert "dtick" not in many["layout"]["yaxis"]


def test_marks_shades_and_the_limit_are_drawn_where_they_are():
    layout = drawn(a_line(1.0, 2.0), limit=1.5, marks=[a_mark()], shades=[(START, START + 5)])[
        "layout"
    ]

    shade, mark, limit = layout["shapes"]
    assert (shade["x0"][-12:], shade["x1"][-12:]) == ("22:13:20.000", "22:13:25.000")
    assert mark["x0"] == mark["x1"] == "2023-11-14 22:13:25.000"
    assert limit["y0"] == limit["y1"] == 1.5


def test_a_table_without_rows_is_its_sentence():
    table = Table(columns={"Time": "short"}, rows=[], empty="Nothing happened.")

    page = render_page("Empty", [table])

    assert "Nothing happened." in page
    assert "<table" not in page
    assert "Plotly" not in page


def test_text_cannot_inject_markup():
    page = render_page(
        EVIL,
        [
            Heading(EVIL),
            Text(EVIL),
            Facts([Fact(label=EVIL, value=EVIL, note=EVIL)]),
            Table(columns={EVIL: "text"}, rows=[[EVIL], [Cell(EVIL, "bad")]], empty=""),
            a_chart(a_line(1.0, 2.0, name=EVIL), title=EVIL, unit=EVIL, marks=[a_mark(text=EVIL)]),
        ],
        subtitle=EVIL,
    )

    assert "<img src=x" not in page
