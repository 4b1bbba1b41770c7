"""The charts of a frontier, as Plotly figures: price over the bound, and over the share of misses.

Lines are stairs: what keeps a bound keeps every looser one, so a price holds until the next bound
that was asked about. The last world is drawn whole; one before it, for comparison, is dotted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from weir_operator.faces import wording
from weir_operator.faces.page import Figure, Json
from weir_operator.faces.run_charts import SERIES, figure_layout
from weir_simulator.frontier import Frontier, Point

Key = Sequence[tuple[str, str]]


def key_of_shares(found: Frontier) -> Key:
    """Return the colours of `price_by_bound`."""
    return [
        (_colour(place), f"missed in at most {share:g} %")
        for place, share in enumerate(found.order.allowed)
    ]


def key_of_bounds(found: Frontier) -> Key:
    """Return the colours of `price_by_share`."""
    return [
        (_colour(place), f"at most {wording.seconds(bound)}")
        for place, bound in enumerate(found.order.bounds)
    ]


def price_by_bound(worlds: Mapping[str, Frontier]) -> Figure:
    """Return the price per hour over the response-time bound, a line per allowed share."""
    lines: list[Json] = []
    for world, found in worlds.items():
        for place, share in enumerate(found.order.allowed):
            points = [found.at(bound, share) for bound in found.order.bounds]
            lines.append(
                _line(
                    points,
                    [1000 * point.bound for point in points],
                    name=f"{share:g} %, {world}" if len(worlds) > 1 else f"{share:g} %",
                    colour=_colour(place),
                    dotted=world != list(worlds)[-1],
                )
            )
    return {"data": lines, "layout": _layout("price per hour, by bound in ms", "")}


def price_by_share(worlds: Mapping[str, Frontier]) -> Figure:
    """Return the price per hour over the allowed share of misses, a line per bound."""
    lines: list[Json] = []
    for world, found in worlds.items():
        for place, bound in enumerate(found.order.bounds):
            points = [found.at(bound, share) for share in found.order.allowed]
            words = wording.seconds(bound)
            lines.append(
                _line(
                    points,
                    [point.allowed for point in points],
                    name=f"{words}, {world}" if len(worlds) > 1 else words,
                    colour=_colour(place),
                    dotted=world != list(worlds)[-1],
                )
            )
    return {"data": lines, "layout": _layout("price per hour, by % of slots that may miss", " %")}


def _line(
    points: Sequence[Point], places: Sequence[float], *, name: str, colour: str, dotted: bool
) -> dict[str, Json]:
    """Return a stair with intervals; it begins where the objective is kept for the first time."""
    prices = [None if point.chosen is None else point.chosen.price for point in points]
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": name,
        "x": list(places),
        "y": [None if price is None else round(price.mean, 6) for price in prices],
        "line": {
            "color": colour, "width": 1.5 if dotted else 2, "shape": "hv",
            "dash": "dot" if dotted else "solid",
        },
        "marker": {"color": colour, "size": 5 if dotted else 7},
        "error_y": {
            "type": "data",
            "array": [None if price is None else price.half_width for price in prices],
            "color": colour,
            "thickness": 1,
            "width": 3,
        },
        "hovertemplate": "%{y:.3f}",
    }  # fmt: skip


def _colour(place: int) -> str:
    return SERIES[place % len(SERIES)]


def _layout(unit: str, suffix: str) -> dict[str, Json]:
    layout = figure_layout(unit=unit)
    for name, more in (
        ("xaxis", {"ticksuffix": suffix, "rangemode": "tozero"}),
        # From the least price, not from zero: what is read off is a difference.
        ("yaxis", {"rangemode": "normal"}),
    ):
        axis = layout[name]
        if not isinstance(axis, Mapping):
            raise TypeError(f"Expected a part of a layout, got {axis!r}")
        layout[name] = {**axis, **more}
    return layout
