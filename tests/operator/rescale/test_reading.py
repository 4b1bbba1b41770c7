"""How much a job has read, from what Flink counts: unknown is not zero."""

import math
from dataclasses import dataclass, field, replace
from typing import cast

import pytest

from tests.operator.flink.builders import a_job, a_vertex
from weir_operator.flink.answers import Edge, JobDetails, JobState
from weir_operator.flink.rest import FlinkRest
from weir_operator.rescale.flink import read_records

NAN = math.nan


@dataclass
class Counts:
    """A JobManager: two sources before a sink, and what the functions in the sources count."""

    one: dict[str, float]
    two: dict[str, float]
    records: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Between the vertices."""
    state: JobState = JobState.RUNNING
    ended: bool = False
    edges: tuple[Edge, ...] = field(
        default=tuple(Edge(source=s, target="sink", ship_strategy="HASH") for s in ("one", "two"))
    )

    async def job(self, job_id):
        named = zip(("one", "two", "sink"), self.records, strict=True)
        tasks = {"FINISHED" if self.ended else "RUNNING": 1}
        vertices = [a_vertex(name, records=records, tasks=tasks) for name, records in named]
        return replace(a_job(vertices), state=self.state, edges=self.edges)

    async def metric_sums(self, job_id, vertex_id, endings):
        return {"one": self.one, "two": self.two}.get(vertex_id, {})


IN, OUT, LAG = "Source.numRecordsIn", "Source.numRecordsOut", "Source.pendingRecords"


@pytest.mark.parametrize(
    ("counts", "records", "pending"),
    [
        pytest.param(Counts({IN: 3, OUT: 2, LAG: 1}, {IN: 4, LAG: 2}), 9.0, 3.0, id="all is known"),
        pytest.param(Counts({IN: 0}, {IN: 0}), 0.0, NAN, id="no source says what waits"),
        pytest.param(
            Counts({IN: 0, LAG: 0}, {IN: 0}), 0.0, NAN, id="one has nothing, the other says nothing"
        ),
        pytest.param(
            Counts({IN: 0, LAG: 5}, {IN: 0}), 0.0, 5.0, id="what one has waits, whatever the other"
        ),
        pytest.param(Counts({}, {IN: 0}), NAN, NAN, id="one source is not counted yet"),
        pytest.param(Counts({}, {IN: 2}), 2.0, NAN, id="one that has read is enough"),
        pytest.param(
            Counts({IN: 0}, {IN: 0}, records=(0.0, 0.0, NAN)),
            NAN,
            NAN,
            id="one vertex is not",
        ),
        pytest.param(
            Counts({IN: 0}, {IN: 0}, records=(0.0, 0.0, 7.0)), 7.0, NAN, id="state is worked off"
        ),
    ],
)
async def test_a_sum_is_known_where_all_of_it_is_or_some_is_above_zero(counts, records, pending):
    reading = await read_records(cast(FlinkRest, counts), "5" * 32)

    assert reading is not None
    assert reading.records == pytest.approx(records, nan_ok=True)
    assert reading.pending == pytest.approx(pending, nan_ok=True)
    assert not reading.ended


@pytest.mark.parametrize(
    ("state", "edges", "records"),
    [
        pytest.param(JobState.FINISHED, None, 6.0, id="it has finished"),
        pytest.param(JobState.FINISHED, (), NAN, id="nothing passed between vertices"),
        pytest.param(JobState.FAILED, None, NAN, id="it has failed"),
    ],
)
async def test_of_a_job_that_is_over_only_what_passed_between_vertices_is_known(
    state, edges, records
):
    counts = Counts({IN: 9}, {IN: 9}, records=(1.0, 2.0, 3.0), state=state, ended=True)
    if edges is not None:
        counts.edges = edges

    reading = await read_records(cast(FlinkRest, counts), "5" * 32)

    assert reading is not None
    assert reading.records == pytest.approx(records, nan_ok=True)
    assert math.isnan(reading.pending)
    assert reading.ended


async def test_of_a_job_that_flink_does_not_know_nothing_is_read():
    class Unknown(Counts):
        async def job(self, job_id):
            return cast(JobDetails, None)

    assert await read_records(cast(FlinkRest, Unknown({}, {})), "5" * 32) is None
