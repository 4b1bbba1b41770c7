"""What the tables hold of one job, as the simulator is fitted to it; needs no Spark.

A day is used where the minutes of every operator that matters are covered, and is left out whole
where they are not: half a day teaches that traffic ends at noon. Service times come of all days
that are used. A trace must have neighbours, so it is made of the last run of such days: what was
before a hole is further from the days to come, however long it lasted.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import date, timedelta
from pathlib import Path

import numpy as np

from weir_pipelines.age import refuse_old
from weir_pipelines.errors import InputError
from weir_pipelines.faults import IMPOSSIBLE
from weir_pipelines.fitting_samples import INTERVAL, read_fitting_samples
from weir_pipelines.intake import begin_of
from weir_pipelines.schemas import ARRIVALS, QUALITY, WORK
from weir_pipelines.seasons import read_seasons
from weir_pipelines.settings import DAY_MINUTES
from weir_pipelines.store import Partition, Tables, read_columns
from weir_policies.model.arrays import Floats
from weir_simulator.fitting.history import History

LAST_DAYS = 28
"""Days that are looked at, the last ones: four of each weekday. What was before is another job."""
MOST_SAMPLES = 100_000
"""Operators' intervals that are held at once, some 100 MB: with more than twelve operators, service
times come of fewer days. Rates are small and of all days."""
COVERED = 0.5
"""Completeness from which on a minute tells its rate, as in `traces`."""
LEAST_COVERED = 0.9
"""Share of a day's minutes that must tell theirs."""


def read_history(
    root: Path,
    app: str,
    *,
    operators: Collection[str],
    node_types: Collection[str],
    now: float | None = None,
) -> History:
    """Return what is kept of an application.

    Args:
        root: Folder of the tables.
        app: As the label `weir_app` has it.
        operators: Whose minutes must be covered for a day to be used.
        node_types: Names of the node types, `pool/size`.
        now: Unix time to which it must be near (`MOST_AGE`); `None` takes it however old it is.

    Raises:
        InputError: Nothing is kept of it, no day can be used, the last one is too old, or a table
            cannot be read.
    """
    tables = Tables(root)
    listed = tables.partitions(ARRIVALS, app)
    worked = set(tables.partitions(WORK, app))
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
        raise InputError(f"{root}: expected a day of {app!r} that can be used, got {reasons}")
    refuse_old(root, app, max(rates), now=now)
    used = sorted(rates)
    run = _last_run(used)
    most_sampled = max(MOST_SAMPLES * INTERVAL // (86_400 * max(len(operators), 1)), 1)
    sampled = used[-most_sampled:]
    measured = read_fitting_samples(tables, [Partition(app, day) for day in sampled], node_types)
    pools = {name.partition("/")[0] for name in node_types}
    return History(
        samples=measured.samples,
        unsized=tuple(pool for pool in measured.untold if pool in pools),
        barred=tuple(pool for pool in measured.untold if pool not in pools),
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
    rates: dict[str, Floats] = {}
    for file in tables.paths(ARRIVALS, [partition]):
        rows = read_columns(file, columns)
        operators = rows["operator"].combine_chunks().dictionary_encode()
        minutes = ((rows["minute"].to_numpy() - start) / 60).astype(np.int64)
        known = rows["completeness"].to_numpy() >= COVERED
        arrived = np.where(known, rows["arrived"].to_numpy(), np.nan)  # null becomes NaN
        of_day = np.full((len(operators.dictionary), DAY_MINUTES), np.nan)
        of_day[operators.indices.to_numpy(), minutes] = arrived
        rates.update(zip(operators.dictionary.to_pylist(), of_day, strict=True))
    return rates


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
        if told < LEAST_COVERED * DAY_MINUTES:
            return f"only {max(told, 0) / DAY_MINUTES:.0%} of the minutes of {name!r} are sound"
    return ""


def _count_impossible(tables: Tables, partition: Partition) -> dict[str, int]:
    """Return minutes of the day that cannot be, by operator."""
    counts: dict[str, int] = {}
    for file in tables.paths(QUALITY, [partition]):
        for row in read_columns(file, ("operator", "problem", "minutes")).to_pylist():
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
