"""All StreamApps at once: which need a look, what they cost, where their replicas are."""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard as build

from dashboards.frame import any_namespace, fill, frame
from dashboards.panels import (
    CALM,
    GREEN,
    PER_HOUR,
    RED,
    SECONDS,
    SHARE,
    YELLOW,
    Column,
    Panel,
    Query,
    bars,
    lines,
    number,
    overview,
)

CHOSEN = 'namespace=~"$namespace"'
APPS = "by (namespace, app)"
TO_APP = "/d/weir-app?var-datasource=${datasource}&${__url_time_range}" + "".join(
    f"&var-{variable}=${{__data.fields.{heading}}}"
    for variable, heading in (("namespace", "Namespace"), ("app", "StreamApp"))
)


def make() -> build.Dashboard:
    """Return the dashboard."""
    page = frame("weir-fleet", "Weir / Fleet", "Every StreamApp that Weir manages.")
    page.with_variable(any_namespace())
    return fill(page, {"": (*_now(), _table()), "Over time": _over_time()})


def _now() -> tuple[Panel, ...]:
    kept = _of_apps("weir_condition", 'type="ObjectiveMet"')
    ready = _of_apps("weir_condition", 'type="Ready"')
    return (
        number(
            "StreamApps",
            "How many StreamApps the active controllers manage.",
            Query(f"count({_of_apps('weir_reconcile_age_seconds')})"),
        ),
        number(
            "Ready",
            "Share of StreamApps whose job runs as its manifest says.",
            Query(f"avg({ready} == bool 1)"),
            unit=SHARE,
            steps=((None, RED), (0.9, YELLOW), (1, GREEN)),
        ),
        number(
            "Objective met",
            "Share of StreamApps that meet their objective now, of those with a known result.",
            Query(f"avg(({kept} >= 0) == bool 1)"),
            unit=SHARE,
            steps=((None, RED), (0.9, YELLOW), (1, GREEN)),
        ),
        number(
            "Violations",
            "Share of all control intervals in the shown range that exceeded their bound.",
            Query(
                f"sum(increase(weir_violations_total{{{CHOSEN}}}[$__range]))"
                f" / sum(increase(weir_intervals_total{{{CHOSEN}}}[$__range]))"
            ),
            unit=SHARE,
            steps=((None, GREEN), (0.05, YELLOW), (0.2, RED)),
        ),
        number(
            "Cost",
            "Cost of all deployments per hour, in the currency of the pools' prices.",
            Query(f"sum({_of_apps('weir_cost_per_hour')})"),
            unit=PER_HOUR,
        ),
        number(
            "Metrics not trusted",
            "StreamApps that Weir does not scale, because their last measurement "
            "could not be trusted.",
            Query(f"sum(1 - {_of_apps('weir_data_quality_healthy')})"),
            steps=((None, GREEN), (1, YELLOW)),
        ),
    )


def _table() -> Panel:
    share = _share_of_violations("$__range")
    against = f"{_of_apps('weir_response_time_seconds')} / {_of_apps('weir_objective_seconds')}"
    return overview(
        "StreamApps",
        "One row for each StreamApp; its name links to its own dashboard.",
        Column("Bound", _of_apps("weir_objective_seconds"), unit=SECONDS),
        Column("Response time", _of_apps("weir_response_time_seconds"), unit=SECONDS),
        Column(
            "Share of the bound",
            against,
            unit=SHARE,
            steps=((None, GREEN), (0.8, YELLOW), (1, RED)),
        ),
        Column("Violations", share, unit=SHARE, steps=CALM),
        Column("Allowed", _of_apps("weir_violations_allowed_ratio"), unit=SHARE),
        Column("Cost", _of_apps("weir_cost_per_hour"), unit=PER_HOUR),
        Column(
            "Replicas",
            f"sum {APPS} (max by (namespace, app, operator, node_type)"
            f" (weir_replicas{{{CHOSEN}}}))",
        ),
        Column(
            "Restarts left",
            _of_apps("weir_restarts_left"),
            steps=((None, RED), (1, YELLOW), (2, GREEN)),
        ),
        Column(
            "Last pass",
            _of_apps("weir_reconcile_age_seconds"),
            unit=SECONDS,
            steps=((None, GREEN), (60, YELLOW), (150, RED)),
        ),
        labels={"Namespace": "namespace", "StreamApp": "app"},
        link=("StreamApp", "Open the StreamApp", TO_APP),
    )


def _over_time() -> tuple[Panel, ...]:
    pools = (
        "label_replace(max by (namespace, app, operator, node_type)"
        f' (weir_replicas{{{CHOSEN}}}), "pool", "$1", "node_type", "(.+)/.+")'
    )
    return (
        lines(
            "Cost by StreamApp",
            "Currency per hour for all replicas and JobManagers; the ten most expensive.",
            Query(f"topk(10, {_of_apps('weir_cost_per_hour')})", "{{namespace}}/{{app}}"),
            unit=PER_HOUR,
            stacked=True,
            span=12,
        ),
        lines(
            "Replicas by node pool",
            "TaskManagers in each node pool; pools with the same name in several "
            "StreamApps are one line.",
            Query(f"sum by (pool) ({pools})", "{{pool}}"),
            stacked=True,
            span=12,
        ),
        lines(
            "Violations by StreamApp",
            "Share of the last hour's control intervals that exceeded their bound; the ten worst.",
            Query(f"topk(10, {_share_of_violations('1h')})", "{{namespace}}/{{app}}"),
            unit=SHARE,
            steps=((None, "transparent"), (0.05, RED)),
            span=12,
        ),
        bars(
            "Changes",
            "Completed changes of deployments, by outcome.",
            Query(
                f"sum by (outcome) (increase(weir_rescales_total{{{CHOSEN}}}[$__rate_interval]))",
                "{{outcome}}",
            ),
            span=12,
        ),
    )


def _of_apps(metric: str, also: str = "") -> str:
    """Return one value for each StreamApp, whichever controller showed it."""
    return f"max {APPS} ({metric}{{{', '.join(filter(None, (CHOSEN, also)))}}})"


def _share_of_violations(window: str) -> str:
    broken, judged = (
        f"sum {APPS} (increase({metric}{{{CHOSEN}}}[{window}]))"
        for metric in ("weir_violations_total", "weir_intervals_total")
    )
    return f"{broken} / {judged}"
