"""What a benchmark lets its caller choose, by environment variables."""

from __future__ import annotations

import os
from collections.abc import Sequence

from benchmarks.registry import BenchmarkError


def choose(variable: str, default: str, known: Sequence[str]) -> str:
    """Return the value of an environment variable."""
    value = os.environ.get(variable, default)
    if value not in known:
        raise BenchmarkError(f"{variable}: expected one of {', '.join(known)}, got {value!r}")
    return value


def choose_count(variable: str, default: int, *, least: int = 1) -> int:
    """Return the number in an environment variable."""
    value = os.environ.get(variable, str(default))
    if not value.isdecimal() or int(value) < least:
        raise BenchmarkError(
            f"{variable}: expected a whole number of at least {least}, got {value!r}"
        )
    return int(value)
