"""Weir's own metrics at `/metrics`; docs/metrics.md explains each.

Labels identify the StreamApp, names include the unit. Series go when their StreamApp does.

Memory is the container's, from its cgroup: at the limit, the kernel ends the process. File pages
that the kernel can reclaim do not count. Values of operators that are unknown are left out.

The sentence of a decision is not a metric: its numbers would create a series for each decision.
`weir explain` shows the sentences; the metrics here show when to ask for them.
"""

from __future__ import annotations

import asyncio
import math
import platform
import shutil
from collections.abc import Collection, Container, Iterable, Mapping
from importlib.metadata import version
from pathlib import Path

import structlog
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from weir_operator.api.objects import Key
from weir_operator.clock import Clock
from weir_operator.loop.directives import LoopSettings
from weir_operator.loop.record import DecisionRecord
from weir_operator.loop.tick import Tick
from weir_operator.rescale.journal import Kind, RescaleJournal, Step, gap_of
from weir_operator.streamapp.status import StreamAppStatus
from weir_policies.distribution import DISTRIBUTION
from weir_policies.model.cost import kind_of_change

CGROUP = Path("/sys/fs/cgroup")
"""Where a container has its own."""

_UNBOUNDED = 2**60
"""Bytes; version 1 writes so large a number where there is no limit."""


class ContainerMemory(Collector):
    """Shows both numbers as they are when somebody asks; NaN where they are not known."""

    def collect(self) -> Iterable[Metric]:
        """Return use and limit now."""
        used, limit = measure_memory(CGROUP)
        return (
            GaugeMetricFamily("weir_memory_bytes", "Memory in use, without the page cache.", used),
            GaugeMetricFamily("weir_memory_limit_bytes", "Memory limit.", limit),
        )


def measure_memory(cgroup: Path) -> tuple[float, float]:
    """Return memory in use and its limit, bytes: of version 2, else of version 1, else NaN."""
    for folder, current, limit, prefix in (
        (cgroup, "memory.current", "memory.max", ""),
        (cgroup / "memory", "memory.usage_in_bytes", "memory.limit_in_bytes", "total_"),
    ):
        try:
            used = float((folder / current).read_text())
            maximum = (folder / limit).read_text().strip()
            lines = (folder / "memory.stat").read_text().splitlines()
            stat = {key: float(value) for key, value in map(str.split, lines)}
            files = stat[f"{prefix}active_file"] + stat[f"{prefix}inactive_file"]
        except (OSError, KeyError, ValueError):
            continue  # of the other version, or no cgroup at all
        bounded = maximum != "max" and float(maximum) < _UNBOUNDED
        return used - files, float(maximum) if bounded else math.nan
    return math.nan, math.nan


MEASURED = (
    ("weir_arrivals_per_second", "Records that arrive per second."),
    ("weir_operator_response_time_seconds", "Measured, mean."),
    ("weir_operator_budget_seconds", "Latency budget."),
    ("weir_operator_utilisation_ratio", "Busy share of the busiest replica."),
    ("weir_operator_waiting_records", "Records that wait before the operator."),
)
KEYS = (
    ("weir_operator_fullest_share_ratio", "Part of the records that the fullest replica gets."),
    ("weir_operator_heaviest_key_group", "Key group with the most records."),
    ("weir_operator_heaviest_key_group_ratio", "Part of the records of that key group."),
)
PREDICTED = (
    ("weir_predicted_response_time_seconds", "Mean response time that the last decision predicts."),
    ("weir_predicted_utilisation_ratio", "Busy share of the busiest replica that it predicts."),
    ("weir_decision_urgency_ratio", "How urgently the operator needs the change."),
)
SCORE = ("weir_decision_score", "Scores of the last decision, lower is better.")
CANDIDATES = ("chosen", "stay", "rival")


_DURATIONS = (0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800)
_GAPS = (0.25, 0.5, 0.75, 1, 1.5, 2, 3, 5, 10, 30, 60, 300)
_LAGS = (0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 1, 1.25, 1.5, 2, 3, 5, 15, 60)

