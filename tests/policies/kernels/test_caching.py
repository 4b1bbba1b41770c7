from __future__ import annotations

import os
import subprocess
import sys

import pytest

from weir_policies.kernels.caching import find_sources
from weir_policies.operator_manager import q_learning_pds

PART = """
from weir_policies.kernels.compiled import compiled

ADDED = {added}

@compiled
def part(x):
    return x + {added}
"""
WHOLE = """
from weir_part import part
from weir_policies.kernels.compiled import compiled

@compiled
def whole(x):
    return part(x)

print(whole(1), sum(whole.stats.cache_hits.values()))
"""
CONSTANT = """
from weir_part import ADDED
from weir_policies.kernels.compiled import compiled

@compiled
def whole(x):
    return x + ADDED

print(whole(1), sum(whole.stats.cache_hits.values()))
"""


@pytest.fixture
def run_whole(tmp_path):
    """Run a compiled function of one file that takes another from a second file."""

    def run(added, whole=WHOLE):
        (tmp_path / "weir_whole.py").write_text(whole)
        (tmp_path / "weir_part.py").write_text(PART.format(added=added))
        done = subprocess.run(
            [sys.executable, "-c", "import weir_whole"],
            cwd=tmp_path,
            env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")},
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.split()

    return run


def test_an_edit_of_what_a_kernel_is_made_from_compiles_it_again(run_whole):
    assert run_whole(added=1) == ["2", "0"]
    assert run_whole(added=1) == ["2", "1"]
    assert run_whole(added=41) == ["42", "0"]


def test_an_edit_of_a_constant_that_a_kernel_uses_compiles_it_again(run_whole):
    assert run_whole(added=1, whole=CONSTANT) == ["2", "0"]
    assert run_whole(added=41, whole=CONSTANT) == ["42", "0"]


def test_a_kernels_sources_are_all_modules_that_it_takes_something_from():
    sources = find_sources(q_learning_pds.__name__)

    assert q_learning_pds.__name__ in sources
    assert "weir_policies.kernels.tables" in sources
    assert "weir_policies.kernels.view" in sources
    assert "weir_policies.operator_manager.threshold" not in sources
