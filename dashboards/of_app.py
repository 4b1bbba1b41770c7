"""One StreamApp: does it keep its objective, with which replicas, at what cost, and why."""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard as build

from dashboards.frame import APP, changes, fill, frame, one_app
from dashboards.panels import (
    BLUE,
    GREEN,
    GREY,
    PER_HOUR,
    PER_SECOND,
    RED,
    SECONDS,
    SHARE,
    YELLOW,
    Panel,
    Query,
    bars,
    lines,
    note,
    number,
    ranking,
    states,
)

REPLICAS = f"max by (operator, node_type) (weir_replicas{{{APP}}})"
NEWS = f"weir_events_total{{{APP}}}"
WHY = (
    "For the reason of every decision, its candidates and what denied it, "
    "run `weir explain` with the records of `$namespace/$app`. For the last "
    "decision of each operator, run `kubectl -n $namespace describe "
    "streamapp $app`. A mark in the charts is the end of a change. *Weir / "
    "Operator* shows the numbers of a single operator."
)


def make() -> build.Dashboard:
    """Return the dashboard."""
    page = frame("weir-app", "Weir / StreamApp", "One StreamApp, its objective, cost and changes.")
    for variable in one_app():
        page.with_variable(variable)
    page.annotation(changes())
    rows = {"": _now(), "Objective": _objective(), "Deployment": _deployment(), "Why": _why()}
    return fill(page, rows)


def _now() -> tuple[Panel, ...]:
    return (
        number(
            "Response time",
            "Response time of the last interval, in the objective's statistic, as a "
            "share of its bound.",
            Query(f"{_one('weir_response_time_seconds')} / {_one('weir_objective_seconds')}"),
            unit=SHARE,
            steps=((None, GREEN), (0.8, YELLOW), (1, RED)),
        ),
        number(
            "Violations",
            "Share of the control intervals in the shown range that exceeded the bound.",
            Query(_share_of_violations("$__range")),
            unit=SHARE,
            steps=((None, GREEN), (0.05, YELLOW), (0.2, RED)),
        ),
        number(
            "Allowed",
            "Share of the control intervals that may exceed the bound: `objective.maxViolations`.",
            Query(_one("weir_violations_allowed_ratio")),
            unit=SHARE,
        ),
        number(
            "Cost",
            "Cost of all replicas and the JobManager, in the currency of the pools' prices.",
            Query(_one("weir_cost_per_hour")),
            unit=PER_HOUR,
        ),
        number(
            "Replicas",
            "TaskManagers of all operators.",
            Query(f"sum({REPLICAS})"),
        ),
        number(
            "Restarts left",
            "Restarts that the restart budget allows now; at 0, Weir waits for the next token.",
            Query(_one("weir_restarts_left")),
            steps=((None, RED), (1, YELLOW), (2, GREEN)),
        ),
    )


def _objective() -> tuple[Panel, ...]:
    return (
        lines(
            "Response time against the objective",
            "Source to sink, in the objective's statistic; a gap is an interval "
            "without a measurement.",
            Query(f"max by (statistic) (weir_response_time_seconds{{{APP}}})", "{{statistic}}"),
            Query(_one("weir_objective_seconds"), "objective"),
            unit=SECONDS,
            limits=("objective",),
            span=12,
        ),
        lines(
            "Violations against the allowed share",
            "Share of the last hour's control intervals that exceeded the bound.",
            Query(_share_of_violations("1h"), "last hour"),
            Query(_one("weir_violations_allowed_ratio"), "allowed"),
            unit=SHARE,
            limits=("allowed",),
            span=12,
        ),
    )


def _deployment() -> tuple[Panel, ...]:
    pools = f'label_replace({REPLICAS}, "pool", "$1", "node_type", "(.+)/.+")'
    return (
        lines(
            "Replicas by node pool",
            "TaskManagers in each node pool.",
            Query(f"sum by (pool) ({pools})", "{{pool}}"),
            stacked=True,
        ),
        lines(
            "Replicas by operator",
            "TaskManagers of each operator.",
            Query(f"sum by (operator) ({REPLICAS})", "{{operator}}"),
            stacked=True,
        ),
        lines(
            "Cost",
            "Currency per hour.",
            Query(_one("weir_cost_per_hour"), "cost"),
            unit=PER_HOUR,
        ),
        lines(
            "Arrivals",
            "Records that reach each operator, or would reach it if nothing upstream were blocked.",
            Query(f"max by (operator) (weir_arrivals_per_second{{{APP}}})", "{{operator}}"),
            unit=PER_SECOND,
        ),
        lines(
            "Waiting records",
            "Records that wait before each operator; after a source, including those "
            "that wait at the source.",
            Query(f"max by (operator) (weir_operator_waiting_records{{{APP}}})", "{{operator}}"),
        ),
        lines(
            "Utilisation",
            "Busy share of each operator's busiest replica.",
            Query(f"max by (operator) (weir_operator_utilisation_ratio{{{APP}}})", "{{operator}}"),
            unit=SHARE,
            steps=((None, "transparent"), (0.9, RED)),
        ),
    )


def _why() -> tuple[Panel, ...]:
    # A counter that began within the range has no increase: what it holds is all new.
    news = f"{NEWS} - ({NEWS} offset $__range or {NEWS} * 0)"
    return (
        note("Reasons", WHY),
        states(
            "Conditions",
            "The conditions of the status. `Degraded`, `Paused` and `Progressing` should be false "
            "most of the time, the others true.",
            Query(f"max by (type) (weir_condition{{{APP}}})", "{{type}}"),
            names={0: ("false", GREY), 1: ("true", BLUE)},
        ),
        bars(
            "Decisions",
            "The kind of change that the operators' targets need, and whether the "
            "Application Manager granted it.",
            Query(
                f"sum by (kind, granted) (increase(weir_decisions_total{{{APP}}}"
                "[$__rate_interval]))",
                "{{kind}}, granted: {{granted}}",
            ),
        ),
        ranking(
            "Events",
            "How often Weir reported each event in the shown range; the StreamApp's "
            "events have the text.",
            Query(
                f"topk(12, sum by (reason) (clamp_min(max by (reason) ({news}), 0)))",
                "{{reason}}",
            ),
        ),
        lines(
            "Output gap of a restart",
            "Mean seconds from the stop of the job until every task runs again, "
            "since the controller started.",
            Query(
                f"sum(weir_rescale_gap_seconds_sum{{{APP}}})"
                f" / sum(weir_rescale_gap_seconds_count{{{APP}}})",
                "mean gap",
            ),
            unit=SECONDS,
        ),
    )


def _one(metric: str) -> str:
    """Return the StreamApp's one value, whichever controller showed it."""
    return f"max({metric}{{{APP}}})"


def _share_of_violations(window: str) -> str:
    return (
        f"sum(increase(weir_violations_total{{{APP}}}[{window}]))"
        f" / sum(increase(weir_intervals_total{{{APP}}}[{window}]))"
    )
