"""One Spark session for all tests of the pipelines, and what they ask of it."""

from __future__ import annotations

import pytest
from pyspark.sql import Row

from weir_pipelines.arrivals import rebuild_arrivals
from weir_pipelines.schemas import SAMPLES, SERIES
from weir_pipelines.session import open_session
from weir_pipelines.settings import ArrivalSettings


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    session = open_session(
        master="local[2]",
        name="tests",
        options={
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
            # Tiny frames: compiling a query, and planning anew between its stages, cost more than
            # they save.
            "spark.sql.adaptive.enabled": "false",
            "spark.sql.codegen.wholeStage": "false",
        },
    )
    yield session
    session.stop()


@pytest.fixture(scope="session")
def frames(spark):
    """Make the tables `samples` and `series` of a known history, with the app, without a day."""

    def make(history):
        samples = spark.createDataFrame(history.samples, ddl(SAMPLES))
        rows = [Row(**{name: each[name] for name in columns}) for each in history.labels]
        return samples, spark.createDataFrame(rows, f"{ddl(SERIES)}, app STRING")

    columns = (*SERIES.names, "app")
    return make


@pytest.fixture(scope="session")
def rates(frames):
    """Rebuild a known history; return the rows by app, operator and minute."""

    def rebuild(history, settings=None):
        samples, series = frames(history)
        rebuilt = rebuild_arrivals(samples, series, settings or ArrivalSettings())
        return {(row.app, row.operator, row.minute): row for row in rebuilt.collect()}

    return rebuild


def ddl(table):
    return ", ".join(f"{column.name} {column.type}" for column in table.columns)
