"""A change of an external job whose owner deploys another program in the middle of it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from weir_operator.errors import TemporaryError
from weir_operator.external.in_place import InPlace, InPlaceRescaler
from weir_operator.external.watch import JobWatch
from weir_operator.flink.answers import Job, JobState, Vertex
from weir_operator.flink.topology import group_vertices
from weir_operator.rescale.engine import Rescaler
from weir_operator.rescale.journal import Kind, Step, plan
from weir_operator.rescale.settings import RescaleSettings
from weir_operator.rescale.testing import FakeClock, FakeWorld, MemoryStatusStore

ONE = {"source": {"any/1": 1}, "count": {"any/1": 1}}
TWO = {"source": {"any/1": 1}, "count": {"any/1": 2}}


def a_job(*names: str, **parallelism: int) -> Job:
    """Return a job that runs, with an id for each vertex that is its name."""
    return Job(
        id="5" * 32,
        name="trips",
        state=JobState.RUNNING,
        started=0.0,
        vertices=tuple(
            Vertex(
                id=name,
                name=name,
                parallelism=parallelism.get(name, 1),
                max_parallelism=128,
                slot_sharing_group=None,
                tasks={"RUNNING": parallelism.get(name, 1)},
            )
            for name in names
        ),
        edges=(),
    )


class Owner:
    """Flink and the cluster, as `JobWatch` sees them: a job, which its owner may replace."""

    def __init__(self) -> None:
        self.runs: Job | None = None
        self.job: Any = None
        self.deploy(a_job("source", "count"))

    def deploy(self, job: Job | None) -> None:
        self.runs = job

    async def run(self) -> Job:
        if self.runs is None:
            self.job = None
            raise TemporaryError("expected a running job, got none")
        return self.runs

    async def refresh(self, *, whole: bool = False) -> Any:
        job = await self.run()
        named = {vertex.id: vertex.name for vertex in job.vertices}
        self.job = SimpleNamespace(name=job.name, topology=group_vertices(job, named))
        return self.job


class Written(InPlace):
    """Notes what would be written, and lets a test do something right after it."""

    def __init__(self, owner: Owner) -> None:
        super().__init__(cast(Any, None), cast(JobWatch, owner), guard=None)
        self.owner = owner
        self.written: list[dict[str, int]] = []
        self.on_write: Any = lambda wanted: None

    async def check(self, *, dry_run: bool = False) -> Any:
        return None

    async def write(self, wanted: Any) -> None:
        self.written.append(dict(wanted))
        self.on_write(wanted)

    async def restore(self, *, dry_run: bool = False) -> bool:
        return False


class Change:
    """An engine over the stand-ins."""

    def __init__(self) -> None:
        self.owner = Owner()
        self.in_place = Written(self.owner)
        self.store = MemoryStatusStore()
        world = FakeWorld(FakeClock())
        self.engine: Rescaler = InPlaceRescaler(
            in_place=self.in_place,
            watch=cast(JobWatch, self.owner),
            runtime=world,
            jobs=world,
            spec=None,
            store=self.store,
            settings=RescaleSettings(),
            clock=world.clock,
        )
        self.clock = world.clock

    async def to_two(self):
        await self.owner.refresh()
        journal = plan(
            kind=Kind.RESCALE, reason="a test", now=0.0, source=ONE, target=TWO, old_job="5" * 32
        )
        return await self.engine.execute(journal)


@pytest.fixture
def change():
    return Change()


async def test_a_program_with_other_vertices_in_mid_change_ends_it_without_a_failure(change):
    change.in_place.on_write = lambda wanted: change.owner.deploy(a_job("source", "sum", "sink"))

    end = await change.to_two()

    assert (end.step, end.withdrawn) == (Step.ABANDONED, True)
    assert "its owner has deployed another program" in (end.failure or "")
    assert change.in_place.written == [{"source": 1, "count": 2}]
    assert change.store.load().failed == (), "the loops are made again and decide again"


async def test_a_job_that_is_away_while_its_owner_replaces_it_is_waited_for(change):
    change.in_place.on_write = lambda wanted: change.owner.deploy(None)
    sleep = change.clock.sleep

    async def until_it_is_back(seconds):
        await sleep(seconds)
        if change.clock.monotonic() > 1095:
            change.owner.deploy(a_job("source", "sum"))

    change.clock.sleep = until_it_is_back

    end = await change.to_two()

    assert (end.step, end.withdrawn) == (Step.ABANDONED, True)


async def test_the_way_back_is_tried_again(change):
    left = [3]

    def grow_late(wanted):
        if wanted["count"] == 1:
            left[0] -= 1
            change.owner.deploy(a_job("source", "count", count=2 if left[0] else 1))
        else:
            change.owner.deploy(a_job("source", "count", count=1))
        # Neither direction has its parallelism until the third way back.

    change.in_place.on_write = grow_late

    end = await change.to_two()

    assert end.step is Step.ROLLED_BACK
    assert [each["count"] for each in change.in_place.written] == [2, 1, 1, 1]
    assert change.store.load().failed[-1].deployment == TWO


async def test_a_way_back_that_never_runs_ends_as_failed(change):
    change.in_place.on_write = lambda wanted: change.owner.deploy(a_job("source", "count", count=3))

    end = await change.to_two()

    assert end.step is Step.FAILED
    assert len(change.in_place.written) == 1 + RescaleSettings().back_attempts
