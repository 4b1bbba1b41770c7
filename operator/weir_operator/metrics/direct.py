"""The direct source: scrapes the reporters itself, for local runs and fast tests.

Every `period`, it starts one scrape of each target without waiting for the others: a target that
hangs delays no other, and is not asked again before its time limit. A failed scrape is a sample too
(`up` = 0), as in Prometheus, and a sample's time is the start of its scrape.

It keeps samples only in memory, limited by age and by the number of series; after a restart of the
controller, the window fills again.

Processes of the job write the pages, and the job belongs to somebody else. So a page is read up to
a limit, large ones are parsed in a thread, a StreamApp may have a limited number of series with a
limited length of labels, and one whose pages take long to parse is scraped less often. Exceeding a
limit is an error of the window: a part of the series would look like all.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import logging
import math
import re
import time
from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import aiohttp
from prometheus_client.parser import text_string_to_metric_families

from weir_operator.accounts import current_account
from weir_operator.errors import TemporaryError, WeirError
from weir_operator.limits import (
    INLINE,
    LABELS_PER_SERIES,
    MAX_LABELS,
    MAX_LINE,
    MAX_PAGE,
    MAX_SERIES,
    Raw,
    TooLargeError,
    decompress,
    open_session,
    read_raw,
)
from weir_operator.metrics import names
from weir_operator.metrics.source import Series, Window

_Key = tuple[str, tuple[tuple[str, str], ...]]
_SWEEPS = 60
"""Looks for series that have ended, in the time that samples are kept."""


@dataclass(slots=True)
class _Track:
    labels: Mapping[str, str]
    times: array[float] = field(default_factory=lambda: array("d"))
    """Rising. Eight bytes each, where a list would have its objects besides: 10 KiB of ten minutes
    at a second, instead of 40."""
    values: array[float] = field(default_factory=lambda: array("d"))

    def drop(self, before: float) -> None:
        """Drop the samples of before a time."""
        first = bisect_left(self.times, before)
        del self.times[:first], self.values[:first]


class SampleRing:
    """Samples of many series, each dropped once it is older than `keep` seconds."""

    def __init__(self, keep: float, *, most: float = math.inf) -> None:
        """Begin empty; no more than `most` series are kept, with labels of `LABELS_PER_SERIES`."""
        self._keep = keep
        self._most = most
        self._most_characters = most * LABELS_PER_SERIES
        self._characters = 0  # of the labels of all series
        self._tracks: dict[_Key, _Track] = {}
        self._swept = -math.inf

    def add(self, time: float, samples: Iterable[tuple[str, Mapping[str, str], float]]) -> int:
        """Add samples (name, labels, value) of one moment and drop what has become too old.

        Of two samples of a series at one moment the first is kept, as Prometheus does. Samples
        that are newer than `time` are from a clock that was set back, and go.

        Returns:
            How many were left out, being of a series too many, or of one with too long labels.
        """
        oldest = time - self._keep
        if abs(time - self._swept) >= self._keep / _SWEEPS:
            self._sweep(oldest)
            self._swept = time
        left_out = 0
        for name, labels, value in samples:
            key = (name, tuple(sorted(labels.items())))
            track = self._tracks.get(key)
            if track is None:
                characters = _length(labels)
                if (
                    len(self._tracks) >= self._most
                    or self._characters + characters > self._most_characters
                ):
                    left_out += 1
                    continue
                self._characters += characters
                track = self._tracks[key] = _Track(dict(labels))
            later = bisect_right(track.times, time)
            del track.times[later:], track.values[later:]
            if not track.times or track.times[-1] < time:
                track.times.append(time)
                track.values.append(value)
            track.drop(oldest)
        return left_out

    def window(self, start: float, end: float) -> Window:
        """Return what was sampled in [start, end]."""
        found = []
        for (name, _), track in self._tracks.items():
            first, last = bisect_left(track.times, start), bisect_right(track.times, end)
            if first < last:
                found.append(
                    Series(
                        name=name,
                        labels=track.labels,
                        times=tuple(track.times[first:last]),
                        values=tuple(track.values[first:last]),
                    )
                )
        return Window(start=start, end=end, series=tuple(found))

    def _sweep(self, before: float) -> None:
        for key, track in list(self._tracks.items()):
            track.drop(before)
            if not track.times:
                del self._tracks[key]
                self._characters -= _length(track.labels)


def _length(labels: Mapping[str, str]) -> int:
    return sum(len(name) + len(value) for name, value in labels.items())


Targets = Callable[[], Awaitable[Sequence[str]]]
"""Says where the reporters listen now: URLs with or without the path `/metrics`."""

MAX_SHARE = 0.1
"""Of a processor, for parsing the pages of one StreamApp."""
UNHEARD = 60
"""Failed scrapes after which the log names a target that does not listen."""
_PARSED_INLINE = 32 * 1024
"""Bytes of series that are parsed in the event loop; the slowest take 20 ms."""
_EXPECTED = (TooLargeError, aiohttp.ClientError, OSError, ValueError)

_LOGGER = logging.getLogger(__name__)

_Sample = tuple[str, Mapping[str, str], float]


class DirectSource:
    """Scrapes Flink's reporters over HTTP; a `MetricsSource`.

    Args:
        targets: Asked before every round, so that added replicas are scraped within a period.
        app: The StreamApp as its processes' label `weir_app` has it, before Flink mangles it;
            samples of other apps (a port used again) are dropped.
        period: Seconds between the beginnings of two rounds.
        time_limit: Seconds that one scrape, or asking for the targets, may take.
        keep: Seconds that samples are kept; a longer window comes back short.
        clock: Unix seconds.
    """

    def __init__(
        self,
        targets: Targets,
        app: str,
        *,
        period: float = 1.0,
        time_limit: float = 3.0,
        keep: float = 600.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._targets = targets
        self._app = names.mangle(app)
        self._period = period
        self._time_limit = time_limit
        self._clock = clock
        self._ring = SampleRing(keep, most=MAX_SERIES)
        self._failures: Counter[str] = Counter()
        self._named: set[str] = set()  # targets whose failure is in the log
        self._account = current_account()
        self._left_out = -math.inf  # when samples were last left out, of series too many
        self._spent = 0.0  # seconds of processor time for parsing since the last round
        self._scraping: set[str] = set()
        self._lost_targets: WeirError | TimeoutError | None = None
        self._session: aiohttp.ClientSession | None = None
        self._rounds: asyncio.Task[None] | None = None

    @property
    def failures(self) -> Mapping[str, int]:
        """Failed scrapes per existing target."""
        return dict(self._failures)

    def start(self) -> None:
        """Begin to scrape in the background; needs a running event loop. Again is no change."""
        if self._rounds is None:
            self._rounds = asyncio.create_task(self._run(), name="weir-scrape")

    async def scrape(self) -> None:
        """Scrape every target once, now, and wait until each has answered or failed."""
        try:
            targets = await asyncio.wait_for(self._targets(), self._time_limit)
        except (WeirError, TimeoutError) as error:
            if self._lost_targets is None:
                cause = str(error) or type(error).__name__
                _LOGGER.warning("The targets of %s cannot be listed: %s", self._app, cause)
            self._lost_targets = error
            return
        except Exception as error:  # a defect of one round must not end those that follow
            _LOGGER.exception("The targets of %s cannot be listed", self._app)
            self._lost_targets = TemporaryError(f"{type(error).__name__}: {error}")
            return
        self._lost_targets = None
        self._forget_all_but(targets)
        async with asyncio.TaskGroup() as group:
            for target in dict.fromkeys(targets):
                if target not in self._scraping and not self._account.is_paused(target):
                    group.create_task(self._scrape_target(target))

    async def window(self, *, start: float, end: float) -> Window:
        """Return the samples scraped in [start, end].

        Raises:
            TemporaryError: The window is empty because the targets cannot be listed, or the targets
                offer more than is read.
        """
        if self._rounds is not None and self._rounds.done():
            self._rounds.result()  # a fault in the scraping itself must not look like silence
        self._check_limits(since=start)
        window = self._ring.window(start, end)
        if self._lost_targets is not None and not window.series:
            raise TemporaryError(
                f"Expected the metrics targets of {self._app}, got: {self._lost_targets}"
            ) from self._lost_targets
        return window

    async def close(self) -> None:
        """Stop scraping and close the connections."""
        rounds, self._rounds = self._rounds, None
        try:
            if rounds is not None:
                rounds.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await rounds
        finally:
            # Not before: a scrape that is not cancelled yet would open another session.
            session, self._session = self._session, None
            if session is not None:
                await session.close()

    async def _run(self) -> None:
        """Begin a round every period, whether or not the last one is over."""
        loop = asyncio.get_running_loop()
        due = loop.time()
        async with asyncio.TaskGroup() as rounds:
            while True:
                spent, self._spent = self._spent, 0.0
                rounds.create_task(self.scrape())
                # A round that is late (the machine slept) is left out, not made up for.
                due = max(due + max(self._period, spent / MAX_SHARE), loop.time())
                await asyncio.sleep(due - loop.time())

    def _forget_all_but(self, targets: Sequence[str]) -> None:
        """Drop everything about targets that are gone: each new pod has another address."""
        for target in self._failures.keys() - set(targets):
            del self._failures[target]
            self._account.forget(target)
        self._named &= set(targets)

    def _check_limits(self, since: float) -> None:
        """Return if everything that was offered since a Unix time was read."""
        for target in self._failures:
            if refusal := self._account.refusal_of(target):
                raise TooLargeError(refusal)
        if self._left_out >= since:
            raise TemporaryError(
                f"Expected at most {MAX_SERIES} series of {self._app}, with labels of "
                f"{LABELS_PER_SERIES} characters on average, got more: run fewer replicas, "
                "or let a Prometheus server scrape them and name it in `prometheus.url`"
            )

    async def _scrape_target(self, target: str) -> None:
        self._scraping.add(target)
        began = self._clock()
        samples: Sequence[_Sample] = ()
        up = 0.0
        try:
            samples = await self._sample(target)
            up = 1.0
        except Exception as error:  # also the parser's own, of a page that it did not expect
            self._note_failure(target, error)
        finally:
            self._scraping.discard(target)
        origin = {"weir_app": self._app, "instance": urlsplit(target).netloc}
        with self._counting():
            if self._ring.add(began, [*samples, (names.UP, origin, up)]):
                self._left_out = began

    def _note_failure(self, target: str, error: Exception) -> None:
        self._failures[target] += 1
        # A pod that has just begun does not listen yet, which is no news.
        awaited = isinstance(error, aiohttp.ClientConnectorError)
        early = awaited and self._failures[target] < UNHEARD
        if target not in self._named and not early:
            self._named.add(target)
            reason = str(error) or type(error).__name__
            defect = not isinstance(error, _EXPECTED)
            _LOGGER.info("%s is not scraped: %.200s", target, reason, exc_info=defect)

    async def _sample(self, target: str) -> Sequence[_Sample]:
        page = f"the metrics page of {urlsplit(target).netloc}"
        with self._account.asking(target, page) as hold:
            raw = await self._fetch(target, hold)
            with contextlib.suppress(TooLargeError), self._counting():
                lines = _select(decompress(raw, INLINE))
                if len(lines) <= _PARSED_INLINE:
                    return self._parse(lines)
            return await self._account.parse(lambda: self._parse_large(raw))

    async def _fetch(self, target: str, hold: Callable[[int], None]) -> Raw:
        if self._session is None:
            self._session = open_session(timeout=self._time_limit)
        url = target if urlsplit(target).path.strip("/") else f"{target.rstrip('/')}/metrics"
        async with self._session.get(url, allow_redirects=False) as response:
            if response.status != 200:
                raise ValueError(f"status {response.status}")
            return await read_raw(response, MAX_PAGE, hold=hold)

    def _parse_large(self, raw: Raw) -> list[_Sample]:
        """Do as `_parse` does with a whole page, up to the limits."""
        with self._counting():
            return self._parse(_select(decompress(raw, MAX_PAGE)))

    def _parse(self, lines: bytes) -> list[_Sample]:
        return [sample for sample in _samples(lines) if self._is_read(sample[1])]

    @contextlib.contextmanager
    def _counting(self) -> Iterator[None]:
        began = time.thread_time()
        try:
            yield
        finally:
            self._spent += time.thread_time() - began

    def _is_read(self, labels: Mapping[str, str]) -> bool:
        quantile = labels.get("quantile", names.MARKER_QUANTILE)
        return labels.get("weir_app") == self._app and quantile == names.MARKER_QUANTILE


def _select(page: bytes) -> bytes:
    """Return the lines that Weir reads; parsing all 300 would take five times as long."""
    wanted: list[bytes] = []
    for line in io.BytesIO(page):  # not all lines at once: there may be millions
        name = line.partition(b"{")[0]
        if name not in _NAMES and not _NESTED.fullmatch(name):
            continue
        if len(line) > MAX_LINE:
            raise TooLargeError(f"it has a line of more than {MAX_LINE} bytes")
        if line.count(b'"') > 2 * MAX_LABELS:
            raise TooLargeError(f"it has a line of more than {MAX_LABELS} labels")
        if len(wanted) == MAX_SERIES:
            raise TooLargeError(f"it has more than {MAX_SERIES} series")
        wanted.append(line)
    return b"".join(wanted)


def _samples(lines: bytes) -> Iterator[_Sample]:
    for family in text_string_to_metric_families(lines.decode()):
        for sample in family.samples:
            name, labels = names.read_name(sample.name, sample.labels)
            # The names are those of the program, not another text for each line.
            kept = {name: labels[name] for name in names.LABELS if name in labels}
            yield _NAMES[name.encode()], kept, sample.value


_NAMES = {name.encode(): name for name in names.NAMES}
_NESTED = re.compile(names.NESTED.encode())
