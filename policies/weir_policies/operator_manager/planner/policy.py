"""Weir's own policy: learns how the rate moves, and plans over deployments what that will cost.

In every interval it

1. learns: how the rate moves from block to block (`planner_rate`), its usual course over day and
   week (`planner_season`; where others have watched it before, it begins with that,
   `planner_prior`), how far the model it was given is off, and what a restart and an excess really
   cost (`planner_fit`);
2. plans, every few hours: the expected cost of every efficient deployment (`planner_menu`) in every
   state of the rate, by dynamic programming (`planner_plan`);
3. decides: it goes to another deployment where that, the restart included, is expected to cost less
   than to stay.

It follows the plan once that has proved better than two simple rules, of which it follows one until
then, and again where the plan fails (`planner_books`). It targets any deployment, because Flink
pays one restart whatever the distance; where moves are by one replica, it plans for that
(`planner_chain`). It never looks at anything but the past, has the same settings
for every workload, and keeps a bounded memory (`planner_memory`). The policy is Weir's own.

Which point to be at now: the plan's values in the present state of the rate, compared.

What the planner says of its choice: its forecast, what it weighed, or which rule it follows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from weir_policies.kernels.compiled import compiled, compiled_apart
from weir_policies.kernels.explaining import explain_rule, explain_scores
from weir_policies.kernels.policy import Algorithm
from weir_policies.kernels.prediction import price_of
from weir_policies.kernels.steps import total
from weir_policies.kernels.view import (
    BUDGET,
    INTERVAL,
    NETWORK_TIME,
    RATE,
    SERVICE_MEAN,
    SERVICE_SCV,
    STEP,
    TOP_COST,
    WEIGHT_RECONFIGURATION,
    WEIGHT_RESOURCES,
    WEIGHT_VIOLATION,
    Memory,
    View,
)
from weir_policies.kernels.wording import say_deployment, say_rate
from weir_policies.model.cost import price_per_hour
from weir_policies.model.node_types import Deployment
from weir_policies.model.season import Season
from weir_policies.operator_manager.planner.candidates import (
    build_menu,
    choose_chain,
    find_capacity,
    find_point,
    fits_pools,
)
from weir_policies.operator_manager.planner.plan import (
    block_of_plan,
    distance,
    fade_books,
    follow,
    forget_capacities,
    is_planned,
    is_pressed,
    make_plan,
    need_of_brief,
    need_of_long,
    note_peak,
    price_of_block,
    probability_of_excess,
    update_expert_costs,
    value_afterwards,
    value_of,
)
from weir_policies.operator_manager.planner.rate import (
    assume,
    correct,
    foresee,
    link_states,
    note_block,
    note_excess,
    note_height,
    note_streak,
    note_violation,
    price_of_excess,
    price_of_restart,
    price_of_staying_exceeded,
    put_corrections,
    remove_corrections,
    smooth,
    span_levels,
    take_season,
    waits_beyond_budget,
)
from weir_policies.operator_manager.planner.state import (
    AGAIN_LASTED,
    AGAIN_TRIED,
    BLOCK,
    BLOCK_PEAK,
    BLOCKS,
    CATCH_UP,
    CORRECTS,
    EXCEEDED_BLOCKS,
    EXCEEDED_INTERVALS,
    EXPERT_COST,
    EXPERTS,
    FINGERPRINT,
    FLOOR,
    FOLLOWED,
    FRONT_USED,
    GROUP,
    HIGHEST,
    IN_BLOCK,
    KEPT,
    LAST_SEASON,
    LEVEL_FROM,
    LEVEL_STEP,
    LEVELS,
    LONG_WINDOW,
    LOWEST,
    MENU_TOP,
    MISTRUSTED,
    NEXT_PLAN,
    OFF_MENU,
    ONCE_LASTED,
    ONCE_TRIED,
    PEAK,
    PEAK_LONG,
    PEAK_SHORT,
    PLAN,
    PLANNED_AT,
    PLANS,
    POINT_CAPACITY,
    POINT_PRICE,
    RECONFIGURATION_COST,
    RESTARTS,
    ROOM,
    SEASON,
    SINCE_CHANGE,
    WAIT_FACTOR,
    make_memory,
    point_counts,
)
from weir_policies.parameters import read_parameters, refuse_outside
from weir_policies.policy import Decision, Neighbourhood, Observation

RESIZE = 0.02
"""What a resize must save to be done, as a part of the weight of a restart."""


@compiled
def rate_to_carry(o: int, view: View, memory: Memory) -> float:
    """Return records/s that arrive, and what must be carried besides to work off a backlog.

    A usual queue is none: else a deployment would be left for it, and gone back to where there is
    less of it.
    """
    waits = max(waits_beyond_budget(view.seen[o]), 0.0)
    return view.seen[o, RATE] + waits / memory.floats[o, CATCH_UP]


@compiled
def find_envelopes(o: int, view: View, memory: Memory) -> tuple[float, float]:
    """Return the envelopes of the rate with what the present block has brought so far.

    A backlog counts as rate that has to be carried besides.
    """
    floats = memory.floats[o]
    rate = max(rate_to_carry(o, view, memory), floats[BLOCK_PEAK])
    height = max(np.log(max(rate, 1e-9)), floats[FLOOR])
    height -= memory.values[o, SEASON + block_of_plan(o, memory)]
    return max(floats[PEAK_LONG], height), max(floats[PEAK_SHORT], height)


@compiled
def price_of_move(o: int, view: View, memory: Memory, here: int, point: int) -> float:
    """Return what going to a point costs now; `here` is the present one, -1 where it is none."""
    if here == point:
        return 0.0
    restart = price_of_restart(o, view, memory)
    if view.rules[o, STEP] == 1:
        return restart * distance(o, view, view.counts[o], point_counts(o, view, memory)[point])
    if here >= 0 and memory.ints[o, GROUP + here] == memory.ints[o, GROUP + point]:
        # A resize is free, but not worth doing for nothing.
        return RESIZE * view.traits[o, WEIGHT_RECONFIGURATION]
    return restart


@compiled_apart
def value_off_menu(o: int, view: View, memory: Memory, peak: float, short: float) -> float:
    """Return Q of a present deployment that is no point.

    It is left for a point after the block at the latest; or it is as good as the point that carries
    nearly as much, but dearer by what it costs more until the next plan. Where moves are by one
    replica only the former holds, or a mix on the way between two types would be put off for ever.
    """
    values = memory.values[o]
    capacity = memory.floats[o, OFF_MENU]
    price = price_of(o, view, view.counts[o])
    season = values[SEASON + block_of_plan(o, memory)]
    excess = 1.0
    if capacity > 0:
        excess = probability_of_excess(o, memory, np.log(capacity) - season, peak, short)
    near, afterwards = -1, np.inf
    for point in range(memory.ints[o, FRONT_USED]):
        left = price_of_move(o, view, memory, -1, point)
        afterwards = min(afterwards, left + value_afterwards(o, memory, point, peak, short))
        if values[POINT_CAPACITY + point] <= capacity * (1 + 1e-9):
            near = point
    if near >= 0 and view.rules[o, STEP] == 0:
        dearer = max(price - values[POINT_PRICE + near], 0.0)
        more = KEPT * price_of_block(o, view, memory, dearer)
        afterwards = min(afterwards, value_afterwards(o, memory, near, peak, short) + more)
    now = price_of_block(o, view, memory, price) + price_of_excess(o, view, memory) * excess
    return now + afterwards


@compiled
def find_largest(o: int, view: View, memory: Memory) -> int:
    """Return the point that carries most of those that fit the pools, -1 where none does."""
    front = point_counts(o, view, memory)
    best, most = -1, 0.0
    for point in range(memory.ints[o, FRONT_USED]):
        capacity = memory.values[o, POINT_CAPACITY + point]
        if capacity > most and fits_pools(o, view, front[point]):
            best, most = point, capacity
    return best


@compiled
def choose_point(o: int, view: View, memory: Memory, here: int) -> int:
    """Return the point to be at, -1 to stay off the menu.

    A point that would not even carry what there is to carry now is never gone to; where none does,
    the one that carries most is.
    """
    peak, short = find_envelopes(o, view, memory)
    front = point_counts(o, view, memory)
    need = rate_to_carry(o, view, memory)
    largest = find_largest(o, view, memory)
    if largest >= 0 and memory.values[o, POINT_CAPACITY + largest] < need:
        return here if here < 0 and memory.floats[o, OFF_MENU] >= need else largest
    best = here
    if here >= 0:
        least = value_of(o, view, memory, here, peak, short)
    else:
        least = value_off_menu(o, view, memory, peak, short)
    carried = memory.values[o, POINT_CAPACITY + here] if here >= 0 else memory.floats[o, OFF_MENU]
    if carried < need:
        least += price_of_staying_exceeded(o, view, memory) - price_of_excess(o, view, memory)
    if not fits_pools(o, view, view.counts[o]) or total(view.counts[o]) == 0:
        least = np.inf
    for point in range(memory.ints[o, FRONT_USED]):
        short_of_need = memory.values[o, POINT_CAPACITY + point] < need
        if point == here or short_of_need or not fits_pools(o, view, front[point]):
            continue
        value = value_of(o, view, memory, point, peak, short)
        value += price_of_move(o, view, memory, here, point)
        if value < least - 1e-12:
            best, least = point, value
    return best


LIKELY = 0.1
"""Probability with which the rate exceeds what it is said to reach."""


def explain(observation: Observation, target: Deployment, view: View, memory: Memory) -> Decision:
    """Return the decision in words."""
    if not is_planned(0, memory):
        return explain_rule(observation, target, _say_rule(view, memory) + _say_mistrust(memory))
    scores = _score(observation, view, memory)
    named = say_deployment(target, observation.model.node_types)
    price = price_per_hour(target, observation.model.node_types)
    peak, delay = forecast_peak(view, memory)
    ahead = delay * observation.interval
    reason = f"up to {say_rate(peak)} are expected within {_say_duration(ahead)}, and {named}"
    point = find_point(0, view, memory, view.target[0])
    if point >= 0:
        carried = float(memory.values[0, POINT_CAPACITY + point])
        reason += f" carries {say_rate(carried)} for {price:.4g} per hour"
    else:
        reason += f" costs {price:.4g} per hour"
    here = observation.deployment
    restart = price_of_restart(0, view, memory)
    if target != here:
        saved = scores[here] - scores[target]
        reason += f"; to stay would be expected to cost {saved:.3g} more (a restart: {restart:.3g})"
    else:
        reason += f"; no other is worth a restart ({restart:.3g})"
    return explain_scores(observation, target, reason + _say_mistrust(memory), scores)


def _say_rule(view: View, memory: Memory) -> str:
    """Return which rule is followed instead of a plan, and why."""
    if memory.ints[0, FOLLOWED] == LONG_WINDOW:
        need = need_of_long(0, view, memory)
        rule = f"the largest rate of late with some room, {say_rate(need)}, must be carried"
    else:
        need = need_of_brief(0, view, memory)
        rule = f"the present rate with some room, {say_rate(need)}, must be carried"
    if memory.ints[0, PLANS] == 0:
        return f"there is no plan yet, and {rule}"
    books = memory.floats[0, EXPERT_COST : EXPERT_COST + EXPERTS]
    followed = books[memory.ints[0, FOLLOWED]]
    return (
        f"{rule}; on the rates of the last days this rule would have cost {followed:.3g}, and to "
        f"follow the plan {books[PLAN]:.3g}"
    )


def _say_mistrust(memory: Memory) -> str:
    if memory.ints[0, MISTRUSTED]:
        return "; response times leave the prediction, so a busy share of 70 % is the limit"
    return ""


def forecast_peak(view: View, memory: Memory) -> tuple[float, int]:
    """Return the highest rate to be expected, records/s, and in how many intervals.

    The course of the season is followed from what the next block exceeds one time in ten.
    """
    peak, short = find_envelopes(0, view, memory)
    low, high = short - 2.0, peak + 1.0
    for _ in range(30):
        middle = (low + high) / 2
        if probability_of_excess(0, memory, middle, peak, short) > LIKELY:
            low = middle
        else:
            high = middle
    first = block_of_plan(0, memory)
    season = memory.values[0, SEASON + first : SEASON + first + KEPT]
    ahead = int(season.argmax())
    return math.exp(high + float(season[ahead])), (ahead + 1) * int(memory.ints[0, BLOCK])


def _score(observation: Observation, view: View, memory: Memory) -> dict[Deployment, float]:
    """Return the expected cost of going to each point, and of staying."""
    peak, short = find_envelopes(0, view, memory)
    here = find_point(0, view, memory, view.counts[0])
    scores = {}
    for point in range(int(memory.ints[0, FRONT_USED])):
        counts = point_counts(0, view, memory)[point]
        if point != here and not fits_pools(0, view, counts):
            continue
        deployment = Deployment(tuple(int(count) for count in counts))
        value = value_of(0, view, memory, point, peak, short)
        scores[deployment] = value + price_of_move(0, view, memory, here, point)
    if here < 0:
        scores[observation.deployment] = value_off_menu(0, view, memory, peak, short)
    if not fits_pools(0, view, view.counts[0]):
        scores[observation.deployment] = math.inf
    least = min(scores.values())
    return {deployment: score - least for deployment, score in scores.items()}


def _say_duration(seconds: float) -> str:
    """Return a duration such as `40 s`, `25 min` or `3.5 h`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


