"""What a change takes, and whether the pools have room for it."""

from __future__ import annotations

from weir_policies.kernels.compiled import compiled
from weir_policies.kernels.view import View
from weir_simulator.state import NOTHING, RESIZE, RESTART, Rules, State


@compiled
def limit_pools(o: int, state: State, view: View) -> None:
    """Let an operator see the room that the others leave it in every pool."""
    for place in range(view.counts.shape[1]):
        pool, others = state.pool_of[place], 0
        for row in range(view.counts.shape[0]):
            for other in range(view.counts.shape[1]):
                if row != o and state.pool_of[other] == pool:
                    others += max(view.counts[row, other], view.target[row, other])
        view.limit[o, place] = max(state.pool_room[o, pool] - others, 0)


@compiled
def classify(o: int, rules: Rules, state: State, view: View) -> int:
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
def fits(o: int, state: State, view: View) -> bool:
    """Return whether an operator's target fits its pools beside what the others have or get."""
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
