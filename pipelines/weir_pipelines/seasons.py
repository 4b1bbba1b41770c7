"""From the tables `profiles` and `regimes` to what a policy begins with; needs no Spark."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from weir_pipelines.age import refuse_old
from weir_pipelines.errors import InputError
from weir_pipelines.schemas import PROFILES, REGIMES, Table
from weir_pipelines.store import Partition, Tables, read_columns
from weir_policies.errors import ParameterError
from weir_policies.model.season import HOURS, Season

Row = Mapping[str, Any]  # Any: a row of a table, its columns' types are declared there


def read_seasons(tables: Tables, app: str, *, now: float | None = None) -> dict[str, Season]:
    """Return what usually arrives at each operator as of the last day, by name.

    Where that day is surely on another level than the days before it, what is usual is taken to be
    on that level too: the planner is asked about the days to come.

    Args:
        tables: Where they are.
        app: As the label `weir_app` has it.
        now: Unix time to which the last day must be near (`age.MOST_AGE`); `None` takes any.

    Raises:
        InputError: A table is not as agreed, cannot be read, or holds what is no week; or the last
            day is too old.
    """
    days = tables.partitions(PROFILES, app)
    if not days:
        return {}
    refuse_old(tables.root, app, days[-1].day, now=now)
    hours: dict[str, dict[int, Row]] = {}
    for row in _rows(tables, PROFILES, days[-1]):
        hours.setdefault(row["operator"], {})[row["hour"]] = row
    levels = {
        row["operator"]: row["factor"] for row in _rows(tables, REGIMES, days[-1]) if row["changed"]
    }
    seasons: dict[str, Season] = {}
    for name, rows in hours.items():
        try:
            seasons[name] = _season(rows).times(levels.get(name, 1.0))
        except ParameterError as error:
            raise InputError(
                f"{tables.root}: profiles and regimes of {name!r} on {days[-1].day}: {error}; "
                "work the day up again"
            ) from error
    return seasons


def _season(rows: Mapping[int, Row]) -> Season:
    rates = [rows[hour]["usual"] if hour in rows else math.nan for hour in range(HOURS)]
    counts = sorted(row["days"] for row in rows.values())
    return Season(rates=tuple(rates), weeks=float(counts[len(counts) // 2]))


def _rows(tables: Tables, table: Table, day: Partition) -> Iterator[Row]:
    for file in tables.paths(table, [day]):
        yield from read_columns(file, table.names).to_pylist()
