"""Where the jobs run, and their thresholds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

EMBEDDED = "local[*,4]"
"""Spark's master where it runs inside the process that asks for it, on all cores. What a worker did
that died is tried four times in all, as on a cluster."""

MINUTE_MS = 60_000
DAY_MS = 86_400_000
DAY_MINUTES = DAY_MS // MINUTE_MS

WHOLE = 0.999
"""Completeness from which on a minute is complete; rounding makes it a little less than 1."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ArrivalSettings:
    """How counters become rates."""

    margin: float = 600.0
    """Seconds of the neighbouring days that are read to know a day's first and last minute."""
    gap_after: float = 1.5
    """Usual distances between two samples of a series from which on one is missing. A missing one
    makes it 2."""
    late_after: float = 60.0
    """Seconds from scrape to receipt from which on a sample is late."""
    clock_tolerance: float = 2.0
    """Seconds a minute by which a task's own clock may differ from that of its samples."""
    blocked_from: float = 0.1
    """Share of a minute from which on a source counts as back-pressured. Below it, what waits is
    less than what the network's buffers hold anyway."""
    entries: Mapping[str, str] = field(default_factory=dict)
    """Task that takes in an operator's records, by operator. Needed only where an operator consists
    of several tasks; otherwise its sources are taken, and where it has none, all its tasks."""
    exits: Mapping[str, str] = field(default_factory=dict)
    """Task whose records leave an operator, by operator; by default all its tasks."""
