"""Days of a job whose work per record changes, or does not: how soon that is noticed.

Two operators on two node types, an interval a minute, a day to fit to and a day to watch. The load
is a day of the made-up taxi trace, some hundred to five thousand records an interval on a node
type. A mean service time is that of so many gamma-distributed ones, times what the machine does: a
factor that wanders (an autoregression with a standard deviation of 4 %, neighbouring minutes
resemble each other), and one interval in a hundred in which a pause or a neighbour makes everything
half as slow again.
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
from weir_simulator.trace_synthesis import TraceKind, synthesise
from weir_simulator.traces import scale_to_maximum

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

    @property
    def median(self) -> float:
        """Intervals until a drift was noticed, on the median day."""
        return statistics.median(self.delays)

    @property
    def within_ten(self) -> float:
        """Share of days on which ten intervals were enough."""
        return sum(delay <= 10 for delay in self.delays) / len(self.delays)


def watch_days(seeds: Sequence[int]) -> DriftFigures:
    """Watch a day without and a day with a drift of 20 % per seed."""
    delays, early, false_alarms = [], 0, 0
    for seed in seeds:
        rng = np.random.default_rng(seed)
        structure = a_structure(a_model("match"), a_model("sum"), edges=[("match", "sum")])
        fitted = calibrate(draw_day(np.ones(DAY), rng), (), structure)
        false_alarms += find_alarm(DriftDetector(fitted), draw_day(np.ones(DAY), rng)) is not None
        begin = int(rng.integers(60, DAY - LONGEST))
        factors = np.where(np.arange(DAY) < begin, 1.0, 1.2 if seed % 2 else 1 / 1.2)
        alarm = find_alarm(DriftDetector(fitted), draw_day(factors, rng)[: begin + LONGEST])
        early += alarm is not None and alarm < begin
        delays.append(LONGEST if alarm is None or alarm < begin else alarm - begin + 1)
    return DriftFigures(delays=delays, early=early, false_alarms=false_alarms, days=len(seeds))


def find_alarm(detector: DriftDetector, intervals: Sequence[IntervalSample]) -> int | None:
    """Return the interval at which something is noticed first; `None` where nothing is."""
    for place, interval in enumerate(intervals):
        if detector.see(interval):
            return place
    return None


def draw_day(factors: Floats, rng: np.random.Generator) -> list[IntervalSample]:
    """Return a day of intervals; `factors` of the service time of `match`, shape `(DAY,)`."""
    rates = scale_to_maximum(synthesise(TraceKind.TAXI, slots=DAY, rng=rng), maximum=PEAK)
    machine = {name: _wander(rng) for name in SERVICE}
    intervals = []
    for place, rate in enumerate(rates.tolist()):
        operators = {}
        for name, factor in (("match", factors[place]), ("sum", 1.0)):
            services = tuple(
                _draw_service(each, count * rate / 3 * 60, factor * machine[each][place], rng)
                for each, count in DEPLOYMENT.items()
            )
            operators[name] = OperatorSample(
                deployment=DEPLOYMENT, arrived=rate, taken=rate, services=services
            )
        intervals.append(IntervalSample(time=60.0 * (place + 1), seconds=60.0, operators=operators))
    return intervals


def _wander(rng: np.random.Generator) -> Floats:
    """Return the machine's factor in every interval, shape `(DAY,)`."""
    steps = rng.normal(0.0, WANDERING * np.sqrt(1 - MEMORY**2), DAY)
    level = np.empty(DAY)
    level[0] = rng.normal(0.0, WANDERING)
    for place in range(1, DAY):
        level[place] = MEMORY * level[place - 1] + steps[place]
    outliers: Floats = np.where(rng.random(DAY) < OUTLIERS, OUTLIER, 1.0)
    return np.exp(level) * outliers


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
