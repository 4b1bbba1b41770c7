"""What all dashboards share: how they are found, how they lead to each other, what may be chosen.

A reader who goes from one dashboard to another keeps the range of time and what was chosen. An
address names a dashboard by its `uid`, which therefore never changes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.models import dashboard as model

from dashboards.panels import SOURCE, Panel

TAG = "weir"
ABOVE = ""
"""Place of links and switches: in sight. The library's default hides them in a menu."""
APP = 'namespace="$namespace", app="$app"'
"""Selects the StreamApp that was chosen."""
LOOKED_AFTER = "weir_reconcile_age_seconds"
"""There is one series of it for each StreamApp that an active controller looks after."""


def frame(uid: str, title: str, about: str) -> build.Dashboard:
    """Return an empty dashboard of the family."""
    return (
        build.Dashboard(title)
        .uid(uid)
        .description(about)
        .tags([TAG])
        .timezone("browser")
        .time("now-6h", "now")
        .refresh("30s")
        .tooltip(model.DashboardCursorSync.CROSSHAIR)
        .readonly()
        .link(
            build.DashboardLink("Weir")
            .type(model.DashboardLinkType.DASHBOARDS)
            .tags([TAG])
            .include_vars(True)
            .keep_time(True)
            .placement(ABOVE)
        )
        .with_variable(
            build.DatasourceVariable("datasource")
            .label("Data source")
            .description("Prometheus server that scrapes Weir")
            .type("prometheus")
        )
    )


def fill(page: build.Dashboard, rows: Mapping[str, Sequence[Panel]]) -> build.Dashboard:
    """Return the dashboard with these panels; a row without a heading comes first."""
    for heading, panels in rows.items():
        if heading:
            page.with_row(build.Row(heading))
        for panel in panels:
            page.with_panel(panel)
    return page


def any_namespace() -> build.QueryVariable:
    """Return the choice of some namespaces, or all."""
    return (
        _choice("namespace", "Namespace", f"label_values({LOOKED_AFTER}, namespace)")
        .multi(True)
        .include_all(True)
        .all_value(".*")
        .current(model.VariableOption(text="All", value="$__all"))
    )


def one_app() -> tuple[build.QueryVariable, build.QueryVariable]:
    """Return the choice of one StreamApp: its namespace, its name."""
    return (
        _choice("namespace", "Namespace", f"label_values({LOOKED_AFTER}, namespace)"),
        _choice("app", "StreamApp", f'label_values({LOOKED_AFTER}{{namespace="$namespace"}}, app)'),
    )


def one_operator() -> build.QueryVariable:
    """Return the choice of one operator of the StreamApp."""
    query = f"label_values(weir_arrivals_per_second{{{APP}}}, operator)"
    return _choice("operator", "Operator", query)


def changes() -> build.AnnotationQuery:
    """Return marks at the ends of changes, where they were: the value is the time."""
    return (
        build.AnnotationQuery()
        .name("Changes")
        .datasource(SOURCE)
        .enable(True)
        .icon_color("purple")
        .expr(f"1000 * max by (kind, outcome) (weir_last_change_timestamp_seconds{{{APP}}})")
        .use_value_for_time(True)
        .title_format("{{kind}}")
        .text_format("{{outcome}}")
        .tag_keys("kind,outcome")
        .placement(ABOVE)
    )


def _choice(name: str, label: str, query: str) -> build.QueryVariable:
    return (
        build.QueryVariable(name)
        .label(label)
        .datasource(SOURCE)
        .query({"query": query, "refId": name})
        .definition(query)
        .refresh(model.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(model.VariableSort.ALPHABETICAL_ASC)
    )
