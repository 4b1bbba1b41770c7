"""Weir's own metrics, as `/metrics` shows them: what each means stands in docs/metrics.md.

Identity is in labels, units are in names. The series of a StreamApp that is gone are taken away.
"""

from __future__ import annotations

import math
import platform
from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import version

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from weir_operator.cluster.container_memory import ContainerMemory
from weir_operator.cluster.objects import Key
from weir_operator.cluster.operator_series import OperatorSeries
from weir_operator.controller.recording import gap_of
from weir_operator.controller.records import DecisionRecord
from weir_operator.controller.settings import LoopSettings
from weir_operator.controller.tick import Tick
from weir_operator.rescale.journal import Kind, RescaleJournal, Step
from weir_operator.streamapp.status import StreamAppStatus
from weir_policies.model.cost import kind_of_change

APP = ("namespace", "app")
_DURATIONS = (0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800)
_GAPS = (0.25, 0.5, 0.75, 1, 1.5, 2, 3, 5, 10, 30, 60, 300)
_LAGS = (0.01, 0.05, 0.1, 0.25, 0.5, 1, 2, 5, 15, 60)

FAILURES = ("temporary", "permanent", "job", "defect", "deletion", "elsewhere")
"""Kinds of errors that end a life of a StreamApp's loops, or a try of its deletion."""
FINAL_SAVEPOINTS = ("Done", "Failed")
"""What comes of the last savepoint of a StreamApp that is deleted."""

Ages = Callable[[], Mapping[Key, float]]
"""Seconds since the last pass, by StreamApp."""


