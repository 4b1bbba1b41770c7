"""A switchback experiment finds a difference that is there, and none that is not."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weir_simulator.switchback import (
    BlockTotals,
    Design,
    Side,
    estimate,
    is_missed_too_often,
)

HOUR = 3600.0
EXPERIMENTS = 1000


def needed(rng, blocks):
    """Cost that the load of each block makes necessary: days, noise that lasts, and a trend."""
    noise = np.zeros(blocks)
    for block in range(1, blocks):
        noise[block] = 0.8 * noise[block - 1] + rng.normal(0, 0.1)
    day = 0.4 * np.sin(2 * math.pi * (np.arange(blocks) + rng.uniform(0, 24)) / 24)
    return np.exp(day + noise + rng.normal(0, 0.02) * np.arange(blocks))


def experiment(seed, *, saving, pairs=12, fixed=False, known=True):
    """Evaluate `saving` over made-up load.

    Args:
        seed: Of load, chance and order of the sides.
        saving: Part of the baseline's cost.
        pairs: Of blocks.
        fixed: Whether the baseline costs the same in each block, as a fixed deployment does.
        known: Whether the rate at the sources was measured.
    """
    rng = np.random.default_rng(seed)
    design = Design(block=HOUR, pairs=pairs, seed=seed)
    costs = needed(rng, 2 * pairs)
    usual = np.full_like(costs, costs.mean()) if fixed else costs
    sides = {Side.WEIR: (1 - saving) * costs, Side.BASELINE: usual}
    chance = {Side.WEIR: 0.02, Side.BASELINE: 0.02}
    found = estimate(
        {
            block: BlockTotals(
                side=side,
                seconds=0.75 * HOUR,
                cost=0.75 * sides[side][block] * math.exp(rng.normal(0, 0.03)),
                rate=100 * costs[block] * math.exp(rng.normal(0, 0.03)) if known else math.nan,
                measured=45,
                measured_seconds=0.75 * HOUR,
                late=int(rng.binomial(45, chance[side])),
                restarts=int(rng.poisson(0.5)),
            )
            for block, side in enumerate(design.sides)
        },
        design,
    )
    assert found is not None
    return found


@pytest.mark.parametrize("saving", [0.0, 0.2])
@pytest.mark.parametrize("fixed", [False, True])
def test_the_interval_holds_the_true_saving_in_95_of_100_experiments(saving, fixed):
    found = [experiment(seed, saving=saving, fixed=fixed) for seed in range(EXPERIMENTS)]

    inside = [each.relative_cost.low <= -saving <= each.relative_cost.high for each in found]

    assert 0.93 <= np.mean(inside) <= 0.97


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("fixed", [False, True])
def test_a_saving_of_nothing_is_not_found_in_95_of_100_experiments(fixed, known):
    found = [experiment(seed, saving=0.0, fixed=fixed, known=known) for seed in range(EXPERIMENTS)]

    for effects in (
        [each.relative_cost for each in found],
        [each.cost for each in found],
        [each.late for each in found],
        [each.restarts for each in found],
    ):
        assert np.mean([each.found for each in effects]) <= 0.07


@pytest.mark.parametrize("fixed", [False, True])
def test_a_saving_of_a_fifth_is_found_within_a_day(fixed):
    found = [experiment(seed, saving=0.2, fixed=fixed).relative_cost for seed in range(200)]

    assert np.mean([each.found and each.high < 0 for each in found]) > 0.95


def test_no_interval_is_given_below_four_pairs_and_none_beyond_what_is_possible():
    few = experiment(3, saving=0.2, pairs=3)
    four = [experiment(seed, saving=0.2, pairs=4, known=False) for seed in range(50)]

    for effect in (few.relative_cost, few.cost, few.late, few.restarts):
        assert math.isnan(effect.low)
        assert math.isnan(effect.high)
        assert math.isfinite(effect.mean)
    assert all(-1 <= each.late.low <= each.late.high <= 1 for each in four)
    assert all(each.relative_cost.low >= -1 for each in four)


def test_the_difference_is_that_of_the_two_sides():
    found = experiment(5, saving=0.2)

    for each in (found.cost, found.late, found.restarts):
        assert each.mean == pytest.approx(each.weir - each.baseline)
    assert found.relative_cost.mean == pytest.approx(found.cost.weir / found.cost.baseline - 1)


@given(st.integers(1, 100), st.integers(0, 2**32))
def test_every_pair_has_one_block_of_each_side(pairs, seed):
    sides = Design(block=HOUR, pairs=pairs, seed=seed).sides

    assert len(sides) == 2 * pairs
    assert all({sides[2 * n], sides[2 * n + 1]} == set(Side) for n in range(pairs))


def test_either_side_comes_first_in_about_half_of_the_pairs():
    sides = Design(block=HOUR, pairs=1000, seed=1).sides

    assert 450 < sum(each is Side.WEIR for each in sides[::2]) < 550


def test_a_time_within_the_first_quarter_or_two_blocks_is_not_judged():
    design = Design(block=100.0, pairs=2, seed=0)

    places = [
        design.place(*each) for each in [(0, 10), (25, 35), (95, 105), (100, 100), (390, 400)]
    ]

    assert [each and (each.block, each.judged) for each in places] == [
        (0, False),
        (0, True),
        None,
        (1, False),
        (3, True),
    ]
    assert design.place(400, 400) is None
    assert design.place(-5, 5) is None


def block(side, seconds=0.75 * HOUR, cost=1.0):
    """Return a block that ran for 45 minutes and was measured for `seconds`."""
    return BlockTotals(
        side=side,
        seconds=0.75 * HOUR,
        cost=cost,
        measured=round(seconds / 60),
        measured_seconds=seconds,
    )


@pytest.mark.parametrize("seconds", [0.0, 0.3 * HOUR])
def test_a_pair_of_which_too_little_was_measured_does_not_count(seconds):
    design = Design(block=HOUR, pairs=3, seed=0)
    blocks = {n: block(side, cost=1.0 + n % 3) for n, side in enumerate(design.sides)}
    blocks[3] = block(design.sides[3], seconds=seconds)

    found = estimate(blocks, design)

    assert found is not None
    assert (found.pairs, found.left_out) == (2, 1)
    assert estimate({n: blocks[n] for n in (0, 1, 2)}, design) is None


def test_a_pair_whose_baseline_was_refused_does_not_count():
    design = Design(block=HOUR, pairs=3, seed=0)
    blocks = {n: block(side, cost=1.0 + n % 3) for n, side in enumerate(design.sides)}
    refused = design.sides.index(Side.BASELINE)
    blocks[refused] = replace(blocks[refused], refused=1)

    found = estimate(blocks, design)

    assert found is not None
    assert (found.pairs, found.left_out) == (2, 1)


def test_pairs_that_are_all_equal_say_nothing_of_chance():
    design = Design(block=HOUR, pairs=4, seed=0)
    costs = {Side.WEIR: 0.8, Side.BASELINE: 1.0}

    found = estimate(
        {n: block(side, cost=costs[side]) for n, side in enumerate(design.sides)}, design
    )

    assert found is not None
    assert found.relative_cost.mean == pytest.approx(-0.2)
    assert math.isnan(found.relative_cost.low)
    assert not found.relative_cost.found


@pytest.mark.parametrize(
    ("late", "intervals", "ends"), [(2, 4, False), (3, 4, True), (3, 60, False), (4, 60, True)]
)
def test_the_objective_is_missed_too_often_above_its_share_of_a_block(late, intervals, ends):
    assert is_missed_too_often(late, share=0.05, intervals=intervals) is ends
