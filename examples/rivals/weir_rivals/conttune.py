"""ContTune: first enough replicas, then as few as a Gaussian process says will do.

    processing ability PA(p) = replicas p x records processed / time spent busy, the mean of the
                               last K of each number of replicas that was in use
    Big phase, while the operator holds back others:
        p = the most replicas observed, or twice as many where that is the present number
    Small phase, otherwise (conservative Bayesian optimisation):
        p_acq = the smallest p with mu(p) >= rate, mu the mean of a process through the PA(p)
        p     = p_acq where an observed number of replicas is at most alpha away from it,
                else DS2's answer, the smallest p with p x PA(present) / present >= rate

Source: Lian et al., "ContTune: Continuous Tuning by Conservative Bayesian Optimization for
Distributed Stream Data Processing Systems", PVLDB 16(13), 2023: Algorithms 1 and 2, Eqs. 3 and 5,
section 7; the authors' program, ljqcodelove/ContTune, for the process: squared exponential
kernel, mean 0, length and variance of greatest likelihood. Departures:
1. Algorithm 1 gives all operators of a job the most replicas that any had. Here each operator
   decides alone: one that holds back others gets the most that it had itself.
2. Weir does not observe back-pressure, and the paper prints no threshold for it. An operator holds
   back others where records wait before it and it took in less than arrived, in two intervals on
   end: in the interval of a restart it takes in less whatever its size.
3. The paper tunes where use of the CPU is below a threshold that it does not print, and ignores
   changes that are small by another. Here the Small phase follows in each interval, as DS2 does,
   and no change is too small.
4. The length is the best of a fixed grid, and the noise a small fixed part of the variance: the
   program's is zero to a computer's precision, with which the equations cannot be solved for long
   lengths. Of more than 24 numbers of replicas, the process knows those nearest to the present one.
5. It knows no node types. The mix stays as it is, see `kernels.enumeration`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from weir_policies.kernels.compiled import compiled, compiled_apart
from weir_policies.kernels.enumeration import scale_mix
from weir_policies.kernels.explaining import explain_rule
from weir_policies.kernels.fields import Fields, array
from weir_policies.kernels.policy import Algorithm
from weir_policies.kernels.steps import choose_action, find_action, total
from weir_policies.kernels.view import Memory, View
from weir_policies.kernels.wording import format_rate
from weir_policies.model.arrays import Floats
from weir_policies.model.node_types import Deployment
from weir_policies.operator_manager.ds2 import BEYOND, ROUNDING, measure_true_rate
from weir_policies.parameters import PolicyParameters, read_parameters, setting
from weir_policies.policy import Decision, Observation
from weir_rivals.dhalion import measure_taken_in

STAY = 0
POINTS = 24
"""Numbers of replicas that the process goes through at most."""
FIRST_LENGTH = 2.5
"""Length of the kernel, in replicas, with which the authors begin; the only one for one point."""
LENGTHS = 12
"""Further lengths to choose from, each `LONGER` times the one before, from 1 on."""
LONGER = 1.4
NOISE = 1e-6
"""Variance of the noise, relative to that of the process."""
PERSISTS = 2
"""Intervals on end for which others must be held back."""


class ContTuneMemory(Fields):
    """Settings of `conttune`, what was observed, and the process through it."""

    alpha: int
    recent: int
    held_back: int
    """Intervals on end for which it held back others."""
    sizes: int
    """Most replicas."""
    room: int
    """`sizes` times `recent`."""
    observed: Floats = array("room")
    """Last `recent` processing abilities of each number of replicas, records/s."""
    times: Floats = array("sizes")
    """How often each number was observed."""
    points: int
    """Numbers that the process goes through."""
    length: float
    replicas: Floats = array(24)
    """These numbers, `POINTS` of them."""
    abilities: Floats = array(24)
    weights: Floats = array(24)
    """K^-1 y."""
    solution: Floats = array(24)
    """Room for the weights of a length that is tried."""
    factor: Floats = array(24, 24)
    """Room for its Cholesky factor."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ContTuneParameters(PolicyParameters):
    """Settings of `conttune`; the defaults are those of the paper's evaluation.

    Raises:
        ParameterError: One is out of its range.
    """

    alpha: int = setting(3, low=0, whole=True)
    """Replicas by which what the process recommends may differ from what was observed."""
    recent: int = setting(5, low=1, high=1000, whole=True)
    """Observations of a number of replicas that count, K."""


