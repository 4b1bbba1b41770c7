"""One StreamApp's advice from its first look to its end: away, back, changed, and told once."""

import asyncio

import pytest

from tests.operator.advise.conftest import JOB
from tests.operator.advise.fakes import FakeCluster, flink_deployment_objects
from tests.operator.rescale.fakes import MemoryStatusStore, TurnTakingClock
from tests.operator.streamapp.builders import a_stream_app
from weir_operator.advise.advice import Advice
from weir_operator.advise.app import ExternalApp, ExternalDependencies
from weir_operator.advise.flink_deployment import OVERRIDES
from weir_operator.loop.directives import Directives, LoopSettings
from weir_operator.loop.events import Event
from weir_operator.loop.record import TolerantRecords
from weir_operator.loop.tick import Tick
from weir_operator.streamapp.models import Mode


class Advised:
    """An adopted StreamApp that runs until the test has heard what it waits for."""

    def __init__(self, cluster, folder, mode=Mode.ADVISE):
        self.events: list[Event] = []
        self.found: list[LoopSettings] = []
        self.ticks: list[Tick] = []
        self.advice: list[Advice | None] = []
        self.clock = TurnTakingClock()
        self.directives = Directives(mode=mode)
        self.heard = asyncio.Event()
        self.stop = asyncio.Event()
        self.records = TolerantRecords(folder / "records.sqlite", lambda reason, message: None)
        app = a_stream_app(
            mode=mode.value,
            operatorManager={"policy": {"name": "queueing"}},
            flink={"ref": {"kind": "FlinkDeployment", "name": "trips"}, "maxParallelism": 128},
        )
        self.app = ExternalApp(
            app,
            ExternalDependencies(
                api=cluster,
                writer=cluster if mode is Mode.AUTO else None,
                store=MemoryStatusStore(),
                records=self.records,
                folder=folder,
                prometheus=None,
                clock=self.clock,
                on_found=lambda settings, prices: self.take(self.found)(settings),
                on_tick=self.take(self.ticks),
                on_advice=self.take(self.advice),
                directives=lambda: self.directives,
                on_event=self.take(self.events),
            ),
        )

    def take(self, into):
        def append(news):
            into.append(news)
            self.heard.set()

        return append

    async def until(self, happened):
        async with asyncio.timeout(150):  # a policy may have to be compiled first
            while not happened():
                self.heard.clear()
                await self.heard.wait()

    @property
    def reasons(self):
        return [event.reason for event in self.events]

    async def __aenter__(self):
        self.running = asyncio.create_task(self.app.run(self.stop))
        return self

    async def __aexit__(self, *error):
        self.stop.set()
        await self.running
        self.records.close()


@pytest.fixture
def cluster(flink):
    return FakeCluster(flink_deployment_objects(port=flink.port))


async def test_a_job_that_is_not_there_is_told_of_once_and_waited_for(cluster, tmp_path):
    objects, cluster.objects = cluster.objects, {}

    async with Advised(cluster, tmp_path) as advised:
        await advised.until(lambda: "JobNotSeen" in advised.reasons)
        looks = len(cluster.asked)
        while len(cluster.asked) < looks + 5:
            await asyncio.sleep(0)
        cluster.objects = objects
        await advised.until(lambda: advised.found)

    assert advised.reasons.count("JobNotSeen") == 1


async def test_a_job_with_other_vertices_gets_loops_of_its_own(cluster, flink, tmp_path):
    def decides_for(operator):
        return any(operator in tick.deployments for tick in advised.ticks)

    async with Advised(cluster, tmp_path) as advised:
        await advised.until(lambda: decides_for("score-slow"))
        flink.bring_out({"Score (slow)": "Score (fast)"})
        await advised.until(lambda: decides_for("score-fast"))

    assert len(advised.found) == 2
    [changed] = [each.message for each in advised.events if each.reason == "JobChanged"]
    assert "source-numbers, score-fast, nowhere-writer" in changed


