"""Samples of an external job in the form that Weir measures: from Prometheus, or from Flink.

A job without Weir has Flink's own labels and none of Weir's. Vertex and subtask identify its
replicas, so `relabel` writes a replica's id in the place of the TaskManager's; rates, arrivals and
checks then work as for Weir's own jobs. Labels that name the machine are left out, because a
subtask that failed over is still the same replica.

Such a job does not report the variance of service times or the age of records at the sink. Weir
assumes the variance. For the age, it reads Flink's latency markers if they are on
(`metrics.latency.interval`); otherwise the response time is only a forecast.

Without Prometheus, samples come from Flink's REST interface: every `PERIOD`, Weir asks each vertex
once for the counters of all its subtasks. The JobManager collects them no more often. Its answer
shows how old they are, so each sample gets the time at which it was counted, and rates are exact
although answers are up to 10 s late.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

import structlog

from weir_operator.advise.flink import ExternalFlink, SubtaskCounters
from weir_operator.advise.view import ExternalJob, replica_id
from weir_operator.advise.watch import JobWatch
from weir_operator.clock import Clock
from weir_operator.errors import TemporaryError, WeirError
from weir_operator.limits import LABELS_PER_SERIES, MAX_SERIES
from weir_operator.metrics import names
from weir_operator.metrics.direct import SampleRing
from weir_operator.metrics.source import MetricsSource, Series, Window

log = structlog.get_logger()

PERIOD = 10.0
"""Seconds between two rounds: the JobManager gathers no more often."""
IDS_EVERY = 6
"""Rounds after which the names of metrics are read again."""
SAME = 0.5
"""Seconds within which two stamps are of one gathering, which was reported twice."""
KEEP = 900.0
"""Seconds of samples that are kept."""

_MARKER = re.compile(
    r"(?P<subtask>\d+)\.latency\.(?:source_id\.[^.]+\.)?operator_id\.(?P<operator>[^.]+)"
    r"\.operator_subtask_index\.\d+\.latency_median"
)
_OF_FUNCTION = re.compile(
    r"(?P<subtask>\d+)\.(?P<operator>.+)\.(?P<metric>pendingRecords|numRecordsIn)"
)

_OFFSET = ".currentOffset"
_CLUSTER = ".DynamicKafkaSource.kafkaCluster."
"""Between the name of a function and that of the cluster, where it reads several."""


class FlinkSampler:
    """Asks Flink's REST interface for a job's counters, round by round."""

    def __init__(self, watch: JobWatch, *, clock: Clock, period: float = PERIOD) -> None:
        self._watch = watch
        self._period = period
        self._clock = clock
        self._ring = SampleRing(KEEP, most=MAX_SERIES)
        self._left_out = -math.inf  # when samples were last left out, of series too many
        self._counted: dict[str, float] = {}
        self._extra: dict[str, tuple[_Extra, ...]] = {}
        self._extra_of: tuple[str, ...] = ()
        self._extra_rounds = 0
        self._rounds: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start the rounds; a second call changes nothing."""
        if self._rounds is None:
            self._rounds = asyncio.create_task(self._run(), name="weir-external-metrics")

    def window(self, *, start: float, end: float) -> Window:
        """Return what was counted in [start, end], and what came too late for the last window.

        A sample is gathered every period and asked for every period, so it is late by two at most.
        """
        if self._left_out >= start:
            raise TemporaryError(
                f"Expected at most {MAX_SERIES} series of the job, with labels of "
                f"{LABELS_PER_SERIES} characters on average, got more: run fewer replicas"
            )
        if self._rounds is not None and self._rounds.done():
            self._rounds.result()  # a fault in the asking itself must not look like silence
        return self._ring.window(start - 2 * self._period, end)

    async def close(self) -> None:
        """End the rounds."""
        rounds, self._rounds = self._rounds, None
        if rounds is not None:
            rounds.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await rounds

    async def sample(self) -> None:
        """Ask once for every vertex of the job.

        Raises:
            WeirError: Flink did not answer, or does not know the job any more.
        """
        job, flink = self._watch.job, self._watch.flink
        if job is None or flink is None:
            return
        # A rescale makes other subtasks; a latency marker has its metric once it has come.
        run = (job.id, *(replica.id for replica in job.replicas))
        self._extra_rounds += 1
        if self._extra_of != run or self._extra_rounds >= IDS_EVERY:
            self._extra = {
                vertex: tuple(
                    islice(_extras(await flink.metric_ids(job.id, vertex), is_source), MAX_SERIES)
                )
                for vertex, is_source in _vertices(job)
            }
            if self._extra_of != run:
                self._counted = {}
            self._extra_of, self._extra_rounds = run, 0
        for name, vertices in job.topology.vertices.items():
            for vertex in vertices:
                await self._sample_vertex(flink, job.id, name, vertex.id)

    async def _sample_vertex(
        self, flink: ExternalFlink, job_id: str, operator: str, vertex: str
    ) -> None:
        counters = await flink.counters(job_id, vertex)
        # Flink counts all tasks in one round, so they are of one age.
        lag = min((each.lag for each in counters if each.lag >= 0), default=0.0)
        counted = self._clock.now() - lag
        if abs(counted - self._counted.get(vertex, -math.inf)) < SAME:
            return
        self._counted[vertex] = counted
        wanted = self._extra[vertex]
        values = await flink.metrics(job_id, vertex, [each.id for each in wanted])
        labels = {"job_id": job_id, "task_id": vertex}
        extra = [each.sample(operator, labels, values) for each in wanted if each.id in values]
        self._add(counted, [*_samples(counters, operator, labels), *extra])

    def _add(self, time: float, samples: Iterable[tuple[str, Mapping[str, str], float]]) -> None:
        if self._ring.add(time, samples):
            self._left_out = self._clock.now()

    async def _run(self) -> None:
        while True:
            try:
                await self.sample()
            except WeirError as error:
                log.info("the job's metrics cannot be read", failure=str(error))
            except Exception:  # of this answer; the next may be another
                log.exception("the job's metrics cannot be read")
            await self._clock.sleep(self._period)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Extra:
    """A metric of one subtask that the counters do not hold."""

    id: str
    subtask: str
    series: str
    labels: Mapping[str, str]

    def sample(
        self, operator: str, labels: Mapping[str, str], values: Mapping[str, float]
    ) -> tuple[str, Mapping[str, str], float]:
        own = {**labels, **_own_labels(operator, self.subtask), **self.labels}
        return self.series, own, values[self.id]