def define(values: Mapping[str, Any], *, name: str) -> Algorithm:
    """Return the algorithm registered as `conttune`, its parameters bound."""
    parameters = read_parameters(ContTuneParameters, values, policy=name)
    return Algorithm(
        prepare=partial(_prepare, parameters),
        learn=learn,
        decide=decide,
        explain=_explain,
        needed=("processed", "backlog"),
    )


def _prepare(parameters: ContTuneParameters, view: View, ticks: int) -> Memory:
    sizes = view.model["max_replicas"]
    return ContTuneMemory.allocate(
        view,
        alpha=int(parameters.alpha),
        recent=int(parameters.recent),
        sizes=sizes,
        room=sizes * int(parameters.recent),
    )


# Observations ------------------------------------------------------------------------------------


@compiled
def observe(own: ContTuneMemory, size: int, ability: float) -> None:
    """Add what so many replicas can process."""
    observed, times = own.observed, own.times
    observed[(size - 1) * own.recent + int(times[size - 1]) % own.recent] = ability
    times[size - 1] += 1


@compiled
def mean_ability(own: ContTuneMemory, size: int) -> float:
    """Return the mean of the last observations of so many replicas; 0 where there is none."""
    observed, count = own.observed, min(int(own.times[size - 1]), own.recent)
    whole = 0.0
    for place in range(count):
        whole += observed[(size - 1) * own.recent + place] / count
    return whole


@compiled
def most_observed(own: ContTuneMemory) -> int:
    """Return the most replicas that were observed, p_max; 0 where none were."""
    for size in range(own.sizes, 0, -1):
        if own.times[size - 1] > 0:
            return size
    return 0


@compiled
def collect(own: ContTuneMemory, here: int) -> None:
    """Write the points of the process, those nearest to the present number first."""
    replicas, abilities = own.replicas, own.abilities
    own.points = 0
    for distance in range(own.sizes):
        for side in range(1 if distance == 0 else 2):
            size = here - distance if side == 0 else here + distance
            if size < 1 or size > own.sizes or own.times[size - 1] == 0 or own.points == POINTS:
                continue
            replicas[own.points], abilities[own.points] = size, mean_ability(own, size)
            own.points += 1


# The process -------------------------------------------------------------------------------------


@compiled
def kernel_of(distance: float, length: float) -> float:
    """Return the correlation of two numbers of replicas."""
    return float(np.exp(-0.5 * (distance / length) ** 2))


@compiled
def solve(own: ContTuneMemory, length: float) -> float:
    """Write the weights for a length into `solution`; return how unlikely it makes the points."""
    count, factor, solution = own.points, own.factor, own.solution
    replicas, abilities = own.replicas, own.abilities
    loss = 0.0
    for row in range(count):
        for column in range(row + 1):
            value = kernel_of(replicas[row] - replicas[column], length)
            if row == column:
                value += NOISE
            for before in range(column):
                value -= factor[row, before] * factor[column, before]
            if row == column:
                factor[row, row] = np.sqrt(value)
                loss += np.log(factor[row, row])
            else:
                factor[row, column] = value / factor[column, column]
    likely = 0.0
    for row in range(count):
        value = abilities[row]
        for before in range(row):
            value -= factor[row, before] * solution[before]
        solution[row] = value / factor[row, row]
        likely += solution[row] ** 2
    for row in range(count - 1, -1, -1):
        value = solution[row]
        for after in range(row + 1, count):
            value -= factor[after, row] * solution[after]
        solution[row] = value / factor[row, row]
    # The variance of greatest likelihood is likely / count: what is left is about the length.
    return float(count * np.log(likely / count) / 2 + loss)


