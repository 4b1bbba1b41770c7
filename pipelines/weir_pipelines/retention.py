"""Which days' samples may go: those that are old, and of which everything is known that they tell.

Samples are by far the most of what is stored; what was worked out of them stays. A day is worked up
when every table that is made of samples has it, written since its samples were. It goes only with
its neighbours worked up too, because their last or first minute is completed by its samples.

The samples go first and their labels after them, each in one step: whoever dies between the two
leaves labels that nothing refers to, and the next time they go as well.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import date

from weir_pipelines.schemas import ARRIVALS, SAMPLES, SERIES, WORK
from weir_pipelines.store import Partition, Store

RESULTS = (ARRIVALS, WORK)
"""What is made of samples; every other table is made of these."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Pruned:
    """What became of days that are old enough to go."""

    removed: tuple[Partition, ...]
    kept: tuple[Partition, ...]
    """Not worked up yet, or the neighbours of such a day."""


def prune_samples(store: Store, *, before: date, apps: Collection[str] | None = None) -> Pruned:
    """Remove the samples of days that are worked up.

    Args:
        store: Where they are.
        before: The first day that is not old.
        apps: Whose samples may go; `None` or none is everybody's.

    Returns:
        What went, and what is old and had to stay.

    Raises:
        StoreError: The file system refuses.
    """
    there = {*store.partitions(SAMPLES), *store.partitions(SERIES)}
    waiting = {each for each in there if not _is_worked_up(store, each)}
    old = [each for each in sorted(there) if each.day < before and (not apps or each.app in apps)]
    kept = tuple(each for each in old if waiting.intersection((each, *each.neighbours)))
    removed = tuple(each for each in old if each not in kept)
    for each in removed:
        store.remove(SAMPLES, each)
        store.remove(SERIES, each)
    return Pruned(removed=removed, kept=kept)


def _is_worked_up(store: Store, partition: Partition) -> bool:
    results = [store.path(table, partition) for table in RESULTS]
    inputs = [store.path(table, partition) for table in (SERIES, SAMPLES)]
    if not all(path.exists() for path in results):
        return False
    written = max(path.stat().st_mtime_ns for path in inputs if path.exists())
    return all(path.stat().st_mtime_ns >= written for path in results)
