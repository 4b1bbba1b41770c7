"""Where the planner keeps what it knows: names for the places in `kernels.view.Memory`.

Kernels may not allocate, so everything has its place from the beginning: about 3 MB per operator,
however long it runs and however many node types there are.

Three words recur. A *point* is a deployment that the planner considers, one of the Pareto front of
price and capacity. A *block* is a few intervals, some ten minutes: forecasts and plans count in
blocks, decisions are taken in every interval. An *expert* is a rule that the planner may follow.
"""

from __future__ import annotations

from weir_policies.kernels.compiled import pasted
from weir_policies.kernels.view import Memory, View, empty_memory
from weir_policies.model.arrays import Counts, Floats

FRONT = 32
"""Points of the front at most; 64 were no better in any of the published experiments."""
CANDIDATES = 1024
"""Deployments that are looked at when a front is chosen."""
LEVELS = 48
"""Levels of the recent peak; values are interpolated between them."""
GAPS = 5
"""Classes of how far below its recent peak the rate is."""
STATES = LEVELS * GAPS
STEPS = 80
"""Bins of the next block's peak relative to the recent one."""
AHEAD = 72
"""Blocks that a plan looks ahead, after which it leans on the plan of a day before."""
KEPT = 36
"""Blocks after which a plan is made again."""
DAY = 144
"""Parts of the day that have a usual rate of their own."""
WEEK = 7 * DAY
LAG = 6
"""Blocks over which a usual change is compared with the real one."""

# Columns of `Memory.floats`: parameters.
_PARAMETERS = 3
RECONFIGURATION_COST, CATCH_UP, CORRECTS = range(_PARAMETERS)
# The rate.
_RATE = 12
(
    PEAK,
    BLOCK_PEAK,
    FLOOR,
    PEAK_LONG,
    PEAK_SHORT,
    LOWEST,
    HIGHEST,
    LEVEL_FROM,
    LEVEL_STEP,
    SURPRISE,
    BEGAN,
    LAST_SEASON,
) = range(_PARAMETERS, _PARAMETERS + _RATE)
# The season: weights of the day and the week, and the sums of their regression.
_SEASON = 7
DAY_WEIGHT, WEEK_WEIGHT, DAY_DAY, DAY_WEEK, WEEK_WEEK, DAY_CHANGE, WEEK_CHANGE = range(
    _PARAMETERS + _RATE, _PARAMETERS + _RATE + _SEASON
)
# What follows from the front and from experience.
_REST = 16
(
    FINGERPRINT,
    MENU_TOP,
    WAIT_FACTOR,
    WAIT_WEIGHT,
    MISTRUST,
    EXCEEDED_BLOCKS,
    EXCEEDED_INTERVALS,
    RESTARTS,
    RESTART_VIOLATIONS,
    OFF_MENU,
    LAST_CAPACITY,
    ONCE_TRIED,
    AGAIN_TRIED,
    ONCE_LASTED,
    AGAIN_LASTED,
    ROOM,
) = range(_PARAMETERS + _RATE + _SEASON, _PARAMETERS + _RATE + _SEASON + _REST)
# Each expert's book, and what its deployment carries; the last rates, the largest of 60 blocks.
EXPERTS = 3
SHORT_WINDOW, LONG_WINDOW, PLAN = range(EXPERTS)
BRIEF_WINDOW, LONG_WINDOW = 3, 60
"""Intervals and blocks that the rules look back: what `queueing` and `window-max` do."""
EXPERT_COST = _PARAMETERS + _RATE + _SEASON + _REST
CARRIES = EXPERT_COST + EXPERTS
RATES = CARRIES + EXPERTS
LONG_PEAK = RATES + BRIEF_WINDOW
_SCALARS = LONG_PEAK + 1

# Columns of `Memory.ints`.
_NUMBERS = 18
(
    BLOCK,
    IN_BLOCK,
    BLOCKS,
    PLANNED_AT,
    NEXT_PLAN,
    PLANS,
    FRONT_USED,
    CANDIDATES_USED,
    SINCE_CHANGE,
    BLOCK_EXCEEDED,
    CHAIN,
    MISTRUSTED,
    STREAK,
    FOLLOWED,
    SEEN_INTERVALS,
    EXCEEDED,  # intervals of this block, one column per expert
) = range(_NUMBERS - EXPERTS + 1)

# Arrays in `Memory.ints`, by where they begin.
LINK_TO = _NUMBERS
LINK_FROM = LINK_TO + STATES * STATES
GROUP = LINK_FROM + STATES + 1
ORDER = GROUP + FRONT
POINT_COUNTS = ORDER + CANDIDATES  # then FRONT x t, CANDIDATES x t, (EXPERTS + 1) x t

