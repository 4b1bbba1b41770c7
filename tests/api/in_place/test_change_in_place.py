"""A FlinkDeployment's job is scaled where it runs: really, exactly, and back again."""

from pathlib import Path

import pytest

from tests.api.in_place.conftest import (
    JOB,
    WithService,
    keeps_rescale_history,
    parallelism_of,
    running_operator,
)
from tests.operator.rescale.fakes import MemoryStatusStore
from tests.operator.runtime.waiting import until
from tests.operator.streamapp.builders import a_stream_app
from weir_operator.advise.flink_deployment import (
    OVERRIDES,
    read_flink_deployment,
    write_overrides,
)
from weir_operator.advise.in_place import InPlace, InPlaceRescaler
from weir_operator.advise.read_only import ExternalJobs, ExternalRuntime, ExternalStore
from weir_operator.advise.watch import JobWatch
from weir_operator.clock import SystemClock
from weir_operator.errors import PermanentError, TemporaryError
from weir_operator.flink.answers import JobState
from weir_operator.flink.jars import REPOSITORY, build_jar
from weir_operator.flink.rest import FlinkRest
from weir_operator.rescale.engine import EngineParts
from weir_operator.rescale.journal import Kind, Step, gap_of, plan
from weir_operator.rescale.settings import JobSpec, RescaleSettings

pytestmark = [pytest.mark.kubernetes_api, pytest.mark.flink, pytest.mark.timeout(600)]

READINGS = REPOSITORY / "tests/operator/runtime/unmodified/Readings.java"
RECORDS = 6000


@pytest.fixture(scope="module")
def readings_jar(tmp_path_factory):
    """A job with keyed state behind one-to-one edges, a window over all keys, and a FileSink."""
    folder = tmp_path_factory.mktemp("jars")
    return Path(build_jar([READINGS], folder / "readings.jar", entry_class="Readings"))


class Scaled:
    """A job in the state in which an engine of Weir finds it."""

    def __init__(self, api, kube, *, submit_deadline=40.0):
        app = a_stream_app(flink={"ref": {"kind": "FlinkDeployment", "name": "trips"}})
        metadata = app.metadata.model_copy(update={"namespace": kube.namespace})
        self.app = app.model_copy(update={"metadata": metadata})
        self.watch = JobWatch(self.app, api)
        self.in_place = InPlace(api, self.watch, guard=None, clock=SystemClock())
        runtime = ExternalRuntime(self.watch)
        self.kept = MemoryStatusStore()
        self.store = ExternalStore(self.kept, self.watch, scales=True)
        self.engine = InPlaceRescaler(
            EngineParts(
                runtime=runtime,
                jobs=ExternalJobs(runtime, self.watch),
                spec=JobSpec(
                    entry_class=None, arguments=(), parallelism_arguments={}, max_parallelism=128
                ),
                store=self.store,
                settings=RescaleSettings(start_deadline=1.0, submit_deadline=submit_deadline),
                clock=SystemClock(),
            ),
            in_place=self.in_place,
            watch=self.watch,
        )

    async def to(self, **replicas):
        """Change the number of replicas of operators, given by their names."""
        job = await self.watch.refresh(whole=True)
        source = job.deployments
        (node_type,) = {kind for counts in source.values() for kind in counts}
        named = {name.replace("_", "-"): {node_type: n} for name, n in replicas.items()}
        journal = plan(
            kind=Kind.RESCALE,
            reason="a test",
            now=SystemClock().now(),
            source=source,
            target={**source, **named},
            old_job=JOB,
        )
        return await self.engine.execute(journal)


async def start(rest, jar, *arguments, parallelism=2):
    await rest.run_jar(
        await rest.upload_jar(str(jar)),
        job_id=JOB,
        arguments=[str(each) for each in arguments],
        parallelism=parallelism,
    )
    return await parallelism_of(rest)


async def test_a_job_is_scaled_out_and_in_and_every_record_counts_once(
    api, kube, flink_deployments, adaptive_flink, readings_jar, tmp_path
):
    api = WithService(api, adaptive_flink.ports[0])
    async with (
        FlinkRest(adaptive_flink.url) as rest,
        running_operator(api, kube.namespace, adaptive_flink.url),
    ):
        first = await start(rest, readings_jar, RECORDS, 150, 2, tmp_path / "out")
        scaled = Scaled(api, kube)

        out = await scaled.to(count=4)
        four = await parallelism_of(rest)
        in_ = await scaled.to(count=1)
        one = await parallelism_of(rest)

        async def finished():
            job = await rest.job(JOB)
            return job is not None and job.state is JobState.FINISHED

        await scaled.to(count=3)
        await until(finished)
        keeps_history = await keeps_rescale_history(rest)
        await scaled.watch.close()

    down = [gap_of(each) for each in (out, in_)]
    if keeps_history:
        took = [each.times[str(Step.DONE)] - each.times[str(Step.SUBMIT)] for each in (out, in_)]
        assert all(0 < (gap or 0) < limit for gap, limit in zip(down, took, strict=True)), down
    else:
        assert down == [None, None]
    # The vertices that one-to-one edges join move together; a window over all keys stays at 1.
    together = {name for name in first if name.split(":")[0] in ("count", "again", "work", "files")}
    assert len(together) >= 4
    alone = {name: parallelism for name, parallelism in first.items() if name not in together}
    assert set(alone.values()) == {1, 2}
    assert four == {**alone, **dict.fromkeys(together, 4)}
    assert one == {**alone, **dict.fromkeys(together, 1)}
    assert [each.step for each in (out, in_)] == [Step.DONE, Step.DONE]
    assert all(each.flowed and not each.no_record_seen for each in (out, in_))
    assert out.new_job == out.old_job == JOB
    lines = [
        int(line)
        for file in (tmp_path / "out").rglob("part-*")
        for line in file.read_text().splitlines()
    ]
    assert sorted(lines) == list(range(RECORDS))
    # What is kept does not take the job for one of Weir's own.
    assert scaled.kept.load().job_id is None
    kept = (await kube.get(f"{flink_deployments}/trips")).body
    assert kept["spec"]["flinkConfiguration"][OVERRIDES].count(":3") == len(together)
    assert kept["spec"]["flinkConfiguration"]["jobmanager.scheduler"] == "adaptive"
    (own,) = [each for each in kept["metadata"]["managedFields"] if each["manager"] == "weir"]
    assert list(own["fieldsV1"]["f:spec"]["f:flinkConfiguration"]) == [f"f:{OVERRIDES}"]


