"""Samples of a foreign job, as Weir's measuring reads them: from Prometheus, else from Flink.

A stock job's series have Flink's own labels and none of Weir's. What tells its replicas apart is
the vertex and the subtask, so `relabel` writes the replica's id in the place of the TaskManager's,
and everything behind it (rates, arrivals, the gate) works as for Weir's own jobs. Labels that name
the machine are left out: a subtask that failed over goes on as the same replica.

What a stock job does not tell: the variance of service times, and the age of records at the sink.
The one is assumed; for the other Flink's latency markers are read where they are switched on
(`metrics.latency.interval`), and else the response time is only forecast.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from weir_operator.clock import Clock
from weir_operator.cluster.adopted_sampler import PERIOD, FlinkSampler
from weir_operator.cluster.adopted_view import AdoptedJob
from weir_operator.cluster.adopted_watch import JobWatch
from weir_operator.metrics import names
from weir_operator.metrics.seam import MetricsSource, Series, Window

PrometheusFor = Callable[[Mapping[str, str]], MetricsSource]
"""Makes a Prometheus source for the series that have this one label."""

_KEPT_LABELS = frozenset(
    {
        "job_id",
        "task_id",
        "task_attempt_id",
        "task_attempt_num",
        "subtask_index",
        "operator_id",
        "operator_subtask_index",
        "source_id",
        "quantile",
        "le",
    }
)


class AdoptedMetrics:
    """A `MetricsSource` over one foreign job; follows it from run to run."""

    def __init__(
        self,
        *,
        watch: JobWatch,
        prometheus: PrometheusFor | None,
        clock: Clock,
        period: float = PERIOD,
    ) -> None:
        """Prepare; nothing is asked yet.

        Args:
            watch: Knows the job as it runs now.
            prometheus: Where the job's reporters are scraped; `None` asks Flink alone.
            clock: The controller's.
            period: Seconds between two rounds of questions to Flink.
        """
        self._watch = watch
        self._prometheus = prometheus
        self._asked: MetricsSource | None = None
        self._asked_of: str | None = None
        self._flink = FlinkSampler(watch, clock=clock, period=period)

    def start(self) -> None:
        """Begin to ask Flink, where there is no Prometheus; needs a running event loop."""
        if self._prometheus is None:
            self._flink.start()

    async def window(self, *, start: float, end: float) -> Window:
        """Return the samples of [start, end].

        Raises:
            TemporaryError: Prometheus did not answer.
        """
        job = self._watch.job
        if job is None:
            return Window(start=start, end=end, series=())
        if self._prometheus is not None:
            asked = await self._prometheus_of(job.id, self._prometheus)
            found = await asked.window(start=start, end=end)
            window = relabel(_leave_out_foreign(found, self._watch.namespace), job)
            if any("task_id" in series.labels for series in window.series):
                return window
            # Nobody scrapes this job's reporters, or it has none: Flink itself tells enough.
            self._flink.start()
        return self._flink.window(start=start, end=end)

    async def close(self) -> None:
        """Stop asking."""
        await self._flink.close()
        if self._asked is not None:
            await self._asked.close()
        self._asked = self._asked_of = None

    async def _prometheus_of(self, job_id: str, make: PrometheusFor) -> MetricsSource:
        if self._asked is None or self._asked_of != job_id:
            if self._asked is not None:
                await self._asked.close()
            self._asked, self._asked_of = make({"job_id": job_id}), job_id
        return self._asked


def _leave_out_foreign(window: Window, namespace: str) -> Window:
    """Return the series without those of other namespaces, whose pods may claim any job."""
    return replace(
        window,
        series=tuple(
            each for each in window.series if each.labels.get("namespace", namespace) == namespace
        ),
    )


def relabel(window: Window, job: AdoptedJob) -> Window:
    """Return a job's series with the replica's id where the TaskManager's was."""
    return Window(
        start=window.start,
        end=window.end,
        series=tuple(
            each for each in (_relabelled(series, job) for series in window.series) if each
        ),
    )


def _relabelled(series: Series, job: AdoptedJob) -> Series | None:
    """Return the series as its replica's or the job's; `None` where it is neither's."""
    labels = {name: value for name, value in series.labels.items() if name in _KEPT_LABELS}
    if series.name.startswith(names.JOB):
        return Series(name=series.name, labels=labels, times=series.times, values=series.values)
    if not {"task_id", "subtask_index"} <= labels.keys():
        return None  # of a whole TaskManager, which several replicas share
    replica = job.replica_at(labels["task_id"], labels["subtask_index"])
    if replica is None:
        return None
    labels["tm_id"] = names.mangle(replica)
    return Series(name=series.name, labels=labels, times=series.times, values=series.values)
