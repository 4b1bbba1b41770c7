"""A figure: one number that the project claims, with its goal and whether it holds.

A benchmark returns figures, and rows where it holds a table of ours against one of others.
`make bench NAME=x` writes them to `benchmarks/results/x.json` (`results.py`).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

NOT_SHOWN = "not shown"
"""The verdict on a goal that the measurements leave open."""


class FigureError(ValueError):
    """A figure that cannot be written down."""


@dataclass(frozen=True, slots=True)
class Figure:
    figure: str
    """What was measured, in words, unique within its benchmark."""
    value: float | None
    """`None` where it could not be measured."""
    unit: str = ""
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


def at_most(figure: str, value: float | None, limit: float, unit: str = "") -> Figure:
    """Return a figure that holds when its value does not exceed the limit."""
    goal = f"at most {limit:g} {unit}".rstrip()
    return Figure(figure, value, unit, goal, holds=value is not None and value <= limit)


def at_least(figure: str, value: float | None, limit: float, unit: str = "") -> Figure:
    """Return a figure that holds when its value reaches the limit."""
    goal = f"at least {limit:g} {unit}".rstrip()
    return Figure(figure, value, unit, goal, holds=value is not None and value >= limit)


def count(figure: str, held: Collection[bool], noun: str = "") -> Figure:
    """Return how many of these are true, without a goal."""
    return Figure(figure, sum(held), f"of {len(held)} {noun}".rstrip())


def count_all(figure: str, held: Collection[bool]) -> Figure:
    """Return a figure that holds when all of these are true."""
    return at_least(figure, sum(held), len(held), f"of {len(held)}")


def no_records(figure: str, value: float | None) -> Figure:
    """Return a figure that holds when no record was lost, doubled or wrong."""
    return at_most(figure, value, 0, "records")


NEAR = 0.1
"""Part by which two numbers may differ and still count as near."""
EQUAL, WITHIN, NEITHER = "equal", f"within {100 * NEAR:.0f} %", "neither"
"""What a row may match its reference by; each counts apart from the others."""


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a table: what ours is compared to, what we get."""

    table: str
    """Such as `Table 2`."""
    row: str
    """What it is about."""
    beside: str
    ours: str
    holds: bool | None = None
    """Whether it is as `claim` has it; `None` where nothing was promised."""
    seeds: int = 1
    beside_what: str = "published"
    """Heading of `beside`, the same throughout a table."""
    claim: str = "holds"
    """Heading of `holds` or `match`, the same throughout a table."""
    printed: str | None = None
    """What we get with the settings as the paper prints them; `None` where that was not run."""
    match: str | None = None
    """`EQUAL`, `WITHIN` or `NEITHER`; `None` where the row is not compared number by number."""


def match_numbers(ours: float, reference: float, *, equal: bool) -> str:
    """Return how near ours is; `equal` says whether the printed digits are the same."""
    if equal:
        return EQUAL
    return WITHIN if abs(ours - reference) <= NEAR * abs(reference) else NEITHER


def count_matches(rows: Sequence[Row], label: str) -> list[Figure]:
    """Return how many rows are equal, within a tenth, and neither; nothing is promised."""
    return [
        count(f"{label}: {match}", [row.match == match for row in rows])
        for match in (EQUAL, WITHIN, NEITHER)
    ]
