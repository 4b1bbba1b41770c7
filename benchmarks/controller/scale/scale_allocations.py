"""What the controller's memory for a StreamApp consists of.

A controller with 20 StreamApps of `scale` and one with 60 are traced by `tracemalloc`, three
intervals after all were decided on. The difference is what 40 StreamApps take. Python's
allocations count for the innermost line of Weir that led to them; modules are the sums of their
lines. SQLite says itself what it holds. What neither explains is what native libraries hold, what
the C library keeps free, and stacks.

Tracing makes the process slower and larger. Its own memory is taken off. Small objects, of at most
512 bytes, come from an allocator of Python's own, which tells how much of what it holds is in use.
"""

from __future__ import annotations

import json
import os
import signal
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from benchmarks.controller.scale.allocations import HELD, OBJECTS, TRACED, USED
from benchmarks.controller.scale.scale import INTERVAL, running_bench
from benchmarks.figures import Figure

ABOUT = "what the controller's memory for a StreamApp consists of"
DURATION = "12 min"

FEW, MANY = 20, 60
INTERVALS = 3
SHOWN = 15
"""Modules with a figure of their own, those that take most."""
KIB = 1024
ANONYMOUS = "all that no file holds"
IN_FILES = "in files, which are SQLite's index of its log and libraries' pages"


def run() -> list[Figure]:
    """Trace both controllers."""
    few, many = _trace(FEW), _trace(MANY)
    per_app = {
        name: (many.get(name, 0.0) - few.get(name, 0.0)) / (MANY - FEW) for name in {*few, *many}
    }
    small = {name: per_app.pop(name) for name in (HELD, USED)}
    objects = per_app.pop(OBJECTS) * KIB  # a number, not bytes
    modules: dict[str, float] = {}
    for name, value in per_app.items():
        module = name.partition(":")[0]
        modules[module] = modules.get(module, 0.0) + value
    for name, value in _most(per_app)[:60]:
        print(f"{value:9.2f} KiB  {name}", flush=True)
    del modules["tracing"]
    anonymous = modules.pop(ANONYMOUS) - per_app["tracing"]
    in_files = modules.pop(IN_FILES)
    shown = _most(modules)[:SHOWN]
    known = sum(modules.values())
    return [
        _figure(ANONYMOUS, anonymous),
        *(_figure(f"of it: {name}", value) for name, value in shown),
        _figure("of it: other modules", known - sum(value for _, value in shown)),
        _figure("of it: neither Python's nor SQLite's", anonymous - known),
        _figure(IN_FILES, in_files),
        *(_figure(name, value) for name, value in small.items()),
        Figure(figure=f"per StreamApp, {OBJECTS}", value=objects, unit="objects"),
    ]


def _most(kib: Mapping[str, float]) -> list[tuple[str, float]]:
    """Return names with their KiB, those that take most first."""
    return sorted(kib.items(), key=lambda item: -item[1])


def _figure(name: str, value: float) -> Figure:
    return Figure(figure=f"per StreamApp, {name}", value=value, unit="KiB")


def _trace(apps: int) -> Mapping[str, float]:
    """Return KiB by place of a controller with so many StreamApps."""
    with tempfile.TemporaryDirectory(prefix="weir-scale-") as folder, running_bench(apps) as bench:
        file = Path(folder, "allocations.json")
        with bench.controller(**{TRACED: str(file)}):
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
