"""What a benchmark lets its caller choose, by environment variables."""

from __future__ import annotations

import os
from collections.abc import Sequence
from math import inf

from benchmarks.registry import BenchmarkError


def choose(variable: str, default: str, known: Sequence[str]) -> str:
    """Return the value of an environment variable."""
    value = os.environ.get(variable, default)
    if value not in known:
        raise BenchmarkError(f"{variable}: expected one of {', '.join(known)}, got {value!r}")
    return value


def choose_some(
    variable: str, known: Sequence[str], default: Sequence[str] | None = None
) -> list[str]:
    """Return what an environment variable lists, separated by commas."""
    chosen = [each for each in os.environ.get(variable, "").split(",") if each]
    unknown = sorted(set(chosen) - set(known))
    if unknown:
        raise BenchmarkError(f"{variable}: expected some of {', '.join(known)}, got {unknown}")
    if not chosen:
        return list(known if default is None else default)
    return [each for each in known if each in chosen]


def choose_count(variable: str, default: int, *, least: int = 1) -> int:
    """Return the number in an environment variable."""
    value = os.environ.get(variable, str(default))
    if not value.isdecimal() or int(value) < least:
        raise BenchmarkError(
            f"{variable}: expected a whole number of at least {least}, got {value!r}"
        )
    return int(value)


def choose_numbers(variable: str, default: Sequence[float]) -> Sequence[float]:
    """Return the positive numbers in an environment variable, separated by commas."""
    given = os.environ.get(variable, "")
    try:
        chosen = [float(each) for each in given.split(",") if each]
    except ValueError:
        chosen = [-1.0]
    if not all(0.0 < each < inf for each in chosen):
        raise BenchmarkError(f"{variable}: expected positive numbers, got {given!r}")
    return chosen or default
