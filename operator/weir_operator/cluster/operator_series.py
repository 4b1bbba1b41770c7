"""What `/metrics` shows of each operator: what was measured, what was predicted, what was weighed.

A controller may look after ten thousand operators, and a gauge object for each of their series
would take more memory than the rest of the page. So the values are kept as plain numbers, and
become series when somebody asks. What is not known is no series, instead of one that says NaN.

A decision's sentence is no metric: its numbers would make a series of every decision. The sentences
are told by `weir explain`; here are the numbers that show when to ask.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from weir_operator.cluster.objects import Key
from weir_operator.controller.records import DecisionRecord
from weir_operator.controller.tick import Tick

OPERATOR = ("namespace", "app", "operator")
MEASURED = (
    ("weir_arrivals_per_second", "Records that arrive."),
    ("weir_operator_response_time_seconds", "Measured, mean."),
    ("weir_operator_budget_seconds", "Response time granted."),
    ("weir_operator_utilisation_ratio", "Of the busiest replica."),
    ("weir_operator_waiting_records", "Records that wait before it."),
)
PREDICTED = (
    ("weir_predicted_response_time_seconds", "What the last decision expects, mean."),
    ("weir_predicted_utilisation_ratio", "What it expects of the busiest replica."),
    ("weir_decision_urgency_ratio", "How much the change is needed."),
)
SCORE = ("weir_decision_score", "Scores of the last decision, lower is better.")
CANDIDATES = ("chosen", "stay", "rival")


@dataclass(slots=True)
class _Numbers:
    """Of one operator, in the order of the names above."""

    measured: tuple[float, ...] = ()
    predicted: tuple[float, ...] = ()
    scores: tuple[float, ...] = ()


class OperatorSeries(Collector):
    """The series of all operators of all StreamApps."""

    def __init__(self) -> None:
        self._of: dict[Key, dict[str, _Numbers]] = {}

    def see_tick(self, key: Key, tick: Tick) -> None:
        """Take over what an interval measured."""
        there = self._of.setdefault(key, {})
        measured = tick.sight.app.operators if tick.sight.app else {}
        for name in tick.deployments:
            found = measured.get(name)
            busy = [each for each in found.utilisation if not math.isnan(each)] if found else []
            there.setdefault(name, _Numbers()).measured = (
                found.arrival_rate if found else math.nan,
                found.response_time if found else math.nan,
                tick.budgets.get(name, math.nan),
                max(busy, default=math.nan),
                found.queue_records if found else math.nan,
            )

    def see_decision(self, key: Key, record: DecisionRecord) -> None:
        """Take over what a decision expects, and how its target stands beside the others."""
        numbers = self._of.setdefault(key, {}).setdefault(record.operator, _Numbers())
        decision = record.decision
        expected = decision.expectation
        numbers.predicted = (expected.response_time, expected.utilisation, decision.urgency)
        scores = {each.deployment: each.score for each in decision.candidates}
        rivals = [score for deployment, score in scores.items() if deployment != decision.target]
        numbers.scores = (
            scores.get(decision.target, math.nan),
            scores.get(record.observation.deployment, math.nan),
            min(rivals, default=math.nan),
        )

    def forget(self, key: Key) -> None:
        """Take away the series of a StreamApp that is gone."""
        self._of.pop(key, None)

    def collect(self) -> Iterable[Metric]:
        """Return the series as they are now."""
        yield from self._families(MEASURED, "measured")
        yield from self._families(PREDICTED, "predicted")
        family = GaugeMetricFamily(*SCORE, labels=(*OPERATOR, "candidate"))
        for labels, numbers in self._operators():
            for candidate, score in zip(CANDIDATES, numbers.scores, strict=False):
                if not math.isnan(score):
                    family.add_metric((*labels, candidate), score)
        yield family

    def _families(self, names: Iterable[tuple[str, str]], which: str) -> Iterable[Metric]:
        for place, (name, text) in enumerate(names):
            family = GaugeMetricFamily(name, text, labels=OPERATOR)
            for labels, numbers in self._operators():
                values: tuple[float, ...] = getattr(numbers, which)
                if values and not math.isnan(values[place]):
                    family.add_metric(labels, values[place])
            yield family

    def _operators(self) -> Iterable[tuple[tuple[str, str, str], _Numbers]]:
        # Copies: the page is written in another thread than the one that counts.
        for key, operators in [*self._of.items()]:
            for name, numbers in [*operators.items()]:
                yield (key.namespace, key.name, name), numbers
