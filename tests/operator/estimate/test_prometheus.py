"""Pages of a job's history, from a server that has limits of its own."""

import re

import pytest
from aiohttp import web

from tests.operator.http_server import serving
from weir_operator.errors import PermanentError, TemporaryError
from weir_operator.estimate.prometheus import read_history
from weir_operator.metrics.prometheus_server import PrometheusServer
from weir_simulator.bill.metrics import Role

NAMES = ("numRecordsIn", "numRecordsOut", "accumulateBusyTimeMs", "numRecordsOutPerSecond")
LABELS = {"job_name": "trips", "job_id": "a1", "task_name": "match", "tm_id": "tm"}
HOURS = 24
TASK = "flink_taskmanager_job_task_"


class Server:
    """Answers as Prometheus does, for at most so many hours at a time."""

    def __init__(self, *, most_hours=24.0, refusal=422, prefix=TASK, labels=LABELS, **besides):
        self.most, self.refusal, self.prefix = most_hours, refusal, prefix
        self.labels, self.besides = labels, besides
        self.pages: list[float] = []
        self.queries: list[str] = []

    async def answer(self, request):
        asked = request.query
        values = re.fullmatch("/api/v1/label/(.*)/values", request.path)
        if values and values[1] == "__name__":
            return self._found([self.prefix + name for name in NAMES])
        if values:
            return self._found([self.labels[values[1]]] if values[1] in self.labels else [])
        selector, _, rest = asked["query"].rpartition("[")
        milliseconds = rest.removesuffix("ms]")
        hours = int(milliseconds) / 3_600_000
        self.queries.append(selector)
        if hours > self.most + 0.01:
            return web.json_response(
                {"status": "error", "errorType": "execution"}, status=self.refusal
            )
        self.pages.append(hours)
        high = float(asked["time"])
        times = range(int(high - 3600 * hours) // 60 * 60, int(high) + 1, 60)
        series = [
            {
                "metric": {"__name__": self.prefix + name, **self.labels},
                "values": [[time, str(time * 2)] for time in times],
            }
            for name in NAMES
            if self.prefix + name in selector
        ]
        return self._found({"resultType": "matrix", "result": series})

    def _found(self, data):
        return web.json_response({"status": "success", "data": data, **self.besides})


async def read(answering, job=""):
    async with serving(answering.answer) as url:
        server = PrometheusServer(url)
        try:
            return await read_history(server, job, {}, begin=0.0, end=HOURS * 3600.0, slot=60.0)
        finally:
            await server.close()


async def test_pages_are_halved_until_the_server_answers():
    answering = Server(most_hours=1.6)

    table, name, _ = await read(answering)

    assert answering.pages[0] == pytest.approx(1.5, abs=0.01)
    assert sum(answering.pages) == pytest.approx(HOURS, abs=0.01)
    amounts, _ = table.join(list(table.tracks(Role.RECORDS_OUT)))
    assert amounts[1:-1] == pytest.approx(120)
    assert name == "trips"


async def test_averages_are_not_asked_for_where_there_are_counters():
    answering = Server()

    await read(answering)

    assert "PerSecond" not in answering.queries[0]
    assert 'job_name="trips"' in answering.queries[0]


async def test_a_server_that_rejects_a_query_is_not_asked_for_less():
    answering = Server(most_hours=0, refusal=400)

    with pytest.raises(TemporaryError, match="status 400"):
        await read(answering)

    assert len(answering.queries) == 1


async def test_an_answer_in_part_is_refused():
    with pytest.raises(TemporaryError, match="only in part"):
        await read(Server(warnings=["a store is away"]))


async def test_a_name_is_found_as_the_reporter_wrote_it():
    answering = Server(labels={**LABELS, "job_name": "taxi_trips"})

    _, name, _ = await read(answering, "taxi trips")

    assert name == "taxi_trips"


async def test_a_job_in_the_names_is_found_by_its_name():
    prefix = "host_taskmanager_tm1_trips_match_0_"
    answering = Server(prefix=prefix, labels={})

    table, _, _ = await read(answering, "trips")

    assert {each.metric.vertex_name for each in table.tracks(*Role)} == {"match"}
    with pytest.raises(PermanentError, match="--job: expected a name that metrics have in theirs"):
        await read(answering)
