"""One controller and three hundred StreamApps: what it costs, how punctual it is, what it asks.

300 StreamApps of 10 operators, in the mode Advise with `planner`, are looked after by one
controller in a process of its own. The API server and Prometheus are real; the jobs are simulated
(`world.py`): JobManagers answer and reporters count, but no record flows. Everything runs on
this machine, so what is measured of the controller is its own process: CPU time and memory as the
kernel counts them. Its `/metrics` is read every half a minute, as a Prometheus would. How busy the
machine was is reported beside each part.

One part after the other: the start of all together, the calm, an API server that takes two seconds
for each answer, one that is away for 20 s, the minutes in which planners make their first plans (25
after all were decided on), and the restart.
"""

from __future__ import annotations

import asyncio
import gzip
import math
import os
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from benchmarks.controller.scale import stage
from benchmarks.controller.scale.api_faults import ApiServer, reachable_api_server
from benchmarks.controller.scale.world import OPERATORS
from benchmarks.figures import Figure, at_most
from benchmarks.spawned import call_repeatedly
from tests.api.assets import find_or_build_assets
from tests.api.control_plane import ControlPlane, running_control_plane
from weir_operator.runtime.processes.processes import free_ports

ABOUT = "one controller with 300 StreamApps of 10 operators: CPU, memory, tick lag, requests"
DURATION = "45 min"

APPS = 300
MIB = 2**20
WARM = 30.0
"""Seconds between the start and the calm that is measured."""
INTERVAL = 60.0
"""Seconds between two ticks of a StreamApp."""
SLOW = 2.0
"""Seconds more for each answer of a slow API server."""
SLOW_FOR = 3 * INTERVAL
"""Seconds for which it is slow: each StreamApp ticks meanwhile."""
AWAY_FOR = 20.0
SETTLES = 30.0
"""Seconds that are watched after a fault of the API server."""
PAUSE_LIMIT = 30.0
"""Seconds between two renewals: before those after which a holder stops acting."""
TERM_OVER = "term over"
"""What the controller says when it has lost its Lease."""
FIRST_PLANS = 25 * 60.0
"""Seconds after all were decided on at which the stretch with first plans begins."""
MEASURED = 3
"""Intervals that are measured, after the start is over."""
LONGEST_START = 360.0
"""Seconds after which a start counts as not measured."""
READ_EVERY = 30.0
"""Seconds between two readings of the controller's metrics."""
LOOK_EVERY = 10.0
"""The same during a start."""
CPU_LIMIT = 0.5
MEMORY_LIMIT = 1024.0
LAG_LIMIT = 1.0
DECIDED_LIMIT = 120.0
"""Seconds after a start within which all have been decided on."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Reading:
    """What stood on the controller's page and the API server's at a moment."""

    time: float
    cpu: float
    machine: float
    """CPU seconds of all processes."""
    lags: Mapping[float, float]
    """Ticks that began no later than so many seconds after their time."""
    decisions: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Stretch:
    """What happened between two readings."""

    seconds: float
    cores: float
    """Of the controller."""
    busy: float
    """Part of the machine's processors that were in use, by whatever."""
    lag: float | None
    """Seconds, p99."""
    decisions: float
    highest: float
    """MiB of the controller."""
    anonymous: float
    """MiB of it at the end that no file holds."""


