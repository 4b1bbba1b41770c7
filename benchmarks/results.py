"""What a run of a benchmark came to: `benchmarks/results/NAME.json`, shown in `docs/results`.

A file holds the run's circumstances (date, commit, load of the machine, git's trees of the code
that it measured, what its caller chose), its figures, and its rows. The constants that it ran with
are those of its commit.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from benchmarks.figures import Figure, Row

FOLDER = Path(__file__).parent / "results"
ROOT = FOLDER.parent.parent
BUILD = ROOT / "build" / "benchmarks"
"""Where benchmarks write what is not committed."""
Run = TypeVar("Run")
_MEASURED = {
    "papers": ("policies", "simulator"),
    "policies": ("policies", "simulator", "operator"),
    "model": ("policies", "simulator", "operator"),
    "pipelines": ("pipelines",),
    "controller": ("operator", "policies"),
    "flink": ("operator", "policies", "java"),
    "cluster": ("operator", "policies", "java", "helm"),
}
"""Folders of the code that the benchmarks of a folder measure."""
_SIMULATED = ("policies", "simulator")
"""Those that a deterministic benchmark measures."""
REQUIRED = ("date", "commit", "load", "trees")
"""What every result says of how it came about."""
_CHOICES = ("CHAOS_", "LIVE_", "PLANNER_", "WEIR_")
"""Beginnings of the variables by which a caller chooses."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Begun:
    """The circumstances in which a run began."""

    date: str
    commit: str | None
    load: float


def begin() -> Begun:
    """Note the circumstances before a run."""
    return Begun(
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        commit=find_commit(),
        load=round(os.getloadavg()[0], 1),
    )


def write_result(
    path: Path, begun: Begun, module: ModuleType, found: Sequence[Figure | Row]
) -> None:
    """Write what a run that has just ended came to."""
    values = {
        "benchmark": path.stem,
        "date": begun.date,
        "commit": begun.commit,
        "load": [begun.load, round(os.getloadavg()[0], 1)],
        "trees": measured_trees(*_measured_by(module)),
        "processors": os.cpu_count(),
        "settings": _chosen(),
        "figures": [asdict(each) for each in found if isinstance(each, Figure)],
        "rows": [asdict(each) for each in found if isinstance(each, Row)],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(format_values(values), encoding="utf-8")


def format_values(values: Mapping[str, Any]) -> str:
    """Return JSON with a line for each figure and row, which a diff can show."""
    parts = []
    for name, value in values.items():
        if name in ("figures", "rows") and value:
            shown = "[\n  " + ",\n  ".join(json.dumps(each) for each in value) + "\n ]"
        else:
            shown = json.dumps(value)
        parts.append(f" {json.dumps(name)}: {shown}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _chosen() -> dict[str, str]:
    """Return what the caller chose by variables; those with paths are about this machine alone."""
    return {
        name: value
        for name, value in os.environ.items()
        if name.startswith(_CHOICES) and "/" not in value
    }


def find_commit() -> str | None:
    """Return the commit of the code; what is made from results does not count as a change."""
    changed = _ask_git("status", "--porcelain", "--", ".", ":!benchmarks/results", ":!docs")
    commit = _ask_git("rev-parse", "HEAD")
    if commit is None or changed is None:
        return None
    return f"{commit}-dirty" if changed else commit


def _measured_by(module: ModuleType) -> Sequence[str]:
    if getattr(module, "DETERMINISTIC", False):
        return _SIMULATED
    return _MEASURED.get(module.__name__.split(".")[1], ())


def measured_trees(*folders: str) -> dict[str, str]:
    """Return git's hash of each folder of code."""
    found = _ask_git("rev-parse", *(f"HEAD:{each}" for each in folders))
    return dict(zip(folders, found.split(), strict=True)) if found else {}


def count_changed_lines(result: Mapping[str, Any]) -> int | None:
    """Return how many lines of the code that a result measured have changed since.

    `None` where git does not have that code.
    """
    trees: Mapping[str, str] = result["trees"]
    changed = [(was, f"HEAD:{each}") for each, was in trees.items() if was != _tree_now(each)]
    counts = [_count_lines(was, now) for was, now in changed]
    return None if None in counts else sum(filter(None, counts))


def describe_age(result: Mapping[str, Any]) -> str:
    """Return how the code that a result measured has changed since; empty where it has not."""
    lines = count_changed_lines(result)
    if lines is None:
        return "of older code that git does not have"
    return f"of older code, {lines:,} lines changed" if lines else ""


@cache
def _tree_now(folder: str) -> str | None:
    return _ask_git("rev-parse", f"HEAD:{folder}")


@cache
def _count_lines(was: str, now: str) -> int | None:
    """Return how many lines differ between two trees; `None` where git does not have one."""
    changes = _ask_git("diff", "--shortstat", was, now)
    if changes is None:
        return None
    return sum(map(int, re.findall(r"(\d+) (?:insertion|deletion)", changes)))


def _ask_git(*arguments: str) -> str | None:
    """Return what git prints; `None` outside a repository."""
    asked = subprocess.run(
        ["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=False
    )
    return asked.stdout.strip() if asked.returncode == 0 else None


def store_outcome(path: Path, values: Mapping[str, object]) -> None:
    """Keep what came of one run of several for a later call; it replaces an older one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(values) + "\n")


def load_outcomes(folder: Path, kind: Callable[..., Run]) -> list[Run]:
    """Return the outcomes of all calls so far, in order of their names; `kind` takes the fields."""
    return [kind(**json.loads(path.read_text())) for path in sorted(folder.glob("*.json"))]
