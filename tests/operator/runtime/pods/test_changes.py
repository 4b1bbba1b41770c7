"""Three watches tell whether anything of a StreamApp's Flink has changed."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager, suppress

import pytest

from weir_operator.api.objects import Key
from weir_operator.errors import TemporaryError
from weir_operator.runtime.pods import changes
from weir_operator.runtime.pods.changes import Changes

TRIPS, RIDES = Key("streams", "trips"), Key("streams", "rides")
PODS, DEPLOYMENTS = "/api/v1/pods", "/apis/apps/v1/deployments"
CONFIG_MAPS = "/api/v1/configmaps"
END = None


class Server:
    def __init__(self):
        self.version = 10
        self.begun = []
        """(path, from which version) of every watch."""
        self.refuses = False
        self._told = {}

    async def newest(self, path, labels=""):
        if self.refuses:
            raise TemporaryError("away")
        return str(self.version)

    @asynccontextmanager
    async def stream(self, path, query, *, accept, lasts):
        self.begun.append((path, query["resourceVersion"]))
        queue = self._told[path] = asyncio.Queue()

        async def lines():
            while (event := await queue.get()) is not END:
                if isinstance(event, Exception):
                    raise event
                yield event if isinstance(event, bytes) else json.dumps(event).encode()

        yield lines()

    def tell(self, path, event):
        self._told[path].put_nowait(event)

    def change(self, path, app, kind="MODIFIED"):
        self.version += 1
        meta = {"namespace": app.namespace, "labels": {"weir.dev/app": app.name}}
        meta["resourceVersion"] = str(self.version)
        self.tell(path, {"type": kind, "object": {"metadata": meta}})


async def settle():
    for _ in range(20):
        await asyncio.sleep(0)


@pytest.fixture
def server():
    return Server()


@pytest.fixture
async def watched(server, monkeypatch):
    monkeypatch.setattr(changes, "PAUSE", 0.0)
    monkeypatch.setattr(changes, "_BREATH", 0.0)
    watched = Changes(server)
    running = asyncio.create_task(watched.watch())
    await settle()
    yield watched
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running


async def test_nothing_is_known_before_all_watches_have_begun(server):
    assert Changes(server).mark(TRIPS) is None


@pytest.mark.parametrize("path", [PODS, CONFIG_MAPS, DEPLOYMENTS])
@pytest.mark.parametrize("kind", ["ADDED", "MODIFIED", "DELETED"])
async def test_a_change_moves_the_mark_of_its_streamapp_and_no_other(server, watched, path, kind):
    trips, rides = watched.mark(TRIPS), watched.mark(RIDES)

    server.change(path, TRIPS, kind)
    await settle()

    assert None not in (trips, rides, watched.mark(TRIPS))
    assert watched.mark(TRIPS) != trips
    assert watched.mark(RIDES) == rides


async def test_a_watch_that_ends_in_time_goes_on_where_it_was(server, watched):
    server.change(PODS, TRIPS)
    await settle()
    mark = watched.mark(TRIPS)

    server.tell(PODS, {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "77"}}})
    server.tell(PODS, END)
    await settle()

    assert server.begun[-1] == (PODS, "77")
    assert watched.mark(TRIPS) == mark


@pytest.mark.parametrize(
    "loss",
    [
        pytest.param({"type": "ERROR", "object": {"code": 410, "message": "too old"}}, id="410"),
        pytest.param(TemporaryError("broken off"), id="broken"),
        pytest.param(b'{"type": "ADD', id="cut off"),
        pytest.param(b"<html>502</html>", id="of a proxy"),
        pytest.param(["ADDED"], id="a list"),
        pytest.param({"type": "ADDED", "object": None}, id="of nothing"),
        pytest.param({"type": "ADDED", "object": {"metadata": {"labels": 7}}}, id="odd labels"),
    ],
)
async def test_after_a_loss_every_mark_is_another_and_the_watch_begins_again(server, watched, loss):
    trips, rides = watched.mark(TRIPS), watched.mark(RIDES)
    server.version = 99

    server.tell(PODS, loss)
    await settle()

    assert server.begun[-1] == (PODS, "99")
    assert watched.mark(TRIPS) not in (trips, None)
    assert watched.mark(RIDES) not in (rides, None)


async def test_an_object_without_labels_changes_nobodys_mark(server, watched):
    mark = watched.mark(TRIPS)

    meta = {"namespace": "streams", "name": "stray", "resourceVersion": "11"}
    server.tell(PODS, {"type": "ADDED", "object": {"metadata": meta}})
    server.tell(PODS, END)
    await settle()

    assert server.begun[-1] == (PODS, "11")
    assert watched.mark(TRIPS) == mark


async def test_objects_of_streamapps_that_do_not_exist_are_not_counted_for_ever(
    server, watched, monkeypatch
):
    monkeypatch.setattr(changes, "MOST_COUNTED", 10)
    server.change(PODS, TRIPS)
    await settle()
    before = watched.mark(TRIPS)

    for number in range(10):
        server.change(PODS, Key("streams", f"nobody-{number}"))
    await settle()

    assert watched.mark(TRIPS) not in (None, before)
    assert watched.mark(TRIPS)[1] == 0
    server.change(PODS, TRIPS)
    await settle()
    assert watched.mark(TRIPS)[1] == 1


async def test_while_one_of_the_watches_is_lost_nothing_is_known(server, watched):
    server.refuses = True

    server.tell(DEPLOYMENTS, TemporaryError("broken off"))
    await settle()

    assert watched.mark(TRIPS) is None


async def test_namespaces_are_watched_each_by_itself(server, monkeypatch):
    running = asyncio.create_task(Changes(server, ["north", "south"]).watch())
    await settle()
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running

    assert [path for path, _ in server.begun] == [
        "/api/v1/namespaces/north/pods",
        "/api/v1/namespaces/north/configmaps",
        "/apis/apps/v1/namespaces/north/deployments",
        "/api/v1/namespaces/south/pods",
        "/api/v1/namespaces/south/configmaps",
        "/apis/apps/v1/namespaces/south/deployments",
    ]
