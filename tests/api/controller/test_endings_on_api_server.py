"""What becomes of a job that ends with its namespace, or by itself, on a real API server."""

from __future__ import annotations

import re

import pytest
from structlog.testing import capture_logs

pytestmark = pytest.mark.kubernetes_api


async def delete_with_the_namespace(bench):
    """Delete the namespace as Kubernetes does: its pods first, then the StreamApp."""
    namespace = f"/api/v1/namespaces/{bench.kube.namespace}"
    await bench.kube.delete(namespace)
    bench.dependencies.of["trips"].refuse_calls = 10**6  # no pod is left that could answer
    await bench.delete()


def facts(logs, reason):
    """Return what the log says under a reason: no event can be posted in such a namespace."""
    return {line["fact"] for line in logs if line.get("reason") == reason and "fact" in line}


async def test_a_streamapp_goes_with_its_namespace_at_once_and_its_newest_state_is_told(bench):
    await bench.bring_up()
    bench.dependencies.of["trips"].checkpoint()
    path = await bench.until_checkpointed()

    with capture_logs() as logs:
        await delete_with_the_namespace(bench)

    [told] = facts(logs, "FinalSavepointFailed")
    assert path in told
    assert "delete StreamApps before their namespace" in told


async def test_of_a_job_that_was_suspended_the_savepoint_is_told(bench):
    await bench.bring_up()
    await bench.kube.merge(f"{bench.kube.stream_apps}/trips", {"spec": {"state": "Suspended"}})
    suspended = await bench.until_ready("Suspended")
    [path] = re.findall(r"its state is in (\S+)", suspended["message"])

    with capture_logs() as logs:
        await delete_with_the_namespace(bench)

    [told] = facts(logs, "FinalSavepoint")
    assert path in told


async def test_a_job_that_came_to_its_end_pays_for_no_replicas(bench):
    running = bench.start()
    await bench.create()
    await bench.until_ready()
    world = bench.dependencies.of["trips"]
    paid = len(world.alive)

    world.finish()

    await bench.until_ready("JobFinished")
    assert paid > 0
    assert world.alive == {}

    async def unpaid():
        return (await bench.app())["status"]["replicas"] == 0

    await bench.until(unpaid, "expected a status without replicas")
    page = await bench.ask(running, "metrics")
    shown = re.findall(r"^weir_replicas\{.* (\S+)$", page, re.M)
    assert {float(count) for count in shown} <= {0.0}


@pytest.mark.parametrize("lost", [False, True], ids=["alive", "JobManager lost"])
async def test_a_streamapp_whose_job_came_to_its_end_goes_at_once_and_names_no_state(bench, lost):
    await bench.bring_up()
    world = bench.dependencies.of["trips"]
    world.checkpoint()
    await bench.until_checkpointed()
    world.finish()
    await bench.until_ready("JobFinished")
    if lost:
        world.lose_job_manager(recovers=True)

    await bench.delete()

    events = await bench.events()
    assert "finished" in events["EndedWithoutSavepoint"]
    assert "FinalSavepoint" not in events


async def test_a_streamapp_that_is_suspended_from_the_beginning_says_so_and_never_ran(bench):
    bench.start()
    await bench.create(state="Suspended")
    await bench.until_ready("Suspended")
    conditions = {each["type"]: each for each in (await bench.app())["status"]["conditions"]}

    await bench.delete()

    events = await bench.events()
    assert conditions["Ready"]["status"] == "False"
    assert conditions["ObjectiveMet"]["status"] == "Unknown"
    assert "never ran" in events["NeverRan"]
    assert "EndedWithoutSavepoint" not in events
