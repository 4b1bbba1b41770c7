"""Writes the tables of a job whose truth is known, for tests: what the jobs would make of it.

Its operators stand in a row, each on two replicas of the pool `small`, with records dealt by key:
each replica is an M/G/1 queue, and what is spent elsewhere comes on top.

Source: Pollaczek-Khinchine formula.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from weir_pipelines.intake import begin_of
from weir_pipelines.schemas import ARRIVALS, WORK, Table
from weir_pipelines.settings import DAY_MINUTES
from weir_pipelines.store import Partition, Store, arrow_schema

POOL, REPLICAS = "small", 2


@dataclass(frozen=True, kw_only=True, slots=True)
class KnownOperator:
    """One operator of it."""

    name: str = "match"
    mean: float = 0.02
    """Service time, s."""
    scv: float = 0.5
    share: float = 1.0
    """Records that reach it per record that reaches the job."""
    given: float = 1.0
    """Records that it gives out per record that it takes in."""

    @property
    def square(self) -> float:
        """Mean square of the service time, s^2."""
        return self.mean**2 * (1 + self.scv)

    def response_time(self, rate: float) -> float:
        """Return mean seconds in the operator, of the records/s that reach it."""
        each = rate / REPLICAS
        return self.mean + each * self.square / (2 * (1 - each * self.mean))


@dataclass(frozen=True, kw_only=True, slots=True)
class KnownJob:
    """What is true of it."""

    rate: Callable[[float], float]
    """Records/s that reach the job, of the Unix seconds."""
    operators: tuple[KnownOperator, ...] = (KnownOperator(),)
    elsewhere: float = 0.005
    """Seconds from source to sink that no operator takes."""

    def latency(self, rate: float) -> float:
        """Return the mean seconds from source to sink, of the records/s that reach the job."""
        return self.elsewhere + sum(
            each.response_time(rate * each.share) for each in self.operators
        )


def write_day(
    root: Path,
    partition: Partition,
    job: KnownJob,
    *,
    minutes: int = DAY_MINUTES,
    with_work: bool = True,
) -> None:
    """Write the first minutes of a day into `arrivals` and `work`."""
    store = Store(root)
    times = [int(begin_of(partition.day)) + 60 * place for place in range(minutes)]
    seen = [(each, time, job.rate(time)) for each in job.operators for time in times]
    write_rows(store, ARRIVALS, partition, [_arrivals_row(*each) for each in seen])
    if with_work:
        write_rows(store, WORK, partition, [_work_row(job, *each) for each in seen])


def _arrivals_row(operator: KnownOperator, minute: int, rate: float) -> dict[str, object]:
    own = rate * operator.share
    return {
        "operator": operator.name,
        "minute": minute,
        "arrived": own,
        "taken": own,
        "given": own * operator.given,
        "backlog": None,
        "blocked": 0.0,
        "utilisation": own * operator.mean / REPLICAS,
        "replicas": float(REPLICAS),
        "completeness": 1.0,
        "faults": [],
    }


def _work_row(
    job: KnownJob, operator: KnownOperator, minute: int, rate: float
) -> dict[str, object]:
    records = 60 * rate * operator.share
    is_sink = operator is job.operators[-1]
    return {
        "operator": operator.name,
        "pool": POOL,
        "minute": minute,
        "replicas": float(REPLICAS),
        "records": records,
        "seconds": records * operator.mean,
        "squares": records * operator.square,
        "utilisation": rate * operator.share * operator.mean / REPLICAS,
        "source": "helper",
        "sink_records": records if is_sink else None,
        "sink_seconds": records * job.latency(rate) if is_sink else None,
    }


def write_rows(
    store: Store, table: Table, partition: Partition, rows: Sequence[Mapping[str, object]]
) -> None:
    """Write the rows of one partition."""
    file = store.path(table, partition)
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(list(rows), schema=arrow_schema(table)), file)
