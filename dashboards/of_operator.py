"""One operator: what was observed, what had been predicted, what was weighed, what it may use."""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard as build

from dashboards.frame import APP, changes, fill, frame, one_app, one_operator
from dashboards.panels import (
    GREEN,
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
)

OPERATOR = f'{APP}, operator="$operator"'
WHY = (
    "`weir explain` shows, for each decision of `$operator`, its reason, "
    "every candidate with its prediction, and the measurement of the next "
    "interval."
)


def make() -> build.Dashboard:
    """Return the dashboard."""
    page = frame(
        "weir-operator", "Weir / Operator", "One operator of a StreamApp, and its decisions."
    )
    for variable in (*one_app(), one_operator()):
        page.with_variable(variable)
    page.annotation(changes())
    rows = {"": _now(), "Observed against predicted": _observed(), "Decisions": _decided()}
    return fill(page, rows)


def _now() -> tuple[Panel, ...]:
    response, budget = (
        _one("weir_operator_response_time_seconds"),
        _one("weir_operator_budget_seconds"),
    )
    return (
        number(
            "Share of the budget used",
            "Measured mean response time as a share of the operator's budget; a source has none.",
            Query(f"{response} / {budget}"),
            unit=SHARE,
            steps=((None, GREEN), (0.8, YELLOW), (1, RED)),
            span=12,
        ),
        number(
            "Latency budget",
            "Response time that the Application Manager grants the operator.",
            Query(budget),
            unit=SECONDS,
            span=12,
        ),
    )


def _observed() -> tuple[Panel, ...]:
    return (
        lines(
            "Response time",
            "Mean, waiting plus service. A prediction is for the next interval: "
            "lines that stay apart mean that the model no longer fits.",
            Query(_one("weir_operator_response_time_seconds"), "observed"),
            Query(_one("weir_predicted_response_time_seconds"), "predicted"),
            Query(_one("weir_operator_budget_seconds"), "budget"),
            unit=SECONDS,
            limits=("budget",),
        ),
        lines(
            "Utilisation",
            "Busy share of the busiest replica, and the prediction of the last decision.",
            Query(_one("weir_operator_utilisation_ratio"), "observed"),
            Query(_one("weir_predicted_utilisation_ratio"), "predicted"),
            unit=SHARE,
        ),
        lines(
            "Share of the fullest replica",
            "Part of the operator's records. Where keys are even, it is one part in as many as "
            "there are replicas. No number of replicas parts the heaviest key group.",
            Query(_one("weir_operator_fullest_share_ratio"), "fullest replica"),
            Query(_one("weir_operator_heaviest_key_group_ratio"), "heaviest key group"),
            unit=SHARE,
        ),
        lines(
            "Arrivals",
            "Records that reach the operator.",
            Query(_one("weir_arrivals_per_second"), "arrivals"),
            unit=PER_SECOND,
        ),
        lines(
            "Waiting records",
            "Records that wait before the operator; after a source, including those "
            "that wait at the source.",
            Query(_one("weir_operator_waiting_records"), "waiting"),
        ),
        lines(
            "Replicas by node type",
            "TaskManagers by node pool and size.",
            Query(f"max by (node_type) (weir_replicas{{{OPERATOR}}})", "{{node_type}}"),
            stacked=True,
        ),
    )


def _decided() -> tuple[Panel, ...]:
    return (
        note("Reasons", WHY, height=3),
        lines(
            "Candidates' scores",
            "Lower is better; compare only scores of the same moment. If `chosen` "
            "and `stay` are one line, it was best to change nothing; the distance to "
            "`rival` shows how clear the choice was.",
            Query(f"max by (candidate) (weir_decision_score{{{OPERATOR}}})", "{{candidate}}"),
        ),
        lines(
            "Urgency",
            "From a half on, the objective needs the change; below, it saves money.",
            Query(_one("weir_decision_urgency_ratio"), "urgency"),
            unit=SHARE,
            steps=((None, "transparent"), (0.5, YELLOW)),
        ),
        bars(
            "Decisions",
            "The kind of change that the targets need, and whether the Application "
            "Manager granted it.",
            Query(
                f"sum by (kind, granted) (increase(weir_decisions_total{{{OPERATOR}}}"
                "[$__rate_interval]))",
                "{{kind}}, granted: {{granted}}",
            ),
        ),
    )


def _one(metric: str) -> str:
    """Return the operator's one value, whichever controller showed it."""
    return f"max({metric}{{{OPERATOR}}})"
