"""Model-based reinforcement learning: `model-based`, which learns a model and plans with it.

    P(l, l') = how often level l' followed level l, each level having stayed once to begin with
    c(k, l)  = probability that k breaks the budget at level l, from 0 on:
               c <- (1 - alpha) c + alpha [it did], then no higher level may be less likely to,
               and no lower one more likely
    U        = improved by `sweeps` sweeps of `kernels.planning`, after every interval while fewer
               than `eager` were seen, then every `period` intervals, a period that grows
    a        = the valid action of least value; the first of equals, staying first

It never explores: what it does not know counts as free of violations.

Source: the program behind Russo Russo, Cardellini, Lo Presti, ACM TAAS 2023, which has it beside
the policies of the paper. `published: 1` keeps its slip: putting the probabilities in order moves
the level of the state in hand, so that after a change the action is chosen for, and remembered
with, the highest level (after a rise) or the next lower one (after a fall).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from weir_policies.errors import ParameterError
from weir_policies.kernels.compiled import compiled
from weir_policies.kernels.explaining import explain_scores
from weir_policies.kernels.levels import LevelParameters, learning_rate, level_of
from weir_policies.kernels.planning import (
    LEVELS,
    OWN,
    QUANTUM,
    count_transition,
    find_best,
    new_plan,
    remember_prices,
    score_actions,
    sweep,
    violations_at,
)
from weir_policies.kernels.policy import Algorithm
from weir_policies.kernels.ranking import number_of
from weir_policies.kernels.steps import take
from weir_policies.kernels.view import MAX_REPLICAS, RATE, TIME, VIOLATION, Memory, View
from weir_policies.model.node_types import Deployment
from weir_policies.parameters import read_parameters, refuse_outside
from weir_policies.policy import Decision, Neighbourhood, Observation

# Columns of `Memory.floats` and `Memory.ints`.
LEAST_ALPHA, PERIOD, GROWTH, NEXT, MOVED_AT = range(OWN, OWN + 5)
EAGER, SWEEPS, PUBLISHED, UPDATES, MOVED = range(OWN, OWN + 5)
LONGEST = 50_000.0
"""Intervals that a period grows to."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelBasedParameters(LevelParameters):
    """Settings of `model-based`.

    Raises:
        ParameterError: One is out of its range.
    """

    gamma: float = 0.99
    """Weight of the next interval's costs against this one's."""
    least_alpha: float = 0.1
    """Floor of the learning rate of c, which starts at 1."""
    eager: int = 100
    """Intervals below which every one is followed by planning."""
    period: float = 50.0
    """Intervals from one planning to the next afterwards."""
    growth: float = 1.0
    """What the period is multiplied by each time; up to 50,000 intervals."""
    sweeps: int = 1
    """Sweeps of one planning."""
    published: int = 0
    """1 moves the level of the state in hand."""

    def __post_init__(self) -> None:
        """Refuse what is out of range."""
        LevelParameters.__post_init__(self)
        refuse_outside("gamma", self.gamma, low=0, high=1, high_allowed=False)
        refuse_outside("least_alpha", self.least_alpha, low=0, high=1)
        refuse_outside("eager", self.eager, low=0)
        refuse_outside("period", self.period, low=1)
        refuse_outside("growth", self.growth, low=1)
        refuse_outside("sweeps", self.sweeps, low=1, high=10_000)
        refuse_outside("published", self.published, low=0, high=1)
        for name in ("eager", "sweeps"):
            if getattr(self, name) != int(getattr(self, name)):
                raise ParameterError(
                    f"Expected a whole number for {name}, got {getattr(self, name)}"
                )


def define(values: Mapping[str, Any], *, name: str) -> Algorithm:
    """Return the algorithm registered as `model-based`, its parameters bound."""
    parameters = read_parameters(ModelBasedParameters, values, policy=name)
    return Algorithm(
        neighbourhood=Neighbourhood.ONE,
        prepare=partial(_prepare, parameters),
        learn=learn,
        decide=decide,
        explain=_explain,
        needed=("budget",),
    )