class Bench:
    def __init__(
        self, plane: ControlPlane, server: ApiServer, folder: Path, *, port: int, apps: int
    ) -> None:
        self.apps = apps
        self.plane = plane
        self.server = server
        self.log = folder / "controller.log"
        self.world = self.prometheus = ""
        self._folder = folder
        self._port = port
        self._process: psutil.Process | None = None
        self.highest = 0.0
        """MiB of the controller, the most that was seen while it was watched."""
        self.decided = 0.0
        """When all had been decided on, by the monotonic clock."""

    @property
    def process(self) -> psutil.Process:
        if self._process is None:
            raise RuntimeError("Expected a controller that runs, got none")
        return self._process

    @contextmanager
    def controller(self) -> Iterator[None]:
        """Run a controller while the block runs."""
        config = self.plane.kubeconfig(self._folder, url=self.server.url)
        command = (
            *(sys.executable, "-m", "benchmarks.controller.scale.controller"),
            *(self.world, self.prometheus, str(self._folder / "state"), str(self._port)),
        )
        # The second as in the image.
        environment = {"KUBECONFIG": str(config), "MALLOC_ARENA_MAX": "2"}
        with stage.running(command, self.log, environment) as started:
            self._process = psutil.Process(started.pid)
            yield

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Keep the most memory that the controller holds while the block runs."""
        self.highest = 0.0

        def watch() -> None:
            with suppress(psutil.NoSuchProcess):  # it is the others who say that it has ended
                self.highest = max(self.highest, self.process.memory_info().rss / MIB)

        with call_repeatedly(watch, period=1.0, name="memory"):
            yield

    def check(self) -> None:
        if self.process.status() == psutil.STATUS_ZOMBIE:
            raise RuntimeError("The controller has ended")

    def cpu(self) -> float:
        """Return the CPU seconds that the controller has used, in the system too."""
        times = self.process.cpu_times()
        return times.user + times.system

    def page(self) -> str:
        """Return the controller's metrics, empty while it does not answer."""
        try:
            url = f"http://127.0.0.1:{self._port}/metrics"
            asked = urllib.request.Request(url, headers={"Accept-Encoding": "gzip"})
            with urllib.request.urlopen(asked, timeout=30) as answer:
                return gzip.decompress(answer.read()).decode()
        except OSError:
            return ""

    def read(self) -> Reading:
        page = self.page()
        return Reading(
            time=time.monotonic(),
            cpu=self.cpu(),
            machine=machine_cpu(),
            lags=lags_of(page),
            decisions=total(page, "weir_decisions_total"),
        )

    def wait_until_all_decided(self) -> dict[str, float]:
        """Return seconds until all jobs were found running, and until all had been decided on."""
        found: dict[str, float] = {}
        ready, began = 0.0, time.monotonic()
        deciding: set[str] = set()
        while time.monotonic() - began < LONGEST_START:
            self.check()
            page = self.page()
            ready = sum(
                value
                for labels, value in stage.samples(page, "weir_condition")
                if labels["type"] == "Ready" and value == 1.0
            )
            deciding = {labels["app"] for labels, _ in stage.samples(page, "weir_decisions_total")}
            if ready >= self.apps:
                found.setdefault("ready", time.monotonic() - began)
            if "ready" in found and len(deciding) >= self.apps:
                self.decided = time.monotonic()
                return found | {"decided": self.decided - began}
            time.sleep(LOOK_EVERY)
        raise RuntimeError(
            f"Expected {self.apps} StreamApps to be ready and decided on, got {ready:g} and "
            f"{len(deciding)} after {LONGEST_START:g} s"
        )

    def watch(self, seconds: float) -> Stretch:
        """Let time pass, reading the metrics as a Prometheus would; return what happened."""
        with self.watched():
            before = self.read()
            end = time.monotonic() + seconds
            while (left := end - time.monotonic()) > 0:
                time.sleep(min(READ_EVERY, left))
                self.check()
                self.page()
            after = self.read()
        passed, memory = after.time - before.time, self.process.memory_info()
        return Stretch(
            seconds=passed,
            cores=(after.cpu - before.cpu) / passed,
            busy=(after.machine - before.machine) / passed / (os.cpu_count() or 1),
            lag=quantile(before.lags, after.lags, 0.99),
            decisions=after.decisions - before.decisions,
            highest=self.highest,
            anonymous=(memory.rss - memory.shared) / MIB,
        )

    def terms_lost(self) -> int:
        """Return how often the controller has lost its Lease since its start."""
        return self.log.read_text().count(TERM_OVER)


def run() -> list[Figure]:
    """Set the stage, start the controller, measure it, start it again."""
    with running_bench(APPS) as bench:
        with bench.controller():
            figures = [
                *measure_start(bench, "start"),
                *measure_calm(bench),
                *measure_fault(bench, "slow", SLOW_FOR),
                *measure_fault(bench, "away", AWAY_FOR),
                *measure_planned(bench),
            ]
        with bench.controller():
            figures += measure_start(bench, "restart")
    return [
        Figure("StreamApps", float(APPS)),
        Figure("operators", float(APPS * len(OPERATORS))),
        *figures,
    ]


@contextmanager
def running_bench(apps: int) -> Iterator[Bench]:
    """Run all but the controller while the block runs, with so many StreamApps."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="weir-scale-")))
        plane = stack.enter_context(running_control_plane(find_or_build_assets(), folder / "plane"))
        world_port, prometheus_port, port = free_ports(3)
        world = stack.enter_context(stage.running_world(folder, world_port))
        asyncio.run(stage.until_answers(f"{world}/metrics/0"))
        prometheus = stack.enter_context(
            stage.running_prometheus(folder, prometheus_port, world=world, apps=range(apps))
        )
        asyncio.run(stage.set_stage(plane, apps))
        server = stack.enter_context(reachable_api_server(plane))
        bench = Bench(plane, server, folder, port=port, apps=apps)
        bench.world, bench.prometheus = world, prometheus
        yield bench


def measure_start(bench: Bench, name: str) -> list[Figure]:
    """Measure from the controller's start until all have been decided on."""
    began, machine = time.monotonic(), machine_cpu()
    with bench.watched():
        found = bench.wait_until_all_decided()
    processors = (time.monotonic() - began) * (os.cpu_count() or 1)
    return [
        Figure(f"{name} until all jobs were found running", found["ready"], "s"),
        at_most(f"{name} until all had been decided on", found["decided"], DECIDED_LIMIT, "s"),
        Figure(f"CPU time of the {name}", bench.cpu(), "s"),
        Figure(f"memory during the {name}", bench.highest, "MiB"),
        Figure(
            f"machine busy during the {name}", 100 * (machine_cpu() - machine) / processors, "%"
        ),
    ]


