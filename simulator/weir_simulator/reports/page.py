"""One page made of blocks, for every report that Weir writes: facts, charts, tables and text.

A page is one file that needs nothing else: it includes styles, data and Plotly's script, and
fetches nothing. It follows the reader's light or dark mode and the width of the screen, down to a
phone's, where tables become cards. The caller decides what a page says; this module and
`templates/` decide how it looks.

Charts are Plotly figures in their JSON form, as plain dicts: building them with `graph_objects`
would import a hundred times as much and reject the colour names below. Colours are CSS variables,
such as `var(--bad)`, and resolved in the browser, which knows the mode; `templates/look.css.j2`
defines them. What is not known is NaN, and a gap in its line.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from typing import Literal

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

Json = None | bool | int | float | str | Sequence["Json"] | Mapping[str, "Json"]

Tone = Literal["", "good", "bad", "warn", "quiet"]


@dataclass(frozen=True, slots=True)
class Heading:
    """The title of the blocks that follow."""

    text: str


@dataclass(frozen=True, slots=True)
class Text:
    """A paragraph."""

    text: str
    tone: Tone = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Fact:
    """A number to see first."""

    label: str
    value: str
    note: str = ""
    tone: Tone = ""


@dataclass(frozen=True, slots=True)
class Facts:
    """A row of facts; wraps on narrow screens."""

    facts: Sequence[Fact]


ColumnKind = Literal["text", "number", "short", "wide"]
"""Numbers are right-aligned; a short column is never broken, a wide one takes most room."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A value in a table that has a tone."""

    text: str
    tone: Tone


