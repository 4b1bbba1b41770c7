"""The simulated world: what happens in a slot, and the compiled loop over the slots of a trace.

In every slot, in this order (Russo Russo, Cardellini, Lo Presti, ACM TAAS 2023, section 6):

1. The rate arrives; the response time of the present deployment follows, and whether it violates
   a bound of the objective.
2. Each operator's policy observes, learns from the slot before, and decides; what it decides is
   kept within floors and prices.
3. The slot is accounted: violation and resources of the present deployment, and a reconfiguration
   if one was decided, once for all operators.
4. The decision takes effect from the next slot on; or, if replicas must be provisioned, after that,
   and the policies are not asked until then.

What goes beyond the paper (queues, downtime, provisioning, resizes, limits, losses, noise) is off
unless `Rules` enable it.

`run_world` asks a compiled policy's kernels; `plain_loop` takes the same steps, `open_slot`,
`agree` and `close_slot`, and asks any policy in between.
"""

from __future__ import annotations

import numpy as np
from numba import types

from weir_policies.kernels.bounds import keep_bounds
from weir_policies.kernels.compiled import compiled, compiled_as
from weir_policies.kernels.prediction import price_of
from weir_policies.kernels.steps import step_towards
from weir_policies.kernels.view import KERNEL_TYPE, MEMORY_TYPE, VIEW_TYPE, Kernel, Memory, View
from weir_policies.model.arrays import Floats
from weir_simulator.dynamics import (
    fill_busy,
    find_speeds,
    flow_steadily,
    flow_with_queues,
    install,
    replace_lost,
    respond,
)
from weir_simulator.goals import judge
from weir_simulator.randomness import (
    BUSY_NOISE,
    LOSS,
    MISSING,
    RATE_NOISE,
    TIME_NOISE,
    draw,
    draw_factor,
)
from weir_simulator.state import (
    AT_CHANGE,
    AT_PRICE,
    AT_RATE,
    AT_REPLICAS,
    AT_SINKS,
    AT_TIME,
    BACKLOGGED,
    BOUNDS_TYPE,
    CHANGES_TYPE,
    COST,
    GOALS_TYPE,
    LOSSES,
    NOTHING,
    OUTCOME_TYPE,
    PRICE,
    RECONFIGURATIONS,
    RESIZE,
    RESIZES,
    RESTART,
    RULES_TYPE,
    SPEEDUP,
    SPENT,
    STATE_TYPE,
    VIOLATIONS,
    WEEK,
    Bounds,
    Changes,
    Goals,
    Now,
    Rules,
    SimulationOutcome,
    WorldState,
)


@compiled
def limit_pools(o: int, state: WorldState, view: View) -> None:
    """Set the room that the others leave an operator in every pool."""
    for place in range(view.counts.shape[1]):
        pool, others = state.pool_of[place], 0
        for row in range(view.counts.shape[0]):
            for other in range(view.counts.shape[1]):
                if row != o and state.pool_of[other] == pool:
                    others += max(view.counts[row, other], view.target[row, other])
        view.limit[o, place] = max(state.pool_room[o, pool] - others, 0)


@compiled
def classify(o: int, rules: Rules, state: WorldState, view: View) -> int:
    """Return what going to the operator's target takes."""
    changed, restart = False, False
    for place in range(view.counts.shape[1]):
        if view.target[o, place] == view.counts[o, place]:
            continue
        changed = True
        moved = 0
        for other in range(view.counts.shape[1]):
            if state.pool_of[other] == state.pool_of[place]:
                moved += view.target[o, other] - view.counts[o, other]
        restart = restart or moved != 0
    if not changed:
        return NOTHING
    return RESTART if restart or not rules.resizes else RESIZE


