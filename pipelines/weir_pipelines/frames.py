"""Between tables and Spark's DataFrames: the only place where jobs read and write."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from weir_pipelines.schemas import Table
from weir_pipelines.store import Partition, Store, arrow_schema


def read_table(
    session: SparkSession, store: Store, table: Table, partitions: Iterable[Partition]
) -> DataFrame:
    """Return the rows of those of the partitions that are there, with `app` and `day`.

    Raises:
        InputError: A file has other columns than the table.
    """
    paths = [str(path) for path in store.paths(table, partitions)]
    if not paths:
        return session.createDataFrame([], table.ddl)
    reader = session.read.schema(table.ddl).option("basePath", str(store.folder(table)))
    return reader.parquet(*paths)


def write_table(
    store: Store,
    table: Table,
    rows: DataFrame,
    *,
    replaced: Iterable[Partition] = (),
    may_replace: bool = True,
) -> tuple[Partition, ...]:
    """Replace the partitions that the rows belong to, each at once; return those that have rows.

    Args:
        store: Where the table is.
        table: Which one.
        rows: Its columns, `app` and `day`.
        replaced: Partitions that become empty where no row belongs to them, so that none keeps the
            rows of an earlier run.
        may_replace: Whether a partition may be there with other rows.

    Raises:
        InputError: A partition is there with other rows, and may not.
        StoreError: The file system refuses.
    """
    columns = [F.col(each.name).cast(each.type).alias(each.name) for each in table.columns]
    with store.staging() as folder:
        (
            # One task writes a partition, so that it is one file.
            rows.select(*columns, "app", "day")
            .repartition("app", "day")
            .sortWithinPartitions("app", "day", *table.order)
            .write.partitionBy("app", "day")
            .parquet(str(folder))
        )
        written = store.commit(table, folder, may_replace=may_replace)
        for partition in sorted({*replaced} - {*written}):
            empty = folder / "empty.parquet"
            pq.write_table(arrow_schema(table).empty_table(), empty)
            store.place(table, partition, empty)
    return written


def with_neighbours(partitions: Iterable[Partition]) -> tuple[Partition, ...]:
    """Return the partitions and the days before and after each."""
    return tuple(near for each in partitions for near in (each, *each.neighbours))


def keep_partitions(rows: DataFrame, partitions: Iterable[Partition]) -> DataFrame:
    """Drop the rows of other partitions, such as those of neighbours."""
    wanted = [(each.app, each.day) for each in partitions]
    session = rows.sparkSession
    known = session.createDataFrame(wanted, "app STRING, day DATE").distinct()
    return rows.join(F.broadcast(known), ["app", "day"], "left_semi")
