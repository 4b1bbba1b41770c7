"""What users install runs by itself: the wheel has all files that the package reads."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGES = ("weir_policies", "weir_simulator", "weir_operator", "weir_pipelines", "weir_cli")
WHERE = f"import {', '.join(PACKAGES)}; print(*({', '.join(f'{p}.__file__' for p in PACKAGES)},))"


COMPILED = "weir_policies/kernels/built/module/function.nbi"
"""As `make kernels` leaves it there, where git ignores it."""
JAR = "weir_operator/flink/built/weir-agent.jar"
"""As `make wheel` leaves it there, where git ignores it, too."""


@pytest.fixture(scope="module")
def installed(root, tmp_path_factory):
    """A folder with the wheel's packages, without their dependencies."""
    source, wheels = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheels")
    target = tmp_path_factory.mktemp("installed")
    for name in ("pyproject.toml", "README.md", "LICENSE", ".gitignore"):
        shutil.copy(root / name, source)
    for name in ("policies", "simulator", "operator", "pipelines", "cli"):
        shutil.copytree(root / name, source / name)
    for made in (source / "policies" / COMPILED, source / "operator" / JAR):
        made.parent.mkdir(parents=True, exist_ok=True)
        made.touch()
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "wheel", "--no-deps", "--wheel-dir", wheels, source], check=True)
    [wheel] = wheels.glob("weir_flink-*.whl")
    subprocess.run([*pip, "install", "--no-deps", "--target", target, wheel], check=True)
    return target


@pytest.fixture
def run(installed, tmp_path):
    """Run Python in another folder, with the wheel's packages before all others."""

    def run(*arguments):
        return subprocess.run(
            [sys.executable, *arguments],
            check=True,
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(installed)},
            capture_output=True,
            text=True,
        ).stdout

    return run


def test_the_wheel_alone_compares_policies_and_writes_the_report(installed, run, root, tmp_path):
    packages = run("-c", WHERE).split()
    assert [Path(each).parent.parent for each in packages] == [installed] * len(PACKAGES)
    experiment = str(root / "examples/experiments/taxi-a3.yaml")
    policies = "hold,threshold-cheapest"  # which are quickly compiled

    weir = ["-m", "weir_cli.main"]
    run(*weir, "compare", experiment, "--policy", policies, "--out", "report")

    [page] = (tmp_path / "report").glob("*.html")
    assert "threshold-cheapest" in page.read_text()


def test_the_wheel_writes_the_definition_that_the_repository_has(run, root, tmp_path):
    run("-m", "weir_cli.main", "crd", "--out", "crds")

    for file in (tmp_path / "crds").rglob("*.*"):
        assert file.read_bytes() == (root / file.relative_to(tmp_path)).read_bytes()
    assert (tmp_path / "crds/weir.dev_streamapps.yaml").is_file()


def test_the_wheel_brings_what_was_compiled(installed):
    assert (installed / COMPILED).is_file()


def test_the_wheel_brings_weirs_own_jars(installed, run):
    find = (
        "from weir_operator.flink.jars import find_own_jar; print(find_own_jar('weir-agent.jar'))"
    )

    assert Path(run("-c", find).strip()) == installed / JAR