def _prepare(parameters: ModelBasedParameters, view: View, ticks: int) -> Memory:
    memory = new_plan(
        view,
        levels=int(parameters.levels),
        gamma=parameters.gamma,
        quanta=parameters.find_quanta(view),
        policy="model-based",
        published=False,
    )
    memory.floats[:, LEAST_ALPHA] = parameters.least_alpha
    memory.floats[:, PERIOD] = parameters.period
    memory.floats[:, GROWTH] = parameters.growth
    memory.floats[:, NEXT] = parameters.eager
    memory.floats[:, MOVED_AT] = -1.0
    memory.ints[:, EAGER] = int(parameters.eager)
    memory.ints[:, SWEEPS] = int(parameters.sweeps)
    memory.ints[:, PUBLISHED] = int(parameters.published)
    return memory


@compiled
def present_level(o: int, rate: float, time: float, memory: Memory) -> int:
    """Return the level of a rate seen at a time; under `published` what it was moved to."""
    if memory.ints[o, PUBLISHED] and time == memory.floats[o, MOVED_AT]:
        return memory.ints[o, MOVED]
    return level_of(rate, memory.floats[o, QUANTUM], memory.ints[o, LEVELS])


@compiled
def learn_violation(o: int, view: View, memory: Memory, level: int) -> int:
    """Update c with the last interval and put it in order; return -1, 0 or 1 for how it moved."""
    here = number_of(view.counts[o], view.rules[o, MAX_REPLICAS])
    first = violations_at(o, memory, here)
    alpha = learning_rate(memory.ints[o, UPDATES], memory.floats[o, LEAST_ALPHA])
    old = memory.values[o, first + level]
    new = (1 - alpha) * old + alpha * view.cost[o, VIOLATION]
    memory.values[o, first + level] = new
    if new > old:
        for higher in range(level + 1, memory.ints[o, LEVELS]):
            place = first + higher
            memory.values[o, place] = max(memory.values[o, place], new)
        return 1
    if new < old:
        for lower in range(level):
            place = first + lower
            memory.values[o, place] = min(memory.values[o, place], new)
        return -1
    return 0


@compiled
def learn(o: int, view: View, memory: Memory) -> None:
    """Learn the transition and the violation, and plan where it is due."""
    levels = memory.ints[o, LEVELS]
    level = level_of(view.seen[o, RATE], memory.floats[o, QUANTUM], levels)
    before = present_level(o, view.before[o, RATE], view.before[o, TIME], memory)
    count_transition(o, memory, before, level)
    direction = learn_violation(o, view, memory, level)
    memory.ints[o, MOVED] = level
    if direction > 0:
        memory.ints[o, MOVED] = levels - 1
    elif direction < 0:
        memory.ints[o, MOVED] = max(level - 1, 0)
    memory.floats[o, MOVED_AT] = view.seen[o, TIME]
    memory.ints[o, UPDATES] += 1
    updates = memory.ints[o, UPDATES]
    if updates < memory.ints[o, EAGER] or updates >= memory.floats[o, NEXT]:
        remember_prices(o, view, memory)
        for _ in range(memory.ints[o, SWEEPS]):
            sweep(o, view, memory)
    if updates >= memory.floats[o, NEXT]:
        memory.floats[o, NEXT] = updates + memory.floats[o, PERIOD]
        longer = memory.floats[o, PERIOD] * memory.floats[o, GROWTH]
        memory.floats[o, PERIOD] = min(longer, LONGEST)


@compiled
def decide(o: int, view: View, memory: Memory) -> None:
    """Take the action of least value."""
    level = present_level(o, view.seen[o, RATE], view.seen[o, TIME], memory)
    take(o, view, find_best(o, view, memory, level))


def _explain(observation: Observation, target: Deployment, view: View, memory: Memory) -> Decision:
    """Compare the planned values of all valid actions."""
    level = present_level(0, observation.rate, observation.time, memory)
    scores = score_actions(view, memory, level)
    reason = (
        f"of {len(scores)} actions the learned model expects it to cost least, "
        f"{scores[target]:.3g}, after {memory.ints[0, UPDATES]:,} intervals learned"
    )
    return explain_scores(observation, target, reason, scores)
