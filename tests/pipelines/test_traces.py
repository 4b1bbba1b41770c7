"""What is read as a trace goes from the first day to the last, and says what is missing."""

import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from weir_pipelines.errors import InputError
from weir_pipelines.ingest import begin_of
from weir_pipelines.schemas import ARRIVALS
from weir_pipelines.store import Partition, Tables
from weir_pipelines.traces import read_arrival_trace

MONDAY = Partition("shop/trips", datetime.date(2026, 3, 2))
WEDNESDAY = Partition("shop/trips", datetime.date(2026, 3, 4))
MINUTES = 1440


@pytest.fixture
def two_days_around_one(tmp_path):
    """Monday with 10 records/s and Wednesday with 30, each minute covered; no Tuesday."""
    tables = Tables(tmp_path)
    for partition, rate in ((MONDAY, 10.0), (WEDNESDAY, 30.0)):
        begin = int(begin_of(partition.day))
        rows = [
            {"operator": "read", "minute": begin + 60 * n, "arrived": rate, "completeness": 1.0}
            for n in range(MINUTES)
        ]
        file = Path(tables.path(ARRIVALS, partition))
        file.parent.mkdir(parents=True)
        schema = pa.schema([field.with_nullable(True) for field in ARRIVALS.schema])
        pq.write_table(pa.Table.from_pylist(rows, schema=schema), file)
    return tables


def test_a_day_that_is_missing_between_others_is_refused_as_not_covered(two_days_around_one):
    with pytest.raises(InputError, match="33% of the minutes are not covered, more than 10%"):
        read_arrival_trace(two_days_around_one, [MONDAY, WEDNESDAY], "read")


def test_a_missing_day_is_filled_in_where_that_is_allowed(two_days_around_one):
    rates, filled = read_arrival_trace(
        two_days_around_one, [MONDAY, WEDNESDAY], "read", most_filled=0.5
    )

    assert rates.size == 3 * MINUTES
    assert rates[MINUTES + MINUTES // 2] == pytest.approx(20.0, abs=0.1)
    assert filled == pytest.approx(1 / 3)
