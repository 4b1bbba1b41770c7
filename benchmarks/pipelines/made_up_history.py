"""Makes up a month of metric history: counters of many operators, scraped every 15 s.

Rates follow a day's curve with a week's weekend, each operator at its own level. Samples lie in the
tables as an export leaves them, a partition per application and day, so that the jobs read what
they would read of a real server. Made by NumPy, a day at a time.
"""

from __future__ import annotations

from datetime import date, timedelta

import numpy as np
import pyarrow as pa

from weir_pipelines.ingest import begin_of, number_of, write_day
from weir_pipelines.metrics import RECORDS_IN
from weir_pipelines.schemas import SAMPLES, SERIES
from weir_pipelines.store import Partition, Tables

EVERY = 15
"""Seconds between two scrapes."""
A_DAY = 86_400 // EVERY
FIRST = date(2026, 3, 2)


def write_history(tables: Tables, *, apps: int, operators: int, days: int) -> tuple[Partition, ...]:
    """Write days of samples of applications of so many operators each; return the partitions."""
    rng = np.random.default_rng(15)
    written = []
    for index in range(apps):
        app = f"app-{index}"
        rows = [_labels(app, n) for n in range(operators)]
        numbers = np.array([row["series"] for row in rows])
        levels = rng.uniform(20, 2000, operators)
        totals = np.zeros(operators)
        for offset in range(days):
            partition = Partition(app, FIRST + timedelta(days=offset))
            samples, totals = _a_day(partition.day, numbers, levels, totals, rng)
            series = pa.Table.from_pylist(rows, schema=SERIES.schema)
            write_day(tables, partition, series, [samples])
            written.append(partition)
    return tuple(written)


def _labels(app: str, n: int) -> dict[str, str | int]:
    labels = {
        "metric": RECORDS_IN,
        "operator": f"operator-{n}",
        "pool": "small",
        "replica": f"replica-{n}",
        "job_id": "job",
        "attempt": "0",
        "task": f"operator-{n}",
        "function": "",
        "subtask": "0",
    }
    return {"series": number_of(app, list(labels.values())), **labels}


def _a_day(
    day: date,
    numbers: np.ndarray,
    levels: np.ndarray,
    totals: np.ndarray,
    rng: np.random.Generator,
) -> tuple[pa.Table, np.ndarray]:
    """Return a day's samples and where the counters stand after it; scrapes jitter by 10 ms."""
    times = np.arange(A_DAY) * EVERY
    weekend = 0.6 if day.weekday() >= 5 else 1.0
    curve = weekend * (1 + 0.5 * np.sin(2 * np.pi * (times / 86_400 - 0.3)))
    rises = rng.poisson(np.outer(levels, curve * EVERY))  # operators x scrapes
    values = totals[:, None] + np.cumsum(rises, axis=1)
    count = len(numbers)
    jitter = rng.integers(0, 10, size=(count, A_DAY))
    milliseconds = 1000 * (int(begin_of(day)) + times)[None, :] + jitter
    columns = [
        np.repeat(numbers, A_DAY),
        milliseconds.ravel(),
        values.ravel().astype(np.float64),
        pa.nulls(count * A_DAY, pa.int64()),
    ]
    return pa.table(columns, schema=SAMPLES.schema), values[:, -1]
