"""From the tables to the samples that a simulator is fitted to; needs no Spark.

Tables know node pools, a fit knows node types, which are sizes of pools. Where a pool has several,
nobody noted of which one a replica was (a pod is resized while it runs, so its series cannot say).
An operator that ran there, or on a pool that is gone, is left out of the interval. What else
history cannot tell stays unknown: response times of single operators, and how long a change took.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow.compute import ScalarAggregateOptions

from weir_pipelines.faults import Fault
from weir_pipelines.schemas import ARRIVALS, WORK, Table
from weir_pipelines.settings import WHOLE
from weir_pipelines.store import Partition, Tables, arrow_schema, read_columns
from weir_policies.model.estimation import ServiceMeasurement
from weir_policies.promise import ChangeKind
from weir_simulator.fitting.samples import ChangeSample, IntervalSample, OperatorSample, Samples

INTERVAL = 300
"""Seconds; a minute of a slow operator has too few records to tell its service time."""
_UNSETTLED = (Fault.RESTART, Fault.BACKLOG, Fault.BLOCKED, Fault.CLOCK, Fault.RESET)
"""Faults of which an interval and the one after it bear the traces."""
_ARRIVALS = ("operator", "minute", "arrived", "taken", "given", "completeness", "faults")
_WORK = (
    *("operator", "pool", "minute", "replicas", "records", "seconds", "squares", "utilisation"),
    *("sink_records", "sink_seconds"),
)
_ALL_KNOWN = ScalarAggregateOptions(skip_nulls=False)
"""Of an aggregate that is null where one of its values is."""


def read_fitting_samples(
    store: Tables,
    partitions: Sequence[Partition],
    node_types: Collection[str],
    *,
    interval: int = INTERVAL,
) -> FittingSamples:
    """Return what was measured of one application, intervals without any operator left out.

    Args:
        store: Where the tables are.
        partitions: Its days.
        node_types: Names of the node types, `pool/size`.
        interval: Seconds of one sample, a multiple of 60 of which a day has a whole number.

    Raises:
        InputError: A table cannot be read.
    """
    types = _Types(node_types)
    intervals: list[IntervalSample] = []
    changes: list[ChangeSample] = []
    pools: set[str] = set()
    unsettled = False
    for partition in sorted(partitions):
        arrivals = _read_day(store, ARRIVALS, _ARRIVALS, partition, interval)
        work = _read_day(store, WORK, _WORK, partition, interval)
        pools.update(work["pool"].unique().to_pylist())
        operators = _operators(arrivals, _served(work, types))
        response_times = _response_times(work)
        restless = set(_sorted_values(_with_faults(arrivals, _UNSETTLED)["begin"]))
        for begin in _sorted_values(arrivals["begin"]):
            before, unsettled = unsettled, begin in restless
            if begin not in operators:
                continue
            intervals.append(
                IntervalSample(
                    time=begin + interval,
                    seconds=interval,
                    operators=operators[begin],
                    response_time=response_times.get(begin, math.nan),
                    disturbed=before or unsettled,
                )
            )
        changes += [
            ChangeSample(time=minute + 60.0, kind=ChangeKind.RESCALE)
            for minute in _sorted_values(_with_faults(arrivals, (Fault.RESTART,))["minute"])
        ]
    return FittingSamples(
        samples=Samples(intervals=tuple(intervals), changes=tuple(changes)),
        untold=tuple(sorted(pool for pool in pools if types.of(pool) is None)),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class FittingSamples:
    """What was measured, and where it cannot be told of what."""

    samples: Samples
    """Oldest first."""
    untold: tuple[str, ...]
    """Pools that replicas ran on and that have several sizes, or none any more; in order."""


class _Types:
    """Node types by pool."""

    def __init__(self, names: Collection[str]) -> None:
        self._sizes: dict[str, list[str]] = defaultdict(list)
        for name in sorted(names):
            self._sizes[name.partition("/")[0]].append(name)

    def of(self, pool: str) -> str | None:
        """Return the node type of what ran on a pool; `None` where it is not the only one there."""
        sizes = self._sizes.get(pool, [])
        return sizes[0] if len(sizes) == 1 else None


def _read_day(
    store: Tables, table: Table, columns: Sequence[str], partition: Partition, interval: int
) -> pa.Table:
    """Return some columns of a day's rows, and the Unix seconds `begin` of each one's interval.

    As columns: rows of Python take fifty times as much, half a gigabyte for a hundred operators.

    Raises:
        InputError: The file cannot be read, or holds what cannot be.
    """
    rows = pa.schema([arrow_schema(table).field(name) for name in columns]).empty_table()
    for file in store.paths(table, [partition]):  # one, or none
        rows = read_columns(file, columns)
    begins = rows["minute"].to_numpy() // interval * interval
    return rows.append_column("begin", pa.array(begins))


def _with_faults(arrivals: pa.Table, faults: Sequence[Fault]) -> pa.Table:
    """Return `begin` and `minute` of the rows with some of the faults, a row for each of them."""
    listed = arrivals["faults"].combine_chunks()
    found = np.isin(listed.flatten().to_numpy(zero_copy_only=False), [str(each) for each in faults])
    rows = listed.value_parent_indices().filter(pa.array(found))
    return arrivals.select(["begin", "minute"]).take(rows)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Served:
    """What an operator's replicas on one node type did in an interval."""

    replicas: int
    """The most that ran in a minute."""
    service: ServiceMeasurement
    utilisation: float
    """Mean of its minutes, 0 to 1; NaN where it is not known."""


