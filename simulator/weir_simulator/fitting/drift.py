"""Detects that a job's service times or selectivities are no longer what was fitted.

For each operator and node type, two cumulative sums of log-likelihood ratios compare "the service
time is `DRIFT` longer" (or shorter) with "it is as fitted", interval by interval; two more per edge
do so with the records that pass it. A sum that reaches `log(BETWEEN_FALSE_ALARMS)` is a drift. By
Lorden's bound, alarms without a drift are then `BETWEEN_FALSE_ALARMS` intervals apart on average or
more, however large the noise is, as long as it is normal and independent. How soon a drift is
noticed follows from the noise that the fit has seen: a change of three standard deviations takes
three to four intervals. Less than half of `DRIFT` never is one: a new fit would change little.

Real noise is neither. Of outliers, one interval contributes a third of an alarm at most: a pause or
a noisy neighbour lasts one or two. Intervals that resemble their neighbours carry less, by the
correlation that the fit has seen. The noise of an edge is known after a day (see `flow`); until
then, and after a drift of the job, a drift of its selectivity cannot be told from the time of day.

The state follows from the intervals since the fit: after a restart, they are processed again.

Source: Page, "Continuous Inspection Schemes", Biometrika 41 (1954); Lorden, "Procedures for
Reacting to a Change in Distribution", Ann. Math. Statist. 42 (1971).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from weir_simulator.fitting.calibrated import Calibration
from weir_simulator.fitting.cleaning import clean
from weir_simulator.fitting.flow import FEW, find_passage
from weir_simulator.fitting.samples import IntervalSample, Samples
from weir_simulator.fitting.service import pool_replicas, relative_variance

DRIFT = math.log(1.2)
"""The change that is looked for, as a logarithm: a fifth."""
BETWEEN_FALSE_ALARMS = 1e6
"""Intervals between two false alarms of one operator on one node type, or of one edge: two years of
minutes."""
ALARM = math.log(BETWEEN_FALSE_ALARMS)
LEAST_INTERVALS = 3
"""Intervals that an alarm takes at least."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ServiceDrift:
    """A service time that is no longer what was fitted."""

    operator: str
    node_type: str
    factor: float
    """What it is now over what was fitted."""
    since: float
    """Unix seconds from which on it is so; what ended later can be fitted again."""
    intervals: int
    """Measured since then."""

    @property
    def sentence(self) -> str:
        """What happened, for people."""
        way = "longer" if self.factor > 1 else "shorter"
        return (
            f"The service time of {self.operator!r} on {self.node_type} has been "
            f"{abs(self.factor - 1):.0%} {way} than in the fit for {self.intervals} "
            "intervals"
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class SelectivityDrift:
    """An edge on which more or fewer records go than was fitted."""

    source: str
    target: str
    selectivity: float
    """Records on the edge per record that its first operator takes in, now."""
    fitted: float
    """What it was."""
    since: float
    """Unix seconds from which on it is so; what ended later can be fitted again."""
    intervals: int
    """Measured since then."""

    @property
    def sentence(self) -> str:
        """What happened, for people."""
        return (
            f"{self.source!r} has passed {self.selectivity:.3g} records to "
            f"{self.target!r} for each that it reads, instead of {self.fitted:.3g} in "
            f"the fit, for {self.intervals} intervals"
        )


Drift = ServiceDrift | SelectivityDrift


@dataclass(slots=True)
class _Sum:
    """The evidence for a drift in one direction."""

    direction: float
    """1 for more, -1 for less."""
    since: float
    evidence: float = 0.0
    total: float = 0.0
    base: float = 0.0
    """Two sums since the evidence was last 0, whose ratio shows the present state."""
    intervals: int = 0

    def add(
        self, residual: float, variance: float, began: float, *, amount: float, base: float
    ) -> None:
        """Take one interval, which began at a Unix time."""
        if not self.evidence:
            self.since, self.total, self.base, self.intervals = began, 0.0, 0.0, 0
        ratio = DRIFT / variance * (self.direction * residual - DRIFT / 2)
        evidence = self.evidence + min(ratio, ALARM / LEAST_INTERVALS)
        # Not more than twice an alarm, or what comes back would go on being one.
        self.evidence = min(max(evidence, 0.0), 2 * ALARM)
        self.total += amount
        self.base += base
        self.intervals += 1

    @property
    def alarming(self) -> bool:
        """Whether it is a drift; thirds do not add up exactly."""
        return self.evidence >= ALARM * (1 - 1e-9)


_Sums = dict[tuple[str, str], tuple[_Sum, _Sum]]


class DriftDetector:
    """Watches the intervals that follow a fit."""

    def __init__(self, calibration: Calibration) -> None:
        self._calibration = calibration
        self._dataflow = calibration.dataflow
        self._selectivities = {
            (each.source, each.target): each.selectivity for each in calibration.dataflow.edges
        }
        self._services: _Sums = {}
        """By operator and node type."""
        self._edges: _Sums = {}

    def note(self, interval: IntervalSample) -> tuple[Drift, ...]:
        """Take the next interval and return what has drifted by now, the clearest first.

        What has drifted stays so until a new fit, unless it comes back.
        """
        cleaned = clean(Samples(intervals=(interval,)), self._calibration.structure)
        for each in cleaned.intervals:
            if not each.disturbed:
                self._take_services(each)
                self._take_edges(each)
        return self.drifts

    @property
    def drifts(self) -> tuple[Drift, ...]:
        """What has drifted by now, the clearest first."""
        found: list[tuple[float, Drift]] = []
        for (operator, node_type), each in _find_alarming(self._services):
            service = ServiceDrift(
                operator=operator,
                node_type=node_type,
                factor=math.exp(each.total / each.base),
                since=each.since,
                intervals=each.intervals,
            )
            found.append((each.evidence, service))
        for (source, target), each in _find_alarming(self._edges):
            selectivity = SelectivityDrift(
                source=source,
                target=target,
                selectivity=each.total / each.base,
                fitted=self._selectivities[source, target],
                since=each.since,
                intervals=each.intervals,
            )
            found.append((each.evidence, selectivity))
        return tuple(drift for _, drift in sorted(found, key=lambda entry: -entry[0]))

    def _take_services(self, interval: IntervalSample) -> None:
        began = interval.time - interval.seconds
        noise = self._calibration.noise.lasting
        for name, sample in interval.operators.items():
            for measured in pool_replicas(sample.services):
                # On a node type that the operator did not run on, the ratio that others had is too
                # rough to show a change of a fifth (`DRIFT`): it is judged once it was fitted.
                fitted = self._calibration.services.get((name, measured.node_type))
                if fitted is None:
                    continue
                residual = math.log(measured.mean / fitted)
                for each in _pair(self._services, (name, measured.node_type), began):
                    each.add(
                        residual,
                        relative_variance(measured) + noise**2,
                        began,
                        amount=residual,
                        base=1.0,
                    )

    def _take_edges(self, interval: IntervalSample) -> None:
        began = interval.time - interval.seconds
        for edge in self._dataflow.edges:
            place = edge.source, edge.target
            noise = self._calibration.passage_noises.get(place)
            seen = find_passage(interval, edge, self._dataflow)
            if noise is None or seen is None:
                continue
            expected = edge.selectivity * seen.taken
            for each in _pair(self._edges, place, began):
                each.add(
                    (seen.passed - expected) / max(expected, FEW),
                    noise.variance(expected),
                    began,
                    amount=seen.passed,
                    base=seen.taken,
                )


def _pair(sums: _Sums, place: tuple[str, str], began: float) -> tuple[_Sum, _Sum]:
    """Return the evidence for more and for less at a place."""
    return sums.setdefault(place, (_Sum(1.0, began), _Sum(-1.0, began)))


def _find_alarming(sums: _Sums) -> list[tuple[tuple[str, str], _Sum]]:
    """Return what is a drift by now, with its place."""
    return [(place, each) for place, pair in sums.items() for each in pair if each.alarming]
