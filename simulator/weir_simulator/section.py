"""The base of every section of an experiment file, and its error messages.

A section is strict (no "5" for 5), closed (an unknown field is a mistake) and immutable; it is
camelCase in the file and snake_case in Python. Error messages suggest a field's `examples`.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Annotated

from pydantic import (
    BeforeValidator,
    Field,
    PlainSerializer,
    SerializationInfo,
    ValidationInfo,
)

from weir_simulator.validation import refusal

_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART = r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h)"


def read_duration(value: object, info: ValidationInfo) -> float:
    """Return the seconds that a text such as `50ms` or `1h30m` says; in Python, a number does too.

    Raises:
        PydanticCustomError: It says none.
    """
    expected = "a duration, such as 50ms, 90s, 2m or 1h30m"
    if isinstance(value, float | int) and not isinstance(value, bool):
        if info.mode == "python":
            return float(value)
        raise refusal(expected, f"add its unit, for example {value}ms or {value}s")
    if not isinstance(value, str) or not re.fullmatch(f"({_PART})+", value):
        raise refusal(expected, "correct the number or its unit")
    return sum(float(number) * _SECONDS[unit] for number, unit in re.findall(_PART, value))


def write_duration(value: float, info: SerializationInfo) -> float | str:
    """Return the seconds as a file has them, with a unit, where a section is dumped as for a file.

    That is as JSON and by alias; any other dump keeps the number. What is read again is equal.
    """
    return f"{Decimal(repr(value)):f}s" if info.mode_is_json() and info.by_alias else value


Duration = Annotated[float, BeforeValidator(read_duration), PlainSerializer(write_duration)]
"""Seconds, written with a unit."""
AboveZero = Annotated[float, Field(gt=0)]
AtLeastZero = Annotated[float, Field(ge=0)]
MAX_SLOTS = 10_000_000
"""Slots of a run at most: 19 years of minutes."""
MAX_SEED = 2**63 - 1
"""The largest seed: what a compiled loop can take."""

Probability = Annotated[float, Field(ge=0, le=1)]
Name = Annotated[str, Field(min_length=1, max_length=63)]
