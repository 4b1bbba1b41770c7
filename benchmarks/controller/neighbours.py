"""A healthy StreamApp beside one that sends whatever a job, or its owner, can send.

The API server is real; the jobs are those of `scale`, and the controller scrapes their reporters by
itself. After a calm, the JobManager and the reporter of one job answer with one hostile or broken
input after the other, and its manifest and its objects are changed to such ones. What counts is
how punctual the other StreamApp's ticks stay, by its own records, compared with the calm.

`WEIR_NEIGHBOURS=20` sends so many of the inputs, evenly chosen. What has failed is asked for
again after a second, so that all inputs have their turn: more often than in reality.
"""

from __future__ import annotations

import asyncio
import gzip
import itertools
import json
import math
import os
import re
import sqlite3
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web
from aiohttp.typedefs import Handler

from benchmarks.controller.scale import stage, world
from benchmarks.figures import Figure, at_least, at_most
from tests.api.assets import find_or_build_assets
from tests.api.client import Answer, Kube, session_for
from tests.api.control_plane import ADMIN, ControlPlane, running_control_plane
from weir_operator import accounts
from weir_operator.kubernetes.app import task
from weir_operator.kubernetes.process.logs import send_logs_to_stderr
from weir_operator.kubernetes.process.running import run_on_cluster
from weir_operator.kubernetes.process.settings import ControllerSettings
from weir_operator.loop.decision_records import RECORDS
from weir_operator.metrics import names
from weir_operator.runtime.kubernetes import job_manager
from weir_operator.runtime.local.processes import free_ports
from weir_operator.wiring.loops import state_directory

ABOUT = "a StreamApp beside one that sends every kind of hostile input: ticks, memory, restarts"
DURATION = "35 min"

INPUTS = int(os.environ.get("WEIR_NEIGHBOURS", "1000"))  # that are sent at most
HEALTHY, HOSTILE = 0, 1  # numbers of the jobs
INTERVAL = 5.0  # seconds between two ticks
CALM = 24 * INTERVAL  # seconds before the first input
WITHIN = 20.0  # seconds in which an input must be asked for and answered by a condition
# Large, and nothing to complain about.
LEGAL = ("manifest pairs at the limit", "manifest arguments", "manifest environment")
MIB, CHART_MEMORY = 2**20, 768.0  # the latter in MiB


@dataclass(frozen=True, slots=True)
class Input:
    """One thing that the hostile StreamApp does."""

    name: str
    door: str  # end of the path that answers with it; empty where the API server gets it
    status: int = 200
    body: bytes = b""  # as gzip
    patch: Mapping[str, Any] = field(default_factory=dict)  # of the StreamApp, a merge patch


def list_inputs() -> list[Input]:
    """Return every input, one door after the other."""
    doors = ("/jobs/overview", "/jobs/ID", "/vertices/v-op0", "/vertices/v-op9", "/checkpoints")
    answers = [
        Input(f"{door} {name} ({status})", door, status, body)
        for door in doors
        for name, body in _answers()
        for status in ((200, 500) if name.startswith(("trace", "numbers")) else (200,))
    ]
    pages = [Input(f"page {name}", "/metrics", 200, body) for name, body in _pages()]
    patches = [Input(f"manifest {name}", "", patch=patch) for name, patch in _patches()]
    return [*answers, *pages, *patches]