@pytest.mark.parametrize("adaptive_flink", ["1 h"], indirect=True)
async def test_a_job_is_scaled_whatever_the_interval_of_its_checkpoints(
    api, kube, flink_deployments, adaptive_flink, readings_jar, tmp_path
):
    api = WithService(api, adaptive_flink.ports[0])
    async with (
        FlinkRest(adaptive_flink.url) as rest,
        running_operator(api, kube.namespace, adaptive_flink.url),
    ):
        await start(rest, readings_jar, RECORDS * 10, 150, 2, tmp_path / "out")
        scaled = Scaled(api, kube)
        ends = [await scaled.to(count=4), await scaled.to(count=1)]
        one = await parallelism_of(rest)
        await scaled.watch.close()

    assert [each.step for each in ends] == [Step.DONE, Step.DONE]
    assert set(one.values()) <= {1, 2}


@pytest.mark.long
async def test_a_change_for_which_there_are_no_slots_is_taken_back(
    api, kube, flink_deployments, adaptive_flink, readings_jar, tmp_path
):
    api = WithService(api, adaptive_flink.ports[0])
    async with FlinkRest(adaptive_flink.url) as rest:
        await start(rest, readings_jar, RECORDS * 10, 150, 2, tmp_path / "out")
        scaled = Scaled(api, kube, submit_deadline=15.0)
        end = await scaled.to(count=6)
        left = await parallelism_of(rest)
        overrides = (await read_flink_deployment(api, kube.namespace, "trips")).overrides
        keeps_history = await keeps_rescale_history(rest)
        await scaled.watch.close()

    assert end.step is Step.ROLLED_BACK
    assert "of 6 subtasks" in (end.failure or "")
    assert ("its newest rescale" in (end.failure or "")) is keeps_history
    assert set(left.values()) == {1, 2}
    assert set(overrides.values()) == {1, 2}
    (failed,) = scaled.kept.load().failed
    assert failed.deployment == end.target


@pytest.mark.long
async def test_a_change_that_was_interrupted_is_continued(
    api, kube, flink_deployments, adaptive_flink, readings_jar, tmp_path, monkeypatch
):
    api = WithService(api, adaptive_flink.ports[0])
    async with FlinkRest(adaptive_flink.url) as rest:
        await start(rest, readings_jar, RECORDS * 10, 150, 2, tmp_path / "out")
        scaled, later = Scaled(api, kube), Scaled(api, kube)

        async def die():
            raise KeyboardInterrupt

        monkeypatch.setattr(scaled.in_place, "runs_with", lambda wanted: die())
        with pytest.raises(KeyboardInterrupt):
            await scaled.to(count=3)
        later.kept.status = scaled.kept.load()
        await later.watch.refresh()
        left = later.store.load().rescale
        assert left is not None
        assert left.step is Step.VERIFY
        assert later.engine.can_resume(left)
        end = await later.engine.execute(left)
        three = await parallelism_of(rest)
        for each in (scaled, later):
            await each.watch.close()

    assert end.step is Step.DONE
    assert 3 in three.values()


async def test_the_key_of_somebody_else_is_refused_and_a_stale_object_read_again(
    api, kube, flink_deployments
):
    path = f"{flink_deployments}/trips"
    stale = await read_flink_deployment(api, kube.namespace, "trips")
    await kube.merge(path, {"spec": {"flinkConfiguration": {"rest.port": "8082"}}})
    with pytest.raises(TemporaryError, match="changed at the same moment"):
        await write_overrides(api, stale, {"a": 3})

    await kube.merge(path, {"spec": {"flinkConfiguration": {OVERRIDES: "a:2"}}})
    with pytest.raises(PermanentError, match="somebody else has set it; remove it"):
        await write_overrides(
            api, await read_flink_deployment(api, kube.namespace, "trips"), {"a": 3}
        )

    assert (await read_flink_deployment(api, kube.namespace, "trips")).overrides == {"a": 2}
