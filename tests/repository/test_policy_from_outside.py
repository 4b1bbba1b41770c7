"""Policies that other packages declare are found by their names, and keep the promise."""

import json
import re
import sys

import pytest


@pytest.fixture(scope="module")
def installed(root, run, tmp_path_factory):
    """Return a folder in which the example packages are installed."""
    folder = tmp_path_factory.mktemp("site")
    done = run([
        sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
        "--no-deps", "--target", folder, root / "examples/policy", root / "examples/rivals",
    ])  # fmt: skip
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.parametrize("package", ["policy", pytest.param("rivals", marks=pytest.mark.long)])
def test_an_example_package_passes_its_own_tests(installed, run, root, package):
    folder = root / "examples" / package
    suite = run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", folder],
        cwd=folder,
        seconds=290,  # the rivals are compiled
        PYTHONPATH=str(installed),
    )

    assert suite.returncode == 0, suite.stdout
    assert "passed" in suite.stdout


def test_the_command_knows_it(installed, run, root, bin_folder, tmp_path):
    trace = tmp_path / "trace.txt"
    trace.write_text("200\n" * 50)
    simulated = run(
        [bin_folder / "weir", "simulate", root / "examples/experiments/taxi-a3.yaml",
         "--policy", "target-utilisation", "--trace", trace, "--json"],
        PYTHONPATH=str(installed),
    )  # fmt: skip

    assert simulated.returncode == 0, simulated.stderr
    assert json.loads(simulated.stdout)["policy"] == "target-utilisation"


def test_the_manifest_of_its_page_is_valid(installed, run, root, bin_folder, tmp_path):
    page = (root / "examples/policy/README.md").read_text()
    [manifest] = re.findall(r"```yaml\n(.*?)```", page, re.S)
    written = tmp_path / "streamapp.yaml"
    written.write_text(manifest)

    checked = run([bin_folder / "weir", "validate", written], PYTHONPATH=str(installed))

    assert checked.returncode == 0, checked.stderr


@pytest.mark.parametrize(
    ("declared", "sentence"),
    [
        ("no_such_module:POLICY", "repair the package that declares it, or uninstall it"),
        ("json:dumps", "to be a weir_policies.registry.Registered, got function"),
    ],
)
def test_a_declaration_that_is_wrong_is_refused_with_a_sentence(run, tmp_path, declared, sentence):
    described = tmp_path / "broken-1.0.dist-info"
    described.mkdir()
    (described / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (described / "entry_points.txt").write_text(f"[weir.policies]\nbroken = {declared}\n")
    asked = (
        "import numpy\n"
        "from weir_policies import registry\n"
        "registry.build('broken', rng=numpy.random.default_rng(1))\n"
    )

    built = run([sys.executable, "-c", asked], PYTHONPATH=str(tmp_path))

    assert built.returncode == 1
    assert "PolicyNotLoadedError" in built.stderr
    assert sentence in built.stderr
