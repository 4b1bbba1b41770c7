"""When a change that came to nothing is tried again: after pauses that grow, each change by itself.

Changes are told apart by what they are to achieve, not by their ids. So a node that is drained
does not wait because an upgrade found no room a moment ago, and a second node not for the first.

What failed is kept in the status: another life or another controller does not begin to count anew,
or a manifest whose deployment never comes to run would stop the job at each of its starts. Another
spec does: whoever mended it need not wait.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from weir_operator.clock import Clock
from weir_operator.rescale.journal import DeploymentMap, RescaleJournal, Step
from weir_operator.status import (
    LONGEST_PAUSE,
    FailedChange,
    FailedDeployment,
    StatusStore,
    lengthen,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Pauses:
    """Seconds between two tries: twice as many each time, up to a bound."""

    first: float
    longest: float
    """Where the job ran on. A try that stopped it is not repeated often, however it hurries."""


PATIENT = Pauses(first=60.0, longest=960.0)
"""For what can wait: each try costs pods that come and go, and events."""
URGENT = Pauses(first=5.0, longest=60.0)
"""For replicas that are about to be lost: room may come free any moment, and a try waits for it a
minute by itself."""


class Retries:
    """Remembers the changes of one StreamApp that came to nothing."""

    def __init__(self, store: StatusStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def note_spec(self, edition: str) -> None:
        """Forget what failed under another spec.

        Raises:
            TemporaryError: The status could not be written.
        """
        status = self._store.load()
        nothing_failed_yet = not (status.edition or status.failed or status.failed_changes)
        if not edition or status.edition == edition or nothing_failed_yet:
            return
        changes: dict[str, object] = {"edition": edition}
        if status.edition:
            changes |= {"failed": (), "failed_changes": ()}
        await self._store.save(status.model_copy(update=changes))

    def allows(self, journal: RescaleJournal) -> bool:
        """Return whether it is time to try this change."""
        status, now, subject = self._store.load(), self._clock.now(), _subject(journal)
        if find_failed(status.failed, journal.source, journal.target, now) is not None:
            return False
        return not any(
            each.subject == subject and each.holds(now) for each in status.failed_changes
        )

    async def note(self, journal: RescaleJournal, end: RescaleJournal, pauses: Pauses) -> None:
        """Take over how a change has ended; one that was made ends all waiting.

        Args:
            journal: The change as it was begun.
            end: The same at its end.
            pauses: How long it waits for another try.

        Raises:
            TemporaryError: The status could not be written.
        """
        status, now, subject = self._store.load(), self._clock.now(), _subject(journal)
        known = status.failed_changes
        if end.step is Step.DONE:
            kept: tuple[FailedChange, ...] = ()
        elif end.withdrawn:
            kept = known
        else:
            before = next((each for each in known if each.subject == subject), None)
            longest = pauses.longest if end.step is Step.ABANDONED else LONGEST_PAUSE
            lasts = lengthen(before, pauses.first, longest, now)
            failed = FailedChange(
                subject=subject, until=now + lasts, lasts=lasts, reason=end.failure or end.reason
            )
            kept = (*[each for each in known if each is not before][-9:], failed)
        if kept != known:
            await self._store.save(status.model_copy(update={"failed_changes": kept}))


def find_failed(
    failed: tuple[FailedDeployment, ...],
    current: DeploymentMap,
    target: DeploymentMap,
    now: float,
) -> FailedDeployment | None:
    """Return what is known of a target that failed and is not to be tried again yet.

    Args:
        failed: What is known of all.
        current: What runs; to go there is to stay.
        target: Where to go.
        now: Unix time.
    """
    if target == current:
        return None
    return next((each for each in failed if each.deployment == target and each.holds(now)), None)


def _subject(journal: RescaleJournal) -> str:
    """Return what a change is to achieve: kind, replicas to replace, revision, target."""
    revision = journal.revision.id if journal.revision is not None else ""
    target = sorted((name, sorted(counts.items())) for name, counts in journal.target.items())
    what = (str(journal.kind), sorted(journal.replace), revision, target)
    return hashlib.sha256(repr(what).encode()).hexdigest()[:16]