SECONDS_PER_BLOCK = 600.0
INTERVALS_PER_BLOCK = 10
"""Intervals in a block at most; fewer where an interval is longer than a minute."""
FIRST_PLAN = 2
"""Blocks to see before planning."""
DRIFTED = 0.02
"""Relative change of the model from which the menu is made anew with the next plan."""
JUMPED = 0.2
"""The same, at once."""
OUTAGE = 0.3
"""A fall below the fast envelope, in logs, beyond which a block tells nothing of the season: what
feeds the job has stopped for a while."""
BELOW_FLOOR = 0.7
"""Rates below this part of the least capacity are all the same."""
WITHOUT_MENU = 1e-3
"""Records/s below which they are, where nothing is known to carry any."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PlannerParameters:
    """Settings of `planner`.

    Raises:
        ParameterError: One is out of its range.
    """

    reconfiguration_cost: float | None = None
    """Cost of a restart in units of the weights; `None` takes the operator's weight. Violations
    that follow restarts are learned and added either way."""
    catch_up: float = 300.0
    """Seconds in which a backlog should be worked off."""
    corrects: int = 1
    """0 believes the model to the letter."""

    def __post_init__(self) -> None:
        """Refuse what is out of range."""
        refuse_outside("reconfiguration_cost", self.reconfiguration_cost, low=0)
        refuse_outside("catch_up", self.catch_up, low=0, low_allowed=False)
        refuse_outside("corrects", self.corrects, low=0, high=1)


def define(values: Mapping[str, Any], *, name: str) -> Algorithm:
    """Return the algorithm registered as `planner`, its parameters bound."""
    parameters = read_parameters(PlannerParameters, values, policy=name)
    return Algorithm(
        neighbourhood=Neighbourhood.ANY,
        prepare=partial(_prepare, parameters),
        learn=learn,
        decide=decide,
        explain=explain,
        expect=_expect,
        needed=("budget", "backlog", "model.service_mean", "model.service_scv"),
    )


def _prepare(parameters: PlannerParameters, view: View, ticks: int) -> Memory:
    memory = make_memory(view)
    cost = parameters.reconfiguration_cost
    memory.floats[:, RECONFIGURATION_COST] = -1.0 if cost is None else cost
    memory.floats[:, CATCH_UP] = parameters.catch_up
    memory.floats[:, CORRECTS] = parameters.corrects
    memory.floats[:, LOWEST], memory.floats[:, HIGHEST] = np.inf, -np.inf
    memory.floats[:, WAIT_FACTOR] = 1.0
    # As good as ten blocks with an excess, each of which cost 1.2 intervals, and three restarts.
    memory.floats[:, EXCEEDED_BLOCKS], memory.floats[:, EXCEEDED_INTERVALS] = 10.0, 12.0
    memory.floats[:, RESTARTS] = 3.0
    # An excess lasts as often as not.
    memory.floats[:, ONCE_TRIED : AGAIN_TRIED + 1] = 4.0
    memory.floats[:, ONCE_LASTED : AGAIN_LASTED + 1] = 2.0
    memory.ints[:, SINCE_CHANGE] = 1000
    memory.ints[:, NEXT_PLAN] = FIRST_PLAN
    for o in range(view.seen.shape[0]):
        assume(o, memory)
        build_menu(o, view, memory)
    return memory


@compiled
def _floor(o: int, memory: Memory) -> float:
    """Return the logarithm of the rate below which all rates are the same."""
    if memory.ints[o, FRONT_USED] > 0:
        return np.log(BELOW_FLOOR * memory.values[o, POINT_CAPACITY])
    return np.log(WITHOUT_MENU)


def _expect(o: int, memory: Memory, season: Season) -> None:
    """Let an operator that has not seen a block yet begin with what is usual."""
    take_season(o, memory, season, floor=_floor(o, memory))


@compiled_apart
def read_model(o: int, view: View, memory: Memory) -> float:
    """Return a number that moves by as much as anything in the model moves, in logs."""
    traits = view.traits[o]
    number = 3 * np.log(traits[SERVICE_MEAN]) + 2 * np.log(view.seen[o, BUDGET])
    number += traits[SERVICE_SCV] + traits[NETWORK_TIME] / view.seen[o, BUDGET]
    number += np.log(memory.floats[o, WAIT_FACTOR]) + memory.ints[o, MISTRUSTED]
    for place in range(view.counts.shape[1]):
        weight = 1 + 0.1 * place  # so that opposite moves of two node types do not cancel out
        number += weight * np.log(view.speedup[o, place])
        number += weight * 1.3 * np.log(max(view.price[o, place] / traits[TOP_COST], 1e-9))
    return number + 5 * (traits[WEIGHT_VIOLATION] + 2 * traits[WEIGHT_RESOURCES])


@compiled
def read_room(o: int, view: View) -> float:
    """Return a number that changes where a pool's room does."""
    number = 0.0
    for place in range(view.counts.shape[1]):
        number += (1 + 0.1 * place) * np.log(1.0 + view.limit[o, place])
    return number


