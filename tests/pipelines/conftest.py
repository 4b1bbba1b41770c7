"""One Spark session for all tests of the pipelines, and what they ask of it."""

import pytest

from tests.pipelines.known_history import work_out_history
from weir_pipelines.arrivals import rebuild_arrivals
from weir_pipelines.session import open_session


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    session = open_session(
        master="local[2,4]",
        options={
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
            # Tiny frames: compiling a query, and planning again between its stages, cost more than
            # they save.
            "spark.sql.adaptive.enabled": "false",
            "spark.sql.codegen.wholeStage": "false",
        },
    )
    yield session
    session.stop()


@pytest.fixture(scope="session")
def rates():
    """Rebuild a known history; return the rows by app, operator and minute."""

    def rebuild(history):
        rows = work_out_history(history, rebuild_arrivals)
        return {(row.app, row.operator, row.minute): row for row in rows}

    return rebuild
