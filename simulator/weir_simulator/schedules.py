"""Cron schedules in time zones: checks them, and finds the periods that they begin. Pure.

Understands `*`, numbers, names of months and days, ranges, steps and lists. A period begins at a
time on the clocks of its zone and lasts for some real time, as the zone's clocks change or not. A
beginning that the clocks skip comes when they have jumped; one that they show twice counts once,
the first time.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo, available_timezones

from croniter import croniter
from croniter.croniter import CroniterBadDateError

from weir_simulator.validation import refusal, suggest

UTC = "UTC"
"""The zone of a schedule that names none."""
_MINUTE = timedelta(minutes=1)
EXPECTED = "a cron schedule, such as 0 17 * * 1-5"
_REMEDY = "write minute, hour, day of month, month and day of week"

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
FIELDS: tuple[tuple[str, int, int, tuple[str, ...]], ...] = (
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


@dataclass(frozen=True, slots=True)
class Period:
    """A stretch of time, Unix seconds."""

    begin: float
    end: float


@lru_cache(maxsize=1)
def _known_zones() -> frozenset[str]:
    return frozenset(available_timezones() - {"localtime"})  # another one on each machine


def check_time_zone(name: str) -> str:
    """Return the name of a time zone if there is one.

    Raises:
        PydanticCustomError: There is none; suggests one that is nearly the same.
    """
    known = _known_zones()
    if name not in known:
        raise refusal(
            "the name of a time zone in the database of the IANA, such as Europe/Berlin",
            suggest(name, sorted(known), otherwise="correct it, or remove it for UTC"),
        )
    return name


def find_last_period(schedule: str, zone: str, duration: float, until: float) -> Period | None:
    """Return the last period that begins by a time, which may be over; `None` where none does.

    Args:
        schedule: When periods begin, a valid one.
        zone: Name of the time zone whose clocks it reads.
        duration: Seconds that a period lasts.
        until: Unix seconds.
    """
    clocks = ZoneInfo(zone)
    local = datetime.fromtimestamp(until // 1, clocks)
    wall = local.replace(tzinfo=None)
    if local.fold:  # these times were shown before: all of them have begun, and no other
        while _seconds_between_readings(wall + _MINUTE, clocks) < 0:
            wall += _MINUTE
    try:
        # croniter looks strictly before, and takes a time without a zone as it stands.
        begin = croniter(schedule, wall + timedelta(seconds=1)).get_prev(datetime)
    except CroniterBadDateError:
        return None  # a schedule without a day, such as 30 February
    while _seconds_between_readings(begin, clocks) > 0:  # skipped: none is before the jump
        begin += _MINUTE
    instant = begin.replace(tzinfo=clocks).timestamp()
    return Period(instant, instant + duration)


def _seconds_between_readings(wall: datetime, clocks: ZoneInfo) -> float:
    """Return by how much the later reading of a local time is ahead of the earlier one.

    0 of a usual time, below 0 of one that clocks show twice, above 0 of one that they skip.
    """
    early = wall.replace(tzinfo=clocks, fold=0).utcoffset()
    late = wall.replace(tzinfo=clocks, fold=1).utcoffset()
    return 0.0 if early is None or late is None else (late - early).total_seconds()


def check_schedule(schedule: str) -> str:
    """Return `schedule` if it is valid.

    Raises:
        PydanticCustomError: It is not; says which field is wrong.
    """
    fields = schedule.split(" ")
    if len(fields) != len(FIELDS):
        raise refusal("five fields separated by one space", _REMEDY)
    for text, (name, lowest, highest, names) in zip(fields, FIELDS, strict=True):
        for item in text.split(","):
            if not _is_item(item, lowest, highest, names):
                raise refusal(
                    EXPECTED,
                    f"correct the {name} {item!r}, the range is {lowest} to {highest}",
                )
    _refuse_never(fields)
    return schedule


def _refuse_never(fields: list[str]) -> None:
    _, _, days, months, weekdays = fields
    if weekdays != "*":
        return  # days of the week come besides days of the month
    first = min(_numbers(days, *FIELDS[2][1:]))
    longest = max(_LENGTHS[month - 1] for month in _numbers(months, *FIELDS[3][1:]))
    if first > longest:
        raise refusal(
            EXPECTED,
            f"correct the day of month {days!r}, which month {months!r} never has",
        )


def _numbers(text: str, lowest: int, highest: int, names: tuple[str, ...]) -> set[int]:
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
