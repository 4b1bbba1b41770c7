import math

import numpy as np
import pytest

from tests.policies.views import planner_memory, planner_workspace, view_of
from weir_policies.kernels.view import NO_LIMIT
from weir_policies.model.node_types import Deployment, NodeType
from weir_policies.model.queueing import predict_means
from weir_policies.operator_manager.planner.candidates import (
    choose_candidates,
    find_capacity,
    find_point,
    is_resize,
    note_resize,
)
from weir_policies.operator_manager.planner.rate import (
    assume,
    foresee,
    note_block,
    note_height,
    place_gap,
    smooth,
    span_levels,
)
from weir_policies.operator_manager.planner.state import (
    FRONT,
    GAPS,
    KEPT,
    LEVELS,
    STATES,
    STEPS,
)
from weir_policies.policy import Sharing
from weir_policies.testing import a_model, an_observation

TYPES = tuple(
    NodeType(name=f"t{place}", pool=f"t{place}", speedup=speed, price=speed * 1.1**place)
    for place, speed in enumerate((1.0, 0.7, 1.6))
)
MODEL = a_model(node_types=TYPES, max_replicas=10, keyed=True)
BUDGET = 0.05


def prepared(model=MODEL, deployment=None):
    """Return a view of one operator, and what a planner keeps of it."""
    here = deployment or Deployment((1,) + (0,) * (len(model.node_types) - 1))
    view = view_of(an_observation(model=model, deployment=here, budget=BUDGET))
    return view, planner_memory(view)


def front_of(own):
    used = int(own.front_used)
    return own.points[:used], own.point_capacity[:used], own.point_price[:used]


def test_a_capacity_is_the_rate_at_which_the_budget_is_just_kept():
    view, own = prepared()
    counts = np.array([0, 0, 3], dtype=np.int64)

    capacity = find_capacity(0, view, own, counts)

    below, _ = predict_means(MODEL, counts[None], capacity * 0.999)
    above, _ = predict_means(MODEL, counts[None], capacity * 1.001)
    assert below[0] <= BUDGET < above[0]


def test_what_can_never_keep_the_budget_has_no_capacity():
    slow = NodeType(name="slow", pool="slow", speedup=0.1, price=0.1)
    view, own = prepared(a_model(node_types=(slow, *TYPES), max_replicas=10, keyed=True))

    capacity = find_capacity(0, view, own, np.array([10, 0, 0, 0], dtype=np.int64))

    assert capacity == 0


def test_a_dearer_point_carries_more():
    _view, own = prepared()

    _, capacity, price = front_of(own)

    assert (np.diff(price) > 0).all()
    assert (np.diff(capacity) > 0).all()


def test_no_deployment_of_one_type_beats_a_point():
    view, own = prepared()
    _, capacity, price = front_of(own)

    for place, node_type in enumerate(TYPES):
        for count in range(1, 11):
            counts = np.zeros(3, dtype=np.int64)
            counts[place] = count
            carried = find_capacity(0, view, own, counts)
            no_dearer = price <= count * node_type.price + 1e-9
            assert not no_dearer.any() or carried <= capacity[no_dearer].max() * (1 + 1e-6)


def test_many_deployments_are_thinned_to_a_front_of_fixed_length():
    types = tuple(
        NodeType(name=f"t{place}", pool=f"t{place}", speedup=0.5 + 0.13 * place, price=1 + place)
        for place in range(10)
    )
    _view, own = prepared(a_model(node_types=types, max_replicas=200, keyed=True))

    _, capacity, _ = front_of(own)

    assert 16 <= capacity.size <= FRONT


def test_under_proportional_sharing_mixes_are_on_the_front():
    model = a_model(node_types=TYPES, max_replicas=10, keyed=True, sharing=Sharing.PROPORTIONAL)
    _view, own = prepared(model)

    front, _, _ = front_of(own)

    assert ((front > 0).sum(axis=1) > 1).any()


def test_no_point_exceeds_a_pool():
    limited = [
        NodeType(
            name=each.name, pool=each.pool, speedup=each.speedup, price=each.price, pool_limit=2
        )
        for each in TYPES
    ]
    _view, own = prepared(a_model(node_types=tuple(limited), max_replicas=10, keyed=True))

    front, _, _ = front_of(own)

    assert front.max() <= 2
    assert front.sum(axis=1).max() > 2


def test_resizes_of_a_point_are_on_the_front():
    half = NodeType(name="p/1", pool="p", speedup=1.0, price=1.0)
    whole = NodeType(name="p/2", pool="p", speedup=2.0, price=2.0)
    _, own = prepared(a_model(node_types=(half, whole), max_replicas=4, keyed=True))

    assert find_point(own, np.array([4, 0], dtype=np.int64)) >= 0
    assert find_point(own, np.array([0, 4], dtype=np.int64)) >= 0


def test_where_moves_are_by_one_the_front_is_of_one_type():
    view, own = prepared()
    view.model[0].one_step = 1
    own.chain = 2

    choose_candidates(0, view, own)

    front, _, _ = front_of(own)
    assert (front[:, :2] == 0).all()
    assert (np.diff(front[:, 2]) == 1).all()


def test_choosing_candidates_leaves_the_view_as_it_was_and_stays_as_target():
    view, own = prepared(deployment=Deployment((2, 0, 1)))
    counts, speedup = view.counts.copy(), view.speedup.copy()

    choose_candidates(0, view, own)

    assert (view.target == counts).all()
    assert (view.counts == counts).all()
    assert (view.speedup == speedup).all()
    assert (view.limit == NO_LIMIT).all()


