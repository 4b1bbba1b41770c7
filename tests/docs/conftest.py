"""A folder like a user's, in which the commands of the pages run, and a cluster's API server."""

from __future__ import annotations

import math
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from datetime import date
from pathlib import Path

import pytest

from tests.api.assets import MissingProgramError, find_or_build_assets
from tests.api.control_plane import running_control_plane
from tests.cli.recorded import a_tick, write_records
from tests.docs.blocks import ROOT
from tests.docs.history_server import serving_history
from tests.docs.kubectl import find_or_build_kubectl
from tests.helm.program import find_or_build_helm
from tests.pipelines.known_history import KnownJob, KnownOperator, write_day
from weir_operator.flink.jars import JARS, build_example, build_jar
from weir_operator.loop.record import DecisionRecord, JobTick, RecordStore
from weir_operator.tuning.fitting import find_fitted
from weir_pipelines.store import Partition
from weir_policies.model.node_types import Deployment
from weir_policies.policy import Expectation
from weir_policies.testing import a_decision, an_observation

Shell = Callable[[str], "subprocess.CompletedProcess[str]"]

STAND_INS = Path(__file__).parent / "stand_ins.py"
SHORT = 60
"""Slots of a trace that is made up."""

CLUSTER = """\
apiVersion: v1
kind: Node
metadata: {name: node-1}
---
apiVersion: v1
kind: Node
metadata: {name: node-2}
---
apiVersion: v1
kind: Node
metadata: {name: node-3}
---
apiVersion: v1
kind: Namespace
metadata: {name: streams}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: flinkdeployments.flink.apache.org}
spec:
  group: flink.apache.org
  names: {kind: FlinkDeployment, plural: flinkdeployments, singular: flinkdeployment}
  scope: Namespaced
  versions:
    - name: v1beta1
      served: true
      storage: true
      schema:
        openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}
"""
"""What a cluster has before Weir comes, as far as the pages speak of it."""

JOBS = """\
apiVersion: flink.apache.org/v1beta1
kind: FlinkDeployment
metadata: {name: trips, namespace: default}
spec: {job: {state: running}}
status: {lifecycleState: SUSPENDED, jobStatus: {upgradeSavepointPath: "s3://bucket/trips/sp-1"}}
"""  # no operator runs there: it says what it would say after the commands


QUERY = """\
CREATE TABLE a (x INT) WITH ('connector' = 'datagen');
CREATE TABLE b (x INT) WITH ('connector' = 'blackhole');
INSERT INTO b SELECT x FROM a;
"""

HISTORY = KnownJob(
    rate=lambda time: 60 + 20 * math.sin(time / 10_000),
    operators=(
        KnownOperator(name="parse", mean=1 / 700, given=0.5),
        KnownOperator(name="match", mean=1 / 120, share=0.5, given=2.0),
        KnownOperator(name="report", mean=1 / 500),
    ),
)
"""The job of `dataflow.yaml`, as its metrics have kept it."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what needs other programs, which shows in the fixtures that a test asks for."""
    for item in items:
        if isinstance(item, pytest.Function) and "on_a_cluster" in item.fixturenames:
            item.add_marker("kubernetes_api")
            item.add_marker("helm")


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build the programs before the first test: a build takes longer than a test may."""
    needed = any("on_a_cluster" in getattr(item, "fixturenames", ()) for item in session.items)
    if needed and not session.config.option.collectonly:
        with suppress(MissingProgramError):  # said again by the test that needs it
            find_or_build_assets()
            find_or_build_helm()
            find_or_build_kubectl()


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A user's working folder: the repository, the short manifest, and a run that was made."""
    folder = tmp_path_factory.mktemp("docs")
    for each in ROOT.iterdir():
        if each.name not in {"examples", "build"} and not each.name.startswith("."):
            (folder / each.name).symlink_to(each)
    _copy_examples(folder)
    [manifest] = re.findall(r"```yaml\n(.*?)```", (ROOT / "README.md").read_text(), re.S)
    (folder / "streamapp.yaml").write_text(manifest)
    build_jar([ROOT / "examples/foreign/Foreign.java"], folder / "trips.jar",
              entry_class="example.Foreign")  # fmt: skip
    (folder / "query.sql").write_text(QUERY)
    (folder / "build").mkdir()
    (folder / "build/jars").symlink_to(JARS)
    build_example("routes")
    for state in ("build/demo/state/default.trips", "var/lib/weir/streams.trips"):
        write_records(folder / state, 10)
        with closing(RecordStore(folder / state / "records.sqlite")) as records:
            records.write([_a_tick()])
        fitted = find_fitted(folder / state)
        fitted.parent.mkdir()
        shutil.copy(folder / "examples/experiments/dataflow.yaml", fitted)
    for app in ("default/trips", "streams/trips"):
        for tables in (".weir/history", "var/lib/weir-history"):
            write_day(folder / tables, Partition(app, date(2026, 3, 2)), HISTORY)
    _link_stand_ins(folder / ".venv/bin")
    return folder


