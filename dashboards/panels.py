"""The few kinds of panels that Weir's dashboards are made of.

Each panel must say what it shows and in which unit; whether it shows anything is tested against a
real Prometheus. Queries ask the data source that the reader chose: no dashboard knows one by name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from grafana_foundation_sdk.builders import bargauge, common, prometheus, stat, statetimeline, table
from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.builders import text as words
from grafana_foundation_sdk.builders import timeseries as series
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models import common as look
from grafana_foundation_sdk.models import dashboard as model
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

Panel = Builder[model.Panel]
_QueryPanel = TypeVar(
    "_QueryPanel", series.Panel, stat.Panel, statetimeline.Panel, bargauge.Panel, table.Panel
)

SOURCE = look.DataSourceRef(type_val="prometheus", uid="${datasource}")

COUNT = "none"
SECONDS = "s"
SHARE = "percentunit"
BYTES = "bytes"
PER_SECOND = "suffix:/s"
PER_HOUR = "suffix:/h"
"""Cost: the currency is that of the node pools' prices, which Weir does not know."""

GREEN, YELLOW, RED, BLUE, GREY = "green", "yellow", "red", "blue", "text"
Steps = Sequence[tuple[float | None, str]]
"""From which value on which colour; the first begins at `None`, minus infinity."""
CALM: Steps = ((None, GREEN),)
PLAIN: Steps = ((None, GREY),)


@dataclass(frozen=True, slots=True)
class Query:
    """One PromQL expression and how its series are called."""

    expression: str
    legend: str = ""


def lines(
    title: str,
    about: str,
    *queries: Query,
    unit: str = COUNT,
    span: int = 8,
    stacked: bool = False,
    limits: Sequence[str] = (),
    steps: Steps | None = None,
) -> series.Panel:
    """Return values over time.

    Args:
        title: Heading.
        about: What is shown and how to read it.
        queries: What is asked.
        unit: Grafana's id of the unit.
        span: Width; 24 is the whole page.
        stacked: Whether the values are parts of a whole.
        limits: Legends of series that bound others: drawn as dashed red lines.
        steps: Values from which on the background has a colour.
    """
    targets = [_over_time(query, place) for place, query in enumerate(queries)]
    panel = (
        _set_common_options(series.Panel(), title, about, targets, unit=unit, span=span, height=8)
        .min(0)
        .line_width(1 if stacked else 2)
        .fill_opacity(30 if stacked else 5)
        .show_points(look.VisibilityMode.NEVER)
        .color_scheme(build.FieldColor().mode(model.FieldColorModeId.PALETTE_CLASSIC))
        .legend(
            common.VizLegendOptions()
            .show_legend(True)
            .display_mode(look.LegendDisplayMode.TABLE)
            .placement(look.LegendPlacement.BOTTOM)
            .calcs(["lastNotNull", "max"])
        )
        .tooltip(
            common.VizTooltipOptions()
            .mode(look.TooltipDisplayMode.MULTI)
            .sort(look.SortOrder.DESCENDING)
        )
    )
    if stacked:
        panel.stacking(common.StackingConfig().mode(look.StackingMode.NORMAL).group("A"))
    if steps is not None:
        panel.thresholds(_thresholds(steps)).thresholds_style(
            common.GraphThresholdsStyleConfig().mode(look.GraphThresholdsStyleMode.DASHED)
        )
    for legend in limits:
        panel.override_by_name(
            legend,
            [
                model.DynamicConfigValue("color", {"mode": "fixed", "fixedColor": RED}),
                model.DynamicConfigValue("custom.lineStyle", {"fill": "dash", "dash": [10, 6]}),
                model.DynamicConfigValue("custom.fillOpacity", 0),
            ],
        )
    return panel


def bars(title: str, about: str, *queries: Query, unit: str = COUNT, span: int = 8) -> series.Panel:
    """Return how much of something fell into each step of time, stacked."""
    return (
        lines(title, about, *queries, unit=unit, span=span, stacked=True)
        .draw_style(look.GraphDrawStyle.BARS)
        .fill_opacity(80)
        .decimals(1)
    )


def number(
    title: str,
    about: str,
    query: Query,
    *,
    unit: str = COUNT,
    steps: Steps = PLAIN,
    span: int = 4,
    missing: str = "unknown",
) -> stat.Panel:
    """Return one number as it is now; `missing` stands where there is none."""
    return (
        _set_common_options(
            stat.Panel(), title, about, [_now(query, 0)], unit=unit, span=span, height=4
        )
        .no_value(missing)
        .thresholds(_thresholds(steps))
        .color_scheme(build.FieldColor().mode(model.FieldColorModeId.THRESHOLDS))
        .graph_mode(look.BigValueGraphMode.NONE)
        .reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]))
    )


