"""What fails in a StreamApp's life is shown by its status and an event, and tried again soon."""

from __future__ import annotations

import pytest

from weir_operator.cluster.app import opening
from weir_operator.cluster.process import handlers
from weir_operator.errors import TemporaryError
from weir_operator.loop.loop import ApplicationController

pytestmark = pytest.mark.kubernetes_api


class Fault:
    """Raises an error in place of a call for as long as a test wants."""

    def __init__(self, error, calls=10**6):
        self.error = error
        self.left = calls

    def before(self, method):
        """Return the method as it is while it fails."""

        async def call(*arguments, **named):
            if self.left > 0:
                self.left -= 1
                raise self.error
            return await method(*arguments, **named)

        return call


@pytest.fixture
def quick_looks(monkeypatch):
    """Look at jobs every half second."""
    monkeypatch.setattr(opening, "LOOK_EVERY", 0.5)


async def is_shown_as_running(bench, value):
    """Return whether the metric says of the app whether its job runs."""
    page = await bench.ask(bench.running["one"], "metrics")
    line = f'weir_job_running{{app="trips",namespace="{bench.kube.namespace}"}}'
    return f"{line} {value}" in page


async def test_an_unexpected_error_is_shown_and_the_next_try_brings_the_job_up(bench):
    world = bench.dependencies.make("trips")
    fault = Fault(ZeroDivisionError("the secret 271828"))
    world.ensure_job_manager = fault.before(world.ensure_job_manager)
    bench.start()
    await bench.create()

    condition = await bench.until_ready("ReconcileFailed")

    assert condition["status"] == "False"
    assert "ZeroDivisionError" in condition["message"]
    assert "ZeroDivisionError" in (await bench.events())["ReconcileFailed"]
    assert "271828" not in condition["message"]
    fault.left = 0
    await bench.until_ready("JobRunning")
    assert len(world.running()) == 1


async def test_a_job_that_is_down_in_mid_change_waits_for_no_long_pause(bench, quick_looks):
    world = await bench.bring_up()
    jobs = world.running()
    fault = Fault(LookupError("no such step"), calls=2)
    world.submit = fault.before(world.submit)
    await bench.kube.merge(
        f"{bench.kube.stream_apps}/trips",
        {"spec": {"flink": {"job": {"jar": "trips.jar", "args": ["--fast"]}}}},
    )

    async def runs_anew():
        running = world.running()
        return running if running and running != jobs else None

    await bench.until(runs_anew, "expected the upgraded job to run")
    await bench.until_ready("JobRunning")


async def test_a_defect_in_deciding_is_shown_and_the_job_is_looked_after(
    bench, quick_looks, monkeypatch
):
    fault = Fault(IndexError("list index out of range"))
    monkeypatch.setattr(ApplicationController, "tick", fault.before(ApplicationController.tick))
    bench.start()
    await bench.create(
        operatorManager={"interval": "1s"},
        objective={"responseTime": "200ms"},
    )

    ready = await bench.until_ready("UnexpectedError")

    assert "IndexError" in ready["message"]
    deciding = await bench.until_condition("Deciding", "TickFailed")
    assert deciding["status"] == "False"
    assert "IndexError" in (await bench.events())["TickFailed"]
    assert await is_shown_as_running(bench, "1.0")
    world = bench.dependencies.of["trips"]
    [lost] = world.alive
    await world.stop([lost])

    async def replaced():
        return len(world.alive) == 1 and lost not in world.alive

    await bench.until(replaced, "expected the lost TaskManager to be replaced")
    fault.left = 0
    await bench.until_ready("JobRunning")
    assert (await bench.condition("Deciding"))["status"] == "True"


async def test_a_job_of_which_nothing_is_known_for_some_looks_is_down(bench, quick_looks):
    world = await bench.bring_up()
    fault = Fault(TemporaryError("The JobManager did not answer within 120 s"))
    world.ensure_job_manager = fault.before(world.ensure_job_manager)

    condition = await bench.until_ready("JobDown")

    assert "did not answer" in condition["message"]
    assert "JobDown" in await bench.events()
    assert await is_shown_as_running(bench, "0.0")
    fault.left = 0
    await bench.until_ready("JobRunning")
    assert await is_shown_as_running(bench, "1.0")


async def test_a_defect_keeps_no_deleted_app_for_ever(bench, monkeypatch):
    monkeypatch.setattr(handlers, "TRY_DELETION_AGAIN", 1.0)
    world = await bench.bring_up()
    fault = Fault(ZeroDivisionError("no such step"))
    world.ensure_job_manager = fault.before(world.ensure_job_manager)
    await bench.kube.delete(f"{bench.kube.stream_apps}/trips")

    async def is_told():
        return "ZeroDivisionError" in (await bench.events()).get("DeletionWaits", "")

    await bench.until(is_told, "expected an event that says what the deletion waits for")
    monkeypatch.setattr("weir_operator.cluster.app.finalizer.SAVEPOINT_TIMEOUT", 0.0)

    await bench.until_gone()
    assert "ZeroDivisionError" in (await bench.events())["FinalSavepointFailed"]


async def test_a_deletion_waits_for_a_spec_to_be_mended_where_no_right_one_is_known(
    bench, monkeypatch
):
    monkeypatch.setattr(handlers, "TRY_DELETION_AGAIN", 1.0)
    await bench.bring_up()
    await bench.stop()
    path = f"{bench.kube.stream_apps}/trips"
    looser = [{"sink": "alerts", "responseTime": "1h"}]
    await bench.kube.merge(path, {"spec": {"objective": {"paths": looser}}})
    await bench.kube.delete(path)
    bench.start("two")  # whose state knows of no spec before this one

    async def is_told():
        return "the spec is not valid" in (await bench.events()).get("DeletionWaits", "")

    await bench.until(is_told, "expected an event that says what the deletion waits for")
    await bench.kube.merge(path, {"spec": {"objective": {"paths": None}}})

    await bench.until_gone()
    [savepoint] = bench.dependencies.of["trips"].positions
    assert savepoint in (await bench.events())["FinalSavepoint"]
