"""From what was scraped to what the managers decide on: the layout, and the tick's measurements."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from weir_operator.flink.topology import Topology
from weir_operator.metrics.layout import JobLayout, OperatorLayout, PlacedReplica
from weir_operator.metrics.measurement import measure
from weir_operator.metrics.quality import Problem, QualitySettings, judge
from weir_operator.metrics.seam import Window
from weir_operator.metrics.values import (
    AppMeasurement,
    ServiceFrom,
    SinkMeasurement,
)
from weir_operator.runtime.seam import Replica
from weir_policies.model.dataflow import Dataflow, Edge


@dataclass(frozen=True, kw_only=True, slots=True)
class Sight:
    """What one tick saw of the job."""

    output: SinkMeasurement
    """What users saw, over every run of the job in the interval."""
    app: AppMeasurement | None
    """The present run; `None` while it is not known who serves what."""
    problems: tuple[Problem, ...]

    @property
    def healthy(self) -> bool:
        """Whether nothing speaks against the measurement; a restart is no fault of the metrics."""
        return not any(problem.kind.holds for problem in self.problems)

    def response(self, statistic: str) -> float:
        """Return the bounded statistic of what users saw, seconds."""
        seen = self.end_to_end
        return {"mean": seen.mean, "p95": seen.p95, "p99": seen.p99}[statistic]

    @property
    def end_to_end(self) -> SinkMeasurement:
        """What users saw; by latency markers where no sink counts latencies."""
        if math.isnan(self.output.mean) and self.app is not None:
            return self.app.end_to_end
        return self.output

    def violates(self, bound: float, statistic: str) -> bool | None:
        """Return whether the interval exceeded the bound; `None` where that cannot be told.

        An interval in which nothing came out while records waited is one: they are late already.
        """
        response = self.response(statistic)
        if math.isnan(response):
            waiting = self.app is not None and self.app.backlog > 0
            return True if waiting or self.app is None else None
        return response > bound


def layout_of(job_id: str, topology: Topology, replicas: Sequence[Replica]) -> JobLayout:
    """Return who serves what in the present run."""
    return JobLayout(
        job_id=job_id,
        operators={
            name: OperatorLayout(
                replicas=tuple(
                    PlacedReplica(
                        tm_id=replica.id,
                        node_type=replica.node_type,
                        drained=replica.id in topology.drained,
                    )
                    for replica in replicas
                    if replica.operator == name
                ),
                upstream=tuple(edge.source for edge in topology.edges if edge.target == name),
                **_vertices(topology, name),
            )
            for name in topology.operators
        },
    )


def dataflow_of(topology: Topology, measured: AppMeasurement | None) -> Dataflow:
    """Return the graph of operators, with the selectivities that were measured."""
    return Dataflow(
        operators=topology.operators,
        edges=tuple(
            Edge(
                source=edge.source,
                target=edge.target,
                selectivity=_selectivity(measured, edge.source),
            )
            for edge in topology.edges
        ),
    )


def see(
    window: Window,
    layout: JobLayout | None,
    *,
    run_since: float,
    settled: bool,
    previous: AppMeasurement | None,
    output: SinkMeasurement,
    now: float,
    set_by: float = 0.0,
    quality: QualitySettings,
) -> Sight:
    """Measure and judge one interval.

    Args:
        window: Its samples.
        layout: The present run; `None` where there is none, or it is not known yet.
        run_since: Unix time since when the present run processes records; what its replicas did
            before (restoring, working off the gap's first moment) does not tell how they serve.
        settled: Whether the run is old enough to be judged; before, samples are naturally few.
        previous: The last measurement judged.
        output: What users saw in the interval.
        now: Unix seconds.
        set_by: Seconds by which the clock was set in the interval.
        quality: Where the gate draws its lines.
    """
    if layout is None:
        return Sight(output=output, app=None, problems=())
    measured = measure(_cut(window, run_since), layout)
    return Sight(
        output=output,
        app=measured,
        problems=judge(measured, previous, layout, now, quality, set_by=set_by) if settled else (),
    )


def sum_of_sources(app: AppMeasurement, topology: Topology | None) -> float:
    """Return the records/s that arrive at all sources together."""
    if topology is None:
        return math.nan
    return sum(app.operators[name].arrival_rate for name in topology.sources)


def first_behind_sources(topology: Topology) -> frozenset[str]:
    """Return the operators for which waits what waits at the sources.

    A source that feeds no other operator is the whole job: what waits there waits for it.
    """
    feeding = {edge.source for edge in topology.edges}
    behind = {edge.target for edge in topology.edges if edge.source in topology.sources}
    return frozenset(behind | (set(topology.sources) - feeding))


def describe_assumed(app: AppMeasurement, decided: Collection[str]) -> str:
    """Return where the variance of service times is only assumed, a sentence; empty where not."""
    guessed = sorted(
        name
        for name in decided
        if any(each.service_from is ServiceFrom.BUSY_TIME for each in app.operators[name].replicas)
    )
    if not guessed:
        return ""
    return (
        f"Service times of {', '.join(guessed)} come from busy time, with the variance of an "
        "exponential time; wrap their functions in Weir.timed to measure it"
    )


def _vertices(topology: Topology, name: str) -> dict[str, frozenset[str]]:
    """Entry and exit vertices of an operator that has several; one alone needs no telling."""
    vertices = topology.vertices[name]
    if len(vertices) == 1:
        return {}
    own = {vertex.id for vertex in vertices}
    return {
        "entry_vertices": frozenset({vertices[0].id} & own),
        "exit_vertices": frozenset({vertices[-1].id} & own),
    }


def _selectivity(measured: AppMeasurement | None, operator: str) -> float:
    if measured is None:
        return 1.0
    found = measured.operators[operator].selectivity
    return found if math.isfinite(found) and found >= 0 else 1.0


def _cut(window: Window, since: float) -> Window:
    """Leave out samples from before `since`."""
    if since <= window.start:
        return window
    kept = []
    for series in window.series:
        pairs = [
            (time, value)
            for time, value in zip(series.times, series.values, strict=True)
            if time >= since
        ]
        if pairs:
            times, values = zip(*pairs, strict=True)
            kept.append(
                type(series)(name=series.name, labels=series.labels, times=times, values=values)
            )
    return Window(start=since, end=window.end, series=tuple(kept))
