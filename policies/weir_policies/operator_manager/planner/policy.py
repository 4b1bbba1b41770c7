"""Weir's own policy: learns how the rate moves, and plans over deployments what that will cost.

In every interval it

1. learns how the rate moves from block to block, its usual course over day and week (where that is
   known from before, it begins with it; all in `rate`), how far the model it was given is off, and
   what a restart and an excess really cost (`candidates`);
2. plans, every few hours: the expected cost of every efficient deployment (`candidates`) in every
   state of the rate, by dynamic programming (`plan`);
3. decides: it goes to another deployment where that, the restart included, is expected to cost less
   than to stay.

It targets any deployment, because Flink pays one restart whatever the distance; where moves are by
one replica, it plans for that (`plan`). It uses nothing but the past, has the same settings for
every workload, and keeps a bounded memory (`state`). The policy is Weir's own.

A plan is as good as what was learned, and in the first hours that is little; and there are rates
that its picture of the dynamics does not fit. So two simple rules stand beside it:

* `SHORT_WINDOW` keeps room for a little more than the present rate, like `queueing`: up at once,
  down when the last three intervals would have fitted something cheaper as well.
* `LONG_WINDOW` keeps room for the largest rate of the last 60 blocks, like `window-max`.

Plan and rules are its *experts*. It adds up for each what its deployments would have cost on the
rates that came, by the model. It follows one, `SHORT_WINDOW` at first, and leaves it for the one
with the least cost when the difference is more than chance and a change of course are worth. Costs
fade over two days. They leave out backlog and the time until a new replica is there, but for what
excesses have cost on average so far, and the response time of deployments that were not in force.
Until there is a plan, its cost is that of `SHORT_WINDOW`.
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
from weir_policies.kernels.steps import step_towards
from weir_policies.kernels.view import (
    BUDGET,
    BUSIEST,
    INTERVAL,
    NETWORK_TIME,
    PROCESSED,
    RATE,
    RESPONSE_TIME,
    SERVICE_MEAN,
    SERVICE_SCV,
    STEP,
    TOP_COST,
    WEIGHT_RESOURCES,
    WEIGHT_VIOLATION,
    Memory,
    View,
)
from weir_policies.kernels.wording import say_deployment, say_rate
from weir_policies.model.arrays import Counts
from weir_policies.model.cost import price_per_hour
from weir_policies.model.node_types import Deployment
from weir_policies.model.season import Season
from weir_policies.operator_manager.planner.candidates import (
    SATURATED,
    build_menu,
    correct,
    find_capacity,
    find_point,
    fits_pools,
    is_behind,
    note_excess,
    note_streak,
    note_violation,
    price_of_excess,
    price_of_restart,
    put_corrections,
    remove_corrections,
    same_per_pool,
)
from weir_policies.operator_manager.planner.plan import (
    block_of_plan,
    choose_chain,
    choose_point,
    find_envelopes,
    make_plan,
    price_of_move,
    probability_of_excess,
    rate_to_carry,
    value_of,
    value_off_menu,
)
from weir_policies.operator_manager.planner.rate import (
    assume,
    foresee,
    link_states,
    note_block,
    note_height,
    smooth,
    span_levels,
    take_season,
)
from weir_policies.operator_manager.planner.state import (
    AGAIN_LASTED,
    AGAIN_TRIED,
    BLOCK,
    BLOCK_PEAK,
    BLOCKS,
    BRIEF_WINDOW,
    CANDIDATE_CAPACITY,
    CANDIDATE_PRICE,
    CANDIDATES_USED,
    CARRIES,
    CATCH_UP,
    CORRECTS,
    DAY,
    EXCEEDED,
    EXCEEDED_BLOCKS,
    EXCEEDED_INTERVALS,
    EXPERT_COST,
    EXPERTS,
    FINGERPRINT,
    FLOOR,
    FOLLOWED,
    FRONT_USED,
    HIGHEST,
    IN_BLOCK,
    KEPT,
    LAST_SEASON,
    LEVEL_FROM,
    LEVEL_STEP,
    LEVELS,
    LONG_PEAK,
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
    PEAKS,
    PLAN,
    PLANNED_AT,
    PLANS,
    POINT_CAPACITY,
    RATES,
    RECONFIGURATION_COST,
    RESTARTS,
    ROOM,
    SEASON,
    SEEN_INTERVALS,
    SHORT_WINDOW,
    SINCE_CHANGE,
    WAIT_FACTOR,
    advised_counts,
    candidate_counts,
    make_memory,
    point_counts,
)
from weir_policies.parameters import read_parameters, refuse_outside
from weir_policies.policy import Decision, Neighbourhood, Observation

HEADROOM = 0.1
"""Part by which a deployment must exceed the present rate; this and the next two are the defaults
of `queueing`."""
MARGIN = 0.1
"""Part by which the target of a restart must exceed that: a restart should last."""
SAVING = 0.1
"""Part of the price that a restart must save."""
CHANCE = 2.0
"""Standard deviations of the number of records, if they come independently."""
LONG_HEADROOM = 0.05
"""Part by which the largest rate must be exceeded, as in `window-max`."""


@compiled
def note_rate(o: int, view: View, memory: Memory) -> None:
    """Enter the rate of the interval that just ended."""
    floats, ints = memory.floats[o], memory.ints[o]
    rate = view.seen[o, RATE]
    floats[RATES + ints[SEEN_INTERVALS] % BRIEF_WINDOW] = rate
    floats[LONG_PEAK] = max(floats[LONG_PEAK], rate)
    ints[SEEN_INTERVALS] += 1


@compiled
def note_peak(o: int, memory: Memory) -> None:
    """Enter the highest rate of the block that just ended; forget that of the oldest."""
    floats, peaks = memory.floats[o], memory.values[o, PEAKS : PEAKS + LONG_WINDOW]
    peaks[memory.ints[o, BLOCKS] % LONG_WINDOW] = floats[BLOCK_PEAK]
    floats[LONG_PEAK] = 0.0
    for place in range(LONG_WINDOW):
        floats[LONG_PEAK] = max(floats[LONG_PEAK], peaks[place])


@compiled
def need_of_brief(o: int, view: View, memory: Memory) -> float:
    """Return records/s that a deployment must carry for `SHORT_WINDOW` to stay there."""
    return rate_to_carry(o, view, memory) * (1 + HEADROOM)


@compiled
def strain_of(o: int, view: View, memory: Memory, carries: float) -> float:
    """Return how many times what it does a deployment is believed to carry; 1 unless it strains.

    One that falls behind with a replica that has no time left does all that it can, whatever the
    model says. One that works off what waits in time, as after a restart, does not fall behind: to
    leave it would take another restart. The interval of a change tells nothing: records waited
    while it was carried out. Nor does what was measured of the real deployment tell of one on
    paper.
    """
    seen = view.seen[o]
    if memory.ints[o, FOLLOWED] != SHORT_WINDOW or memory.ints[o, SINCE_CHANGE] == 0:
        return 1.0
    if not is_behind(seen) or seen[BUSIEST] < SATURATED or seen[PROCESSED] <= 0:
        return 1.0
    if seen[PROCESSED] >= rate_to_carry(o, view, memory):
        return 1.0
    return max(carries / seen[PROCESSED], 1.0)


@compiled
def need_of_long(o: int, view: View, memory: Memory) -> float:
    """Return records/s that a deployment must carry for `LONG_WINDOW` to be there."""
    most = max(memory.floats[o, LONG_PEAK], rate_to_carry(o, view, memory))
    return most * (1 + LONG_HEADROOM)


@compiled
def chance_of(o: int, view: View, rate: float) -> float:
    """Return by which part chance moves the number of records of an interval: two deviations.

    Of 100 records a fifth; a deployment that the next interval may outgrow saves nothing.

    Args:
        o: Row of the operator.
        view: Where it is.
        rate: Records/s.
    """
    records = rate * view.seen[o, INTERVAL]
    return CHANCE / np.sqrt(records) if records > 0 else 0.0


@compiled_apart
def choose_short_window(o: int, view: View, memory: Memory, carries: float) -> int:
    """Return the candidate that `SHORT_WINDOW` goes to, -1 to stay.

    Args:
        o: Row of the operator.
        view: Where it is.
        memory: The planner's.
        carries: Records/s that the present deployment carries.
    """
    need = need_of_brief(o, view, memory) * strain_of(o, view, memory, carries)
    if carries < need:
        row = _find_cheapest(o, view, memory, need * (1 + MARGIN), SAVING)
        if row < 0:
            row = _find_cheapest(o, view, memory, need, SAVING)
        return row if row >= 0 else _find_largest(o, view, memory)
    rates = memory.floats[o, RATES : RATES + BRIEF_WINDOW]
    least, most = np.inf, rate_to_carry(o, view, memory)
    for place in range(BRIEF_WINDOW):
        least, most = min(least, rates[place]), max(most, rates[place])
    late = view.seen[o, RESPONSE_TIME] > view.seen[o, BUDGET] or is_behind(view.seen[o])
    rises = view.seen[o, RATE] > least * (1 + HEADROOM)
    if late or rises or memory.ints[o, SEEN_INTERVALS] < BRIEF_WINDOW:
        return -1
    need = most * (1 + HEADROOM) * (1 + max(MARGIN, chance_of(o, view, most)))
    return _if_it_saves(o, view, memory, _find_cheapest(o, view, memory, need, SAVING), SAVING)


@compiled_apart
def choose_for_long(o: int, view: View, memory: Memory, carries: float) -> int:
    """Return the candidate that `LONG_WINDOW` goes to, -1 to stay.

    Arguments are those of `choose_short_window`.
    """
    need = need_of_long(o, view, memory)
    if carries >= need:
        room = need * (1 + chance_of(o, view, need))
        return _if_it_saves(o, view, memory, _find_cheapest(o, view, memory, room, 0.0), 0.0)
    row = _find_cheapest(o, view, memory, need, 0.0)
    return row if row >= 0 else _find_largest(o, view, memory)


@compiled
def _price_to_beat(o: int, view: View, memory: Memory, row: int, saving: float) -> float:
    """Return a candidate's price, raised where a restart leads there, so that it must save."""
    price = memory.values[o, CANDIDATE_PRICE + row]
    if same_per_pool(view, o, view.counts[o], candidate_counts(o, view, memory)[row]):
        return price
    return price / (1 - saving)


