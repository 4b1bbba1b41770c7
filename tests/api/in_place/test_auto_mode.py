"""In mode Auto, the loops scale the job of a FlinkDeployment, and keep its parallelism.

The stand-in for the operator does not run here: of Flink 2.x, Weir itself tells the running job.
"""

import asyncio
from collections.abc import Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.api.in_place.conftest import JOB, WithService, parallelism_of
from tests.operator.rescale.fakes import MemoryStatusStore
from tests.operator.runtime.waiting import until
from tests.operator.streamapp.builders import a_stream_app
from weir_operator.advise.app import ExternalApp, ExternalDependencies
from weir_operator.advise.flink_deployment import read_flink_deployment
from weir_operator.clock import SystemClock
from weir_operator.flink.jars import build_jar
from weir_operator.flink.rest import FlinkRest
from weir_operator.loop.events import Event
from weir_operator.loop.record import RecordStore, TolerantRecords
from weir_operator.loop.tick import Tick
from weir_operator.rescale.journal import Kind, RescaleJournal, Step

pytestmark = [
    pytest.mark.long,
    pytest.mark.kubernetes_api,
    pytest.mark.flink,
    pytest.mark.timeout(600),
]

HERE = Path(__file__).parent
LATER = "6" * 32
INTERVAL = 4


@pytest.fixture(scope="module")
def scored_jar(tmp_path_factory):
    folder = tmp_path_factory.mktemp("jars")
    return build_jar([HERE / "Scored.java"], folder / "scored.jar", entry_class="Scored")


class Auto:
    """A StreamApp in mode Auto, with what it has said and done."""

    def __init__(self, api, kube, folder):
        app = a_stream_app(
            mode="Auto",
            flink={"ref": {"kind": "FlinkDeployment", "name": "trips"}},
            objective={"responseTime": "200ms"},
            nodePools=[{"name": "taskmanagers", "price": "0.04"}],
            operators=[
                {"name": "source-numbers", "maxReplicas": 1},
                {"name": "score", "maxReplicas": 3},
                {"name": "nowhere-writer", "maxReplicas": 1},
            ],
            operatorManager={"interval": f"{INTERVAL}s", "policy": {"name": "queueing"}},
        )
        metadata = app.metadata.model_copy(update={"namespace": kube.namespace})
        self.store = MemoryStatusStore()
        self.kept = TolerantRecords(folder / "records.sqlite", lambda reason, message: None)
        self.records = RecordStore(folder / "records.sqlite")
        self.changes: list[RescaleJournal] = []
        self.events: list[Event] = []
        self.prices: list[Mapping[str, float]] = []
        self.ticks: list[Tick] = []
        self.stop = asyncio.Event()
        self.app = ExternalApp(
            app.model_copy(update={"metadata": metadata}),
            ExternalDependencies(
                api=api,
                writer=api,
                store=self.store,
                records=self.kept,
                folder=folder,
                prometheus=None,
                clock=SystemClock(),
                on_found=lambda settings, prices: self.prices.append(prices),
                on_tick=self.ticks.append,
                on_advice=lambda advice: None,
                on_event=self.events.append,
                on_change=self.changes.append,
                poll_every=1.0,
            ),
        )

    def ended(self, step):
        return [each for each in self.changes if each.step is step]

    def told(self, reason):
        return [each.message for each in self.events if each.reason == reason]


@asynccontextmanager
async def running(api, kube, folder):
    auto = Auto(api, kube, folder)
    task = asyncio.create_task(auto.app.run(auto.stop))
    try:
        yield auto
    finally:
        auto.stop.set()
        await task
        auto.records.close()
        auto.kept.close()


async def test_an_overloaded_job_is_scaled_out_and_keeps_its_parallelism_over_a_restart(
    api, kube, flink_deployments, adaptive_flink, scored_jar, tmp_path
):
    api = WithService(api, adaptive_flink.ports[0])
    async with FlinkRest(adaptive_flink.url) as rest:
        jar = await rest.upload_jar(str(scored_jar))
        await rest.run_jar(jar, job_id=JOB, arguments=["130", "10"], parallelism=1)
        await parallelism_of(rest)
        async with running(api, kube, tmp_path / "state") as auto:

            async def is_done():
                return auto.ended(Step.DONE)

            (change, *_) = await until(is_done)
            scaled = await parallelism_of(rest)
            wanted = (await read_flink_deployment(api, kube.namespace, "trips")).overrides
            # As the operator does with an upgrade, but for the overrides, which 2.x ignores.
            await rest.cancel(JOB)
            await rest.run_jar(jar, job_id=LATER, arguments=["130", "10"], parallelism=1)

            async def is_restored():
                told = auto.told("ParallelismRestored")
                return told and await parallelism_of(rest, LATER) == scaled

            await until(is_restored)
            decided = auto.records.decisions(limit=50)

    assert change.kind is Kind.RESCALE
    assert change.source["score"] == {"taskmanagers/1": 1}
    assert {"Source: numbers": 1, "nowhere: Writer": 1}.items() <= scaled.items()
    assert scaled["score"] == sum(change.target["score"].values()) >= 2
    assert sorted(wanted.values()) == sorted(scaled.values())
    assert "score" in change.reason
    assert any(record.operator == "score" for record in decided)
    # One kind of TaskManager, of which the FlinkDeployment says the CPU and the manifest the price.
    assert list(auto.prices[0]) == ["taskmanagers/1"]