@compiled
def learn(o: int, view: View, memory: Memory) -> None:
    """Learn from the interval that just ended; plan where a plan is due."""
    floats, ints = memory.floats[o], memory.ints[o]
    if ints[BLOCK] == 0:
        interval = view.seen[o, INTERVAL]
        fitting = int(SECONDS_PER_BLOCK / interval + 0.5) if interval > 0 else INTERVALS_PER_BLOCK
        ints[BLOCK] = min(max(fitting, 1), INTERVALS_PER_BLOCK)
    correct(o, view, memory)
    note_violation(o, view, memory)
    note_streak(o, view, memory)
    rate = view.seen[o, RATE]
    first = floats[PEAK] == 0
    floats[PEAK] = max(floats[PEAK], rate_to_carry(o, view, memory))
    floats[BLOCK_PEAK] = max(floats[BLOCK_PEAK], rate)
    ints[IN_BLOCK] += 1
    ended = ints[IN_BLOCK] >= ints[BLOCK]
    if ended:
        _end_block(o, view, memory)

    put_corrections(o, view, memory)
    model = read_model(o, view, memory)
    moved = abs(model - floats[FINGERPRINT])
    outgrown = 1.2 * floats[PEAK] > floats[MENU_TOP]
    due = ints[BLOCKS] >= ints[NEXT_PLAN] or is_beyond_levels(o, view, memory)
    afresh = False
    room = read_room(o, view)
    changed = moved > DRIFTED or room != floats[ROOM]
    pressed = room != floats[ROOM] and is_pressed(o, view, memory)
    if first or outgrown or moved > JUMPED or (due and changed) or pressed:
        floats[FINGERPRINT], floats[ROOM] = model, room
        front = ints[FRONT_USED]
        build_menu(o, view, memory)
        forget_capacities(o, memory)
        afresh = moved > JUMPED or front != ints[FRONT_USED]
        due = True
    if due and ints[BLOCKS] >= FIRST_PLAN:
        _plan(o, view, memory, afresh)
    if find_point(o, view, memory, view.counts[o]) < 0:
        floats[OFF_MENU] = find_capacity(o, view, memory, view.counts[o])
    update_expert_costs(o, view, memory)
    remove_corrections(o, view, memory)


