import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from weir_policies.kernels.caching import find_sources
from weir_policies.operator_manager import q_learning_pds

ROOT = Path(__file__).parents[3]

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


RUN = """
from pathlib import Path
from weir_policies.kernels import caching

caching.BUILT = Path({built!r})
import weir_whole
"""
COLLECT = """
from scripts.compile_kernels import collect

collect(caching.BUILT)
"""


@pytest.fixture
def run_whole(tmp_path):
    """Run a compiled function of one file that takes another from a second file.

    In a folder and with a cache of their own, but with the same built functions.
    """

    def run(added, whole=WHOLE, *, folder="one", cache=None, then="", **environment):
        place = tmp_path / folder
        place.mkdir(exist_ok=True)
        (place / "weir_whole.py").write_text(whole)
        (place / "weir_part.py").write_text(PART.format(added=added))
        path = os.pathsep.join([*sys.path, str(ROOT)])
        given = {"NUMBA_CACHE_DIR": str(cache or place / "cache"), "PYTHONPATH": path}
        done = subprocess.run(
            [sys.executable, "-c", RUN.format(built=str(tmp_path / "built")) + then],
            cwd=place,
            env={**os.environ, **given, **environment},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr.splitlines()[-1]
        return done.stdout.split()

    return run


def test_an_edit_of_what_a_kernel_is_made_from_compiles_it_again(run_whole):
    assert run_whole(added=1) == ["2", "0"]
    assert run_whole(added=1) == ["2", "1"]
    assert run_whole(added=41) == ["42", "0"]


def test_an_edit_of_a_constant_that_a_kernel_uses_compiles_it_again(run_whole):
    assert run_whole(added=1, whole=CONSTANT) == ["2", "0"]
    assert run_whole(added=41, whole=CONSTANT) == ["42", "0"]


def test_what_was_built_is_used_for_the_same_sources_and_processor_alone(run_whole, tmp_path):
    run_whole(added=1)
    run_whole(added=1, then=COLLECT)

    assert run_whole(added=1, folder="two") == ["2", "1"]
    assert run_whole(added=41, folder="three") == ["42", "0"]
    assert run_whole(added=1, folder="four", NUMBA_CPU_NAME="core2") == ["2", "0"]
    # Only what Python calls is built.
    assert {path.parent.name for path in (tmp_path / "built").rglob("*.nbc")} == {"weir_whole"}


def test_what_another_python_compiled_is_built_too_but_not_copied_to_a_cache(run_whole, tmp_path):
    run_whole(added=1)
    own = f".py{sys.version_info.major}{sys.version_info.minor}."
    for file in list((tmp_path / "one/cache").rglob("weir_whole.*")):
        shutil.copyfile(file, file.with_name(file.name.replace(own, ".py398.")))

    run_whole(added=1, then=COLLECT)
    run_whole(added=1, folder="two")

    built = [file.name for file in (tmp_path / "built").rglob("*.nb?")]
    cached = [file.name for file in (tmp_path / "two/cache").rglob("weir_whole.*")]
    assert sorted(name.replace(own, ".py398.") for name in cached) == sorted(
        name for name in built if ".py398." in name
    )
    assert all(own in name for name in cached)
    assert len(built) == 2 * len(cached) > 0


def test_a_machine_without_a_folder_to_write_to_is_told_the_remedy(tmp_path, run_whole):
    (tmp_path / "one").mkdir()
    nowhere = tmp_path / "file"
    for file in (nowhere, tmp_path / "one" / "__pycache__"):
        file.touch()

    with pytest.raises(AssertionError, match="set NUMBA_CACHE_DIR to one"):
        run_whole(added=1, cache=nowhere, HOME=str(nowhere), XDG_CACHE_HOME=str(nowhere))


def test_a_kernels_sources_are_all_modules_that_it_takes_something_from():
    sources = find_sources(q_learning_pds.__name__)

    assert q_learning_pds.__name__ in sources
    assert "weir_policies.kernels.tables" in sources
    assert "weir_policies.kernels.view" in sources
    assert "weir_policies.operator_manager.threshold" not in sources
