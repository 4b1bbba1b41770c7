"""A figure: one number that the project claims, with its goal and whether it holds.

Every figure of the documentation comes from a list of these, which `make bench NAME=x` writes to
`benchmarks/results/x.json` (`raw_results.py`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

NOT_SHOWN = "not shown"
"""The verdict on a goal that the measurements leave open."""


class FigureError(ValueError):
    """A figure that cannot be written down."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Figure:
    """One measured number.

    Raises:
        FigureError: The value is not finite.
    """

    figure: str
    """What was measured, in words, unique within its benchmark."""
    value: float | None
    """`None` where it could not be measured."""
    unit: str
    """Such as `s`, `%`, `records`; empty for a bare number."""
    goal: str | None = None
    """What was promised, in words such as `at most 1.0 s`; `None` is reported without a promise."""
    holds: bool | None = None
    """Whether the goal was reached; `None` where there is no goal, or it is not shown."""

    @property
    def is_open(self) -> bool:
        """Whether there is a goal of which the measurements do not show whether it holds."""
        return self.goal is not None and self.holds is None

    def __post_init__(self) -> None:
        """Refuse what JSON has no number for."""
        if self.value is not None and not math.isfinite(self.value):
            raise FigureError(
                f"Expected a finite value for {self.figure!r}, got {self.value}: "
                "say None for what could not be measured"
            )


def at_most(*, figure: str, value: float | None, unit: str, limit: float) -> Figure:
    """Return a figure that holds when its value does not exceed the limit."""
    return Figure(
        figure=figure,
        value=value,
        unit=unit,
        goal=f"at most {limit:g} {unit}".rstrip(),
        holds=value is not None and value <= limit,
    )


def at_least(*, figure: str, value: float | None, unit: str, limit: float) -> Figure:
    """Return a figure that holds when its value reaches the limit."""
    return Figure(
        figure=figure,
        value=value,
        unit=unit,
        goal=f"at least {limit:g} {unit}".rstrip(),
        holds=value is not None and value >= limit,
    )


def format_number(value: float | None, *, digits: int = 4) -> str:
    """Return a number as pages show it: whole ones in full, others with so many digits or more.

    What was not measured is a dash.
    """
    if value is None:
        return "-"
    whole = float(value).is_integer() or abs(value) >= 10 ** (digits - 1)
    return f"{value:,.0f}" if whole else f"{value:.{digits}g}"
