"""The planner's state of an operator, as named fields.

Kernels may not allocate memory, so all of it is allocated at the start; what can be made again is
no part of it (`Workspace`). Pages that were never written take no memory: some 70 kB are used
before the first plan, then 8 kB more for each point of the front.

Three words recur. A *point* is a deployment that the planner considers, one of the Pareto front of
price and capacity. A *block* is a few intervals, some ten minutes: forecasts and plans count in
blocks, decisions are taken in every interval. An *expert* is a rule that the planner may follow.
"""

from __future__ import annotations

from weir_policies.kernels.fields import Fields, array
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
LAGS = 720
"""Intervals back that rates are compared with: a period is shorter, less than half a day with
intervals of a minute."""
HISTORY = 4 * LAGS
"""Intervals whose rates are kept, and in which what is known of differences fades."""
PERIODS = 8
"""Earlier periods from which the next one is expected."""
LONGEST_CHANGE = 30
"""Intervals after which a change is not taken for what was asked for."""
PERIOD_ROWS = LAGS // 8 + LONGEST_CHANGE
"""Intervals of a period's plan that are kept: it is made again before later ones are read."""
CELLS = 2048
"""Bins of histograms in which something was counted, at most."""
NOTES = 2 * KEPT
"""Two for each block from one plan to the next at most."""
NEW_REGIME = -1
"""Stands for a change of the regime among the notes."""
EXPERTS = 4
SHORT_RULE, LONG_RULE, PLAN, PERIODIC_PLAN = range(EXPERTS)
SHORT_WINDOW, LONG_WINDOW = 3, 60
"""Intervals and blocks that the rules look back: what `queueing` and `window-max` do."""


