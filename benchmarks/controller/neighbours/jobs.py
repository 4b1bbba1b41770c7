"""The jobs of `scale`, a foreign one and a Prometheus server, which answer as they are told."""

from __future__ import annotations

import asyncio
import math
import re
import sys
import time
from collections.abc import Mapping
from typing import Any

from aiohttp import web
from aiohttp.typedefs import Handler

from benchmarks.controller.neighbours.inputs import FOREIGN, JOBS, REST, RESULTS, Input, app_of
from benchmarks.controller.scale import world
from tests.operator.advise.conftest import RECORDED, RecordedFlink
from weir_operator.metrics import names


class Neighbours(world.Jobs):
    """All of them in one process."""

    def __init__(self) -> None:
        self._inputs: dict[int, Input] = {}
        self._asked = dict.fromkeys(range(RESULTS + 1), 0)
        self._hosts: Mapping[str, int] = {}  # numbers of jobs by the address of their JobManager
        self._recorded = {
            end: (RECORDED / f"{name}.json").read_bytes()
            for end, name in RecordedFlink().answers.items()
        }

    def application(self) -> web.Application:
        application = super().application()
        application.middlewares.append(self.answer)
        application.router.add_get("/prometheus/api/v1/query", self.query)
        return application

    @web.middleware
    async def answer(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        path, query = request.path, request.query
        if path == "/input":
            number = int(query["number"])
            self._asked[number] = 0
            self._inputs[number] = Input(
                name="", door=query["door"], status=int(query["status"]),
                pause=float(query["pause"]), body=await request.read(),
            )  # fmt: skip
            return web.Response()
        if path == "/asked":
            return web.Response(text=str(self._asked[int(query["number"])]))
        if path == "/refused":
            self._asked[RESULTS] += 1
            return web.Response()
        if path == "/hosts":
            self._hosts = await request.json()
            return web.Response()
        number = self._hosts.get(path.removeprefix("/flink/").partition("/")[0], -1)
        if path == "/tuning":
            number = RESULTS
        elif path.startswith("/prometheus/"):
            hostile = (n for n in REST if n in self._inputs and self._inputs[n].door)
            number = next((n for n in hostile if names_of(query["query"], n)), -1)
        given = self._inputs.get(number)
        door = re.sub(r"/jobs/[0-9a-f]{32}$", JOBS, path)
        if given is not None and given.door and door.endswith(given.door):
            self._asked[number] += number != RESULTS  # whose answers count once they are refused
            return await send_slowly(request, given)
        if number == RESULTS:
            return web.Response(status=204)
        if number == FOREIGN:
            return self._answer_as_recorded(path)
        if path.endswith("/metrics") and number >= 0:
            request.match_info["number"] = str(number)
            return await self.metrics(request)
        return await handler(request)

    def _answer_as_recorded(self, path: str) -> web.Response:
        """Answer as a JobManager of somebody else, in whose job something has always changed."""
        vertex = self._recorded[[*self._recorded][-1]] if "/vertices/" in path else b"[]"
        found = (body for end, body in self._recorded.items() if path.endswith(end))
        body = b"[]" if path.endswith("/metrics") else next(found, vertex)
        if path.endswith("/exceptions"):
            body = b'{"exceptionHistory": {"entries": []}}'
        changed = b'"last-modification":%d' % (time.time() * 10)
        body = body.replace(b'"last-modification":', changed)
        return web.Response(body=body, content_type="application/json")

    async def query(self, request: web.Request) -> web.Response:
        """Answer as a Prometheus server that scrapes every second."""
        text, end = request.query["query"], float(request.query["time"])
        times = range(math.ceil(end - int(text.rpartition("[")[2][:-3]) / 1000), int(end) + 1)
        result: list[dict[str, Any]] = [
            {
                "metric": {**labels, "__name__": name, names.APP_LABEL: app_of(number)},
                "values": [(at, str(factor * world.records_until(number, at))) for at in times],
            }
            for number in range(FOREIGN)
            if names_of(text, number)
            for name, labels, factor in world.list_series(number)
        ]
        return web.json_response({"data": {"result": result}})


def names_of(query: str, number: int) -> bool:
    """Return whether a query asks for a StreamApp's series."""
    return app_of(number) in query.replace("\\", "")


async def send_slowly(request: web.Request, given: Input) -> web.StreamResponse:
    """Answer with an input."""
    headers = {"Content-Encoding": "gzip"}
    if not given.pause:
        return web.Response(status=given.status, body=given.body, headers=headers)
    answer = web.StreamResponse(status=given.status, headers=headers)
    await answer.prepare(request)
    for byte in given.body:
        await asyncio.sleep(given.pause)
        await answer.write(bytes([byte]))
    return answer


if __name__ == "__main__":
    web.run_app(
        Neighbours().application(), host="127.0.0.1", port=int(sys.argv[1]), access_log=None
    )
