"""Reactive scaling after Lohrmann: `lohrmann-cheapest`, `-fastest`, `-first`.

Path by path, the fewest replicas whose waiting times keep the path's budget together. With rate l,
mean service time S and variabilities c_A, c_S of operator i on p replicas of one speed,

    W(p) = a / (p - b),   a = l S^2 (c_A^2 + c_S^2) / 2,   b = l S     (Kingman)

1. Where an operator could not do with one replica, each operator that is saturated gets twice what
   it has, or what its utilisation asks for.
2. If not even k_max replicas everywhere keep the budget, all get k_max.
3. Else, while the waiting times exceed it: the operator that gains most by another replica gets so
   many that the next ones gain no more than the second best would.

All move at once, by any number; the one that leaves is the oldest. Speeds are ignored, and so is
the service time itself, as in the program behind the published figures.

Source: Lohrmann, Janacik, Kao, "Elastic stream processing with latency guarantees", ICDCS 2015;
compared with in Russo Russo, Cardellini, Lo Presti, ACM TAAS 2023, section 6.
"""

from __future__ import annotations

import numpy as np

from weir_policies.kernels.compiled import compiled
from weir_policies.kernels.explaining import explain_rule
from weir_policies.kernels.fields import Fields, array
from weir_policies.kernels.paths import flatten_paths, list_paths
from weir_policies.kernels.policy import definition
from weir_policies.kernels.replica_order import CHEAPEST, FASTEST, FIRST, scale_to
from weir_policies.kernels.steps import total
from weir_policies.kernels.view import Memory, View
from weir_policies.kernels.wording import format_rate, format_time
from weir_policies.model.arrays import Counts
from weir_policies.model.node_types import Deployment
from weir_policies.operator_manager.hold import learn_nothing
from weir_policies.parameters import PolicyParameters
from weir_policies.policy import Decision, Observation

CHOICES = {
    "lohrmann-cheapest": CHEAPEST,
    "lohrmann-fastest": FASTEST,
    "lohrmann-first": FIRST,
}
SATURATED = 0.99
"""Utilisation from which a replica counts as saturated."""
ENDLESS = 999.0
"""Seconds that stand for the waiting time of an operator that cannot keep up."""


class LohrmannMemory(Fields):
    """Settings of a Lohrmann policy."""

    choice: int
    """Which node type joins."""
    length: int
    paths: Counts = array("length")
    """As in `kernels.paths`."""


def prepare(parameters: PolicyParameters, choice: int, view: View, ticks: int) -> Memory:
    """Return a memory of the choice of node type and of the paths."""
    flat = flatten_paths(list_paths(view))
    memory = LohrmannMemory.allocate(view, choice=choice, length=len(flat))
    LohrmannMemory(memory[0]).paths[:] = flat
    return memory


@compiled
def variability(o: int, view: View) -> float:
    """Return the mean of the squared variabilities of arrivals and service."""
    return (view.model[o].arrival_scv + view.model[o].service_scv) / 2


@compiled
def wait(o: int, view: View, replicas: int) -> float:
    """Return the mean waiting time on so many replicas, s."""
    service = view.model[o].service_mean
    rho = view.seen[o].rate * service / replicas
    if rho >= 1:
        return ENDLESS
    return rho * service / (1 - rho) * variability(o, view)


@compiled
def decide(o: int, view: View, memory: Memory) -> None:
    """Find the replicas of all operators, path by path, and move there."""
    own, operators = LohrmannMemory(memory[0]), view.counts.shape[0]
    # The first column of the target holds replicas until all paths have asked for theirs.
    for row in range(operators):
        view.target[row, 0] = 1
    paths, place = own.paths, 1
    for _ in range(paths[0]):
        length = paths[place]
        _serve_path(view, paths[place + 1 : place + 1 + length])
        place += 1 + length
    for row in range(operators):
        scale_to(row, view, view.target[row, 0], own.choice)


@compiled
def _serve_path(view: View, path: Counts) -> None:
    """Raise the replicas of a path's operators until its waiting times keep its budget."""
    budget, shortest, bottleneck = 0.0, 0.0, False
    for o in path:
        budget += view.seen[o].budget
        shortest += wait(o, view, view.model[o].max_replicas)
        bottleneck = bottleneck or (view.seen[o].rate * view.model[o].service_mean > SATURATED)
    if bottleneck:
        for o in path:
            busy = view.seen[o].busiest
            if busy > SATURATED:
                held = total(view.counts[o])
                wanted = int(np.ceil(max(2.0 * held, 2.0 * held * busy)))
                wanted = min(wanted, view.model[o].max_replicas)
                view.target[o, 0] = max(view.target[o, 0], wanted)
    if shortest >= budget:
        for o in path:
            view.target[o, 0] = view.model[o].max_replicas
        return
    while True:
        waiting = 0.0
        best, gain, second, scalable = -1, -1.0, 0.0, 0
        for o in path:
            replicas = view.target[o, 0]
            waiting += wait(o, view, replicas)
            if replicas < view.model[o].max_replicas:
                scalable += 1
                gained = wait(o, view, replicas) - wait(o, view, replicas + 1)
                if gained > gain:
                    best, gain, second = o, gained, max(gain, 0.0)
                else:
                    second = max(second, gained)
        if waiting <= budget or best < 0:
            return
        _raise(best, view, budget - waiting, second, scalable)


@compiled
def _raise(o: int, view: View, slack: float, second: float, scalable: int) -> None:
    """Give an operator the replicas that it needs, or that gain more than the second best."""
    replicas = view.target[o, 0]
    load = view.seen[o].rate * view.model[o].service_mean
    slope = load * view.model[o].service_mean * variability(o, view)
    wanted = replicas + 1.0
    if scalable == 1:
        left = slack + wait(o, view, replicas)
        if left > 0:
            wanted = np.ceil(slope / left + load)
    elif second > 0:
        wanted = np.ceil(load + (np.sqrt(1 + 4 * slope / second) - 1) / 2)
    maximum = view.model[o].max_replicas
    view.target[o, 0] = min(max(int(min(wanted, maximum)), replicas + 1), maximum)


def _explain(observation: Observation, target: Deployment, view: View, memory: Memory) -> Decision:
    waiting = wait(0, view, target.size)
    expected = "unlimited" if waiting >= ENDLESS else format_time(waiting)
    return explain_rule(
        observation,
        target,
        f"at {format_rate(observation.rate)}, the expected waiting time on {target.size} replicas "
        f"is {expected}; the budget is {format_time(observation.budget)}",
    )


define = definition(
    PolicyParameters,
    prepare,
    choices=CHOICES,
    learn=learn_nothing,
    decide=decide,
    explain=_explain,
    needed=("budget", "model.service_mean", "model.service_scv"),
    joint=True,
)