def measure_calm(bench: Bench) -> list[Figure]:
    """Measure while nothing happens, before there are plans."""
    time.sleep(WARM)
    calm = bench.watch(MEASURED * INTERVAL)
    return [
        *judge_calm(calm, ""),
        Figure("decisions", calm.decisions / calm.seconds, "1/s"),
    ]


def measure_planned(bench: Bench) -> list[Figure]:
    """Measure while nothing else happens, in minutes in which planners make their first plans."""
    time.sleep(max(bench.decided + FIRST_PLANS - time.monotonic(), 0.0))
    return judge_calm(bench.watch(MEASURED * INTERVAL), ", first plans")


def judge_calm(calm: Stretch, when: str) -> list[Figure]:
    """Return what is judged of a stretch in which nothing happens."""
    return [
        at_most(f"CPU of the controller{when}", calm.cores, CPU_LIMIT, "cores"),
        at_most(f"memory of the controller{when}", calm.highest, MEMORY_LIMIT, "MiB"),
        Figure(f"of it: not in files{when}", calm.anonymous, "MiB"),
        at_most(f"tick lag{when}, p99", calm.lag, LAG_LIMIT, "s"),
        Figure(f"machine busy meanwhile{when}", 100 * calm.busy, "%"),
    ]


def measure_fault(bench: Bench, name: str, seconds: float) -> list[Figure]:
    """Measure while the API server is slow or away, and a while after."""
    began, lost = time.monotonic(), bench.terms_lost()
    before = lags_of(bench.page())
    if name == "slow":
        bench.server.answer_after(SLOW)
    else:
        bench.server.go_away()
    try:
        time.sleep(seconds)
    finally:
        bench.server.come_back()
    meanwhile = lags_of(bench.page())
    ticks = meanwhile.get(math.inf, 0.0) - before.get(math.inf, 0.0)
    after = bench.watch(SETTLES)
    return [
        at_most(
            f"API server {name}: longest pause between renewals of the Lease",
            bench.server.longest_pause(began),
            PAUSE_LIMIT,
            "s",
        ),
        at_most(f"API server {name}: terms lost", float(bench.terms_lost() - lost), 0),
        Figure(
            f"API server {name}: ticks meanwhile, of those due",
            100 * ticks * INTERVAL / (bench.apps * seconds),
            "%",
        ),
        Figure(
            f"API server {name}: tick lag meanwhile, p99", quantile(before, meanwhile, 0.99), "s"
        ),
        Figure(f"API server {name}: tick lag just after, p99", after.lag, "s"),
        Figure(f"API server {name}: machine busy just after", 100 * after.busy, "%"),
    ]


def machine_cpu() -> float:
    """Return the CPU seconds that all processes of the machine have used together."""
    times = psutil.cpu_times()
    return float(times.user + times.nice + times.system + times.irq + times.softirq)


def total(page: str, name: str) -> float:
    """Return the sum of all series of a name."""
    return sum(value for _, value in stage.samples(page, name))


def lags_of(page: str) -> Mapping[float, float]:
    """Return how many ticks began no later than so many seconds after their time."""
    return {
        float(labels["le"]): value
        for labels, value in stage.samples(page, "weir_tick_lag_seconds_bucket")
    }


def quantile(
    before: Mapping[float, float], after: Mapping[float, float], part: float
) -> float | None:
    """Return below which lag that part of the ticks between two readings began."""
    bounds = sorted(after)
    counts = [after[each] - before.get(each, 0.0) for each in bounds]
    if not counts or counts[-1] <= 0:  # below zero after a term was lost: it counts anew
        return None
    wanted = part * counts[-1]
    low, below = 0.0, 0.0
    for bound, count in zip(bounds, counts, strict=True):
        if count >= wanted:
            if bound == math.inf:
                return None
            return low + (bound - low) * (wanted - below) / max(count - below, 1e-9)
        low, below = bound, count
    return None
