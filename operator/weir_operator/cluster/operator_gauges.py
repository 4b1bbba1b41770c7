"""What `/metrics` shows of each operator: what was measured, what was predicted, what was weighed.

A decision's sentence is no metric: its numbers would make a series of every decision. The sentences
are told by `weir explain`; here are the numbers that show when to ask.
"""

from __future__ import annotations

import math

from prometheus_client import CollectorRegistry, Gauge

from weir_operator.cluster.objects import Key
from weir_operator.controller.records import DecisionRecord
from weir_operator.controller.tick import Tick

OPERATOR = ("namespace", "app", "operator")


class OperatorGauges:
    """The gauges of all operators of all StreamApps."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return Gauge(name, text, (*OPERATOR, *labels), registry=registry)

        self._rate = gauge("weir_arrivals_per_second", "Records that arrive.")
        self._response = gauge("weir_operator_response_time_seconds", "Measured, mean.")
        self._budget = gauge("weir_operator_budget_seconds", "Response time granted.")
        self._utilisation = gauge("weir_operator_utilisation_ratio", "Of the busiest replica.")
        self._waiting = gauge("weir_operator_waiting_records", "Records that wait before it.")
        self._predicted_response = gauge(
            "weir_predicted_response_time_seconds", "What the last decision expects, mean."
        )
        self._predicted_utilisation = gauge(
            "weir_predicted_utilisation_ratio", "What the last decision expects, busiest replica."
        )
        self._candidates = gauge("weir_decision_candidates", "Deployments that were weighed.")
        self._score = gauge(
            "weir_decision_score", "Scores of the last decision, lower is better.", "candidate"
        )
        self._urgency = gauge("weir_decision_urgency_ratio", "How much the change is needed.")

    @property
    def all(self) -> tuple[Gauge, ...]:
        """Every gauge, for whoever takes away the series of a StreamApp that is gone."""
        return tuple(each for each in vars(self).values() if isinstance(each, Gauge))

    def see_tick(self, key: Key, tick: Tick) -> None:
        """Show what an interval measured; NaN where it could not be."""
        measured = tick.sight.app.operators if tick.sight.app else {}
        for name in tick.deployments:
            labels, found = (key.namespace, key.name, name), measured.get(name)
            busy = [each for each in found.utilisation if math.isfinite(each)] if found else []
            self._rate.labels(*labels).set(found.arrival_rate if found else math.nan)
            self._response.labels(*labels).set(found.response_time if found else math.nan)
            self._waiting.labels(*labels).set(found.queue_records if found else math.nan)
            self._utilisation.labels(*labels).set(max(busy, default=math.nan))
            self._budget.labels(*labels).set(tick.budgets.get(name, math.nan))

    def see_decision(self, key: Key, record: DecisionRecord) -> None:
        """Show what a decision expects, and by how much the chosen one is better."""
        labels, decision = (key.namespace, key.name, record.operator), record.decision
        self._predicted_response.labels(*labels).set(decision.expectation.response_time)
        self._predicted_utilisation.labels(*labels).set(decision.expectation.utilisation)
        self._candidates.labels(*labels).set(len(decision.candidates))
        self._urgency.labels(*labels).set(decision.urgency)
        scores = {each.deployment: each.score for each in decision.candidates}
        rivals = [each.score for each in decision.candidates if each.deployment != decision.target]
        shown = {
            "chosen": scores.get(decision.target, math.nan),
            "stay": scores.get(record.observation.deployment, math.nan),
            "rival": min(rivals, default=math.nan),
        }
        for candidate, score in shown.items():
            self._score.labels(*labels, candidate).set(score)
