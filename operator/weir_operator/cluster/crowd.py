"""How many StreamApps one controller steers at once, and how much rarer each is looked at for it.

A look at a job (does its JobManager answer, do its pods live) costs the controller some
milliseconds, every five seconds for every job. Nothing is lost by looking less often: Kubernetes
replaces pods and Flink recovers jobs by themselves, and control intervals keep their own time. So
all jobs together are looked at so many times a second and no more.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

LOOKS_PER_SECOND = 16.0
"""At all jobs together: a thousand are looked at once a minute, eighty every five seconds."""


class Crowd:
    """Counts the StreamApps whose loops run."""

    def __init__(self) -> None:
        self._present = 0

    @contextmanager
    def joined(self) -> Iterator[None]:
        """Count one StreamApp more while the block runs."""
        self._present += 1
        try:
            yield
        finally:
            self._present -= 1

    def look_every(self, least: float) -> float:
        """Return seconds between two looks at one job.

        Args:
            least: Seconds where there are few.
        """
        return max(least, self._present / LOOKS_PER_SECOND)