@compiled_apart
def fit(own: ContTuneMemory) -> None:
    """Choose the length of greatest likelihood, and write the weights."""
    weights, solution = own.weights, own.solution
    least = np.inf
    for number in range(LENGTHS + 1 if own.points > 1 else 1):
        length = FIRST_LENGTH if number == 0 else LONGER ** (number - 1)
        loss = solve(own, length)
        if loss < least:
            least, own.length = loss, length
            for point in range(own.points):
                weights[point] = solution[point]


@compiled
def predict(own: ContTuneMemory, size: int) -> float:
    """Return mu, what so many replicas are thought to process, records/s."""
    replicas, weights, mean = own.replicas, own.weights, 0.0
    for point in range(own.points):
        mean += kernel_of(size - replicas[point], own.length) * weights[point]
    return mean


# The policy --------------------------------------------------------------------------------------


@compiled
def learn(o: int, view: View, memory: Memory) -> None:
    """Observe what the replicas can process, and whether they hold back others."""
    own, seen = ContTuneMemory(memory[o]), view.seen[o]
    if find_action(view.counts_before[o], view.counts[o]) != STAY:
        own.held_back = 0
    waits = seen.backlog > 0 or seen.busiest > 1
    behind = waits and measure_taken_in(o, view) < seen.rate
    own.held_back = own.held_back + 1 if behind else 0
    true_rate, size = measure_true_rate(o, view), total(view.counts[o])
    if true_rate > 0:
        observe(own, size, true_rate * size)
        collect(own, size)
        fit(own)


@compiled
def is_held_back(own: ContTuneMemory) -> bool:
    """Return whether the operator holds back others, so that the Big phase is due."""
    return own.held_back >= PERSISTS


@compiled
def find_acquired(own: ContTuneMemory, rate: float) -> int:
    """Return p_acq; 0 where no number of replicas up to p_max is thought to be enough."""
    for size in range(1, most_observed(own) + 1):
        if predict(own, size) >= rate:
            return size
    return 0


@compiled
def is_known(own: ContTuneMemory, size: int) -> bool:
    """Return whether a number of replicas is near enough to one that was observed."""
    low, high = max(size - own.alpha, 1), min(size + own.alpha, own.sizes)
    known = False
    for other in range(low, high + 1):
        known = known or own.times[other - 1] > 0
    return known


@compiled
def count_wanted(o: int, view: View, own: ContTuneMemory) -> int:
    """Return the number of replicas to go to, even without room for them."""
    rate, size, most = view.seen[o].rate, total(view.counts[o]), most_observed(own)
    if size == 0:
        return 1
    if is_held_back(own):
        return 2 * size if size >= most else most
    if most > 0:
        acquired = find_acquired(own, rate)
        if acquired > 0 and is_known(own, acquired):
            return acquired
    true_rate = measure_true_rate(o, view)
    if true_rate <= 0:
        return size
    return max(int(min(np.ceil(rate / true_rate * (1 - ROUNDING)), BEYOND)), 1)


@compiled
def decide(o: int, view: View, memory: Memory) -> None:
    """Do a step of the phase that is due."""
    wanted = count_wanted(o, view, ContTuneMemory(memory[o]))
    if wanted == total(view.counts[o]):
        choose_action(o, view, STAY)
    else:
        scale_mix(o, view, wanted, False)


def _explain(observation: Observation, target: Deployment, view: View, memory: Memory) -> Decision:
    own, rate = ContTuneMemory(memory[0]), format_rate(observation.rate)
    wanted, acquired = count_wanted(0, view, own), find_acquired(own, observation.rate)
    many = f"{wanted} replica{'s' if wanted > 1 else ''}"
    if is_held_back(own):
        reason = f"it holds back those before it, so it gets {many}, enough before it gets few"
    elif acquired > 0 and is_known(own, acquired):
        reason = (
            f"{many} are thought to process {format_rate(predict(own, wanted))}, and {rate} arrive"
        )
    elif measure_true_rate(0, view) <= 0:
        reason = "no record was processed, so the true rate cannot be measured"
    else:
        reason = (
            f"too little was observed, and at the true rate of the present replicas {many} carry "
            f"the {rate} that arrive"
        )
    if target.size < wanted:
        reason += f", but there is room for only {target.size}"
    return explain_rule(observation, target, reason)