class PlannerMemory(Fields):
    """Parameters and learned state of `planner`; rates in logs where it says height or peak."""

    # Parameters.
    reconfiguration_cost: float
    """Below 0 the operator's weight is taken."""
    catch_up: float
    corrects: int
    node_types: int

    # The rate, learned in `rate`.
    highest_rate: float
    """Records/s, of all intervals."""
    block_peak: float
    """Records/s, of the present block so far."""
    floor: float
    """Height below which all rates are the same."""
    peak_long: float
    """The envelope of the heights that falls slowly."""
    peak_short: float
    """The one that falls fast."""
    lowest: float
    highest: float
    """Of the slow envelope so far."""
    level_from: float
    level_step: float
    surprise: float
    began: float
    last_season: float
    """What the season explains of the block that ended before the plan."""
    season: Floats = array(AHEAD)
    """What it explains of the blocks to come."""
    day_weight: float
    week_weight: float
    day_day: float
    """Sums of the regression of changes on the usual ones of the day and the week."""
    day_week: float
    week_week: float
    day_change: float
    week_change: float
    usual_day: Floats = array(DAY)
    days_seen: Floats = array(DAY)
    usual_week: Floats = array(WEEK)
    weeks_seen: Floats = array(WEEK)
    past_heights: Floats = array(LAG)
    past_usual: Floats = array(LAG)
    past_special: Floats = array(LAG)

    # What experience says of the model, and what deployments carry and cost: `candidates`.
    speed_factors: Floats = array("node_types")
    """Logarithm of how much faster than believed each is."""
    speed_weights: Floats = array("node_types")
    """Intervals from which each factor was learned; 0 where it was not."""
    wait_factor: float
    wait_weight: float
    mistrust: float
    mistrusted: int
    exceeded_blocks: float
    exceeded_intervals: float
    block_exceeded: int
    restarts: float
    restart_violations: float
    since_change: int
    resizes_restart: int
    """1 where the last change that only changed sizes restarted the job."""
    streak: int
    tried: Floats = array(2)
    """How often a rate exceeded the capacity once, and several times in a row."""
    lasted: Floats = array(2)
    """How often it did so in the next interval as well."""
    last_capacity: float
    fingerprint: float
    room: float
    candidates_reach: float
    capacity_outside: float
    chain: int
    """Node type, where moves are by one replica."""
    candidates_used: int
    front_used: int
    points: Counts = array(FRONT, "node_types")
    point_capacity: Floats = array(FRONT)
    point_height: Floats = array(FRONT)
    """Logarithm of the capacity."""
    point_price: Floats = array(FRONT)
    group: Counts = array(FRONT)
    """The first point that a resize leads to."""

    # The plan: `plan`.
    block: int
    """Intervals in a block; 0 until it is known."""
    in_block: int
    blocks: int
    planned_at: int
    next_plan: int
    plans: int
    plan_excess: float
    """Price of an excess in the plan."""
    plan_restart: float
    """Price of a restart in the plan."""
    plan_price: Floats = array(FRONT)
    """What each point costs over a block in the plan."""
    expected_block: int
    """Block of the plan of which `expected` holds the values."""

    # A period of at most half a day, and its plan: `period`.
    slot_length: float
    """Seconds of an interval; 0 until it is known."""
    slot_time: float
    """When the last one ended, s."""
    slots: int
    """Intervals so far, those that were not measured included."""
    differences: Floats = array(LAGS + 1)
    """Sum of squared differences from the rate so many intervals ago; they decay."""
    seen_since: Floats = array(LAGS + 1)
    """How many those of the first lag were after each of the last intervals, by `slots`."""
    period: float
    """Intervals; 0 where there is none."""
    period_spread: float
    """Standard deviation of a rate from what is expected after a period, in logs."""
    period_shift: Floats = array(PERIODS)
    """How much higher the last period is than each earlier one, in logs."""
    period_level: float
    """How much higher the present rate is than usual in the last period, in logs."""
    period_planned_at: int
    """Of `slots`, when its plan was made; `-HISTORY` where it is to be made again."""
    asked_at: int
    """Of `slots`, when more replicas were asked for; -1 where none were."""
    change_takes: float
    """Intervals from that decision to the first one with them, as learned."""

    # The experts: `policy`.
    followed: int
    seen_intervals: int
    rates: Floats = array(SHORT_WINDOW)
    """Records/s of the last intervals."""
    peaks: Floats = array(LONG_WINDOW)
    """Records/s, the highest of each of the last blocks."""
    long_peak: float
    advised: Counts = array(EXPERTS + 1, "node_types")
    """Where each expert would be, and room for one more deployment."""
    carries: Floats = array(EXPERTS)
    """Records/s that each one's deployment carries; `UNKNOWN`."""
    expert_cost: Floats = array(EXPERTS)
    exceeded: Counts = array(EXPERTS)
    """Intervals of this block in which the rate exceeded that."""

    # Deployments to choose from: `candidates`.
    candidate_capacity: Floats = array(CANDIDATES)
    candidate_price: Floats = array(CANDIDATES)
    candidates: Counts = array(CANDIDATES, "node_types")
    recent_heights: Floats = array(HISTORY)
    """Logarithms of the rates of the last intervals."""

    # How high next blocks were, a histogram for each level and gap: `rate`.
    assumed: Floats = array(LEVELS)
    """Weight of what is assumed, of a first plan on."""
    cells_used: int
    cells: Counts = array(CELLS)
    """Bins in which a block was counted, by `cell_of`."""
    cell_counts: Floats = array(CELLS)
    notes_used: int
    notes: Counts = array(NOTES)
    """What happened since the plan, and is entered with the next one: a bin, or `NEW_REGIME`."""

    # The plan's values, `(state, point)` of the points that there are; a state's begin at
    # `place_of_state`.
    beginnings: Floats = array(2, STATES * FRONT)
    """At the beginning of the last two plans."""
    middle: Floats = array(STATES * FRONT)
    """At the beginning of block `KEPT`: earlier ones are made again from it."""
    expected: Floats = array(STATES * FRONT)
    """After block `expected_block`."""
    period_costs: Floats = array(PERIOD_ROWS * FRONT)
    """Cost to be expected in each interval ahead at each of the points that there are."""
    period_values: Floats = array(PERIOD_ROWS * FRONT)
    """The same from that interval on."""


class Workspace(Fields):
    """Where the planner works.

    All operators of a controller share one: nothing is read there then that was not written in the
    same call. In a simulation each operator has its own, where `tails` and `expected` stay as the
    last plan left them.
    """

    shared: int
    """1 where others use it too."""
    order: Counts = array(CANDIDATES)
    """Candidates by price."""
    prior: Floats = array(GAPS, STEPS)
    """What is assumed, at weight 1."""
    seen_steps: Floats = array(LEVELS, GAPS, STEPS)
    """How often a next block was how high."""
    tails: Floats = array(STATES, STEPS + 1)
    """Probability that the next block is so high or higher."""
    expected: Floats = array(KEPT, STATES * FRONT)
    """Cost to be expected after each block of the plan, as in `PlannerMemory`."""
    link_to: Counts = array(STATES * STATES)
    """States that follow a state: a sparse matrix, row by row."""
    link_from: Counts = array(STATES + 1)
    link_weight: Floats = array(STATES * STATES)
    sums: Floats = array(STATES)
    values: Floats = array(2, STATES, FRONT)
    """Those of two neighbouring blocks."""
    bins: Counts = array(FRONT)
    """Where to read the probability that a point is exceeded, as `place_step` returns it."""
    parts: Floats = array(FRONT)
    of_point: Floats = array(FRONT)
    period_costs: Floats = array(LAGS, FRONT)
    """Cost to be expected in each interval of a period at each point."""
