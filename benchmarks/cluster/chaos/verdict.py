"""What a run of faults shows: records, stuck apps, orphans, and how long recovery took. Pure."""

from __future__ import annotations

import re
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.figures import Figure, at_least, at_most, format_number
from benchmarks.flink.ledger import Arrival, Ledger, longest_gap
from benchmarks.raw_results import Result, Table


@dataclass(frozen=True, kw_only=True, slots=True)
class FaultOutcome:
    """What became of one fault; times are Unix seconds."""

    kind: str
    injected: float
    ended: float
    """When it was over: a kill at once, what lasts when it was taken back."""
    recovered: float | None
    """`None` where all was not well again in time."""
    missing: str
    """What was not, then."""
    load: float
    """Processes that wanted the machine's processors, mean over its last minute."""
    detail: str = ""
    """What was struck, of what was drawn."""
    took_without_weir: float | None = None
    """Seconds in which the job came back while there was no controller."""
    prevented: str = ""
    """What Weir should have done all the same, and did not; empty where it did."""
    restarts_by_input: int = 0
    """Restarts of the controller that nobody made but what it was given."""
    doubled: int = 0
    """Records that the transactional sink had committed more than once by then."""

    @property
    def lasted(self) -> float:
        """Seconds from its beginning until all was well, or until nobody waited any longer."""
        return (self.ended if self.recovered is None else self.recovered) - self.injected

    @property
    def took(self) -> float | None:
        """Seconds from the fault's end until all was well."""
        return None if self.recovered is None else self.recovered - self.ended


@dataclass(frozen=True, kw_only=True, slots=True)
class Committed:
    """What a transactional sink made visible."""

    records: int
    lost: int
    doubled: int


def read_committed(folder: Path, emitted: int) -> Committed:
    """Return what stands in the files that were committed.

    Files that begin with a dot are those in progress, which a reader passes over.

    Args:
        folder: Of the files.
        emitted: Records from 0 on that are known to have been emitted; there were as many more as
            the files show.
    """
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


def count_own_restarts(
    before: Mapping[str, int], after: Mapping[str, int], kills: Mapping[str, int]
) -> int:
    """Return how often controllers were restarted without anybody's doing.

    Args:
        before: Restarts by pod's uid.
        after: The same later; a pod that is new began with none.
        kills: How often each was killed.
    """
    return sum(
        max(0, count - before.get(uid, 0) - kills.get(uid, 0)) for uid, count in after.items()
    )


def longest_pauses(
    outcomes: Sequence[FaultOutcome], arrivals: Sequence[Arrival]
) -> dict[str, float]:
    """Return the longest time without output around faults of each kind, seconds."""
    pauses: dict[str, float] = {}
    for each in outcomes:
        until = each.ended if each.recovered is None else each.recovered
        pause = longest_gap(arrivals, each.injected, until)
        pauses[each.kind] = max(pause, pauses.get(each.kind, 0.0))
    return pauses


def figures_of(
    asked: int,
    outcomes: Sequence[FaultOutcome],
    ledger: Ledger | None,
    committed: Committed,
    orphans: Iterable[str],
    pauses: Mapping[str, float],
    *,
    jobs_at_once: int,
) -> list[Figure]:
    """Return the figures of a run for which so many faults were asked.

    Args:
        asked: Faults.
        outcomes: What became of each that was injected.
        ledger: The job's own count; `None` where it could not be stopped with a savepoint. Then
            nobody knows what is lost: records were on their way.
        committed: What the transactional sink made visible.
        orphans: Pods that nobody wanted.
        pauses: Longest time without output around faults of each kind, seconds.
        jobs_at_once: Most jobs that a JobManager had alive at once.
    """
    stuck = [each.kind for each in outcomes if each.recovered is None]
    restarts = sum(each.restarts_by_input for each in outcomes)
    prevented = sum(bool(each.prevented) for each in outcomes)
    loads = [each.load for each in outcomes]
    records = {
        "transactional sink: records lost": committed.lost if ledger else None,
        "transactional sink: records doubled": committed.doubled,
        "records lost in state": ledger.lost if ledger else None,
        "records doubled in state": ledger.doubled if ledger else None,
        "keyed counts wrong": ledger.sequence_errors if ledger else None,
    }
    return [
        at_least(figure="faults", value=len(outcomes), unit="", limit=asked),
        Figure(figure="records over them", value=committed.records, unit="records"),
        *(
            at_most(figure=name, value=value, unit="records", limit=0)
            for name, value in records.items()
        ),
        Figure(
            figure="plain sink: records that it saw again",
            value=ledger.replayed if ledger else None,
            unit="records",
        ),
        at_most(figure="stuck apps", value=len(stuck), unit="", limit=0),
        at_most(figure="orphaned pods", value=len(set(orphans)), unit="", limit=0),
        at_most(figure="controller restarted by an input", value=restarts, unit="times", limit=0),
        at_most(figure="changes that an input prevented", value=prevented, unit="", limit=0),
        at_most(figure="jobs alive at once, most", value=jobs_at_once, unit="", limit=1),
        Figure(figure="load average beside it, median", value=_median(loads), unit=""),
        Figure(figure="load average beside it, highest", value=max(loads, default=None), unit=""),
        *_without_weir(outcomes),
        *_recoveries(outcomes, pauses),
    ]


