"""Fakes and hand-made samples for tests: a reporter to scrape, a source, windows of steady load."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from typing import Any

from aiohttp import web

from tests.operator.http_server import serving
from weir_operator.metrics import names
from weir_operator.metrics.source import Series, Window
from weir_operator.metrics.values import JobLayout
from weir_operator.runtime.protocol import Replica
from weir_policies.model.dataflow import Dataflow, Edge

BUCKETS_MS = (10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0, 5000.0)


@dataclass(frozen=True, kw_only=True, slots=True)
class Load:
    """What one operator does in a hand-made window; its replicas share it evenly."""

    rate: float
    """Records/s taken in by all replicas (a source: given out)."""
    emitted: float | None = None
    """Records/s given out; `None` is as many as taken in."""
    busy: float = 0.5
    back_pressure: float = 0.0
    service_mean: float = 0.02
    service_scv: float = 1.0
    age: float = 0.05
    """Seconds since the event time at its entry."""
    marker: float | None = None
    """Seconds that latency markers say, to the agent where there is one; `None` has no markers."""
    pending: float | None = None
    """Records pending at the start (a source); `None` reports none."""
    pending_growth: float = 0.0
    latency: float | None = None
    """Mean seconds, exponential, that a sink's helper counts; `None` counts none."""
    helper: bool = True
    agent: bool = False
    """Whether Weir's agent times one record in four."""
    other: float = 0.0
    """Seconds per second of work that belongs to no record, which only the agent sees."""


def a_replica(key: str, operator: str, node_type: str = "small/250m", **others: Any) -> Replica:
    """Return a replica that runs."""
    pool, size = node_type.split("/")
    replica = Replica(id=key, operator=operator, pool=pool, size=size, started=0.0, metrics_url="")
    return replace(replica, **others)


def a_layout_of(
    *replicas: Replica, job_id: str = "job1", fed: Mapping[str, str] | None = None, **others: Any
) -> JobLayout:
    """Return the layout of replicas; `fed` names what feeds an operator that is no source."""
    feeders = dict(fed or {})
    operators = dict.fromkeys((*feeders.values(), *feeders, *(each.operator for each in replicas)))
    return JobLayout(
        job_id=job_id,
        flow=Dataflow(
            operators=tuple(operators),
            edges=tuple(Edge(source=feeder, target=name) for name, feeder in feeders.items()),
        ),
        replicas={
            name: tuple(each for each in replicas if each.operator == name) for name in operators
        },
        **others,
    )


def a_layout(job_id: str = "job1", *, replicas: Mapping[str, int] | None = None) -> JobLayout:
    """Build gen -> match -> count -> out, with so many replicas each (one where not said)."""
    counts = {"gen": 1, "match": 1, "count": 1, "out": 1, **(replicas or {})}
    return a_layout_of(
        *(
            a_replica(f"app-{name}-small-{i}", name)
            for name, count in counts.items()
            for i in range(count)
        ),
        job_id=job_id,
        fed={"match": "gen", "count": "match", "out": "count"},
    )


def a_window(
    layout: JobLayout,
    loads: Mapping[str, Load],
    *,
    start: float = 1000.0,
    end: float = 1060.0,
    period: float = 5.0,
) -> Window:
    """Build the samples of a job under steady load, scraped every `period` seconds."""
    count = int((end - start) / period) + 1
    times = tuple(start + i * period for i in range(count))
    series: list[Series] = []
    for name, replicas in layout.replicas.items():
        for replica in replicas:
            series += _replica_series(layout, name, replica, loads[name], times)
    return Window(start=start, end=end, series=tuple(series))


def a_counter(
    name: str,
    labels: Mapping[str, str],
    rate: float,
    times: tuple[float, ...],
    *,
    base: float = 1000.0,
) -> Series:
    """Build a counter that is `base` at the first sample and rises steadily."""
    values = tuple(base + rate * (time - times[0]) for time in times)
    return Series(name=name, labels=labels, times=times, values=values)


def a_gauge(name: str, labels: Mapping[str, str], value: float, times: tuple[float, ...]) -> Series:
    return Series(name=name, labels=labels, times=times, values=(value,) * len(times))


def changed(
    window: Window, change: Callable[[Series], Series | None], *, where: Callable[[Series], bool]
) -> Window:
    """Return the window with some series changed, or left out where `change` returns `None`."""
    series = (change(each) if where(each) else each for each in window.series)
    return replace(window, series=tuple(each for each in series if each is not None))


