"""Builds histories with known truth, for tests and benchmarks, and damages them on request.

It also writes the tables that the jobs would make of such a history. The operators of its job form
a chain, each on two replicas of the pool `small`, with records distributed by key: each replica is
an M/G/1 queue, and time elsewhere is added.

Source: Pollaczek-Khinchine formula.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa

from weir_pipelines.ingest import begin_of
from weir_pipelines.samples import EPOCH, DayFunction, as_samples, cut_day
from weir_pipelines.schemas import ARRIVALS, SAMPLES, SERIES, WORK, ParquetTable, SampleRow
from weir_pipelines.settings import DAY_MINUTES, DAY_MS
from weir_pipelines.store import Partition, Tables

Curve = Callable[[float], float]
"""A series' value, of the Unix seconds."""


@dataclass(frozen=True, kw_only=True, slots=True)
class KnownSeries:
    """One series of a known history."""

    metric: str
    operator: str
    curve: Curve
    app: str = "app"
    pool: str = "small"
    job_id: str = "job-1"
    attempt: str = "0"
    task: str = ""
    """By default the operator's name."""
    function: str = ""
    subtask: int = 0
    start: float = 0.0
    end: float = 600.0
    """Unix seconds of the first and last scrape."""
    every: float = 5.0
    """Seconds between scrapes."""

    @property
    def labels(self) -> dict[str, str]:
        """The columns of the table `series` but its number, and the app."""
        return {
            "metric": self.metric,
            "operator": self.operator,
            "pool": self.pool,
            "replica": f"{self.operator}-{self.pool}-{self.subtask}",
            "job_id": self.job_id,
            "attempt": self.attempt,
            "task": self.task or self.operator,
            "function": self.function,
            "subtask": str(self.subtask),
            "app": self.app,
        }

    def samples(self, number: int) -> list[SampleRow]:
        """Return what a server would have scraped."""
        count = int((self.end - self.start) / self.every + 1e-9) + 1
        times = [self.start + n * self.every for n in range(count)]
        return [(number, round(1000 * time), self.curve(time), None) for time in times]


@dataclass(frozen=True, kw_only=True, slots=True)
class KnownHistory:
    """Series with their samples, as rows of the tables."""

    samples: list[SampleRow] = field(default_factory=list)
    labels: list[Mapping[str, str | int]] = field(default_factory=list)

    def spoilt(self, spoil: Callable[[SampleRow], Iterable[SampleRow]]) -> KnownHistory:
        """Return the history with each sample replaced by those that `spoil` makes of it."""
        return replace(self, samples=[new for row in self.samples for new in spoil(row)])

    def __add__(self, other: KnownHistory) -> KnownHistory:
        """Put two histories together; their series must not share numbers."""
        return KnownHistory(samples=self.samples + other.samples, labels=self.labels + other.labels)


def build_history(all_series: Iterable[KnownSeries], *, first: int = 1) -> KnownHistory:
    """Return the samples of some series, numbered from `first` on."""
    history = KnownHistory()
    for number, series in enumerate(all_series, start=first):
        history.samples.extend(series.samples(number))
        history.labels.append({"series": number, **series.labels})
    return history