def _served(work: pa.Table, types: _Types) -> Mapping[tuple[int, str], Sequence[_Served]]:
    """Return what was served on each node type, by the interval's begin and the operator.

    An operator that ran on a pool of several sizes, or of none, is not there: its deployment is not
    known.
    """
    found: dict[tuple[int, str], list[_Served]] = defaultdict(list)
    untold: set[tuple[int, str]] = set()
    summed = _group(work, ("begin", "operator", "pool")).aggregate(
        [
            # The most that ran in a minute; an interval with a change is disturbed anyway.
            ("replicas", "max"),
            ("records", "sum"),
            ("seconds", "sum"),
            ("squares", "sum", _ALL_KNOWN),
            ("utilisation", "mean"),
        ]
    )
    for begin, operator, pool, replicas, records, seconds, squares, utilisation in _rows(summed):
        node_type = types.of(pool)
        if node_type is None:
            untold.add((begin, operator))
            continue
        mean = seconds / records
        # Rounding can leave a constant time with a variance just below zero.
        variance = math.nan if squares is None else max(squares / records - mean * mean, 0.0)
        service = ServiceMeasurement(
            node_type=node_type, records=records, mean=mean, variance=variance
        )
        found[begin, operator].append(
            _Served(replicas=round(replicas), service=service, utilisation=_known(utilisation))
        )
    return {key: served for key, served in found.items() if key not in untold}


def _operators(
    arrivals: pa.Table, served: Mapping[tuple[int, str], Sequence[_Served]]
) -> Mapping[int, dict[str, OperatorSample]]:
    """Return the operators that were measured, by the begin of the interval and by name."""
    found: dict[int, dict[str, OperatorSample]] = defaultdict(dict)
    whole = arrivals.filter(pa.array(arrivals["completeness"].to_numpy() >= WHOLE))
    means = _group(whole, ("begin", "operator")).aggregate(
        [("arrived", "mean"), ("taken", "mean"), ("given", "mean")]
    )
    for begin, operator, arrived, taken, given in _rows(means):
        on_types = served.get((begin, operator), ())
        if on_types:
            found[begin][operator] = OperatorSample(
                deployment={each.service.node_type: each.replicas for each in on_types},
                arrived=_known(arrived),
                taken=_known(taken),
                given=_known(given),
                services=tuple(each.service for each in on_types),
                utilisation=tuple(each.utilisation for each in on_types),
            )
    return found


def _response_times(work: pa.Table) -> dict[int, float]:
    """Return the mean latency, s, of the records that came to a sink, by the interval's begin."""
    # Null becomes NaN. Either can be there without the other: they are series of their own.
    known = (work["sink_records"].to_numpy() > 0) & ~np.isnan(work["sink_seconds"].to_numpy())
    noted = work.filter(pa.array(known))
    summed = _group(noted, ("begin",)).aggregate([("sink_records", "sum"), ("sink_seconds", "sum")])
    return {begin: seconds / records for begin, records, seconds in _rows(summed)}


def _group(rows: pa.Table, keys: Sequence[str]) -> pa.TableGroupBy:
    # In one thread, or sums of equal rows would differ in their last digits from read to read.
    return rows.group_by(list(keys), use_threads=False)


def _sorted_values(column: pa.ChunkedArray) -> list[int]:
    """Return each value once, in order."""
    return [int(each) for each in np.unique(column.to_numpy())]


def _rows(table: pa.Table) -> Iterator[tuple[Any, ...]]:  # Any: columns have types of their own
    return zip(*(column.to_pylist() for column in table.columns), strict=True)


def _known(value: float | None) -> float:
    """Return a value of a table, NaN where it is not known."""
    return math.nan if value is None else value
