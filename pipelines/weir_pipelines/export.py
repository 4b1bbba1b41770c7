"""Exports whole days of an application, piece by piece, so that an interrupted export resumes.

Each fetched piece is kept under `.export` until its day is complete; then the pieces become the
day's partition at once. A day that is not over yet is not exported, because its content would
change. Nor is a day without any sample stored: a mistyped name would look as if it were done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum
from typing import Protocol

from weir_pipelines.errors import SourceError
from weir_pipelines.ingest import Ingester, Scraped, begin_of, join_series, write_day
from weir_pipelines.schemas import SAMPLES, SERIES
from weir_pipelines.store import Partition, Tables, encode

EXPORT = ".export"
_SERIES, _SAMPLES = ".series", ".parquet"
"""Endings of the two files of a piece."""
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
    tables: Tables,
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
        tables: Where it goes.
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
    if not again and partition in tables.partitions(SAMPLES, partition.app):
        return Export.PRESENT
    start = begin_of(partition.day)
    if now < start + 86_400 + SETTLED:
        raise SourceError(
            f"Expected a complete day, got {partition.day}; export it tomorrow, "
            f"{SETTLED:g} s after midnight UTC"
        )
    # Pieces of another length or source are others: none of them may be taken for one of these.
    folder = f"{tables.top}/{EXPORT}/{history.key}/{piece:g}s/{partition.folder}"
    if again:
        tables.remove_folder(folder)
    there = {info.path for info in tables.list_files(folder)}
    pieces = list(_cut(start, piece))
    files = [f"{folder}/{low - start:08.2f}-{high - start:08.2f}" for low, high in pieces]
    for done, ((low, high), file) in enumerate(zip(pieces, files, strict=True), start=1):
        if f"{file}{_SAMPLES}" not in there:
            _fetch(history, tables, partition, low, high, file)
        tell(done / len(pieces))
    series = join_series(tables.read_file(f"{file}{_SERIES}") for file in files)
    if series.num_rows:
        samples = (tables.read_file(f"{file}{_SAMPLES}") for file in files)
        write_day(tables, partition, series, samples)
    tables.remove_folder(folder)
    return Export.DONE if series.num_rows else Export.NOTHING


def _cut(start: float, piece: float) -> Iterator[tuple[float, float]]:
    """Yield the pieces of a day, in order."""
    end = start + 86_400
    low = start
    while low < end:
        yield low, min(low + piece, end)
        low += piece


def _fetch(
    history: History, tables: Tables, partition: Partition, low: float, high: float, file: str
) -> None:
    """Write a piece's labels and samples; the samples last, and each in one step."""
    intake = Ingester(partition.app)
    intake.take(history.samples(partition.app, low, high))
    series, samples = intake.tables(partition)
    tables.put(f"{file}{_SERIES}", encode(SERIES, [series]))
    tables.put(f"{file}{_SAMPLES}", encode(SAMPLES, [samples]))
