"""An engine over a miniature Flink, for tests of changes."""

from typing import cast

from tests.operator.rescale.fakes import FakeClock, FakeWorld, JobsOf, MemoryStatusStore
from weir_operator.rescale.engine import EngineParts, Rescaler
from weir_operator.rescale.flink import FlinkJobs
from weir_operator.rescale.journal import Kind, plan
from weir_operator.rescale.settings import JobSpec, RescaleSettings

ONE = {"match": {"small/250m": 1}}
NAMES = {"match": "--weir.parallelism.match"}


def an_engine(world, store, settings, **spec):
    """Return the engine of a job with one operator, `match`."""
    return Rescaler(engine_parts(world, store, settings, **spec))


def engine_parts(world, store, settings, *, arguments=(), adapt=None, **spec):
    """Return what the engine of a job with one operator needs."""
    return EngineParts(
        runtime=world,
        jobs=cast(FlinkJobs, JobsOf(world)),
        spec=JobSpec(
            **{
                "entry_class": None,
                "arguments": arguments,
                "parallelism_arguments": NAMES,
                "max_parallelism": 720,
                **spec,
            }
        ),
        store=store,
        settings=settings,
        clock=world.clock,
        adapt=adapt,
    )


class Bench:
    """A world with an engine over it."""

    def __init__(self, *, world=None, arguments=(), spec=None, **settings):
        self.world = FakeWorld(FakeClock()) if world is None else world
        self.clock = self.world.clock
        self.store = MemoryStatusStore()
        self.settings = RescaleSettings(**settings)
        self.arguments = arguments
        self.spec = spec or {}
        self.adapt = None

    def engine(self):
        return an_engine(
            self.world,
            self.store,
            self.settings,
            arguments=self.arguments,
            adapt=self.adapt,
            **self.spec,
        )

    async def change(self, target, kind=Kind.RESCALE, **more):
        status = self.store.load()
        journal = plan(
            kind=kind,
            reason="a test",
            now=self.clock.now(),
            source=status.deployments,
            target=target,
            old_job=status.job_id,
            **{"restore_path": status.restore_path, **more},
        )
        return await self.engine().execute(journal)

    async def started(self, target=ONE, **more):
        await self.change(target, Kind.START, **more)
        self.world.process(100)
        return self

    @property
    def runs_with(self):
        """Arguments of the job that runs."""
        [job] = self.world.running()
        return self.world.jobs[job].arguments

    def exact(self):
        """Return whether no record was lost or emitted twice, of ten more as well."""
        self.world.process(10)
        return self.world.lost_and_doubled() == (0, 0)
