"""Builds histories whose truth is known, for tests and benchmarks; and spoils them as asked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from types import SimpleNamespace

import pyarrow as pa

from weir_pipelines.samples import EPOCH, DayFunction, as_samples, cut_day
from weir_pipelines.schemas import SAMPLES, SERIES, SampleRow
from weir_pipelines.settings import DAY_MS, ArrivalSettings
from weir_pipelines.store import arrow_schema

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


def work_out_history(
    history: KnownHistory, rebuild: DayFunction, settings: ArrivalSettings
) -> list[SimpleNamespace]:
    """Return what a function makes of each application and day: its rows, with `app` and `day`."""
    apps = {int(each["series"]): str(each["app"]) for each in history.labels}
    rows = []
    for app in sorted(set(apps.values())):
        own = [row for row in history.samples if apps[row[0]] == app]
        labels = [each for each in history.labels if each["app"] == app]
        series = pa.Table.from_pylist(labels, schema=arrow_schema(SERIES))
        columns = [list(column) for column in zip(*own, strict=True)]
        samples = as_samples(pa.table(columns, schema=arrow_schema(SAMPLES)), settings)
        for number in sorted({row[1] // DAY_MS for row in own}):
            day = date.fromordinal(EPOCH + number)
            made = rebuild(cut_day([samples], day, settings), series, day, settings)
            rows += [SimpleNamespace(**row, app=app, day=day) for row in made.to_pylist()]
    return rows
