"""A job that nobody wrote for Weir, on a Flink that nobody started for Weir, is advised."""

import asyncio
from collections.abc import Mapping

import pytest
from aiohttp import ClientSession, web
from aiohttp.test_utils import TestServer

from tests.operator.advise.fakes import FakeCluster, flink_deployment_objects
from tests.operator.rescale.fakes import MemoryStatusStore
from tests.operator.streamapp.builders import a_stream_app
from weir_operator.advise.advice import Advice
from weir_operator.advise.app import ExternalApp, ExternalDependencies
from weir_operator.clock import SystemClock
from weir_operator.loop.bounds import cost_per_hour
from weir_operator.loop.directives import LoopSettings
from weir_operator.loop.record import RecordStore, TolerantRecords
from weir_operator.loop.tick import Tick
from weir_operator.rescale.status import AppStatus

pytestmark = pytest.mark.flink

POOLS = [
    {
        "name": "small",
        "nodeSelector": {"weir.dev/pool": "small"},
        "sizes": ["250m", "500m"],
        "price": "0.04",
        "speedup": "1.0",
    },
    {
        "name": "large",
        "nodeSelector": {"weir.dev/pool": "large"},
        "price": "0.05",
        "speedup": "1.6",
    },
]


class Listener:
    """Stands before Flink's REST interface and writes down what is asked of it."""

    def __init__(self, url):
        self.url = url
        self.asked = set()

    async def pass_on(self, request):
        self.asked.add(request.method)
        body = await request.read()
        async with (
            ClientSession() as session,
            session.request(
                request.method, f"{self.url}{request.rel_url}", data=body or None
            ) as answer,
        ):
            return web.Response(
                status=answer.status,
                body=await answer.read(),
                content_type=answer.content_type,
            )


async def flink_state(url):
    async with ClientSession() as session, session.get(f"{url}/jobs/overview") as answer:
        (job,) = (await answer.json())["jobs"]
        return {name: job[name] for name in ("jid", "state", "start-time", "tasks")}


async def test_a_stock_job_gets_advice_and_a_bill_and_is_not_touched(stock_flink, tmp_path):
    listener = Listener(stock_flink.url)
    server = web.Application()
    server.router.add_route("*", "/{path:.*}", listener.pass_on)
    store = MemoryStatusStore()
    advised: asyncio.Queue[Advice | None] = asyncio.Queue()
    found: list[tuple[LoopSettings, Mapping[str, float]]] = []
    ticks: list[Tick] = []
    path = tmp_path / "state/records.sqlite"
    kept, records = TolerantRecords(path, lambda reason, message: None), RecordStore(path)
    processes, state = stock_flink.alive(), await flink_state(stock_flink.url)
    app = a_stream_app(
        mode="Advise",
        flink={"ref": {"kind": "FlinkDeployment", "name": "trips"}},
        objective={"responseTime": "500ms"},
        operatorManager={"interval": "3s"},
        nodePools=POOLS,
    )

    async with TestServer(server, host="127.0.0.1") as proxy:
        around = ExternalDependencies(
            api=FakeCluster(flink_deployment_objects(port=proxy.port or 0)),
            store=store,
            records=kept,
            folder=tmp_path / "state",
            prometheus=None,
            clock=SystemClock(),
            on_found=lambda *terms: found.append(terms),
            on_tick=ticks.append,
            on_advice=advised.put_nowait,
            on_event=lambda event: None,
            poll_every=1.0,
        )
        stop = asyncio.Event()
        running = asyncio.create_task(ExternalApp(app, around).run(stop))
        async with asyncio.timeout(120):
            advice = await advised.get()
            # Intervals of 3 s are a rough measure: a rate that seems to rise puts a saving off.
            while advice is None or advice.cost_advised >= advice.cost_now:
                advice = await advised.get()
        stop.set()
        await running

    # Two vCPUs of a TaskManager and one of a JobManager, on the small pool.
    assert advice.cost_now == pytest.approx(3 * 0.04)
    assert ticks[-1].snapshot.app is not None
    measured = ticks[-1].snapshot.app.operators["score-slow"]
    assert measured.arrival_rate == pytest.approx(40, rel=0.2)
    assert 0.007 < measured.service_mean < 0.03  # 10 ms, and what the machine adds
    assert measured.response_time > 0  # by its latency markers
    assert [record.operator for record in records.decisions(limit=1)]
    [(settings, prices)] = found
    assert cost_per_hour(
        ticks[-1].deployments, prices, job_manager=settings.job_manager_price
    ) == pytest.approx(advice.cost_now)
    # Nothing was touched, and nothing is left that a later start would take for its own.
    assert listener.asked == {"GET"}
    assert stock_flink.alive() == processes
    assert await flink_state(stock_flink.url) == state
    assert store.load() == AppStatus()
    records.close()
    kept.close()
