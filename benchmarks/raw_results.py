"""Raw results: what each run of a benchmark came to, in `benchmarks/results/NAME.json`.

The pages are made from these files alone (`page.py`). A file holds the run's circumstances (date,
commit, load of the machine), the constants and choices that it ran with, its figures and rows.

Results from before there were such files hold what the page said then; `recorded` says so. Their
date, commit and load are null, because nobody wrote them down.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import Any

from benchmarks.figures import Figure, FigureError
from benchmarks.rows import Row

FOLDER = Path(__file__).parent / "results"
ROOT = FOLDER.parent.parent
_NO_SETTINGS = ("ABOUT", "DURATION")
_CHOICES = (
    *("AM_", "ANY_", "CHAOS_", "CPU_", "DEEP_", "EDF_", "FIGURES_", "FIT_", "LIVE_", "MATCH_"),
    *("MDP_", "SOAK_", "STATE_", "TUNE_", "WEIR_"),
)
"""Beginnings of the variables by which a caller chooses."""


class ResultError(Exception):
    """A result that is not there, or lacks what a page asks for."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Table:
    """A table of a page, as text."""

    columns: tuple[str, ...]
    cells: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Result:
    """One run of a benchmark."""

    benchmark: str
    date: str | None
    """When it began, ISO 8601."""
    commit: str | None
    """Of the code that ran, `-dirty` where something was not committed."""
    load: tuple[float, float] | None
    """Mean load of the machine over a minute, at the beginning and at the end."""
    processors: int | None
    seeds: Mapping[str, Any]
    """Those of the settings that say seeds."""
    settings: Mapping[str, Any]
    """Constants of the benchmark, and what its caller chose by variables."""
    figures: tuple[Figure, ...]
    rows: tuple[Row, ...] = ()
    tables: Mapping[str, Table] = field(default_factory=dict)
    """Only of a recorded result."""
    recorded: str | None = None
    """Where the numbers of a result without circumstances come from."""
    outcomes: Sequence[Mapping[str, Any]] = ()
    """What the rows were made from, where a benchmark keeps it."""

    def find(self, figure: str) -> Figure:
        """Return a figure by its name.

        Raises:
            ResultError: There is none.
        """
        for each in self.figures:
            if each.figure == figure:
                return each
        raise ResultError(
            f"Expected a figure {figure!r} in the result of {self.benchmark}, got none: correct "
            "the page's template, or run the benchmark again"
        )


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


def complete(
    name: str,
    begun: Begun,
    module: ModuleType,
    figures: Sequence[Figure],
    rows: Sequence[Row],
    outcomes: Sequence[Mapping[str, Any]] = (),
) -> Result:
    """Return the result of a run that has just ended."""
    settings = settings_of(module) | _chosen()
    return Result(
        benchmark=name,
        date=begun.date,
        commit=begun.commit,
        load=(begun.load, round(os.getloadavg()[0], 1)),
        processors=os.cpu_count(),
        seeds={key: value for key, value in settings.items() if "SEED" in key},
        settings=settings,
        figures=tuple(figures),
        rows=tuple(rows),
        outcomes=tuple(outcomes),
    )


def settings_of(module: ModuleType) -> dict[str, Any]:
    """Return a module's constants, as far as they are numbers, texts or collections of these."""
    found = {}
    for name, value in vars(module).items():
        if name.isupper() and not name.startswith("_") and name not in _NO_SETTINGS:
            try:
                found[name] = _plain(value)
            except TypeError:  # a constant of a type of its own says nothing to others
                continue
    return found


def _chosen() -> dict[str, str]:
    """Return what the caller chose by variables; those with paths are about this machine alone."""
    return {
        name: value
        for name, value in os.environ.items()
        if name.startswith(_CHOICES) and "/" not in value
    }


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, tuple | list | range | frozenset):
        return [_plain(each) for each in value]
    raise TypeError(f"Expected plain values, got {type(value).__name__}")


def find_commit() -> str | None:
    """Return the commit of the code; what is made from results does not count as a change."""
    changed = _ask_git("status", "--porcelain", "--", ".", ":!benchmarks/results", ":!docs")
    commit = _ask_git("rev-parse", "HEAD")
    if commit is None or changed is None:
        return None
    return f"{commit}-dirty" if changed else commit


def _ask_git(*arguments: str) -> str | None:
    """Return what git prints; `None` outside a repository."""
    asked = subprocess.run(
        ["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=False
    )
    return asked.stdout.strip() if asked.returncode == 0 else None


def write_result(result: Result, folder: Path = FOLDER) -> Path:
    """Write a result as JSON; return the path."""
    path = folder / f"{result.benchmark}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(_format_values(asdict(result)), encoding="utf-8")
    return path


def _format_values(values: Mapping[str, Any]) -> str:
    """Return JSON with a line for each figure, row and outcome, which a diff can show."""
    parts = []
    for name, value in values.items():
        if name == "tables":
            lines = [f"{json.dumps(title)}: {json.dumps(each)}" for title, each in value.items()]
            shown = "{\n  " + ",\n  ".join(lines) + "\n }" if lines else "{}"
        elif name in ("figures", "rows", "outcomes"):
            lines = [json.dumps(each) for each in value]
            shown = "[\n  " + ",\n  ".join(lines) + "\n ]" if lines else "[]"
        else:
            shown = json.dumps(value)
        parts.append(f" {json.dumps(name)}: {shown}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def read_result(name: str, folder: Path = FOLDER) -> Result:
    """Return the kept result of a benchmark.

    Raises:
        ResultError: There is none, or the file is not one.
    """
    path = folder / f"{name}.json"
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        values["figures"] = tuple(Figure(**each) for each in values["figures"])
        values["load"] = None if values["load"] is None else tuple(values["load"])
        values["outcomes"] = tuple(values["outcomes"])
        values["rows"] = tuple(Row(**each) for each in values["rows"])
        values["tables"] = {
            title: Table(
                columns=tuple(each["columns"]), cells=tuple(tuple(row) for row in each["cells"])
            )
            for title, each in values["tables"].items()
        }
        return Result(**values)
    except FileNotFoundError as error:
        raise ResultError(
            f"Expected the result of {name} in {path}, got no file: make bench NAME={name}"
        ) from error
    except (KeyError, TypeError, ValueError, FigureError) as error:
        raise ResultError(
            f"Expected the result of a benchmark in {path}, got an error ({error}): run it again"
        ) from error