@compiled_apart
def _find_cheapest(o: int, view: View, memory: Memory, rate: float, saving: float) -> int:
    """Return the candidate of the least score that carries a rate, -1 where none does."""
    values, candidates = memory.values[o], candidate_counts(o, view, memory)
    best, least = -1, np.inf
    for row in range(memory.ints[o, CANDIDATES_USED]):
        if values[CANDIDATE_CAPACITY + row] < rate or values[CANDIDATE_PRICE + row] >= least:
            continue
        score = _price_to_beat(o, view, memory, row, saving)
        if score < least and fits_pools(o, view, candidates[row]):
            best, least = row, score
    return best


@compiled_apart
def _find_largest(o: int, view: View, memory: Memory) -> int:
    """Return the candidate that carries most, -1 where there is none."""
    candidates = candidate_counts(o, view, memory)
    best, most = -1, 0.0
    for row in range(memory.ints[o, CANDIDATES_USED]):
        capacity = memory.values[o, CANDIDATE_CAPACITY + row]
        if capacity > most and fits_pools(o, view, candidates[row]):
            best, most = row, capacity
    return best


@compiled
def _if_it_saves(o: int, view: View, memory: Memory, row: int, saving: float) -> int:
    """Return a candidate if its score is below the present price, else -1."""
    if row < 0 or _price_to_beat(o, view, memory, row, saving) >= price_of(o, view, view.counts[o]):
        return -1
    return row