# Arrays in `Memory.values`, by where they begin.
SEEN_STEPS = 0
TAIL = SEEN_STEPS + STATES * STEPS
LINK_WEIGHT = TAIL + STATES * (STEPS + 1)
EXPECTED = LINK_WEIGHT + STATES * STATES
VALUES = EXPECTED + KEPT * STATES * FRONT
BEGINNINGS = VALUES + 2 * STATES * FRONT
SEASON = BEGINNINGS + 2 * STATES * FRONT
USUAL_DAY = SEASON + AHEAD
DAYS_SEEN = USUAL_DAY + DAY
USUAL_WEEK = DAYS_SEEN + DAY
WEEKS_SEEN = USUAL_WEEK + WEEK
PAST = WEEKS_SEEN + WEEK
POINT_CAPACITY = PAST + 3 * LAG
POINT_HEIGHT = POINT_CAPACITY + FRONT
POINT_PRICE = POINT_HEIGHT + FRONT
ROW = POINT_PRICE + FRONT
SCRATCH = ROW + FRONT
CANDIDATE_CAPACITY = SCRATCH + STATES
CANDIDATE_PRICE = CANDIDATE_CAPACITY + CANDIDATES
PEAKS = CANDIDATE_PRICE + CANDIDATES
VALUES_USED = PEAKS + LONG_WINDOW


def make_memory(view: View) -> Memory:
    """Return memory of the right size, all zero; corrections of speeds stand behind the scalars."""
    node_types = view.counts.shape[1]
    return empty_memory(
        view,
        floats=_SCALARS + 3 * node_types,
        ints=POINT_COUNTS + (FRONT + CANDIDATES + EXPERTS + 1) * node_types,
        values=VALUES_USED,
    )


@pasted
def speed_factors(o: int, view: View, memory: Memory) -> Floats:
    """Return by how much each node type is faster than believed, `(t,)`; 0 where unmeasured."""
    return memory.floats[o, _SCALARS : _SCALARS + view.counts.shape[1]]


@pasted
def speed_weights(o: int, view: View, memory: Memory) -> Floats:
    """Return from how many intervals each factor was learned, `(t,)`."""
    types = view.counts.shape[1]
    return memory.floats[o, _SCALARS + types : _SCALARS + 2 * types]


@pasted
def saved_speedups(o: int, view: View, memory: Memory) -> Floats:
    """Return room for the view's speedups while corrected ones stand in for them, `(t,)`."""
    types = view.counts.shape[1]
    return memory.floats[o, _SCALARS + 2 * types : _SCALARS + 3 * types]


@pasted
def point_counts(o: int, view: View, memory: Memory) -> Counts:
    """Return the deployments of the front, `(FRONT, t)`, the first `FRONT_USED` in use."""
    types = view.counts.shape[1]
    rows = memory.ints[o, POINT_COUNTS : POINT_COUNTS + FRONT * types]
    return rows.reshape((FRONT, types))


@pasted
def candidate_counts(o: int, view: View, memory: Memory) -> Counts:
    """Return the deployments that a front is chosen from, `(CANDIDATES, t)`."""
    types = view.counts.shape[1]
    begin = POINT_COUNTS + FRONT * types
    rows = memory.ints[o, begin : begin + CANDIDATES * types]
    return rows.reshape((CANDIDATES, types))


@pasted
def advised_counts(o: int, view: View, memory: Memory) -> Counts:
    """Return where each expert would be, and room for one more deployment, `(EXPERTS + 1, t)`."""
    types = view.counts.shape[1]
    begin = POINT_COUNTS + (FRONT + CANDIDATES) * types
    rows = memory.ints[o, begin : begin + (EXPERTS + 1) * types]
    return rows.reshape((EXPERTS + 1, types))


@pasted
def seen_steps(o: int, memory: Memory) -> Floats:
    """Return how often a next block was how high, `(LEVELS, GAPS, STEPS)`."""
    flat = memory.values[o, SEEN_STEPS : SEEN_STEPS + STATES * STEPS]
    return flat.reshape((LEVELS, GAPS, STEPS))


@pasted
def tails(o: int, memory: Memory) -> Floats:
    """Return the probability that the next block is so high or higher, `(STATES, STEPS + 1)`."""
    flat = memory.values[o, TAIL : TAIL + STATES * (STEPS + 1)]
    return flat.reshape((STATES, STEPS + 1))


@pasted
def expected_values(o: int, memory: Memory) -> Floats:
    """Return the cost to be expected after each block of the plan, `(KEPT, STATES, FRONT)`."""
    flat = memory.values[o, EXPECTED : EXPECTED + KEPT * STATES * FRONT]
    return flat.reshape((KEPT, STATES, FRONT))


@pasted
def value_rows(o: int, memory: Memory) -> Floats:
    """Return room for the values of two neighbouring blocks, `(2, STATES, FRONT)`."""
    return memory.values[o, VALUES : VALUES + 2 * STATES * FRONT].reshape((2, STATES, FRONT))


@pasted
def beginnings(o: int, memory: Memory) -> Floats:
    """Return the values at the beginning of the last two plans, `(2, STATES, FRONT)`."""
    flat = memory.values[o, BEGINNINGS : BEGINNINGS + 2 * STATES * FRONT]
    return flat.reshape((2, STATES, FRONT))
