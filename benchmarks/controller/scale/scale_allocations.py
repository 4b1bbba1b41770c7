"""What the controller's memory for a StreamApp consists of.

Controllers with 20 StreamApps of `scale` and with 60 are compared, two intervals after all were
decided on. The difference is what 40 StreamApps take.

One pair says how much memory there is, as the kernel counts it, and how much of what Python's
allocator of small objects holds is in use. The other pair is traced by `tracemalloc`, which makes
it slower and larger. Python's allocations count for the innermost line of Weir that led to them;
modules are the sums of their lines. SQLite says itself what it holds. What neither explains is what
native libraries hold, what the C library keeps free, and stacks.
"""

from __future__ import annotations

import json
import os
import signal
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from benchmarks.controller.scale.allocations import COUNTED, HELD, OBJECTS, TRACED, USED
from benchmarks.controller.scale.scale import INTERVAL, running_bench
from benchmarks.figures import Figure

ABOUT = "what the controller's memory for a StreamApp consists of"
DURATION = "18 min"

FEW, MANY = 20, 60
INTERVALS = 2
SHOWN = 15
"""Modules with a figure of their own, those that take most."""
KIB = 1024
ANONYMOUS = "all that no file holds"
IN_FILES = "in files, which are SQLite's index of its log and libraries' pages"


def run() -> list[Figure]:
    """Compare both pairs."""
    counted = _per_app(COUNTED)
    lines = _per_app(TRACED)
    for name, value in _most(lines)[:60]:
        print(f"{value:9.2f} KiB  {name}", flush=True)
    modules: dict[str, float] = {}
    for name in lines.keys() - {ANONYMOUS, IN_FILES}:
        module = name.partition(":")[0]
        modules[module] = modules.get(module, 0.0) + lines[name]
    shown = _most(modules)[:SHOWN]
    known = sum(modules.values())
    return [
        _figure(ANONYMOUS, counted[ANONYMOUS]),
        *(_figure(f"of it: {name}", value) for name, value in shown),
        _figure("of it: other modules", known - sum(value for _, value in shown)),
        _figure("of it: neither Python's nor SQLite's", counted[ANONYMOUS] - known),
        _figure(IN_FILES, counted[IN_FILES]),
        _figure(HELD, counted[HELD]),
        _figure(USED, counted[USED]),
        # A number, not bytes.
        Figure(figure=f"per StreamApp, {OBJECTS}", value=counted[OBJECTS] * KIB, unit="objects"),
    ]


def _most(kib: Mapping[str, float]) -> list[tuple[str, float]]:
    """Return names with their KiB, those that take most first."""
    return sorted(kib.items(), key=lambda item: -item[1])


def _figure(name: str, value: float) -> Figure:
    return Figure(figure=f"per StreamApp, {name}", value=value, unit="KiB")


def _per_app(variable: str) -> Mapping[str, float]:
    """Return KiB per StreamApp by name, of controllers with that environment variable."""
    few, many = _observe(FEW, variable), _observe(MANY, variable)
    return {
        name: (many.get(name, 0.0) - few.get(name, 0.0)) / (MANY - FEW) for name in {*few, *many}
    }


def _observe(apps: int, variable: str) -> Mapping[str, float]:
    """Return KiB by name of a controller with so many StreamApps."""
    with tempfile.TemporaryDirectory(prefix="weir-scale-") as folder, running_bench(apps) as bench:
        file = Path(folder, "allocations.json")
        with bench.controller(**{variable: str(file)}):
            bench.wait_until_all_decided()
            time.sleep(INTERVALS * INTERVAL)
            resident = bench.process.resident()
            os.kill(bench.process.pid, signal.SIGUSR2)
            while not file.exists():
                bench.process.check()
                time.sleep(1.0)
            found = json.loads(file.read_text())
    kept = {name: value / KIB for name, value in found.items()}
    return kept | {
        ANONYMOUS: KIB * resident["RssAnon"],
        IN_FILES: KIB * (resident["VmRSS"] - resident["RssAnon"]),
    }