def _samples(
    counters: Iterable[SubtaskCounters], operator: str, labels: Mapping[str, str]
) -> Iterator[tuple[str, Mapping[str, str], float]]:
    for each in counters:
        own = {**labels, **_own_labels(operator, str(each.index))}
        yield names.RECORDS_IN, own, each.records_in
        yield names.RECORDS_OUT, own, each.records_out
        yield names.BUSY_MS, own, each.busy_ms
        yield names.BACK_PRESSURED_MS, own, each.back_pressured_ms


def _own_labels(operator: str, subtask: str) -> dict[str, str]:
    return {"subtask_index": subtask, "tm_id": names.mangle(replica_id(operator, subtask))}


def _vertices(job: ExternalJob) -> Iterator[tuple[str, bool]]:
    """Yield every vertex's id, and whether it is where records enter the job."""
    for vertices in job.topology.vertices.values():
        for vertex in vertices:
            yield vertex.id, vertex.id in job.entries


def _extras(ids: Iterable[str], is_source: bool) -> Iterator[_Extra]:
    """Yield other series than the counters: latency markers, and metrics of sources."""
    for each in ids:
        if (marker := _MARKER.fullmatch(each)) is not None:
            labels = {"operator_id": marker["operator"], "quantile": names.MARKER_QUANTILE}
            yield _Extra(
                id=each, subtask=marker["subtask"], series=names.LATENCY_MARKER, labels=labels
            )
        elif is_source and (found := _OF_FUNCTION.fullmatch(each)) is not None:
            yield _Extra(
                id=each,
                subtask=found["subtask"],
                series=f"{names.OPERATOR}{found['metric']}",
                labels={"operator_id": found["operator"]},
            )
        elif is_source and (offset := _partition_offset(each)) is not None:
            yield offset


def _partition_offset(metric: str) -> _Extra | None:
    """Return `0.NAME.KafkaSourceReader.topic.TOPIC.partition.3.currentOffset`, the offset of one.

    Without a regular expression: name and topic may hold dots, and two parts that hold anything
    would take time with the square of their length.
    """
    subtask, _, rest = metric.removesuffix(_OFFSET).partition(".")
    reader, _, partition = rest.rpartition(".partition.")
    operator, _, topic = reader.rpartition(".KafkaSourceReader.topic.")
    if not metric.endswith(_OFFSET) or not subtask.isdecimal() or not (operator and topic):
        return None
    operator, _, cluster = operator.partition(_CLUSTER)
    return _Extra(
        id=metric,
        subtask=subtask,
        series=names.PARTITION_OFFSET,
        labels={
            "operator_id": operator,
            "topic": topic,
            "partition": partition,
            **({names.GROUP: cluster} if cluster else {}),
        },
    )


PrometheusFor = Callable[[str, str], MetricsSource]
"""Makes a Prometheus source for the series of a job, by its id and namespace."""
_SHARED_ID = "0" * 32
"""The id of every job of Flink's application mode with high availability (FLINK-19358)."""

_KEPT_LABELS = frozenset(names.LABELS) - {names.APP_LABEL, "weir_operator", "weir_pool", "tm_id"}
"""Labels that tell the series of one replica apart."""


class ExternalMetrics:
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
        """Start to read Flink if there is no Prometheus; needs a running event loop."""
        if self._prometheus is None:
            self._flink.start()

    async def window(self, *, start: float, end: float) -> Window:
        """Return the samples of [start, end]."""
        job = self._watch.job
        if job is None:
            return Window(start=start, end=end, series=())
        if self._prometheus is not None and job.id != _SHARED_ID:
            asked = await self._prometheus_of(job.id, self._prometheus)
            found = await asked.window(start=start, end=end)
            window = relabel(found, job)
            if any("task_id" in series.labels for series in window.series):
                return window
        # Nobody scrapes this job's reporters, it has none, or others have its id: Flink's own REST
        # interface is enough.
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
            self._asked, self._asked_of = make(job_id, self._watch.namespace), job_id
        return self._asked


def relabel(window: Window, job: ExternalJob) -> Window:
    """Return a job's series with the replica's id where the TaskManager's was."""
    return Window(
        start=window.start,
        end=window.end,
        series=tuple(
            each for each in (_relabelled(series, job) for series in window.series) if each
        ),
    )


def _relabelled(series: Series, job: ExternalJob) -> Series | None:
    labels = {name: value for name, value in series.labels.items() if name in _KEPT_LABELS}
    if not {"task_id", "subtask_index"} <= labels.keys():
        return None  # of the job, or of a whole TaskManager, which several replicas share
    replica = job.replica_at(labels["task_id"], labels["subtask_index"])
    if replica is None:
        return None
    labels["tm_id"] = names.mangle(replica)
    return Series(name=series.name, labels=labels, times=series.times, values=series.values)