def learn_season(height_of, days):
    """Let a season be learned from a height per block of ten minutes; return view and planner's."""
    view, own = prepared()
    own.block = 10
    rng = np.random.default_rng(2)
    for block in range(days * 144):
        seconds = (block + 1) * 600.0
        view.seen[0].time = seconds
        view.seen[0].time_of_week = seconds / 604_800 % 1
        view.seen[0].interval = 60.0
        note_block(0, view, own, height_of(block / 144) + rng.normal(0, 0.01))
        own.blocks += 1
    return view, own


def test_a_daily_course_is_expected_once_it_was_seen():
    view, own = learn_season(lambda day: math.sin(2 * math.pi * day), days=6)

    foresee(0, view, own)

    assert own.day_weight > 0.9


def test_a_rate_without_season_gets_none():
    noise = np.random.default_rng(4).normal(0, 0.3, 20 * 144)
    view, own = learn_season(lambda day: noise[int(day * 144)], days=14)

    foresee(0, view, own)

    assert own.day_weight < 0.5
    assert own.week_weight < 0.5


def test_a_weekend_is_told_from_the_week_after_some_weeks():
    def height(day):
        return math.sin(2 * math.pi * day) * (0.2 if day % 7 >= 5 else 1.0)

    view, own = learn_season(height, days=28)

    foresee(0, view, own)

    assert own.week_weight > 0.7


def learn_heights(heights):
    """Return what a planner keeps of such heights, and the workspace with their distributions."""
    view, own = prepared()
    work = planner_workspace(view)
    assume(own)
    for height in heights[:2]:
        note_height(own, work, height)
    span_levels(own, work)
    smooth(own, work, 0)
    own.plans = 1  # from now on levels are there to learn at
    for height in heights[2:]:
        note_height(own, work, height)
        if own.notes_used >= KEPT:
            smooth(own, work, 0)
    smooth(own, work, 0)
    return own, work


def test_tails_are_probabilities_that_fall():
    _, work = learn_heights(np.random.default_rng(1).normal(5, 0.1, 500))

    each = work.tails

    assert each.shape == (STATES, STEPS + 1)
    assert np.allclose(each[:, 0], 1)
    assert (np.diff(each, axis=1) <= 1e-12).all()


def test_a_rate_that_never_jumps_is_not_expected_to():
    rng = np.random.default_rng(1)
    _, calm = learn_heights(5 + rng.normal(0, 0.01, 3000))
    _, wild = learn_heights(5 + np.cumsum(rng.normal(0, 0.15, 3000)))

    jumps = 56  # the bin that begins 20 % above the peak
    visited = slice(0, STATES, GAPS)  # where the rate is at its peak
    unlikely, likely = calm.tails[visited, jumps], wild.tails[visited, jumps]
    assert unlikely.mean() < 0.1 * likely.mean()


def test_the_first_histograms_expect_heights_to_stay():
    view, own = prepared()
    work = planner_workspace(view)
    assume(own)

    smooth(own, work, 0)

    middle = work.tails.reshape(LEVELS, GAPS, STEPS + 1)[:, 0, 48]
    assert np.allclose(middle, 0.5, atol=0.02)


@pytest.mark.parametrize(("gap", "below", "part"), [(-0.1, 0, 0.0), (0.03, 0, 0.5), (9.0, 3, 1.0)])
def test_a_gap_lies_between_two_classes(gap, below, part):
    found, beyond = place_gap(gap)

    assert found == below
    assert beyond == pytest.approx(part)


def test_what_was_next_to_impossible_and_keeps_coming_is_a_new_regime():
    own, work = learn_heights(5 + np.random.default_rng(1).normal(0, 0.01, 2000))
    known = work.seen_steps.sum()

    for step in range(12):
        note_height(own, work, 5.5 + 0.3 * step)
    smooth(own, work, 0)

    assert work.seen_steps.sum() < 0.6 * known


SIZES = tuple(
    NodeType(name=name, pool="main", speedup=speed, price=speed)
    for name, speed in (("small", 1.0), ("large", 1.6))
)
SMALL, LARGE = np.array([2, 0]), np.array([0, 2])


def change_sizes(view, own, *, restarts):
    """Tell of an interval after which two small replicas were to become large ones."""
    view.counts_before[0], view.proposed[0], view.counts[0] = SMALL, LARGE, LARGE
    view.cost[0].reconfiguration = 1.0 if restarts else 0.0
    note_resize(0, view, own)
    choose_candidates(0, view, own)


def grouped(own):
    used = int(own.front_used)
    return own.group[:used].tolist() != list(range(used))


def test_another_size_is_a_restart_from_the_first_one_that_was():
    view, own = prepared(a_model(node_types=SIZES, max_replicas=10, keyed=True))
    choose_candidates(0, view, own)
    assert is_resize(0, view, own, SMALL, LARGE)
    assert grouped(own)

    change_sizes(view, own, restarts=True)
    assert not is_resize(0, view, own, SMALL, LARGE)
    assert not grouped(own)

    change_sizes(view, own, restarts=False)
    assert is_resize(0, view, own, SMALL, LARGE)
    assert grouped(own)


def test_a_restart_that_changes_the_number_of_replicas_says_nothing_of_sizes():
    view, own = prepared(a_model(node_types=SIZES, max_replicas=10, keyed=True))
    view.counts_before[0], view.proposed[0] = SMALL, np.array([3, 0])
    view.cost[0].reconfiguration = 1.0

    note_resize(0, view, own)

    assert is_resize(0, view, own, SMALL, LARGE)
