"""One controller and a thousand StreamApps: what it costs, how punctual it is, what it asks.

1,000 StreamApps of 10 operators, in the mode Advise with `planner`, are looked after by one
controller in a process of its own. The API server and Prometheus are real; the jobs are simulated
(`world.py`): JobManagers answer and reporters count, but no record flows. Everything runs on
this machine, so what is measured of the controller is its own process: CPU time and memory as the
kernel counts them. Its `/metrics` is read every half a minute, as a Prometheus would.

Planners have no plan in their first twenty minutes; the memory of one that has is reported by
`make bench NAME=scale-memory`.

`WEIR_SCALE_APPS=100 make bench NAME=scale` takes fewer.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.controller.scale import stage
from benchmarks.controller.scale.world import OPERATORS
from benchmarks.figures import Figure, at_most
from tests.api.assets import find_or_build_assets
from tests.api.control_plane import ControlPlane, running_control_plane
from weir_operator.runtime.local.processes import free_ports

ABOUT = "one controller with 1,000 StreamApps of 10 operators: CPU, memory, tick lag, requests"
DURATION = "25 min"

APPS = int(os.environ.get("WEIR_SCALE_APPS", "1000"))
INTERVAL = 60.0
"""Seconds between two ticks of a StreamApp."""
MEASURED = 5
"""Intervals that are measured, after the start is over."""
HANGING = 3
"""Intervals that are measured while one JobManager answers nobody."""
READ_EVERY = 30.0
"""Seconds between two readings of the controller's metrics."""
LAG_LIMIT = 1.0
_MIB = 2**20
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(slots=True)
class Process:
    """What the kernel says of the controller's process."""

    pid: int
    highest: float = 0.0
    """MiB resident, the most that was seen."""
    _stop: threading.Event = field(default_factory=threading.Event)

    def check(self) -> None:
        """Return if it runs.

        Raises:
            RuntimeError: It has ended; its log says why.
        """
        words = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        if words[0] == "Z":
            raise RuntimeError("The controller has ended; WEIR_SCALE_LOG=FILE keeps what it said")

    def cpu(self) -> float:
        """Return the CPU seconds it has used, in the system too."""
        words = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(words[11]) + int(words[12])) / _TICKS

    def resident(self) -> dict[str, float]:
        """Return MiB in memory: of everything, and of what only it has and no file holds."""
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        values = dict(line.split(":", 1) for line in lines)
        return {
            name: int(values[name].split()[0]) * 1024 / _MIB
            for name in ("VmRSS", "RssAnon")
            if name in values  # one that has ended holds nothing
        }

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Keep the most that it holds while the block runs."""
        self.highest = 0.0
        self._stop.clear()
        watching = threading.Thread(target=self._watch, daemon=True)
        watching.start()
        try:
            yield
        finally:
            self._stop.set()
            watching.join()

    def _watch(self) -> None:
        while not self._stop.wait(1.0):
            self.highest = max(self.highest, self.resident().get("VmRSS", 0.0))


@dataclass(frozen=True, kw_only=True, slots=True)
class Reading:
    """What stood on the controller's page and the API server's at a moment."""

    time: float
    cpu: float
    lags: Mapping[float, float]
    """Ticks that began no later than so many seconds after their time."""
    ticks: float
    decisions: float
    requests: Mapping[str, float]


class Bench:
    """One run."""

    def __init__(self, plane: ControlPlane, url: str, process: Process) -> None:
        self.plane = plane
        self.url = url
        self.process = process

    def page(self) -> str:
        """Return the controller's metrics, empty while it does not answer."""
        try:
            with urllib.request.urlopen(f"{self.url}/metrics", timeout=30) as answer:
                return str(answer.read().decode())
        except OSError:
            return ""

    def read(self) -> Reading:
        """Take a reading."""
        page = self.page()
        lags = {
            float(labels["le"]): value
            for labels, value in stage.samples(page, "weir_tick_lag_seconds_bucket")
        }
        return Reading(
            time=time.monotonic(),
            cpu=self.process.cpu(),
            lags=lags,
            ticks=total(page, "weir_tick_lag_seconds_count"),
            decisions=total(page, "weir_decisions_total"),
            requests=asyncio.run(stage.requests_served(self.plane)),
        )

    def wait_until_all_decided(self, began: float) -> dict[str, float]:
        """Return seconds until all jobs were found running, and until all had been decided on.

        Raises:
            RuntimeError: That takes more than twenty minutes.
        """
        found: dict[str, float] = {}
        ready = 0.0
        while time.monotonic() - began < 1200:
            self.process.check()
            page = self.page()
            ready = sum(
                value
                for labels, value in stage.samples(page, "weir_condition")
                if labels["type"] == "Ready" and value == 1.0
            )
            deciding = {labels["app"] for labels, _ in stage.samples(page, "weir_decisions_total")}
            if ready >= APPS:
                found.setdefault("ready", time.monotonic() - began)
            if "ready" in found and len(deciding) >= APPS:
                return found | {"decided": time.monotonic() - began}
            time.sleep(2.0)
        raise RuntimeError(f"Expected {APPS} StreamApps to be ready, got {ready:g}")

    def pass_time(self, seconds: float) -> None:
        """Let time pass, and read the metrics as a Prometheus would."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            time.sleep(min(READ_EVERY, left))
            self.process.check()
            self.page()


def run() -> list[Figure]:
    """Set the stage, start the controller, and measure it."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="weir-scale-")))
        plane = stack.enter_context(running_control_plane(find_or_build_assets(), folder / "plane"))
        world_port, prometheus_port, port = free_ports(3)
        world = stack.enter_context(stage.running_world(folder, world_port))
        asyncio.run(stage.until_answers(f"{world}/metrics/0"))
        prometheus = stack.enter_context(
            stage.running_prometheus(folder, prometheus_port, world=world, apps=range(APPS))
        )
        asyncio.run(stage.set_stage(plane, APPS))
        began = time.monotonic()
        controller = stack.enter_context(
            stage.running(
                (sys.executable, "-m", "benchmarks.controller.scale.controller", world, prometheus,
                 str(folder / "state"), str(port)),
                Path(os.environ.get("WEIR_SCALE_LOG", folder / "controller.log")),
                # The second as in the image.
                {"KUBECONFIG": str(plane.kubeconfig(folder)), "MALLOC_ARENA_MAX": "2"},
            )
        )  # fmt: skip
        bench = Bench(plane, f"http://127.0.0.1:{port}", Process(controller.pid))
        return measure(bench, world, began)