def _copy_examples(folder: Path) -> None:
    """Copy the examples, with few slots in every trace that is made up."""
    for source in (ROOT / "examples").rglob("*"):
        copy = folder / source.relative_to(ROOT)
        if source.is_dir():
            copy.mkdir(parents=True, exist_ok=True)
            continue
        copy.parent.mkdir(parents=True, exist_ok=True)
        if copy.parent.name == "experiments":
            text = re.sub(r"slots: \d+", f"slots: {SHORT}", source.read_text())
            copy.write_text(re.sub(r"slot: \d+,", "slot: 20,", text))
        else:
            copy.symlink_to(source)


def _a_tick() -> JobTick:
    expected = Expectation(response_time=0.02, utilisation=0.6, cost_per_hour=0.12)
    record = DecisionRecord(
        id="first",
        time=1_777_914_300.0,
        operator="match",
        policy="queueing",
        observation=an_observation(),
        decision=a_decision(Deployment((0, 3, 0)), reason="More is needed", expectation=expected),
        verdict="Granted: it is the first",
        change=None,
    )
    tick: JobTick = a_tick(record.time, record)
    return tick


def _link_stand_ins(programs: Path) -> None:
    programs.mkdir(parents=True)
    for name in ("kubectl", "helm", "weir", "make", "docker", "sudo"):
        program = programs / name
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{STAND_INS}" {name} "$@"\n')
        program.chmod(0o755)


@pytest.fixture(scope="session")
def here(folder: Path) -> Iterator[Shell]:
    """Run a block in the folder, with the stand-ins on the path, and a history to be exported."""
    with serving_history() as url:
        yield _shell(folder, {"DOCS_PROMETHEUS": url})


@pytest.fixture(scope="session")
def on_a_cluster(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    """Run a block in the folder, with the API server of a cluster that has Weir and a job."""
    place = tmp_path_factory.mktemp("cluster")
    try:
        assets, helm, kubectl = (
            find_or_build_assets(),
            find_or_build_helm(),
            find_or_build_kubectl(),
        )
    except MissingProgramError as error:
        pytest.skip(str(error))
    with running_control_plane(assets, place) as plane:
        environment = {
            "KUBECONFIG": str(plane.kubeconfig(place)),
            "DOCS_HELM": str(helm),
            "DOCS_KUBECTL": str(kubectl),
        }

        def prepare(*command: str | Path, stdin: str = "") -> None:
            subprocess.run([str(each) for each in command], input=stdin, text=True, check=True,
                           capture_output=True, env=os.environ | environment)  # fmt: skip

        chart: list[str | Path] = [
            "weir",
            ROOT / "helm/weir",
            "--namespace",
            "weir-system",
            "--create-namespace",
            "--set=pipelines.enabled=true,prometheus.url=http://prometheus:9090",
        ]
        prepare(helm, "install", *chart)
        prepare(kubectl, "apply", "-f", "-", stdin=CLUSTER)
        prepare(kubectl, "wait", "--for=condition=established", "crd", "--all")
        prepare(kubectl, "apply", "-f", "-", stdin=JOBS)
        manifest = ROOT / "examples/trips/on-kubernetes.yaml"
        for namespace in ("streams", "default"):
            prepare(kubectl, "apply", "-n", namespace, "-f", manifest)
        yield _shell(folder, environment)


def _shell(folder: Path, environment: dict[str, str]) -> Shell:
    path = os.environ["PATH"]
    variables = os.environ | environment | {
        "PATH": f"{folder / '.venv/bin'}:{path}",
        "DOCS_PATH": path,
        "DOCS_FOLDER": str(folder),
        "DOCS_REPOSITORY": str(ROOT),
    }  # fmt: skip

    def run(text: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-euo", "pipefail", "-c", text],
            cwd=folder, env=variables, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, check=False, timeout=240,
        )  # fmt: skip

    return run
