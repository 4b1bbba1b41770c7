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

from dataclasses import dataclass

from weir_policies.kernels.compiled import compiled
from weir_policies.kernels.explaining import explain_scores
from weir_policies.kernels.fields import Fields, array
from weir_policies.kernels.policy import definition
from weir_policies.kernels.replica_order import CHEAPEST, FASTEST, find_joining, scale_to
from weir_policies.kernels.steps import total
from weir_policies.kernels.view import Memory, View
from weir_policies.kernels.wording import format_share
from weir_policies.model.arrays import Floats
from weir_policies.model.node_types import Deployment
from weir_policies.parameters import PolicyParameters, setting
from weir_policies.policy import Decision, Observation

BINS_PER_UNIT = 20
MAX_UTILISATION = 10.0
"""Utilisation above which all is one bin."""
BINS = int(BINS_PER_UNIT * MAX_UTILISATION) + 1
WIDTH = 1 / BINS_PER_UNIT

CHOICES = {"heinze-cheapest": CHEAPEST, "heinze-fastest": FASTEST}

STAY, LESS, MORE = range(3)
MIN_ALPHA, ALPHA_DECAY, ALPHA_EVERY = 0.1, 0.98, 10
TILT = 0.1
"""How much worse the wrong direction is made."""


class HeinzeMemory(Fields):
    """Settings and learned state of a Heinze policy."""

    target: float
    gamma: float
    alpha: float
    choice: int
    """Which node type joins."""
    updates: int
    taken: int
    """The action that learning chose, in which bin and at what time."""
    taken_in: int
    taken_at: float
    costs: Floats = array(BINS, 3)
    """Q of the actions in each bin."""


@dataclass(frozen=True, kw_only=True, slots=True)
class HeinzeParameters(PolicyParameters):
    """Settings of the Heinze policies."""

    utilisation: float = setting(0.75, low=0, high=1, low_allowed=False)
    """Busy share of the worst replica to aim at, T; inside (0, 1]."""
    gamma: float = setting(0.99, low=0, high=1, high_allowed=False)
    """Weight of the next interval's costs against this one's."""
    alpha: float = setting(0.3, low=0, high=1)
    """Learning rate to begin with; it falls to 0.1."""
    published: int = setting(0, low=0, high=1)
    """1 leaves three bins without their rule."""


def _prepare(parameters: HeinzeParameters, choice: int, view: View, ticks: int) -> Memory:
    memory = HeinzeMemory.allocate(
        view, parameters, target=parameters.utilisation, choice=choice, taken_in=-1
    )
    for level, utilisation in _list_bins(published=bool(parameters.published)):
        wrong = [0.0, 1.0, 1.0]
        if utilisation > parameters.utilisation:
            wrong = [1.0, 1.0, 0.0]
        elif utilisation < parameters.utilisation / 2:
            wrong = [1.0, 0.0, 1.0]
        for row in memory:
            HeinzeMemory(row).costs[level] = wrong
    return memory


def _list_bins(*, published: bool) -> list[tuple[int, float]]:
    """Return the bins with the utilisation of each.

    The program behind the published figures adds up 0.05, which rounds: three bins are left out,
    and others stand for a utilisation just above their own.
    """
    if not published:
        return [(level, level * WIDTH) for level in range(BINS)]
    bins, utilisation = [], 0.0
    while utilisation <= MAX_UTILISATION:
        bins.append((int(utilisation * 100 / 5), utilisation))
        utilisation += WIDTH
    return bins


@compiled
def bin_of(utilisation: float) -> int:
    """Return the bin of a utilisation."""
    return int(min(MAX_UTILISATION, utilisation) * 100 / 5)


@compiled
def find_best(o: int, view: View, own: HeinzeMemory) -> int:
    """Return the valid action of least Q; the first of equals, staying first."""
    costs, size = own.costs[bin_of(view.seen[o].busiest)], total(view.counts[o])
    best, best_cost = STAY, costs[STAY]
    if size > 1 and costs[LESS] < best_cost:
        best, best_cost = LESS, costs[LESS]
    if size < view.model[o].max_replicas and costs[MORE] < best_cost:
        best = MORE
    return best


@compiled
def learn(o: int, view: View, memory: Memory) -> None:
    """Judge the last action by how far utilisation is from the target now."""
    own = HeinzeMemory(memory[o])
    level, before = bin_of(view.seen[o].busiest), bin_of(view.before[o].busiest)
    own.updates += 1
    decays = (own.updates + 1) // ALPHA_EVERY  # the first tick counts as well
    alpha = max(MIN_ALPHA, own.alpha * ALPHA_DECAY ** min(decays, 1000))
    change = total(view.counts[o]) - total(view.counts_before[o])
    action = MORE if change > 0 else LESS if change < 0 else STAY
    # The action is chosen before the update that it takes part in; `decide`, next, takes it.
    following = find_best(o, view, own)
    own.taken, own.taken_in, own.taken_at = following, level, view.seen[o].time
    costs = own.costs
    aim = abs(level * WIDTH - own.target) + own.gamma * costs[level, following]
    costs[before, action] = (1 - alpha) * costs[before, action] + alpha * aim
    if following == MORE:
        for higher in range(before, BINS):
            costs[higher, LESS] = costs[higher, MORE] + TILT
    elif following == LESS:
        for lower in range(before + 1):
            costs[lower, MORE] = costs[lower, LESS] + TILT


@compiled
def decide(o: int, view: View, memory: Memory) -> None:
    """Take the action that learning chose for this state, else the valid one of least Q."""
    own = HeinzeMemory(memory[o])
    size, best = total(view.counts[o]), own.taken
    known = own.taken_in == bin_of(view.seen[o].busiest)
    if not known or own.taken_at != view.seen[o].time:
        best = find_best(o, view, own)
    change = 1 if best == MORE else -1 if best == LESS else 0
    scale_to(o, view, size + change, own.choice)


def _explain(observation: Observation, target: Deployment, view: View, memory: Memory) -> Decision:
    here, own = observation.deployment, HeinzeMemory(memory[0])
    values = own.costs[bin_of(float(view.seen[0].busiest))]
    scores = {here: float(values[STAY])}
    size, choice = here.size, int(own.choice)
    for change, action in ((-1, LESS), (1, MORE)):
        if 1 <= size + change <= view.model[0].max_replicas:
            view.target[0] = view.counts[0]
            if change > 0 and find_joining(0, view, choice) < 0:
                continue
            scale_to(0, view, size + change, choice)
            scores[Deployment(tuple(int(count) for count in view.target[0]))] = float(
                values[action]
            )
    busy = format_share(float(view.seen[0].busiest))
    aim = format_share(float(own.target))
    reason = f"the busiest replica is {busy} busy, target {aim}; this step has worked best so far"
    return explain_scores(observation, target, reason, scores)


define = definition(
    HeinzeParameters, _prepare, choices=CHOICES, learn=learn, decide=decide, explain=_explain
)
