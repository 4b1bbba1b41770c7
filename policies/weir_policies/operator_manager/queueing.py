"""The cheapest deployment whose predicted response time keeps the budget, reached in one jump.

Every deployment is judged by the queueing model at the rate planned for (the measured one and some
headroom): it *fits* if it keeps the budget and if no replica would be busier than a cap while the
backlog is worked off. Then:

1. Present deployment does not fit: go to the cheapest that does, at once; by a restart only to
   one that would still do with a margin of growth, where there is one.
2. It fits, but something cheaper does too, and would have for the largest rate of the last
   intervals and a margin: go there, unless the operator is saturated or behind, or the rate rises.
3. Nothing fits: the least response time, or the most capacity where that is what is lacking.
4. Otherwise stay.

A change of sizes needs no restart, so a deployment that does must be cheaper than the best that
does not by `minimum_saving`. All differences in direction are hysteresis: the need is judged at
the planned rate, the saving at a larger one.

What is learned are the rates and the backlog of the last intervals; no random number is drawn.
The policy is Weir's own; the model behind it is in `model/queueing.py`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from weir_policies.errors import ParameterError, StateError
from weir_policies.operator_manager.queueing_reasons import explain
from weir_policies.operator_manager.queueing_weighing import Plan, weigh
from weir_policies.operator_manager.staying import find_unknown, hold
from weir_policies.operator_manager.wording import say_rate, say_share
from weir_policies.parameters import refuse_outside
from weir_policies.promise import Decision, Neighbourhood, Observation, Transition

SATURATED = 0.95
"""Busy share of a replica from which nothing is taken away, whatever the model says."""
GROWTH = 0.01
"""Part of the arriving records by which a backlog must grow to count as growing."""
NEEDED_FIELDS = ("backlog", "budget", "model.service_mean", "model.service_scv")
VERSION = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class QueueingParameters:
    """Settings of `queueing`.

    Raises:
        ParameterError: One is out of its range.
    """

    headroom: float = 0.1
    """Part by which the rate planned for exceeds the measured one."""
    utilisation_cap: float = 0.9
    """Busy share that no replica may exceed; inside (0, 1). Close to 1 a small error of the
    service time makes the prediction worthless."""
    catch_up: float = 60.0
    """Seconds in which a backlog should be worked off."""
    minimum_saving: float = 0.1
    """Part of the cost that a change with a restart must save over the best one without."""
    scale_in_window: int = 3
    """Intervals whose largest rate a cheaper deployment must be able to carry. Until so many were
    seen, nothing is taken away."""
    margin: float = 0.1
    """Part by which the rate that the target of a restart must carry exceeds the one planned for,
    and for a cheaper one the largest of the window: a restart should last."""
    quantile: float | None = None
    """Percentile of the operator's response time that must keep the budget, such as 0.95. `None`
    judges the mean."""

    def __post_init__(self) -> None:
        """Refuse what is out of range."""
        refuse_outside("headroom", self.headroom, low=0)
        refuse_outside(
            "utilisation_cap",
            self.utilisation_cap,
            low=0,
            high=1,
            low_allowed=False,
            high_allowed=False,
        )
        refuse_outside("catch_up", self.catch_up, low=0, low_allowed=False)
        refuse_outside("minimum_saving", self.minimum_saving, low=0, high=1, high_allowed=False)
        refuse_outside("scale_in_window", self.scale_in_window, low=1)
        if self.scale_in_window != int(self.scale_in_window):
            raise ParameterError(
                f"Expected a whole number for scale_in_window, got {self.scale_in_window}"
            )
        refuse_outside("margin", self.margin, low=0)
        refuse_outside(
            "quantile", self.quantile, low=0, high=1, low_allowed=False, high_allowed=False
        )


class QueueingPolicy:
    """Jumps to the cheapest deployment that keeps the budget."""

    neighbourhood: ClassVar[Neighbourhood] = Neighbourhood.ANY

    def __init__(self, parameters: QueueingParameters) -> None:
        self._parameters = parameters
        self._rates: tuple[float, ...] = ()
        self._backlog = math.nan

    def decide(self, observation: Observation) -> Decision:
        """Choose the deployment for the coming intervals."""
        unknown = find_unknown(observation, *NEEDED_FIELDS)
        if unknown is not None:
            return hold(observation, unknown)
        return explain(observation, weigh(observation, self._plan(observation)))

    def learn(self, transition: Transition) -> None:
        """Remember the rate and the backlog of the interval; unknown ones are passed over."""
        rate = transition.next_observation.rate
        if not math.isnan(rate):
            self._rates = (*self._rates, rate)[-int(self._parameters.scale_in_window) :]
        if not math.isnan(transition.observation.backlog):
            self._backlog = transition.observation.backlog

    def state_dict(self) -> Mapping[str, Any]:
        """Return the remembered rates and backlog."""
        return {
            "version": VERSION,
            "rates": list(self._rates),
            "backlog": None if math.isnan(self._backlog) else self._backlog,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned.

        Raises:
            StateError: It is of another version.
        """
        if state.get("version") != VERSION:
            raise StateError(f"Expected state of version {VERSION}, got {state.get('version')}")
        self._rates = tuple(state["rates"])
        self._backlog = math.nan if state["backlog"] is None else state["backlog"]

    def _plan(self, observation: Observation) -> Plan:
        """Return what the deployments are judged by."""
        parameters = self._parameters
        planned = observation.rate * (1 + parameters.headroom)
        largest = max(observation.rate, *self._rates, 0.0)
        strain = self._find_strain(observation)
        seen, window = len(self._rates), parameters.scale_in_window
        late = "the measured response time exceeds the budget"
        rising = f"the rate is rising, to {say_rate(observation.rate)}"
        risen = observation.rate > min(self._rates, default=math.inf) * (1 + parameters.headroom)
        unseen = f"only {seen} of the {window} intervals that a saving must have carried were seen"
        return Plan(
            rate=planned,
            catching_up=planned + observation.backlog / parameters.catch_up,
            peak=largest * (1 + parameters.headroom) * (1 + parameters.margin),
            lasting=planned * (1 + parameters.margin),
            budget=observation.budget,
            quantile=parameters.quantile,
            utilisation_cap=parameters.utilisation_cap,
            minimum_saving=parameters.minimum_saving,
            strain=strain,
            obstacle=strain
            or (late if observation.response_time > observation.budget else None)
            or (rising if risen else None)
            or (unseen if seen < window else None),
        )

    def _find_strain(self, observation: Observation) -> str | None:
        """Return why the operator must not get less, whatever the model says, or `None`."""
        busiest = max(observation.utilisation, default=0.0)
        if busiest >= SATURATED:
            return f"a replica is {say_share(busiest)} busy"
        grown = observation.backlog - self._backlog  # NaN before the first interval was learned
        if grown > GROWTH * observation.rate * observation.interval + 1:
            return f"the backlog grew by {grown:,.0f} records"
        return None
