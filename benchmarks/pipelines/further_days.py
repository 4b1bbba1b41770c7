"""What a further day of history takes, without the time that a run takes to start."""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks.figures import Figure, at_most

MIN_A_DAY = 0.1
"""Seconds: what differs less is the start's noise, and too few operators to judge by."""


def further_day(seconds: Mapping[int, float]) -> float:
    """Return the seconds that each day beyond the first takes, by runs over so many days."""
    first, last = min(seconds), max(seconds)
    return (seconds[last] - seconds[first]) / max(1, last - first)


def compare_further_days(who: str, seconds: Mapping[int, float]) -> Figure:
    """Return what a further day takes late in a history beside what it takes early.

    Args:
        who: How the figure's name begins.
        seconds: Of runs over three numbers of days.
    """
    one, middle, whole = sorted(seconds)
    figure = f"{who}: a day from {middle} to {whole} days beside one from {one} to {middle}"
    early = (seconds[middle] - seconds[one]) / (middle - one)
    late = (seconds[whole] - seconds[middle]) / (whole - middle)
    if early < MIN_A_DAY:
        return Figure(figure=figure, value=None, unit="times")
    return at_most(figure=figure, value=late / early, unit="times", limit=1.2)
