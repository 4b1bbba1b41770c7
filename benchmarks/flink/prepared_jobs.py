"""The jobs that `any_job` tries: what each is made of, feeds on, and how its output is counted.

Programs are Flink's own examples, as their authors published them, as far as there are some. What
the examples lack stands in `benchmarks/jobs/kinds`. No program knows Weir.

Jobs whose input Weir does not write do not end: at the end of its input, Flink drops windows on
processing time that are still open. They are stopped with a savepoint and counted by what is
committed then.
"""

from __future__ import annotations

import csv
import subprocess
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar

from benchmarks.flink.kafka import build_job, count_committed, run_broker
from benchmarks.flink.nexmark_results import (
    QUERIES,
    Input,
    expected_rows,
    list_events,
    read_rows,
)
from tests.operator.flink.output import committed_lines
from weir_operator.flink.jars import JARS, REPOSITORY, build_example, build_jar
from weir_operator.flink.job_graph import Plan

RECORDS = 300
"""Written to Kafka each second."""
RATE = 40
"""Numbers per second of each of the three sources of `Kinds`."""
ROWS = 100
"""Of each table of the SQL jobs, each second."""
WINDOW = 2
"""Seconds of event time of a window in SQL."""
LATEST = 10
"""Seconds of event time at the end of a stopped query that are not compared: watermarks and the
files of its sinks are that far behind at most."""
TEXT = ("to be", "or not to be", "that is the question")
LINES = 30
"""Of a file whose words are counted, one each second."""
SCRIPT = REPOSITORY / "benchmarks/jobs/SqlScript.java"
"""Runs the statements of its arguments as one job."""
ODD = 50
"""Odd numbers of a window of `Kinds`."""
KINDS = REPOSITORY / "benchmarks/jobs/kinds"
NEWEST, LAST_OF_1 = "2.3.0", "1.20.0"
"""Of Flink's examples: not every release has its own in Maven Central."""

Compared = TypeVar("Compared")
"""A row of the output."""
Joined = Mapping[str, Sequence[str]]
"""Vertices by operator."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Miscounted:
    """What is not as it should be in the committed output."""

    lost: int
    """Records that are missing."""
    wrong: int
    """Records that are there more than once, or with the wrong count."""
    compared: int
    """Records that should be there; 0 where a part of the output has none, so nothing is shown."""


@dataclass(kw_only=True)
class Prepared:
    """A job, what feeds it, and what counts its output."""

    build: Callable[[Path], Path]
    """Returns the jar, as the author has it for the Flink in a folder."""
    entry_class: str | None = None
    arguments: Sequence[str] = ()
    config: Mapping[str, str] = field(default_factory=dict)
    join: Callable[[Plan], Joined] = lambda plan: {}
    """Returns the operators that vertices are joined in; none where each is one."""
    feed: Callable[[], None] | None = None
    """Called every second, so that there is always something to read."""
    count: Callable[[], Miscounted] = lambda: Miscounted(lost=0, wrong=0, compared=0)
    is_known: bool = False
    """Whether all that is to come out is known beforehand, though nothing is fed."""


Preparation = Callable[[ExitStack, Path], Prepared]


def prepare_iteration(stack: ExitStack, folder: Path) -> Prepared:
    """Flink's example: records that go round; Flink 2 has no iterations."""
    return Prepared(build=partial(fetch_example, "Iteration"))


def prepare_batch(stack: ExitStack, folder: Path) -> Prepared:
    """Flink's example, as a batch job."""
    return Prepared(
        build=partial(fetch_example, "WordCount"), arguments=["--execution-mode", "BATCH"]
    )


def prepare_word_count(stack: ExitStack, folder: Path) -> Prepared:
    """Flink's example: counts the words of files as they come, into files."""
    given, out = folder / "in", folder / "out"
    given.mkdir()
    words = Counter[str]()

    def feed() -> None:
        lines = [TEXT[index % len(TEXT)] for index in range(LINES)]
        words.update(" ".join(lines).split())
        written = given / f".{len(list(given.iterdir()))}"  # hidden, until it is whole
        written.write_text("".join(f"{line}\n" for line in lines))
        written.rename(given / f"text-{written.name[1:]}")

    def count() -> Miscounted:
        found: dict[str, list[int]] = defaultdict(list)
        for line in committed_lines(out):
            word, number = line.strip("()").split(",")
            found[word].append(int(number))
        lost = sum(
            len(set(range(1, total + 1)) - set(found[word])) for word, total in words.items()
        )
        expected = sum(words.values())
        there = sum(map(len, found.values()))
        return Miscounted(lost=lost, wrong=there - (expected - lost), compared=expected)

    arguments = ["--input", str(given), "--discovery-interval", "1s", "--output", str(out)]
    return Prepared(
        build=partial(fetch_example, "WordCount"), arguments=arguments, feed=feed, count=count
    )