@compiled
def fits(o: int, state: WorldState, view: View) -> bool:
    """Return whether an operator's target fits its pools, given what the others have or get."""
    limit_pools(o, state, view)
    for place in range(view.counts.shape[1]):
        held, had = 0, 0
        for other in range(view.counts.shape[1]):
            if state.pool_of[other] == state.pool_of[place]:
                held += view.target[o, other]
                had += view.counts[o, other]
        if held > view.limit[o, place] and held > had:
            return False
    return True


@compiled
def _has_changed(o: int, view: View) -> bool:
    for place in range(view.counts.shape[1]):
        if view.counts[o, place] != view.counts_before[o, place]:
            return True
    return False


@compiled
def _observe(
    o: int, t: int, violated: bool, rules: Rules, truth: View, state: WorldState, view: View
) -> None:
    """Fill an operator's view with the slot that is ending.

    A restart stops the whole job: where the application violated its objective, that counts as a
    violation of the operators that changed, as in the live controller.
    """
    seen = view.seen[o]
    view.before[o] = seen
    seen.rate = state.rate[o]
    seen.response_time = state.response[o]
    seen.processed = state.passed[o]
    seen.backlog = state.backlog[o]
    seen.time = t * rules.slot
    weeks = t * rules.slot / WEEK
    seen.time_of_week = weeks - int(weeks)  # several times as fast as a remainder, or a floor
    busiest = fill_busy(o, state.rate[o], rules.queues, truth, view)
    if rules.noise > 0:
        seen.rate *= draw_factor(rules.seed, t, o, RATE_NOISE, rules.noise)
        seen.processed *= draw_factor(rules.seed, t, o, RATE_NOISE, rules.noise)
        seen.response_time *= draw_factor(rules.seed, t, o, TIME_NOISE, rules.noise)
        error = draw_factor(rules.seed, t, o, BUSY_NOISE, rules.noise)
        busiest = 0.0
        for place in range(view.busy.shape[1]):
            view.busy[o, place] *= error
            if rules.queues:
                view.busy[o, place] = min(view.busy[o, place], 1.0)
            busiest = max(busiest, view.busy[o, place])
    seen.busiest = busiest
    late = state.response[o] > seen.budget
    if rules.queues and violated:
        late = late or _has_changed(o, view)
    view.cost[o].violation = 1.0 if late else 0.0
    view.cost[o].resources = price_of(o, truth, truth.counts[o]) / view.model[o].top_cost


@compiled
def _change(change: int, changes: Changes, state: WorldState, truth: View) -> None:
    """Change a price or a speed for all operators; prices are known, speeds are not."""
    place, factor = changes.place[change], changes.factor[change]
    for o in range(truth.counts.shape[0]):
        if changes.what[change] == PRICE:
            truth.price[o, place] = factor
        elif changes.what[change] == SPEEDUP:
            state.nominal[place] = factor
            find_speeds(o, truth, state)


@compiled
def _lose_replicas(
    t: int, rules: Rules, truth: View, state: WorldState, outcome: SimulationOutcome
) -> float:
    """Lose replicas by chance; return the seconds for which this stops the job."""
    lost = False
    for o in range(truth.counts.shape[0]):
        for rank in range(truth.joined.shape[1] - 1, -1, -1):
            row = o * truth.joined.shape[1] + rank
            if truth.joined[o, rank] >= 0 and draw(rules.seed, t, row, LOSS) < rules.loss:
                replace_lost(o, rank, rules, truth, state)
                outcome.totals[LOSSES] += 1
                lost = True
    # Flink waits until the replica is back, then restores from a checkpoint.
    return rules.provisioning * rules.slot + rules.downtime if lost else 0.0


@compiled
def _price(waiting: bool, truth: View, state: WorldState) -> float:
    """Return what all operators cost per hour; `waiting` for replicas that are provisioned.

    What leaves runs on until they are there, and they are paid for from the beginning.
    """
    price = 0.0
    for o in range(truth.counts.shape[0]):
        if not waiting:
            price += price_of(o, truth, truth.counts[o])
            continue
        for place in range(truth.counts.shape[1]):
            paid = max(truth.counts[o, place], state.pending[o, place])
            price += truth.price[o, place] * paid
    return price


