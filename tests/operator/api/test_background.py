"""One object that is not as expected costs a background task a pause, and nobody else anything."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest
from structlog.testing import capture_logs

from tests.operator.api.memory_api import MemoryApi
from tests.operator.rescale.fakes import FakeClock
from weir_operator.api.background import (
    FIRST_PAUSE,
    HEALTHY_AFTER,
    LONGEST_PAUSE,
    keep_running,
)
from weir_operator.api.client import RefusedByKubernetesError
from weir_operator.api.objects import Key
from weir_operator.cluster.process.process import Listing
from weir_operator.cluster.status.telemetry import Telemetry


class Enough(BaseException):
    """Ends a task that has no end."""


async def pauses_of(attempts):
    """Return the pauses between attempts, each a number of seconds after which it fails."""
    clock = FakeClock()
    counted: list[str] = []
    pauses: list[float] = []
    lives = iter(attempts)

    async def work():
        seconds = next(lives, None)
        if seconds is None:
            raise Enough
        clock.time += seconds
        raise KeyError("weir.dev/app")

    class Noting(FakeClock):
        def now(self):
            return clock.time

        async def sleep(self, seconds):
            pauses.append(seconds)

    with pytest.raises(Enough), capture_logs():
        await keep_running("nodes", work, clock=Noting(), count=counted.append)
    return pauses, counted


async def test_a_task_that_fails_is_started_again_after_pauses_that_grow_to_a_bound():
    pauses, counted = await pauses_of([0.0] * 10)

    assert pauses[:3] == [FIRST_PAUSE, 2 * FIRST_PAUSE, 4 * FIRST_PAUSE]
    assert max(pauses) == pauses[-1] == LONGEST_PAUSE
    assert counted == ["nodes"] * 10


async def test_after_a_long_time_without_a_failure_the_pause_is_short_again():
    pauses, _ = await pauses_of([0.0, 0.0, 0.0, HEALTHY_AFTER])

    assert pauses[-1] == FIRST_PAUSE


async def test_the_log_names_the_task_and_has_the_trace():
    async def work():
        raise KeyError("weir.dev/app")

    class Ending(FakeClock):
        async def sleep(self, seconds):
            raise Enough

    with capture_logs() as logs, pytest.raises(Enough):
        await keep_running("nodes", work, clock=Ending(), count=lambda _: None)

    assert [(line["task"], line["log_level"]) for line in logs] == [("nodes", "error")]
    assert logs[0]["exc_info"]


async def test_a_task_that_is_cancelled_ends():
    async def work():
        await asyncio.Event().wait()

    task = asyncio.create_task(keep_running("nodes", work, clock=FakeClock(), count=lambda _: None))
    await asyncio.sleep(0)

    task.cancel()
    await asyncio.wait({task})

    assert task.cancelled()


async def test_a_streamapp_whose_pass_fails_hides_no_other_in_a_list():
    api, telemetry, passed = MemoryApi(), Telemetry(), []
    for name in ("bad", "good"):
        path = f"/apis/weir.dev/v1alpha1/namespaces/streams/streamapps/{name}"
        api.put(path, {"metadata": {"namespace": "streams", "name": name}, "spec": {}})

    def reconcile(resource):
        if resource.key.name == "bad":
            raise RecursionError
        passed.append(resource.key)

    reconciler = SimpleNamespace(knows=lambda _: False, reconcile=reconcile, apps={})
    clock = FakeClock()
    listing = Listing(
        api,
        ["streams"],
        reconciler,  # type: ignore[arg-type]
        telemetry=telemetry,
        clock=clock,
    )

    await listing.list()

    assert passed == [Key("streams", "good")]
    counted = 'weir_reconcile_errors_total{app="bad",kind="defect",namespace="streams"} 1.0'
    assert counted in telemetry.render().decode()


async def test_a_namespace_that_cannot_be_listed_hides_no_other_and_its_apps_stay_known():
    class ClosedApi(MemoryApi):
        async def pages(self, path, labels="", fields=""):
            if "/namespaces/closed/" in path:
                raise RefusedByKubernetesError("streamapps is forbidden", 403)
            async for page in super().pages(path, labels, fields):
                yield page

    api, telemetry = ClosedApi(), Telemetry()
    path = "/apis/weir.dev/v1alpha1/namespaces/open/streamapps/new"
    api.put(path, {"metadata": {"namespace": "open", "name": "new"}, "spec": {}})
    passed: list[Key] = []
    forgotten: list[Key] = []
    listing = Listing(
        api,
        ["closed", "open"],
        SimpleNamespace(  # type: ignore[arg-type]
            knows=lambda _: False,
            reconcile=lambda resource: passed.append(resource.key),
            forget=forgotten.append,
            apps={Key("closed", "kept"): None, Key("open", "gone"): None},
        ),
        telemetry=telemetry,
        clock=FakeClock(),
    )

    with capture_logs() as logs:
        await listing.list()

    assert passed == [Key("open", "new")]
    assert forgotten == [Key("open", "gone")]
    assert [line["namespace"] for line in logs if line["event"] == "StreamApps not listed"] == [
        "closed"
    ]
    failures = 'weir_background_task_failures_total{task="lists"} 1.0'
    assert failures in telemetry.render().decode()


async def test_a_streamapp_that_comes_while_pages_are_read_is_not_taken_for_gone():
    apps = {Key("streams", "gone"): None}

    class GrowingApi(MemoryApi):
        async def pages(self, path, labels="", fields=""):
            apps[Key("streams", "new")] = None  # after the list was begun, the watch shows it
            yield []

    api = GrowingApi()
    forgotten: list[Key] = []
    reconciler = SimpleNamespace(knows=lambda _: True, forget=forgotten.append, apps=apps)
    clock = FakeClock()
    listing = Listing(
        api,
        ["streams"],
        reconciler,  # type: ignore[arg-type]
        telemetry=Telemetry(),
        clock=clock,
    )

    await listing.list()

    assert forgotten == [Key("streams", "gone")]
