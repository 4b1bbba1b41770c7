"""The names of faults of a minute or a day.

A fault says what was found and handled; the completeness beside it says how much of the minute is
left.
"""

from __future__ import annotations

from enum import StrEnum


class Fault(StrEnum):
    """What was wrong."""

    BLOCKED = "blocked"
    """A source was back-pressured and reports no backlog: what arrived is more than what it took,
    by how much nobody knows."""
    BACKLOG = "backlog"
    """A source was back-pressured; what arrived was taken from its backlog."""
    CLOCK = "clock"
    """The clock of the samples and the task's own do not agree: one of them was set."""
    DUPLICATE = "duplicate"
    """A sample was there twice."""
    GAP = "gap"
    """Samples are missing."""
    LATE = "late"
    """A sample was received long after it was scraped; it was used at its place."""
    NOT_A_NUMBER = "notANumber"
    """A sample was NaN, infinite, or a negative count."""
    RESET = "reset"
    """A counter fell without a restart that its labels would show."""
    RESTART = "restart"
    """The job, or a task of it, was started again."""


INCOMPLETE = "incomplete"
"""Minutes of a day that samples cover in part; this and the next are problems of a day."""


UNSEEN = "unseen"
"""Minutes of which there is no sample at all."""


FROM_NOTHING = "recordsFromNothing"
"""Records came out and none went in."""


WITH_NOTHING = "busyWithNothing"
"""It was busy and took in nothing."""


IMPOSSIBLE = frozenset({FROM_NOTHING, WITH_NOTHING})
"""What no job can do: whatever says so is wrong."""
