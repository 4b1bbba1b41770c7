"""A healthy StreamApp beside others that send whatever a job, or its owner, can send.

The API server is real; the jobs are those of `scale`, and the controller scrapes their reporters by
itself. After a calm, twelve neighbours send at once, each through doors of its own: one hostile or
broken input after the other, and after each what is right again, until all is well. Then another
controller takes over, which finds StreamApps as large as the API server stores them and asks a
Prometheus server, which has such things of four neighbours. What counts is how punctual the healthy
one's ticks stay, by its own records, compared with the calm before.

`WEIR_NEIGHBOURS=5` sends so many of each one's inputs, evenly chosen. Jobs are looked at, and what
has failed is asked for again, after a second, so that all inputs have their turn: more often than
in reality. No kubelet and no tuner runs: pods say what is written into their status, and results of
tunings are read and checked, one after the other, as a loop that tunes does.
"""

from __future__ import annotations

import asyncio
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
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import aiohttp

from benchmarks.controller.neighbours.inputs import (
    FOREIGN,
    HEALTHY,
    INTERVAL,
    MANIFESTS,
    RESULTS,
    Input,
    a_pod_with,
    app_of,
    list_inputs,
    list_series,
    right_spec,
)
from benchmarks.controller.scale import stage, world
from benchmarks.figures import Figure, at_least, at_most
from tests.api.assets import find_or_build_assets
from tests.api.client import Answer, Kube, session_for
from tests.api.control_plane import ADMIN, ControlPlane, running_control_plane
from tests.operator.tuning.fakes import a_request
from weir_operator import accounts
from weir_operator.advise import app as external
from weir_operator.advise import reference
from weir_operator.cluster.app import opening, task
from weir_operator.cluster.process.logs import send_logs
from weir_operator.cluster.process.running import run_on_cluster
from weir_operator.cluster.process.settings import ControllerSettings, PrometheusAccess
from weir_operator.errors import WeirError
from weir_operator.loop.record import RECORDS
from weir_operator.runtime.pods import job_manager
from weir_operator.runtime.processes.processes import free_ports
from weir_operator.tuning.protocol import read_answer, read_frames
from weir_operator.tuning.requests import check_answer
from weir_operator.wiring.loops import state_directory
from weir_simulator.tuning.order import TuningResult

ABOUT = "a StreamApp beside others that send every kind of hostile input: ticks, memory, restarts"
DURATION = "12 min"

INPUTS = int(os.environ.get("WEIR_NEIGHBOURS", "1000"))  # of each neighbour, at most
CROWD = 60  # large StreamApps that the second controller finds
CALM = 8 * INTERVAL  # seconds before the first input
WITHIN = 60.0  # seconds in which an input must be answered by a condition, and be over
LEGAL_FOR = 4.0  # seconds for which something lasts that there is nothing to complain about
CHART_MEMORY = 1024.0  # MiB
_JSON_PATCH = "application/json-patch+json"
_FOLDER = "benchmarks.controller.neighbours"
_PYTHON = (sys.executable, "-m")


def run_controller(address: str, state: str, port: int, prometheus: str) -> None:
    """Run Weir's own controller, but for addresses of JobManagers, until it is told to end."""
    setattr(job_manager, "url", lambda host, _, path="": f"{address}/flink/{host}{path}")  # noqa: B010
    reference._url = lambda service, port: f"{address}/flink/{service['spec']['clusterIP']}"
    accounts.FIRST_PAUSE = accounts.LONGEST_PAUSE = task.LONGEST_PAUSE = 1.0
    opening.LOOK_EVERY = external.LOOK_EVERY = external.LOOK_AGAIN = 1.0
    job_manager.START_LIMIT = 10.0
    send_logs(as_json=True)
    settings = ControllerSettings(
        identity="neighbours", own_namespace="weir", state=Path(state), health_port=port,
        health_host="127.0.0.1",
        prometheus=PrometheusAccess(url=prometheus) if prometheus else None,
    )  # fmt: skip

    async def run() -> None:
        reading = asyncio.create_task(read_results(address))
        await run_on_cluster(settings)
        reading.cancel()

    asyncio.run(run())


def _read_result(log: str) -> TuningResult:
    return read_answer(read_frames(log))


