"""Reads parameters of policies by name from plain values, and rejects mistakes with a sentence."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any, TypeVar

from weir_policies.errors import ParameterError, UnknownSettingError

Parameters = TypeVar("Parameters")
Value = TypeVar("Value")
_RANGE = "range"


def setting(
    default: Value,
    *,
    low: float,
    high: float = math.inf,
    low_allowed: bool = True,
    high_allowed: bool = True,
    whole: bool = False,
) -> Value:
    """Declare a field of `PolicyParameters` and its range, as `refuse_outside` takes it."""
    limits = dict(
        low=low, high=high, low_allowed=low_allowed, high_allowed=high_allowed, whole=whole
    )
    return field(default=default, metadata={_RANGE: limits})


@dataclass(frozen=True, kw_only=True, slots=True)
class PolicyParameters:
    """Settings of a policy, each within the range of its `setting`.

    Raises:
        ParameterError: One is out of its range.
    """

    def __post_init__(self) -> None:
        """Refuse what is out of range."""
        for each in fields(self):
            if _RANGE in each.metadata:
                refuse_outside(each.name, getattr(self, each.name), **each.metadata[_RANGE])


class Settings(dict[str, Any]):
    """The settings of a policy, with defaults for what was not chosen.

    What stands in (an experiment's rate levels, say) is passed over by policies that have no such
    parameter, while a choice that does not exist is refused.
    """

    def __init__(self, chosen: Mapping[str, Any], otherwise: Mapping[str, Any]) -> None:
        super().__init__(chosen)
        self.otherwise = dict(otherwise)


def read_parameters(
    kind: type[Parameters], values: Mapping[str, Any], *, policy: str
) -> Parameters:
    """Build a policy's parameters from plain values, such as a StreamApp's settings.

    Args:
        kind: A frozen dataclass whose fields are numbers, `None` where that is their default, or
            words of the `StrEnum` that their default belongs to.
        values: By the field's name; what is left out keeps its default.
        policy: Name of the policy, for the error.

    Raises:
        ParameterError: A name is unknown, or a value is of another kind or out of its range.
    """
    words: dict[str, StrEnum] = {}
    allowed = {field.name: field for field in fields(kind)}  # type: ignore[arg-type]
    if isinstance(values, Settings):
        fitting = {name: value for name, value in values.otherwise.items() if name in allowed}
        values = {**fitting, **values}
    for name, value in values.items():
        if name not in allowed:
            raise UnknownSettingError(name, policy=policy, known=sorted(allowed))
        default = allowed[name].default
        if isinstance(default, StrEnum):
            words[name] = _read_word(type(default), value, name=name, policy=policy)
            continue
        empty_allowed = default is None
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not (is_number or (value is None and empty_allowed)):
            expected = "a number or null" if empty_allowed else "a number"
            raise ParameterError(f"Expected {expected} for {name} of {policy}, got {value!r}")
    return kind(**{**values, **words})


def _read_word(kind: type[StrEnum], value: Any, *, name: str, policy: str) -> StrEnum:
    known = [word.value for word in kind]
    if value not in known:
        raise ParameterError(f"Expected {name} of {policy} out of {known}, got {value!r}")
    return kind(value)


def refuse_outside(
    name: str,
    value: float | None,
    *,
    low: float,
    high: float = math.inf,
    low_allowed: bool = True,
    high_allowed: bool = True,
    whole: bool = False,
) -> None:
    """Refuse a number outside a range, or between whole ones; `None` is inside.

    Raises:
        ParameterError: It is outside, NaN, or not whole where it must be.
    """
    if value is None:
        return
    above = value >= low if low_allowed else value > low
    below = value <= high if high_allowed else value < high
    if not (above and below and math.isfinite(value)):
        bounds = f"{'>=' if low_allowed else '>'} {low:g}"
        if math.isfinite(high):
            bounds += f" and {'<=' if high_allowed else '<'} {high:g}"
        raise ParameterError(f"Expected {name} {bounds}, got {value!r}")
    if whole and value != int(value):
        raise ParameterError(f"Expected a whole number for {name}, got {value}")
