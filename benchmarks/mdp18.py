"""The world of the 2018 MDP paper: a year of slots, a Markov chain of rates, M/D/1 operators.

Every operator sees the source's rate; a slot is judged with the deployment decided in it and with
the rate of the next slot. The centralised controller is one agent over all operators, the
decentralised ones are an agent per operator: the same loop runs either, with the sweeps and
estimates of `weir_policies.kernels` that the live policies use.

Source: Russo Russo, "Towards Decentralized Auto-Scaling Policies for Data Stream Processing
Applications", ZEUS 2018. What it leaves open, and what was taken:
1. Its bound of 0.65 s cannot be met by the sum of response times, of which 0.94 s is service.
   `Reading` says how it is read instead; two readings give the published costs.
2. Levels are the nearest multiple of 20 tuples per minute; the rate of a level is that multiple.
3. The unknown cost is kept per next state; `per_action` keeps it as equation 6 is printed.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numba
import numpy as np

from benchmarks.taas2023 import trace_file
from weir_policies.kernels.backups import (
    expect,
    improve,
    improve_per_action,
    least_action,
    list_moves,
)
from weir_policies.kernels.chains import begin_chain, count_transition, estimate_chain, fill_chain
from weir_policies.kernels.unknown_costs import learn_cost
from weir_policies.model.arrays import Counts, Flags, Floats
from weir_simulator.traces import read_trace

SERVICE_RATES = np.array([3.7, 3.3, 2.7, 3.3])
"""Tuples/s per replica of operators 1 to 4."""
REPLICAS = 5
QUANTUM = 20
"""Tuples/minute per rate level."""
SLOTS = 525_600
MOVING, VIOLATED, RESOURCES = 0.4, 0.4, 0.2
"""Weights of the cost, equations 1 and 2."""
GAMMA, ALPHA = 0.99, 0.1
DAYS = (1, 7, 30, 60, 180, 365)
CLOSE = 1e-9
"""Change of a value at which value iteration stops."""

VIOLATIONS, MOVES, INSTANCES = range(3)


class Form(StrEnum):
    """What is held against the bound on the response time."""

    MEAN = "mean response time of the operators"
    QUEUES = "sum of queue length over service rate"
    SUM = "sum of response times"


class Kind(StrEnum):
    """What a controller knows when it begins."""

    EXACT = "MDP"
    """The chain and the response times: value iteration, once."""
    CHAIN_UNKNOWN = "RL+"
    """The response times; it learns the chain."""
    ALL_UNKNOWN = "RL"
    """Nothing; it learns both."""


@dataclass(frozen=True, slots=True)
class Reading:
    """How the response time of the application is understood."""

    form: Form = Form.MEAN
    bound: float = 0.63
    """Seconds."""


QUEUES = Reading(Form.QUEUES, 0.65)
"""The other reading that gives the published costs."""


@dataclass(frozen=True, slots=True)
class Controller:
    """One line of the paper's table."""

    kind: Kind
    utilisation: float | None = None
    """Bound of the decentralised agents; `None` is the centralised controller."""
    per_action: bool = False


@dataclass(frozen=True, slots=True)
class Year:
    """What a year cost."""

    cost: float
    """Mean per slot."""
    violations: int
    reconfigurations: int
    instances: float
    """Mean over the slots."""
    so_far: tuple[float, ...]
    """Mean cost up to each of `DAYS`."""


def read_levels() -> Counts:
    """Return the taxi trace in levels.

    Raises:
        BenchmarkError: The trace is missing.
    """
    return np.rint(read_trace(trace_file("taxi")) / QUANTUM).astype(np.int64)


def walk(chain: Floats, start: int, seed: int) -> Counts:
    """Return a path of the chain, one level more than there are slots, by inverse CDF."""
    draws = np.random.default_rng(seed).random(SLOTS)
    path = np.empty(SLOTS + 1, dtype=np.int64)
    _walk(np.cumsum(chain, axis=1), draws, start, path)
    return path


