"""Turns the table `arrivals` into a trace that the simulator replays; needs no Spark.

A trace has a rate for every slot. Where history has none, or too little, a straight line joins the
neighbours' rates, and the result says how much of the trace was filled in.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow.compute as pc

from weir_pipelines.errors import InputError
from weir_pipelines.ingest import begin_of
from weir_pipelines.schemas import ARRIVALS
from weir_pipelines.settings import DAY_MINUTES
from weir_pipelines.store import Partition, Tables
from weir_simulator.traces import Trace, as_trace

COMPLETE_ENOUGH = 0.5
"""Completeness of a minute from which on its rate is used."""


def read_arrival_trace(
    tables: Tables,
    partitions: Sequence[Partition],
    operator: str,
    *,
    most_filled: float = 0.1,
) -> tuple[Trace, float]:
    """Return what arrived at an operator over some days, from the first minute to the last.

    Args:
        tables: Where they are.
        partitions: Days of one application; one that is missing between them is not covered.
        operator: Whose arrivals.
        most_filled: Share of minutes that may be filled in.

    Returns:
        Records/s minute by minute, shape `(n,)`, and the share of them that was filled in.

    Raises:
        InputError: There is no such operator, too much would have to be filled in, or a table
            cannot be read.
    """
    days = sorted({each.day for each in partitions})
    # From the first day to the last: a day between them may be missing.
    rates = np.full(((days[-1] - days[0]).days + 1) * DAY_MINUTES, np.nan)
    known: set[str] = set()
    start = begin_of(days[0])
    for partition in sorted({*partitions}):
        columns = ("operator", "minute", "arrived", "completeness")
        table = tables.read(ARRIVALS, partition, columns)
        known.update(table["operator"].unique().to_pylist())
        chosen = table.filter(
            (pc.field("operator") == operator) & (pc.field("completeness") >= COMPLETE_ENOUGH)
        )
        slots = (chosen["minute"].to_numpy() - start) / 60
        rates[slots.astype(np.int64)] = chosen["arrived"].to_numpy()  # null becomes NaN
    if operator not in known:
        raise InputError(
            f"Expected an operator out of {', '.join(sorted(known)) or 'none'}, got {operator!r}"
        )
    return _fill(rates, most_filled)


def _fill(rates: Trace, maximum: float) -> tuple[Trace, float]:
    """Cut off what is unknown at both ends, and join what is unknown inside."""
    there = np.flatnonzero(~np.isnan(rates))
    if not there.size:
        raise InputError("Expected minutes that samples cover, got none; see the table quality")
    inside = rates[there[0] : there[-1] + 1]
    unknown = np.isnan(inside)
    filled = float(unknown.mean())
    if filled > maximum:
        raise InputError(
            f"{filled:.0%} of the minutes are not covered, more than {maximum:.0%}; give days that "
            "are, see the table quality, or allow more with --most-filled"
        )
    slots = np.arange(inside.size)
    inside[unknown] = np.interp(slots[unknown], slots[~unknown], inside[~unknown])
    return as_trace(inside), filled
