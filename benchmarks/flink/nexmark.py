"""Nexmark's queries under Weir: exact over rescales.

Each query of `examples/nexmark` runs on real Flink, pinned by the agent, at `RATE` events/s, with
one replica of each operator, and is rescaled out, in and out again. What it has committed at the
end is compared, row by row, with what can be computed from the events without Flink
(`nexmark_results`).

A call runs the queries that `NEXMARK_QUERIES` lists (all, separated by commas).
"""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from benchmarks.choices import choose_some
from benchmarks.figures import Figure
from benchmarks.flink.nexmark_results import (
    QUERIES,
    Input,
    expected_rows,
    list_events,
    read_rows,
)
from benchmarks.flink.unmodified_job import Unmodified, UnmodifiedJob
from benchmarks.results import BUILD
from tests.operator.flink.output import committed_lines
from weir_operator.clock import SystemClock, wait_until
from weir_operator.flink.jars import build_example
from weir_operator.rescale.journal import Step

ABOUT = "Nexmark's queries: exact over rescales"
DURATION = "15 min"

FOLDER = BUILD / "nexmark"
RATE, SECONDS = 150, 50
"""Events/s, and for how long they come."""
CHANGES = 3
LIMIT = 240.0
CONFIG = {"execution.checkpointing.interval": "1 s"}


@dataclass(frozen=True, kw_only=True, slots=True)
class QueryOutcome:
    query: str
    done: int
    """Changes that succeeded."""
    lost: int
    """Rows that are missing."""
    wrong: int
    """Rows that should not be there."""
    compared: int
    """Rows that should be there."""
    load: float
    """Processes that wanted the machine's processors, mean over the last minute."""


def run() -> list[Figure]:
    queries = choose_some("NEXMARK_QUERIES", QUERIES)
    jar = build_example("nexmark")
    outcomes = []
    for query in queries:
        outcomes.append(asyncio.run(_rescale(query, jar)))
        print(outcomes[-1], flush=True)
    return list(figures_of(outcomes))


def figures_of(outcomes: Sequence[QueryOutcome]) -> Iterator[Figure]:
    done, wanted = sum(each.done for each in outcomes), CHANGES * len(outcomes)
    yield Figure(
        figure="changes that succeeded",
        value=done,
        unit=f"of {wanted}",
        goal="all",
        holds=done == wanted,
    )
    yield Figure(
        figure="rows lost or wrong after the changes",
        value=sum(each.lost + each.wrong for each in outcomes),
        unit="rows",
        goal="exactly 0",
        holds=all(each.lost == each.wrong == 0 < each.compared for each in outcomes),
    )
    for each in outcomes:
        yield Figure(figure=f"{each.query}: rows compared", value=each.compared, unit="rows")
    yield Figure(
        figure="load average beside the runs, mean",
        value=fmean(each.load for each in outcomes),
        unit="",
    )


async def _rescale(query: str, jar: Path) -> QueryOutcome:
    folder = FOLDER / query
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    given = Input(rate=RATE, seconds=SECONDS, start=int(1000 * time.time()) + 10_000)
    expected = expected_rows(query, await asyncio.to_thread(list_events, given))
    out = folder / "out"
    job = Unmodified(
        name=f"nexmark-{query}",
        jar=jar,
        folder=folder,
        arguments=[*given.arguments(query, folder), "--commit", str(out)],
        config=CONFIG,
    )
    done = 0
    async with UnmodifiedJob(job) as run:
        small = dict.fromkeys(run.operators, 1)
        large = {each: min(2, run.limit_of(each)) for each in run.operators}
        await run.start(small)
        for sizes in (large, small, large):
            end = await run.rescale(sizes)
            done += end.step is Step.DONE

        async def look() -> bool | None:
            return read_rows(query, committed_lines(out)) == expected or None

        await wait_until(look, clock=SystemClock(), timeout=LIMIT)
        await run.lifecycle.suspend()
    rows = read_rows(query, committed_lines(out))
    return QueryOutcome(
        query=query,
        done=done,
        lost=(expected - rows).total(),
        wrong=(rows - expected).total(),
        compared=expected.total(),
        load=round(os.getloadavg()[0], 1),
    )