FADE = 1 - 1 / (2 * DAY)
"""Part of the books that is left after a block: two days are remembered."""
RESTARTS_LOST = 2.0
"""Restarts by which another book must be cheaper: to change the course and back takes two."""
PART_LOST = 0.03
"""Part of the followed book by which it must be cheaper besides: what two good experts differ by
over two days by chance."""
UNKNOWN = -1.0
"""Stands for what a deployment carries, until it is worked out."""


@compiled
def copy_counts(to: Counts, counts: Counts) -> None:
    """Copy a deployment `(t,)`."""
    for place in range(counts.size):
        to[place] = counts[place]


@compiled
def is_equal(one: Counts, other: Counts) -> bool:
    """Return whether two deployments `(t,)` are the same."""
    apart = 0
    for place in range(one.size):
        apart += abs(one[place] - other[place])
    return apart == 0


@compiled
def is_planned(o: int, memory: Memory) -> bool:
    """Return whether the plan is followed, and there is one."""
    return memory.ints[o, FOLLOWED] == PLAN and memory.ints[o, PLANS] > 0


@compiled
def is_pressed(o: int, view: View, memory: Memory) -> bool:
    """Return whether what was in force at the last tick has less room than `SHORT_WINDOW` wants."""
    carries = memory.floats[o, CARRIES + memory.ints[o, FOLLOWED]]
    return need_of_brief(o, view, memory) > carries


@compiled
def forget_capacities(o: int, memory: Memory) -> None:
    """Let what the experts' deployments carry be worked out again: the model has changed."""
    for expert in range(EXPERTS):
        memory.floats[o, CARRIES + expert] = UNKNOWN


@compiled
def fade_books(o: int, memory: Memory) -> None:
    """Let the books fade by a block."""
    for expert in range(EXPERTS):
        memory.ints[o, EXCEEDED + expert] = 0
        memory.floats[o, EXPERT_COST + expert] *= FADE


@compiled_apart
def follow(o: int, view: View, memory: Memory) -> None:
    """Write the target of the expert that is followed; speeds are the corrected ones."""
    ints, expert = memory.ints[o], memory.ints[o, FOLLOWED]
    own = advised_counts(o, view, memory)[expert]
    if ints[SEEN_INTERVALS] == 0 or not is_equal(own, view.counts[o]):
        carries = find_capacity(o, view, memory, view.counts[o])
    else:
        carries = memory.floats[o, CARRIES + expert]
    _advise(o, view, memory, expert, carries)


