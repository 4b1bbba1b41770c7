"""Finds the benchmarks: every module in the folders beside it that says what it is about.

A benchmark is a module with three names: `ABOUT`, one sentence on what it shows; `DURATION`, how
long it takes on two cores; and `run()`, which returns its figures and rows. Its file is its name,
with hyphens on the command line: `model/speed.py` is `make bench NAME=speed`.
One that has parts of its own has a folder with them: `cluster/chaos/chaos.py` is `chaos`. Folders
are no part of the name, so no two benchmarks may have the same file name.
Importing one must be quick and must start nothing, because the list imports all of them.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.figures import Figure, Row

FOLDER = Path(__file__).parent


class BenchmarkError(Exception):
    """A benchmark that is not there, or is not complete."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Benchmark:
    """An experiment that produces figures."""

    name: str
    folder: str
    about: str
    duration: str
    deterministic: bool
    """Whether each run of it comes to the same."""
    run: Callable[[], Sequence[Figure | Row]]


def find_benchmarks() -> dict[str, Benchmark]:
    found: dict[str, Benchmark] = {}
    for path in sorted(FOLDER.glob("*/**/*.py"), key=lambda path: path.stem):
        parts = path.relative_to(FOLDER).with_suffix("").parts
        module = importlib.import_module(".".join(("benchmarks", *parts)))
        if not hasattr(module, "ABOUT"):
            continue  # a part that benchmarks share
        missing = [name for name in ("DURATION", "run") if not hasattr(module, name)]
        if missing:
            raise BenchmarkError(f"Expected {path.relative_to(FOLDER.parent)} to have {missing}")
        name = path.stem.replace("_", "-")
        if name in found:
            raise BenchmarkError(f"Expected one benchmark {name}, got another one in {path}")
        found[name] = Benchmark(
            name=name,
            folder=parts[0],
            about=module.ABOUT,
            duration=module.DURATION,
            deterministic=getattr(module, "DETERMINISTIC", False),
            run=module.run,
        )
    return found


def find_benchmark(name: str) -> Benchmark:
    benchmarks = find_benchmarks()
    if name not in benchmarks:
        raise BenchmarkError(f"Expected a benchmark out of {list(benchmarks)}, got {name!r}")
    return benchmarks[name]