def measure(bench: Bench, world: str, began: float) -> list[Figure]:
    """Measure the start, then the calm, then the calm with one JobManager that hangs."""
    process = bench.process
    with process.watched():
        start = bench.wait_until_all_decided(began)
        start_cpu, start_memory = process.cpu(), process.highest
    bench.pass_time(INTERVAL)
    with process.watched():
        before = bench.read()
        bench.pass_time(MEASURED * INTERVAL)
        after = bench.read()
    highest, resident = process.highest, process.resident()
    address = asyncio.run(stage.address_of(bench.plane, 0))
    urllib.request.urlopen(f"{world}/hang/{address}", data=b"", timeout=10).close()
    hung_before = bench.read()
    bench.pass_time(HANGING * INTERVAL)
    hung_after = bench.read()
    seconds = after.time - before.time
    asked = {
        kind: (count - before.requests.get(kind, 0.0)) / APPS * 60 / seconds
        for kind, count in after.requests.items()
    }
    frequent = sorted(asked.items(), key=lambda item: -item[1])[:4]
    expected = HANGING * (APPS - 1)
    return [
        at_most(figure="CPU of the controller", value=(after.cpu - before.cpu) / seconds,
                unit="cores", limit=0.5),
        at_most(figure="memory of the controller", value=highest, unit="MiB", limit=512),
        Figure(figure="of it: not in files", value=resident["RssAnon"], unit="MiB"),
        at_most(figure="tick lag, p99", value=quantile(before, after, 0.99), unit="s",
                limit=LAG_LIMIT),
        at_most(figure="tick lag with one JobManager hanging, p99",
                value=quantile(hung_before, hung_after, 0.99), unit="s", limit=LAG_LIMIT),
        Figure(figure="ticks of the others with one JobManager hanging",
               value=100 * (hung_after.ticks - hung_before.ticks) / expected, unit="%"),
        Figure(figure="StreamApps", value=float(APPS), unit=""),
        Figure(figure="operators", value=float(APPS * len(OPERATORS)), unit=""),
        Figure(figure="decisions", value=(after.decisions - before.decisions) / seconds,
               unit="1/s"),
        Figure(figure="API requests per StreamApp and minute", value=sum(asked.values()),
               unit=""),
        *(Figure(figure=f"of them: {kind}", value=value, unit="") for kind, value in frequent),
        Figure(figure="start until all jobs were found running", value=start["ready"], unit="s"),
        Figure(figure="start until all had been decided on", value=start["decided"], unit="s"),
        Figure(figure="CPU time of the start", value=start_cpu, unit="s"),
        Figure(figure="memory during the start", value=start_memory, unit="MiB"),
    ]  # fmt: skip


def total(page: str, name: str) -> float:
    """Return the sum of all series of a name."""
    return sum(value for _, value in stage.samples(page, name))


def quantile(before: Reading, after: Reading, part: float) -> float | None:
    """Return below which lag that part of the ticks between two readings began.

    Linear within a bucket; `None` where nothing ticked, or a lag was beyond all buckets.
    """
    bounds = sorted(after.lags)
    counts = [after.lags[each] - before.lags.get(each, 0.0) for each in bounds]
    if not counts or counts[-1] == 0:
        return None
    wanted = part * counts[-1]
    low, below = 0.0, 0.0
    for bound, count in zip(bounds, counts, strict=True):
        if count >= wanted:
            if bound == float("inf"):
                return None
            return low + (bound - low) * (wanted - below) / max(count - below, 1e-9)
        low, below = bound, count
    return None
