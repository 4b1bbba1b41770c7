"""The repository and its programs, for the tests that check the repository itself."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]

NOT_OURS = {".git", ".venv", ".cache", ".weir", "build", "dist", "__pycache__"}


@pytest.fixture(scope="session")
def root() -> Path:
    """The repository's root."""
    return Path(__file__).parents[2]


@pytest.fixture(scope="session")
def own_files(root) -> tuple[Path, ...]:
    """Every file of the project, relative to its root; nothing that was installed or built."""
    found = []
    for folder, subfolders, names in os.walk(root):
        subfolders[:] = [
            name
            for name in subfolders
            if name not in NOT_OURS and not name.endswith(("_cache", ".egg-info"))
        ]
        found += [(Path(folder) / name).relative_to(root) for name in names]
    return tuple(sorted(found))


@pytest.fixture(scope="session")
def run(root) -> Run:
    """Run a program from the repository's root and return what it said."""

    def run_program(
        arguments: Sequence[str | Path],
        *,
        cwd: Path = root,
        seconds: float = 120,
        **environment: str,
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(argument) for argument in arguments],
            cwd=cwd,
            env=os.environ | environment,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )

    return run_program


@pytest.fixture(scope="session")
def bin_folder() -> Path:
    """Where the environment's programs are."""
    return Path(sys.executable).parent
