"""Many watched namespaces keep no request waiting, and one that is refused disturbs no other."""

from __future__ import annotations

import asyncio
import time

import pytest

from tests.operator.cluster.process.loopback import API, Passes, an_app, until, watching
from weir_operator.api.client import KubernetesApi
from weir_operator.api.objects import Key
from weir_operator.cluster.process import handlers, running
from weir_operator.cluster.process.settings import ControllerSettings
from weir_operator.runtime.pods import changes as changes_module
from weir_operator.runtime.pods.changes import Changes


async def test_a_controller_of_ten_namespaces_is_answered_at_once(server, tmp_path, monkeypatch):
    names = tuple(f"team-{number}" for number in range(10))
    took = []

    class WatchingController:
        def __init__(self, api, *_, changes, **__):
            self.api, self.changes = api, changes

        async def run(self, stop, **others):
            watching = asyncio.create_task(self.changes.watch())
            await until(lambda: len(server.watched) == 3 * len(names))
            began = time.monotonic()
            async with asyncio.timeout(9.0):  # less than a request waits for a connection
                for _ in range(20):
                    await self.api.get("/api/v1/namespaces/team-0/pods/a")
            took.append(time.monotonic() - began)
            watching.cancel()
            await asyncio.wait({watching})

    monkeypatch.setattr(running, "Controller", WatchingController)
    settings = ControllerSettings(
        identity="one", own_namespace="team-0", state=tmp_path, namespaces=names
    )

    await running.run_on_cluster(settings)

    assert took[0] < 5.0


@pytest.fixture
def quick(monkeypatch):
    """Ask again soon."""
    monkeypatch.setattr(handlers, "PAUSES", (0.02,))
    monkeypatch.setattr(changes_module, "PAUSE", 0.02)


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("from_the_start", [False, True])
async def test_kopf_outlives_a_namespace_that_is_refused_and_goes_on_there_afterwards(
    server, from_the_start
):
    passes = Passes()
    server.apps = [an_app("a", "first"), an_app("b", "second")]
    if from_the_start:
        server.refuse("b")

    async with watching(passes, "a", "b") as kopf_watch:
        await until(
            lambda: "a/first" in passes.seen and f"{API}/namespaces/a/streamapps" in server.watched
        )
        server.refuse("b")
        await until(lambda: server.refused_times >= 20)  # kopf's own tries are nine
        server.tell(an_app("a", "third"))
        await until(lambda: "a/third" in passes.seen)
        lived = kopf_watch.lives
        server.admit("b")
        server.tell(an_app("b", "fourth"))

        await until(lambda: "b/fourth" in passes.seen)

    assert lived
    assert kopf_watch.error is None


@pytest.mark.usefixtures("quick")
async def test_the_marks_of_a_namespace_stay_known_while_another_one_is_refused(server):
    server.refuse("b")
    api = KubernetesApi(connections=6)
    changes = Changes(api, ["a", "b"])
    task = asyncio.create_task(changes.watch())
    await until(lambda: changes.mark(Key("a", "trips")) is not None)

    await until(lambda: server.refused_times >= 9)
    during = changes.mark(Key("a", "trips")), changes.mark(Key("b", "rides"))
    server.admit("b")
    await until(lambda: changes.mark(Key("b", "rides")) is not None)

    assert during[0] is not None
    assert during[1] is None
    assert changes.mark(Key("a", "trips")) == during[0], "nobody there need list again"
    task.cancel()
    await asyncio.wait({task})
    await api.close()
