"""What a run of faults shows: records, stuck apps, orphans, and how long recovery took. Pure."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.figures import Figure, at_least, at_most, no_records
from benchmarks.flink.ledger import Ledger


@dataclass(frozen=True, kw_only=True, slots=True)
class FaultOutcome:
    """What became of one fault."""

    kind: str
    took: float | None
    """Seconds from its end until all was well: the end of a kill is at once, of what lasts when it
    was taken back. `None` where all was not well again in time."""
    load: float
    """Processes that wanted the machine's processors, mean over its last minute."""
    restarts: int = 0
    """Of controllers that the fault did not strike."""
    down: bool = False
    """The job was away for long, though the fault left it alone."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Committed:
    """What a transactional sink made visible."""

    records: int
    lost: int
    doubled: int


def read_committed(folder: Path, emitted: int) -> Committed:
    counts = Counter(
        int(line)
        for path in folder.iterdir()
        if path.is_file() and not path.name.startswith(".")
        for line in path.read_text().splitlines()
    )
    emitted = max((emitted - 1, *counts)) + 1
    return Committed(
        records=counts.total(),
        lost=sum(1 for number in range(emitted) if number not in counts),
        doubled=counts.total() - len(counts),
    )


def figures_of(
    asked: int,
    outcomes: Sequence[FaultOutcome],
    ledger: Ledger | None,
    committed: Committed,
    orphans: Iterable[str],
    *,
    jobs_at_once: int,
) -> list[Figure]:
    """Return the figures of a run for which so many faults were asked."""
    stuck = [each.kind for each in outcomes if each.took is None]
    loads = [each.load for each in outcomes]
    records = {
        "transactional sink: records lost": committed.lost if ledger else None,
        "transactional sink: records doubled": committed.doubled,
        "records lost in state": ledger.lost if ledger else None,
        "records doubled in state": ledger.doubled if ledger else None,
        "keyed counts wrong": ledger.sequence_errors if ledger else None,
    }
    return [
        at_least("faults", len(outcomes), asked),
        Figure("records over them", committed.records, "records"),
        *(no_records(name, value) for name, value in records.items()),
        Figure(
            "plain sink: records that it saw again", ledger.replayed if ledger else None, "records"
        ),
        at_most("stuck apps", len(stuck), 0),
        at_most(
            "faults that took down a job that they left alone",
            sum(each.down for each in outcomes),
            0,
        ),
        at_most(
            "controller restarted by a fault that left it alone",
            sum(each.restarts for each in outcomes),
            0,
            "times",
        ),
        at_most("orphaned pods", len(set(orphans)), 0),
        at_most("jobs alive at once, most", jobs_at_once, 1),
        Figure("load average beside it, median", statistics.median(loads) if loads else None),
        *_recoveries(outcomes),
    ]


def _recoveries(outcomes: Sequence[FaultOutcome]) -> list[Figure]:
    figures = []
    for kind in sorted({each.kind for each in outcomes}):
        took = [each.took for each in outcomes if each.kind == kind and each.took is not None]
        number = sum(each.kind == kind for each in outcomes)
        figures += [
            Figure(
                f"{kind.replace('_', ' ')}: time to recover, {name} of {number}",
                combine(took) if took else None,
                "s",
            )
            for name, combine in (("median", statistics.median), ("longest", max))
        ]
    return figures
