"""Counters and gauges of StreamApps, whose series go when the StreamApp does."""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from weir_operator.api.objects import Key

APP = ("namespace", "app")
"""Labels that all series of StreamApps have."""


class AppSeries(Collector):
    """All series of one name, by StreamApp and further labels."""

    def __init__(
        self,
        family: type[CounterMetricFamily | GaugeMetricFamily],
        name: str,
        text: str,
        labels: tuple[str, ...] = (),
    ) -> None:
        """Create it without series.

        Args:
            family: Prometheus' type: `CounterMetricFamily` or `GaugeMetricFamily`.
            name: As it stands on the page.
            text: What it says.
            labels: Names of the labels besides those of the StreamApp.
        """
        self._family = family
        self._name = name
        self._text = text
        self._labels = (*APP, *labels)
        self._values: dict[Key, dict[tuple[str, ...], float]] = {}

    def set(self, key: Key, value: float, *labels: str) -> None:
        """Set the value of a series."""
        self._values.setdefault(key, {})[labels] = float(value)

    def add(self, key: Key, *labels: str, amount: float = 1.0) -> None:
        """Count, from 0 where there is no such series yet."""
        values = self._values.setdefault(key, {})
        values[labels] = values.get(labels, 0.0) + amount

    def replace(self, key: Key, values: Mapping[tuple[str, ...], float]) -> None:
        """Set all series of a StreamApp by their further labels; it has no others any more."""
        self._values[key] = dict(values)

    def show(self, key: Key, value: float, *labels: str) -> None:
        """Set the value of a series, or remove it where the value is unknown."""
        if math.isnan(value):
            self._values.get(key, {}).pop(labels, None)
        else:
            self.set(key, value, *labels)

    def keep(self, key: Key, firsts: Container[str]) -> None:
        """Keep of a StreamApp the series whose first further label is one of these."""
        there = self._values.get(key, {})
        self.replace(key, {labels: value for labels, value in there.items() if labels[0] in firsts})

    def of(self, key: Key) -> Mapping[tuple[str, ...], float]:
        """Return the values of a StreamApp by their further labels."""
        return self._values.get(key, {})

    def forget(self, key: Key) -> None:
        """Remove the series of a StreamApp that is gone."""
        self._values.pop(key, None)

    def collect(self) -> Iterable[Metric]:
        """Return all series as they are now."""
        found = self._family(self._name, self._text, labels=self._labels)
        # Copies: the page is written in another thread than the one that counts.
        for key, values in [*self._values.items()]:
            for labels, value in [*values.items()]:
                found.add_metric((key.namespace, key.name, *labels), value)
        return (found,)