@compiled
def is_beyond_levels(o: int, view: View, memory: Memory) -> bool:
    """Return whether the rate is higher than the plan's levels reach; let them reach it if so."""
    floats = memory.floats[o]
    if memory.ints[o, PLANS] == 0:
        return False
    peak, _ = find_envelopes(o, view, memory)
    if peak <= floats[LEVEL_FROM] + LEVELS * floats[LEVEL_STEP]:
        return False
    floats[HIGHEST] = max(floats[HIGHEST], peak)
    return True


@compiled_apart
def _end_block(o: int, view: View, memory: Memory) -> None:
    """Learn from a whole block."""
    floats, ints = memory.floats[o], memory.ints[o]
    note_excess(o, memory)
    if ints[BLOCKS] == 0:
        floats[FLOOR] = _floor(o, memory)
    height = max(np.log(max(floats[BLOCK_PEAK], 1e-9)), floats[FLOOR])
    season, usual = 0.0, height
    if ints[PLANS] > 0:
        season = memory.values[o, SEASON + block_of_plan(o, memory)]
        usual = max(height, floats[PEAK_SHORT] + season - OUTAGE)
    note_block(o, view, memory, usual)
    note_height(o, memory, height - season)
    note_peak(o, memory)
    fade_books(o, memory)
    ints[BLOCKS] += 1
    ints[IN_BLOCK] = 0
    floats[BLOCK_PEAK] = 0.0


