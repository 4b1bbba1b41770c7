"""The worked example of CONTRIBUTING.md is a policy that keeps its promise, as printed."""

from __future__ import annotations

import re
import sys
from types import ModuleType

import pytest

from weir_policies.model.node_types import Deployment, NodeType
from weir_policies.policy import Observation, OperatorModel, OperatorPolicy


@pytest.fixture
def page(root):
    return (root / "CONTRIBUTING.md").read_text()


@pytest.fixture
def block(page):
    [shown] = re.findall(r"test_worked_example.*?```python\n(.*?)```", page, flags=re.DOTALL)
    return shown


@pytest.fixture
def policy(block):
    module = ModuleType("single")
    exec(compile(block, "CONTRIBUTING.md", "exec"), module.__dict__)
    return module.Single(module.SingleParameters())


def test_it_is_an_operator_policy(policy):
    assert isinstance(policy, OperatorPolicy)


def test_it_decides_what_it_says(policy):
    observation = an_observation(deployment=Deployment((2, 1)))

    decision = policy.decide(observation)

    assert decision.target == Deployment((1, 1))
    assert decision.reason
    assert decision.expectation.cost_per_hour == pytest.approx(0.04 + 0.05)


def test_it_passes_the_checks_of_the_folder_it_goes_to(block, run, bin_folder, tmp_path, root):
    path = tmp_path / "single.py"
    path.write_text(block)
    config = ["--config", root / "pyproject.toml", "--no-cache"]

    linted = run([bin_folder / "ruff", "check", *config, "--ignore", "INP001", path])
    formatted = run([bin_folder / "ruff", "format", "--check", *config, path])
    typed = run([bin_folder / "mypy", "--cache-dir", tmp_path / "mypy", path])

    assert (linted.returncode, formatted.returncode) == (0, 0), linted.stdout + formatted.stdout
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


def an_observation(*, deployment):
    node_types = (
        NodeType(name="small/500m", pool="small", speedup=1.0, price=0.04),
        NodeType(name="large/1", pool="large", speedup=1.6, price=0.05),
    )
    model = OperatorModel(
        name="match",
        node_types=node_types,
        max_replicas=4,
        service_mean=0.01,
        service_scv=1.0,
    )
    return Observation(
        time=0.0,
        time_of_week=0.25,
        interval=5.0,
        model=model,
        deployment=deployment,
        rate=40.0,
        processed=40.0,
        response_time=0.02,
        utilisation=(0.2, 0.2, 0.1),
        backlog=0.0,
        replica_ages=(60.0, 60.0, 60.0),
        budget=0.1,
    )
