"""Weir itself: is a controller active, does it keep up, what does it use."""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard as build

from dashboards.frame import fill, frame
from dashboards.panels import (
    BYTES,
    GREEN,
    PER_SECOND,
    RED,
    SECONDS,
    YELLOW,
    Panel,
    Query,
    bars,
    lines,
    number,
    ranking,
)


def make() -> build.Dashboard:
    """Return the dashboard."""
    page = frame(
        "weir-controller", "Weir / Controller", "The health and resource usage of Weir itself."
    )
    rows = {"": _now(), "Work": _work(), "Resource usage": _uses()}
    return fill(page, rows)


def _now() -> tuple[Panel, ...]:
    return (
        number(
            "Active controllers",
            "One for each installation; others stand by. Without them, jobs keep running.",
            Query("sum(weir_leader)"),
            steps=((None, RED), (1, GREEN)),
        ),
        number(
            "Standing by",
            "Controllers that can take over.",
            Query("count(weir_leader) - sum(weir_leader)"),
        ),
        number(
            "StreamApps",
            "StreamApps that the active controllers manage.",
            Query("sum(weir_apps)"),
        ),
        number(
            "Oldest check",
            "Time since the last check of the StreamApp that has waited longest. "
            "Weir checks each one every 30 s.",
            Query("max(weir_reconcile_age_seconds)"),
            unit=SECONDS,
            steps=((None, GREEN), (60, YELLOW), (150, RED)),
            missing="no StreamApp",
        ),
        number(
            "Watch",
            "Time since the watch last showed the canary's change.",
            Query("min(weir_watch_age_seconds)"),
            unit=SECONDS,
            steps=((None, GREEN), (120, YELLOW), (180, RED)),
        ),
        number(
            "Versions",
            "Versions of Weir that are running; more than one only during an upgrade.",
            Query("count(count by (version) (weir_build_info))"),
            steps=((None, GREEN), (2, YELLOW)),
        ),
    )


def _work() -> tuple[Panel, ...]:
    lag = "sum by (le) (rate(weir_tick_lag_seconds_bucket[$__rate_interval]))"
    return (
        lines(
            "Tick delay",
            "Delay with which control intervals begin. A delay of seconds means that "
            "the controller has too little CPU.",
            Query(f"histogram_quantile(0.5, {lag})", "median"),
            Query(f"histogram_quantile(0.99, {lag})", "99th percentile"),
            unit=SECONDS,
        ),
        lines(
            "Standstill",
            "Longest time within a minute or two in which a single step, or a lack of CPU, "
            "kept all StreamApps waiting.",
            Query("max by (pod) (weir_event_loop_lag_seconds)", "{{pod}}"),
            unit=SECONDS,
            steps=((None, "transparent"), (1, RED)),
        ),
        lines(
            "Age of the last check",
            "The ten StreamApps that have waited longest.",
            Query(
                "topk(10, max by (namespace, app) (weir_reconcile_age_seconds))",
                "{{namespace}}/{{app}}",
            ),
            unit=SECONDS,
            steps=((None, "transparent"), (150, RED)),
        ),
        lines(
            "Requests",
            "Status writes, reported events, and decisions per second.",
            Query("sum(rate(weir_status_writes_total[$__rate_interval]))", "status writes"),
            Query("sum(rate(weir_events_total[$__rate_interval]))", "events"),
            Query("sum(rate(weir_decisions_total[$__rate_interval]))", "decisions"),
            unit=PER_SECOND,
        ),
        bars(
            "Changes by outcome",
            "Completed changes of all StreamApps.",
            Query(
                "sum by (outcome) (increase(weir_rescales_total[$__rate_interval]))", "{{outcome}}"
            ),
        ),
        lines(
            "Duration of changes",
            "From the decision to the end of the change, by kind; mean since the "
            "controllers started.",
            Query(
                "sum by (kind) (weir_rescale_duration_seconds_sum)"
                " / sum by (kind) (weir_rescale_duration_seconds_count)",
                "{{kind}}",
            ),
            unit=SECONDS,
        ),
        ranking(
            "Errors",
            "Loops that ended in an error since the controller started: `defect` is "
            "a defect in Weir, `elsewhere` means that another installation manages "
            "the StreamApp.",
            Query("sum by (kind) (weir_reconcile_errors_total)", "{{kind}}"),
            span=12,
        ),
        ranking(
            "Measurement problems",
            "Found since the controller started, by kind; Weir decides nothing in "
            "such an interval.",
            Query("sum by (problem) (weir_data_quality_problems_total)", "{{problem}}"),
            span=12,
        ),
    )


def _uses() -> tuple[Panel, ...]:
    return (
        lines(
            "CPU",
            "Processor seconds per second, by controller.",
            Query("rate(weir_process_cpu_seconds_total[$__rate_interval])", "{{instance}}"),
        ),
        lines(
            "Memory",
            "Resident memory, by controller.",
            Query("weir_process_resident_memory_bytes", "{{instance}}"),
            unit=BYTES,
        ),
        lines(
            "Open files",
            "Open files and sockets, and their limit.",
            Query("weir_process_open_fds", "{{instance}}"),
            Query("min(weir_process_max_fds)", "most"),
            limits=("most",),
        ),
    )
