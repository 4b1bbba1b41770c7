"""Days of a job whose work per record changes, or does not: how soon that is noticed.

Two operators on two node types, an interval a minute, a day to fit to and a day to watch. The load
is a day of the made-up taxi trace, some hundred to five thousand records an interval on a node
type. A mean service time is that of so many gamma-distributed ones, times what the machine does: a
factor that wanders (an autoregression with a standard deviation of 4 %, neighbouring minutes
resemble each other), and one interval in a hundred in which a pause or a neighbour makes everything
half as slow again. The records that `match` passes on to `sum` are binomial, half of what it takes
in, times a factor of their own that wanders as much; some of them, up to a tenth of a second's, are
in the buffers when the interval ends.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from weir_policies.model.arrays import Floats
from weir_policies.model.estimation import ServiceMeasurement
from weir_simulator.fitting.drift import DriftDetector
from weir_simulator.fitting.fit import calibrate
from weir_simulator.fitting.samples import IntervalSample, OperatorSample
from weir_simulator.fitting.testing import a_model, a_structure
from weir_simulator.traces import TraceKind, scale_to_maximum, synthesise

DAY = 1440
"""Intervals of a minute."""
DEPLOYMENT = {"small/1": 2, "large/1": 1}
SERVICE = {"small/1": 0.02, "large/1": 0.0125}
SCV = 0.5
PEAK = 120.0
"""Records/s at the operator."""
WANDERING = 0.04
MEMORY = 0.7
"""Correlation of the machine's factor with that of the next minute."""
OUTLIERS = 0.01
PASSED = 0.5
"""Records to `sum` per record to `match`."""
BUFFERED = 0.1
"""Seconds of records that are in buffers at most."""
OUTLIER = 1.5
LONGEST = 60
"""Intervals after a drift within which it must be noticed to count at all."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DriftFigures:
    """What came of the days."""

    delays: Sequence[int]
    """Intervals until a drift of 20 % was noticed, one per day; `LONGEST` where it was not."""
    early: int
    """Days on which something was noticed before anything had happened."""
    false_alarms: int
    """Days without a drift on which one was noticed."""
    days: int
    """Without a drift."""
    selectivity_delays: Sequence[int]
    """Intervals until a selectivity 25 % up or down was noticed, one per day."""

    @property
    def median(self) -> float:
        """Intervals until a drift was noticed, on the median day."""
        return statistics.median(self.delays)

    @property
    def within_ten(self) -> float:
        """Share of days on which ten intervals were enough."""
        return sum(delay <= 10 for delay in self.delays) / len(self.delays)


def watch_days(seeds: Sequence[int]) -> DriftFigures:
    """Watch a day without a drift, one with one of 20 %, and an hour after one of 25 % on the edge.

    Args:
        seeds: Of so many of each.
    """
    delays, selectivity_delays, early, false_alarms = [], [], 0, 0
    for seed in seeds:
        rng = np.random.default_rng(seed)
        structure = a_structure(a_model("match"), a_model("sum"), edges=[("match", "sum")])
        fitted = calibrate(draw_day(np.ones(DAY), rng), (), structure)
        false_alarms += find_alarm(DriftDetector(fitted), draw_day(np.ones(DAY), rng)) is not None
        begin = int(rng.integers(60, DAY - LONGEST))
        factors = np.where(np.arange(DAY) < begin, 1.0, 1.2 if seed % 2 else 1 / 1.2)
        passed = np.full(DAY, 1.25 if seed % 2 else 1 / 1.25)
        alarm = find_alarm(DriftDetector(fitted), draw_day(factors, rng)[: begin + LONGEST])
        early += alarm is not None and alarm < begin
        delays.append(LONGEST if alarm is None or alarm < begin else alarm - begin + 1)
        later = draw_day(np.ones(DAY), rng, passed=passed)[begin : begin + LONGEST]
        alarm = find_alarm(DriftDetector(fitted), later)
        selectivity_delays.append(LONGEST if alarm is None else alarm + 1)
    return DriftFigures(
        delays=delays,
        early=early,
        false_alarms=false_alarms,
        days=len(seeds),
        selectivity_delays=selectivity_delays,
    )


def find_alarm(detector: DriftDetector, intervals: Sequence[IntervalSample]) -> int | None:
    """Return the interval at which something is noticed first; `None` where nothing is."""
    for place, interval in enumerate(intervals):
        if detector.note(interval):
            return place
    return None


def draw_day(
    factors: Floats, rng: np.random.Generator, *, passed: Floats | None = None
) -> list[IntervalSample]:
    """Return a day of intervals.

    Args:
        factors: Of the service time of `match`, shape `(DAY,)`.
        rng: Decides everything else.
        passed: Factors of the records that it passes on, shape `(DAY,)`; `None` is 1.
    """
    rates = scale_to_maximum(synthesise(TraceKind.TAXI, slots=DAY, rng=rng), maximum=PEAK)
    machine = {name: _wander(rng) for name in SERVICE}
    # Draws of their own: those of the service times are the same with the edge and without.
    onward = _draw_onward(rates, np.ones(DAY) if passed is None else passed, rng.spawn(1)[0])
    intervals = []
    for place, rate in enumerate(rates.tolist()):
        operators = {}
        for name, factor in (("match", factors[place]), ("sum", 1.0)):
            services = tuple(
                _draw_service(each, count * rate / 3 * 60, factor * machine[each][place], rng)
                for each, count in DEPLOYMENT.items()
            )
            operators[name] = OperatorSample(
                deployment=DEPLOYMENT,
                arrived=rate,
                taken=rate if name == "match" else onward[place],
                services=services,
            )
        intervals.append(IntervalSample(time=60.0 * (place + 1), seconds=60.0, operators=operators))
    return intervals


def _draw_onward(rates: Floats, factors: Floats, rng: np.random.Generator) -> list[float]:
    """Return the records/s that reach `sum` in every interval."""
    taken = np.rint(rates * 60).astype(np.int64)
    share = PASSED * factors * np.exp(_wander_level(rng))
    buffered = rng.random(DAY + 1) * BUFFERED * np.append(rates[0], rates) * PASSED
    given = rng.binomial(taken, np.minimum(share, 1.0)) - np.diff(buffered)
    return [float(each) for each in np.maximum(given, 0.0) / 60]


def _wander(rng: np.random.Generator) -> Floats:
    """Return the machine's factor in every interval, shape `(DAY,)`."""
    level = _wander_level(rng)
    outliers: Floats = np.where(rng.random(DAY) < OUTLIERS, OUTLIER, 1.0)
    return np.exp(level) * outliers


def _wander_level(rng: np.random.Generator) -> Floats:
    """Return the logarithm of a factor that wanders around 1, shape `(DAY,)`."""
    steps = rng.normal(0.0, WANDERING * np.sqrt(1 - MEMORY**2), DAY)
    level = np.empty(DAY)
    level[0] = rng.normal(0.0, WANDERING)
    for place in range(1, DAY):
        level[place] = MEMORY * level[place - 1] + steps[place]
    return level


def _draw_service(
    node_type: str, records: float, factor: float, rng: np.random.Generator
) -> ServiceMeasurement:
    """Return the mean of so many gamma-distributed service times; it is gamma-distributed too."""
    count = max(int(rng.poisson(records)), 1)
    mean = SERVICE[node_type] * factor
    measured = float(rng.gamma(count / SCV, mean * SCV / count))
    return ServiceMeasurement(
        node_type=node_type, records=count, mean=measured, variance=SCV * mean**2
    )
