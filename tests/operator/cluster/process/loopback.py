"""An API server on loopback that has StreamApps, keeps watches open, and refuses namespaces."""

from __future__ import annotations

import asyncio
import json
import threading
from collections import defaultdict
from contextlib import asynccontextmanager
from typing import Any

import kopf
from aiohttp import web

from weir_operator.cluster.process.handlers import build_registry, operator_settings

API = "/apis/weir.dev/v1alpha1"
_VERBS = {"singularName": "", "verbs": ["get", "list", "patch", "watch"]}
KINDS = {
    API: {"name": "streamapps", "kind": "StreamApp", "namespaced": True, **_VERBS},
    "/api/v1": {"name": "namespaces", "kind": "Namespace", "namespaced": False, **_VERBS},
}
"""What kopf asks for before it watches."""


def an_app(namespace: str, name: str, **meta: object) -> dict[str, Any]:
    """Return a StreamApp as the API server has it."""
    kept = {"namespace": namespace, "name": name, "uid": f"{namespace}-{name}"}
    return {
        "apiVersion": "weir.dev/v1alpha1",
        "kind": "StreamApp",
        "metadata": {**kept, "resourceVersion": "1", "generation": 1, **meta},
        "spec": {"mode": "Auto"},
    }


class Server:
    """What it has, and what it was asked."""

    def __init__(self):
        self.url = ""
        self.apps = []
        self.watched = set()
        """Paths of the collections that are watched now."""
        self.refused_times = 0
        self._refused = set()
        self._events = defaultdict(asyncio.Queue)

    def refuse(self, namespace):
        """Answer 403 to all that concerns a namespace, as if its Role had been deleted."""
        self._refused.add(namespace)
        for path in self.watched:
            if self._is_refused(path):
                self._events[path].put_nowait(None)

    def admit(self, namespace):
        self._refused.discard(namespace)

    def tell(self, app):
        """Show an app, new or changed, to those who watch its namespace."""
        self.apps.append(app)
        path = f"{API}/namespaces/{app['metadata']['namespace']}/streamapps"
        self._events[path].put_nowait({"type": "ADDED", "object": app})

    async def handle(self, request):
        path = request.path
        if self._is_refused(path):
            self.refused_times += 1
            said = {"kind": "Status", "code": 403, "reason": "Forbidden", "message": "no rights"}
            return web.json_response(said, status=403)
        if request.query.get("watch") == "true":
            return await self._watch(request)
        if path == "/api":
            return web.json_response({"versions": ["v1"]})
        if path in KINDS:
            return web.json_response({"resources": [KINDS[path]]})
        if path == "/apis":
            version = {"version": "v1alpha1"}
            group = {"name": "weir.dev", "preferredVersion": version, "versions": [version]}
            return web.json_response({"groups": [group]})
        if request.method == "PATCH":
            return web.json_response(next(a for a in self.apps if self._path_of(a) == path))
        if "limit" in request.query:
            items = [app for app in self.apps if self._path_of(app).startswith(f"{path}/")]
            listed = {"kind": "List", "metadata": {"resourceVersion": "1"}, "items": items}
            return web.json_response(listed)
        return web.json_response({"kind": "Thing", "metadata": {"name": "a"}})

    def _path_of(self, app):
        meta = app["metadata"]
        return f"{API}/namespaces/{meta['namespace']}/streamapps/{meta['name']}"

    def _is_refused(self, path):
        return any(f"/namespaces/{name}/" in path for name in self._refused)

    async def _watch(self, request):
        answer = web.StreamResponse(headers={"Content-Type": "application/json"})
        await answer.prepare(request)
        self.watched.add(request.path)
        try:
            while (event := await self._events[request.path].get()) is not None:
                await answer.write(json.dumps(event).encode() + b"\n")
        finally:
            self.watched.discard(request.path)
        return answer


async def until(holds, within=20.0):
    async with asyncio.timeout(within):
        while not holds():
            await asyncio.sleep(0.01)


class Passes:
    """In place of the reconciler: what kopf has shown, and deletions that wait."""

    def __init__(self):
        self.seen = []
        self.ending = set()

    def reconcile(self, resource):
        self.seen.append(str(resource.key))

    async def end(self, resource, deleted, *, patience):
        """Wait for a savepoint that does not come."""
        self.ending.add(resource.key.name)
        await asyncio.Event().wait()


class Watching:
    """Whether kopf works, in a thread of its own: it ends every task of its event loop."""

    def __init__(self, passes, namespaces):
        self._arguments = passes, namespaces
        self._stop = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.error = None

    @property
    def lives(self):
        return self.thread.is_alive()

    async def stop(self):
        self._stop.set()
        await asyncio.to_thread(self.thread.join, 30.0)

    def _run(self):
        passes, namespaces = self._arguments
        settings = operator_settings(lambda: None)
        settings.queueing.exit_timeout = 0.0
        try:
            asyncio.run(
                kopf.operator(
                    registry=build_registry(passes, on_watch=lambda _: None),
                    settings=settings,
                    standalone=True,
                    clusterwide=False,
                    namespaces=namespaces,
                    stop_flag=self._stop,
                )
            )
        except Exception as error:
            self.error = error


@asynccontextmanager
async def watching(passes, *namespaces):
    """Let kopf watch with Weir's settings and handlers while the block runs."""
    found = Watching(passes, namespaces)
    found.thread.start()
    try:
        yield found
    finally:
        await found.stop()
