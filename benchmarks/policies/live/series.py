"""What the parts of `live` share that keep their runs and go on with those that are missing.

A variable chooses what is run, and how many pairs of it. The runs of a series have one policy. A
run beside which other processes used the machine is made again.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol, TypeVar

from benchmarks.registry import BenchmarkError
from benchmarks.results import find_commit, measured_trees

MAX_OTHERS = 0.02
"""Share of the processors' time that other processes may use beside a run."""
MAX_ATTEMPTS = 3


class Outcome(Protocol):
    """What is kept of a run on real Flink."""

    @property
    def trees(self) -> Mapping[str, str]:
        """Git's, of the code that ran."""
        ...

    @property
    def others(self) -> float:
        """Share of the processors' time that other processes used meanwhile."""
        ...


Kept = TypeVar("Kept", bound=Outcome)


def max_pairs() -> int | None:
    """Return how many pairs a call may make; `None` is all that are missing."""
    text = os.environ.get("LIVE_PAIRS")
    if text is not None and not text.isdecimal():
        raise BenchmarkError(f"LIVE_PAIRS: expected a number of pairs, got {text!r}")
    return None if text is None else int(text)


def chosen(variable: str, known: Iterable[str]) -> str:
    """Return what a variable names; the first of those that are known by default."""
    names = list(known)
    name = os.environ.get(variable, names[0])
    if name not in names:
        raise BenchmarkError(f"{variable}: expected one of {', '.join(names)}, got {name!r}")
    return name


def require_one_policy(kept: Sequence[Outcome]) -> None:
    """Refuse to mix runs of several policies, or of code that is in no commit."""
    commit = find_commit()
    if commit is None or commit.endswith("-dirty"):
        raise BenchmarkError("Expected all code to be committed, got changes: commit them first")
    now = measured_trees("policies")["policies"]
    if any(each.trees["policies"] != now for each in kept):
        raise BenchmarkError(
            "Expected the policies with which the series was begun, got others: begin another "
            "series, in a folder of its own"
        )


def run_on_a_quiet_machine(run_once: Callable[[], Kept]) -> Kept:
    """Run until the machine was quiet enough; what ran on a busy one is not kept."""
    shares: list[str] = []
    while len(shares) < MAX_ATTEMPTS:
        outcome = run_once()
        if outcome.others <= MAX_OTHERS:
            return outcome
        shares.append(f"{outcome.others:.1%}")
    raise BenchmarkError(
        f"Expected other processes to use at most {MAX_OTHERS:.0%} of the processors' time, got "
        f"{', '.join(shares)} in {MAX_ATTEMPTS} attempts: run it while the machine does nothing "
        "else"
    )
