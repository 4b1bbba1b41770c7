"""How busy each vertex is where several share an operator. Pure."""

from __future__ import annotations

from weir_operator.metrics import names
from weir_operator.metrics.layout import JobLayout
from weir_operator.metrics.rates import counted_rise
from weir_operator.metrics.replica import MS
from weir_operator.metrics.scope import job_series
from weir_operator.metrics.source import Window


def measure_busy_vertices(window: Window, layout: JobLayout) -> dict[str, float]:
    """Return the share of time in which the tasks of each vertex were busy, summed over subtasks.

    A vertex with four subtasks that are busy half of the time has 2.0. What reports no busy time,
    such as a source of the old kind, is left out.

    Returns:
        By Flink's id of the vertex.
    """
    series = job_series(window, layout)
    found: dict[str, float] = {}
    for name in layout.operators:
        for scope in series.operators[name]:
            for each in scope.get(names.BUSY_MS, ()):
                rise, vertex = counted_rise(each), each.labels.get("task_id")
                if vertex is not None and rise.seconds > 0:
                    found[vertex] = found.get(vertex, 0.0) + rise.rate * MS
    return found
