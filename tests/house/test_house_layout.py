"""Guards the shape of the house: roots that are no packages, and floors."""

from __future__ import annotations

import sys

import pytest

SOURCE_ROOTS = (
    "policies", "simulator", "operator", "pipelines", "cli", "dashboards", "benchmarks",
)  # fmt: skip


@pytest.mark.parametrize("source_root", SOURCE_ROOTS)
def test_a_source_root_is_no_package(root, source_root):
    assert not (root / source_root / "__init__.py").exists()


def test_test_folders_are_no_packages(root):
    packages = list((root / "tests").rglob("__init__.py"))

    assert packages == []


def test_test_modules_have_names_of_their_own(own_files):
    names = [path.name for path in own_files if path.name.startswith("test_")]

    assert sorted(set(names)) == sorted(names)


def test_the_standard_library_is_not_hidden_from_the_repository_root(root, run):
    shown = run([sys.executable, "-c", "import operator, json.tool; print(operator.add(2, 2))"])

    assert shown.stdout == "4\n", shown.stderr


def test_json_tool_works_from_the_repository_root(root, run, tmp_path):
    document = tmp_path / "document.json"
    document.write_text('{"a": 1}')

    shown = run([sys.executable, "-m", "json.tool", "--compact", document])

    assert shown.stdout == '{"a":1}\n', shown.stderr


def test_the_floors_and_rooms_keep_apart(run, bin_folder):
    linted = run([bin_folder / "lint-imports"])

    assert linted.returncode == 0, linted.stdout
