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
The policy is Weir's own; the model behind it is in `model/queueing.py`. What wins is decided in
`queueing_weighing`, put into words by `queueing_table` and `queueing_reasons`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from weir_policies.errors import ParameterError
from weir_policies.kernels.compiled import compiled
from weir_policies.kernels.percentiles import normal_quantile
from weir_policies.kernels.policy import Algorithm
from weir_policies.kernels.view import (
    BACKLOG,
    BUDGET,
    BUSIEST,
    INTERVAL,
    RATE,
    RESPONSE_TIME,
    Memory,
    View,
    empty_memory,
)
from weir_policies.model.node_types import Deployment
from weir_policies.operator_manager.queueing_reasons import explain
from weir_policies.operator_manager.queueing_table import Words, tabulate
from weir_policies.operator_manager.queueing_weighing import MEAN, Plan, choose
from weir_policies.operator_manager.wording import say_rate, say_share
from weir_policies.parameters import read_parameters, refuse_outside
from weir_policies.promise import Decision, Neighbourhood, Observation

SATURATED = 0.95
"""Busy share of a replica from which nothing is taken away, whatever the model says."""
GROWTH = 0.01
"""Part of the arriving records by which a backlog must grow to count as growing."""
ROUNDING = 1e-9
"""Part by which the cap may be exceeded: a replica that is full by the law of `byLoad` is 0.9 busy
up to the last digit, and that is the cap's default too."""

# Columns of `Memory.floats`, the rates of the window behind; of `Memory.ints`, room for one
# deployment behind, which holds zeros between decisions.
HEADROOM, CAP, CATCH_UP, SAVING, MARGIN, QUANTILE, NORMAL, BACKLOG_BEFORE, RATES = range(9)
WINDOW, SEEN_RATES, ROW = range(3)


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


def define(values: Mapping[str, Any], *, name: str) -> Algorithm:
    """Return the algorithm registered as `queueing`, its parameters bound."""
    parameters = read_parameters(QueueingParameters, values, policy=name)
    return Algorithm(
        neighbourhood=Neighbourhood.ANY,
        prepare=partial(_prepare, parameters),
        learn=learn,
        decide=decide,
        explain=_explain,
        needed=("backlog", "budget", "model.service_mean", "model.service_scv"),
    )


def _prepare(parameters: QueueingParameters, view: View, ticks: int) -> Memory:
    window, types = int(parameters.scale_in_window), view.counts.shape[1]
    memory = empty_memory(view, floats=RATES + window, ints=ROW + types)
    floats, quantile = memory.floats, parameters.quantile
    floats[:, HEADROOM], floats[:, CAP] = parameters.headroom, parameters.utilisation_cap
    floats[:, CATCH_UP], floats[:, SAVING] = parameters.catch_up, parameters.minimum_saving
    floats[:, MARGIN] = parameters.margin
    floats[:, QUANTILE] = MEAN if quantile is None else quantile
    floats[:, NORMAL] = 0.0 if quantile is None else normal_quantile(quantile)
    floats[:, BACKLOG_BEFORE] = np.nan
    memory.ints[:, WINDOW] = window
    return memory


@compiled
def learn(o: int, view: View, memory: Memory) -> None:
    """Remember the rate of the interval, and the backlog at its beginning."""
    ints = memory.ints[o]
    memory.floats[o, RATES + ints[SEEN_RATES] % ints[WINDOW]] = view.seen[o, RATE]
    memory.floats[o, BACKLOG_BEFORE] = view.before[o, BACKLOG]
    ints[SEEN_RATES] += 1


@compiled
def range_of_rates(o: int, memory: Memory) -> tuple[float, float]:
    """Return the least and the largest rate of the last intervals; `inf` and 0 before the first."""
    least, largest = np.inf, 0.0
    for place in range(min(memory.ints[o, SEEN_RATES], memory.ints[o, WINDOW])):
        least = min(least, memory.floats[o, RATES + place])
        largest = max(largest, memory.floats[o, RATES + place])
    return least, largest


@compiled
def grown_backlog(o: int, view: View, memory: Memory) -> float:
    """Return by how many records the backlog grew; NaN before the first interval was learned."""
    return view.seen[o, BACKLOG] - memory.floats[o, BACKLOG_BEFORE]


@compiled
def is_growing(o: int, view: View, memory: Memory) -> bool:
    """Return whether the backlog grows by more than chance."""
    arrived = view.seen[o, RATE] * view.seen[o, INTERVAL]
    return grown_backlog(o, view, memory) > GROWTH * arrived + 1


@compiled
def is_rising(o: int, view: View, memory: Memory) -> bool:
    """Return whether the rate exceeds the least of late by more than the headroom."""
    least, _ = range_of_rates(o, memory)
    return view.seen[o, RATE] > least * (1 + memory.floats[o, HEADROOM])


@compiled
def make_plan(o: int, view: View, memory: Memory) -> Plan:
    """Return what the deployments are judged by."""
    floats, seen = memory.floats[o], view.seen[o]
    planned = seen[RATE] * (1 + floats[HEADROOM])
    _, largest = range_of_rates(o, memory)
    largest = max(largest, seen[RATE])
    strained = seen[BUSIEST] >= SATURATED or is_growing(o, view, memory)
    late = seen[RESPONSE_TIME] > seen[BUDGET]
    unseen = memory.ints[o, SEEN_RATES] < memory.ints[o, WINDOW]
    return Plan(
        planned,
        planned + seen[BACKLOG] / floats[CATCH_UP],
        largest * (1 + floats[HEADROOM]) * (1 + floats[MARGIN]),
        planned * (1 + floats[MARGIN]),
        seen[BUDGET],
        floats[QUANTILE],
        floats[NORMAL],
        floats[CAP] * (1 + ROUNDING),
        floats[SAVING],
        strained,
        strained or late or is_rising(o, view, memory) or unseen,
    )


@compiled
def decide(o: int, view: View, memory: Memory) -> None:
    """Jump to the deployment that wins."""
    choose(o, view, make_plan(o, view, memory), memory.ints[o, ROW:])


def _explain(observation: Observation, target: Deployment, view: View, memory: Memory) -> Decision:
    plan = make_plan(0, view, memory)
    words = _say_obstacles(observation, plan, view, memory)
    return explain(observation, tabulate(plan, words, target, view, memory.ints[0, ROW:]))


def _say_obstacles(observation: Observation, plan: Plan, view: View, memory: Memory) -> Words:
    """Return why the operator must not get less, and why nothing cheaper is considered."""
    strain = obstacle = None
    if plan.strained:
        busiest = view.seen[0, BUSIEST]
        strain = f"the backlog grew by {grown_backlog(0, view, memory):,.0f} records"
        if busiest >= SATURATED:
            strain = f"a replica is {say_share(busiest)} busy"
    seen, window = memory.ints[0, SEEN_RATES], memory.ints[0, WINDOW]
    if strain is not None:
        obstacle = strain
    elif observation.response_time > observation.budget:
        obstacle = "the measured response time exceeds the budget"
    elif is_rising(0, view, memory):
        obstacle = f"the rate is rising, to {say_rate(observation.rate)}"
    elif seen < window:
        obstacle = (
            f"only {seen} of the {window} intervals that a saving must have carried were seen"
        )
    return Words(strain, obstacle)
