"""The history of one job, from the tables to the simulator's fit; needs no Spark.

A day is used if the minutes of every relevant operator are covered, and otherwise left out
completely: half a day would teach that traffic ends at noon. Service times come from all days that
are used. A trace needs neighbouring days, so it is the last run of such days, however long an
earlier one was.

Tables know node pools; a fit knows node types, which are sizes of pools. If a pool has several
sizes, the tables do not say which one a replica had (a pod is resized while it runs, so its series
cannot show it). An operator that ran there, or on a pool that no longer exists, is left out of the
interval. Other things that history does not have stay unknown: response times of single operators,
and how long a change took.

The tables `profiles` and `regimes` give a policy the usual week with which it starts.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow.compute import ScalarAggregateOptions

from weir_pipelines.errors import InputError
from weir_pipelines.faults import IMPOSSIBLE, Fault
from weir_pipelines.ingest import begin_of
from weir_pipelines.schemas import ARRIVALS, PROFILES, QUALITY, REGIMES, WORK, ParquetTable
from weir_pipelines.settings import DAY_MINUTES, WHOLE
from weir_pipelines.store import Partition, Tables
from weir_policies.errors import ParameterError
from weir_policies.model.arrays import Floats
from weir_policies.model.estimation import ServiceMeasurement
from weir_policies.model.season import HOURS, Season
from weir_policies.policy import ChangeKind
from weir_simulator.fitting.history import History
from weir_simulator.fitting.samples import ChangeSample, IntervalSample, OperatorSample, Samples

MAX_AGE = timedelta(days=7)
"""How long ago the last day may be. The controller remembers eight days of its own, so what is kept
still meets them; what ended earlier is another job's, and nobody has looked at the nights since."""


def reject_stale(root: str, app: str, last: date, *, now: float | None) -> None:
    """Refuse what ended too long ago; nothing where no time is given.

    Args:
        root: Address of the tables, for the message.
        app: As the label `weir_app` has it.
        last: The last day of it.
        now: Unix time; `None` refuses nothing.

    Raises:
        InputError: It is older than `MAX_AGE`.
    """
    if now is not None and datetime.fromtimestamp(now, UTC).date() - last > MAX_AGE:
        raise InputError(
            f"{root}: expected a usable day of {app!r} within the last "
            f"{MAX_AGE.days} days, got {last} as the latest; find out why weir pipelines "
            "run adds none"
        )


INTERVAL = 300
"""Seconds; a minute of a slow operator has too few records for its service time."""
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
    tables: Tables,
    partitions: Sequence[Partition],
    node_types: Collection[str],
) -> tuple[Samples, tuple[str, ...]]:
    """Return what was measured of one application, intervals without any operator left out.

    Args:
        tables: Where they are.
        partitions: Its days.
        node_types: Names of the node types, `pool/size`.

    Returns:
        The samples, oldest first, and the pools that replicas ran on and that have several sizes,
        or none any more; in order.

    Raises:
        InputError: A table cannot be read.
    """
    types = _find_types(node_types)
    intervals: list[IntervalSample] = []
    changes: list[ChangeSample] = []
    pools: set[str] = set()
    unsettled = False
    for partition in sorted(partitions):
        arrivals = _read_day(tables, ARRIVALS, _ARRIVALS, partition)
        work = _read_day(tables, WORK, _WORK, partition)
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
                    time=begin + INTERVAL,
                    seconds=INTERVAL,
                    operators=operators[begin],
                    response_time=response_times.get(begin, math.nan),
                    disturbed=before or unsettled,
                )
            )
        changes += [
            ChangeSample(time=minute + 60.0, kind=ChangeKind.RESCALE)
            for minute in _sorted_values(_with_faults(arrivals, (Fault.RESTART,))["minute"])
        ]
    samples = Samples(intervals=tuple(intervals), changes=tuple(changes))
    return samples, tuple(sorted(pools - types.keys()))


def _find_types(names: Collection[str]) -> Mapping[str, str]:
    """Return the node type of each pool that has only one."""
    pools = [name.partition("/")[0] for name in names]
    return {pool: name for pool, name in zip(pools, names, strict=True) if pools.count(pool) == 1}