@numba.njit(cache=True)
def _walk(cumulated: Floats, draws: Floats, start: int, path: Counts) -> None:
    path[0] = start
    for slot in range(draws.size):
        reached = np.searchsorted(cumulated[path[slot]], draws[slot], side="right")
        path[slot + 1] = min(reached, cumulated.shape[0] - 1)


def judge_application(operators: int, levels: int, reading: Reading) -> Flags:
    """Return whether each joint deployment breaks the bound at each level, `(d, l)`."""
    rates = np.arange(levels) * QUANTUM / 60
    sizes = 1 + np.arange(REPLICAS)
    seconds = np.zeros((1, levels))
    for rate_served in SERVICE_RATES[:operators]:
        load = rates / (sizes[:, None] * rate_served)  # k x l
        with np.errstate(divide="ignore", invalid="ignore"):
            waiting = np.where(load < 1, load / (2 * rate_served * (1 - load)), np.inf)
            own = waiting * load if reading.form is Form.QUEUES else waiting + 1 / rate_served
        own[load >= 1] = np.inf
        # The first operator is the fastest digit of a deployment's number.
        seconds = (own[:, None, :] + seconds[None, :, :]).reshape(-1, levels)
    divisor = operators if reading.form is Form.MEAN else 1
    return np.asarray(seconds / divisor > reading.bound)


def judge_utilisation(operators: int, levels: int, bound: float) -> Flags:
    """Return whether each operator is too busy, by replicas and level, `(o, k, l)`."""
    rates = np.arange(levels) * QUANTUM / 60
    served = SERVICE_RATES[:operators, None] * (1 + np.arange(REPLICAS))
    return np.asarray(rates / served[:, :, None] > bound)


def run_year(
    controller: Controller, path: Counts, chain: Floats, operators: int, reading: Reading
) -> Year:
    """Run one controller over a path.

    Args:
        controller: Which one.
        path: Levels, `(SLOTS + 1,)`.
        chain: The true transition probabilities, `(l, l)`.
        operators: N.
        reading: How a violation is judged.
    """
    levels = len(chain)
    application = judge_application(operators, levels, reading)
    if controller.utilisation is None:
        axes, agents, feared = operators, 1, application[None]
    else:
        axes, agents = 1, operators
        feared = judge_utilisation(operators, levels, controller.utilisation)
    sizes = np.full(axes, REPLICAS, dtype=np.int64)
    moves = list_moves([REPLICAS] * axes)
    deployments, actions = moves.shape
    digits = np.arange(deployments)[:, None] // REPLICAS ** np.arange(axes) % REPLICAS  # d x n
    replicas = axes + digits.sum(axis=1)
    share = replicas * (RESOURCES / (axes * REPLICAS))
    penalty: Floats = np.where(feared.reshape(agents, -1), VIOLATED, 0.0)
    unknown = np.zeros((agents, deployments * levels * (actions if controller.per_action else 1)))
    if controller.kind is not Kind.ALL_UNKNOWN:
        unknown = penalty.copy()
    counted, left = np.zeros(levels * levels), np.zeros(levels)
    first, last = np.zeros(levels, dtype=np.int64), np.zeros(levels, dtype=np.int64)
    begin_chain(counted, left, first, last)
    exact = controller.kind is Kind.EXACT
    if exact:
        fill_chain(chain, counted, left, first, last)
    totals, costs = np.zeros(3), np.zeros(SLOTS)
    _run_year(
        path,
        exact,
        controller.kind is Kind.ALL_UNKNOWN,
        controller.per_action,
        sizes,
        moves,
        share,
        penalty,
        application,
        replicas,
        operators,
        unknown,
        counted,
        left,
        first,
        last,
        totals,
        costs,
    )
    so_far = np.cumsum(costs)
    return Year(
        cost=float(costs.mean()),
        violations=int(totals[VIOLATIONS]),
        reconfigurations=int(totals[MOVES]),
        instances=float(totals[INSTANCES] / SLOTS),
        so_far=tuple(float(so_far[day * 1440 - 1] / (day * 1440)) for day in DAYS),
    )


