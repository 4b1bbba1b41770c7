"""When a change that came to nothing is tried again: after pauses that grow, each change by itself.

Changes are told apart by what they are to achieve, not by their ids. So a node that is drained
does not wait because an upgrade found no room a moment ago, and a second node not for the first.
"""

from __future__ import annotations

from dataclasses import dataclass

from weir_operator.clock import Clock
from weir_operator.rescale.journal import Kind, RescaleJournal, Step

Subject = tuple[Kind, tuple[str, ...], str, str]
"""What a change is to achieve: kind, replicas to replace, revision, target."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Pauses:
    """Seconds between two tries: twice as many each time, up to a bound."""

    first: float
    longest: float


PATIENT = Pauses(first=60.0, longest=960.0)
"""For what can wait: each try costs pods that come and go, and events."""
URGENT = Pauses(first=5.0, longest=60.0)
"""For replicas that are about to be lost: room may come free any moment, and a try waits for it a
minute by itself."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Failed:
    until: float
    """Unix time before which it is not tried again."""
    pause: float
    """Seconds that passed, or are to pass, since the last try."""


class Retries:
    """Remembers the changes of one StreamApp that came to nothing."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._failed: dict[Subject, _Failed] = {}

    def allows(self, journal: RescaleJournal) -> bool:
        """Return whether it is time to try this change."""
        failed = self._failed.get(_subject(journal))
        return failed is None or self._clock.now() >= failed.until

    def note(self, end: RescaleJournal, pauses: Pauses) -> None:
        """Take over how a change has ended; one that was made ends all waiting."""
        if end.step is Step.DONE:
            self._failed.clear()
            return
        now, subject = self._clock.now(), _subject(end)
        known = self._failed.get(subject)
        pause = pauses.first if known is None else min(pauses.longest, 2 * known.pause)
        # What was not tried for long is no longer asked for: its replicas are gone.
        fresh = {key: each for key, each in self._failed.items() if now - each.until < each.pause}
        self._failed = {**fresh, subject: _Failed(until=now + pause, pause=pause)}


def _subject(journal: RescaleJournal) -> Subject:
    revision = journal.revision.id if journal.revision is not None else ""
    return journal.kind, tuple(sorted(journal.replace)), revision, repr(journal.target)