def work_out_history(history: KnownHistory, rebuild: DayFunction) -> list[SimpleNamespace]:
    """Return what a function makes of each application and day: its rows, with `app` and `day`."""
    apps = {int(each["series"]): str(each["app"]) for each in history.labels}
    rows = []
    for app in sorted(set(apps.values())):
        own = [row for row in history.samples if apps[row[0]] == app]
        labels = [each for each in history.labels if each["app"] == app]
        series = pa.Table.from_pylist(labels, schema=SERIES.schema)
        columns = [list(column) for column in zip(*own, strict=True)]
        samples = as_samples(pa.table(columns, schema=SAMPLES.schema))
        for number in sorted({row[1] // DAY_MS for row in own}):
            day = date.fromordinal(EPOCH + number)
            made = rebuild(cut_day([samples], day), series, day)
            rows += [SimpleNamespace(**row, app=app, day=day) for row in made.to_pylist()]
    return rows


POOL, REPLICAS = "small", 2


@dataclass(frozen=True, kw_only=True, slots=True)
class KnownOperator:
    """One operator of it."""

    name: str = "match"
    mean: float = 0.02
    """Service time, s."""
    scv: float = 0.5
    share: float = 1.0
    """Records that reach it per record that reaches the job."""
    given: float = 1.0
    """Records that it gives out per record that it takes in."""

    @property
    def square(self) -> float:
        """Mean square of the service time, s^2."""
        return self.mean**2 * (1 + self.scv)

    def response_time(self, rate: float) -> float:
        """Return mean seconds in the operator, of the records/s that reach it."""
        each = rate / REPLICAS
        return self.mean + each * self.square / (2 * (1 - each * self.mean))


@dataclass(frozen=True, kw_only=True, slots=True)
class KnownJob:
    """What is true of it."""

    rate: Callable[[float], float]
    """Records/s that reach the job, of the Unix seconds."""
    operators: tuple[KnownOperator, ...] = (KnownOperator(),)
    elsewhere: float = 0.005
    """Seconds from source to sink that no operator takes."""

    def latency(self, rate: float) -> float:
        """Return the mean seconds from source to sink, of the records/s that reach the job."""
        return self.elsewhere + sum(
            each.response_time(rate * each.share) for each in self.operators
        )


def write_day(
    root: Path,
    partition: Partition,
    job: KnownJob,
    *,
    minutes: int = DAY_MINUTES,
    with_work: bool = True,
) -> None:
    """Write the first minutes of a day into `arrivals` and `work`."""
    tables = Tables(root)
    times = [int(begin_of(partition.day)) + 60 * place for place in range(minutes)]
    seen = [(each, time, job.rate(time)) for each in job.operators for time in times]
    write_rows(tables, ARRIVALS, partition, [_arrivals_row(*each) for each in seen])
    if with_work:
        write_rows(tables, WORK, partition, [_work_row(job, *each) for each in seen])


def _arrivals_row(operator: KnownOperator, minute: int, rate: float) -> dict[str, object]:
    own = rate * operator.share
    return arrivals_of(
        minute,
        operator=operator.name,
        arrived=own,
        taken=own,
        given=own * operator.given,
        utilisation=own * operator.mean / REPLICAS,
        replicas=float(REPLICAS),
    )


def arrivals_of(minute: int, **changes: object) -> dict[str, object]:
    """Return a row of `arrivals`, columns changed by name."""
    return {
        "operator": "match",
        "minute": minute,
        "arrived": 25.0,
        "taken": 20.0,
        "given": 10.0,
        "backlog": None,
        "blocked": 0.0,
        "utilisation": 0.4,
        "replicas": 3.0,
        "completeness": 1.0,
        "faults": [],
        **changes,
    }


def _work_row(
    job: KnownJob, operator: KnownOperator, minute: int, rate: float
) -> dict[str, object]:
    records = 60 * rate * operator.share
    is_sink = operator is job.operators[-1]
    return work_of(
        minute,
        POOL,
        operator=operator.name,
        replicas=float(REPLICAS),
        records=records,
        seconds=records * operator.mean,
        squares=records * operator.square,
        utilisation=rate * operator.share * operator.mean / REPLICAS,
        sink_records=records if is_sink else None,
        sink_seconds=records * job.latency(rate) if is_sink else None,
    )


def work_of(minute: int, pool: str, **changes: object) -> dict[str, object]:
    """Return a row of `work`, columns changed by name."""
    return {
        "operator": "match",
        "pool": pool,
        "minute": minute,
        "replicas": 1.0,
        "records": 600.0,
        "seconds": 24.0,
        "squares": 1.2,
        "utilisation": 0.4,
        "source": "helper",
        "sink_records": 100.0,
        "sink_seconds": 5.0,
        **changes,
    }


def write_rows(
    tables: Tables, table: ParquetTable, partition: Partition, rows: Sequence[Mapping[str, object]]
) -> None:
    """Write the rows of one partition."""
    tables.write(table, partition, [pa.Table.from_pylist(list(rows), schema=table.schema)])