@numba.njit(cache=True, error_model="numpy")
def _run_year(
    path: Counts,
    exact: bool,
    costs_unknown: bool,
    per_action: bool,
    sizes: Counts,
    moves: Counts,
    share: Floats,
    penalty: Floats,
    application: Flags,
    replicas: Counts,
    operators: int,
    unknown: Floats,
    counted: Floats,
    left: Floats,
    first: Counts,
    last: Counts,
    totals: Floats,
    costs: Floats,
) -> None:
    """Run algorithm 1 of the paper for every agent, slot by slot."""
    agents, (deployments, actions), levels = unknown.shape[0], moves.shape, left.size
    values = np.zeros((agents, deployments * levels))
    expected = np.zeros((agents, deployments * levels))
    box, other = np.zeros(deployments * levels), np.zeros(deployments * levels)
    nothing = np.zeros(deployments * levels)
    flat = moves.ravel()
    here = np.zeros(agents, dtype=np.int64)
    taken = np.zeros(agents, dtype=np.int64)
    for agent in range(agents):
        change = 1.0
        while change > CLOSE:
            expect(values[agent], nothing if per_action else unknown[agent], expected[agent],
                   counted, left, first, last, deployments, GAMMA)  # fmt: skip
            change = improve(
                values[agent], expected[agent], share, box, other, sizes, levels, MOVING
            )
            if not exact:
                break
    for slot in range(costs.size):
        level, after = path[slot], path[slot + 1]
        joint, used, weight, moved = 0, 0, 1, False
        for agent in range(agents):
            if per_action:
                action = _least(expected[agent], unknown[agent], moves, levels, here[agent], level)
            else:
                action = least_action(
                    expected[agent], flat, actions, levels, here[agent], level, MOVING
                )
            taken[agent] = (here[agent] * actions + action) * levels + level
            here[agent] = moves[here[agent], action]
            moved = moved or action != 0
            joint += weight * here[agent]
            used += replicas[here[agent]]
            weight *= deployments
        violated = application[joint, after]
        totals[VIOLATIONS] += violated
        totals[MOVES] += moved
        totals[INSTANCES] += used
        costs[slot] = (
            RESOURCES * used / (operators * sizes[0]) + MOVING * moved + VIOLATED * violated
        )
        if exact:
            continue
        count_transition(counted, left, first, last, level, after)
        for agent in range(agents):
            reached = here[agent] * levels + after
            if costs_unknown:
                place = taken[agent] if per_action else reached
                learn_cost(unknown[agent], place, penalty[agent, reached], ALPHA)
            expect(values[agent], nothing if per_action else unknown[agent], expected[agent],
                   counted, left, first, last, deployments, GAMMA)  # fmt: skip
            if per_action:
                improve_per_action(
                    values[agent], expected[agent], share, unknown[agent], flat, levels, MOVING
                )
            else:
                improve(values[agent], expected[agent], share, box, other, sizes, levels, MOVING)


@numba.njit(cache=True)
def _least(
    expected: Floats, unknown: Floats, moves: Counts, levels: int, here: int, level: int
) -> int:
    """Return the first action of least Q where the unknown cost is kept per action."""
    best, least = 0, np.inf
    for action in range(moves.shape[1]):
        if moves[here, action] >= 0:
            place = (here * moves.shape[1] + action) * levels + level
            value = expected[moves[here, action] * levels + level] + unknown[place]
            value += MOVING if action else 0.0
            if value < least:
                best, least = action, value
    return best


def prepare_chain() -> tuple[Floats, int]:
    """Return the chain of the taxi trace and its median level."""
    levels = read_levels()
    return estimate_chain(levels, number=int(levels.max()) + 1), int(np.median(levels))
