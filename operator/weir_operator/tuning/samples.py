"""Turns measurements and records of the loops into the samples that a job is fitted to.

Every tick with trusted metrics stores its interval. If an interval is unfit for some purpose,
because a change was in progress or its effects were not over, it is marked rather than left out:
its traffic was real.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path

from weir_operator.loop.record import (
    INTERVALS_KEPT,
    MAX_MEASURED,
    MOST_INTERVALS,
    RecordStore,
)
from weir_operator.rescale.journal import Kind, RescaleJournal, Step, gap_of
from weir_policies.policy import ChangeKind
from weir_simulator.fitting.samples import ChangeSample, Samples


def read_samples(path: Path, *, since: float) -> Samples:
    """Return what was recorded after a Unix time; may take long, so call it in a thread.

    Raises:
        PermanentError: The records cannot be read.
    """
    records = RecordStore(path)
    try:
        return Samples(
            intervals=records.intervals(since=since),
            changes=tuple(changes_of(records.changes(since=since))),
        )
    finally:
        records.close()


def most_intervals(samples: Samples, *, interval: float) -> int:
    """Return how many intervals of such a job, each of so many seconds, are ever read at once."""
    measured = sum(each.measured for each in samples.intervals)
    of_size = MAX_MEASURED * len(samples.intervals) / measured if measured else math.inf
    return int(min(MOST_INTERVALS, INTERVALS_KEPT / interval, of_size))


def changes_of(journals: Iterable[RescaleJournal]) -> Iterable[ChangeSample]:
    """Return the changes that came to their end as they were planned."""
    for journal in journals:
        if journal.step is not Step.DONE or journal.kind not in (Kind.RESCALE, Kind.RESIZE):
            continue
        end = max(journal.times.values())
        if journal.kind is Kind.RESIZE:
            yield ChangeSample(time=end, kind=ChangeKind.RESIZE, downtime=0.0)
            continue
        gap = gap_of(journal)
        yield ChangeSample(
            time=end,
            kind=ChangeKind.RESCALE,
            downtime=math.nan if gap is None else gap,
            provisioning=_provisioning(journal),
        )


def _provisioning(journal: RescaleJournal) -> float:
    """Return seconds until added replicas were there; NaN where none was added."""
    added = any(
        count > journal.source.get(name, {}).get(node_type, 0)
        for name, counts in journal.target.items()
        for node_type, count in counts.items()
    )
    began = journal.times.get(str(Step.START))
    there = journal.times.get(str(Step.STOP), journal.times.get(str(Step.CANCEL)))
    return there - began if added and began is not None and there is not None else math.nan
