"""The three images: how large they are, and whether they run what they are for.

Each is built from the working tree's Dockerfile by buildah. Its size is that of its layers,
unpacked (the tar streams, headers included), and packed with gzip as a registry sends them.

What an image is for is then run in it, as a user that is not root and, but for the pipelines, has
no entry in `/etc/passwd`. None of it may write a file outside `/tmp` and the volumes, because the
chart makes the root file system read-only. The pipelines write the tables that the controller
reads.

Needs root, buildah, and the jars of `make jars`.
"""

from __future__ import annotations

import gzip
import json
import os
import shlex
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.figures import Figure, at_most
from benchmarks.pipelines.made_up_history import FIRST, write_history
from weir_operator.runtime.pods.pod_spec import AGENT_IN_IMAGE
from weir_pipelines.store import Tables

ABOUT = "Size of the three images, and whether each runs what it is for, without root"
DURATION = "30 min, most of it to build them"

BUILD = ("buildah", "bud", "--layers", "--quiet", "--tag")
LIMITS = {"pipelines": 900, "controller": 400, "tuner": 1800}
"""MB of an image's unpacked layers, by target of the Dockerfile; in this order, they are run."""
USER = 12345
"""That no image knows."""
KNOWN_USER = 65532
"""As whom the pipelines run."""
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
OPERATORS = 20
"""Of the made-up history of one day, an application for each."""
MB = 1e6


TUNING = (
    *("tune", "experiments/dataflow.yaml", "--surrogate", "botorch"),
    *("--evaluations", "12", "--slots", "500", "--json"),
)
"""The arguments of a sample tuning, in the folder of the examples."""
IMPORT_ALL = """
import importlib, pkgutil
for package in ("weir_policies", "weir_simulator", "weir_operator", "weir_pipelines", "weir_cli"):
    for each in pkgutil.walk_packages(importlib.import_module(package).__path__, package + "."):
        try:
            importlib.import_module(each.name)
        except ModuleNotFoundError as error:
            left_out = ("torch", "pyspark", "prometheus_api_client", "pytest")
            if error.name.partition(".")[0] not in left_out:
                raise
"""
"""A program that fails where something that a module needs was trimmed away."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Task:
    what: str
    script: str
    """What a shell in it runs; it ends with 0."""


TASKS: Mapping[str, Sequence[Task]] = {
    "pipelines": (
        Task(
            what="process a day with Spark",
            script=f"start-pipelines pipelines run --tables /tables --from {FIRST}",
        ),
    ),
    "controller": (
        Task(
            what="import every module, but for those that other images are for",
            script=f"python -c {shlex.quote(IMPORT_ALL)}",
        ),
        Task(
            what="simulate a month with the planner",
            script="weir simulate /examples/experiments/taxi-a3.yaml --policy planner",
        ),
        Task(
            what="compare policies, with a report",
            script="weir compare /examples/experiments/taxi-a3.yaml"
            " --policy planner,threshold-cheapest --out /tmp/compared"
            " && grep -q 'plotly.js v' /tmp/compared/*.html",
        ),
        Task(
            what="read the history that the pipelines wrote",
            script="weir pipelines trace /tmp/trace --tables /tables --app app-0"
            " --operator operator-0 && test -s /tmp/trace",
        ),
        Task(
            what="hand the agent to Flink's pods",
            script=f"cp {AGENT_IN_IMAGE} /tmp/agent && sha256sum /tmp/agent > /tmp/sum"
            " && sha256sum -c /tmp/sum && mv /tmp/agent /tmp/moved",
        ),
    ),
    "tuner": (
        Task(
            what="tune with BoTorch",
            script=f"cd /examples && weir {' '.join(TUNING)} --out /tmp/tuned > /tmp/tuned.json",
        ),
        Task(
            what="learn with a network",
            script="yes 5 | head -200 > /tmp/trace.txt"
            " && weir simulate /examples/experiments/taxi-a3.yaml --policy dqn-pds"
            " --trace /tmp/trace.txt",
        ),
    ),
}


def run() -> list[Figure]:
    """Build the images, measure them and run what they are for."""
    figures = []
    with tempfile.TemporaryDirectory() as folder:
        tables = Path(folder, "tables")
        write_history(Tables(tables), apps=OPERATORS, operators=1, days=1)
        own(tables, KNOWN_USER)
        for target, limit in LIMITS.items():
            name = build(target)
            packed, unpacked = measure_layers(name, Path(folder, target))
            figures.append(at_most(f"{target}: size", unpacked / MB, limit, "MB"))
            figures.append(Figure(f"{target}: packed", packed / MB, "MB"))
            user = KNOWN_USER if target == "pipelines" else USER
            with a_container(name) as container:
                figures += run_tasks(container, target, user=user, tables=tables)
                figures.append(count_written(container, target))
    return figures


def build(target: str) -> str:
    name = f"localhost/weir-{target}:bench"
    subprocess.run([*BUILD, name, "--target", target, "."], check=True)
    return name


def measure_layers(name: str, folder: Path) -> tuple[int, int]:
    """Return the bytes of an image's layers, packed and unpacked."""
    subprocess.run(["buildah", "push", "--quiet", name, f"oci:{folder}:measured"], check=True)
    blobs = folder / "blobs" / "sha256"
    index = json.loads((folder / "index.json").read_text())
    manifest = json.loads((blobs / _hex(index["manifests"][0]["digest"])).read_text())
    packed = unpacked = 0
    for layer in manifest["layers"]:
        packed += layer["size"]
        with gzip.open(blobs / _hex(layer["digest"])) as stream:
            while chunk := stream.read(1 << 20):
                unpacked += len(chunk)
    return packed, unpacked


