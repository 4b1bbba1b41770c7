"""Whether every query of the dashboards has an answer after a run of everything.

A real controller watches a real API server and steers real Flink processes; a real Prometheus
server scrapes the controller as the chart's PodMonitor has it. Only nodes are missing: Flink runs
on this machine. The load rises within a minute, so that there is something to decide. One replica
is held up for some seconds, so that there is a measurement which cannot be trusted, and a second
StreamApp names a jar that is not there.

An answer counts when it holds a number; a variable's choice and a mark are queries too.
`WEIR_DASHBOARDS_LOG=FILE` keeps what the controller said.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import yaml

from benchmarks.controller.scale import stage
from benchmarks.figures import Figure, at_least
from dashboards.files import FOLDER
from dashboards.queries import Asked, has_data, read_queries
from tests.api.assets import find_or_build_assets
from tests.api.client import Kube, session_for
from tests.api.control_plane import ADMIN, ControlPlane, running_control_plane
from tests.dashboards.prometheus_server import running_prometheus
from weir_operator.flink.jars import REPOSITORY
from weir_operator.runtime.local import processes
from weir_operator.runtime.local.processes import free_ports

ABOUT = (
    "every query of the four dashboards, asked of Prometheus after a run of controller and Flink"
)
DURATION = "5 min"

EXAMPLE = REPOSITORY / "examples/trips/streamapp.yaml"
NAMESPACE = "streams"
START_LIMIT = 900.0
"""Seconds within which the job runs: the policy is compiled first, where it was not before."""
PATIENCE = 300.0
"""Seconds within which everything should have happened once."""
HELD_UP_AFTER = 60.0
"""Seconds after the start of the job at which a replica is held up."""
HELD_UP_FOR = 12.0
"""Seconds: more than two intervals of the example, less than Flink waits for a TaskManager."""
SLOTS = 120
"""Lines of the trace, of 5 s each."""
QUIET = 8
"""Of them, before the load rises."""
CALM, BUSY = 12.0, 30.0
"""Records/s: what the first replicas can serve, and what takes more of them."""
FIRST = {"small/500m": 1}
"""Replicas that `match` and `aggregate` begin with."""
CHOSEN = {
    "namespace": NAMESPACE,
    "app": "trips",
    "operator": "match",
    "__range": "10m",
    "__rate_interval": "30s",
}


def run() -> list[Figure]:
    """Set everything up, let it work, and ask until all is answered or patience ends."""
    asked = [each for path in sorted(FOLDER.glob("*.json")) for each in read_queries(path)]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="weir-dashboards-")))
        plane = stack.enter_context(running_control_plane(find_or_build_assets(), folder / "plane"))
        manifest = write_manifest(folder)
        asyncio.run(create_apps(plane, manifest))
        [port] = free_ports(1)
        stack.enter_context(
            stage.running(
                (sys.executable, "-m", "benchmarks.controller.dashboards_controller", str(manifest),
                 str(folder / "state"), str(port)),
                Path(os.environ.get("WEIR_DASHBOARDS_LOG", folder / "controller.log")),
                {"KUBECONFIG": str(plane.kubeconfig(folder))},
            )
        )  # fmt: skip
        asyncio.run(stage.until_answers(f"http://127.0.0.1:{port}/metrics"))
        server = stack.enter_context(running_prometheus(folder, [f"127.0.0.1:{port}"], every=5.0))
        wait_until_the_job_runs(server)
        began = time.monotonic()
        open_ones = ask(server, asked, folder / "state")
        return figures(asked, open_ones, seconds=time.monotonic() - began)


def write_manifest(folder: Path) -> Path:
    """Write the example with a load that rises after a while; return its path."""
    rates = [CALM if slot < QUIET else BUSY for slot in range(SLOTS)]
    (folder / "trace.txt").write_text("".join(f"{rate}\n" for rate in rates))
    manifest: dict[str, Any] = yaml.safe_load(EXAMPLE.read_text())
    manifest["metadata"]["namespace"] = NAMESPACE
    for operator in manifest["spec"]["operators"]:
        if "initial" in operator:
            operator["initial"] = FIRST
    job = manifest["spec"]["flink"]["job"]
    job["jar"] = str((EXAMPLE.parent / job["jar"]).resolve())
    job["args"] = [*job["args"], "--trace", str(folder / "trace.txt"), "--out", str(folder)]
    path = folder / "streamapp.yaml"
    path.write_text(yaml.safe_dump(manifest))
    return path


async def create_apps(plane: ControlPlane, manifest: Path) -> None:
    """Create the CRD, the namespace, the StreamApp, and one without a jar."""
    wanted = yaml.safe_load(manifest.read_text())
    async with session_for(certificate=plane.certificate, token=ADMIN) as session:
        kube = Kube(session, url=plane.url, namespace=NAMESPACE, kubeconfig=Path())
        await stage.define_stream_apps(kube)
        await stage.create(kube, "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        for name in ("trips", "broken"):
            wanted["metadata"]["name"] = name
            await stage.create(kube, kube.stream_apps, wanted)
            wanted["spec"]["flink"]["job"]["jar"] = "missing.jar"


def wait_until_the_job_runs(server: str) -> None:
    """Return when the StreamApp is ready.

    Raises:
        RuntimeError: It does not become so: the controller's log says why.
    """
    ready = f'weir_condition{{namespace="{NAMESPACE}", app="trips", type="Ready"}} == 1'
    began = time.monotonic()
    while not has_data(server, Asked(dashboard="", place="", expression=ready), CHOSEN):
        if time.monotonic() - began > START_LIMIT:
            raise RuntimeError(
                f"Expected the job to run within {START_LIMIT:.0f} s: WEIR_DASHBOARDS_LOG=FILE "
                "keeps what the controller said"
            )
        time.sleep(2.0)


def ask(server: str, asked: Sequence[Asked], state: Path) -> list[Asked]:
    """Ask until everything is answered or patience ends; return what is not answered."""
    began = time.monotonic()
    disturbing = threading.Thread(target=hold_up_a_replica, args=[state / "flink"])
    disturbing.start()
    open_ones = [*asked]
    while open_ones and time.monotonic() - began < PATIENCE:
        time.sleep(5.0)
        open_ones = [each for each in open_ones if not has_data(server, each, CHOSEN)]
    disturbing.join()
    return open_ones


def hold_up_a_replica(folder: Path) -> None:
    """After a while, let a TaskManager of `match` stand still for a moment."""
    time.sleep(HELD_UP_AFTER)
    found = processes.find_under(folder)
    pids = [each.pid for place, each in sorted(found.items()) if "-match-" in place.name]
    for pid in pids[:1]:
        os.kill(pid, signal.SIGSTOP)
        time.sleep(HELD_UP_FOR)
        os.kill(pid, signal.SIGCONT)


def figures(asked: Sequence[Asked], open_ones: Sequence[Asked], *, seconds: float) -> list[Figure]:
    """Return the figures; what has no answer is printed by name."""
    for each in open_ones:
        print(f"no data: {each.dashboard}, {each.place}: {each.expression}")
    titles = sorted({each.dashboard for each in asked})
    return [
        at_least(
            figure="queries that return data", value=answered(asked, open_ones), unit="%", limit=100
        ),
        *(
            Figure(
                figure=f"of them: {title}",
                value=answered(
                    [each for each in asked if each.dashboard == title],
                    [each for each in open_ones if each.dashboard == title],
                ),
                unit="%",
            )
            for title in titles
        ),
        Figure(figure="queries", value=float(len(asked)), unit=""),
        Figure(figure="metrics asked for", value=float(len(metrics_of(asked))), unit=""),
        Figure(figure="running job until all was answered", value=seconds, unit="s"),
    ]


def answered(asked: Sequence[Asked], open_ones: Sequence[Asked]) -> float:
    """Return the percentage of queries that were answered."""
    return 100 * (1 - len(open_ones) / len(asked))


def metrics_of(asked: Sequence[Asked]) -> frozenset[str]:
    """Return the names of all metrics that are asked for."""
    return frozenset().union(*(each.metrics for each in asked))