def _without_weir(outcomes: Sequence[FaultOutcome]) -> list[Figure]:
    kind = "job_manager_killed_without_weir"
    took = [each.took_without_weir for each in outcomes if each.kind == kind]
    if not took:
        return []
    known = [seconds for seconds in took if seconds is not None]
    return [
        at_most(
            figure="JobManager killed without Weir: job back after, longest",
            value=max(known) if len(known) == len(took) else None,
            unit="s",
            limit=60,
        )
    ]


def _median(values: Sequence[float]) -> float | None:
    return statistics.median(values) if values else None


def _recoveries(outcomes: Sequence[FaultOutcome], pauses: Mapping[str, float]) -> list[Figure]:
    figures = []
    for kind in sorted({each.kind for each in outcomes}):
        took = [each.took for each in outcomes if each.kind == kind and each.took is not None]
        words = kind.replace("_", " ")
        number = sum(each.kind == kind for each in outcomes)
        figures += [
            Figure(
                figure=f"{words}: time to recover, {name} of {number}",
                value=combine(took) if took else None,
                unit="s",
            )
            for name, combine in (("median", statistics.median), ("longest", max))
        ]
        figures.append(
            Figure(figure=f"{words}: longest pause of output", value=pauses[kind], unit="s")
        )
    return figures


DIGITS = 3
"""Of the numbers in a table: runs of one seed differ by more."""
_RECOVERY = re.compile(r"(.*): time to recover, longest of (\d+)")
_OF_KIND = re.compile(r": (time to recover|longest pause of output)")


def compare_seeds(results: Sequence[Result]) -> Table:
    """Return the figures of whole runs, a column for each seed."""
    names = dict.fromkeys(
        each.figure
        for result in results
        for each in result.figures
        if not _OF_KIND.search(each.figure)
    )
    goals = {each.figure: each.goal for result in results for each in result.figures}
    return Table(
        columns=("", *(_seed_of(result) for result in results), "goal"),
        cells=tuple(
            (
                name,
                *(format_number(_value(result, name), digits=DIGITS) for result in results),
                goals[name] or "",
            )
            for name in names
        ),
    )


def compare_recoveries(results: Sequence[Result]) -> Table:
    """Return the longest time to recover from each kind of fault, a column for each seed."""
    kinds: dict[str, dict[str, str]] = {}
    pauses: dict[str, float] = {}
    for result in results:
        for each in result.figures:
            if found := _RECOVERY.fullmatch(each.figure):
                kind, number = found.groups()
                took = f"{format_number(each.value, digits=DIGITS)} s of {number}"
                kinds.setdefault(kind, {})[_seed_of(result)] = took
                pause = _value(result, f"{kind}: longest pause of output")
                pauses[kind] = max(pauses.get(kind, 0.0), pause or 0.0)
    seeds = [_seed_of(result) for result in results]
    return Table(
        columns=("fault: recovered after, at most", *seeds, "longest pause of output"),
        cells=tuple(
            (kind, *(kinds[kind].get(seed, "not drawn") for seed in seeds), f"{pauses[kind]:.1f} s")
            for kind in sorted(kinds)
        ),
    )


def _seed_of(result: Result) -> str:
    return f"seed {result.benchmark.rpartition('-')[2]}"


def _value(result: Result, name: str) -> float | None:
    return next((each.value for each in result.figures if each.figure == name), None)