def _hex(digest: str) -> str:
    return digest.removeprefix("sha256:")


@contextmanager
def a_container(name: str) -> Iterator[str]:
    """Make a container of an image, and remove it afterwards; yield its name."""
    container = _read("buildah", "from", "--pull-never", name)
    try:
        yield container
    finally:
        subprocess.run(["buildah", "rm", container], check=True, stdout=subprocess.DEVNULL)


def run_tasks(container: str, target: str, *, user: int, tables: Path) -> list[Figure]:
    """Run what an image is for, one after the other; return how long each took."""
    mounts = (
        *("--volume", f"{EXAMPLES}:/examples:ro", "--volume", f"{tables}:/tables"),
        *("--env", "SPARK_LOCAL_IP=127.0.0.1"),  # here, no name server knows the container
    )
    figures = []
    for task in TASKS[target]:
        command = [*_in(container, user, *mounts), "sh", "-c", task.script]
        began = time.monotonic()
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        seconds = time.monotonic() - began
        if ended.returncode:
            print(f"{target}: {task.what}: {ended.stdout[-2000:]}{ended.stderr[-4000:]}")
        figures.append(
            Figure(
                f"{target}: {task.what}",
                None if ended.returncode else seconds,
                "s",
                goal="runs",
                holds=ended.returncode == 0,
            )
        )
    return figures


def count_written(container: str, target: str) -> Figure:
    """Return how many files users wrote outside `/tmp`, where the chart lets them write none."""
    root = _read("buildah", "mount", container)
    written = _read(
        *("find", root, "-path", f"{root}/tmp", "-prune", "-o"),
        *("(", "-uid", str(USER), "-o", "-uid", str(KNOWN_USER), ")", "-print"),
    )
    return at_most(f"{target}: files written outside /tmp", len(written.splitlines()), 0)


def own(folder: Path, user: int) -> None:
    for path in (folder, *folder.rglob("*")):
        os.chown(path, user, user)


def _in(container: str, user: int, *options: str) -> list[str]:
    command = ["buildah", "run", "--isolation", "chroot", "--network", "host"]
    return [*command, "--user", f"{user}:{user}", *options, container, "--"]


def _read(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
