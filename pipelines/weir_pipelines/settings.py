"""Where the jobs run, and their thresholds."""

from __future__ import annotations

EMBEDDED = "local[*,4]"
"""Spark's master where it runs inside the process that asks for it, on all cores. What a worker did
that died is tried four times in all, as on a cluster."""

MINUTE_MS = 60_000
DAY_MS = 86_400_000
DAY_MINUTES = DAY_MS // MINUTE_MS

WHOLE = 0.999
"""Completeness from which on a minute is complete; rounding makes it a little less than 1."""

MARGIN_MS = 600_000
"""Of the neighbouring days, read to know a day's first and last minute."""
GAP_AFTER = 1.5
"""Usual distances between two samples of a series from which on one is missing. A missing one makes
it 2."""
LATE_AFTER_MS = 60_000
"""From scrape to receipt, from which on a sample is late."""
CLOCK_TOLERANCE = 2.0
"""Seconds a minute by which a task's own clock may differ from that of its samples."""
BLOCKED_FROM = 0.1
"""Share of a minute from which on a source counts as back-pressured. Below it, what waits is less
than what the network's buffers hold anyway."""
