"""Learned thresholds after Heinze: `heinze-cheapest`, `heinze-fastest`.

SARSA over bins of utilisation, actions -1, 0 and +1 replica, towards a target utilisation T:

    level  = utilisation in bins of 5 %, up to 1000 %
    Q      begins with the rule of a threshold: above T scale out, below T/2 scale in, else stay
    cost   = |utilisation of the bin - T|
    Q(s, a) <- (1 - alpha) Q(s, a) + alpha (cost + gamma Q(s', a'))     with the a' that is taken
    after +1: no bin above s may prefer -1 to +1; after -1: no bin below s may prefer +1 to -1

It is greedy. A replica that joins is of the cheapest or the fastest type; the oldest one leaves.

Source: Heinze, Pappalardo, Jerzak, Fetzer, "Auto-scaling techniques for elastic data stream
processing", ICDE Workshops 2014; compared with in Russo Russo, Cardellini, Lo Presti, ACM TAAS
2023, section 6. `published: 1` leaves the bins 11, 189 and 200 without their rule, which the
rounding of the program behind the published figures skips.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from weir_policies.kernels.compiled import compiled
from weir_policies.kernels.explaining import explain_scores
from weir_policies.kernels.policy import Algorithm
from weir_policies.kernels.replica_order import CHEAPEST, FASTEST, find_joining, scale_to
from weir_policies.kernels.steps import total
from weir_policies.kernels.view import BUSIEST, MAX_REPLICAS, TIME, Memory, View, empty_memory
from weir_policies.kernels.wording import say_share
from weir_policies.model.node_types import Deployment
from weir_policies.parameters import read_parameters, refuse_outside
from weir_policies.policy import Decision, Neighbourhood, Observation

BINS_PER_UNIT = 20
MOST = 10.0
"""Utilisation above which all is one bin."""
BINS = int(BINS_PER_UNIT * MOST) + 1
WIDTH = 1 / BINS_PER_UNIT

STAY, LESS, MORE = range(3)
LEAST_ALPHA, ALPHA_DECAY, ALPHA_EVERY = 0.1, 0.98, 10
TILT = 0.1
"""How much worse the wrong direction is made."""

TARGET, GAMMA, ALPHA, TAKEN_AT = range(4)  # columns of `Memory.floats`
CHOICE, UPDATES, TAKEN, TAKEN_IN = range(4)  # columns of `Memory.ints`


@dataclass(frozen=True, kw_only=True, slots=True)
class HeinzeParameters:
    """Settings of the Heinze policies.

    Raises:
        ParameterError: One is out of its range.
    """

    utilisation: float = 0.75
    """Busy share of the worst replica to aim at, T; inside (0, 1]."""
    gamma: float = 0.99
    """Weight of the next interval's costs against this one's."""
    alpha: float = 0.3
    """Learning rate to begin with; it falls to 0.1."""
    published: int = 0
    """1 leaves three bins without their rule."""

    def __post_init__(self) -> None:
        """Refuse what is out of range."""
        refuse_outside("utilisation", self.utilisation, low=0, high=1, low_allowed=False)
        refuse_outside("gamma", self.gamma, low=0, high=1, high_allowed=False)
        refuse_outside("alpha", self.alpha, low=0, high=1)
        refuse_outside("published", self.published, low=0, high=1)


def define(values: Mapping[str, Any], *, name: str) -> Algorithm:
    """Return the algorithm of one of the two policies, its parameters bound."""
    parameters = read_parameters(HeinzeParameters, values, policy=name)
    choice = CHEAPEST if name == "heinze-cheapest" else FASTEST
    return Algorithm(
        neighbourhood=Neighbourhood.ONE,
        prepare=partial(_prepare, parameters, choice),
        learn=learn,
        decide=decide,
        explain=_explain,
    )


def _prepare(parameters: HeinzeParameters, choice: int, view: View, ticks: int) -> Memory:
    memory = empty_memory(view, floats=4, ints=4, values=3 * BINS)
    memory.floats[:, TARGET] = parameters.utilisation
    memory.floats[:, GAMMA] = parameters.gamma
    memory.floats[:, ALPHA] = parameters.alpha
    memory.ints[:, CHOICE] = choice
    memory.ints[:, TAKEN_IN] = -1
    for level, utilisation in _list_bins(published=bool(parameters.published)):
        wrong = [0.0, 1.0, 1.0]
        if utilisation > parameters.utilisation:
            wrong = [1.0, 1.0, 0.0]
        elif utilisation < parameters.utilisation / 2:
            wrong = [1.0, 0.0, 1.0]
        memory.values[:, 3 * level : 3 * level + 3] = wrong
    return memory


def _list_bins(*, published: bool) -> list[tuple[int, float]]:
    """Return the bins with the utilisation that each stands for.

    The program behind the published figures adds up 0.05, which rounds: three bins are left out,
    and others stand for a utilisation just above their own.
    """
    if not published:
        return [(level, level * WIDTH) for level in range(BINS)]
    bins, utilisation = [], 0.0
    while utilisation <= MOST:
        bins.append((int(utilisation * 100 / 5), utilisation))
        utilisation += WIDTH
    return bins


@compiled
def bin_of(utilisation: float) -> int:
    """Return the bin of a utilisation."""
    return int(min(MOST, utilisation) * 100 / 5)


@compiled
def find_best(o: int, view: View, memory: Memory) -> int:
    """Return the valid action of least Q; the first of equals, staying first."""
    level, size = bin_of(view.seen[o, BUSIEST]), total(view.counts[o])
    best, least = STAY, memory.values[o, 3 * level + STAY]
    if size > 1 and memory.values[o, 3 * level + LESS] < least:
        best, least = LESS, memory.values[o, 3 * level + LESS]
    if size < view.rules[o, MAX_REPLICAS] and memory.values[o, 3 * level + MORE] < least:
        best = MORE
    return best


@compiled
def learn(o: int, view: View, memory: Memory) -> None:
    """Judge the last action by how far utilisation is from the target now."""
    level, before = bin_of(view.seen[o, BUSIEST]), bin_of(view.before[o, BUSIEST])
    memory.ints[o, UPDATES] += 1
    decays = (memory.ints[o, UPDATES] + 1) // ALPHA_EVERY  # the first tick counts as well
    alpha = max(LEAST_ALPHA, memory.floats[o, ALPHA] * ALPHA_DECAY ** min(decays, 1000))
    change = total(view.counts[o]) - total(view.counts_before[o])
    action = MORE if change > 0 else LESS if change < 0 else STAY
    # The action is chosen before the update that it takes part in; `decide`, next, takes it.
    following = find_best(o, view, memory)
    memory.ints[o, TAKEN], memory.ints[o, TAKEN_IN] = following, level
    memory.floats[o, TAKEN_AT] = view.seen[o, TIME]
    cost = abs(level * WIDTH - memory.floats[o, TARGET])
    aim = cost + memory.floats[o, GAMMA] * memory.values[o, 3 * level + following]
    place = 3 * before + action
    memory.values[o, place] = (1 - alpha) * memory.values[o, place] + alpha * aim
    if following == MORE:
        for higher in range(before, BINS):
            memory.values[o, 3 * higher + LESS] = memory.values[o, 3 * higher + MORE] + TILT
    elif following == LESS:
        for lower in range(before + 1):
            memory.values[o, 3 * lower + MORE] = memory.values[o, 3 * lower + LESS] + TILT


@compiled
def decide(o: int, view: View, memory: Memory) -> None:
    """Take the action that learning chose for this state, else the valid one of least Q."""
    size, level = total(view.counts[o]), bin_of(view.seen[o, BUSIEST])
    best = memory.ints[o, TAKEN]
    known = memory.ints[o, TAKEN_IN] == level
    if not known or memory.floats[o, TAKEN_AT] != view.seen[o, TIME]:
        best = find_best(o, view, memory)
    change = 1 if best == MORE else -1 if best == LESS else 0
    scale_to(o, view, size + change, memory.ints[o, CHOICE])


def _explain(observation: Observation, target: Deployment, view: View, memory: Memory) -> Decision:
    """Compare the values of the three actions."""
    here, level = observation.deployment, bin_of(float(view.seen[0, BUSIEST]))
    values = memory.values[0, 3 * level : 3 * level + 3]
    scores = {here: float(values[STAY])}
    size, choice = here.size, int(memory.ints[0, CHOICE])
    for change, action in ((-1, LESS), (1, MORE)):
        if 1 <= size + change <= view.rules[0, MAX_REPLICAS]:
            view.target[0] = view.counts[0]
            if change > 0 and find_joining(0, view, choice) < 0:
                continue
            scale_to(0, view, size + change, choice)
            scores[Deployment(tuple(int(count) for count in view.target[0]))] = float(
                values[action]
            )
    busy = say_share(float(view.seen[0, BUSIEST]))
    aim = say_share(float(memory.floats[0, TARGET]))
    reason = f"the worst replica is {busy} busy, {aim} is aimed at, and this has served best there"
    return explain_scores(observation, target, reason, scores)
