"""The charts of a tuning, as Plotly figures: how the search went, and what its points were worth.

Points that kept the constraints are drawn full, others as a cross; a short simulation is drawn
small, because it says less.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate

from weir_operator.faces import tuning_words
from weir_operator.faces.page import Figure, Json
from weir_operator.faces.run_charts import SERIES, figure_layout
from weir_simulator.tuning.order import Evaluation, TuningOrder, TuningResult

KEPT, BROKEN, BEST = SERIES[0], "var(--bound)", "var(--good)"
KEY = (
    (KEPT, "kept the constraints"),
    (BROKEN, "did not; or the limit itself"),
    (BEST, "the best so far, and the one chosen"),
)
_FULL, _SHORT = 10, 6
"""Pixels of a full simulation's mark, and of a short one's."""


def convergence(result: TuningResult) -> Figure:
    """Return the price per hour of every point, and of the best so far, over simulated slots."""
    used = list(accumulate(each.slots for each in result.evaluations))
    best: list[float | None] = []
    for count in range(1, len(used) + 1):
        found = tuning_words.best_of(result.evaluations[:count])
        best.append(None if found is None else round(found.money, 6))
    line: dict[str, Json] = {
        "type": "scatter",
        "mode": "lines",
        "name": "best so far",
        "x": used,
        "y": best,
        "line": {"color": BEST, "width": 2, "shape": "hv"},
        "hovertemplate": "%{y:.3f} the best so far<extra></extra>",
    }
    points = _points(result.evaluations, used)
    layout = _layout("price per hour, by simulated slots", xaxis={"tickformat": "~s"})
    return {"data": [*points, line], "layout": layout}


def price_against_violations(order: TuningOrder, result: TuningResult) -> Figure:
    """Return what each point pays against how often it misses the bound, with the limit."""
    places = [100 * each.violations for each in result.evaluations]
    limit = 100 * order.constraints.max_violations
    return _trade(
        result, places, 100 * result.prediction.violations.mean, limit,
        unit="price per hour, by % of slots that miss", suffix=" %",
    )  # fmt: skip


def price_against_restarts(order: TuningOrder, result: TuningResult) -> Figure:
    """Return what each point pays against how often it restarts the job, with the limit."""
    per_day = tuning_words.restarts_per_day(order, 1.0)
    places = [per_day * each.reconfigurations for each in result.evaluations]
    limit = per_day * order.constraints.max_reconfigurations
    return _trade(
        result, places, per_day * result.prediction.reconfigurations.mean, limit,
        unit="price per hour, by restarts a day", suffix="",
    )  # fmt: skip


def budgets(result: TuningResult) -> Figure:
    """Return the latency budget of each operator, before and tuned, ms."""
    names = list(reversed(result.best.budgets))  # Plotly draws the first at the foot
    bars: list[Json] = [
        {
            "type": "bar",
            "orientation": "h",
            "name": name,
            "y": names,
            "x": [round(1000 * point.budgets[each], 3) for each in names],
            "marker": {"color": colour},
            "hovertemplate": "%{x:.4g} ms " + name + "<extra></extra>",
        }
        for name, point, colour in (
            ("tuned", result.best, BEST),
            ("before", result.incumbent, "var(--series-8)"),
        )
    ]
    layout = _layout("budget, ms", xaxis={"showgrid": True}, yaxis={"showgrid": False})
    return {"data": bars, "layout": {**layout, "barmode": "group", "bargap": 0.35}}


def _trade(
    result: TuningResult,
    places: Sequence[float],
    chosen: float,
    limit: float,
    *,
    unit: str,
    suffix: str,
) -> Figure:
    best: dict[str, Json] = {
        "type": "scatter",
        "mode": "markers",
        "name": "chosen",
        "x": [chosen],
        "y": [result.prediction.money.mean],
        "marker": {"color": BEST, "symbol": "star", "size": 15},
        "hovertemplate": "%{x:.2f}" + suffix + ", price %{y:.3f}, on other seeds<extra></extra>",
    }
    line: dict[str, Json] = {
        "type": "line",
        "yref": "paper",
        "x0": limit,
        "x1": limit,
        "y0": 0,
        "y1": 1,
        "line": {"color": BROKEN, "width": 1.5, "dash": "dash"},
    }
    axis: dict[str, Json] = {"showgrid": True, "rangemode": "tozero", "ticksuffix": suffix}
    layout = _layout(unit, xaxis=axis, shapes=[line])
    return {"data": [*_points(result.evaluations, places), best], "layout": layout}


def _points(evaluations: Sequence[Evaluation], places: Sequence[float]) -> list[Json]:
    """Return the points that kept the constraints and those that did not."""
    drawn: list[Json] = []
    for name, feasible, colour, symbol in (
        ("kept", True, KEPT, "circle"),
        ("not kept", False, BROKEN, "x"),
    ):
        chosen = [
            (place, each)
            for place, each in zip(places, evaluations, strict=True)
            if each.feasible is feasible
        ]
        drawn.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": name,
                "x": [round(place, 6) for place, _ in chosen],
                "y": [round(each.money, 6) for _, each in chosen],
                "text": [f"{each.number + 1}, {each.origin}" for _, each in chosen],
                "marker": {
                    "color": colour,
                    "symbol": symbol,
                    "size": [_FULL if each.fidelity == 1.0 else _SHORT for _, each in chosen],
                    "opacity": 0.8,
                },
                "hovertemplate": "%{text}: price %{y:.3f}<extra></extra>",
            }
        )
    return drawn


def _layout(
    unit: str,
    *,
    xaxis: Mapping[str, Json],
    yaxis: Mapping[str, Json] | None = None,
    shapes: Sequence[Json] = (),
) -> dict[str, Json]:
    layout: dict[str, Json] = {**figure_layout(unit=unit, shapes=shapes), "hovermode": "closest"}
    # From the least price, not from zero: what is read off is a difference.
    for name, more in (("xaxis", xaxis), ("yaxis", yaxis or {"rangemode": "normal"})):
        axis = layout[name]
        if not isinstance(axis, Mapping):
            raise TypeError(f"Expected a part of a layout, got {axis!r}")
        layout[name] = {**axis, **more}
    return layout