FAILURES = ("temporary", "permanent", "job", "defect", "deletion", "elsewhere")
"""Kinds of errors that end a run of a StreamApp's loops, or a try of its deletion."""
FINAL_SAVEPOINTS = ("Done", "Failed")
"""What comes of the last savepoint of a StreamApp that is deleted."""


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

        def counter_of_apps(name: str, text: str, *labels: str) -> AppSeries:
            return AppSeries(CounterMetricFamily, name, text, labels)

        def gauge_of_apps(name: str, text: str, *labels: str) -> AppSeries:
            return AppSeries(GaugeMetricFamily, name, text, labels)

        def histogram(name: str, text: str, buckets: tuple[float, ...], *labels: str) -> Histogram:
            return Histogram(name, text, labels, buckets=buckets, registry=self.registry)

        self.decisions = counter_of_apps(
            "weir_decisions_total", "Decisions of operators.", "operator", "kind", "granted"
        )
        self.rescales = counter_of_apps(
            "weir_rescales_total", "Completed changes.", "kind", "outcome"
        )
        self.last_change = gauge_of_apps(
            "weir_last_change_timestamp_seconds",
            "End of the last change of a kind and an outcome.",
            "kind",
            "outcome",
        )
        self.restarts_left = gauge_of_apps(
            "weir_restarts_left", "Restarts that the restart budget allows now."
        )
        self.rescale_duration = histogram(
            "weir_rescale_duration_seconds",
            "Time from the decision to the end of the change.",
            _DURATIONS,
            *APP,
            "kind",
        )
        self.rescale_gap = histogram(
            "weir_rescale_gap_seconds",
            "Time from the stop of the job until it runs again.",
            _GAPS,
            *APP,
        )
        self.intervals = counter_of_apps(
            "weir_intervals_total", "Control intervals that met or exceeded the bound."
        )
        self.violations = counter_of_apps(
            "weir_violations_total",
            "Control intervals whose response time exceeded the bound.",
        )
        self.cost = gauge_of_apps(
            "weir_cost_per_hour", "Cost of the deployment, currency per hour."
        )
        self.response = gauge_of_apps(
            "weir_response_time_seconds", "Response time, source to sink.", "statistic"
        )
        self.objective = gauge_of_apps(
            "weir_objective_seconds", "Bound on the response time.", "statistic"
        )
        self.allowed = gauge_of_apps(
            "weir_violations_allowed_ratio",
            "Share of control intervals that may exceed the bound.",
        )
        self.replicas = gauge_of_apps("weir_replicas", "Replicas applied.", "operator", "node_type")
        self.healthy = gauge_of_apps(
            "weir_data_quality_healthy", "Whether the metrics can be trusted."
        )
        self.problems = counter_of_apps(
            "weir_data_quality_problems_total", "Problems found in measurements.", "problem"
        )
        self.conditions = gauge_of_apps("weir_condition", "Conditions: 1 true, 0 false.", "type")
        self.job_running = gauge_of_apps(
            "weir_job_running", "Whether the job runs: 0 if it should run and does not."
        )
        self.reconcile_age = gauge_of_apps(
            "weir_reconcile_age_seconds", "Seconds since the last check of the StreamApp."
        )
        self.errors = counter_of_apps(
            "weir_reconcile_errors_total", "Reconciliations that ended in an error.", "kind"
        )
        self.tick_lag = histogram(
            "weir_tick_lag_seconds", "Delay with which control intervals begin.", _LAGS
        )
        self.status_writes = counter_of_apps("weir_status_writes_total", "Writes of a status.")
        self.events = counter_of_apps(
            "weir_events_total", "Events reported for a StreamApp.", "reason"
        )
        self.task_failures = counter(
            "weir_background_task_failures_total", "Failures of background tasks.", "task"
        )
        self.apps = gauge("weir_apps", "StreamApps that this controller manages.")
        self.leader = gauge("weir_leader", "Whether this process is the active controller.")
        self.lease_transitions = gauge(
            "weir_lease_transitions", "How often the holder of the Lease has changed."
        )
        self.state_size = gauge("weir_state_volume_bytes", "Size of the state volume.")
        self.state_free = gauge("weir_state_volume_free_bytes", "Free space on the state volume.")
        for unknown in (self.lease_transitions, self.state_size, self.state_free):
            unknown.set(math.nan)
        self.final_savepoints = counter(
            "weir_final_savepoints_total", "Deleted StreamApps that had state to keep.", "outcome"
        )
        for outcome in FINAL_SAVEPOINTS:
            self.final_savepoints.labels(outcome)
        self.watch_age = gauge(
            "weir_watch_age_seconds",
            "Age of the last change of the canary that the watch has shown.",
        )
        self.loop_lag = gauge(
            "weir_event_loop_lag_seconds",
            "Longest time within the last one or two minutes in which nothing else could run.",
        )
        self.watch_refused = gauge(
            "weir_watch_refused",
            "Whether the API server refuses a watched namespace.",
            "namespace",
        )
        self.measured = [gauge_of_apps(*each, "operator") for each in MEASURED]
        self.keys = [gauge_of_apps(*each, "operator") for each in KEYS]
        self.predicted = [gauge_of_apps(*each, "operator") for each in PREDICTED]
        self.scores = gauge_of_apps(*SCORE, "operator", "candidate")
        ProcessCollector(namespace="weir", registry=self.registry)
        self.registry.register(ContainerMemory())
        build = gauge("weir_build_info", "Always 1.", "version", "python", "kopf")
        build.labels(version(DISTRIBUTION), platform.python_version(), version("kopf")).set(1)
        self._of_operators = (
            *self.measured,
            *self.keys,
            *self.predicted,
            self.scores,
            self.decisions,
        )
        apart = [each for each in vars(self).values() if isinstance(each, AppSeries)]
        self._of_apps = (*self.measured, *self.keys, *self.predicted, *apart)
        for each in self._of_apps:
            self.registry.register(each)
        self._histograms_of_apps = (self.rescale_duration, self.rescale_gap)

    def show_ages(self, ages: Mapping[Key, float]) -> None:
        """Show the seconds since the last pass of each StreamApp."""
        self.reconcile_age.replace_all({key: {(): age} for key, age in ages.items()})

    def count_task_failure(self, task: str) -> None:
        """Count a failure of one of the controller's background tasks."""
        self.task_failures.labels(task).inc()

    def show_refused(self, watched: Collection[str], refused: Collection[str]) -> None:
        """Show which of the watched namespaces the API server refuses."""
        for namespace in watched:
            self.watch_refused.labels(namespace).set(namespace in refused)

    def note_tick(self, key: Key, tick: Tick, settings: LoopSettings, *, cost: float) -> None:
        """Count one control interval."""
        if tick.violated is not None:
            self.intervals.add(key)
            self.violations.add(key, amount=int(tick.violated))
        self.cost.set(key, cost)
        statistic = settings.objective.statistic
        self.response.set(key, tick.snapshot.response(statistic), statistic.word)
        self.objective.set(key, settings.objective.response_time, statistic.word)
        self.allowed.set(key, settings.max_violations)
        self.restarts_left.set(key, tick.restarts_left)
        self.healthy.set(key, tick.snapshot.healthy and tick.snapshot.app is not None)
        for problem in tick.snapshot.problems:
            self.problems.add(key, str(problem.kind))
        self._note_operators(key, tick)
        # The owner of a job names its operators, perhaps differently at each tick.
        self.replicas.replace(
            key,
            {
                (name, node_type): count
                for name, counts in tick.deployments.items()
                for node_type, count in counts.items()
            },
        )

    def _note_operators(self, key: Key, tick: Tick) -> None:
        for each in self._of_operators:
            each.keep(key, tick.deployments)
        measured = tick.snapshot.app.operators if tick.snapshot.app else {}
        for name in tick.deployments:
            found = measured.get(name)
            busy = [each for each in found.utilisation if not math.isnan(each)] if found else []
            values = (
                found.arrival_rate if found else math.nan,
                found.response_time if found else math.nan,
                tick.budgets.get(name, math.nan),
                max(busy, default=math.nan),
                found.queue_records if found else math.nan,
            )
            for series, value in zip(self.measured, values, strict=True):
                series.show(key, value, name)
            known = tick.keys.get(name)
            shares = (math.nan,) * 3
            if known is not None:
                shares = (known.fullest, float(known.heaviest), known.heaviest_share)
            for series, value in zip(self.keys, shares, strict=True):
                series.show(key, value, name)

    def show_stopped(self, key: Key, *, cost: float) -> None:
        """Show that a job has no replicas: it was suspended, or has finished.

        Args:
            key: The StreamApp.
            cost: Currency per hour that is left to pay, for its JobManager.
        """
        for labels in [*self.replicas.of(key)]:
            self.replicas.set(key, 0, *labels)
        self.cost.set(key, cost)

    def note_decision(self, key: Key, record: DecisionRecord) -> None:
        """Count one decision of one operator, and show its scores."""
        name, seen, decision = record.operator, record.observation, record.decision
        kind = kind_of_change(seen.deployment, decision.target, seen.model.node_types)
        granted = "true" if record.change is not None else "false"
        self.decisions.add(key, name, kind.name, granted)
        expected = decision.expectation
        predicted = (expected.response_time, expected.utilisation, decision.urgency)
        for series, value in zip(self.predicted, predicted, strict=True):
            series.show(key, value, name)
        scores = {each.deployment: each.score for each in decision.candidates}
        rivals = [score for deployment, score in scores.items() if deployment != decision.target]
        shown = (
            scores.get(decision.target, math.nan),
            scores.get(seen.deployment, math.nan),
            min(rivals, default=math.nan),
        )
        for candidate, value in zip(CANDIDATES, shown, strict=True):
            self.scores.show(key, value, name, candidate)

    def note_change(self, key: Key, change: RescaleJournal) -> None:
        """Count a change that has ended; one under way is not counted yet."""
        if not change.step.is_end:
            return
        app = (key.namespace, key.name)
        ended = max(change.times.values(), default=change.created)
        self.rescales.add(key, str(change.kind), str(change.step))
        self.last_change.set(key, ended, str(change.kind), str(change.step))
        self.rescale_duration.labels(*app, str(change.kind)).observe(ended - change.created)
        gap = gap_of(change)
        if gap is not None and change.kind in (Kind.RESCALE, Kind.RECOVER, Kind.UPGRADE):
            self.rescale_gap.labels(*app).observe(gap)

    def note_status(self, key: Key, status: StreamAppStatus) -> None:
        """Count a status that was written, and show its conditions: NaN where one is unknown."""
        self.status_writes.add(key)
        for outcome in Step:
            if outcome.is_end:  # a counter that begins at 1 has no increase for who asks
                self.rescales.add(key, str(Kind.RESCALE), str(outcome), amount=0)
        for kind in FAILURES:
            self.errors.add(key, kind, amount=0)
        values = {"True": 1.0, "False": 0.0}
        for each in status.conditions:
            value = values.get(each.status, math.nan)
            self.conditions.set(key, value, each.type)

    def forget(self, key: Key) -> None:
        """Take away the series of a StreamApp that is gone."""
        for each in self._of_apps:
            each.forget(key)
        for histogram in self._histograms_of_apps:
            histogram.remove_by_labels({"namespace": key.namespace, "app": key.name})

    def render(self) -> bytes:
        """Return the page."""
        return generate_latest(self.registry)