def prepare_kafka(stack: ExitStack, folder: Path) -> Prepared:
    """Counts by key from a topic of two partitions into another, exactly once."""
    broker = stack.enter_context(run_broker(folder / "kafka"))
    broker.create_topic("payments", partitions=2)
    broker.create_topic("counts", partitions=1)
    written = 0

    def feed() -> None:
        nonlocal written
        broker.write("payments", range(written, written + RECORDS), partitions=2)
        written += RECORDS

    def count() -> Miscounted:
        found = count_committed(broker.read_committed("counts"), written)
        return Miscounted(lost=found.lost, wrong=found.doubled + found.wrong, compared=written)

    return Prepared(
        build=build_job,
        arguments=(broker.servers, "payments", "counts", "1"),
        config={"taskmanager.memory.segment-size": "4kb"},
        feed=feed,
        count=count,
    )


def prepare_kinds(stack: ExitStack, folder: Path) -> Prepared:
    """Sources of three kinds, asynchronous calls, co-location, a side output and two sinks."""
    numbers, windows = folder / "numbers", folder / "windows"

    def join(plan: Plan) -> Joined:
        sources = _sources(plan)
        files = [each for each in plan.operators if each.startswith(("numbers", "windows"))]
        rest = [each for each in plan.operators if each not in {*sources, *files}]
        return {"sources": sources, **{each: [each] for each in rest}, "files": files}

    def count() -> Miscounted:
        lines = committed_lines(numbers)
        # What the sources gave before the stop: each has counted up from its own number. Of the
        # last second, answers may be missing, out of order: their records are in the savepoint.
        due: list[range] = []
        found = [int(line.partition(",")[0]) for line in lines]
        for source in range(3):
            last = max((number for number in found if number % 3 == source), default=source)
            due.append(range(source, last - 3 * RATE + 1, 3))
        first, again = ([line.split(",")[place] for line in lines] for place in (1, 2))
        counted = count_committed(
            [f"{number},{place}" for number, place in zip(found, first, strict=True)],
            len(set(found)),
        )
        differ = sum(one != two for one, two in zip(first, again, strict=True))
        odd = [int(word) for line in committed_lines(windows) for word in line.split()]
        strangers = len(set(odd) - set(found)) + len(odd) - len(set(odd))
        # The window that is not full is in the savepoint.
        left_out = len({number for number in found if number % 2} - set(odd)) - (ODD - 1)
        return Miscounted(
            lost=len({*chain(*due)} - set(found)) + max(0, left_out),
            wrong=counted.doubled + counted.wrong + differ + strangers,
            compared=sum(map(len, due)) if all(due) else 0,
        )

    return Prepared(
        build=build_kinds,
        arguments=[str(numbers), str(windows), str(RATE)],
        join=join,
        count=count,
    )


BIDS = (
    "CREATE TABLE bids (auction INT, price INT, ts TIMESTAMP(3),"
    " WATERMARK FOR ts AS ts - INTERVAL '3' SECOND) WITH ("
    f"'connector' = 'datagen', 'rows-per-second' = '{ROWS}',"
    " 'fields.auction.min' = '1', 'fields.auction.max' = '20', 'fields.price.min' = '1',"
    " 'fields.price.max' = '1000', 'fields.ts.max-past' = '1 s')"
)
TOTALS = (
    "INSERT INTO totals SELECT auction, window_start, COUNT(*), SUM(price)"
    f" FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '{WINDOW}' SECOND))"
    " GROUP BY auction, window_start, window_end"
)
SEEN_BIDS = "auction INT, price INT, ts TIMESTAMP(3)"
SUMS = "auction INT, started TIMESTAMP(3), n BIGINT, total BIGINT"


def prepare_sql(stack: ExitStack, folder: Path) -> Prepared:
    """Windows over generated rows, and a copy of these, into files."""
    statements = (
        BIDS,
        _files(folder, "seen_bids", SEEN_BIDS),
        _files(folder, "totals", SUMS),
        "INSERT INTO seen_bids SELECT auction, price, ts FROM bids",
        TOTALS,
    )

    def count() -> Miscounted:
        bids = [*_rows(folder / "seen_bids")]
        end = _end_of([row[-1] for row in bids])
        return _compare(_totals(bids, end), _until(_rows(folder / "totals"), 1, end))

    def build(home: Path) -> Path:
        return build_jar([SCRIPT], JARS / "sql-script.jar", entry_class="SqlScript")

    return Prepared(build=build, arguments=statements, count=count)


def prepare_nexmark(query: str, stack: ExitStack, folder: Path) -> Prepared:
    """A query of Nexmark, as `examples/nexmark` has it, at 150 events/s for 50 s."""
    given = Input(rate=150, seconds=50, start=int(1000 * time.time()) + 10_000)
    expected, out = expected_rows(query, list_events(given)), folder / "out"
    return Prepared(
        build=lambda home: build_example("nexmark"),
        arguments=[*given.arguments(query, folder), "--commit", str(out)],
        count=lambda: _compare(expected, read_rows(query, committed_lines(out))),
        is_known=True,
    )


