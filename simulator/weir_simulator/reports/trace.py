"""Arrival traces as an HTML page: their charts and their statistics."""

from __future__ import annotations

from collections.abc import Mapping

from weir_simulator.reports import wording
from weir_simulator.reports.page import (
    SERIES,
    Block,
    Cell,
    Chart,
    Charts,
    Column,
    Json,
    Prose,
    Section,
    Table,
    Tile,
    Tiles,
    figure_layout,
    render_page,
)
from weir_simulator.traces import Trace, describe

_POINTS = 2000
"""Most points of a line: more than the pixels of a screen."""


def render_trace_page(name: str, trace: Trace) -> str:
    """Return a page on a trace.

    A trace too long to draw slot by slot is drawn as the mean of equal groups of slots, between
    the lowest and the highest slot of each.
    """
    statistics = describe(trace)
    blocks: list[Block] = [
        Tiles(
            [
                Tile(label="Slots", value=f"{statistics.slots:,}"),
                Tile(
                    label="Mean",
                    value=wording.rate(statistics.mean),
                    note=f"records/s; deviation {wording.rate(statistics.standard_deviation)}",
                ),
                Tile(
                    label="Lowest / highest",
                    value=f"{wording.rate(statistics.minimum)} / "
                    f"{wording.rate(statistics.maximum)}",
                    note="records/s",
                ),
                Tile(
                    label="Mean step",
                    value=wording.rate(statistics.mean_step),
                    note="records/s from slot to slot",
                ),
                Tile(label="Empty slots", value=wording.share(statistics.zero_share)),
            ]
        ),
        Charts([Chart(title="Arrival rate", figure=_figure(trace), height=380)]),
    ]
    group = _group(trace)
    if group > 1:
        blocks.append(
            Prose(f"The line is the mean of {group} slots each, the band their range.", "quiet")
        )
    return render_page(name, [Section(title="", blocks=blocks)], subtitle="Arrival trace")


def render_traces_page(traces: Mapping[str, Trace]) -> str:
    """Return a page with several traces side by side, by name."""
    charts = [
        Chart(
            title=name,
            figure=_figure(trace),
            note=f"line: mean of {_group(trace)} slots; band: range" if _group(trace) > 1 else "",
        )
        for name, trace in traces.items()
    ]
    blocks: list[Block] = [Charts(charts), _statistics(traces)]
    return render_page(
        "Arrival traces", [Section(title="", blocks=blocks)], subtitle="Rates in records/s"
    )


def _statistics(traces: Mapping[str, Trace]) -> Table:
    described = {name: describe(trace) for name, trace in traces.items()}
    titles = ("Slots", "Mean", "Deviation", "Lowest", "Highest", "Mean step", "Empty slots")
    return Table(
        columns=[Column("Trace"), *(Column(title, "number") for title in titles)],
        rows=[
            [
                Cell(name),
                Cell(f"{it.slots:,}"),
                *(
                    Cell(wording.rate(rate))
                    for rate in (
                        it.mean,
                        it.standard_deviation,
                        it.minimum,
                        it.maximum,
                        it.mean_step,
                    )
                ),
                Cell(wording.share(it.zero_share)),
            ]
            for name, it in described.items()
        ],
        empty="There is no trace.",
    )


def _group(trace: Trace) -> int:
    """Return how many slots a point of the line covers."""
    return -(-trace.size // _POINTS)


def _figure(trace: Trace) -> dict[str, Json]:
    group = _group(trace)
    whole = trace[: trace.size // group * group].reshape(-1, group)
    slots = [number * group for number in range(len(whole))]

    def line(values: Trace, *, name: str, width: float) -> dict[str, Json]:
        return {
            "type": "scatter",
            "mode": "lines",
            "name": name,
            "x": slots,
            "y": values.round(3).tolist(),
            "line": {"color": SERIES[0], "width": width},
            "hovertemplate": "%{y:,.1f} records/s",
        }

    lines = [line(whole.mean(axis=1), name="Mean" if group > 1 else "Rate", width=1.5)]
    if group > 1:
        highest = line(whole.max(axis=1), name="Highest", width=0)
        highest |= {"fill": "tonexty", "fillcolor": "var(--band)"}
        lines = [line(whole.min(axis=1), name="Lowest", width=0), highest, *lines]
    layout = figure_layout(unit="records/s, by slot")
    return {"data": lines, "layout": layout}
