"""Replicas by a network of M/M/p queues: `drs-cheapest`, `drs-fastest`, `drs-first`.

    p_i = floor(l_i S_i) + 1                                      the fewest that keep up
    while the sojourn times of a path exceed its budget:
        one replica more where the sojourn time falls most

The sojourn time is S and the waiting time of M/M/p (Erlang's C), times (c_A^2 + c_S^2) / 2. All
move at once, by any number; the one that leaves is the oldest. Speeds are ignored.

Source: Fu et al., "DRS: Dynamic resource scheduling for real-time analytics over fast streams",
ICDCS 2015; compared with in Russo Russo, Cardellini, Lo Presti, ACM TAAS 2023, section 6.
`published: 1` leaves the loop out: in the program behind the published figures it never runs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from weir_policies.kernels.compiled import compiled
from weir_policies.kernels.explaining import explain_rule
from weir_policies.kernels.fields import Fields, array
from weir_policies.kernels.paths import flatten_paths, list_paths
from weir_policies.kernels.policy import definition
from weir_policies.kernels.replica_order import CHEAPEST, FASTEST, FIRST, scale_to
from weir_policies.kernels.view import Memory, View
from weir_policies.kernels.wording import format_rate, format_time
from weir_policies.model.arrays import Counts
from weir_policies.model.node_types import Deployment
from weir_policies.operator_manager.hold import learn_nothing
from weir_policies.parameters import PolicyParameters, setting
from weir_policies.policy import Decision, Observation

CHOICES = {"drs-cheapest": CHEAPEST, "drs-fastest": FASTEST, "drs-first": FIRST}


class DrsMemory(Fields):
    """Settings of a DRS policy."""

    choice: int
    """Which node type joins."""
    published: int
    length: int
    paths: Counts = array("length")
    """As in `kernels.paths`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DrsParameters(PolicyParameters):
    """Settings of the DRS policies."""

    published: int = setting(0, low=0, high=1)
    """1 takes the fewest replicas that keep up, whatever the budget."""


def _prepare(parameters: DrsParameters, choice: int, view: View, ticks: int) -> Memory:
    flat = flatten_paths(list_paths(view))
    memory = DrsMemory.allocate(view, parameters, choice=choice, length=len(flat))
    DrsMemory(memory[0]).paths[:] = flat
    return memory


@compiled
def sojourn(o: int, view: View, replicas: int) -> float:
    """Return the mean time at the operator on so many replicas, s; `inf` if they cannot keep up."""
    service = view.model[o].service_mean
    load = view.seen[o].rate * service
    if load >= replicas:
        return np.inf
    blocked = 1.0  # Erlang's B, one server after another
    for servers in range(1, replicas + 1):
        blocked = load * blocked / (servers + load * blocked)
    waits = blocked / (1 - load / replicas * (1 - blocked))  # Erlang's C
    variability = (view.model[o].arrival_scv + view.model[o].service_scv) / 2
    return service + waits * service / (replicas - load) * variability


@compiled
def decide(o: int, view: View, memory: Memory) -> None:
    """Find the replicas of all operators and move there."""
    own, operators = DrsMemory(memory[0]), view.counts.shape[0]
    # The first column of the target holds replicas until all paths have asked for theirs.
    for row in range(operators):
        load = view.seen[row].rate * view.model[row].service_mean
        view.target[row, 0] = min(int(min(load, 1e9)) + 1, view.model[row].max_replicas)
    if own.published == 0:
        paths, place = own.paths, 1
        for _ in range(paths[0]):
            length = paths[place]
            _serve_path(view, paths[place + 1 : place + 1 + length])
            place += 1 + length
    for row in range(operators):
        scale_to(row, view, view.target[row, 0], own.choice)


@compiled
def _serve_path(view: View, path: Counts) -> None:
    """Add replicas to a path's operators, one by one, until its budget is kept."""
    while True:
        budget, time = 0.0, 0.0
        best, gain = -1, 0.0
        for o in path:
            budget += view.seen[o].budget
            now = sojourn(o, view, view.target[o, 0])
            time += now
            if view.target[o, 0] < view.model[o].max_replicas and now < np.inf:
                gained = now - sojourn(o, view, view.target[o, 0] + 1)
                if gained > gain:
                    best, gain = o, gained
        if time <= budget or best < 0:
            return
        view.target[best, 0] += 1


def _explain(observation: Observation, target: Deployment, view: View, memory: Memory) -> Decision:
    time = sojourn(0, view, target.size)
    expected = format_time(time) if np.isfinite(time) else "unlimited"
    return explain_rule(
        observation,
        target,
        f"at {format_rate(observation.rate)}, the expected response time of {target.size} replicas "
        f"of speed 1 is {expected}; the budget is {format_time(observation.budget)}",
    )


define = definition(
    DrsParameters,
    _prepare,
    choices=CHOICES,
    learn=learn_nothing,
    decide=decide,
    explain=_explain,
    needed=("budget", "model.service_mean", "model.service_scv"),
    joint=True,
)
