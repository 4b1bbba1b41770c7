"""Whether records pass a job that was just restarted. Pure.

All tasks of a job can run although nothing passes through it: a source that was restored without
splits waits, or ends at once, and one that cannot reach its brokers waits too.

A job without input is legal and must not fail, so standing still is a failure only where records
wait. Where no source says whether any do, as before Kafka's first record, it depends on what
happened shortly before the restart: if records passed then, they are waited for, and a job in which
none passes is reported; if none did, the job counts as idle after a while.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum

IDLE_AFTER = 5.0
"""Seconds without a record after which a job counts as idle, where its sources do not say whether
anything waits for them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Reading:
    """What a job has read since it was submitted."""

    records: float
    """Records that passed any of its tasks; NaN where Flink has not counted them yet."""
    pending: float
    """Records that wait outside; NaN where not every source says."""
    ended: bool
    """All subtasks of all sources have come to their own end."""

    def since(self, earlier: Reading) -> Reading:
        """Return what was read after `earlier`, an earlier reading of the same job.

        A job that Flink restarts counts from 0 again, so a lower count is one since the restart.
        """
        if self.records >= earlier.records:
            return replace(self, records=self.records - earlier.records)
        return self


class Flow(StrEnum):
    """What a restarted job does."""

    FLOWS = "flows"
    IDLE = "idle"
    ENDED = "ended"


def judge_flow(reading: Reading, waited: float, *, flowed: bool) -> Flow | None:
    """Return what the job does, `None` while that is open.

    Args:
        reading: Since it was restarted.
        waited: Seconds since all of its tasks run.
        flowed: Whether records passed shortly before the restart.
    """
    if reading.records > 0:
        return Flow.FLOWS
    # Sources that ended without a record end the job, which is accepted as its end.
    if reading.ended or math.isnan(reading.records) or reading.pending > 0:
        return None
    if reading.pending == 0:
        return Flow.IDLE
    return Flow.IDLE if not flowed and waited >= IDLE_AFTER else None


def explain_standstill(reading: Reading, waited: float) -> str | None:
    """Return what is wrong with a job after so many seconds, a sentence; `None` if nothing is."""
    if reading.ended or reading.records > 0 or math.isnan(reading.records):
        return None  # a job whose sources have ended is at its end, and may have emitted
    if reading.pending > 0:
        return f"{reading.pending:.0f} records wait, and none was read within {waited:g} s"
    return None


def is_silent(reading: Reading) -> bool:
    """Return whether no record was read, and no source says whether any waits."""
    return reading.records == 0 and math.isnan(reading.pending) and not reading.ended