@compiled
def _observe_all(
    t: int, violated: bool, rules: Rules, truth: View, state: WorldState, view: View
) -> bool:
    """Fill every operator's view with the slot; return whether all measurements exist."""
    measured = True
    for o in range(truth.counts.shape[0]):
        taught = state.complete[o] == 1
        _observe(o, t, violated, rules, truth, state, view)
        complete = rules.missing == 0 or draw(rules.seed, t, o, MISSING) >= rules.missing
        state.complete[o] = complete
        state.taught[o] = taught and complete
        measured = measured and complete
        for place in range(view.target.shape[1]):
            view.target[o, place] = view.counts[o, place]
    if rules.queues:
        _observe_upstream(state, view)
    return measured


@compiled
def _observe_upstream(state: WorldState, view: View) -> None:
    """Fill in what would arrive at every operator if nothing waited upstream, and what waits there.

    How many records arrive for one that is processed upstream is measured, as in the live
    controller. All edges to an operator come before those from it, so that sums over the operators
    before it are complete when it is needed itself.
    """
    for o in range(view.counts.shape[0]):
        view.seen[o].offered, view.seen[o].upstream, state.fed[o] = 0.0, 0.0, 0.0
        state.found[o] = state.source[o]
        if state.source[o]:
            view.seen[o].offered = view.seen[o].rate if state.complete[o] == 1 else np.nan
    for edge in range(view.edges.shape[0]):
        above, below = view.edges[edge, 0], view.edges[edge, 1]
        if state.found[above] == 0:
            _find_arrivals(above, state, view)
        seen = view.seen[above]
        state.fed[below] += seen.processed if state.complete[above] == 1 else np.nan
        view.seen[below].offered += seen.offered
        view.seen[below].upstream += seen.upstream + seen.backlog
    for o in range(view.counts.shape[0]):
        if state.found[o] == 0:
            _find_arrivals(o, state, view)


@compiled
def _find_arrivals(o: int, state: WorldState, view: View) -> None:
    """Turn sums over the operators before an operator into what arrives at this one.

    While records wait upstream, its policy gets as rate what would arrive if none did; or what
    passes, if that is more, because they are worked off. The live controller does the same.
    """
    seen = view.seen[o]
    gain = seen.rate / state.fed[o] if state.fed[o] > 0 else np.nan
    seen.offered *= gain
    seen.upstream *= gain
    if seen.upstream > 0:
        seen.rate = max(seen.offered, seen.processed)
    state.found[o] = 1


@compiled
def _join_restart(
    rules: Rules, state: WorldState, view: View, decide: Kernel, memory: Memory
) -> None:
    """Where an operator's target restarts the job, let the others decide again, knowing that."""
    restarts = False
    for o in range(view.counts.shape[0]):
        restarts = restarts or classify(o, rules, state, view) == RESTART
    for o in range(view.counts.shape[0] if restarts else 0):
        if state.complete[o] == 0 or classify(o, rules, state, view) == RESTART:
            continue
        if rules.pool_limits:
            limit_pools(o, state, view)
        view.seen[o].restarts_anyway = True
        decide(o, view, memory)
        view.seen[o].restarts_anyway = False


@compiled
def agree(t: int, rules: Rules, state: WorldState, view: View) -> int:
    """Cut all targets to what can be; return what going there takes.

    A change that is under way is not to be touched.
    """
    kind = NOTHING
    waiting = state.now[0].provisioned_at > t
    for o in range(view.counts.shape[0]):
        if waiting:
            view.cost[o].reconfiguration = 0.0
            for place in range(view.counts.shape[1]):
                view.proposed[o, place] = view.counts[o, place]
            continue
        moved = 0
        for place in range(view.counts.shape[1]):
            view.proposed[o, place] = view.target[o, place]
            moved += abs(view.target[o, place] - view.counts[o, place])
        if view.model[o].one_step == 1 and moved > 1:
            step_towards(o, view)
        if rules.pool_limits and not fits(o, state, view):
            for place in range(view.counts.shape[1]):
                view.target[o, place] = view.counts[o, place]
        keep_bounds(o, view)
        taken = classify(o, rules, state, view)
        view.cost[o].reconfiguration = 1.0 if taken == RESTART else 0.0
        kind = max(kind, taken)
    return kind


