"""Keeps the outcomes of runs from one call to the next, and pairs those with equal arrivals."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Protocol, TypeVar


class Paired(Protocol):
    """An outcome of a run that is compared with that of another one."""

    @property
    def pair(self) -> tuple[str, str, int]:
        """What runs are compared on: job, trace and repeat, which have equal arrivals."""
        ...


Run = TypeVar("Run")
PairedRun = TypeVar("PairedRun", bound=Paired)


def store_outcome(path: Path, values: Mapping[str, object]) -> None:
    """Write an outcome, given by its fields; it replaces an older one of the same name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(values) + "\n")


def load_outcomes(folder: Path, kind: Callable[..., Run]) -> list[Run]:
    """Return the outcomes of all calls so far, in order of their names; `kind` takes the fields."""
    return [kind(**json.loads(path.read_text())) for path in sorted(folder.glob("*.json"))]


def pair_up(
    ours: Iterable[PairedRun], theirs: Iterable[PairedRun]
) -> list[tuple[PairedRun, PairedRun]]:
    """Return ours with theirs on equal arrivals, in order of ours, without runs that have none."""
    others = {each.pair: each for each in theirs}
    return [(each, others[each.pair]) for each in ours if each.pair in others]
