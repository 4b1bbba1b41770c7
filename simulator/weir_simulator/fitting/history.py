"""Weeks of a job's history, and a simulator fitted to them. Pure.

History has service times and source-to-sink times over minutes, but not what a single operator
takes or how long a change took; `fit` works without these. Its rates are finer than its samples and
reach further back than what a controller remembers, so they make the trace, which continues with
what was measured since.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date, timedelta

import numpy as np

from weir_policies.model.arrays import Floats
from weir_policies.model.dataflow import Dataflow
from weir_policies.model.season import Season
from weir_simulator.errors import FitError
from weir_simulator.fitting.description import common_rates
from weir_simulator.fitting.fit import Fit, fit
from weir_simulator.fitting.flow import ArrivalTrace, trace_stretches
from weir_simulator.fitting.quality import TOLERANCE
from weir_simulator.fitting.samples import IntervalSample, OperatorSample, Samples
from weir_simulator.fitting.structure import Structure
from weir_simulator.traces import Trace

MINUTE, DAY = 60.0, 86_400.0
EPOCH = date(1970, 1, 1)


@dataclass(frozen=True, kw_only=True, slots=True)
class History:
    """What is kept of one job."""

    samples: Samples
    """Of all days that are used."""
    begin: float
    """Unix seconds at which the rates begin."""
    rates: Mapping[str, Floats]
    """Records/s that arrived at each operator, one per minute of neighbouring days, shape `(m,)`;
    NaN if unknown."""
    seasons: Mapping[str, Season]
    """What usually arrives at an operator, by name, hours of the week in UTC; of those for which it
    is known."""
    used: tuple[date, ...]
    """Days, in order."""
    left_out: Mapping[date, str]
    """Days that are there and not used, with the reason in words for people."""
    unsized: tuple[str, ...] = ()
    """Pools of which nobody knows what size ran there: an operator that did is in no sample of that
    time, and its rates are."""
    barred: tuple[str, ...] = ()
    """Pools where operators ran that may not any more: of that time it is as with `unsized`."""
    unsampled: tuple[date, ...] = ()
    """Days, in order, that are used for their rates alone, because samples of all would take too
    much memory."""

    @property
    def end(self) -> float:
        """Unix seconds at which the rates end, and at most the samples."""
        return self.begin + MINUTE * max(len(each) for each in self.rates.values())

    @property
    def partial(self) -> bool:
        """Whether an operator may be in no sample of a time of which its rates are known."""
        return bool(self.unsized or self.barred)

    def since(self, time: float) -> History:
        """Return what is of later than a Unix time, such as that at which the job has drifted."""
        gone = max(0, math.ceil((time - self.begin) / MINUTE))
        over = [day for day in self.used if (day - EPOCH).days * DAY + DAY <= time]
        return replace(
            self,
            used=tuple(day for day in self.used if day not in over),
            unsampled=tuple(day for day in self.unsampled if day not in over),
            left_out={**self.left_out, **dict.fromkeys(over, "before the job was last changed")},
            samples=self.samples.since(time),
            begin=self.begin + MINUTE * gone,
            rates={name: each[gone:] for name, each in self.rates.items()},
        )

    def within(self, structure: Structure) -> History:
        """Return what is of operators on pools that they may use now, and all of the traffic."""
        usable = {
            name: {each.name for each in model.node_types}
            for name, model in structure.models.items()
        }
        barred = set(self.barred)
        intervals: list[IntervalSample] = []
        for interval in self.samples.intervals:
            kept: dict[str, OperatorSample] = {}
            for name, sample in interval.operators.items():
                beyond = sample.deployment.keys() - usable.get(name, set())
                barred.update(each.partition("/")[0] for each in beyond)
                if not beyond:
                    kept[name] = sample
            if len(kept) == len(interval.operators):
                intervals.append(interval)
            elif kept:
                intervals.append(replace(interval, operators=kept))
        samples = replace(self.samples, intervals=tuple(intervals))
        return replace(self, samples=samples, barred=tuple(sorted(barred)))

    @property
    def only_traffic(self) -> str:
        """Of what only the traffic is known, for people; empty where more is of everything."""
        said = []
        if self.unsized:
            said.append(
                f"only the traffic of what ran on {', '.join(self.unsized)}, because "
                "history distinguishes pools but not sizes"
            )
        if self.barred:
            said.append(
                f"only the traffic of what ran on {', '.join(self.barred)}, because its "
                "operators may no longer run there"
            )
        if self.unsampled:
            said.append(
                f"only the traffic of {len(self.unsampled)} days, {self.unsampled[0]} to "
                f"{self.unsampled[-1]}, because service times of so many operators come "
                "only from the last days"
            )
        return "; ".join(said)

    @property
    def sentence(self) -> str:
        """Which days it holds and which it does not, for people."""
        days, first = int((self.end - self.begin) / DAY), EPOCH + timedelta(seconds=self.begin)
        said = f"Days of history used: {len(self.used)}, {self.used[0]} to {self.used[-1]}"
        if days < len(self.used):
            said += f"; days of traffic, without a hole between them: {days}, from {first} on"
        if self.only_traffic:
            said += f"; {self.only_traffic}"
        if self.left_out:
            listed = "; ".join(f"{day}: {why}" for day, why in sorted(self.left_out.items()))
            said += f". Left out: {listed}"
        return said


def fit_history(
    history: History, structure: Structure, *, slot: float, recent: Samples | None = None
) -> Fit:
    """Fit a job to its history, and to what was measured since.

    Args:
        history: What is kept of it.
        structure: The job as specified.
        slot: Seconds between two decisions in the experiment.
        recent: What the controller itself has measured. It knows more of an interval, so the
            history counts only up to where it begins.

    Raises:
        FitError: As of `fit`.
    """
    own = Samples(intervals=()) if recent is None else recent
    return add_traffic(fit(_join(history.samples, own), structure, slot=slot), history, own)


def is_traffic_alone(history: History, fitted: Fit | None) -> bool:
    """Return whether a history gives its traffic and nothing else.

    It does where it lacks samples of some operators, and those that it has make no fit that could
    be judged.

    Args:
        history: What is kept of a job.
        fitted: What came of fitting to it; `None` where nothing could be fitted.
    """
    # NaN too, where nothing was judged.
    return history.partial and (fitted is None or not fitted.quality.chance <= TOLERANCE)


def add_traffic(fitted: Fit, history: History, own: Samples) -> Fit:
    """Return a fit with the rates of the history, then those since; all else is as it was."""
    arrivals = {
        name: _trace(history, name, own, slot=fitted.slot) or trace
        for name, trace in fitted.arrivals.items()
    }
    return replace(fitted, arrivals=arrivals)


def trace_history(history: History, dataflow: Dataflow, *, slot: float) -> tuple[Trace, float]:
    """Return the traffic alone, where nothing is fitted.

    Args:
        history: What is kept of the job.
        dataflow: Of its operators, whose first ones get the traffic.
        slot: Seconds between two decisions in the experiment.

    Returns:
        Records/s slot by slot, and the Unix seconds at which they begin.

    Raises:
        FitError: The first operators get different rates, or one of them none.
    """
    nothing = Samples(intervals=())
    found = {name: _trace(history, name, nothing, slot=slot) for name in dataflow.sources}
    traces = {name: trace for name, trace in found.items() if trace is not None}
    if missing := sorted(found.keys() - traces.keys()):
        raise FitError(f"Expected rates of {', '.join(missing)} in the history, got none")
    rates = common_rates({name: trace.rates for name, trace in traces.items()})
    return rates, min(trace.begin for trace in traces.values())


def _join(earlier: Samples, own: Samples) -> Samples:
    if not own.intervals:
        return earlier
    begin = min(_begin(each) for each in own.intervals)
    return Samples(
        intervals=(*(each for each in earlier.intervals if each.time <= begin), *own.intervals),
        changes=(*(each for each in earlier.changes if each.time <= begin), *own.changes),
    )


def _trace(history: History, operator: str, own: Samples, *, slot: float) -> ArrivalTrace | None:
    """Return the rates of the history, then those since; `None` where it has none."""
    rates = history.rates.get(operator)
    if rates is None:
        return None
    begins = history.begin + MINUTE * np.arange(rates.size)
    past = np.column_stack([begins, begins + MINUTE, rates])
    since = [
        (_begin(each), each.time, each.operators[operator].arrived)
        for each in own.intervals
        if operator in each.operators and _begin(each) >= history.end
    ]
    both = np.vstack([past, np.array(since).reshape(-1, 3)])
    known = both[np.isfinite(both[:, 2])]
    return trace_stretches(known, slot=slot) if known.size else None


def _begin(interval: IntervalSample) -> float:
    return interval.time - interval.seconds