@dataclass(frozen=True, kw_only=True, slots=True)
class Table:
    """A table; becomes one card per row on a phone."""

    columns: Mapping[str, ColumnKind]
    """By title, in order."""
    rows: Sequence[Sequence[str | Cell]]
    empty: str
    """The sentence that stands there without rows."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    """One line of a chart."""

    name: str
    x: Sequence[float]
    """Unix seconds, or slots; as the chart says."""
    y: Sequence[float]
    colour: int
    """A number from 0 on; from the ninth colour on they repeat, with another dash."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Mark:
    """A moment that a chart over time points out."""

    time: float
    """Unix seconds."""
    text: str
    """What its tooltip says, a line each."""
    symbol: Literal["triangle-down", "diamond"]
    is_bad: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class LineChart:
    """Lines over time or over slots. Charts stand side by side if there is room.

    Those of a page that are over time zoom together.
    """

    title: str
    unit: str
    lines: Sequence[Line]
    over: Literal["time", "slots"] = "time"
    """Slots are on a logarithmic axis: what happens first takes the fewest."""
    shape: Literal["linear", "steps", "stack"] = "linear"
    """A stack is of counts, in steps."""
    is_wide: bool = False
    """Whether the axis is logarithmic if the values differ by a large factor."""
    limit: float | None = None
    """A dashed line at this value."""
    marks: Sequence[Mark] = ()
    shades: Sequence[tuple[float, float]] = ()
    """Spans of time, Unix seconds, that are shaded."""
    height: int = 280
    """Pixels."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ShareChart:
    """Bars of the parts of a whole, such as what each replica gets; the mean is dashed."""

    title: str
    unit: str
    over: str
    """What the bars are, numbered from 0."""
    shares: Sequence[float]
    """In [0, 1]; the largest has another colour."""
    height: int = 210
    """Pixels."""


Block = Heading | Text | Facts | Table | LineChart | ShareChart


def render_page(title: str, blocks: Sequence[Block], *, subtitle: str = "") -> str:
    """Return a self-contained HTML page."""
    has_charts = any(isinstance(block, LineChart | ShareChart) for block in blocks)
    return (
        _environment()
        .get_template("page.html.j2")
        .render(
            title=title,
            subtitle=subtitle,
            blocks=blocks,
            plotly=_plotly_script() if has_charts else None,
        )
    )


def _plotly_script() -> Markup:
    # Of the package, this needs the file alone: images bring no more of it.
    return Markup((files("plotly") / "package_data" / "plotly.min.js").read_text(encoding="utf-8"))


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("weir_simulator.reports"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["figure"] = _figure_script
    environment.filters["cell"] = lambda cell: Cell(cell, "") if isinstance(cell, str) else cell
    environment.tests["kind"] = lambda block, kind: type(block).__name__ == kind
    return environment


def _figure_script(chart: LineChart | ShareChart) -> Markup:
    """Return a chart's figure as JSON that is safe inside a `<script>` element."""
    figure = draw_shares(chart) if isinstance(chart, ShareChart) else draw_figure(chart)
    text = json.dumps(figure, allow_nan=False, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c"))


_COLOURS = 8
"""That the look defines for lines."""
_DASHES = ("solid", "dash", "dot", "dashdot")
_WIDE_FROM = 20.0
"""Ratio of the highest to the lowest value from which a wide axis is logarithmic: below it a linear
one shows the distance to a limit better."""
_FEW = 6
"""Up to so many, counts are shown as whole numbers only, or the axis counts in halves."""


def draw_figure(chart: LineChart) -> Mapping[str, Json]:
    """Return the chart as a Plotly figure: `data` and `layout`."""
    return {
        "data": [*(_draw_line(chart, line) for line in chart.lines), *_draw_marks(chart)],
        "layout": _layout(chart),
    }


def draw_shares(chart: ShareChart) -> Mapping[str, Json]:
    """Return the chart as a Plotly figure: `data` and `layout`."""
    largest = max(chart.shares)
    colours: list[Json] = [
        "var(--series-2)" if share == largest else "var(--series-1)" for share in chart.shares
    ]
    bars: dict[str, Json] = {
        "type": "bar",
        "x": list(range(len(chart.shares))),
        "y": list(chart.shares),
        "marker": {"color": colours},
        "hovertemplate": f"{chart.over} %{{x}}: %{{y:.1%}}<extra></extra>",
    }
    numbered: dict[str, Json] = {"tickformat": "d", "title": {"text": chart.over}}
    if len(chart.shares) <= _FEW:
        numbered["dtick"] = 1
    return {
        "data": [bars],
        "layout": {
            **_STYLE,
            "showlegend": False,
            "hovermode": "closest",
            "bargap": 0.3,
            "xaxis": {**_AXIS, "showgrid": False, "fixedrange": True, **numbered},
            "yaxis": {**_AXIS, "rangemode": "tozero", "fixedrange": True, "tickformat": ".0%"},
            "shapes": [{**_dash_at(1 / len(chart.shares)), "layer": "above"}],
        },
    }


def _draw_line(chart: LineChart, line: Line) -> Json:
    colour = f"var(--series-{line.colour % _COLOURS + 1})"
    is_stack = chart.shape == "stack"
    drawn: dict[str, Json] = {
        "type": "scatter",
        "mode": "lines",
        "name": line.name,
        "x": _places(chart, line.x),
        # JSON has neither NaN nor infinity; Plotly leaves a hole where a value is null.
        "y": [value if math.isfinite(value) else None for value in line.y],
        "line": {
            "color": colour,
            "width": 1 if is_stack else 2,
            "shape": "linear" if chart.shape == "linear" else "hv",
            "dash": _DASHES[line.colour // _COLOURS % len(_DASHES)],
        },
        "connectgaps": False,
        "hovertemplate": "%{y:,.4~r}",
    }
    return drawn | ({"stackgroup": "all", "fillcolor": colour} if is_stack else {})


def _draw_marks(chart: LineChart) -> list[Json]:
    """Return the marks, above the lines; an axis of their own keeps them at the top."""
    if not chart.marks:
        return []
    return [
        {
            "type": "scatter",
            "mode": "markers",
            "showlegend": False,
            "yaxis": "y2",
            "x": _moments(mark.time for mark in chart.marks),
            "y": [1 for _ in chart.marks],
            "cliponaxis": False,
            "marker": {
                "symbol": [mark.symbol for mark in chart.marks],
                "size": 9,
                "color": ["var(--bad)" if m.is_bad else "var(--accent)" for m in chart.marks],
            },
            # Plotly reads a small part of HTML in its texts; names come from the user's manifest.
            "text": [m.text.replace("<", "&lt;").replace("\n", "<br>") for m in chart.marks],
            "hovertemplate": "%{text}<extra></extra>",
        }
    ]


def _places(chart: LineChart, x: Sequence[float]) -> list[Json]:
    return _moments(x) if chart.over == "time" else list(x)


def _moments(times: Iterable[float]) -> list[Json]:
    # Plotly reads a time without a zone as it stands: UTC here.
    return [f"{datetime.fromtimestamp(time, UTC):%Y-%m-%d %H:%M:%S.%f}"[:-3] for time in times]


_AXIS: Mapping[str, Json] = {
    "gridcolor": "var(--grid)",
    "linecolor": "var(--line)",
    "zeroline": False,
    "automargin": True,
    "tickfont": {"size": 12},
}
_STYLE: Mapping[str, Json] = {
    "paper_bgcolor": "rgba(0,0,0,0)",
    "plot_bgcolor": "rgba(0,0,0,0)",
    "font": {"color": "var(--quiet)", "family": "system-ui, sans-serif", "size": 12},
    "margin": {"l": 44, "r": 14, "t": 16, "b": 30},
    "hoverlabel": {
        "bgcolor": "var(--card)",
        "bordercolor": "var(--line)",
        "font": {"color": "var(--ink)"},
    },
}


def _layout(chart: LineChart) -> Json:
    xaxis = {**_AXIS, "showgrid": False, "showline": True, "nticks": 6, "tickangle": 0}
    return {
        **_STYLE,
        "showlegend": len(chart.lines) > 1 or chart.shape == "stack",
        "legend": {"orientation": "h", "x": 0, "y": 1.06, "yanchor": "bottom"},
        "hovermode": "x unified",
        "uirevision": "kept",  # a redraw in other colours keeps the zoom
        "xaxis": xaxis | _range_x(chart),
        "yaxis": {**_AXIS, "rangemode": "tozero", "fixedrange": True} | _scale_y(chart),
        "yaxis2": {"overlaying": "y", "range": [0, 1], "visible": False, "fixedrange": True},
        "shapes": _draw_shapes(chart),
    }


def _range_x(chart: LineChart) -> dict[str, Json]:
    if chart.over == "slots":
        return {"type": "log", "dtick": 1, "tickformat": "~s"}
    ends = [time for line in chart.lines for time in (line.x[0], line.x[-1])]
    if not ends or min(ends) == max(ends):
        return {"type": "date"}
    return {"type": "date", "range": _moments([min(ends), max(ends)])}


def _scale_y(chart: LineChart) -> dict[str, Json]:
    values = [value for line in chart.lines for value in line.y if math.isfinite(value)]
    if chart.limit is not None:
        values.append(chart.limit)
    above_zero = [value for value in values if value > 0]
    if chart.is_wide and above_zero and max(above_zero) > _WIDE_FROM * min(above_zero):
        # Ticks at 1, 2 and 5 of each decade, rather than powers or bare digits.
        return {"type": "log", "dtick": "D2", "tickformat": "~g", "rangemode": "normal"}
    if chart.shape == "stack":
        sums = [sum(counts) for counts in zip(*(line.y for line in chart.lines), strict=True)]
        return {"dtick": 1} if max(sums, default=0) <= _FEW else {}
    return {}


def _draw_shapes(chart: LineChart) -> list[Json]:
    upright: dict[str, Json] = {"yref": "paper", "y0": 0, "y1": 1, "layer": "below"}
    shapes: list[Json] = []
    for span in chart.shades:
        start, end = _moments(span)
        look: dict[str, Json] = {"fillcolor": "var(--shade)", "line": {"width": 0}}
        shapes.append({"type": "rect", "x0": start, "x1": end, **upright, **look})
    for mark in chart.marks:
        [moment] = _moments([mark.time])
        line: Json = {"color": "var(--quiet)", "width": 1, "dash": "dot"}
        shapes.append({"type": "line", "x0": moment, "x1": moment, "line": line, **upright})
    if chart.limit is not None:
        shapes.append(_dash_at(chart.limit, colour="var(--bad)"))
    return shapes


def _dash_at(level: float, *, colour: str = "var(--ink)") -> dict[str, Json]:
    across: dict[str, Json] = {"type": "line", "xref": "paper", "x0": 0, "x1": 1}
    dashed: Json = {"color": colour, "width": 1.5, "dash": "dash"}
    return {**across, "y0": level, "y1": level, "line": dashed}
