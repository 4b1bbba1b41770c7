"""The graph that a job's program builds, as far as its TaskManagers' memory depends on it. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from pydantic import BaseModel, ConfigDict, Field


class JobGraph(BaseModel):
    """Which operators use managed memory, and how many streams connect them."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    managed: dict[str, bool] = Field(default_factory=dict)
    """Whether an operator uses managed memory: state in RocksDB, SQL, Python."""
    streams: tuple[tuple[str, str, int], ...] = ()
    """Operators and the number of streams from the first to the second, chains left out."""


def parse_graph(
    lines: Sequence[str], *, operators: Collection[str], whole_job: str | None
) -> JobGraph:
    """Parse the lines of a graph: `slot GROUP true`, `stream GROUP GROUP COUNT`.

    Args:
        lines: From `dev.weir.ReadGraph`.
        operators: Whose slot sharing groups count; others are left out.
        whole_job: Name of the operator that stands for all groups; `None` where each is one.
    """
    managed: dict[str, bool] = {}
    streams: dict[tuple[str, str], int] = {}
    known = {whole_job} if whole_job else set(operators)
    for line in lines:
        kind, *words = line.split(" ")
        groups = [whole_job or word for word in words[:-1]]
        if not known.issuperset(groups):
            continue
        if kind == "slot" and len(groups) == 1:
            managed[groups[0]] = managed.get(groups[0], False) or words[-1] == "true"
        elif kind == "stream" and len(groups) == 2 and words[-1].isdecimal():
            between = (groups[0], groups[1])
            streams[between] = streams.get(between, 0) + int(words[-1])
    return JobGraph(
        managed=managed,
        streams=tuple((source, target, count) for (source, target), count in streams.items()),
    )
