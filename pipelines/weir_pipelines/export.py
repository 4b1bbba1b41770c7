"""Exports whole days of an application, piece by piece, so that an interrupted export resumes.

Each fetched piece is kept under `.export` until its day is complete; then the pieces become the
day's partition at once. A day that is not over yet is not exported, because its content would
change. Nor is a day without any sample stored: a mistyped name would look as if it were done.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import Protocol

import pyarrow.parquet as pq

from weir_pipelines.errors import SourceError
from weir_pipelines.ingest import (
    Ingester,
    Scraped,
    begin_of,
    join_series,
    place_day,
    write_day,
)
from weir_pipelines.schemas import SAMPLES
from weir_pipelines.store import Partition, Store

EXPORT = ".export"
PIECE = 900.0
"""Seconds of samples in one request: of 500 operators with eight series each, scraped every 15 s,
some 240,000 samples, far below the 50 million that Prometheus grants by default."""
SETTLED = 300.0
"""Seconds after midnight from which on a day is over: late samples have come."""


class Export(StrEnum):
    """What became of a day, in words for people."""

    DONE = "exported"
    PRESENT = "there already"
    NOTHING = "no samples, so left out; see --app and --match, or how long the server keeps them"


class History(Protocol):
    """The source of samples."""

    @property
    def key(self) -> str:
        """What distinguishes the source from others, usable as a folder's name."""
        ...

    def samples(self, app: str, start: float, end: float) -> Iterable[Scraped]:
        """Return an application's samples in [start, end), Unix seconds."""
        ...


def export_day(
    history: History,
    store: Store,
    partition: Partition,
    *,
    now: float,
    piece: float = PIECE,
    again: bool = False,
    tell: Callable[[float], None] = lambda share: None,
) -> Export:
    """Export one day, unless it is there.

    Args:
        history: Where it comes from.
        store: Where it goes.
        partition: The application and the day.
        now: Unix seconds.
        piece: Seconds of samples to ask for at once.
        again: Export it even if it is there, because samples may have come late.
        tell: Called with the share of the day that is done.

    Returns:
        What became of it.

    Raises:
        SourceError: The day is not over, or the source does not give it; what was fetched is kept.
        StoreError: The file system refuses.
    """
    if not again and store.path(SAMPLES, partition).exists():
        return Export.PRESENT
    start = begin_of(partition.day)
    if now < start + 86_400 + SETTLED:
        raise SourceError(
            f"Expected a complete day, got {partition.day}; export it tomorrow, "
            f"{SETTLED:g} s after midnight UTC"
        )
    # Pieces of another length or source are others: none of them may be taken for one of these.
    folder = store.root / EXPORT / history.key / f"{piece:g}s" / partition.folder
    if again:
        shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    pieces = list(_cut(start, piece))
    for done, (low, high) in enumerate(pieces, start=1):
        file = folder / f"{low - start:08.2f}-{high - start:08.2f}.parquet"
        if not file.exists():
            _fetch(history, partition, low, high, file)
        tell(done / len(pieces))
    found = _join(store, partition, folder)
    shutil.rmtree(folder)
    return Export.DONE if found else Export.NOTHING


def _cut(start: float, piece: float) -> Iterator[tuple[float, float]]:
    """Yield the pieces of a day, in order."""
    end = start + 86_400
    low = start
    while low < end:
        yield low, min(low + piece, end)
        low += piece


def _fetch(history: History, partition: Partition, low: float, high: float, file: Path) -> None:
    """Write a piece's labels and samples; the samples last, and in one step."""
    intake = Ingester(partition.app)
    intake.take(history.samples(partition.app, low, high))
    series, samples = intake.tables(partition)
    pq.write_table(series, file.with_suffix(".series"))
    partial = file.with_suffix(".partial")
    pq.write_table(samples, partial)
    os.replace(partial, file)


def _join(store: Store, partition: Partition, folder: Path) -> bool:
    """Make the day from its pieces; return whether they have samples."""
    files = sorted(folder.glob("*.parquet"))
    series = join_series(pq.read_table(file.with_suffix(".series")) for file in files)
    if not series.num_rows:
        return False
    with store.staging() as staging:
        write_day(staging, series, (pq.read_table(file) for file in files))
        place_day(store, partition, staging)
    return True