log = structlog.get_logger()

LOOK_EVERY = 60.0
"""Seconds between two looks."""


LAG_EVERY = 0.25
"""Seconds between two wakings: what holds up the event loop for longer is not missed."""
LAG_ROUNDS = 240
"""Wakings after which the longest delay so far is that of the minute before."""


async def watch_event_loop(telemetry: Telemetry, *, clock: Clock) -> None:
    """Show for ever how late the event loop was: whatever keeps it busy holds up all StreamApps."""
    before = 0.0
    while True:
        longest = 0.0
        for _ in range(LAG_ROUNDS):
            due = clock.monotonic() + LAG_EVERY
            await clock.sleep(LAG_EVERY)
            longest = max(longest, clock.monotonic() - due)
            telemetry.loop_lag.set(max(before, longest))
        before = longest


async def watch_state_volume(folder: Path, telemetry: Telemetry, *, clock: Clock) -> None:
    """Show size and free space for ever; a volume that hangs holds up no reader of metrics."""
    while True:
        size, free = math.nan, math.nan
        try:
            size, free = await asyncio.to_thread(measure_volume, folder)
        except OSError as error:
            log.warning("the state's volume cannot be looked at", failure=str(error))
        telemetry.state_size.set(size)
        telemetry.state_free.set(free)
        await clock.sleep(LOOK_EVERY)


