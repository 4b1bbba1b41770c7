"""How much a running job has read, which tells a restart that works from one that only runs.

All tasks of a job can run although nothing passes through it: a source that was restored without
splits waits, or ends at once. Flink counts records between vertices, and, in each function of a
source, records from outside. Verified on Flink 2.3.0 and 1.20.5.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from weir_operator.flink.answers import JobState
from weir_operator.flink.rest import FlinkRest

COUNTERS = ("numRecordsIn", "numRecordsOut")
"""Of the functions in a source. One of the old kind counts only what it gives out."""
PENDING = "pendingRecords"


@dataclass(frozen=True, kw_only=True, slots=True)
class Reading:
    """What a job has read since it was submitted."""

    records: float
    """Records that passed any of its tasks; NaN where Flink has not counted them yet."""
    pending: float
    """Records that wait outside; NaN where not every source says."""
    ended: bool
    """All subtasks of all sources have come to their own end."""


async def read_progress(rest: FlinkRest, job_id: str) -> Reading | None:
    """Return what the job has read, `None` where Flink does not know it.

    Records are those of all tasks: a source may be back-pressured from its first moment, while what
    the state held is being worked off.

    Raises:
        TemporaryError: Flink does not answer.
    """
    job = await rest.job(job_id)
    if job is None:
        return None
    records = [vertex.records for vertex in job.vertices]
    ended = bool(job.vertices) and all(source.has_ended for source in job.sources)
    if job.state.is_over:
        # A vertex that is a whole job exchanges nothing; the counts inside it are gone.
        known = job.state is JobState.FINISHED and bool(job.edges)
        return Reading(
            records=_total(records) if known else math.nan, pending=math.nan, ended=ended
        )
    pending = []
    for source in job.sources:
        sums = await rest.metric_sums(job_id, source.id, (*COUNTERS, PENDING))
        pending.append(_total(value for name, value in sums.items() if name.endswith(PENDING)))
        records.append(_total(value for name, value in sums.items() if name.endswith(COUNTERS)))
    return Reading(records=_total(records), pending=_total(pending), ended=ended)


def _total(values: Iterable[float]) -> float:
    """Return the sum; NaN of no values, or if some are unknown and the others sum to 0."""
    listed = list(values)
    known = [value for value in listed if not math.isnan(value)]
    total = sum(known)
    return total if total > 0 or (listed and len(known) == len(listed)) else math.nan
