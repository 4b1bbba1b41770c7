"""The common layout of every HTML page that Weir writes: tiles, charts, tables and prose.

A page is one file that needs nothing else: it includes styles, data and Plotly's script, and
fetches nothing. It follows the reader's light or dark mode and the width of the screen, down to a
phone's, where tables become cards. The caller decides what a page says (`report`, `trace`); this
module and `templates/` decide how it looks.

A chart is a Plotly figure in its JSON form, as plain dicts: building them with `graph_objects`
would import a hundred times as much and reject the colour names below. Colours are CSS variables,
such as `var(--bound)`, and resolved in the browser, which knows the mode; `templates/look.css.j2`
defines them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Literal

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

Json = None | bool | int | float | str | Sequence["Json"] | Mapping[str, "Json"]
Figure = Mapping[str, Json]
"""A Plotly figure: `data` and `layout`."""

SERIES = tuple(f"var(--series-{number})" for number in range(1, 9))

Tone = Literal["", "good", "bad", "warn", "quiet"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Tile:
    """A number to see first."""

    label: str
    value: str
    note: str = ""
    tone: Tone = ""


@dataclass(frozen=True, slots=True)
class Tiles:
    """A row of tiles; wraps on narrow screens."""

    tiles: Sequence[Tile]


@dataclass(frozen=True, kw_only=True, slots=True)
class Chart:
    """A chart with its title."""

    title: str
    figure: Figure
    height: int = 260
    """Pixels."""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Charts:
    """Charts side by side if there is room. Those of a page that are over time zoom together."""

    charts: Sequence[Chart]


@dataclass(frozen=True, slots=True)
class Key:
    """A colour and its meaning, once for several charts."""

    entries: Sequence[tuple[str, str]]
    """Pairs of a colour, such as `var(--series-1)`, and a label."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A value in a table, with a tone."""

    text: str
    tone: Tone = ""


@dataclass(frozen=True, slots=True)
class Column:
    """A table's column."""

    title: str
    kind: Literal["text", "number", "short", "wide"] = "text"
    """Numbers are right-aligned; a short column is never broken, a wide one takes most room."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Table:
    """A table; becomes one card per row on a phone."""

    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    empty: str
    """The sentence that stands there without rows."""


@dataclass(frozen=True, slots=True)
class Prose:
    """A paragraph."""

    text: str
    tone: Tone = ""


Block = Tiles | Charts | Key | Table | Prose


@dataclass(frozen=True, kw_only=True, slots=True)
class Section:
    """A part of a page under a heading."""

    title: str
    """Empty for the first one, which stands right under the page's title."""
    blocks: Sequence[Block]


def render_page(title: str, sections: Sequence[Section], *, subtitle: str = "") -> str:
    """Return a self-contained HTML page."""
    charts = any(isinstance(block, Charts) for section in sections for block in section.blocks)
    return (
        _environment()
        .get_template("page.html.j2")
        .render(
            title=title,
            subtitle=subtitle,
            sections=sections,
            plotly=_plotly_script() if charts else None,
        )
    )


def _plotly_script() -> Markup:
    """Return Plotly's own script, about 4.8 MB."""
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
    environment.filters["json_script"] = _to_json_script
    environment.filters["block_kind"] = lambda block: type(block).__name__
    return environment


def _to_json_script(figure: Figure) -> Markup:
    """Return JSON that is safe inside a `<script>` element.

    Raises:
        ValueError: The figure holds NaN or infinity, which JSON does not have.
    """
    text = json.dumps(figure, allow_nan=False, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c"))


LOGARITHMIC: Mapping[str, Json] = {
    "type": "log",
    "dtick": "D2",
    "tickformat": "~g",
    "rangemode": "normal",
}
"""An axis with ticks at 1, 2 and 5 of each decade, rather than powers or bare digits."""


def figure_layout(
    *,
    unit: str,
    shapes: Sequence[Json] = (),
    xaxis: Mapping[str, Json] | None = None,
    yaxis: Mapping[str, Json] | None = None,
) -> dict[str, Json]:
    """Return the layout that every chart of Weir shares, its axes with these settings besides."""
    axis: dict[str, Json] = {
        "gridcolor": "var(--grid)",
        "linecolor": "var(--line)",
        "zeroline": False,
        "automargin": True,
        "tickfont": {"size": 12},
    }
    return {
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"color": "var(--quiet)", "family": "system-ui, sans-serif", "size": 12},
        "margin": {"l": 44, "r": 14, "t": 30, "b": 30},
        "showlegend": False,
        "hovermode": "x unified",
        "uirevision": "kept",  # a redraw in other colours keeps the zoom
        "hoverlabel": {
            "bgcolor": "var(--card)",
            "bordercolor": "var(--line)",
            "font": {"color": "var(--ink)"},
        },
        "xaxis": {**axis, "showgrid": False, "showline": True, "nticks": 6, "tickangle": 0}
        | dict(xaxis or {}),
        "yaxis": {**axis, "rangemode": "tozero", "fixedrange": True} | dict(yaxis or {}),
        "annotations": [
            {
                "text": unit,
                "xref": "paper",
                "yref": "paper",
                "x": 0,
                "y": 1,
                "xanchor": "left",
                "yanchor": "bottom",
                "yshift": 6,
                "showarrow": False,
            }
        ],
        "shapes": list(shapes),
    }
