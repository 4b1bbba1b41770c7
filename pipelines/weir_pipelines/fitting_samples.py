"""From the tables to the samples that a simulator is fitted to; needs no Spark.

Tables know node pools, a fit knows node types, which are sizes of pools. So a pool must have one
size in what is fitted. What history cannot tell stays unknown: response times of single operators,
and how long a change took.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from weir_pipelines.errors import InputError
from weir_pipelines.faults import Fault
from weir_pipelines.schemas import ARRIVALS, WORK, Table
from weir_pipelines.settings import WHOLE
from weir_pipelines.store import Partition, Tables, read_columns
from weir_policies.model.estimation import ServiceMeasurement
from weir_policies.promise import ChangeKind
from weir_simulator.fitting.samples import ChangeSample, IntervalSample, OperatorSample, Samples

INTERVAL = 300
"""Seconds; a minute of a slow operator has too few records to tell its service time."""
_UNSETTLED = {Fault.RESTART, Fault.BACKLOG, Fault.BLOCKED, Fault.CLOCK, Fault.RESET}
"""Faults of which an interval and the one after it bear the traces."""

Row = Mapping[str, Any]  # Any: a row of a table, its columns' types are declared there


def read_fitting_samples(
    store: Tables,
    partitions: Sequence[Partition],
    node_types: Collection[str],
    *,
    interval: int = INTERVAL,
) -> Samples:
    """Return what was measured of one application, oldest first.

    Args:
        store: Where the tables are.
        partitions: Its days.
        node_types: Names of the node types, `pool/size`.
        interval: Seconds of one sample, a multiple of 60 of which a day has a whole number.

    Raises:
        InputError: A pool has no size among the node types, or several; or a table cannot be read.
    """
    types = _Types(node_types)
    intervals: list[IntervalSample] = []
    changes: list[ChangeSample] = []
    unsettled = False
    for partition in sorted(partitions):  # day by day, because rows take a hundred times as much
        arrivals = _by_interval(store, ARRIVALS, partition, interval)
        work = _by_interval(store, WORK, partition, interval)
        for begin in sorted(arrivals):
            faults = {fault for row in arrivals[begin] for fault in row["faults"]}
            before, unsettled = unsettled, bool(faults & _UNSETTLED)
            intervals.append(
                IntervalSample(
                    time=begin + interval,
                    seconds=interval,
                    operators=_operators(arrivals[begin], work.get(begin, []), types),
                    response_time=_response_time(work.get(begin, [])),
                    disturbed=before or unsettled,
                )
            )
            changes += [
                ChangeSample(time=minute + 60.0, kind=ChangeKind.RESCALE)
                for minute in sorted(
                    {row["minute"] for row in arrivals[begin] if Fault.RESTART in row["faults"]}
                )
            ]
    return Samples(intervals=tuple(intervals), changes=tuple(changes))


class _Types:
    """Node types by pool."""

    def __init__(self, names: Collection[str]) -> None:
        self._sizes: dict[str, list[str]] = defaultdict(list)
        for name in sorted(names):
            self._sizes[name.partition("/")[0]].append(name)

    def of(self, pool: str) -> str:
        found = self._sizes.get(pool, [])
        if len(found) != 1:
            raise InputError(
                f"Expected one size of pool {pool!r} among the node types, got "
                f"{', '.join(found) or 'none'}; history tells pools apart, not sizes"
            )
        return found[0]


def _by_interval(
    store: Tables, table: Table, partition: Partition, interval: int
) -> dict[int, list[Row]]:
    found: dict[int, list[Row]] = defaultdict(list)
    for file in store.paths(table, [partition]):
        for row in read_columns(file, table.names).to_pylist():
            found[row["minute"] // interval * interval].append(row)
    return found


def _operators(
    arrivals: Iterable[Row], work: Iterable[Row], types: _Types
) -> dict[str, OperatorSample]:
    minutes: dict[str, list[Row]] = defaultdict(list)
    for row in arrivals:
        if row["completeness"] >= WHOLE:
            minutes[row["operator"]].append(row)
    served: dict[str, dict[str, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for row in work:
        served[row["operator"]][types.of(row["pool"])].append(row)
    return {
        name: OperatorSample(
            # The most that ran in a minute; an interval with a change is disturbed anyway.
            deployment={
                each: round(max(row["replicas"] for row in listed))
                for each, listed in served[name].items()
            },
            arrived=_mean(row["arrived"] for row in rows),
            taken=_mean(row["taken"] for row in rows),
            given=_mean(row["given"] for row in rows),
            services=tuple(_service(each, listed) for each, listed in served[name].items()),
            utilisation=tuple(
                _mean(row["utilisation"] for row in listed) for listed in served[name].values()
            ),
        )
        for name, rows in minutes.items()
        if served[name]
    }


def _service(node_type: str, rows: Sequence[Row]) -> ServiceMeasurement:
    records = sum(row["records"] for row in rows)
    mean = sum(row["seconds"] for row in rows) / records
    squares = [row["squares"] for row in rows]
    variance = math.nan
    if None not in squares:
        # Rounding can leave a constant time with a variance just below zero.
        variance = max(sum(squares) / records - mean * mean, 0.0)
    return ServiceMeasurement(node_type=node_type, records=records, mean=mean, variance=variance)


def _response_time(work: Iterable[Row]) -> float:
    """Return the mean latency of the records that came to a sink; NaN where none was noted."""
    noted = [row for row in work if row["sink_records"]]
    records = sum(row["sink_records"] for row in noted)
    return sum(row["sink_seconds"] for row in noted) / records if records else math.nan


def _mean(values: Iterable[float | None]) -> float:
    """Return the mean of what is known, NaN where nothing is."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else math.nan
