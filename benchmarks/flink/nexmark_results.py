"""What the queries of `examples/nexmark` must give, computed from the events, without Flink.

A query that Flink runs ends with what its watermark lets it know: a window gives its rows when the
watermark has reached its last millisecond, an auction of query 6 when it has reached its end.
"""

from __future__ import annotations

import os
import subprocess
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType

from weir_operator.flink.jars import (
    HELPER,
    JARS,
    REPOSITORY,
    build_jar,
    class_path,
    find_java,
)

Row = tuple[int | str, ...]
"""A row of a result; times in Unix ms, prices in euros in thousandths."""
Rows = Counter[Row]

SECOND = 1000
WINDOW, SLIDE, PAUSE = 10 * SECOND, 2 * SECOND, 10 * SECOND
LAST = 10
"""Auctions of a seller that count in query 6."""
STATES = ("OR", "ID", "CA")
CATEGORY = 10
COLUMNS: Mapping[str, str] = MappingProxyType(
    {
        "q0": "iiits",
        "q1": "iidts",
        "q2": "ii",
        "q3": "sssi",
        "q4": "ii",
        "q5": "iit",
        "q6": "ii",
        "q7": "iiit",
        "q8": "ist",
        "q11": "iitt",
    }
)
"""Of each query: `i` for a number, `d` for three decimals, `t` for a time, `s` for text."""
QUERIES = tuple(COLUMNS)


@dataclass(frozen=True, kw_only=True, slots=True)
class Person:
    """Somebody who registers."""

    id: int
    time: int
    name: str
    city: str
    state: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Auction:
    id: int
    time: int
    seller: int
    category: int
    expires: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Bid:
    auction: int
    time: int
    bidder: int
    price: int
    extra: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Input:
    """What a job of the example is given."""

    rate: float
    """Events/s."""
    seconds: float
    """For so long; nothing comes afterwards."""
    start: int
    """When the first second begins, Unix ms."""
    seed: int = 7
    auction_seconds: int = 20

    def arguments(self, query: str, folder: Path) -> list[str]:
        """Return the job's arguments; its trace is written into the folder."""
        trace = folder / "trace.txt"
        trace.write_text(f"{self.rate:g}\n0\n")
        return [
            *("--query", query, "--trace", str(trace), "--slot-seconds", f"{self.seconds:g}"),
            *("--start-at", str(self.start), "--seed", str(self.seed)),
            *("--auction-seconds", str(self.auction_seconds)),
        ]


@dataclass(kw_only=True)
class Events:
    """All events of a run, each kind in the order of its times."""

    persons: list[Person] = field(default_factory=list)
    auctions: list[Auction] = field(default_factory=list)
    bids: list[Bid] = field(default_factory=list)

    @property
    def watermark(self) -> int:
        """The last that the source gives: a millisecond before the last event."""
        return max(part[-1].time for part in (self.persons, self.auctions, self.bids) if part) - 1