class Telemetry:
    """Everything that this process counts."""

    def __init__(self) -> None:
        # A second series per counter, which nobody asks for.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(name, text, labels, registry=self.registry)

        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return Gauge(name, text, labels, registry=self.registry)

        def histogram(name: str, text: str, buckets: tuple[float, ...], *labels: str) -> Histogram:
            return Histogram(name, text, labels, buckets=buckets, registry=self.registry)

        self.decisions = counter(
            "weir_decisions_total", "Decisions of operators.", *APP, "operator", "kind", "granted"
        )
        self.rescales = counter(
            "weir_rescales_total", "Changes that have ended.", *APP, "kind", "outcome"
        )
        self.last_change = gauge(
            "weir_last_change_timestamp_seconds",
            "When the last change of a kind and an outcome ended.",
            *(*APP, "kind", "outcome"),
        )
        self.restarts_left = gauge(
            "weir_restarts_left", "Restarts that the budget allows now.", *APP
        )
        self.rescale_duration = histogram(
            "weir_rescale_duration_seconds", "From decision to end.", _DURATIONS, *APP, "kind"
        )
        self.rescale_gap = histogram(
            "weir_rescale_gap_seconds", "From the stopped job to the running one.", _GAPS, *APP
        )
        self.intervals = counter("weir_intervals_total", "Control intervals judged.", *APP)
        self.violations = counter(
            "weir_violations_total", "Control intervals whose response time broke the bound.", *APP
        )
        self.cost = gauge("weir_cost_per_hour", "Cost of the deployment, currency per hour.", *APP)
        self.response = gauge(
            "weir_response_time_seconds", "Response time, source to sink.", *APP, "statistic"
        )
        self.objective = gauge(
            "weir_objective_seconds", "Bound on the response time.", *APP, "statistic"
        )
        self.allowed = gauge(
            "weir_violations_allowed_ratio", "Share of control intervals that may break it.", *APP
        )
        self.replicas = gauge("weir_replicas", "Replicas applied.", *APP, "operator", "node_type")
        self.healthy = gauge(
            "weir_data_quality_healthy", "Whether the metrics can be trusted.", *APP
        )
        self.problems = counter(
            "weir_data_quality_problems_total", "Problems found in measurements.", *APP, "problem"
        )
        self.conditions = gauge("weir_condition", "Conditions: 1 true, 0 false.", *APP, "type")
        self.job_running = gauge(
            "weir_job_running", "Whether the job runs: 0 where it is to run and does not.", *APP
        )
        self.errors = counter(
            "weir_reconcile_errors_total", "Passes that ended in an error.", *APP, "kind"
        )
        self.tick_lag = histogram(
            "weir_tick_lag_seconds", "How late control intervals began.", _LAGS
        )
        self.status_writes = counter("weir_status_writes_total", "Writes of a status.", *APP)
        self.events = counter("weir_events_total", "Facts told of StreamApps.", *APP, "reason")
        self.task_failures = counter(
            "weir_background_task_failures_total", "Failures of background tasks.", "task"
        )
        self.apps = gauge("weir_apps", "StreamApps that this controller looks after.")
        self.leader = gauge("weir_leader", "Whether this process is the active controller.")
        self.lease_transitions = gauge(
            "weir_lease_transitions", "How often the Lease has changed its holder, as it says."
        )
        self.state_size = gauge("weir_state_volume_bytes", "Size of the state's volume.")
        self.state_free = gauge("weir_state_volume_free_bytes", "Free space of that volume.")
        for unknown in (self.lease_transitions, self.state_size, self.state_free):
            unknown.set(math.nan)
        self.final_savepoints = counter(
            "weir_final_savepoints_total", "StreamApps deleted that had state to keep.", "outcome"
        )
        for outcome in FINAL_SAVEPOINTS:
            self.final_savepoints.labels(outcome)
        self.watch_age = gauge(
            "weir_watch_age_seconds", "Age of the last change of the canary that the watch showed."
        )
        self.operators = OperatorSeries()
        self.registry.register(self.operators)
        ProcessCollector(namespace="weir", registry=self.registry)
        self.registry.register(ContainerMemory())
        build = gauge("weir_build_info", "Always 1.", "version", "python", "kopf")
        build.labels(version("weir"), platform.python_version(), version("kopf")).set(1)
        self._of_apps = [
            each
            for each in vars(self).values()
            if isinstance(each, (Counter, Gauge, Histogram)) and each._labelnames[:2] == APP
        ]
        self._shown: dict[Key, set[tuple[str, str]]] = {}

    def show_ages(self, ages: Ages) -> None:
        """Show the age of the last pass of each StreamApp, as it is when somebody asks."""
        self.registry.register(_Ages(ages))

    def count_task_failure(self, task: str) -> None:
        """Count a failure of one of the controller's background tasks."""
        self.task_failures.labels(task).inc()

    def see_tick(self, key: Key, tick: Tick, settings: LoopSettings, *, cost: float) -> None:
        """Count one control interval.

        Args:
            key: The StreamApp.
            tick: What it saw and decided.
            settings: What its objective is.
            cost: Currency per hour.
        """
        app = (key.namespace, key.name)
        if tick.violated is not None:
            self.intervals.labels(*app).inc()
            self.violations.labels(*app).inc(int(tick.violated))
        self.cost.labels(*app).set(cost)
        statistic = settings.statistic
        self.response.labels(*app, statistic).set(tick.sight.response(statistic))
        self.objective.labels(*app, statistic).set(settings.bound)
        self.allowed.labels(*app).set(settings.max_violations)
        self.restarts_left.labels(*app).set(tick.restarts_left)
        self.healthy.labels(*app).set(tick.sight.healthy and tick.sight.app is not None)
        for problem in tick.sight.problems:
            self.problems.labels(*app, str(problem.kind)).inc()
        self.operators.see_tick(key, tick)
        shown = set()
        for name, counts in tick.deployments.items():
            for node_type, count in counts.items():
                self.replicas.labels(*app, name, node_type).set(count)
                shown.add((name, node_type))
        for name, node_type in self._shown.get(key, set()) - shown:
            self.replicas.labels(*app, name, node_type).set(0)
        self._shown[key] = self._shown.get(key, set()) | shown

    def see_state_volume(self, usage: tuple[int, int] | None) -> None:
        """Show size and free space of the state's volume, bytes; `None` where nobody knows."""
        size, free = (math.nan, math.nan) if usage is None else usage
        self.state_size.set(size)
        self.state_free.set(free)

    def see_standstill(self, key: Key, *, cost: float) -> None:
        """Show that a job has no replicas: it was suspended, or has come to its end.

        Args:
            key: The StreamApp.
            cost: Currency per hour that is left to pay, for its JobManager.
        """
        for name, node_type in self._shown.get(key, set()):
            self.replicas.labels(key.namespace, key.name, name, node_type).set(0)
        self.cost.labels(key.namespace, key.name).set(cost)

    def see_job(self, key: Key, *, runs: float) -> None:
        """Show whether a job runs: 1, 0, or NaN where it is not to run or nobody knows."""
        self.job_running.labels(key.namespace, key.name).set(runs)

    def see_decision(self, key: Key, record: DecisionRecord) -> None:
        """Count one decision of one operator, and show what it weighed."""
        seen = record.observation
        kind = kind_of_change(seen.deployment, record.decision.target, seen.model.node_types)
        granted = "true" if record.change is not None else "false"
        self.decisions.labels(key.namespace, key.name, record.operator, kind.name, granted).inc()
        self.operators.see_decision(key, record)

    def see_change(self, key: Key, change: RescaleJournal) -> None:
        """Count a change that has ended; one under way is not counted yet."""
        if not change.step.is_end:
            return
        app = (key.namespace, key.name)
        ended = max(change.times.values(), default=change.created)
        self.rescales.labels(*app, str(change.kind), str(change.step)).inc()
        self.last_change.labels(*app, str(change.kind), str(change.step)).set(ended)
        self.rescale_duration.labels(*app, str(change.kind)).observe(ended - change.created)
        gap = gap_of(change)
        if gap is not None and change.kind in (Kind.RESCALE, Kind.RECOVER, Kind.UPGRADE):
            self.rescale_gap.labels(*app).observe(gap)

    def see_status(self, key: Key, status: StreamAppStatus) -> None:
        """Count a status that was written, and show its conditions: NaN where one is unknown."""
        self.status_writes.labels(key.namespace, key.name).inc()
        for outcome in Step:
            if outcome.is_end:  # a counter that begins at 1 has no increase for who asks
                self.rescales.labels(key.namespace, key.name, str(Kind.RESCALE), str(outcome))
        for kind in FAILURES:
            self.errors.labels(key.namespace, key.name, kind)
        values = {"True": 1.0, "False": 0.0}
        for each in status.conditions:
            value = values.get(each.status, math.nan)
            self.conditions.labels(key.namespace, key.name, each.type).set(value)

    def forget(self, key: Key) -> None:
        """Take away the series of a StreamApp that is gone."""
        self._shown.pop(key, None)
        self.operators.forget(key)
        for each in self._of_apps:
            each.remove_by_labels({"namespace": key.namespace, "app": key.name})

    def render(self) -> bytes:
        """Return the page."""
        return generate_latest(self.registry)


class _Ages(Collector):
    def __init__(self, ages: Ages) -> None:
        self._ages = ages

    def collect(self) -> Iterable[Metric]:
        """Return the ages now."""
        family = GaugeMetricFamily(
            "weir_reconcile_age_seconds", "Seconds since the last pass.", labels=APP
        )
        for key, age in self._ages().items():
            family.add_metric((key.namespace, key.name), age)
        return (family,)
