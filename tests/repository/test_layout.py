"""Guards the layout: roots that are no packages, and imports that only go down."""

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


def test_the_standard_library_is_not_hidden_from_the_repository_root(root, run):
    shown = run([sys.executable, "-c", "import operator, json.tool; print(operator.add(2, 2))"])

    assert shown.stdout == "4\n", shown.stderr