@compiled_apart
def update_expert_costs(o: int, view: View, memory: Memory) -> None:
    """Charge every expert for the interval that ended, choose one, and let the others move on.

    Args:
        o: Row of the operator.
        view: Its speeds are the corrected ones. Counts and target are worked with, and are both the
            present deployment in the end.
        memory: The planner's; `OFF_MENU` is of the present deployment.
    """
    ints, counts = memory.ints[o], view.counts[o]
    advised = advised_counts(o, view, memory)
    if ints[SEEN_INTERVALS] == 0:
        forget_capacities(o, memory)
        for expert in range(EXPERTS):
            copy_counts(advised[expert], counts)
    note_rate(o, view, memory)
    _move(o, view, memory, ints[FOLLOWED], counts)
    for expert in range(EXPERTS):
        _charge(o, view, memory, expert)
    _choose_expert(o, view, memory)
    present, off_menu = advised[EXPERTS], memory.floats[o, OFF_MENU]
    copy_counts(present, counts)
    copy_counts(advised[ints[FOLLOWED]], counts)
    for expert in range(EXPERTS):
        if expert != ints[FOLLOWED]:
            copy_counts(counts, advised[expert])
            carries = memory.floats[o, CARRIES + expert]
            memory.floats[o, OFF_MENU] = carries
            _advise(o, view, memory, expert, carries)
            if view.rules[o, STEP] == 1:
                step_towards(o, view)
            _move(o, view, memory, expert, view.target[o])
    memory.floats[o, OFF_MENU] = off_menu
    copy_counts(counts, present)
    copy_counts(view.target[o], present)


@compiled
def _advise(o: int, view: View, memory: Memory, expert: int, carries: float) -> None:
    """Write where an expert would go from the view's deployment, which carries so much."""
    target = view.target[o]
    copy_counts(target, view.counts[o])
    if expert == PLAN and memory.ints[o, PLANS] > 0:
        here = find_point(o, view, memory, view.counts[o])
        point = choose_point(o, view, memory, here)
        if point != here:
            copy_counts(target, point_counts(o, view, memory)[point])
        return
    if expert == LONG_WINDOW:
        row = choose_for_long(o, view, memory, carries)
    else:
        row = choose_short_window(o, view, memory, carries)
    if row >= 0:
        copy_counts(target, candidate_counts(o, view, memory)[row])


@compiled_apart
def _move(o: int, view: View, memory: Memory, expert: int, to: Counts) -> None:
    """Let an expert be at a deployment, and charge for a restart if it took one."""
    own = advised_counts(o, view, memory)[expert]
    if is_equal(own, to):
        return
    if not same_per_pool(view, o, own, to):
        memory.floats[o, EXPERT_COST + expert] += price_of_restart(o, view, memory)
    copy_counts(own, to)
    memory.floats[o, CARRIES + expert] = UNKNOWN


@compiled_apart
def _charge(o: int, view: View, memory: Memory, expert: int) -> None:
    """Enter what an expert's deployment costs in an interval of the rate seen.

    The first excess in a block stands for as many violations as one has brought so far: on paper
    more replicas are there at once and carry no backlog, in a cluster they come late and do.
    """
    floats, ints, traits = memory.floats[o], memory.ints[o], view.traits[o]
    own = advised_counts(o, view, memory)[expert]
    if floats[CARRIES + expert] == UNKNOWN:
        floats[CARRIES + expert] = find_capacity(o, view, memory, own)
    cost = traits[WEIGHT_RESOURCES] * price_of(o, view, own) / traits[TOP_COST]
    if view.seen[o, RATE] > floats[CARRIES + expert]:
        excess = price_of_excess(o, view, memory)
        if ints[EXCEEDED + expert] == 0:
            cost += excess
        elif (ints[EXCEEDED + expert] + 1) * traits[WEIGHT_VIOLATION] > excess:
            cost += traits[WEIGHT_VIOLATION]
        ints[EXCEEDED + expert] += 1
    floats[EXPERT_COST + expert] += cost


@compiled
def _choose_expert(o: int, view: View, memory: Memory) -> None:
    """Leave the expert that is followed, if another's book is cheaper by enough."""
    floats, ints = memory.floats[o], memory.ints[o]
    followed = ints[FOLLOWED]
    best = followed
    for expert in range(EXPERTS):
        exists = expert != PLAN or ints[PLANS] > 0
        if exists and floats[EXPERT_COST + expert] < floats[EXPERT_COST + best]:
            best = expert
    book = floats[EXPERT_COST + followed]
    enough = RESTARTS_LOST * price_of_restart(o, view, memory) + PART_LOST * book
    if book - floats[EXPERT_COST + best] > enough:
        ints[FOLLOWED] = best
        floats[CARRIES + best] = floats[CARRIES + followed]


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
"""Relative change of the model from which the front is chosen again with the next plan."""
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
