"""The direct source: scrapes the reporters itself, for local runs and fast tests.

Every `period` it begins one scrape of each target and waits for none: a target that hangs delays
no other and is not asked again before its time limit. A failed scrape is a sample too (`up` = 0),
as in Prometheus, and samples are stamped with the moment the scrape began, as there.

It keeps what it saw in memory only; after a restart of the controller the window fills anew.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from urllib.parse import urlsplit

import aiohttp
from prometheus_client.parser import text_string_to_metric_families

from weir_operator.errors import TemporaryError, WeirError
from weir_operator.metrics import names
from weir_operator.metrics.ring import SampleRing
from weir_operator.metrics.seam import Window

Targets = Callable[[], Awaitable[Sequence[str]]]
"""Says where the reporters listen now: URLs with or without the path `/metrics`."""

_LOGGER = logging.getLogger(__name__)


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
        self._ring = SampleRing(keep)
        self._failures: Counter[str] = Counter()
        self._scraping: set[str] = set()
        self._lost_targets: WeirError | TimeoutError | None = None
        self._session: aiohttp.ClientSession | None = None
        self._rounds: asyncio.Task[None] | None = None

    @property
    def failures(self) -> Mapping[str, int]:
        """Failed scrapes per target since the start."""
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
        self._lost_targets = None
        free = [target for target in dict.fromkeys(targets) if target not in self._scraping]
        async with asyncio.TaskGroup() as group:
            for target in free:
                group.create_task(self._scrape_target(target))

    async def window(self, *, start: float, end: float) -> Window:
        """Return the samples scraped in [start, end].

        Raises:
            TemporaryError: The window is empty because the targets cannot be listed.
        """
        if self._rounds is not None and self._rounds.done():
            self._rounds.result()  # a fault in the scraping itself must not look like silence
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
                rounds.create_task(self.scrape())
                # A round that is late (the machine slept) is left out, not made up for.
                due = max(due + self._period, loop.time())
                await asyncio.sleep(due - loop.time())

    async def _scrape_target(self, target: str) -> None:
        self._scraping.add(target)
        began = self._clock()
        try:
            page = await self._fetch(target)
            samples = [sample for sample in _samples(page) if self._is_read(sample[1])]
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            self._failures[target] += 1
            if self._failures[target] == 1:
                # A pod that has just begun does not listen yet: data quality tells what matters.
                _LOGGER.info("%s is not scraped: %s", target, str(error) or type(error).__name__)
            samples = []
            up = 0.0
        else:
            up = 1.0
        finally:
            self._scraping.discard(target)
        origin = {"weir_app": self._app, "instance": urlsplit(target).netloc}
        self._ring.add(began, [*samples, (names.UP, origin, up)])

    async def _fetch(self, target: str) -> str:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                timeout=aiohttp.ClientTimeout(total=self._time_limit), raise_for_status=True
            )
        url = target if urlsplit(target).path.strip("/") else f"{target.rstrip('/')}/metrics"
        async with self._session.get(url) as response:
            return await response.text()

    def _is_read(self, labels: Mapping[str, str]) -> bool:
        quantile = labels.get("quantile", names.MARKER_QUANTILE)
        return labels.get("weir_app") == self._app and quantile == names.MARKER_QUANTILE


def _samples(page: str) -> Iterator[tuple[str, Mapping[str, str], float]]:
    """Parse the lines that Weir reads; parsing all 300 would take five times as long."""
    lines = page.splitlines(keepends=True)
    wanted = [line for line in lines if line.partition("{")[0] in names.NAMES]
    for family in text_string_to_metric_families("".join(wanted)):
        for sample in family.samples:
            yield sample.name, sample.labels, sample.value