def _read_day(
    tables: Tables, table: ParquetTable, columns: Sequence[str], partition: Partition
) -> pa.Table:
    """Return some columns of a day's rows, and the Unix seconds `begin` of each one's interval.

    As columns: rows of Python take fifty times as much, half a gigabyte for a hundred operators.
    """
    rows = tables.read(table, partition, columns)
    begins = rows["minute"].to_numpy() // INTERVAL * INTERVAL
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


def _served(
    work: pa.Table, types: Mapping[str, str]
) -> Mapping[tuple[int, str], Sequence[_Served]]:
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
        node_type = types.get(pool)
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
    return [int(each) for each in np.unique(column.to_numpy())]


def _rows(table: pa.Table) -> Iterator[tuple[Any, ...]]:  # Any: columns have types of their own
    return zip(*(column.to_pylist() for column in table.columns), strict=True)


def _known(value: float | None) -> float:
    """Return a value of a table, NaN where it is not known."""
    return math.nan if value is None else value


Row = Mapping[str, Any]  # Any: a row of a table, its columns' types are declared there


def read_seasons(tables: Tables, app: str, *, now: float | None = None) -> dict[str, Season]:
    """Return what usually arrives at each operator as of the last day, by name.

    Where that day is surely on another level than the days before it, what is usual is taken to be
    on that level too: the planner is asked about the days to come.

    Args:
        tables: Where they are.
        app: As the label `weir_app` has it.
        now: Unix time to which the last day must be near (`MAX_AGE`); `None` takes any.

    Raises:
        InputError: A table is not as agreed, cannot be read, or holds what is no week; or the last
            day is too old.
    """
    days = tables.partitions(PROFILES, app)
    if not days:
        return {}
    last = max(days)
    reject_stale(tables.root, app, last.day, now=now)
    hours: dict[str, dict[int, Row]] = {}
    for row in tables.read(PROFILES, last).to_pylist():
        hours.setdefault(row["operator"], {})[row["hour"]] = row
    levels = {
        row["operator"]: row["factor"]
        for row in tables.read(REGIMES, last).to_pylist()
        if row["changed"]
    }
    seasons: dict[str, Season] = {}
    for name, rows in hours.items():
        try:
            seasons[name] = _season(rows).times(levels.get(name, 1.0))
        except ParameterError as error:
            raise InputError(
                f"{tables.root}: profiles and regimes of {name!r} on {last.day}: "
                f"{error}; process the day again"
            ) from error
    return seasons