@compiled_apart
def _plan(o: int, view: View, memory: Memory, afresh: bool) -> None:
    """Foresee the season, take stock of the dynamics, and plan."""
    floats, ints = memory.floats[o], memory.ints[o]
    before = 0.0
    if ints[PLANS] > 0:
        block = min(ints[BLOCKS] - ints[PLANNED_AT], KEPT) - 1
        before = floats[LAST_SEASON] if block < 0 else memory.values[o, SEASON + block]
    now = foresee(o, view, memory)
    # What the season now explains is taken off the envelopes, and what it no longer does put back.
    floats[PEAK_LONG] += before - now
    floats[PEAK_SHORT] += before - now
    floats[LOWEST] = min(floats[LOWEST], floats[PEAK_LONG])
    floats[HIGHEST] = max(floats[HIGHEST], floats[PEAK_LONG])
    if view.rules[o, STEP] == 1 and choose_chain(o, view, memory):
        build_menu(o, view, memory)
        afresh = True
    if span_levels(o, memory):
        afresh = True
    smooth(o, memory, ints[BLOCKS] - ints[PLANNED_AT])
    link_states(o, memory)
    make_plan(o, view, memory, afresh)


@compiled
def decide(o: int, view: View, memory: Memory) -> None:
    """Go where the expert that is followed goes."""
    put_corrections(o, view, memory)
    follow(o, view, memory)
    remove_corrections(o, view, memory)
