"""The controller's process against a real API server: status, deletion, restarts, two at once."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.kubernetes_api


async def test_an_app_is_brought_up_and_its_status_says_so(bench):
    bench.start()

    await bench.create()

    ready = await bench.until_ready()
    status = (await bench.app())["status"]
    assert ready["status"] == "True"
    assert ready["observedGeneration"] == status["observedGeneration"] == 1
    assert status["replicas"] == sum(each["replicas"] for each in status["operators"])
    assert status["rescale"]["step"] == "Done"
    assert status["controller"]["job_id"] == bench.worlds.of["trips"].running()[0]


async def test_a_deleted_app_ends_with_a_savepoint_that_an_event_names(bench):
    bench.start()
    await bench.create()
    await bench.until_ready()

    await bench.kube.ask("DELETE", f"{bench.kube.stream_apps}/trips")

    async def gone():
        return await bench.app() is None

    await bench.until(gone, "expected the app to be gone")
    world = bench.worlds.of["trips"]
    [path] = world.positions
    assert world.alive == {}
    assert path in (await bench.events())["FinalSavepoint"]


async def test_a_controller_that_starts_anew_finds_the_job_running(bench):
    bench.start()
    await bench.create()
    await bench.until_ready()
    [job] = bench.worlds.of["trips"].running()
    await bench.stop()

    bench.start("two")

    async def written_by_two():
        kept = (await bench.app())["status"]["controller"]
        return kept if kept["writer"].startswith("two/") else None

    kept = await bench.until(written_by_two, "expected the second controller to write")
    assert kept["job_id"] == job
    assert bench.worlds.of["trips"].running() == [job]
