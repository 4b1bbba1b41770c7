"""Guards the hooks: the file is valid, and its one pattern catches what it is for."""

from __future__ import annotations

import re

import pytest
import yaml


@pytest.fixture(scope="module")
def hooks(root):
    config = yaml.safe_load((root / ".pre-commit-config.yaml").read_text())
    return {hook["id"]: hook for repo in config["repos"] for hook in repo["hooks"]}


def test_the_configuration_is_valid(run, bin_folder):
    checked = run([bin_folder / "pre-commit", "validate-config"])

    assert checked.returncode == 0, checked.stdout


def test_every_hook_runs_what_the_project_installed(root, hooks):
    programs = {hook["entry"].split()[0] for hook in hooks.values() if hook["language"] == "system"}

    assert all(program.startswith(".venv/bin/") for program in programs)
    assert {".venv/bin/ruff", ".venv/bin/lint-imports", ".venv/bin/weir"} == programs


@pytest.mark.parametrize(
    ("path", "caught"),
    [
        ("operator/__init__.py", True),
        ("tests/__init__.py", True),
        ("tests/operator/rescale/__init__.py", True),
        ("operator/weir_operator/__init__.py", False),
        ("cli/weir_cli/main.py", False),
    ],
)
def test_an_init_file_is_caught_where_none_belongs(hooks, path, caught):
    pattern = hooks["no-init"]["files"]

    assert bool(re.search(pattern, path)) is caught