@compiled
def _account(kind: int, now: Now, rules: Rules, outcome: SimulationOutcome) -> None:
    cost = rules.weight_resources * now.price / rules.top_cost
    if now.violated:
        cost += rules.weight_violation
        outcome.totals[VIOLATIONS] += 1
    if kind == RESTART:
        cost += rules.weight_reconfiguration
        outcome.totals[RECONFIGURATIONS] += 1
    elif kind == RESIZE:
        outcome.totals[RESIZES] += 1
    outcome.totals[COST] += cost
    outcome.totals[SPENT] += now.price


@compiled
def _apply(t: int, kind: int, rules: Rules, truth: View, state: WorldState, view: View) -> None:
    """Put the targets in force, or begin to provision the replicas that they have to wait for."""
    grows = False
    for o in range(truth.counts.shape[0]):
        for place in range(truth.counts.shape[1]):
            view.counts_before[o, place] = truth.counts[o, place]
            state.pending[o, place] = view.target[o, place]
            grows = grows or view.target[o, place] > truth.counts[o, place]
    if kind == RESTART and rules.provisioning > 0 and grows:
        state.now[0].provisioned_at = t + 1 + rules.provisioning
    elif kind != NOTHING:
        _install_all(rules, truth, state)
        if kind == RESTART:
            state.now[0].standstill += rules.downtime


@compiled
def _install_all(rules: Rules, truth: View, state: WorldState) -> None:
    for o in range(truth.counts.shape[0]):
        install(o, state.pending[o], rules, truth, state)


@compiled
def _count_replicas(truth: View, state: WorldState, outcome: SimulationOutcome) -> int:
    """Add the replicas and backlogs at the end of a slot; return the replicas."""
    replicas = 0
    for o in range(truth.counts.shape[0]):
        for place in range(truth.counts.shape[1]):
            outcome.replicas[place] += truth.counts[o, place]
            replicas += truth.counts[o, place]
        if state.backlog[o] > 0:
            outcome.totals[BACKLOGGED] += 1
    return replicas


@compiled
def open_slot(
    t: int,
    rate: float,
    rules: Rules,
    truth: View,
    state: WorldState,
    changes: Changes,
    goals: Goals,
    outcome: SimulationOutcome,
    view: View,
    bounds: Bounds,
) -> bool:
    """Let a slot's records flow, and fill all views; return whether all measurements exist.

    `rate` is the trace's; other arguments are those of `run_world`.
    """
    now = state.now[0]
    while now.change < changes.slot.size and changes.slot[now.change] == t:
        if changes.place[now.change] < 0:
            now.rate_factor = changes.factor[now.change]
        else:
            _change(now.change, changes, state, truth)
        now.change += 1
    if now.provisioned_at == t:
        _install_all(rules, truth, state)
        now.standstill += rules.downtime
    if rules.loss > 0:
        now.standstill += _lose_replicas(t, rules, truth, state, outcome)

    now.rate = rate * now.rate_factor
    if rules.queues:
        gap = min(now.standstill, rules.slot)
        now.standstill -= gap
        flow_with_queues(now.rate, gap, rules, truth, state, goals)
    else:
        flow_steadily(now.rate, truth, state)
    now.sinks_late = False
    if rules.ends == 0:
        now.time = respond(state.offered_response, truth, state)
    else:
        now.time, now.sinks_late = judge(rules, truth, state, goals)
    now.violated = now.time > rules.bound or now.sinks_late
    now.price = _price(now.provisioned_at > t, truth, state)

    measured = _observe_all(t, now.violated, rules, truth, state, view)
    for o in range(truth.counts.shape[0]):
        view.seen[o].min_replicas = bounds.floors[t, o]
        view.seen[o].max_price = bounds.prices[t, o]
    return measured


