"""Whether a change did what was expected of it, judged by the metrics. Pure.

A change is compared with what its decision expected and with the state before, never with one
threshold. It failed only if the response time broke the bound, is far above the expectation, is no
better than before, and the load has not changed. Rolling it back is then another change.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """What to do about a change that has been running for some intervals."""

    WAIT = "wait"
    KEEP = "keep"
    ROLL_BACK = "goBack"


@dataclass(frozen=True, kw_only=True, slots=True)
class MeasuredInterval:
    """What was measured of the application over one interval."""

    rate: float
    """Records/s that arrived."""
    response_time: float
    """Seconds, end to end, in the objective's statistic."""


UNMEASURED = MeasuredInterval(rate=math.nan, response_time=math.nan)


@dataclass(frozen=True, kw_only=True, slots=True)
class ChangeSoFar:
    """A change, what was measured before it and since."""

    bound: float
    """The objective, seconds."""
    expected: float
    """Response time of the whole path that the decision expected, seconds; NaN if it did not."""
    before: MeasuredInterval
    since: tuple[MeasuredInterval, ...] = ()
    """Healthy intervals after the job ran again, oldest first; the first of them holds the gap."""


SETTLED_AFTER = 2
"""Intervals that work off the gap and count for nothing."""
JUDGED = 3
"""Intervals after those that must all be bad before the change is taken back."""
SURPRISE = 2.0
"""How many times the expectation is a surprise; the model's own error is within 1.15."""
LOAD_CHANGED = 1.15
"""Load above this multiple of the load before explains a worse response time."""


def judge_change(change: ChangeSoFar) -> tuple[Verdict, str]:
    """Return the verdict and its reason, one sentence."""
    counted = change.since[SETTLED_AFTER:]
    good = [interval for interval in counted if not _is_bad(interval, change)]
    if good:
        return Verdict.KEEP, (
            f"The response time of {good[0].response_time:.3f} s is within the bound "
            "or the expectation, no worse than before, or explained by the load"
        )
    if len(counted) < JUDGED:
        return Verdict.WAIT, f"{len(counted)} of {JUDGED} intervals measured"
    last = counted[-1]
    return Verdict.ROLL_BACK, (
        f"The response time is {last.response_time:.3f} s after the change, "
        f"expected {change.expected:.3f} s, before "
        f"{change.before.response_time:.3f} s, at {last.rate:.1f} records/s, "
        f"before {change.before.rate:.1f} records/s"
    )


def _is_bad(interval: MeasuredInterval, change: ChangeSoFar) -> bool:
    """Whether nothing but the change itself explains the interval. NaN is never bad."""
    measured = interval.response_time
    if math.isnan(measured) or math.isnan(change.expected):
        return False
    return (
        measured > change.bound
        and measured > SURPRISE * change.expected
        and measured > change.before.response_time
        and interval.rate <= LOAD_CHANGED * change.before.rate
    )
