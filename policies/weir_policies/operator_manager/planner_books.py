"""Whom the planner follows: its plan, or one of two simple rules (`planner_rules`).

A plan is as good as what was learned, and in its first hours little was; and there are rates that
its picture of the dynamics does not fit. So a book is kept for every adviser: what its deployments
would have cost on the rates that came, by the model. The planner follows one, `BRIEF` at first, and
leaves it for the one with the cheapest book when that is cheaper by more than chance and a change
of course are worth. Books fade over two days.

What the books do not know: backlog and the time until a new replica is there, but for what excesses
have cost on average so far; and what the response time of a deployment that is not in force would
have been. Until there is a plan, its book is as that of `BRIEF`.

Source: to follow the expert of the least cost so far, and to bound the changes, is the idea of
Kalai and Vempala, Efficient algorithms for online decision problems, JCSS 2005. Departures: nothing
is drawn at random, so that their bound on the regret is not ours; books fade; a change must be
worth two restarts and 3 %.
"""

from __future__ import annotations

from weir_policies.kernels.compiled import compiled, compiled_apart
from weir_policies.kernels.prediction import price_of
from weir_policies.kernels.steps import step_towards
from weir_policies.kernels.view import (
    RATE,
    STEP,
    TOP_COST,
    WEIGHT_RESOURCES,
    WEIGHT_VIOLATION,
    Memory,
    View,
)
from weir_policies.model.arrays import Counts
from weir_policies.operator_manager.planner_choice import choose_rung
from weir_policies.operator_manager.planner_fit import price_of_excess, price_of_restart
from weir_policies.operator_manager.planner_memory import (
    ADVISERS,
    BOOK,
    CARRIES,
    DAY,
    EXCEEDED,
    FOLLOWED,
    LONG,
    OFF_MENU,
    PLAN,
    PLANS,
    SEEN_INTERVALS,
    advised_counts,
    candidate_counts,
    rung_counts,
)
from weir_policies.operator_manager.planner_menu import find_capacity, find_rung, same_per_pool
from weir_policies.operator_manager.planner_rules import (
    choose_briefly,
    choose_for_long,
    need_of_brief,
    note_rate,
)

FADE = 1 - 1 / (2 * DAY)
"""Part of the books that is left after a block: two days are remembered."""
RESTARTS_LOST = 2.0
"""Restarts by which another book must be cheaper: to change the course and back takes two."""
PART_LOST = 0.03
"""Part of the followed book by which it must be cheaper besides: what two good advisers differ by
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
    """Return whether what was in force at the last tick has less room than `BRIEF` wants."""
    carries = memory.floats[o, CARRIES + memory.ints[o, FOLLOWED]]
    return need_of_brief(o, view, memory) > carries


@compiled
def forget_capacities(o: int, memory: Memory) -> None:
    """Let what the advisers' deployments carry be worked out anew: the model has changed."""
    for adviser in range(ADVISERS):
        memory.floats[o, CARRIES + adviser] = UNKNOWN


@compiled
def fade_books(o: int, memory: Memory) -> None:
    """Let the books fade by a block."""
    for adviser in range(ADVISERS):
        memory.ints[o, EXCEEDED + adviser] = 0
        memory.floats[o, BOOK + adviser] *= FADE


@compiled_apart
def follow(o: int, view: View, memory: Memory) -> None:
    """Write the target of the adviser that is followed; speeds are the corrected ones."""
    ints, adviser = memory.ints[o], memory.ints[o, FOLLOWED]
    own = advised_counts(o, view, memory)[adviser]
    if ints[SEEN_INTERVALS] == 0 or not is_equal(own, view.counts[o]):
        carries = find_capacity(o, view, memory, view.counts[o])
    else:
        carries = memory.floats[o, CARRIES + adviser]
    _advise(o, view, memory, adviser, carries)


