"""The jobs: which tables each reads, which it writes, and the pure functions between them.

A job replaces whole days of applications, one partition each, and reads nothing but tables. So jobs
can run alone, again, or for any days, in any order that has their inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from weir_pipelines.arrivals import rebuild_arrivals
from weir_pipelines.day_jobs import DayJob, work_out_days
from weir_pipelines.frames import keep_partitions, read_table, write_table
from weir_pipelines.quality import find_problems
from weir_pipelines.samples import DayFunction
from weir_pipelines.schemas import (
    ARRIVALS,
    PROFILES,
    QUALITY,
    REGIMES,
    SAMPLES,
    SELECTIVITIES,
    SERVICE,
    SPEEDUPS,
    WORK,
    Table,
)
from weir_pipelines.seasonality import WEEKS, average_hours, find_regimes, profile_hours
from weir_pipelines.service import estimate_selectivities, estimate_speedups, summarise_service
from weir_pipelines.settings import ArrivalSettings
from weir_pipelines.store import Partition, Store
from weir_pipelines.work import measure_work


@dataclass(frozen=True, kw_only=True, slots=True)
class Work:
    """Everything that a job needs."""

    session: SparkSession
    store: Store
    partitions: Sequence[Partition]
    """Which days of which applications to work out."""
    settings: ArrivalSettings

    def read(self, table: Table, partitions: Sequence[Partition] | None = None) -> DataFrame:
        """Return the rows of some partitions, by default those that are worked out."""
        wanted = self.partitions if partitions is None else partitions
        return read_table(self.session, self.store, table, wanted)

    def write(self, table: Table, rows: DataFrame) -> tuple[Partition, ...]:
        """Replace the partitions that are worked out by these rows; drop those of others.

        A day of which there are no rows becomes empty: what was known of it no longer holds.
        """
        own = keep_partitions(rows, self.partitions)
        return write_table(self.store, table, own, replaced=self.partitions)

    def work_out(self, table: Table, rebuild: DayFunction) -> tuple[Partition, ...]:
        """Replace the partitions that are worked out by what a function makes of the samples."""
        job = DayJob(store=self.store, table=table, rebuild=rebuild, settings=self.settings)
        return work_out_days(self.session, job, self.partitions)


def run_arrivals(work: Work) -> tuple[Partition, ...]:
    """Samples to arrival rates."""
    return work.work_out(ARRIVALS, rebuild_arrivals)


def run_service(work: Work) -> tuple[Partition, ...]:
    """Samples to service times, speedups and selectivities."""
    written = work.work_out(WORK, measure_work)
    work.write(SERVICE, summarise_service(work.read(WORK)))
    work.write(SPEEDUPS, estimate_speedups(work.read(SERVICE)))
    work.write(SELECTIVITIES, estimate_selectivities(work.read(ARRIVALS)))
    return written


def run_quality(work: Work) -> tuple[Partition, ...]:
    """Arrival rates to what is wrong with them."""
    return work.write(QUALITY, find_problems(work.read(ARRIVALS)))


def run_seasonality(work: Work) -> tuple[Partition, ...]:
    """Arrival rates of weeks to profiles and regime changes."""
    weeks = [
        Partition(each.app, each.day - timedelta(days=age))
        for each in work.partitions
        for age in range(7 * WEEKS)
    ]
    hours = average_hours(work.read(ARRIVALS, weeks))
    as_of = work.session.createDataFrame(
        [(each.app, each.day) for each in work.partitions], "app STRING, day DATE"
    )
    work.write(REGIMES, find_regimes(hours, F.broadcast(as_of)))
    return work.write(PROFILES, profile_hours(hours, F.broadcast(as_of)))


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """One job."""

    run: Callable[[Work], tuple[Partition, ...]]
    needs: Table
    """The table whose days it works out."""


JOBS: Mapping[str, Job] = {
    "arrivals": Job(run=run_arrivals, needs=SAMPLES),
    "service": Job(run=run_service, needs=SAMPLES),
    "quality": Job(run=run_quality, needs=ARRIVALS),
    "seasonality": Job(run=run_seasonality, needs=ARRIVALS),
}
"""The jobs by name, in the order in which a day goes through them."""
