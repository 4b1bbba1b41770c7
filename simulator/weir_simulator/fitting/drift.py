"""Notices that a job's work per record is no longer what was fitted.

Per operator and node type, two cumulative sums of log-likelihood ratios compare "the service time
is `DRIFT` longer" (or shorter) with "it is as fitted", interval by interval; a sum that reaches
`log(BETWEEN_FALSE_ALARMS)` is a drift. By Lorden's bound, alarms without a drift are then
`BETWEEN_FALSE_ALARMS` intervals apart on average or more, however large the noise is, as long as it
is normal and independent. How soon a drift is noticed follows from the noise that the fit has seen:
a change of three standard deviations takes three to four intervals. Less than half of `DRIFT` never
is one: a new fit would change little.

Real noise is neither. Of outliers, one interval contributes a third of an alarm at most: a pause or
a noisy neighbour lasts one or two. Intervals that resemble their neighbours carry less, by the
correlation that the fit has seen.

The state follows from the intervals since the fit: after a restart, show them again.

Source: Page, "Continuous Inspection Schemes", Biometrika 41 (1954); Lorden, "Procedures for
Reacting to a Change in Distribution", Ann. Math. Statist. 42 (1971).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from weir_simulator.fitting.calibrated import Calibration
from weir_simulator.fitting.cleaning import clean
from weir_simulator.fitting.samples import IntervalSample, Samples
from weir_simulator.fitting.service import pool_replicas, relative_variance

DRIFT = math.log(1.2)
"""The change that is looked for, as a logarithm: a fifth."""
BETWEEN_FALSE_ALARMS = 1e6
"""Intervals between two false alarms of one operator on one node type: two years of minutes."""
ALARM = math.log(BETWEEN_FALSE_ALARMS)
LEAST_INTERVALS = 3
"""Intervals that an alarm takes at least."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Drift:
    """A service time that is no longer what was fitted."""

    operator: str
    node_type: str
    factor: float
    """What it is now over what was fitted."""
    since: float
    """Unix seconds from which on it is so; what ended later can be fitted anew."""
    intervals: int
    """Measured since then."""

    @property
    def sentence(self) -> str:
        """What happened, for people."""
        way = "longer" if self.factor > 1 else "shorter"
        return (
            f"The service time of {self.operator!r} on {self.node_type} is "
            f"{abs(self.factor - 1):.0%} {way} than was fitted, for {self.intervals} intervals"
        )


@dataclass(slots=True)
class _Sum:
    """The evidence for a drift in one direction."""

    direction: float
    """1 for longer, -1 for shorter."""
    since: float
    evidence: float = 0.0
    total: float = 0.0
    """Of the logarithms of measured over fitted, since the evidence was last 0."""
    intervals: int = 0

    def add(self, residual: float, variance: float, began: float) -> None:
        """Take one interval, which began at a Unix time."""
        if not self.evidence:
            self.since, self.total, self.intervals = began, 0.0, 0
        ratio = DRIFT / variance * (self.direction * residual - DRIFT / 2)
        evidence = self.evidence + min(ratio, ALARM / LEAST_INTERVALS)
        # Not more than twice an alarm, or what comes back would go on being one.
        self.evidence = min(max(evidence, 0.0), 2 * ALARM)
        self.total += residual
        self.intervals += 1


class DriftDetector:
    """Watches the intervals that follow a fit."""

    def __init__(self, calibration: Calibration) -> None:
        self._calibration = calibration
        self._sums: dict[tuple[str, str], tuple[_Sum, _Sum]] = {}

    def see(self, interval: IntervalSample) -> tuple[Drift, ...]:
        """Take the next interval and return what has drifted by now, the clearest first.

        What has drifted stays so until a new fit, unless it comes back.
        """
        cleaned = clean(Samples(intervals=(interval,)), self._calibration.structure).samples
        for each in cleaned.intervals:
            if not each.disturbed:
                self._take(each)
        return self.drifts

    @property
    def drifts(self) -> tuple[Drift, ...]:
        """What has drifted by now, the clearest first."""
        found = [
            (each.evidence, operator, node_type, each)
            for (operator, node_type), pair in self._sums.items()
            for each in pair
            # Thirds do not add up exactly.
            if each.evidence >= ALARM * (1 - 1e-9)
        ]
        return tuple(
            Drift(
                operator=operator,
                node_type=node_type,
                factor=math.exp(each.total / each.intervals),
                since=each.since,
                intervals=each.intervals,
            )
            for _, operator, node_type, each in sorted(found, key=lambda entry: -entry[0])
        )

    def _take(self, interval: IntervalSample) -> None:
        began = interval.time - interval.seconds
        noise = self._calibration.noise.lasting
        for name, sample in interval.operators.items():
            for measured in pool_replicas(sample.services):
                fitted = self._fitted(name, measured.node_type)
                if fitted is None:
                    continue
                place = (name, measured.node_type)
                pair = self._sums.setdefault(place, (_Sum(1.0, began), _Sum(-1.0, began)))
                for each in pair:
                    each.add(
                        math.log(measured.mean / fitted),
                        relative_variance(measured) + noise**2,
                        began,
                    )

    def _fitted(self, operator: str, node_type: str) -> float | None:
        """Return the fitted seconds per record; `None` where the fit knows too little of them.

        On a node type that the operator did not run on, the ratio that others had is no measure of
        a fifth: it is judged once it was fitted.
        """
        return self._calibration.services.get((operator, node_type))
