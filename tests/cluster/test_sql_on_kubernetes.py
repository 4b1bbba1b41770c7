"""A SQL script that only the manifest has, rescaled over savepoints on a real cluster."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.graphed_job import RESCALE, find_operators, stream_app
from tests.cluster.story_on_kubernetes import Story, condition, deployment, is_ready
from tests.operator.flink.output import committed_lines

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1200)]

RECORDS, RATE = 15_000, 60
NODE_TYPE = "any/250m"


def script(out: str) -> str:
    """Return a script that counts numbers by window and key, in event time, into files."""
    return f"""
        CREATE TABLE numbers (
            id BIGINT, due AS TO_TIMESTAMP_LTZ(id * 10, 3), WATERMARK FOR due AS due
        ) WITH ('connector' = 'datagen', 'rows-per-second' = '{RATE}',
                'fields.id.kind' = 'sequence',
                'fields.id.start' = '1', 'fields.id.end' = '{RECORDS}');
        CREATE TABLE counts (k BIGINT, n BIGINT, total BIGINT) WITH (
            'connector' = 'filesystem', 'path' = '{out}', 'format' = 'csv');
        INSERT INTO counts SELECT id % 10, COUNT(*), SUM(id)
            FROM TABLE(TUMBLE(TABLE numbers, DESCRIPTOR(due), INTERVAL '1' SECOND))
            GROUP BY window_start, window_end, id % 10;
    """


def expected_rows() -> Counter[tuple[int, int, int]]:
    """Return each row that the script writes: key, count and sum of a window."""
    groups: dict[tuple[int, int], list[int]] = {}
    for number in range(1, RECORDS + 1):
        groups.setdefault((number * 10 // 1000, number % 10), []).append(number)
    return Counter((key, len(ids), sum(ids)) for (_, key), ids in groups.items())


def committed_rows(out: Path) -> Counter[tuple[int, ...]]:
    """Return each row of the files that were committed."""
    lines = committed_lines(out)
    return Counter(tuple(map(int, line.split(","))) for line in lines)


@pytest.fixture
async def story(place, installed) -> AsyncIterator[Story]:
    """The StreamApp; its finalizer goes before its controller."""
    story = Story(place, "counts")
    yield story
    await story.remove_finalizer()


@pytest.fixture(scope="module")
def names(tmp_path_factory) -> list[str]:
    """Ask `weir graph` for the script's operators, the source first."""
    query = tmp_path_factory.mktemp("script") / "query.sql"
    query.write_text(script("/tmp/out"))
    return [each["name"] for each in find_operators(str(query))]


def fixed(names: list[str], replicas: int) -> list[dict[str, Any]]:
    """Return the operators: one replica of the source, whose rows have an order, and of the end."""
    several = {names[1]: replicas}
    return [{"name": each, "fixed": {NODE_TYPE: several.get(each, 1)}} for each in names]


async def test_a_script_is_rescaled_on_a_cluster_and_every_row_counts_once(
    place, story, names, tell
):
    windows = names[1]
    await story.create(
        stream_app(
            place,
            "counts",
            {"sql": {"script": script(place.inside(place.state / "out"))}},
            objective={"responseTime": "2s"},
            operators=fixed(names, 1),
            rescale=RESCALE | {"via": "Savepoint"},
        )
    )
    await story.until(is_ready, within=300.0)
    story.close_chapter("running")

    for replicas in (2, 1):
        await story.change(operators=fixed(names, replicas))
        await story.until(
            lambda now, n=replicas: is_ready(now) and deployment(now, windows) == {NODE_TYPE: n},
            within=240.0,
        )
        story.close_chapter(f"with {replicas} replicas")
    await story.until(lambda now: condition(now, "Ready")[1] == "JobFinished", within=600.0)
    events = await story.events()

    tell(f"SQL script, times: {story.chapters}")
    assert "RescaleDone" in events
    assert [reason for reason in events if reason.startswith("Agent")] == []
    assert committed_rows(place.state / "out") == expected_rows()