async def read_results(address: str) -> None:
    """Read results of tunings in the controller's event loop, as `tuning.job` does."""
    async with aiohttp.ClientSession() as session:
        while True:
            await asyncio.sleep(1.0)
            async with session.get(f"{address}/tuning") as answer:
                if answer.status != 200:
                    continue
                log = (await answer.read()).decode()
            try:
                result = await asyncio.to_thread(_read_result, log)
                check_answer(result, a_request())
            except WeirError:
                await (await session.get(f"{address}/refused")).release()


def run() -> list[Figure]:
    """Measure the calm, send everything, and compare, with each of both controllers."""
    lists, series = (
        {number: each[:: max(1, len(each) // INPUTS)] for number, each in lists.items()}
        for lists in (list_inputs(), list_series())
    )
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="weir-neighbours-")))
        plane = stack.enter_context(running_control_plane(find_or_build_assets(), folder / "plane"))
        scene = Scene(folder, plane, *free_ports(2))
        command = (*_PYTHON, f"{_FOLDER}.jobs", str(scene.world_port))
        stack.enter_context(stage.running(command, folder / "world.log"))
        asyncio.run(stage.until_answers(scene.url("asked", number=HEALTHY)))
        asyncio.run(stage.set_stage(plane, FOREIGN))
        asyncio.run(set_foreign_job(plane))
        for number in range(FOREIGN + 1):
            scene.set_spec(number, right_spec(number))
        measured = [scene.measure(lists)]
        asyncio.run(set_crowd(plane))
        measured.append(scene.measure(series, prometheus=scene.url("prometheus")))
    return list_figures(measured)


@dataclass(frozen=True, kw_only=True, slots=True)
class Measured:
    """What one controller did."""

    sent: int
    unanswered: int
    lasting: int
    before: Sequence[float]
    beside: Sequence[float]
    unmeasured: int
    memory: float
    restarts: int


def list_figures(measured: Sequence[Measured]) -> list[Figure]:
    """Return what the controllers did together."""
    later = max(max(each.beside) - max(each.before) for each in measured)
    missed = sum(delay > INTERVAL / 2 for each in measured for delay in each.beside)
    alone = max(max(each.before) for each in measured)
    sent = sum(each.sent for each in measured)
    memory = max(each.memory for each in measured)
    return [
        at_least("inputs sent", float(sent), 200),
        *(
            at_most(figure, float(sum(counts)), 0)
            for figure, counts in {
                "inputs without condition or refusal": [each.unanswered for each in measured],
                "inputs that were not over with their end": [each.lasting for each in measured],
            }.items()
        ),
        Figure("largest delay of a tick alone", alone, "s"),
        at_most("largest delay of a tick beside it, above that", later, 1.0, "s"),
        at_most("ticks missed", float(missed), 0),
        at_most("ticks that measured nothing", float(sum(each.unmeasured for each in measured)), 0),
        at_most("memory of the controller", memory, CHART_MEMORY, "MiB"),
        at_most("restarts and lost terms", float(sum(each.restarts for each in measured)), 0),
    ]


