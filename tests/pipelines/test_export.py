import datetime
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from weir_pipelines.errors import SourceError
from weir_pipelines.export import Export, export_day
from weir_pipelines.ingest import Scraped, begin_of
from weir_pipelines.metrics import METRICS, RECORDS_IN
from weir_pipelines.schemas import SAMPLES, SERIES
from weir_pipelines.store import Partition, Tables

MONDAY = Partition("shop/trips", datetime.date(2026, 3, 2))
START = begin_of(MONDAY.day)
TUESDAY_NOON = START + 36 * 3600
HOUR = 3600.0


class FakeHistory:
    """A counter that is scraped every ten minutes; falls over at some hours."""

    def __init__(self, falls_at=(), key="server"):
        self.asked = []
        self.key = key
        self.falls_at = set(falls_at)

    def samples(self, app, start, end):
        self.asked.append((start - START) / HOUR)
        if self.asked[-1] in self.falls_at:
            raise SourceError("gone")
        times = range(int(start), int(end), 600)
        yield Scraped(
            name=METRICS[RECORDS_IN],
            labels={"weir_operator": "match", "job_id": f"job-{int(start) // 43200}"},
            times_ms=[1000 * time for time in times],
            values=[float(time) for time in times],
        )
        yield Scraped(name="up", labels={}, times_ms=[int(1000 * start)], values=[1.0])


class SilentHistory:
    """The same server before it knew of anything."""

    key = "server"

    def samples(self, app, start, end):
        return []


def exported(tables):
    samples = pq.read_table(tables.path(SAMPLES, MONDAY)).to_pydict()
    return samples["time_ms"], samples["value"]


def test_a_day_is_exported_in_pieces_and_comes_out_whole(tmp_path):
    history, tables = FakeHistory(), Tables(tmp_path)

    done = export_day(history, tables, MONDAY, now=TUESDAY_NOON, piece=HOUR)

    times, values = exported(tables)
    assert done is Export.DONE
    assert history.asked == list(range(24))
    assert times == [1000 * (int(START) + 600 * n) for n in range(144)]
    assert values == [time / 1000 for time in times]


def test_each_series_is_described_once(tmp_path):
    tables = Tables(tmp_path)

    export_day(FakeHistory(), tables, MONDAY, now=TUESDAY_NOON, piece=HOUR)

    series = pq.read_table(tables.path(SERIES, MONDAY)).to_pylist()
    assert [(row["metric"], row["operator"]) for row in series] == [(RECORDS_IN, "match")] * 2
    assert len({row["series"] for row in series}) == len({row["job_id"] for row in series}) == 2


def test_an_export_that_broke_off_goes_on_where_it_was(tmp_path):
    tables = Tables(tmp_path)
    with pytest.raises(SourceError, match="gone"):
        export_day(FakeHistory(falls_at=[20]), tables, MONDAY, now=TUESDAY_NOON, piece=HOUR)
    again = FakeHistory()

    export_day(again, tables, MONDAY, now=TUESDAY_NOON, piece=HOUR)

    assert again.asked == [20, 21, 22, 23]
    assert len(exported(tables)[0]) == 144


def test_pieces_of_another_server_are_not_taken_for_those_of_this(tmp_path):
    tables = Tables(tmp_path)
    with pytest.raises(SourceError, match="gone"):
        export_day(FakeHistory(falls_at=[20]), tables, MONDAY, now=TUESDAY_NOON, piece=HOUR)
    other = FakeHistory(key="another")

    export_day(other, tables, MONDAY, now=TUESDAY_NOON, piece=HOUR)

    assert other.asked == list(range(24))


def test_a_day_without_samples_is_left_out_and_asked_for_again(tmp_path):
    tables, history = Tables(tmp_path), FakeHistory()
    silent = SilentHistory()

    first = export_day(silent, tables, MONDAY, now=TUESDAY_NOON, piece=HOUR)
    left_out = tables.partitions(SAMPLES)
    second = export_day(history, tables, MONDAY, now=TUESDAY_NOON, piece=HOUR)

    assert (first, left_out, second) == (Export.NOTHING, {}, Export.DONE)
    assert len(exported(tables)[0]) == 144


def test_nothing_is_seen_of_a_day_that_is_not_whole(tmp_path):
    tables = Tables(tmp_path)

    with pytest.raises(SourceError, match="gone"):
        export_day(FakeHistory(falls_at=[20]), tables, MONDAY, now=TUESDAY_NOON, piece=HOUR)

    assert tables.partitions(SAMPLES) == tables.partitions(SERIES) == {}


def test_a_day_that_is_there_is_not_asked_for_again(tmp_path):
    tables = Tables(tmp_path)
    export_day(FakeHistory(), tables, MONDAY, now=TUESDAY_NOON, piece=HOUR)
    again = FakeHistory()

    done = export_day(again, tables, MONDAY, now=TUESDAY_NOON, piece=HOUR)

    assert (done, again.asked) == (Export.PRESENT, [])


def test_a_day_that_is_asked_for_again_is_the_same_to_the_byte(tmp_path):
    tables = Tables(tmp_path)
    export_day(FakeHistory(), tables, MONDAY, now=TUESDAY_NOON, piece=HOUR)
    file = Path(tables.path(SAMPLES, MONDAY))
    before = file.read_bytes()

    export_day(FakeHistory(), tables, MONDAY, now=TUESDAY_NOON, piece=HOUR, again=True)

    assert file.read_bytes() == before


def test_a_day_that_is_not_over_is_refused(tmp_path):
    with pytest.raises(SourceError, match="Expected a complete day, got 2026-03-02"):
        export_day(FakeHistory(), Tables(tmp_path), MONDAY, now=START + 20 * HOUR)
