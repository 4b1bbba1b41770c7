"""Whether records pass a job that was just restarted. Pure.

A job without input is legal and must not fail, so standing still is a failure only where records
wait. Where no source says whether any do, as before Kafka's first record, a job that stands still
counts as idle after a while.
"""

from __future__ import annotations

import math
from enum import StrEnum

from weir_operator.flink.reading import Reading
from weir_operator.rescale.settings import RescaleSettings


class Flow(StrEnum):
    """What a restarted job does."""

    FLOWS = "flows"
    IDLE = "idle"
    ENDED = "ended"


def judge_flow(reading: Reading, waited: float, settings: RescaleSettings) -> Flow | None:
    """Return what the job does, `None` while that is open.

    Args:
        reading: Since it was submitted.
        waited: Seconds since all of its tasks run.
        settings: How long it may take.
    """
    if reading.records > 0:
        return Flow.FLOWS
    # Sources that ended without a record end the job, which is accepted as its end.
    if reading.ended or math.isnan(reading.records) or reading.pending > 0:
        return None
    return Flow.IDLE if reading.pending == 0 or waited >= settings.idle_after else None


def explain_standstill(reading: Reading, waited: float) -> str | None:
    """Return what is wrong with a job after so many seconds, a sentence; `None` if nothing is."""
    if reading.ended or reading.records > 0 or math.isnan(reading.records):
        return None  # a job whose sources have ended is at its end, and may have emitted
    if reading.pending > 0:
        return f"{reading.pending:.0f} records wait, and none was read within {waited:g} s"
    return None