def list_events(given: Input) -> Events:
    """Return the events that the job's generator makes of an input."""
    sources = [
        path
        for name in ("trips", "nexmark")
        for path in sorted((REPOSITORY / "examples" / name).glob("*.java"))
    ]
    lister = REPOSITORY / "benchmarks/jobs/ListEvents.java"
    jar = build_jar([HELPER, *sources, lister], JARS / "nexmark-events.jar")
    told = subprocess.run(
        [
            *(str(find_java()), "-cp", os.pathsep.join([str(jar), class_path()])),
            *("example.ListEvents", f"{given.rate:g}", f"{given.seconds:g}", str(given.seed)),
            *(str(given.auction_seconds), str(given.start)),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    ).stdout
    events = Events()
    for line in told.splitlines():
        time, kind, *columns = line.split("\t")
        if kind == "person":
            number, name, city, state = columns
            events.persons.append(
                Person(id=int(number), time=int(time), name=name, city=city, state=state)
            )
        elif kind == "auction":
            auction, seller, category, expires = map(int, columns)
            events.auctions.append(
                Auction(
                    id=auction, time=int(time), seller=seller, category=category, expires=expires
                )
            )
        else:
            wanted, bidder, price, extra = columns
            events.bids.append(
                Bid(
                    auction=int(wanted),
                    time=int(time),
                    bidder=int(bidder),
                    price=int(price),
                    extra=extra,
                )
            )
    return events


def read_rows(query: str, lines: Iterable[str]) -> Rows:
    """Return the rows that are left of the changes that a job has written."""
    columns = COLUMNS[query]
    rows = Rows()
    for line in lines:
        kind, *fields = line.split(",")
        row = tuple(_read(column, text) for column, text in zip(columns, fields, strict=True))
        rows[row] += 1 if kind in ("+I", "+U") else -1
    return Rows({row: count for row, count in rows.items() if count})


def _read(column: str, text: str) -> int | str:
    if column == "i":
        return int(text)
    if column == "d":
        return int(SECOND * Decimal(text))
    if column == "t":
        return round(SECOND * datetime.fromisoformat(text.rstrip("Z") + "+00:00").timestamp())
    return text


def expected_rows(query: str, events: Events) -> Rows:
    """Return the rows that a query must give of these events."""
    return Rows(_RESULTS[query](events))


def _bids(events: Events) -> Iterator[Row]:
    return ((each.auction, each.bidder, each.price, each.time, each.extra) for each in events.bids)


def _euros(events: Events) -> Iterator[Row]:
    return (
        (each.auction, each.bidder, 908 * each.price, each.time, each.extra) for each in events.bids
    )


def _some_auctions(events: Events) -> Iterator[Row]:
    return ((each.auction, each.price) for each in events.bids if each.auction % 123 == 0)


def _local_sellers(events: Events) -> Iterator[Row]:
    persons = {each.id: each for each in events.persons if each.state in STATES}
    for auction in events.auctions:
        person = persons.get(auction.seller)
        if person is not None and auction.category == CATEGORY:
            yield person.name, person.city, person.state, auction.id


def _mean_by_category(events: Events) -> Iterator[Row]:
    finals: defaultdict[int, list[int]] = defaultdict(list)
    for auction, prices in _prices_in_time(events):
        if prices:
            finals[auction.category].append(max(prices))
    return ((category, sum(each) // len(each)) for category, each in finals.items())


def _hot_items(events: Events) -> Iterator[Row]:
    windows: defaultdict[int, Counter[int]] = defaultdict(Counter)
    for bid in events.bids:
        first = bid.time - bid.time % SLIDE + SLIDE
        for end in range(first, first + WINDOW, SLIDE):
            windows[end][bid.auction] += 1
    for end, counts in windows.items():
        if end - 1 <= events.watermark:
            most = max(counts.values())
            for auction, count in counts.items():
                if count == most:
                    yield auction, count, end


def _mean_of_seller(events: Events) -> Iterator[Row]:
    sold: defaultdict[int, deque[int]] = defaultdict(lambda: deque(maxlen=LAST))
    for auction, prices in sorted(
        _prices_in_time(events), key=lambda each: (each[0].expires, each[0].id)
    ):
        if prices and auction.expires <= events.watermark:
            last = sold[auction.seller]
            last.append(max(prices))
            yield auction.seller, sum(last) // len(last)


def _highest_bids(events: Events) -> Iterator[Row]:
    windows: defaultdict[int, list[Bid]] = defaultdict(list)
    for bid in events.bids:
        windows[_end_of(bid.time)].append(bid)
    for end, bids in windows.items():
        if end - 1 <= events.watermark:
            highest = max(each.price for each in bids)
            for bid in bids:
                if bid.price == highest:
                    yield bid.auction, bid.price, bid.bidder, end


def _new_sellers(events: Events) -> Iterator[Row]:
    sellers = {(each.seller, _end_of(each.time)) for each in events.auctions}
    for person in events.persons:
        end = _end_of(person.time)
        if (person.id, end) in sellers and end - 1 <= events.watermark:
            yield person.id, person.name, end - WINDOW


def _sessions(events: Events) -> Iterator[Row]:
    times: defaultdict[int, list[int]] = defaultdict(list)
    for bid in events.bids:
        times[bid.bidder].append(bid.time)
    for bidder, each in times.items():
        for session in _split(each):
            end = session[-1] + PAUSE
            if end - 1 <= events.watermark:
                yield bidder, len(session), session[0], end


def _split(times: Sequence[int]) -> Iterator[list[int]]:
    """Split times into sessions: windows that touch are one."""
    session: list[int] = []
    for time in times:
        if session and time - session[-1] > PAUSE:
            yield session
            session = []
        session.append(time)
    yield session


def _prices_in_time(events: Events) -> list[tuple[Auction, list[int]]]:
    """Return the prices offered for every auction until it closed."""
    auctions = {each.id: (each, list[int]()) for each in events.auctions}
    for bid in events.bids:
        auction, prices = auctions[bid.auction]
        if auction.time <= bid.time <= auction.expires:
            prices.append(bid.price)
    return list(auctions.values())


def _end_of(time: int) -> int:
    return time - time % WINDOW + WINDOW


_RESULTS: Mapping[str, Callable[[Events], Iterator[Row]]] = MappingProxyType(
    {
        "q0": _bids,
        "q1": _euros,
        "q2": _some_auctions,
        "q3": _local_sellers,
        "q4": _mean_by_category,
        "q5": _hot_items,
        "q6": _mean_of_seller,
        "q7": _highest_bids,
        "q8": _new_sellers,
        "q11": _sessions,
    }
)
