"""The worked example of CONTRIBUTING.md is a policy that keeps its promise, as printed."""

import re
import sys

import pytest


@pytest.fixture
def page(root):
    return (root / "CONTRIBUTING.md").read_text()


@pytest.fixture
def block(page):
    [shown] = re.findall(r"test_worked_example.*?```python\n(.*?)```", page, flags=re.DOTALL)
    return shown


def test_it_passes_the_checks_of_the_folder_it_goes_to(block, run, bin_folder, tmp_path, root):
    path = tmp_path / "single.py"
    path.write_text(block)
    config = ["--config", root / "pyproject.toml", "--no-cache"]

    linted = run([bin_folder / "ruff", "check", *config, "--ignore", "INP001", path])
    formatted = run([bin_folder / "ruff", "format", "--check", *config, path])

    assert (linted.returncode, formatted.returncode) == (0, 0), linted.stdout + formatted.stdout


@pytest.mark.long  # mypy reads all that it imports
def test_its_types_are_right(block, run, bin_folder, tmp_path):
    path = tmp_path / "single.py"
    path.write_text(block)

    typed = run([bin_folder / "mypy", "--cache-dir", tmp_path / "mypy", path])

    assert typed.returncode == 0, typed.stdout


def test_registered_by_its_line_it_passes_the_contract_suite(block, run, root, tmp_path, page):
    [line] = re.findall(r'("single": Registered.*?),\n   ```', page, flags=re.DOTALL)
    (tmp_path / "single.py").write_text(block)
    (tmp_path / "registered.py").write_text(
        "from single import Single, SingleParameters\n"
        "from weir_policies import registry\n"
        "from weir_policies.parameters import read_parameters\n"
        "from weir_policies.policy import Neighbourhood\n"
        "from weir_policies.registry import Registered\n"
        f"registry.POLICIES = {{**registry.POLICIES, {line}}}\n"
    )

    suite = run(
        [sys.executable, "-m", "pytest", "-q", "-p", "registered", "-p", "no:cacheprovider",
         "-k", "single", root / "tests/contracts/test_policy_contract.py"],
        PYTHONPATH=str(tmp_path),
    )  # fmt: skip

    assert suite.returncode == 0, suite.stdout
    assert "passed" in suite.stdout
