"""Compiled functions of several versions of Python are collected for one wheel."""

from __future__ import annotations

import sys

from scripts.compile_kernels import collect

from weir_policies.kernels import steps
from weir_policies.kernels.caching import find_stamp


def test_what_another_version_of_python_compiled_of_the_same_sources_stays(tmp_path):
    module, stamp = steps.__name__, find_stamp(steps.__name__).hex()[:12]
    own = f"py{sys.version_info.major}{sys.version_info.minor}"
    folder, gone = tmp_path / module, tmp_path / "weir_policies.kernels.removed"
    for each in (folder, gone):
        each.mkdir()
    of_another = [
        folder / f"steps.f-1-{stamp}.py398.nbi",
        folder / f"steps.f-1-{stamp}.py398.1.nbc",
    ]
    others = [
        folder / f"steps.f-1-{stamp}.{own}.nbi",
        folder / "steps.f-1-000000000000.py398.nbi",
        gone / f"removed.f-1-{stamp}.py398.nbi",
    ]
    for file in (*of_another, *others):
        file.touch()

    collect(tmp_path)

    assert all(file.exists() for file in of_another)
    assert not any(file.exists() for file in others)
