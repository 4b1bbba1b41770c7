"""The history that the volume of the pipelines is measured with lies as an export leaves it."""

from __future__ import annotations

from benchmarks.pipelines.made_up_history import A_DAY, write_history
from weir_pipelines.schemas import SAMPLES, SERIES
from weir_pipelines.store import Tables


def test_each_application_and_day_has_its_series_and_all_its_samples(tmp_path):
    tables = Tables(tmp_path)

    written = write_history(tables, apps=2, operators=2, days=2)

    assert len(written) == 4
    for table, rows in ((SERIES, 2), (SAMPLES, 2 * A_DAY)):
        assert [tables.read(table, each).num_rows for each in written] == [rows] * 4
