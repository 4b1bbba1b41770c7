"""A change of an external job: its end, the way back, and an owner who deploys in mid-change."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.operator.advise.fakes import FakeCluster
from tests.operator.flink.builders import a_job, a_vertex
from tests.operator.rescale.fakes import FakeClock, FakeWorld, MemoryStatusStore
from weir_operator.advise import in_place as in_place_module
from weir_operator.advise.flink import FlinkRescale, RescaleDetails
from weir_operator.advise.flink_deployment import PATH
from weir_operator.advise.in_place import InPlace, InPlaceRescaler, NotRunningError
from weir_operator.advise.watch import JobWatch
from weir_operator.errors import PermanentError, TemporaryError
from weir_operator.flink.answers import JobDetails, JobState
from weir_operator.flink.topology import group_vertices
from weir_operator.rescale.closing import BACK_ATTEMPTS
from weir_operator.rescale.engine import EngineParts, Rescaler
from weir_operator.rescale.flink import Progress
from weir_operator.rescale.flow import Reading
from weir_operator.rescale.journal import Kind, Step, gap_of, plan, summarise_change
from weir_operator.rescale.settings import JobSpec, RescaleSettings

ONE = {"source": {"any/1": 1}, "count": {"any/1": 1}}
TWO = {"source": {"any/1": 1}, "count": {"any/1": 2}}


def counting(parallelism: int) -> JobDetails:
    """Return a job with so many subtasks that count."""
    return a_job(["source", a_vertex("count", parallelism=parallelism)])


class Owner:
    """Flink and the cluster, as `JobWatch` sees them: a job, which its owner may replace."""

    def __init__(self) -> None:
        self.runs: JobDetails | None = None
        self.job: Any = None
        self.deploy(a_job(["source", "count"]))

    def deploy(self, job: JobDetails | None) -> None:
        self.runs = job

    flink: Any = None
    reference = None

    async def run(self) -> JobDetails:
        if self.runs is None:
            self.job = None
            raise TemporaryError("expected a running job, got none")
        return self.runs

    async def refresh(self, *, whole: bool = False) -> Any:
        job = await self.run()
        named = {vertex.id: vertex.name for vertex in job.vertices}
        self.job = SimpleNamespace(id=job.id, name=job.name, topology=group_vertices(job, named))
        return self.job


class Written(InPlace):
    """Notes what would be written, and lets a test do something right after it."""

    def __init__(self, owner: Owner) -> None:
        super().__init__(cast(Any, None), cast(JobWatch, owner), guard=None, clock=FakeClock())
        self.owner = owner
        self.not_running = ""
        """Why the operator would upgrade the job, if it would."""
        self.written: list[dict[str, int]] = []
        self.on_write: Any = lambda wanted: None

    async def check(self, *, dry_run: bool = False) -> Any:
        return None

    async def require_running(self) -> None:
        if self.not_running:
            raise NotRunningError(self.not_running)

    async def write(self, wanted: Any, *, is_back: bool = False) -> None:
        await self.require_running()
        self.written.append(dict(wanted))
        self.on_write(wanted)

    async def restore(self) -> bool:
        return False


class Flows:
    """The job as the engine asks of it: what it has read is as a test sets it."""

    def __init__(self, clock: FakeClock, written: list[dict[str, int]]) -> None:
        self.clock = clock
        self.written = written
        self.rate = 10.0
        """Records per second before the change."""
        self.after = 10.0
        """And after it."""
        self.pending = math.nan

    async def progress(self, job_id: str) -> Progress:
        return Progress(state=JobState.RUNNING, running=True, ran=True)

    async def reading(self, job_id: str) -> Reading:
        rate = self.after if self.written else self.rate
        # The count goes on from before the restart, as that of a Flink that counts seldom.
        return Reading(
            records=5000.0 + rate * self.clock.monotonic(), pending=self.pending, ended=False
        )


class Change:
    """An engine over the stand-ins."""

    def __init__(self) -> None:
        self.owner = Owner()
        self.in_place = Written(self.owner)
        self.store = MemoryStatusStore()
        world = FakeWorld(FakeClock())
        self.flows = Flows(world.clock, self.in_place.written)
        self.engine: Rescaler = InPlaceRescaler(
            EngineParts(
                runtime=world,
                jobs=cast(Any, self.flows),
                spec=JobSpec(
                    entry_class=None, arguments=(), parallelism_arguments={}, max_parallelism=128
                ),
                store=self.store,
                settings=RescaleSettings(),
                clock=world.clock,
            ),
            in_place=self.in_place,
            watch=cast(JobWatch, self.owner),
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
    change.in_place.on_write = lambda wanted: change.owner.deploy(a_job(["source", "sum", "sink"]))

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
        if change.in_place.written and change.clock.monotonic() > 1095:
            change.owner.deploy(a_job(["source", "sum"]))

    change.clock.sleep = until_it_is_back

    end = await change.to_two()

    assert (end.step, end.withdrawn) == (Step.ABANDONED, True)


async def test_the_way_back_is_tried_again(change):
    left = [3]

    def grow_late(wanted):
        if wanted["count"] == 1:
            left[0] -= 1
            change.owner.deploy(counting(2 if left[0] else 1))
        else:
            change.owner.deploy(counting(1))
        # Neither direction has its parallelism until the third way back.

    change.in_place.on_write = grow_late

    end = await change.to_two()

    assert end.step is Step.ROLLED_BACK
    assert [each["count"] for each in change.in_place.written] == [2, 1, 1, 1]
    assert change.store.load().failed[-1].deployment == TWO


async def test_a_way_back_that_never_runs_ends_as_failed(change):
    change.in_place.on_write = lambda wanted: change.owner.deploy(counting(3))

    end = await change.to_two()

    assert end.step is Step.FAILED
    assert len(change.in_place.written) == 1 + BACK_ATTEMPTS


def grow(change):
    """Let the job take each parallelism that is written."""
    change.in_place.on_write = lambda wanted: change.owner.deploy(counting(wanted["count"]))


async def test_a_change_is_done_when_records_pass(change):
    grow(change)

    end = await change.to_two()

    assert (end.step, end.flowed, end.no_record_seen) == (Step.DONE, True, False)


class History:
    """Flink with a history of rescales, each of which stopped the job at 100 s."""

    def __init__(self, *rescales: FlinkRescale, count: int = 2, ran: float = 101.25) -> None:
        self._rescales = rescales
        self._parallelism = {"source": 1, "count": count}
        self._ran = ran

    async def rescales(self, job_id: str) -> tuple[FlinkRescale, ...]:
        return self._rescales

    async def rescale(self, job_id: str, rescale_id: str) -> RescaleDetails:
        assert rescale_id == "at 30"
        return RescaleDetails(stopped=100.0, parallelism=self._parallelism)

    async def ran_at(self, job_id: str, vertex_id: str) -> float:
        return self._ran if vertex_id == "count" else 100.5


def a_rescale(started: float, reason: str = "SUCCEEDED") -> FlinkRescale:
    return FlinkRescale(id=f"at {started:g}", started=started, reason=reason)


async def test_a_change_says_how_long_its_rescale_kept_the_slowest_task_from_running(change):
    grow(change)
    change.owner.flink = History(
        a_rescale(-100.0),  # before the change
        a_rescale(20.0, reason="RESOURCE_REQUIREMENTS_UPDATED"),
        a_rescale(30.0),
    )

    end = await change.to_two()

    assert gap_of(end) == 1.25
    assert summarise_change(end).endswith("(job down for 1.25 s)")


@pytest.mark.parametrize(
    "history",
    [
        History(),
        History(a_rescale(-100.0)),
        History(a_rescale(30.0), count=1),
        History(a_rescale(30.0), a_rescale(40.0)),  # one may be the restart after a failure
    ],
    ids=["no history", "before the change", "to another parallelism", "several"],
)
async def test_a_change_says_nothing_where_the_history_does_not_show_its_rescale(change, history):
    grow(change)
    change.owner.flink = history

    end = await change.to_two()

    assert end.step is Step.DONE
    assert gap_of(end) is None
    assert "down" not in summarise_change(end)


@pytest.mark.parametrize(
    ("rescales", "said"),
    [
        ([a_rescale(30.0, reason="EXCEPTION_OCCURRED")], "(its newest rescale: EXCEPTION_"),
        ([a_rescale(30.0, reason="")], "(its newest rescale: not ended)"),
        ([a_rescale(-100.0)], "count runs with 1 of 2 subtasks; check"),
    ],
)
async def test_how_flink_ended_the_rescale_of_a_change_that_failed_is_said(change, rescales, said):
    change.in_place.on_write = lambda wanted: change.owner.deploy(counting(1))
    change.owner.flink = History(*rescales)

    end = await change.to_two()

    assert end.step is Step.ROLLED_BACK
    assert said in (end.failure or "")


async def test_a_history_that_cannot_be_read_fails_no_change(change, monkeypatch):
    async def refuse(job_id: str) -> tuple[FlinkRescale, ...]:
        raise PermanentError("a proxy answers 404 with a page")

    grow(change)
    change.owner.flink = History(a_rescale(30.0))
    monkeypatch.setattr(change.owner.flink, "rescales", refuse)

    end = await change.to_two()

    assert (end.step, gap_of(end)) == (Step.DONE, None)


async def test_records_that_stop_with_the_change_are_reported(change):
    grow(change)
    change.flows.after = 0.0

    end = await change.to_two()

    assert (end.step, end.no_record_seen) == (Step.DONE, True)


async def test_records_that_wait_and_are_not_read_after_the_change_take_it_back(change):
    grow(change)
    change.flows.after, change.flows.pending = 0.0, 7.0

    end = await change.to_two()

    assert end.step is Step.ROLLED_BACK
    assert [each["count"] for each in change.in_place.written] == [2, 1]


async def test_counts_that_never_grew_take_no_change_back(change):
    grow(change)
    change.flows.rate = change.flows.after = 0.0
    change.flows.pending = 7.0

    end = await change.to_two()

    assert (end.step, end.no_record_seen) == (Step.DONE, False)


async def test_nothing_is_written_while_the_operator_would_upgrade_the_job(change):
    change.in_place.not_running = "expected RUNNING, got RECONCILING"

    end = await change.to_two()

    assert (end.step, end.withdrawn) == (Step.ABANDONED, True)
    assert "RECONCILING" in (end.failure or "")
    assert change.in_place.written == []
    assert change.store.load().failed == (), "the deployment itself has not failed"


class Answers:
    """A JobManager of Flink 2.x with the adaptive scheduler."""

    def __init__(self) -> None:
        self.interval: float | None = 60.0
        self.knows_job = True

    async def version(self) -> str:
        return "2.0.1"

    async def configuration(self) -> dict[str, str]:
        return {"jobmanager.scheduler": "Adaptive"}

    async def checkpoint_interval(self, job_id: str) -> float | None:
        return self.interval

    async def job(self, job_id: str) -> JobDetails | None:
        return a_job(["source", "count"]) if self.knows_job else None


class Writes(FakeCluster):
    """The FlinkDeployment, to which Weir may write."""

    def __init__(self, state: str) -> None:
        path = PATH.format("streams", "trips")
        super().__init__(
            {
                path: {
                    "metadata": {"name": "trips", "namespace": "streams"},
                    "spec": {"job": {}, "flinkConfiguration": {}},
                    "status": {"jobStatus": {"state": state}},
                }
            }
        )
        self.applied: list[bool] = []
        """Whether each was a try."""

    async def apply(
        self, path: str, body: Any, manager: str = "", *, force: bool = True, dry_run: bool = False
    ) -> Any:
        self.applied.append(dry_run)
        return body


def in_place_over(cluster: Writes, flink: Answers) -> InPlace:
    job = SimpleNamespace(id="5" * 32, name="trips", topology=SimpleNamespace(vertices={}))
    reference = SimpleNamespace(namespace="streams", name="trips", rest_url="")
    watch = SimpleNamespace(reference=reference, flink=flink, job=job)
    return InPlace(cluster, cast(JobWatch, watch), guard=None, clock=FakeClock())


@pytest.mark.parametrize("interval", [math.inf, None])
async def test_a_job_without_known_checkpoints_is_refused(interval):
    flink = Answers()
    flink.interval = interval

    with pytest.raises(PermanentError, match=r"execution\.checkpointing\.interval"):
        await in_place_over(Writes("RUNNING"), flink).check()


async def test_a_job_that_is_just_being_replaced_is_not_taken_for_one_without_checkpoints():
    flink = Answers()
    flink.interval, flink.knows_job = None, False

    with pytest.raises(TemporaryError):
        await in_place_over(Writes("RUNNING"), flink).check()


async def test_an_autoscaler_that_only_its_configmap_shows_is_refused():
    cluster = Writes("RUNNING")
    meta = {"name": "autoscaler-trips", "managedFields": [{"time": "1970-01-01T00:16:00Z"}]}
    cluster.objects["/api/v1/namespaces/streams/configmaps/autoscaler-trips"] = {"metadata": meta}

    with pytest.raises(PermanentError, match="autoscaler-trips"):
        await in_place_over(cluster, Answers()).check()


async def test_the_key_is_not_written_while_the_operator_reconciles():
    cluster = Writes("RECONCILING")

    with pytest.raises(NotRunningError, match="expected RUNNING, got RECONCILING"):
        await in_place_over(cluster, Answers()).write({"source": 2})

    assert cluster.applied == []


async def test_whether_the_operator_would_scale_the_job_is_asked_before_a_change():
    cluster = Writes("RECONCILING")

    with pytest.raises(NotRunningError):
        await in_place_over(cluster, Answers()).require_running()
    await in_place_over(Writes("RUNNING"), Answers()).require_running()

    assert cluster.applied == [True], "only a try"


class Older(Answers):
    """A JobManager of Flink 1.20, whose checkpoints are complete when a test says so."""

    def __init__(self, *, slots: int, answers: bool = True) -> None:
        super().__init__()
        self.slots = slots
        self.completed = 5
        self.asked: list[str] = []
        self.answers = answers

    async def version(self) -> str:
        return "1.20.1"

    async def task_managers(self) -> list[Any]:
        return [SimpleNamespace(slots=self.slots)]

    async def checkpoints(self, job_id: str) -> Any:
        return SimpleNamespace(completed=self.completed)


def over_older(flink: Older, monkeypatch: pytest.MonkeyPatch) -> InPlace:
    class Scaled:
        def __init__(self, rest_url: str, *, guard: Any) -> None:
            """Reach the JobManager of the test."""

        async def __aenter__(self) -> Scaled:
            return self

        async def __aexit__(self, *raised: object) -> None:
            """Nothing is held."""

        async def checkpoint(self, job_id: str) -> None:
            if not flink.answers:
                raise TemporaryError("Flink does not answer")
            flink.asked.append(job_id)
            flink.completed += 1

    monkeypatch.setattr(in_place_module, "ScaledFlink", Scaled)
    in_place = in_place_over(Writes("RUNNING"), flink)
    cast(Any, in_place)._watch.run = lambda: _a_running_job()
    return in_place


async def _a_running_job() -> JobDetails:
    return a_job(["source", "count"])


async def test_a_flink_that_rescales_at_once_completes_a_checkpoint_before(monkeypatch):
    flink = Older(slots=2)

    await over_older(flink, monkeypatch).checkpoint_first({"count": 2})

    assert len(flink.asked) == 1


async def test_a_rescale_that_has_to_wait_for_slots_is_not_worth_a_checkpoint_before(monkeypatch):
    flink = Older(slots=1)

    await over_older(flink, monkeypatch).checkpoint_first({"count": 2})

    assert flink.asked == []


async def test_a_flink_that_rescales_at_checkpoints_needs_none_before(monkeypatch):
    flink = Older(slots=2)
    monkeypatch.setattr(Older, "version", Answers.version)

    await over_older(flink, monkeypatch).checkpoint_first({"count": 2})

    assert flink.asked == []


async def test_a_change_goes_on_without_the_checkpoint_before_it(monkeypatch):
    flink = Older(slots=2, answers=False)

    await over_older(flink, monkeypatch).checkpoint_first({"count": 2})

    assert flink.asked == []
