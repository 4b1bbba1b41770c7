"""The history's arrival rates by Spark on a cluster: in one pod, and by executors on its nodes.

The chart is installed by Helm with the image of the pipelines, and a Job is made of its CronJob. It
processes days of a made-up fleet of a thousand operators, which lie on the claim already: in its
own pod with `local[2]`, with one executor of one core, and with two. Each is run `TIMES` times;
figures are medians. What a further day takes leaves out the start of pods, JVMs and Spark.

The cluster is the one that KUBECONFIG names. Its nodes must share this machine's disk, and must
have the image `weir-pipelines:dev`, or the one that `WEIR_TEST_PIPELINES_IMAGE` names, beside the
controller's (see `installation`).
"""

from __future__ import annotations

import asyncio
import os
import shutil
import statistics
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

import pyarrow.parquet as pq

from benchmarks.cluster.installation import apply_definition, install_chart, run_helm
from benchmarks.cluster.place import CLAIM, Place, open_place
from benchmarks.figures import Figure, at_least
from benchmarks.pipelines.further_days import compare_further_days, further_day
from benchmarks.pipelines.made_up_history import A_DAY, FIRST, even, write_history
from weir_operator.kubernetes.api.client import Body
from weir_pipelines.schemas import ARRIVALS
from weir_pipelines.settings import DAY_MINUTES
from weir_pipelines.store import Store

ABOUT = "arrival rates by Spark on the Kubernetes cluster that KUBECONFIG names, with executors"
DURATION = "15 min, without the images"

IMAGE = os.environ.get("WEIR_TEST_PIPELINES_IMAGE", "weir-pipelines:dev")
_HELM = os.environ.get("HELM", "helm")  # a path of this machine is no setting
USER = 65532
"""As whom the image's pods run."""
OPERATORS = 1000
DAYS: Mapping[int, tuple[int, ...]] = {0: (1, 15), 1: (1, 15), 2: (1, 5, 15)}
"""How many days are processed, by the number of executors."""
TIMES = 3
"""Runs of each."""
EVERY = 0.25
"""Seconds between two looks at the pods."""
LIMIT = 600.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """A Job that has ended."""

    seconds: float
    """From when it was made."""
    nodes: frozenset[str]
    """Those on which executors ran."""


_Runs = Mapping[int, Mapping[int, Sequence[Run]]]
"""By the number of executors and by days."""


def run() -> list[Figure]:
    """Install the chart with each number of executors, and process days of the history."""
    return asyncio.run(_run())


async def _run() -> list[Figure]:
    runs: dict[int, dict[int, list[Run]]] = {}
    most = max(max(days) for days in DAYS.values())
    async with open_place("weir-pipelines") as place:
        await apply_definition(place.api)
        store = Store(place.state)
        write_history(store, even(OPERATORS), days=most)
        subprocess.run(["chown", "--recursive", f"{USER}:{USER}", str(place.state)], check=True)
        for executors, lengths in DAYS.items():
            _install(place, executors)
            try:
                ended = runs[executors] = {days: [] for days in lengths}
                for turn in range(TIMES):
                    for days in lengths:
                        name = f"over-{executors}-{days}-{turn}"
                        ended[days].append(await _process(place, store, executors, days, name))
            finally:
                run_helm("uninstall", "weir", "--wait", namespace=place.namespace, helm=_HELM)
    return [
        Figure(figure="samples processed at most", value=OPERATORS * A_DAY * most / 1e6,
               unit="million"),
        *_times(runs),
        *_further_days(runs),
        compare_further_days("two executors", _seconds(runs[2])),
        at_least(figure="nodes on which two executors ran",
                 value=min(len(each.nodes) for ended in runs[2].values() for each in ended),
                 unit="", limit=2),
    ]  # fmt: skip


def _times(runs: _Runs) -> Iterator[Figure]:
    for executors, by_days in runs.items():
        for days, seconds in _seconds(by_days).items():
            length = "1 day" if days == 1 else f"{days} days"
            yield Figure(
                figure=f"{_name_setting(executors)}: time of the Job over {length}",
                value=seconds,
                unit="s",
            )


def _further_days(runs: _Runs) -> Iterator[Figure]:
    for executors, by_days in runs.items():
        yield Figure(
            figure=f"{_name_setting(executors)}: a further day",
            value=further_day(_seconds(by_days)),
            unit="s",
        )


