"""A controller that is stopped in the middle of a change that has stopped the job."""

from __future__ import annotations

import asyncio
import threading

import pytest

from weir_operator.cluster.app import task
from weir_operator.cluster.status.store import read_journal

pytestmark = pytest.mark.kubernetes_api


class HeldSubmission:
    """Holds the first submission to a Flink that has stopped a job, until a test releases it."""

    def __init__(self, world):
        self.reached = threading.Event()
        self._world = world
        self._submit = world.submit
        world.submit = self._hold

    async def _hold(self, *arguments, **named):
        if self._world.stops and not self.reached.is_set():
            self._loop, self._released = asyncio.get_running_loop(), asyncio.Event()
            self.reached.set()
            await self._released.wait()
        await self._submit(*arguments, **named)

    def release(self):
        self._loop.call_soon_threadsafe(self._released.set)


def fixed(replicas):
    return {"operators": [{"name": "match", "fixed": {"small/1": replicas}}]}


async def stop_in_mid_change(bench):
    """Stop a controller whose change has stopped the job; return the submission, and that stop."""
    submission = HeldSubmission(bench.dependencies.make("trips"))
    bench.start()
    await bench.create(**fixed(1))
    await bench.until_ready()
    bench.dependencies.of["trips"].process(100)
    await bench.kube.merge(f"{bench.kube.stream_apps}/trips", {"spec": fixed(2)})
    assert await asyncio.to_thread(submission.reached.wait, 90.0)
    return submission, asyncio.create_task(bench.stop())


async def test_a_controller_that_is_stopped_starts_the_job_again_that_its_change_has_stopped(
    bench, monkeypatch
):
    monkeypatch.setattr(task, "STOP_TIMEOUT", 0.5)
    submission, stopping = await stop_in_mid_change(bench)

    ended, _ = await asyncio.wait({stopping}, timeout=3.0)
    assert not ended, "the job does not run yet"
    submission.release()
    await stopping

    status = (await bench.app())["status"]
    assert read_journal(status)["step"] == "Done"
    assert bench.dependencies.of["trips"].running() == [read_journal(status)["new_job"]]
    assert (await bench.condition("Ready"))["reason"] == "JobRunning"


async def test_a_job_that_a_stopped_controller_could_not_start_again_is_not_called_ready(
    bench, monkeypatch
):
    monkeypatch.setattr(task, "FINISH_TIMEOUT", 1.0)
    monkeypatch.setattr(task, "STOP_TIMEOUT", 0.5)
    _, stopping = await stop_in_mid_change(bench)

    await stopping

    assert bench.dependencies.of["trips"].running() == []
    ready = await bench.condition("Ready")
    assert (ready["status"], ready["reason"]) == ("False", "ChangeInterrupted")
