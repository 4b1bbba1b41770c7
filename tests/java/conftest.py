"""Compiled probes of the Java side; what they ask stands in the folder's sources."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from weir_operator.flink.jars import HELPER, REPOSITORY, build_jar, class_path, find_java

HERE = Path(__file__).parent

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def probe_jar(tmp_path_factory):
    trips = sorted((REPOSITORY / "examples/trips").glob("*.java"))
    probes = [HERE / f"{name}.java" for name in ("Probe", "WrapperJob", "CommitJob")]
    return build_jar([HELPER, *trips, *probes], tmp_path_factory.mktemp("jars") / "probe.jar")


@pytest.fixture(scope="session")
def run_java(probe_jar) -> Run:
    """Run a class of the probes' jar; more folders may stand on the class path."""

    def run(entry_class: str, *args: object, folder: Path = HERE):
        path = os.pathsep.join([str(folder), str(probe_jar), class_path()])
        opens = "--add-opens=java.base/java.util=ALL-UNNAMED"
        command = [str(find_java()), opens, "-cp", path, f"example.{entry_class}", *map(str, args)]
        return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)

    return run


@pytest.fixture(scope="session")
def ask(run_java: Run) -> Callable[..., list[str]]:
    """Ask the probe one question and return its answer, by lines."""

    def ask(*args: object) -> list[str]:
        answer = run_java("Probe", *args)
        assert answer.returncode == 0, answer.stderr
        return answer.stdout.splitlines()

    return ask
