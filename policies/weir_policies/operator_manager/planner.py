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
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from weir_policies.kernels.compiled import compiled, compiled_apart
from weir_policies.kernels.policy import Algorithm
from weir_policies.kernels.view import (
    BUDGET,
    INTERVAL,
    NETWORK_TIME,
    RATE,
    SERVICE_MEAN,
    SERVICE_SCV,
    STEP,
    TOP_COST,
    WEIGHT_RESOURCES,
    WEIGHT_VIOLATION,
    Memory,
    View,
)
from weir_policies.model.season import Season
from weir_policies.operator_manager.planner_books import (
    fade_books,
    follow,
    forget_capacities,
    is_pressed,
    keep_books,
)
from weir_policies.operator_manager.planner_chain import choose_chain
from weir_policies.operator_manager.planner_choice import (
    rate_to_carry,
    see_envelopes,
)
from weir_policies.operator_manager.planner_fit import (
    correct,
    note_excess,
    note_streak,
    note_violation,
    put_corrections,
    remove_corrections,
)
from weir_policies.operator_manager.planner_memory import (
    AGAIN_LASTED,
    AGAIN_TRIED,
    BLOCK,
    BLOCK_PEAK,
    BLOCKS,
    CATCH_UP,
    CORRECTS,
    EXCEEDED_BLOCKS,
    EXCEEDED_INTERVALS,
    FINGERPRINT,
    FLOOR,
    HIGHEST,
    IN_BLOCK,
    KEPT,
    LAST_SEASON,
    LEVEL_FROM,
    LEVEL_STEP,
    LEVELS,
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
    PLANNED_AT,
    PLANS,
    RECONFIGURATION_COST,
    RESTARTS,
    ROOM,
    RUNG_CAPACITY,
    RUNGS_USED,
    SEASON,
    SINCE_CHANGE,
    WAIT_FACTOR,
    make_memory,
)
from weir_policies.operator_manager.planner_menu import (
    build_menu,
    find_capacity,
    find_rung,
)
from weir_policies.operator_manager.planner_plan import (
    block_of_plan,
    make_plan,
)
from weir_policies.operator_manager.planner_prior import take_season
from weir_policies.operator_manager.planner_rate import (
    assume,
    link_states,
    note_height,
    smooth,
    span_levels,
)
from weir_policies.operator_manager.planner_reasons import explain
from weir_policies.operator_manager.planner_rules import note_peak
from weir_policies.operator_manager.planner_season import foresee, note_block
from weir_policies.parameters import read_parameters, refuse_outside
from weir_policies.promise import Neighbourhood

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
    if memory.ints[o, RUNGS_USED] > 0:
        return np.log(BELOW_FLOOR * memory.values[o, RUNG_CAPACITY])
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
        rungs = ints[RUNGS_USED]
        build_menu(o, view, memory)
        forget_capacities(o, memory)
        afresh = moved > JUMPED or rungs != ints[RUNGS_USED]
        due = True
    if due and ints[BLOCKS] >= FIRST_PLAN:
        _plan(o, view, memory, afresh)
    if find_rung(o, view, memory, view.counts[o]) < 0:
        floats[OFF_MENU] = find_capacity(o, view, memory, view.counts[o])
    keep_books(o, view, memory)
    remove_corrections(o, view, memory)


@compiled
def is_beyond_levels(o: int, view: View, memory: Memory) -> bool:
    """Return whether the rate is higher than the plan's levels reach; let them reach it if so."""
    floats = memory.floats[o]
    if memory.ints[o, PLANS] == 0:
        return False
    peak, _ = see_envelopes(o, view, memory)
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
    """Go where the adviser that is followed goes."""
    put_corrections(o, view, memory)
    follow(o, view, memory)
    remove_corrections(o, view, memory)