async def test_a_reset_takes_back_what_was_advised(cluster, tmp_path):
    async with Advised(cluster, tmp_path) as advised:
        await advised.until(lambda: advised.found)
        advised.directives = Directives(mode=Mode.ADVISE, reset_nonce=1)
        await advised.until(lambda: advised.advice)

    assert advised.advice == [None]
    assert "LearnedForgotten" in advised.reasons


TRACE = "java.lang.IllegalStateException: customer 4711 has no address\n"


@pytest.mark.parametrize(
    "restarted",
    [
        {'"RUNNING":1795256785855': '"RUNNING":1795256799999'},  # before anybody looked
        {'"RUNNING":1795256785855': '"RUNNING":0', '"tm-a"': '"(unassigned)"'},
    ],
)
async def test_a_job_that_fails_again_and_again_is_told_of_with_the_newest_exception(
    restarted, cluster, flink, tmp_path
):
    async with Advised(cluster, tmp_path) as advised:
        await advised.until(lambda: advised.found)
        # The clock jumps ahead while an answer is under way, so failures are of then.
        flink.failures = lambda: [
            {"timestamp": 1000 * (advised.clock.now() - age), "stacktrace": TRACE}
            for age in (0, 30)
        ]
        flink.bring_out(restarted)
        await advised.until(lambda: "JobFailing" in advised.reasons)

    told = [each.message for each in advised.events if each.reason == "JobFailing"]
    assert told[0].startswith("The job has failed 2 times")
    assert "customer 4711 has no address" in told[0]


VERTEX = "0a448493b4782967b150582570326227"


class WritableCluster(FakeCluster):
    """A namespace whose FlinkDeployment takes what is tried."""

    async def apply(self, path, body, manager="", *, force=True, dry_run=False):
        assert dry_run, "only tried here"
        return body


@pytest.fixture
def scaled_cluster(flink):
    """A FlinkDeployment that is scaled to three, over a job of Flink 2.x that has two."""
    objects = flink_deployment_objects(port=flink.port)
    [deployment] = [thing for path, thing in objects.items() if path.endswith("/trips")]
    overrides = {OVERRIDES: f"{VERTEX}:3"}
    deployment["spec"] = {"job": {}, "flinkConfiguration": overrides}
    deployment["status"] = {"jobStatus": {"state": "RUNNING"}}
    flink.given = {
        "/overview": {"flink-version": "2.0.1"},
        "/jobmanager/config": [{"key": "jobmanager.scheduler", "value": "Adaptive"}],
        f"/jobs/{JOB}/checkpoints/config": {"interval": 60_000},
        f"/jobs/{JOB}/resource-requirements": {
            VERTEX: {"parallelism": {"lowerBound": 1, "upperBound": 2}}
        },
    }
    return WritableCluster(objects)


async def test_a_job_that_lost_its_parallelism_gets_it_again_at_each_look(scaled_cluster, tmp_path):
    async with Advised(scaled_cluster, tmp_path, Mode.AUTO) as scaled:
        await scaled.until(lambda: scaled.reasons.count("ParallelismRestored") >= 2)

    assert "ScalingRefused" not in scaled.reasons


async def test_a_job_without_checkpoints_is_told_to_be_refused(scaled_cluster, flink, tmp_path):
    flink.given[f"/jobs/{JOB}/checkpoints/config"] = {"interval": 2**63 - 1}

    async with Advised(scaled_cluster, tmp_path, Mode.AUTO) as scaled:
        await scaled.until(lambda: "ScalingRefused" in scaled.reasons)

    assert "ParallelismRestored" not in scaled.reasons


async def test_a_job_that_the_operator_is_upgrading_is_held(scaled_cluster, tmp_path):
    [deployment] = [t for path, t in scaled_cluster.objects.items() if path.endswith("/trips")]
    deployment["status"] = {"jobStatus": {"state": "RECONCILING"}}

    async with Advised(scaled_cluster, tmp_path, Mode.AUTO) as scaled:
        await scaled.until(lambda: scaled.found)
        held = scaled.app._asked().refused

    assert "expected RUNNING, got RECONCILING" in held
