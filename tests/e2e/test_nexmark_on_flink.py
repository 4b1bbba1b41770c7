"""`examples/nexmark` on real Flink: every query gives what can be computed without Flink."""

import asyncio
import time

import pytest

from benchmarks.flink.nexmark_results import (
    QUERIES,
    Input,
    expected_rows,
    list_events,
    read_rows,
)
from benchmarks.flink.plain_flink import PlainFlink
from benchmarks.flink.unmodified_job import Unmodified, UnmodifiedJob
from tests.operator.flink.output import committed_lines
from weir_operator.clock import SystemClock, wait_until
from weir_operator.flink.jars import build_example
from weir_operator.flink.rest import FlinkRest
from weir_operator.rescale.journal import Step

LIMIT = 180.0
QUICK = {"execution.checkpointing.interval": "1 s"}


async def until_committed(query, expected, folder):
    """Wait until a query has committed what is expected; return what it has committed."""

    async def look():
        rows = read_rows(query, committed_lines(folder)) if folder.exists() else None
        return rows if rows == expected else None

    found = await wait_until(look, clock=SystemClock(), timeout=LIMIT)
    return found or read_rows(query, committed_lines(folder))


@pytest.mark.long
@pytest.mark.flink
@pytest.mark.timeout(900)
def test_every_query_gives_the_rows_that_its_events_demand(tmp_path):
    given = Input(rate=500, seconds=45, start=1_700_000_000_000)
    events = list_events(given)
    expected = {query: expected_rows(query, events) for query in QUERIES}

    async def run_all():
        found = {}
        async with (
            PlainFlink(folder=tmp_path / "flink", memory=1728, user=QUICK) as flink,
            FlinkRest(flink.url) as rest,
        ):
            jar = await rest.upload_jar(str(build_example("nexmark")))
            for number, query in enumerate(QUERIES, 1):
                out, job = tmp_path / query, f"{number:032x}"
                arguments = [*given.arguments(query, tmp_path), "--commit", str(out)]
                await rest.run_jar(jar, job_id=job, arguments=arguments)
                found[query] = await until_committed(query, expected[query], out)
                await rest.cancel(job)
        return found

    found = asyncio.run(run_all())

    assert all(expected.values())  # there is something to compare
    assert {query: rows for query, rows in found.items() if rows != expected[query]} == {}


@pytest.mark.long
@pytest.mark.flink
@pytest.mark.timeout(900)
@pytest.mark.parametrize("query", ["q5", "q6"])  # one in SQL, one in Java
def test_a_query_is_exact_over_a_rescale(query, tmp_path):
    given = Input(rate=100, seconds=40, start=int(1000 * time.time()) + 10_000)
    expected = expected_rows(query, list_events(given))
    out = tmp_path / "out"
    job = Unmodified(
        name="nexmark",
        jar=build_example("nexmark"),
        folder=tmp_path,
        arguments=[*given.arguments(query, tmp_path), "--commit", str(out)],
        config=QUICK,
    )

    async def rescale():
        async with UnmodifiedJob(job) as run:
            await run.start(dict.fromkeys(run.operators, 1))
            end = await run.rescale({each: min(2, run.limit_of(each)) for each in run.operators})
            rows = await until_committed(query, expected, out)
            await run.lifecycle.suspend()
        return run.operators, end, rows

    operators, end, rows = asyncio.run(rescale())

    # Bids would now and then overtake their auctions in replicas between the source and query 6.
    assert "filter" not in operators
    assert end.step is Step.DONE
    assert expected
    assert rows == expected
    assert read_rows(query, committed_lines(out)) == expected