def measure_volume(folder: Path) -> tuple[int, int]:
    """Return size and free space, bytes, of the volume of `folder`, which need not exist yet.

    Raises:
        OSError: It cannot be read.
    """
    there = next(each for each in (folder, *folder.parents) if each.exists())
    usage = shutil.disk_usage(there)
    return usage.total, usage.free


APP = ("namespace", "app")
"""Labels that all series of StreamApps have."""


class AppSeries(Collector):
    """All series of one name, by StreamApp and further labels."""

    def __init__(
        self,
        family: type[CounterMetricFamily | GaugeMetricFamily],
        name: str,
        text: str,
        labels: tuple[str, ...] = (),
    ) -> None:
        """Create it without series.

        Args:
            family: Prometheus' type: `CounterMetricFamily` or `GaugeMetricFamily`.
            name: As it stands on the page.
            text: What it says.
            labels: Names of the labels besides those of the StreamApp.
        """
        self._family = family
        self._name = name
        self._text = text
        self._labels = (*APP, *labels)
        self._values: dict[Key, dict[tuple[str, ...], float]] = {}

    def set(self, key: Key, value: float, *labels: str) -> None:
        """Set the value of a series."""
        self._values.setdefault(key, {})[labels] = float(value)

    def add(self, key: Key, *labels: str, amount: float = 1.0) -> None:
        """Count, from 0 where there is no such series yet."""
        values = self._values.setdefault(key, {})
        values[labels] = values.get(labels, 0.0) + amount

    def replace(self, key: Key, values: Mapping[tuple[str, ...], float]) -> None:
        """Set all series of a StreamApp by their further labels; it has no others any more."""
        self._values[key] = dict(values)

    def replace_all(self, values: Mapping[Key, dict[tuple[str, ...], float]]) -> None:
        """Set all series of all StreamApps; others have none any more."""
        self._values = dict(values)

    def show(self, key: Key, value: float, *labels: str) -> None:
        """Set the value of a series, or remove it where the value is unknown."""
        if math.isnan(value):
            self._values.get(key, {}).pop(labels, None)
        else:
            self.set(key, value, *labels)

    def keep(self, key: Key, firsts: Container[str]) -> None:
        """Keep of a StreamApp the series whose first further label is one of these."""
        there = self._values.get(key, {})
        self.replace(key, {labels: value for labels, value in there.items() if labels[0] in firsts})

    def of(self, key: Key) -> Mapping[tuple[str, ...], float]:
        """Return the values of a StreamApp by their further labels."""
        return self._values.get(key, {})

    def forget(self, key: Key) -> None:
        """Remove the series of a StreamApp that is gone."""
        self._values.pop(key, None)

    def collect(self) -> Iterable[Metric]:
        """Return all series as they are now."""
        found = self._family(self._name, self._text, labels=self._labels)
        # Copies: the page is written in another thread than the one that counts.
        for key, values in [*self._values.items()]:
            for labels, value in [*values.items()]:
                found.add_metric((key.namespace, key.name, *labels), value)
        return (found,)
