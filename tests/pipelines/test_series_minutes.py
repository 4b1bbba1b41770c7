"""Whatever was scraped: a series' minutes are those of a plain, slow way to compute them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from weir_pipelines.samples import as_samples
from weir_pipelines.schemas import SAMPLES
from weir_pipelines.series_minutes import AROUND, measure_series
from weir_pipelines.settings import ArrivalSettings
from weir_pipelines.store import arrow_schema

GAP_AFTER = ArrivalSettings().gap_after


def one_minute_at_a_time(samples):
    """Compute, series by series and second by second, what `measure_series` returns.

    Each of a step's milliseconds gets its share of the rise; a minute sums its milliseconds.
    """
    found: dict[tuple[int, int], tuple[float, float]] = {}
    # Any: stubs of pandas know less than pandas does.
    frame: Any = pd.DataFrame(samples, columns=pd.Index(SAMPLES.names))
    usable = frame[np.isfinite(frame["value"]) & (frame["value"] >= 0)]
    for number, rows in usable.groupby("series"):
        rows = rows.sort_values(["time_ms", "value"])
        lengths = rows["time_ms"].diff()
        # Of two middle ones, the lower.
        around = lengths.where(lengths > 0).rolling(2 * AROUND + 1, center=True, min_periods=1)
        usual = around.quantile(0.5, interpolation="lower")
        rises = rows["value"].diff()
        steps = zip(rows["time_ms"], lengths, rises, usual, strict=True)
        for time, length, rise, maximum in steps:
            if math.isnan(length) or length == 0 or rise < 0 or length > GAP_AFTER * maximum:
                continue
            moments = np.arange(time - length, time)
            counts: Any = pd.Series(moments // 60_000).value_counts()
            for minute, count in counts.items():
                key = (number, int(minute) * 60)
                rise_before, covered_before = found.get(key, (0.0, 0.0))
                found[key] = (rise_before + rise * count / length, covered_before + count)
    return found


@st.composite
def counters(draw):
    """Draw the samples of one counter: jitter, missing and doubled scrapes, falls, no numbers."""
    every = draw(st.sampled_from([5_000, 15_000, 45_000]))
    time, value, rows = draw(st.integers(600_000, 700_000)), 0.0, []
    for _ in range(draw(st.integers(1, 40))):
        time += draw(st.sampled_from([every] * 6 + [every + 700, 2 * every, 7 * every, 0]))
        value = draw(st.sampled_from([value + 10.0 * every / 1000] * 6 + [value, 3.0, math.nan]))
        rows.append((time, value))
        value = 0.0 if math.isnan(value) else value
    return rows


@settings(max_examples=30, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(
    drawn=st.lists(counters(), min_size=1, max_size=10), shuffle=st.randoms(use_true_random=False)
)
def test_minutes_are_those_of_a_plain_computation(drawn, shuffle):
    samples = [
        (number, time, value, None) for number, rows in enumerate(drawn) for time, value in rows
    ]
    expected = one_minute_at_a_time(samples)
    shuffle.shuffle(samples)
    columns = [list(column) for column in zip(*samples, strict=True)]
    table = pa.table(columns, schema=arrow_schema(SAMPLES))

    minutes = measure_series(as_samples(table, ArrivalSettings()), len(drawn), 0, ArrivalSettings())

    covered = {
        (int(number), int(minute) * 60): (
            minutes.rise[number, minute],
            minutes.rise_ms[number, minute],
        )
        for number, minute in np.argwhere(minutes.rise_ms > 0)
    }
    assert covered.keys() == expected.keys()
    for key, pair in expected.items():
        assert covered[key] == pytest.approx(pair)