def _answers() -> Iterator[tuple[str, bytes]]:
    """Yield bodies of answers of a REST interface."""
    pieces = {"lists": b"[],", "objects": b"{},", "fields": b'{"a":1},', "numbers": b"1,"}
    for (name, piece), size in itertools.product(pieces.items(), (MIB - 100, 8 * MIB - 100)):
        yield f"{name} of {size}", gzip.compress(b"[" + piece * (size // len(piece)) + b"0]", 1)
    texts = {"line feeds": "\\n", "causes": "Caused by: a.b: ", "packages": "a.", "blanks": " "}
    for name, text in texts.items():
        trace = json.dumps({"errors": [text * (900_000 // len(text))]}).replace("\\\\n", "\\n")
        yield f"trace of {name}", gzip.compress(trace.encode(), 1)
    others = {
        "null": b"null",
        "a list": b"[1]",
        "no fields": b"{}",
        "deep lists": b"[" * 39_000,
        "deep objects": b'{"a":' * 39_000,
        "a page": b"<html>",
        "no UTF-8": b'{"a":"\xff\xfe"}',
        "a large number": b'{"jobs":' + b"9" * 4_000 + b"}",
        "other types": b'{"jobs":1,"files":{},"vertices":"x","subtasks":[[1]],"counts":null}',
        "names": json.dumps({"vertices": [{"id": "v", "name": "x" * 900_000}]}).encode(),
    }
    for name, body in others.items():
        yield name, gzip.compress(body, 1)
    yield "zeros", gzip.compress(b"0" * 150 * MIB, 9)
    yield "damaged gzip", gzip.compress(b"x" * 1000)[:30]
    yield "no gzip", b"[]"


def _pages() -> Iterator[tuple[str, bytes]]:
    """Yield pages of a reporter."""
    app = names.mangle(f"{world.namespace_of(HOSTILE)}/{world.name_of(HOSTILE)}")
    head = f'{names.RECORDS_IN}{{weir_app="{app}",'.encode()
    lines = {
        "series": b'tm_id="%d"} 1\n',
        "labels": b",".join(b'l%d=""' % number for number in range(60)) + b',tm_id="%d"} 1\n',
        "long labels": b'tm_id="' + b"x" * 4000 + b'%d"} 1\n',
        "times": b'tm_id="%d"} 1 99999999999999999999\n',
        "infinity": b'tm_id="%d"} +Inf\n',
        "no values": b'tm_id="%d"} \n',
        "quotes": b'tm_id="%d" 1\n',
        "backslashes": b'tm_id="' + b"\\\\" * 3000 + b'%d"} 1\n',
    }
    for (name, line), count in itertools.product(lines.items(), (1, 900, 9_999, 20_000)):
        page = b"".join(head + line % number for number in range(count))
        yield f"{name} of {count} lines", gzip.compress(page[: 20 * MIB], 1)
    for name, body in {
        "line feeds": b"\n" * 3 * MIB,
        "one line": head + b"x" * 3 * MIB,
        "zeros": b"0" * 150 * MIB,
        "comments": b"# HELP a b\n" * (MIB // 4),
        "no UTF-8": head + b'tm_id="\xff"} 1\n',
    }.items():
        yield name, gzip.compress(body, 1)


def _patches() -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield changes of a manifest: some refused, some legal and as large as may be."""
    pools = [
        {"name": f"p{n}", "sizes": [f"{100 + 10 * size}m" for size in range(8)], "price": 1 + n}
        for n in range(16)
    ]
    operators = [{"name": f"o{n}", "maxReplicas": 10_000} for n in range(100)]
    specs: dict[str, dict[str, Any]] = {
        "pairs at the limit": {"nodePools": pools, "operators": operators[:7]},
        "pairs beyond it": {"nodePools": pools, "operators": operators},
        "wrong operators": {"operators": [{"name": "o" * 60, "maxReplicas": -1}] * 100},
        "config": {"flink": {"config": {f"k.{n}": " 1" * 2500 for n in range(190)}}},
        "options": {"flink": {"config": {"env.java.opts.all": "-XX:+Use" * 1000}}},
        "memory": {"flink": {"config": {"taskmanager.memory.size": "1 " * 4000}}},
        "arguments": {"flink": {"job": {"args": ["x" * 4000] * 250}}},
        "environment": {"flink": {"podTemplate": {"spec": {"containers": [{
            "name": "flink-main-container",
            "env": [{"name": f"E{n}", "value": "v" * 2000} for n in range(490)]}]}}}},
        "policy": {"operatorManager": {"policy": {"name": "no" * 100}}},
        "settings": {"operatorManager": {"policy": {"settings": {f"s{n}": n for n in range(99)}}}},
        "interval": {"operatorManager": {"interval": "1ms"}},
        "objective": {"objective": {"responseTime": "0s"}},
        "pools of nobody": {"nodePools": []},
    }  # fmt: skip
    before = stage.manifest_of(HOSTILE)["spec"]
    for name, spec in specs.items():
        flink = before["flink"] | {"config": None, "podTemplate": None} | spec.pop("flink", {})
        yield name, {"spec": before | spec | {"flink": flink}}
    yield "annotations", {"metadata": {"annotations": {f"a{n}": "x," * 60_000 for n in range(2)}}}


class Neighbours(world.Jobs):
    """The jobs of `scale`, one of which answers as it is told."""

    _input, _asked = Input("", ""), 0
    _hosts: Mapping[str, int] = {}  # numbers of jobs by the address of their JobManager

    def application(self) -> web.Application:
        application = super().application()
        application.middlewares.append(self.answer)
        return application

    @web.middleware
    async def answer(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        path = request.path
        if path == "/input":
            self._asked = 0
            query = request.query
            self._input = Input("", query["door"], int(query["status"]), await request.read())
            return web.Response()
        if path == "/asked":
            return web.Response(text=str(self._asked))
        if path == "/hosts":
            self._hosts = await request.json()
            return web.Response()
        host = path.removeprefix("/flink/").partition("/")[0]
        number = self._hosts.get(host, -1)
        door = re.sub(r"/jobs/[0-9a-f]{32}$", "/jobs/ID", path)
        if number == HOSTILE and self._input.door and door.endswith(self._input.door):
            self._asked += 1
            body, status = self._input.body, self._input.status
            return web.Response(status=status, body=body, headers={"Content-Encoding": "gzip"})
        if path.endswith("/metrics") and number >= 0:
            request.match_info["number"] = str(number)
            return await self.metrics(request)
        return await handler(request)


def run_controller(address: str, state: str, port: int) -> None:
    """Run Weir's own controller, but for addresses of JobManagers, until it is told to end."""
    setattr(job_manager, "url", lambda host, _, path="": f"{address}/flink/{host}{path}")  # noqa: B010
    accounts.FIRST_PAUSE = accounts.LONGEST_PAUSE = task.LONGEST_PAUSE = 1.0
    send_logs_to_stderr(as_json=True)
    settings = ControllerSettings(identity="neighbours", own_namespace="weir", state=Path(state),
                                  health_port=port, health_host="127.0.0.1")  # fmt: skip
    asyncio.run(run_on_cluster(settings))


def run() -> list[Figure]:
    """Measure the calm, send everything, and compare."""
    chosen = list_inputs()
    chosen = chosen[:: max(1, len(chosen) // INPUTS)]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="weir-neighbours-")))
        plane = stack.enter_context(running_control_plane(find_or_build_assets(), folder / "plane"))
        world_port, port = free_ports(2)
        address = f"http://127.0.0.1:{world_port}"
        me = (sys.executable, "-m", "benchmarks.controller.neighbours")
        stack.enter_context(stage.running((*me, "world", str(world_port)), folder / "world.log"))
        asyncio.run(stage.until_answers(f"{address}/asked"))
        asyncio.run(stage.set_stage(plane, 2))
        spec = {"operatorManager": {"interval": f"{INTERVAL:g}s", "policy": {"name": "queueing"}}}
        for number in (HEALTHY, HOSTILE):
            ask(plane, path_of(number), {"spec": spec})
        log, state = folder / "controller.log", folder / "state"
        environment = {"KUBECONFIG": str(plane.kubeconfig(folder)), "MALLOC_ARENA_MAX": "2"}
        command = (*me, "controller", address, str(state), str(port))
        started = stack.enter_context(stage.running(command, log, environment))
        key = f"{world.namespace_of(HEALTHY)}/{world.name_of(HEALTHY)}"
        records = state_directory(state, key) / RECORDS
        wait_for_ticks(records)
        hosts = json.dumps(find_hosts(plane)).encode()
        urllib.request.urlopen(f"{address}/hosts", data=hosts).close()
        calm = time.time()
        time.sleep(CALM)
        began = time.time()
        unanswered = [each.name for each in chosen if not send(each, address, plane, started)]
        before, beside = delays(records, calm, began), delays(records, began, time.time())
        return [
            at_least(figure="inputs sent", value=float(len(chosen)), unit="",
                     limit=min(INPUTS, 200)),
            at_most(figure="inputs without condition or refusal",
                    value=float(len(unanswered)), unit="", limit=0),
            Figure(figure="largest delay of a tick alone", value=max(before), unit="s"),
            at_most(figure="largest delay of a tick beside it, above that",
                    value=max(beside) - max(before), unit="s", limit=1.0),
            at_most(figure="ticks missed", value=float(sum(each > INTERVAL / 2 for each in beside)),
                    unit="", limit=0),
            at_most(figure="memory of the controller", value=peak_memory(started.pid), unit="MiB",
                    limit=CHART_MEMORY),
            at_most(figure="restarts and lost terms",
                    value=float(log.read_text().count("term over")), unit="", limit=0),
        ]  # fmt: skip


def send(each: Input, address: str, plane: ControlPlane, process: subprocess.Popen[bytes]) -> bool:
    """Send an input; return whether it was refused, or a condition speaks of it."""
    began = time.monotonic()
    if each.patch and ask(plane, path_of(HOSTILE), each.patch).status != 200:
        return True  # refused
    url = f"{address}/input?door={each.door}&status={each.status}"
    urllib.request.urlopen(url, data=each.body).close()
    asked = 0
    while time.monotonic() - began < WITHIN:
        time.sleep(1.0)
        if process.poll() is not None:
            raise RuntimeError("The controller has ended")
        asked = int(urllib.request.urlopen(f"{address}/asked").read())
        if (asked or each.patch) and is_told(plane):
            return True
    print(f"{each.name}: asked for {asked} times, no condition", flush=True)
    return each.name in LEGAL


def ask(plane: ControlPlane, path: str, patch: Mapping[str, Any] | None = None) -> Answer:
    """Return what the API server answers, after a patch if there is one."""

    async def send() -> Answer:
        async with session_for(certificate=plane.certificate, token=ADMIN) as session:
            kube = Kube(session, url=plane.url, namespace="", kubeconfig=Path())
            return await (kube.get(path) if patch is None else kube.merge(path, patch))

    return asyncio.run(send())


def path_of(number: int) -> str:
    name, namespace = world.name_of(number), world.namespace_of(number)
    return f"/apis/weir.dev/v1alpha1/namespaces/{namespace}/streamapps/{name}"


def find_hosts(plane: ControlPlane) -> Mapping[str, int]:
    """Return the numbers of the jobs by the address of their JobManager's Service."""
    services = ask(plane, "/api/v1/services").body["items"]
    found = {each["spec"]["clusterIP"]: each["metadata"]["name"] for each in services}
    return {host: int(name[4:8]) for host, name in found.items() if name.startswith("app-")}


def is_told(plane: ControlPlane) -> bool:
    """Return whether a condition of the hostile StreamApp is not as it should be."""
    found = ask(plane, path_of(HOSTILE)).body.get("status", {}).get("conditions", ())
    told = {"Ready", "Deciding", "MetricsHealthy", "WithinLimits"}
    return any(each["type"] in told and each["status"] == "False" for each in found)


def wait_for_ticks(records: Path) -> None:
    """Wait until the healthy StreamApp has ticked some times."""
    for _ in range(300):
        if records.exists() and len(ticks(records)) >= 4:
            return
        time.sleep(1.0)
    raise RuntimeError("Expected four ticks of the healthy StreamApp within five minutes")


def peak_memory(pid: int) -> float:
    """Return the most MiB that a process has held."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    return int(found[1]) / 1024 if found else math.inf


def ticks(records: Path) -> Sequence[float]:
    """Return the times of all ticks."""
    with sqlite3.connect(f"file:{records}?mode=ro", uri=True) as connection:
        return [time for (time,) in connection.execute("SELECT time FROM ticks ORDER BY time")]


def delays(records: Path, begin: float, end: float) -> list[float]:
    """Return by how much each interval between two ticks was longer than it should be, s."""
    times = [each for each in ticks(records) if begin <= each <= end]
    return [later - earlier - INTERVAL for earlier, later in itertools.pairwise(times)] or [0.0]


if __name__ == "__main__":
    if sys.argv[1] == "world":
        port = int(sys.argv[2])
        web.run_app(Neighbours().application(), host="127.0.0.1", port=port, access_log=None)
    else:
        run_controller(sys.argv[2], sys.argv[3], int(sys.argv[4]))