class Scene:
    """Where the controllers run, and what is done to them."""

    def __init__(self, folder: Path, plane: ControlPlane, world_port: int, port: int) -> None:
        self.world_port = world_port
        self._folder = folder
        self._plane = plane
        self._port = port
        self._state = folder / "state"
        self._kubeconfig = str(plane.kubeconfig(folder))

    def url(self, path: str, **query: object) -> str:
        """Return where the world answers."""
        found = urlencode({name: str(value) for name, value in query.items()})
        return f"http://127.0.0.1:{self.world_port}/{path}{found and '?'}{found}"

    def ask(self, method: str, path: str, body: object = None) -> Answer:
        """Return what the API server answers; a change is a JSON patch."""

        async def send() -> Answer:
            async with session_for(certificate=self._plane.certificate, token=ADMIN) as session:
                kube = Kube(session, url=self._plane.url, namespace="", kubeconfig=Path())
                return await kube.ask(method, path, body, content_type=_JSON_PATCH)

        return asyncio.run(send())

    def set_spec(self, number: int, spec: Mapping[str, Any]) -> bool:
        """Return whether the API server takes a spec."""
        change = [{"op": "add", "path": "/spec", "value": spec}]
        return self.ask("PATCH", path_of(number), change).status == 200

    def measure(self, lists: Mapping[int, Sequence[Input]], *, prometheus: str = "") -> Measured:
        """Run a controller, alone and beside the neighbours, which send at once."""
        log = self._folder / "controller.log"
        command = (*_PYTHON, f"{_FOLDER}.neighbours", self.url("").rstrip("/"), str(self._state))
        environment = {"KUBECONFIG": self._kubeconfig, "MALLOC_ARENA_MAX": "2"}
        records = self._folder_of(HEALTHY) / RECORDS
        began = time.time()
        with stage.running((*command, str(self._port), prometheus), log, environment) as started:
            wait_for(lambda: len(ticks(records, since=began)) >= 4, within=300.0)
            wait_for(lambda: len(self.find_hosts()) == FOREIGN + 1, within=60.0)
            hosts = json.dumps(self.find_hosts()).encode()
            urllib.request.urlopen(self.url("hosts"), data=hosts).close()
            calm = time.time()
            time.sleep(CALM)
            begun = time.time()
            with ThreadPoolExecutor(len(lists)) as threads:
                each = [threads.submit(self.send_all, started, *item) for item in lists.items()]
                counted = [one.result() for one in each]
            alone, beside = ticks(records, since=calm, until=begun), ticks(records, since=begun)
            return Measured(
                sent=sum(map(len, lists.values())),
                unanswered=sum(unanswered for unanswered, _ in counted),
                lasting=sum(lasting for _, lasting in counted),
                before=delays(alone),
                beside=delays(beside),
                unmeasured=sum(violated is None for violated in beside.values()),
                memory=peak_memory(started.pid),
                restarts=log.read_text().count("term over"),
            )

    def send_all(
        self, process: subprocess.Popen[bytes], number: int, inputs: Sequence[Input]
    ) -> tuple[int, int]:
        """Send a neighbour's inputs; return how many were not answered, and were not over soon."""
        unanswered = lasting = 0
        for each in inputs:
            if not (answered := self.send(process, number, each)):
                print(f"{each.name}: {self.asked(number)} times, no condition", flush=True)
            if not (over := self.calm_down(number, each)):
                print(f"{each.name}: told of after its end: {self.told(number, each)}", flush=True)
            unanswered += not answered
            lasting += not over
        return unanswered, lasting

    def send(self, process: subprocess.Popen[bytes], number: int, each: Input) -> bool:
        """Send an input; return whether it was refused, or a condition speaks of it."""
        if each.file:
            new = self._folder / f"file-{number}"  # neighbours send at once
            new.write_bytes(each.body)
            new.replace(self._folder_of(number) / each.file)
        if not all(self.set_spec(number, spec) for spec in each.specs):
            return True
        if not self.set_objects(number, each.annotations, each.pod):
            return True
        if each.door:
            self.set_answer(number, each)
        began = time.monotonic()
        while time.monotonic() - began < WITHIN:
            time.sleep(0.5)
            if process.poll() is not None:
                raise RuntimeError("The controller has ended")
            if each.door and not self.asked(number):
                continue
            if number == RESULTS or self.told(number, each):
                return True
            if each.legal and time.monotonic() - began > LEGAL_FOR:
                return True
        return False

    def calm_down(self, number: int, each: Input) -> bool:
        """Be as other StreamApps are; return whether nothing is told any more soon."""
        self.set_answer(number, Input(name=""))
        if each.specs:
            self.set_spec(number, right_spec(number))
        # No job of this world can be started anew, as what is legal of a manifest asks for.
        if number == RESULTS or each.name.startswith("manifest"):
            return True
        self.set_objects(number, each.annotations and {}, each.pod and {"phase": "Pending"})
        return wait_for(lambda: not self.told(number, each), within=WITHIN)

    def set_objects(
        self, number: int, annotations: Mapping[str, str] | None, pod: Mapping[str, Any] | None
    ) -> bool:
        """Return whether the API server takes annotations, and the status of a pod, if any."""
        first = world.pod_of(number, world.OPERATORS[0])
        place = f"/api/v1/namespaces/{world.namespace_of(number)}/pods/{first}/status"
        return all(
            self.ask("PATCH", path, [{"op": "add", "path": field, "value": value}]).status == 200
            for path, field, value in (
                (path_of(number), "/metadata/annotations", annotations),
                (place, "/status", pod),
            )
            if value is not None
        )

    def set_answer(self, number: int, each: Input) -> None:
        """Let the world answer with an input."""
        url = self.url("input", number=number, door=each.door, status=each.status, pause=each.pause)
        urllib.request.urlopen(url, data=each.body if each.door else b"").close()

    def asked(self, number: int) -> int:
        """Return how often an input was asked for, or was refused if it is a result."""
        return int(urllib.request.urlopen(self.url("asked", number=number)).read())

    def told(self, number: int, each: Input) -> list[str]:
        """Return the conditions of a StreamApp that an input leaves not as they should be."""
        app = self.ask("GET", path_of(number)).body
        found = app.get("status", {}).get("conditions", ())
        generation = app["metadata"]["generation"]
        told = {"Ready", "Deciding", "WithinLimits", "MetricsHealthy"}
        return [
            f"{each['type']}: {each['message']}"
            for each in found
            if each["type"] in told
            and each["status"] == "False"
            and each["observedGeneration"] == generation
        ]

    def find_hosts(self) -> Mapping[str, int]:
        """Return the numbers of the jobs by the address of their JobManager's Service."""
        services = self.ask("GET", "/api/v1/services").body["items"]
        found = {each["spec"]["clusterIP"]: each["metadata"]["name"] for each in services}
        return {host: int(name[4:8]) for host, name in found.items() if name.startswith("app-")}

    def _folder_of(self, number: int) -> Path:
        return state_directory(self._state, app_of(number))