@compiled_apart
def keep_books(o: int, view: View, memory: Memory) -> None:
    """Charge every adviser for the interval that ended, choose one, and let the others move on.

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
        for adviser in range(ADVISERS):
            copy_counts(advised[adviser], counts)
    note_rate(o, view, memory)
    _move(o, view, memory, ints[FOLLOWED], counts)
    for adviser in range(ADVISERS):
        _charge(o, view, memory, adviser)
    _choose_adviser(o, view, memory)
    present, off_menu = advised[ADVISERS], memory.floats[o, OFF_MENU]
    copy_counts(present, counts)
    copy_counts(advised[ints[FOLLOWED]], counts)
    for adviser in range(ADVISERS):
        if adviser != ints[FOLLOWED]:
            copy_counts(counts, advised[adviser])
            carries = memory.floats[o, CARRIES + adviser]
            memory.floats[o, OFF_MENU] = carries
            _advise(o, view, memory, adviser, carries)
            if view.rules[o, STEP] == 1:
                step_towards(o, view)
            _move(o, view, memory, adviser, view.target[o])
    memory.floats[o, OFF_MENU] = off_menu
    copy_counts(counts, present)
    copy_counts(view.target[o], present)


@compiled
def _advise(o: int, view: View, memory: Memory, adviser: int, carries: float) -> None:
    """Write where an adviser would go from the view's deployment, which carries so much."""
    target = view.target[o]
    copy_counts(target, view.counts[o])
    if adviser == PLAN and memory.ints[o, PLANS] > 0:
        here = find_rung(o, view, memory, view.counts[o])
        rung = choose_rung(o, view, memory, here)
        if rung != here:
            copy_counts(target, rung_counts(o, view, memory)[rung])
        return
    if adviser == LONG:
        row = choose_for_long(o, view, memory, carries)
    else:
        row = choose_briefly(o, view, memory, carries)
    if row >= 0:
        copy_counts(target, candidate_counts(o, view, memory)[row])


@compiled_apart
def _move(o: int, view: View, memory: Memory, adviser: int, to: Counts) -> None:
    """Let an adviser be at a deployment, and charge for a restart if it took one."""
    own = advised_counts(o, view, memory)[adviser]
    if is_equal(own, to):
        return
    if not same_per_pool(view, o, own, to):
        memory.floats[o, BOOK + adviser] += price_of_restart(o, view, memory)
    copy_counts(own, to)
    memory.floats[o, CARRIES + adviser] = UNKNOWN


@compiled_apart
def _charge(o: int, view: View, memory: Memory, adviser: int) -> None:
    """Enter what an adviser's deployment costs in an interval of the rate seen.

    The first excess in a block stands for as many violations as one has brought so far: on paper
    more replicas are there at once and carry no backlog, in a cluster they come late and do.
    """
    floats, ints, traits = memory.floats[o], memory.ints[o], view.traits[o]
    own = advised_counts(o, view, memory)[adviser]
    if floats[CARRIES + adviser] == UNKNOWN:
        floats[CARRIES + adviser] = find_capacity(o, view, memory, own)
    cost = traits[WEIGHT_RESOURCES] * price_of(o, view, own) / traits[TOP_COST]
    if view.seen[o, RATE] > floats[CARRIES + adviser]:
        excess = price_of_excess(o, view, memory)
        if ints[EXCEEDED + adviser] == 0:
            cost += excess
        elif (ints[EXCEEDED + adviser] + 1) * traits[WEIGHT_VIOLATION] > excess:
            cost += traits[WEIGHT_VIOLATION]
        ints[EXCEEDED + adviser] += 1
    floats[BOOK + adviser] += cost


@compiled
def _choose_adviser(o: int, view: View, memory: Memory) -> None:
    """Leave the adviser that is followed, if another's book is cheaper by enough."""
    floats, ints = memory.floats[o], memory.ints[o]
    followed = ints[FOLLOWED]
    best = followed
    for adviser in range(ADVISERS):
        exists = adviser != PLAN or ints[PLANS] > 0
        if exists and floats[BOOK + adviser] < floats[BOOK + best]:
            best = adviser
    book = floats[BOOK + followed]
    enough = RESTARTS_LOST * price_of_restart(o, view, memory) + PART_LOST * book
    if book - floats[BOOK + best] > enough:
        ints[FOLLOWED] = best
        floats[CARRIES + best] = floats[CARRIES + followed]