JOBS: Mapping[str, tuple[str, Preparation]] = MappingProxyType(
    {
        "word-count": ("Flink's example `WordCount`, from files into files", prepare_word_count),
        "sql": (
            "SQL: event-time windows over `datagen`, a statement set of two sinks",
            prepare_sql,
        ),
        "kafka": ("Kafka to Kafka, exactly-once sink, DataStream", prepare_kafka),
        "kinds": (
            "DataStream: union of three sources, one of the old kind; async I/O; co-location; "
            "a forward edge into keyed state (`reinterpretAsKeyedStream`); max parallelism 1; "
            "side output; `windowAll`; exactly-once files",
            prepare_kinds,
        ),
        "iteration": ("Flink's example `Iteration`", prepare_iteration),
        "batch": ("Flink's example `WordCount` in batch mode", prepare_batch),
        **{
            f"nexmark-{query}": (f"Nexmark's query {query[1:]}", partial(prepare_nexmark, query))
            for query in QUERIES
        },
    }
)


def fetch_example(name: str, home: Path) -> Path:
    """Return a jar of Flink's examples."""
    version = LAST_OF_1 if is_flink_1(home) else NEWEST
    folder = REPOSITORY / "build/downloads"
    jar = folder / f"flink-examples-streaming-{version}-{name}.jar"
    if not jar.exists():
        artifact = f"org.apache.flink:flink-examples-streaming:{version}:jar:{name}"
        command = ["mvn", "-q", "-B", "dependency:copy", f"-Dartifact={artifact}"]
        subprocess.run([*command, f"-DoutputDirectory={folder}"], check=True, timeout=300)
    return jar


def build_kinds(home: Path) -> Path:
    """Build the job `Kinds` for the Flink in this folder; return its jar."""
    old = KINDS / "OldSource.java"
    name = "kinds-2"
    if is_flink_1(home):
        name = "kinds-1"
        text = old.read_text().replace(".source.legacy.", ".source.")  # as the package was called
        old = JARS / name / old.name
        old.parent.mkdir(parents=True, exist_ok=True)
        old.write_text(text)
    sources = [KINDS / "Kinds.java", old]
    return build_jar(sources, JARS / f"{name}.jar", entry_class="Kinds", home=home)


def is_flink_1(home: Path) -> bool:
    [dist] = (home / "lib").glob("flink-dist-*.jar")
    return dist.name.startswith("flink-dist-1.")


def _sources(plan: Plan) -> list[str]:
    fed = {target for _, target in plan.edges}
    return [each for each in plan.operators if each not in fed]


def _files(folder: Path, name: str, columns: str) -> str:
    """Return the statement for a table of files that are committed with every checkpoint."""
    return (
        f"CREATE TABLE {name} ({columns}) WITH ('connector' = 'filesystem',"
        f" 'path' = '{folder / name}', 'format' = 'csv',"
        " 'sink.rolling-policy.rollover-interval' = '1 s',"
        " 'sink.rolling-policy.check-interval' = '500 ms')"
    )


def _rows(folder: Path) -> Iterator[list[str]]:
    """Yield the rows of a table of files; times as `YYYY-MM-DD HH:MM:SS.mmm`."""
    for row in csv.reader(committed_lines(folder)):
        yield [_format_time(datetime.fromisoformat(each)) if ":" in each else each for each in row]


def _format_time(time: datetime) -> str:
    return time.isoformat(sep=" ", timespec="milliseconds")


def _window_of(time: str) -> str:
    """Return when the window of a time begins."""
    at = datetime.fromisoformat(time)
    past = timedelta(seconds=at.second % WINDOW, microseconds=at.microsecond)
    return _format_time(at - past)


def _end_of(times: Sequence[str]) -> str:
    """Return the beginning of the first window that is not compared."""
    if not times:
        return ""
    latest = datetime.fromisoformat(max(times)) - timedelta(seconds=LATEST)
    return _window_of(_format_time(latest))


def _totals(bids: Sequence[Sequence[str]], end: str) -> Counter[tuple[str, ...]]:
    prices: dict[tuple[str, str], list[int]] = defaultdict(list)
    for auction, price, at in bids:
        prices[auction, _window_of(at)].append(int(price))
    return Counter(
        (auction, window, str(len(each)), str(sum(each)))
        for (auction, window), each in prices.items()
        if window < end
    )


def _until(rows: Iterator[list[str]], column: int, end: str) -> Counter[tuple[str, ...]]:
    """Return the rows before an end, by the time in a column."""
    return Counter(tuple(row) for row in rows if row[column] < end)


def _compare(expected: Counter[Compared], found: Counter[Compared]) -> Miscounted:
    return Miscounted(
        lost=(expected - found).total(),
        wrong=(found - expected).total(),
        compared=expected.total(),
    )
