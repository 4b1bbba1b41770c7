"""Formats quantities and deployments, the same in the terminal and in the report."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from weir_policies.model.objective import Statistic

if TYPE_CHECKING:  # most that format something have no experiment
    from weir_simulator.experiment import Bound, Objective

Deployments = Mapping[str, Mapping[str, int]]
"""Replicas of each operator by node type, `pool/size`."""

UNKNOWN = "-"
"""Stands where something could not be measured."""


def seconds(value: float | None) -> str:
    """Return a duration in the unit that people would use: 42 ms, 1.20 s, 5:03 min."""
    if value is None or math.isnan(value):
        return UNKNOWN
    if math.isinf(value):
        return "unbounded"
    if value < 0.0995:
        return f"{value * 1000:.1f} ms" if value < 0.00995 else f"{value * 1000:.0f} ms"
    if value < 0.9995:
        return f"{value * 1000:.0f} ms"
    return f"{value:.2f} s" if value < 59.995 else clock(value)


def objective(bounds: Objective) -> str:
    """Return what a response time must keep, a clause: p95 at most 500 ms, at alerts 100 ms."""
    whole = _at_most(bounds, "at most ")
    return ", ".join([whole, *(f"at {path.sink} {_at_most(path, '')}" for path in bounds.paths)])


def _at_most(bound: Bound, words: str) -> str:
    statistic = "" if bound.statistic is Statistic.MEAN else f"{bound.statistic.word} "
    return f"{statistic}{words}{seconds(bound.response_time)}"


def clock(value: float) -> str:
    """Return a duration as minutes and seconds, 5:03, or with hours, 1:05:03."""
    minutes, rest = divmod(round(value), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def time_of_day(unix: float) -> str:
    """Return the time of day in UTC, 17:05:00."""
    return f"{datetime.fromtimestamp(unix, UTC):%H:%M:%S}"


def rate(value: float) -> str:
    """Return records/s without the unit, three digits at least: 0.42, 42.1, 4,210."""
    if not math.isfinite(value):
        return UNKNOWN
    if value >= 100 or value == 0:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def share(value: float) -> str:
    """Return a share in [0, 1] as percent."""
    return f"{100 * value:.0f} %" if math.isfinite(value) else UNKNOWN


def money(value: float) -> str:
    """Return an amount in the manifest's currency, without a sign: it has none."""
    if not math.isfinite(value):
        return UNKNOWN
    return f"{value:,.2f}" if value >= 10 else f"{value:.3f}" if value >= 0.1 else f"{value:.4f}"


def replicas(deployment: Mapping[str, int]) -> str:
    """Return a deployment as people read it: 2 small/500m + 1 large/1."""
    parts = [f"{count} {name}" for name, count in deployment.items() if count]
    return " + ".join(parts) or "nothing"


def change(before: Deployments, after: Deployments) -> str:
    """Return what differs between two deployments, operator by operator."""
    names = dict.fromkeys((*before, *after))
    return "; ".join(
        f"{name}: {replicas(before.get(name, {}))} → {replicas(after.get(name, {}))}"
        for name in names
        if before.get(name, {}) != after.get(name, {})
    )


def difference(before: Deployments, after: Deployments) -> str:
    """Return only the counts that differ: enrich small/500m 4 → 6, large/1 0 → 1."""
    parts = []
    for name in dict.fromkeys((*before, *after)):
        then, now = before.get(name, {}), after.get(name, {})
        counts = [
            f"{kind} {then.get(kind, 0)} → {now.get(kind, 0)}"
            for kind in dict.fromkeys((*then, *now))
            if then.get(kind, 0) != now.get(kind, 0)
        ]
        if counts:
            parts.append(f"{name} {', '.join(counts)}")
    return "; ".join(parts)


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: 1 restart, 2 restarts."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def plus_minus(mean: float, half_width: float | None, digits: int) -> str:
    """Return a mean and how far the true one may be from it, where that is known: 0.08 ± 0.01."""
    around = "" if half_width is None else f" ± {half_width:.{digits}f}"
    return f"{mean:.{digits}f}{around}"


def outcome(name: str) -> str:
    """Return how a change ended, for people: `rolledBack` reads rolled back."""
    return "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in name)
