"""Cron schedules of blocked periods: checks their five fields.

Understands `*`, numbers, names of months and days, ranges, steps and lists. The guard decides when
a period is active.
"""

from __future__ import annotations

import re

from weir_operator.streamapp.section import Rule, validations
from weir_simulator.validation import refusal

_EXPECTED = "a cron schedule, such as 0 17 * * 1-5"
_REMEDY_FOR_FIELDS = "write minute, hour, day of month, month and day of week"

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_FIELDS: tuple[tuple[str, int, int, tuple[str, ...]], ...] = (
    ("minute", 0, 59, ()),
    ("hour", 0, 23, ()),
    ("day of month", 1, 31, ()),
    ("month", 1, 12, _MONTHS),
    ("day of week", 0, 7, _DAYS),
)
_LENGTHS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
"""Days of each month, at most."""
_ITEM = re.compile(
    r"(?:\*|(?P<first>[0-9A-Za-z]+)(?:-(?P<last>[0-9A-Za-z]+))?)(?:/(?P<step>[0-9]+))?"
)


def _field_pattern(lowest: int, highest: int, names: tuple[str, ...]) -> str:
    """Return a regular expression for one field, its range included but not a range's order."""
    value = "|".join((*(f"0*{number}" for number in range(lowest, highest + 1)), *names))
    item = rf"(\*|({value})(-({value}))?)(/0*[1-9][0-9]*)?"
    return f"{item}(,{item})*"


SCHEDULE_SCHEMA = {
    "pattern": r"^[0-9A-Za-z*/,-]+( [0-9A-Za-z*/,-]+){4}$",
    "maxLength": 128,
    **validations(
        Rule(
            rule="self.matches(r'(?i)^"
            + " ".join(
                _field_pattern(lowest, highest, names) for _, lowest, highest, names in _FIELDS
            )
            + "$')",
            expected=_EXPECTED,
            remedy="correct the field that is out of range",
        )
    ),
}
"""What the CRD can say of a schedule; that a range does not run backwards, and that some
month has the day, is checked here alone."""


def check_schedule(schedule: str) -> str:
    """Return `schedule` if it is valid.

    Raises:
        PydanticCustomError: It is not; says which field is wrong.
    """
    fields = schedule.split(" ")
    if len(fields) != len(_FIELDS):
        raise refusal("five fields separated by one space", _REMEDY_FOR_FIELDS)
    for text, (name, lowest, highest, names) in zip(fields, _FIELDS, strict=True):
        for item in text.split(","):
            if not _is_item(item, lowest, highest, names):
                raise refusal(
                    _EXPECTED, f"correct the {name} {item!r}, the range is {lowest} to {highest}"
                )
    _refuse_never(fields)
    return schedule


def _refuse_never(fields: list[str]) -> None:
    """Refuse days that no month has, such as 31 February."""
    _, _, days, months, weekdays = fields
    if weekdays != "*":
        return  # days of the week come besides days of the month
    first = min(_numbers(days, *_FIELDS[2][1:]))
    longest = max(_LENGTHS[month - 1] for month in _numbers(months, *_FIELDS[3][1:]))
    if first > longest:
        raise refusal(
            _EXPECTED, f"correct the day of month {days!r}, which month {months!r} never has"
        )


def _numbers(text: str, lowest: int, highest: int, names: tuple[str, ...]) -> set[int]:
    """Return what a valid field stands for."""
    found: set[int] = set()
    for item in text.split(","):
        match = _ITEM.fullmatch(item)
        if match is None:
            raise ValueError(f"Expected a valid field, got {text!r}")
        ends = [_number(end, lowest, names) for end in (match["first"], match["last"]) if end]
        open_end = not ends or (match["step"] and len(ends) == 1)
        first, last = (ends or [lowest])[0], highest if open_end else ends[-1]
        found.update(range(first, last + 1, int(match["step"] or 1)))
    return found


def _number(end: str, lowest: int, names: tuple[str, ...]) -> int:
    return names.index(end.lower()) + lowest if end.lower() in names else int(end)


def _is_item(item: str, lowest: int, highest: int, names: tuple[str, ...]) -> bool:
    match = _ITEM.fullmatch(item)
    if match is None or int(match["step"] or 1) == 0:
        return False
    ends = [
        names.index(end.lower()) + lowest if end.lower() in names else end
        for end in (match["first"], match["last"])
        if end is not None
    ]
    if not all(isinstance(end, int) or end.isdecimal() for end in ends):
        return False
    numbers = [int(end) for end in ends]
    return all(lowest <= number <= highest for number in numbers) and numbers == sorted(numbers)
