"""Spoils exported samples in known ways, to see whether each is found.

A fault befalls one minute of a history that is otherwise as it was exported. Each spoilt history is
an application of its own, so that all of them are rebuilt together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from weir_pipelines import metrics
from weir_pipelines.faults import Fault

Label = Mapping[str, str | int]
"""A row of the table `series`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Sample:
    """A row of the table `samples`, and what its series is."""

    series: int
    time_ms: int
    value: float
    received_ms: int | None
    metric: str
    operator: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Injected:
    """A fault that befalls a minute."""

    fault: Fault
    operator: str
    """Where it must be flagged."""
    spoil: Callable[[Sample], Iterator[Sample]]
    runs: bool = False
    """Whether the samples from the fault on are those of another run."""


def injections(begin: float, source: str, inside: str) -> Mapping[str, Injected]:
    """Return the faults by name; samples must come to them in order of time."""
    at = round(1000 * (begin + 20))

    bases: dict[int, float] = {}

    def from_zero(sample: Sample) -> Iterator[Sample]:
        if sample.metric not in metrics.COUNTERS or sample.time_ms < at:
            yield sample
        else:
            base = bases.setdefault(sample.series, sample.value)
            yield replace(sample, value=sample.value - base)

    def as_new_run(sample: Sample) -> Iterator[Sample]:
        yield sample

    def missing(sample: Sample) -> Iterator[Sample]:
        if not at <= sample.time_ms < at + 20_000:
            yield sample

    def twice(sample: Sample) -> Iterator[Sample]:
        yield sample
        if at <= sample.time_ms < at + 20_000:
            yield sample

    def late(sample: Sample) -> Iterator[Sample]:
        delay = 300_000 if at <= sample.time_ms < at + 20_000 else 50
        yield replace(sample, received_ms=sample.time_ms + delay)

    def clock(seconds: int) -> Callable[[Sample], Iterator[Sample]]:
        def spoil(sample: Sample) -> Iterator[Sample]:
            moved = sample.time_ms + 1000 * seconds
            if sample.time_ms < at:
                yield sample
            elif seconds > 0 or moved >= at:  # a server refuses what is older than what it has
                yield replace(sample, time_ms=moved)

        return spoil

    def blocked(*, with_backlog: bool) -> Callable[[Sample], Iterator[Sample]]:
        def spoil(sample: Sample) -> Iterator[Sample]:
            stuck = max(0, min(sample.time_ms - at, 40_000)) / 2
            if sample.operator == source and sample.metric == metrics.BLOCKED:
                yield replace(sample, value=sample.value + stuck)
            elif sample.operator == source and sample.metric == metrics.IDLE:
                yield replace(sample, value=sample.value - stuck)
            elif with_backlog or sample.metric != metrics.PENDING:
                yield sample

        return spoil

    return {
        "reset": Injected(fault=Fault.RESET, operator=inside, spoil=from_zero),
        "restart": Injected(fault=Fault.RESTART, operator=inside, spoil=as_new_run, runs=True),
        "gap": Injected(fault=Fault.GAP, operator=inside, spoil=missing),
        "duplicate": Injected(fault=Fault.DUPLICATE, operator=inside, spoil=twice),
        "late": Injected(fault=Fault.LATE, operator=inside, spoil=late),
        "clock set forward": Injected(fault=Fault.CLOCK, operator=inside, spoil=clock(30)),
        "clock set back": Injected(fault=Fault.CLOCK, operator=inside, spoil=clock(-10)),
        "back-pressure, backlog known": Injected(
            fault=Fault.BACKLOG, operator=source, spoil=blocked(with_backlog=True)
        ),
        "back-pressure, backlog unknown": Injected(
            fault=Fault.BLOCKED, operator=inside, spoil=blocked(with_backlog=False)
        ),
    }


def spoil(
    samples: list[Sample], labels: list[Label], injected: Injected, *, begin: float, number: int
) -> tuple[list[tuple[int, int, float, int | None]], list[Label]]:
    """Return the rows of a spoilt history whose application is named by a number.

    Series get numbers of their own, as do those of the run that a restart begins.
    """
    at = round(1000 * (begin + 20))
    numbers = {label["series"]: 10_000 * number + n for n, label in enumerate(labels)}
    rows = []
    for sample in samples:
        for each in injected.spoil(sample):
            again = injected.runs and each.time_ms >= at
            series = numbers[each.series] + (5_000 if again else 0)
            rows.append((series, each.time_ms, each.value, each.received_ms))
    own: list[Label] = [
        {**label, "series": numbers[label["series"]], "app": f"{number}"} for label in labels
    ]
    if injected.runs:
        own += [{**each, "series": int(each["series"]) + 5_000, "job_id": "next"} for each in own]
    return rows, own
