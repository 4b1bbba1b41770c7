"""Flink's answers about a job, small."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from weir_operator.flink.answers import Edge, JobDetails, JobState, Vertex


def a_vertex(name: str, *, parallelism: int = 1, **others: Any) -> Vertex:
    """Return a vertex that runs, with its name for an id."""
    vertex = Vertex(
        id=name,
        name=name,
        parallelism=parallelism,
        max_parallelism=128,
        tasks={"RUNNING": parallelism},
    )
    return replace(vertex, **others)


def a_job(
    vertices: Iterable[Vertex | str], edges: Iterable[tuple[str, str, str]] = (), **others: Any
) -> JobDetails:
    """Return a job that runs; an edge is where it begins and ends, and how records are shipped."""
    job = JobDetails(
        id="5" * 32,
        name="trips",
        state=JobState.RUNNING,
        started=0.0,
        runs_since=0.0,
        vertices=tuple(a_vertex(each) if isinstance(each, str) else each for each in vertices),
        edges=tuple(Edge(source=s, target=t, ship_strategy=how) for s, t, how in edges),
    )
    return replace(job, **others)