def is_of(operator: str, name: str | None = None) -> Callable[[Series], bool]:
    """Return a filter for the series of an operator of `a_layout`, of one name or of all."""

    def matches(series: Series) -> bool:
        return series.labels.get("weir_operator") == operator and name in (None, series.name)

    return matches


def _replica_series(
    layout: JobLayout,
    name: str,
    replica: Replica,
    load: Load,
    times: tuple[float, ...],
) -> list[Series]:
    machine = {
        "weir_app": "app",
        "weir_operator": name,
        "weir_pool": "small",
        "tm_id": names.mangle(replica.id),
    }
    task = machine | {"job_id": layout.job_id, "task_id": f"v-{name}", "subtask_index": "0"}
    function = task | {"operator_id": f"v-{name}"}
    share = 1 / len(layout.replicas[name])
    taken = load.rate * share
    given = taken if load.emitted is None else load.emitted * share
    is_source = layout.is_source(name)
    rates = {
        names.RECORDS_IN: 0.0 if is_source else taken,
        names.RECORDS_OUT: given,
        names.BUSY_MS: load.busy * 1e3,
        names.BACK_PRESSURED_MS: load.back_pressure * 1e3,
    }
    if load.helper and not is_source:
        rates |= {
            names.SERVICE_N: taken,
            names.SERVICE_US: taken * load.service_mean * 1e6,
            names.SERVICE_US2: taken * load.service_mean**2 * (1 + load.service_scv) * 1e12,
            names.AGE_N: taken,
            names.AGE_US: taken * load.age * 1e6,
        }
    if load.agent:
        timed = taken / 4
        rates |= {
            names.TASK_SERVICE_N: timed,
            names.TASK_SERVICE_US: timed * load.service_mean * 1e6,
            names.TASK_SERVICE_US2: timed * load.service_mean**2 * (1 + load.service_scv) * 1e12,
            names.TASK_OTHER_US: load.other * 1e6,
        }
    found = [a_counter(metric, function, rate, times) for metric, rate in rates.items()]
    found.append(a_counter(names.GC_MS, machine, 5.0, times))
    if load.pending is not None:
        found.append(
            a_counter(
                names.PENDING_RECORDS,
                function,
                load.pending_growth * share,
                times,
                base=load.pending * share,
            )
        )
    if load.marker is not None:
        labels = function | {"quantile": "0.5", "source_id": "s"}
        if load.agent:
            found.append(a_counter(names.TASK_AGE_N, task, taken, times))
            found.append(a_counter(names.TASK_AGE_US, task, taken * load.marker * 1e6, times))
        else:
            found.append(a_gauge(names.LATENCY_MARKER, labels, load.marker * 1e3, times))
    if load.latency is not None:
        found += _latency_series(function, taken, load.latency, times)
    return found


def _latency_series(
    labels: Mapping[str, str], rate: float, mean: float, times: tuple[float, ...]
) -> list[Series]:
    """Counters of latencies that are exponential with this mean."""
    moments = {
        names.LATENCY_N: rate,
        names.LATENCY_US: rate * mean * 1e6,
    }
    found = [a_counter(metric, labels, each, times) for metric, each in moments.items()]
    for bound in BUCKETS_MS:
        below = rate * -math.expm1(-bound / 1e3 / mean)
        bucket = {**labels, "le": f"{bound:g}"}
        found.append(a_counter(names.LATENCY_BUCKET, bucket, below, times))
    return found


class FakeReporter:
    """A page of metrics on a free port of loopback, written as Flink's reporter writes it."""

    def __init__(self, samples: Mapping[str, float] | None = None) -> None:
        self.samples: dict[str, float] = dict(samples or {})
        """Values by series as it stands on the page: `name{label="value",}`."""
        self.scrapes = 0
        self.url = ""
        """Known after `start`."""
        self._server = AsyncExitStack()

    async def start(self) -> FakeReporter:
        self.url = await self._server.enter_async_context(serving(self._answer))
        return self

    async def stop(self) -> None:
        await self._server.aclose()

    async def _answer(self, _: web.Request) -> web.Response:
        self.scrapes += 1
        lines = [f"{series} {_written(value)}\n" for series, value in self.samples.items()]
        return web.Response(text="".join(lines))


def _written(value: float) -> str:
    return "NaN" if math.isnan(value) else repr(value)
