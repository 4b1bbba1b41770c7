"""A controller over a miniature Flink, under a load that the test sets."""

import asyncio
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import cast

import pytest

from tests.operator.flink.builders import a_vertex
from tests.operator.metrics.builders import Load, a_window
from tests.operator.rescale.fakes import FakeClock, FakeWorld, JobsOf, MemoryStatusStore
from tests.operator.streamapp.builders import a_stream_app
from weir_operator.flink.topology import OperatorEdge, Topology
from weir_operator.loop.app_state import AppState, LearnedStore
from weir_operator.loop.bounds import cost_per_hour, prices
from weir_operator.loop.directives import directives_of
from weir_operator.loop.events import Event
from weir_operator.loop.gather import Gatherer, layout_of
from weir_operator.loop.lifecycle import FirstStart, Lifecycle
from weir_operator.loop.loop import ApplicationController, Deciders, Surroundings
from weir_operator.loop.record import LoopStart, RecordStore, TolerantRecords
from weir_operator.loop.shadow import Advisor
from weir_operator.rescale.engine import EngineParts, Rescaler
from weir_operator.rescale.flink import FlinkJobs
from weir_operator.rescale.settings import RescaleSettings
from weir_operator.streamapp import world
from weir_operator.wiring import assembly

CHAIN = ("gen", "match", "count", "out")
POOLS = [
    {"name": "small", "sizes": ["500m", "1"], "memory": "1Gi", "price": "0.04", "speedup": "1.0"},
    {"name": "large", "sizes": ["1", "2"], "memory": "1Gi", "price": "0.05", "speedup": "1.6"},
]
ONE = {"small/1": 1}


TOPOLOGY = Topology(
    operators=CHAIN,
    vertices={name: (a_vertex(name, id=f"v-{name}"),) for name in CHAIN},
    edges=tuple(
        OperatorEdge(source=source, target=target, keyed=False, balanced=True)
        for source, target in pairwise(CHAIN)
    ),
    sources=("gen",),
)


def steady_loads(rate, *, busy=0.5, latency=0.1):
    """A steady job in which `match` works 20 ms on a record and `count` 10 ms."""
    return {
        "gen": Load(rate=rate, busy=0.1, pending=0),
        "match": Load(rate=rate, busy=busy, service_mean=0.02, age=0.01),
        "count": Load(rate=rate, busy=busy / 2, service_mean=0.01, age=0.06),
        "out": Load(rate=rate, busy=0.1, service_mean=0.0001, age=0.09, latency=latency),
    }