def states(
    title: str, about: str, query: Query, *, names: Mapping[int, tuple[str, str]]
) -> statetimeline.Panel:
    """Return states over time; `names` says what each value is called, and in which colour."""
    mapped = {
        str(value): model.ValueMappingResult(text=text, color=colour, index=place)
        for place, (value, (text, colour)) in enumerate(names.items())
    }
    return (
        _set_common_options(
            statetimeline.Panel(), title, about, [_over_time(query, 0)], span=24, height=8
        )
        .mappings([model.ValueMap(options=mapped)])
        .show_value(look.VisibilityMode.NEVER)
        .merge_values(True)
        .row_height(0.8)
    )


def ranking(title: str, about: str, query: Query, *, span: int = 8) -> bargauge.Panel:
    """Return how often each of several things was so in the range that is shown."""
    return (
        _set_common_options(bargauge.Panel(), title, about, [_now(query, 0)], span=span, height=8)
        .no_value("none")
        .display_mode(look.BarGaugeDisplayMode.BASIC)
        .reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]))
        .orientation(look.VizOrientation.HORIZONTAL)
        .thresholds(_thresholds(((None, BLUE),)))
        .color_scheme(build.FieldColor().mode(model.FieldColorModeId.THRESHOLDS))
    )


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table: a value for each row's labels."""

    name: str
    expression: str
    unit: str = COUNT
    steps: Steps | None = None
    """`None` does not colour it."""


def overview(
    title: str,
    about: str,
    *columns: Column,
    labels: Mapping[str, str],
    link: tuple[str, str, str],
) -> table.Panel:
    """Return a table with a row for each combination of labels.

    Args:
        title: Heading.
        about: What is shown.
        columns: Values; each expression must have exactly these labels.
        labels: Label by the heading of its column, in order.
        link: Heading of the column that leads somewhere, what it says, and the address.
    """
    headings = {label: heading for heading, label in labels.items()}
    headings |= {f"Value #{_letter(place)}": each.name for place, each in enumerate(columns)}
    targets = [
        _now(Query(each.expression), place).format(PromQueryFormat.TABLE)
        for place, each in enumerate(columns)
    ]
    panel = (
        _set_common_options(table.Panel(), title, about, targets, span=24, height=10)
        .with_transformation(model.DataTransformerConfig("merge", options={}))
        .with_transformation(
            model.DataTransformerConfig(
                "organize",
                options={
                    "excludeByName": {"Time": True},
                    "indexByName": {name: place for place, name in enumerate(headings)},
                    "renameByName": headings,
                },
            )
        )
    )
    for each in columns:
        properties = [model.DynamicConfigValue("unit", each.unit)]
        if each.steps is not None:
            properties += [
                model.DynamicConfigValue("thresholds", _thresholds(each.steps).build()),
                model.DynamicConfigValue("custom.cellOptions", {"type": "color-text"}),
            ]
        panel.override_by_name(each.name, properties)
    heading, says, address = link
    target = [{"title": says, "url": address}]
    return panel.override_by_name(heading, [model.DynamicConfigValue("links", target)])


def note(title: str, markdown: str, *, height: int = 4) -> words.Panel:
    """Return words."""
    return (
        words.Panel()
        .title(title)
        .description("Information that numbers cannot show.")
        .content(markdown)
        .span(24)
        .height(height)
    )


def _set_common_options(
    panel: _QueryPanel,
    title: str,
    about: str,
    targets: Sequence[prometheus.Dataquery],
    *,
    unit: str = COUNT,
    span: int,
    height: int,
) -> _QueryPanel:
    """Set what all panels with queries have, and return the panel."""
    panel.title(title).description(about).datasource(SOURCE).targets([*targets])
    panel.unit(unit).span(span).height(height)
    return panel


def _over_time(query: Query, place: int) -> prometheus.Dataquery:
    return _asked(query, place).range()


def _now(query: Query, place: int) -> prometheus.Dataquery:
    return _asked(query, place).instant()


def _asked(query: Query, place: int) -> prometheus.Dataquery:
    return (
        prometheus.Dataquery()
        .ref_id(_letter(place))
        .datasource(SOURCE)
        .expr(query.expression)
        .legend_format(query.legend)
    )


def _letter(place: int) -> str:
    return "ABCDEFGHIJ"[place]


def _thresholds(steps: Steps) -> build.ThresholdsConfig:
    return (
        build.ThresholdsConfig()
        .mode(model.ThresholdsMode.ABSOLUTE)
        .steps([model.Threshold(value=value, color=colour) for value, colour in steps])
    )
