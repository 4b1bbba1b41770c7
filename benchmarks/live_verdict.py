"""What the runs of `live` come to: means of the arms, and the tuned one against each of the others.

Arms are compared in pairs of the same job, trace and repeat, whose arrivals are equal. Intervals
hold 95 % of bootstrap resamples of the pairs; there are none from a single pair.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from rich.table import Table
from scipy.stats import bootstrap

from benchmarks.figures import Figure, at_most
from benchmarks.live_apps import LINES, Arm
from benchmarks.live_runs import Outcome
from weir_policies.model.arrays import Floats

EQUAL_VIOLATIONS = 100 / LINES
"""Points of a percent within which two arms miss the bound equally often: one interval of a run."""
SEED = 1


def figures_of(outcomes: Sequence[Outcome]) -> Iterator[Figure]:
    """Yield the figures of all runs so far, of each job and trace and of all of these."""
    cells: dict[str, list[Outcome]] = {}
    for each in outcomes:
        cells.setdefault(f"{each.app} on {each.trace}", []).append(each)
    if len(cells) > 1:
        cells["all"] = list(outcomes)
    for cell, of_cell in cells.items():
        yield from _tell(cell, of_cell)
    if outcomes:
        yield at_most(
            figure="load of the machine, worst run: above this the runs tell of the machine",
            value=max(each.load for each in outcomes),
            unit="processes",
            limit=2.0 * (os.cpu_count() or 1),
        )


def _tell(cell: str, outcomes: Sequence[Outcome]) -> Iterator[Figure]:
    """Yield what came of the arms, and of the tuned one against the others."""
    for arm in Arm:
        mine = [each for each in outcomes if each.arm == arm]
        if not mine:
            continue
        yield Figure(figure=f"{cell}, {arm}: runs", value=len(mine), unit="")
        for name, unit, value in _MEASURES:
            mean = statistics.fmean(value(each) for each in mine)
            yield Figure(figure=f"{cell}, {arm}: {name}", value=mean, unit=unit)
        wrong = [each.wrong for each in mine if each.wrong is not None]
        if wrong:
            yield at_most(
                figure=f"{cell}, {arm}: records lost or doubled", value=sum(wrong), unit="", limit=0
            )
    for other in Arm:
        pairs = pair_up(outcomes, Arm.TUNED, other)
        if other is not Arm.TUNED and pairs:
            yield from _compare(cell, other, pairs)


def pair_up(outcomes: Sequence[Outcome], one: Arm, other: Arm) -> Sequence[tuple[Outcome, Outcome]]:
    """Return the outcomes of two arms on equal arrivals, in order of the first."""
    others = {each.pair: each for each in outcomes if each.arm == other}
    return [
        (each, others[each.pair]) for each in outcomes if each.arm == one and each.pair in others
    ]


def interval_of(values: Floats) -> tuple[float, float] | None:
    """Return the 95 % bootstrap interval of the mean; `None` for fewer than two values.

    Args:
        values: One per pair, shape `(n,)`.
    """
    if values.size < 2:
        return None
    if np.ptp(values) == 0:  # every resample is the same, which bootstrap answers with NaN
        return float(values[0]), float(values[0])
    found = bootstrap(
        (values,), np.mean, method="percentile", rng=np.random.default_rng(SEED)
    ).confidence_interval
    return float(found.low), float(found.high)


def tabulate(outcomes: Sequence[Outcome]) -> Table:
    """Return every run as a row."""
    table = Table(title=f"{LINES} intervals a run")
    table.add_column("job, trace, repeat")
    table.add_column("arm")
    headings = ("judged", "over the bound", "cost/h", "restarts", "resizes", "waiting", "load")
    for heading in headings:
        table.add_column(heading, justify="right")
    for each in outcomes:
        table.add_row(
            f"{each.app}, {each.trace}, {each.repeat}",
            each.arm,
            str(each.judged),
            f"{each.violations:.1%}",
            f"{each.cost:.3f}",
            str(each.restarts),
            str(each.resizes),
            "-" if each.waiting is None else f"{each.waiting:.0f}",
            f"{each.load:.1f}",
        )
    return table


def _compare(cell: str, other: Arm, pairs: Sequence[tuple[Outcome, Outcome]]) -> Iterator[Figure]:
    """Yield the tuned arm's cost and violations against another's, and how sure they are."""
    costs = np.array([100 * tuned.cost / theirs.cost for tuned, theirs in pairs])
    missed = np.array([100 * (tuned.violations - theirs.violations) for tuned, theirs in pairs])
    measures = (("cost", costs, "%", 100.0), ("misses more", missed, "points", EQUAL_VIOLATIONS))
    for name, values, unit, limit in measures:
        figure = f"{cell}, {Arm.TUNED} against {other}: {name}, mean of {len(pairs)} pairs"
        mean, interval = float(values.mean()), interval_of(values)
        if interval is None:
            yield at_most(figure=figure, value=mean, unit=unit, limit=limit)
            continue
        low, high = interval
        yield Figure(figure=figure, value=mean, unit=unit)
        yield Figure(figure=f"{figure}, lower end of 95 %", value=low, unit=unit)
        yield at_most(figure=f"{figure}, upper end of 95 %", value=high, unit=unit, limit=limit)


_MEASURES: Sequence[tuple[str, str, Callable[[Outcome], float]]] = (
    ("cost per hour", "currency", lambda each: each.cost),
    ("intervals over the bound", "%", lambda each: 100 * each.violations),
    ("intervals judged", "", lambda each: each.judged),
    ("restarts", "", lambda each: each.restarts),
    ("resizes", "", lambda each: each.resizes),
)