async def set_foreign_job(plane: ControlPlane) -> None:
    """Create a StreamApp with the job of a Deployment that is not Weir's."""
    name, namespace = world.name_of(FOREIGN), world.namespace_of(FOREIGN)
    labels = {"matchLabels": {"app": name}}
    container = {"name": "main", "image": "example/flink:1"}
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container]}}
    service = {
        "metadata": {"name": f"{name}-rest"},
        "spec": {"ports": [{"name": "rest", "port": 8081}], "selector": {"app": name}},
    }
    deployment = {"metadata": {"name": name}, "spec": {"selector": labels, "template": template}}
    manifest = stage.manifest_of(FOREIGN) | {"spec": right_spec(FOREIGN)}
    manifest["metadata"] |= {"annotations": {reference.REST_SERVICE: f"{name}-rest"}}
    async with session_for(certificate=plane.certificate, token=ADMIN) as session:
        kube = Kube(session, url=plane.url, namespace="", kubeconfig=Path())
        await stage.create(kube, f"/api/v1/namespaces/{namespace}/services", service)
        await stage.create(kube, f"/apis/apps/v1/namespaces/{namespace}/deployments", deployment)
        await stage.create(kube, path_of(FOREIGN).rpartition("/")[0], manifest)


async def set_crowd(plane: ControlPlane) -> None:
    """Create StreamApps as large as the API server stores them."""
    flink = right_spec(MANIFESTS[0])["flink"] | a_pod_with(
        env=[{"name": "A", "value": "v" * 1_300_000}]
    )
    spec = right_spec(MANIFESTS[0]) | {"flink": flink, "mode": "Off", "state": "Suspended"}
    async with session_for(certificate=plane.certificate, token=ADMIN) as session:
        kube = Kube(session, url=plane.url, namespace="", kubeconfig=Path())
        for number in range(CROWD):
            manifest = stage.manifest_of(MANIFESTS[0]) | {"spec": spec}
            manifest["metadata"] |= {"name": f"large-{number}"}
            await stage.create(kube, path_of(MANIFESTS[0]).rpartition("/")[0], manifest)


def path_of(number: int) -> str:
    name, namespace = world.name_of(number), world.namespace_of(number)
    return f"/apis/weir.dev/v1alpha1/namespaces/{namespace}/streamapps/{name}"


def wait_for(holds: Callable[[], bool], *, within: float) -> bool:
    """Return whether something holds within so many seconds."""
    ends = time.monotonic() + within
    while not (found := holds()) and time.monotonic() < ends:
        time.sleep(0.5)
    return found


def peak_memory(pid: int) -> float:
    """Return the most MiB that a process has held."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    return int(found[1]) / 1024 if found else math.inf


def ticks(records: Path, *, since: float, until: float = math.inf) -> Mapping[float, bool | None]:
    """Return whether each tick between two Unix times found a bound exceeded; `None`: unknown."""
    if not records.exists():
        return {}
    query = "SELECT time, record FROM ticks WHERE time BETWEEN ? AND ? ORDER BY time"
    with closing(sqlite3.connect(f"file:{records}?mode=ro", uri=True)) as connection:
        found = connection.execute(query, (since, until)).fetchall()
    return {time: json.loads(record)["violated"] for time, record in found}


def delays(times: Iterable[float]) -> list[float]:
    """Return by how much each interval between two ticks was longer than it should be, s."""
    return [later - earlier - INTERVAL for earlier, later in itertools.pairwise(times)] or [0.0]


if __name__ == "__main__":
    run_controller(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4])
