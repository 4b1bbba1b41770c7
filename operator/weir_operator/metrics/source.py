"""The protocol of a metrics source: raw time series, whatever their origin.

A source returns the samples of one StreamApp's Flink processes inside a window, as they were
scraped; `measurement` interprets them. The direct source (scrapes the reporters itself) and the
Prometheus source return the same series, and one contract suite tests both.

Every series of Weir's TaskManagers has the labels `weir_app`, `weir_operator`, `weir_pool`
and `tm_id` (set through `metrics.reporter.prom.scope.variables.additional`; Flink replaces
every character of a value except letters, digits, `_` and `:` by `_`). A Prometheus server sets its
own `weir_app`, `namespace/name`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, kw_only=True, slots=True)
class Series:
    """One time series, samples in order of time."""

    name: str
    labels: Mapping[str, str]
    times: tuple[float, ...]
    """Unix seconds at which each sample was scraped, rising."""
    values: tuple[float, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Window:
    """All series of one StreamApp with at least one sample in [start, end]."""

    start: float
    end: float
    series: tuple[Series, ...]


class MetricsSource(Protocol):
    """The source of samples."""

    async def window(self, *, start: float, end: float) -> Window:
        """Return the samples scraped in [start, end], Unix seconds.

        Raises:
            TemporaryError: The source did not answer in time or refused.
        """
        ...

    async def close(self) -> None:
        """Stop scraping and release connections."""