class Stage:
    """A controller over a miniature world under a load that the test sets."""

    def __init__(self, folder, **spec):
        self.folder = folder
        self.clock = FakeClock()
        self.world = FakeWorld(self.clock)
        self.store = MemoryStatusStore()
        self.records = RecordStore(folder / "records.sqlite")
        self.kept = TolerantRecords(folder / "records.sqlite", self._report)
        """The same, as the loops write them."""
        self.events = []
        self.changes = []
        self.loads = steady_loads(20)
        self.poison = None
        self.running_for = 0.0
        self.key_lines = ()
        """What the agent counted of keys, as it writes it."""
        self.keyed = False
        """Whether all operators get their records by key; set before the start."""
        self.phase = None
        self.app = a_stream_app(
            **{
                "objective": {"responseTime": "500ms"},
                "nodePools": POOLS,
                "operators": [
                    {"name": "gen", "fixed": ONE},
                    {"name": "match", "maxReplicas": 6, "initial": ONE},
                    {"name": "count", "maxReplicas": 6, "initial": ONE},
                    {"name": "out", "fixed": ONE},
                ],
                "operatorManager": {"interval": "5s"},
                **spec,
            }
        )
        self.directives = directives_of(self.app)
        self.shared = None
        self.shared_operators = None

    def ask(self, **changes):
        """Let directives say something else from the next tick on."""
        self.directives = replace(self.directives, **changes)

    def put_under(self, rate, *, busy=0.5, latency=0.1, **others):
        """Change the load from the next tick on; `others` are operators that behave otherwise."""
        self.loads = steady_loads(rate, busy=busy, latency=latency) | others

    async def window(self, *, start, end):
        job = self.store.load().job_id
        assert job is not None
        layout = layout_of(job, TOPOLOGY, await self.world.replicas())
        window = a_window(layout, self.loads, start=start, end=end, period=1.0)
        return self.poison(window) if self.poison else window

    async def close(self):
        """Nothing is held."""

    async def topology(self, job_id):
        edges = tuple(replace(each, keyed=self.keyed) for each in TOPOLOGY.edges)
        return replace(TOPOLOGY, edges=edges, running_for=self.running_for)

    async def key_texts(self, job_id, topology):
        return self.key_lines

    async def started(self):
        jobs = cast(FlinkJobs, JobsOf(self.world))
        parts = self.parts = EngineParts(
            runtime=self.world,
            jobs=jobs,
            spec=assembly.job_spec(self.app, beside=self.folder),
            store=self.store,
            settings=RescaleSettings(),
            clock=self.clock,
        )
        lifecycle = Lifecycle(
            parts,
            rescaler=Rescaler(parts),
            start=FirstStart(deployments=assembly.initial_deployments(self.app)),
            on_event=self.events.append,
            on_change=self._on_change,
        )
        await lifecycle.bring_up()
        self.lifecycle = lifecycle
        self.controller = self.controller_over(lifecycle)
        await self.tick()  # the first look finds out who serves what, and holds
        return self

    def controller_over(self, lifecycle):
        settings = replace(assembly.loop_settings(self.app), phase=self.phase)
        self.managers = assembly.operator_managers(self.app)
        manager = self.am = assembly.application_manager(self.app, shared=self.shared)
        self.learned = LearnedStore(
            self.folder / "learned.json",
            policy=settings.policy,
            settings={},
            reset_nonce=0,
            sharing=manager.sharing,
        )
        gatherer = Gatherer(
            settings=settings,
            parts=replace(self.parts, jobs=cast(FlinkJobs, self)),
            lifecycle=lifecycle,
            source=self,
        )
        self.memory = AppState(
            managers=self.managers,
            restarts=manager.restarts,
            store=self.store,
            records=self.kept,
            learned=self.learned,
            advisor=Advisor(
                self.managers,
                manager,
                self.folder / "forecast.json",
                policy=settings.policy,
                reset_nonce=self.app.spec.reset_nonce,
                cost=partial(
                    cost_per_hour,
                    prices=prices(self.app),
                    job_manager=settings.job_manager_price,
                ),
            ),
            settings=settings,
            start=LoopStart(
                time=self.clock.now(),
                app=assembly.what_decides(self.app),
                policy=settings.policy,
            ),
        )
        return ApplicationController(
            settings=settings,
            directives=lambda: self.directives,
            gatherer=gatherer,
            lifecycle=lifecycle,
            deciders=Deciders(
                operators={each.name: each for each in world.operators(self.app)},
                managers=self.managers,
                application=manager,
                shared=self.shared_operators,
            ),
            memory=self.memory,
            around=Surroundings(
                store=self.store,
                clock=self.clock,
                on_tick=lambda tick: None,
                on_event=self.events.append,
                wait=lambda: asyncio.sleep(0.01),
            ),
        )

    def _on_change(self, journal):
        self.changes.append(journal)
        self.kept.write([journal])

    def _report(self, reason, message):
        self.events.append(Event(time=self.clock.now(), reason=reason, message=message))

    async def tick(self):
        """Let an interval pass and take its tick; what it begins has not yet begun to act."""
        self.clock.time += 5
        return await self.controller.tick()

    async def done(self):
        """Let everything that a tick has begun come to its end."""
        await asyncio.gather(*(asyncio.all_tasks() - {asyncio.current_task()}))

    async def ticks(self, count):
        taken = []
        for _ in range(count):
            taken.append(await self.tick())
            await self.done()
        return taken

    def ends(self, kind):
        return [each for each in self.changes if each.kind == kind and each.step.is_end]

    @property
    def reasons(self):
        return [event.reason for event in self.events]


@pytest.fixture
def stage_of(tmp_path):
    stages = []

    def build(**spec):
        stages.append(Stage(tmp_path, **spec))
        return stages[-1]

    yield build
    for stage in stages:
        stage.records.close()
        stage.kept.close()