@compiled
def close_slot(
    t: int,
    kind: int,
    rules: Rules,
    truth: View,
    state: WorldState,
    outcome: SimulationOutcome,
    view: View,
) -> None:
    """Account for a slot, and put what was agreed in force; `kind` is what that takes."""
    now = state.now[0]
    _account(kind, now, rules, outcome)
    if now.provisioned_at <= t:
        _apply(t, kind, rules, truth, state, view)
    replicas = _count_replicas(truth, state, outcome)
    if now.point < outcome.curve_slots.size and outcome.curve_slots[now.point] == t + 1:
        outcome.curve[now.point] = outcome.totals[COST] / (t + 1)
        now.point += 1
    if outcome.history.shape[0] > 0:
        row = outcome.history[t]
        row[AT_RATE], row[AT_TIME], row[AT_PRICE] = now.rate, now.time, now.price
        row[AT_CHANGE], row[AT_REPLICAS] = kind, replicas
        row[AT_SINKS] = now.sinks_late


@compiled_as(
    types.void(
        types.float64[::1],
        RULES_TYPE,
        VIEW_TYPE,
        STATE_TYPE,
        CHANGES_TYPE,
        GOALS_TYPE,
        OUTCOME_TYPE,
        KERNEL_TYPE,
        KERNEL_TYPE,
        types.boolean,
        types.boolean,
        VIEW_TYPE,
        MEMORY_TYPE,
        types.float64[:, :, ::1],
        BOUNDS_TYPE,
    )
)
def run_world(
    trace: Floats,
    rules: Rules,
    truth: View,
    state: WorldState,
    changes: Changes,
    goals: Goals,
    outcome: SimulationOutcome,
    learn: Kernel,
    decide: Kernel,
    joint: bool,
    joins_restarts: bool,
    view: View,
    memory: Memory,
    draws: Floats,
    bounds: Bounds,
) -> None:
    """Run a policy through a trace; the outcome is written into `outcome`.

    Args:
        trace: Records/s per slot at every source, `(slots,)`.
        rules: What holds for the whole run.
        truth: The operators as they are; `counts` and `joined` are in force.
        state: As before the first slot.
        changes: What changes on the way.
        goals: Bounds on percentiles, and of single sinks.
        outcome: Filled with sums, curve and, where it has rows, history.
        learn: The policy's kernel that learns.
        decide: The one that decides.
        joint: One call decides for all operators.
        joins_restarts: Where one operator restarts the job, the others decide again.
        view: The operators as the policy believes them to be. It shares what both know with
            `truth`: deployments, order of joining, prices.
        memory: The policy's.
        draws: Numbers for the policies, `(slots, o, 2)`; `(0, o, 2)` where they draw none.
        bounds: What the decisions of each slot must keep.
    """
    for t in range(trace.size):
        measured = open_slot(
            t, trace[t], rules, truth, state, changes, goals, outcome, view, bounds
        )
        free = state.now[0].provisioned_at <= t
        for o in range(1 if joint else truth.counts.shape[0]):
            if not (measured if joint else state.complete[o] == 1):
                continue
            if rules.pool_limits:
                limit_pools(o, state, view)
            if state.taught[o]:
                learn(o, view, memory)
                state.learned[o] += 1
            if draws.shape[0] > 0:
                view.draws[o, 0] = draws[state.learned[o], o, 0]
                view.draws[o, 1] = draws[state.learned[o], o, 1]
            if free:
                decide(o, view, memory)
        if joins_restarts and free:
            _join_restart(rules, state, view, decide, memory)
        close_slot(t, agree(t, rules, state, view), rules, truth, state, outcome, view)
