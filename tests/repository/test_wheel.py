"""What users install runs by itself: the wheel has all files that the package reads."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

PACKAGES = ("weir_policies", "weir_simulator", "weir_operator", "weir_pipelines", "weir_cli")
WHERE = f"import {', '.join(PACKAGES)}; print(*({', '.join(f'{p}.__file__' for p in PACKAGES)},))"


COMPILED = "weir_policies/kernels/built/module/function.nbi"
"""As `make kernels` leaves it there, where git ignores it."""
JAR = "weir_operator/flink/built/weir-agent.jar"
"""As `make wheel` leaves it there, where git ignores it, too."""
PIP = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check")


@pytest.fixture(scope="module")
def wheel(root, tmp_path_factory):
    """The wheel, with stand-ins for what is not compiled here."""
    source, wheels = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheels")
    for name in ("pyproject.toml", "README.md", "LICENSE", ".gitignore"):
        shutil.copy(root / name, source)
    for name in ("policies", "simulator", "operator", "pipelines", "cli"):
        shutil.copytree(root / name, source / name)
    for made in (source / "policies" / COMPILED, source / "operator" / JAR):
        made.parent.mkdir(parents=True, exist_ok=True)
        made.touch()
    for jar in (root / "build/jars").glob("weir-*.jar"):
        shutil.copy(jar, (source / "operator" / JAR).parent)
    subprocess.run([*PIP, "wheel", "--no-deps", "--wheel-dir", wheels, source], check=True)
    [built] = wheels.glob("weir_flink-*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """A folder with the wheel's packages, without their dependencies."""
    target = tmp_path_factory.mktemp("installed")
    subprocess.run([*PIP, "install", "--no-deps", "--target", target, wheel], check=True)
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


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("command", "works"),
    [
        ("graph query.sql", "source"),
        ("tune experiment.yaml --surrogate botorch --evaluations 2 --slots 500", "weight of"),
        ("estimate metrics.parquet --objective 500ms", "expected the columns name, labels"),
        ("pipelines import dump.txt", "dump.txt"),
    ],
)
def test_a_fresh_environment_works_after_what_its_sentence_says(
    wheel, root, tmp_path, command, works
):
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "env"], check=True)
    programs = tmp_path / "env/bin"
    pip = [programs / "python", "-m", "pip", *PIP[3:], "install", "-c", root / "constraints.txt"]
    subprocess.run([*pip, wheel], check=True)
    shutil.copy(root / "examples/experiments/dataflow.yaml", tmp_path / "experiment.yaml")
    (tmp_path / "query.sql").write_text(
        "CREATE TABLE source (n INT) WITH ('connector' = 'datagen');"
        "CREATE TABLE sink (n INT) WITH ('connector' = 'blackhole');"
        "INSERT INTO sink SELECT n FROM source;"
    )
    pq.write_table(pa.table({"other": [1]}), tmp_path / "metrics.parquet")

    def weir():
        done = subprocess.run(
            [programs / "weir", *command.split()], cwd=tmp_path, capture_output=True, text=True
        )
        return done.stdout + done.stderr

    [extra] = re.findall(r"pip install 'weir-flink\[(\w+)\]'", weir())
    subprocess.run([*pip, f"{wheel}[{extra}]"], check=True)
    after = weir()

    assert "pip install" not in after
    assert "Traceback" not in after
    assert works in after