def _season(rows: Mapping[int, Row]) -> Season:
    rates = [rows[hour]["usual"] if hour in rows else math.nan for hour in range(HOURS)]
    counts = sorted(row["days"] for row in rows.values())
    return Season(rates=tuple(rates), weeks=float(counts[len(counts) // 2]))


LAST_DAYS = 28
"""Days that are looked at, the last ones: four of each weekday. What was before is another job."""
MAX_SAMPLES = 100_000
"""Operators' intervals that are held at once, some 100 MB: with more than twelve operators, service
times come of fewer days. Rates are small and of all days."""
COVERED = 0.5
"""Completeness from which on a minute has a rate, as in `traces`."""
MIN_COVERED = 0.9
"""Share of a day's minutes that must have one."""


def read_history(
    address: str | Path,
    app: str,
    *,
    operators: Collection[str],
    node_types: Collection[str],
    now: float | None = None,
) -> History:
    """Return what is kept of an application.

    Args:
        address: Where the tables are.
        app: As the label `weir_app` has it.
        operators: Whose minutes must be covered for a day to be used.
        node_types: Names of the node types, `pool/size`.
        now: Unix time to which it must be near (`MAX_AGE`); `None` takes it however old it is.

    Raises:
        InputError: Nothing is kept of it, no day can be used, the last one is too old, or a table
            cannot be read.
    """
    tables = Tables(address)
    root = tables.root
    listed = list(tables.partitions(ARRIVALS, app))
    worked = tables.partitions(WORK, app)
    if not listed:
        raise InputError(
            f"{root}: expected arrivals of {app!r}, got none; run weir pipelines run for it, or "
            "name another folder or application"
        )
    rates: dict[date, Mapping[str, Floats]] = {}
    left_out: dict[date, str] = {}
    for partition in listed:
        if partition.day <= listed[-1].day - timedelta(days=LAST_DAYS):
            left_out[partition.day] = f"more than {LAST_DAYS} days ago"
            continue
        seen = _read_rates(tables, partition)
        reason = _find_fault(tables, partition, seen, operators, has_work=partition in worked)
        if reason:
            left_out[partition.day] = reason
        else:
            rates[partition.day] = seen
    if not rates:
        reasons = ", ".join(f"{day}: {reason}" for day, reason in sorted(left_out.items()))
        raise InputError(f"{root}: expected a usable day of {app!r}, got {reasons}")
    reject_stale(root, app, max(rates), now=now)
    used = sorted(rates)
    run = _last_run(used)
    max_sampled = max(MAX_SAMPLES * INTERVAL // (86_400 * max(len(operators), 1)), 1)
    sampled = used[-max_sampled:]
    samples, untold = read_fitting_samples(
        tables, [Partition(app, day) for day in sampled], node_types
    )
    pools = {name.partition("/")[0] for name in node_types}
    return History(
        samples=samples,
        unsized=tuple(pool for pool in untold if pool in pools),
        barred=tuple(pool for pool in untold if pool not in pools),
        begin=begin_of(run[0]),
        rates={name: np.concatenate([rates[day][name] for day in run]) for name in operators},
        seasons=read_seasons(tables, app, now=now),
        used=tuple(used),
        unsampled=tuple(used[: -len(sampled)]),
        left_out=left_out,
    )


def _read_rates(tables: Tables, partition: Partition) -> dict[str, Floats]:
    """Return the day's rates by operator, one per minute, NaN where they are not known."""
    columns = ["operator", "minute", "arrived", "completeness"]
    start = begin_of(partition.day)
    rows = tables.read(ARRIVALS, partition, columns)
    operators = rows["operator"].combine_chunks().dictionary_encode()
    minutes = ((rows["minute"].to_numpy() - start) / 60).astype(np.int64)
    known = rows["completeness"].to_numpy() >= COVERED
    arrived = np.where(known, rows["arrived"].to_numpy(), np.nan)  # null becomes NaN
    of_day = np.full((len(operators.dictionary), DAY_MINUTES), np.nan)
    of_day[operators.indices.to_numpy(), minutes] = arrived
    return dict(zip(operators.dictionary.to_pylist(), of_day, strict=True))


def _find_fault(
    tables: Tables,
    partition: Partition,
    rates: Mapping[str, Floats],
    operators: Collection[str],
    *,
    has_work: bool,
) -> str:
    """Return why a day cannot be used; empty where it can."""
    if not has_work:
        return "no service times, run the job service"
    impossible = _count_impossible(tables, partition)
    for name in sorted(operators):
        if name not in rates:
            return f"nothing of {name!r}"
        told = int(np.isfinite(rates[name]).sum()) - impossible.get(name, 0)
        if told < MIN_COVERED * DAY_MINUTES:
            return f"only {max(told, 0) / DAY_MINUTES:.0%} of the minutes of {name!r} are complete"
    return ""


def _count_impossible(tables: Tables, partition: Partition) -> dict[str, int]:
    """Return minutes of the day that cannot be, by operator."""
    counts: dict[str, int] = {}
    for row in tables.read(QUALITY, partition, ("operator", "problem", "minutes")).to_pylist():
        if row["problem"] in IMPOSSIBLE:
            counts[row["operator"]] = counts.get(row["operator"], 0) + row["minutes"]
    return counts


def _last_run(days: Sequence[date]) -> list[date]:
    """Return the days up to the last one that follow each other."""
    run = [days[-1]]
    for day in reversed(days[:-1]):
        if run[0] - day != timedelta(days=1):
            break
        run = [day, *run]
    return run