def _seconds(runs: Mapping[int, Sequence[Run]]) -> Mapping[int, float]:
    """Return the median time of runs, by their days."""
    return {days: statistics.median(each.seconds for each in ended) for days, ended in runs.items()}


def _name_setting(executors: int) -> str:
    return {0: "in one pod", 1: "one executor", 2: "two executors"}[executors]


def _install(place: Place, executors: int) -> None:
    repository, _, tag = IMAGE.rpartition(":")
    install_chart(
        place.namespace,
        watched=place.namespace,
        helm=_HELM,
        values={
            # Nobody asks it: the samples are there.
            "prometheus": {"url": "http://127.0.0.1:9090"},
            "pipelines": {
                "enabled": True,
                "image": {"repository": repository, "tag": tag},
                "memory": "1g",
                "executors": {"count": executors, "cores": 1, "memory": "512m"},
                "tables": {"existingClaim": CLAIM, "accessModes": ["ReadWriteMany"]},
                "resources": {"requests": {"cpu": "100m", "memory": "1Gi"}},
            },
        },
    )


async def _process(place: Place, store: Store, executors: int, days: int, name: str) -> Run:
    """Run a Job of this name over the first days, and check that its rates are there.

    Raises:
        RuntimeError: It failed, took too long, or had another number of executors; or more than one
            minute in a thousand is missing.
    """
    shutil.rmtree(store.folder(ARRIVALS), ignore_errors=True)
    jobs = f"/apis/batch/v1/namespaces/{place.namespace}/jobs"
    [cron_job] = await place.api.list(
        f"/apis/batch/v1/namespaces/{place.namespace}/cronjobs",
        labels="app.kubernetes.io/instance=weir",
    )
    began = time.monotonic()
    await place.api.create(jobs, _job(cron_job, name, days))
    nodes: dict[str, str] = {}
    while True:
        for pod in await _executors(place):
            if "nodeName" in pod["spec"]:
                nodes[pod["metadata"]["name"]] = pod["spec"]["nodeName"]
        status = (await place.api.get(f"{jobs}/{name}")).get("status", {})
        seconds = time.monotonic() - began
        if status.get("succeeded"):
            break
        if status.get("failed") or seconds > LIMIT:
            raise RuntimeError(f"Expected {name} to succeed, got {await _read_logs(place, name)}")
        await asyncio.sleep(EVERY)
    rows = sum(
        pq.read_metadata(store.path(ARRIVALS, each)).num_rows for each in store.partitions(ARRIVALS)
    )
    wanted = 0.999 * OPERATORS * DAY_MINUTES * days
    if rows < wanted:
        raise RuntimeError(f"Expected at least {wanted:.0f} rows for {days} days, got {rows}")
    if len(nodes) != executors:
        raise RuntimeError(f"Expected {executors} executors, got {sorted(nodes)}")
    return Run(seconds=seconds, nodes=frozenset(nodes.values()))


def _job(cron_job: Body, name: str, days: int) -> Body:
    """Return a Job like the CronJob's, which processes the first days of what is there."""
    template = cron_job["spec"]["jobTemplate"]
    [container] = template["spec"]["template"]["spec"]["containers"]
    last = FIRST + timedelta(days=days - 1)
    instead = {
        "--tables": ["arrivals", "--tables=/var/lib/weir-history"],
        "--days": [f"--from={FIRST}", f"--to={last}"],
        "--keep-days": [],
        "--prometheus": [],
    }
    container["args"] = [
        new for given in container["args"] for new in instead.get(given.partition("=")[0], [given])
    ]
    spec = {**template["spec"], "backoffLimit": 0}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec}


async def _executors(place: Place) -> tuple[Body, ...]:
    pods = f"/api/v1/namespaces/{place.namespace}/pods"
    return await place.api.list(pods, labels="spark-role=executor")


async def _read_logs(place: Place, job: str) -> str:
    pods = f"/api/v1/namespaces/{place.namespace}/pods"
    logs = [
        await place.api.read_log(
            f"{pods}/{pod['metadata']['name']}", container="pipelines", most=2000
        )
        for pod in await place.api.list(pods, labels=f"job-name={job}")
    ]
    return "\n".join(logs) or "no pod"
