"""The pieces that the 2018 systems share, against plain versions of them."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weir_policies.errors import ParameterError
from weir_policies.kernels.backups import (
    expect,
    improve,
    list_moves,
    refuse_large_plans,
)
from weir_policies.kernels.chains import (
    begin_chain,
    count_transition,
    estimate_chain,
    fill_chain,
    nearest_level,
)
from weir_policies.kernels.unknown_costs import learn_cost, repair

GAMMA, MOVING = 0.9, 0.4


class Problem:
    """A random decision process, and the arrays that a sweep works on."""

    def __init__(self, sizes, levels, seed):
        rng = np.random.default_rng(seed)
        self.sizes, self.levels = np.array(sizes), levels
        self.moves = list_moves(sizes)
        states = len(self.moves) * levels
        self.chain = rng.dirichlet(np.ones(levels), size=levels) * (rng.random((levels, 1)) > 0.1)
        self.chain[self.chain.sum(axis=1) == 0, 0] = 1.0
        self.resources = rng.random(len(self.moves))
        self.unknown, self.values = rng.random(states), rng.random(states)
        self.expected, self.box, self.other = np.zeros(states), np.zeros(states), np.zeros(states)
        self.counted, self.left = np.zeros(levels * levels), np.zeros(levels)
        self.first, self.last = np.zeros(levels, np.int64), np.zeros(levels, np.int64)
        fill_chain(self.chain, self.counted, self.left, self.first, self.last)

    def look_ahead(self, unknown):
        expect(
            self.values, unknown, self.expected, self.counted, self.left, self.first, self.last,
            len(self.moves), GAMMA,
        )  # fmt: skip

    def sweep(self):
        self.look_ahead(self.unknown)
        return improve(
            self.values, self.expected, self.resources, self.box, self.other, self.sizes,
            self.levels, MOVING,
        )  # fmt: skip


def sweep_plainly(problem):
    """Return Q of one sweep as the papers write it, `(d, a, l)`; `inf` where it cannot be."""
    deployments, actions = problem.moves.shape
    values = problem.values.reshape(deployments, problem.levels)
    unknown = problem.unknown.reshape(deployments, problem.levels)
    q = np.full((deployments, actions, problem.levels), np.inf)
    for here, action, level in np.ndindex(q.shape):
        after = problem.moves[here, action]
        if after < 0:
            continue
        known = problem.resources[after] + (MOVING if action else 0.0)
        q[here, action, level] = known + problem.chain[level] @ (
            unknown[after] + GAMMA * values[after]
        )
    return q


problems = st.builds(
    Problem,
    sizes=st.lists(st.integers(1, 4), min_size=1, max_size=3),
    levels=st.integers(1, 6),
    seed=st.integers(0, 1000),
)


@given(problem=problems)
def test_a_sweep_is_one_of_plain_value_iteration(problem):
    before = problem.values.copy()
    plain = sweep_plainly(problem).min(axis=1).ravel()

    change = problem.sweep()

    np.testing.assert_allclose(problem.values, plain)
    assert change == pytest.approx(np.abs(plain - before).max())


def test_joint_moves_change_every_operator_by_one_at_most():
    moves = list_moves([5, 5, 5])

    assert moves.shape == (125, 27)
    np.testing.assert_array_equal(moves[:, 0], np.arange(125))
    assert (moves >= 0).sum() == 13**3  # 3 choices inside, 2 at either end, per operator
    assert set(moves[0][moves[0] >= 0]) == {0, 1, 5, 6, 25, 26, 30, 31}


def test_counting_a_path_estimates_its_chain():
    path = np.random.default_rng(3).integers(0, 5, 400)
    counted, left = np.zeros(36), np.zeros(6)
    first, last = np.zeros(6, np.int64), np.zeros(6, np.int64)
    begin_chain(counted, left, first, last)

    for before, after in pairwise(path):
        count_transition(counted, left, first, last, int(before), int(after))

    learned = (counted.reshape(6, 6) / left).T
    np.testing.assert_allclose(learned.sum(axis=1), 1)
    np.testing.assert_allclose(learned, estimate_chain(path, number=6), atol=0.02)
    assert learned[5, 5] == 1  # a level that was never seen stays
    assert all(counted.reshape(6, 6)[level, : first[level]].sum() == 0 for level in range(6))
    assert all(counted.reshape(6, 6)[level, last[level] + 1 :].sum() == 0 for level in range(6))


@pytest.mark.parametrize(("rate", "level"), [(0, 0), (24, 0), (26, 1), (475, 10), (9000, 10)])
def test_a_rate_belongs_to_the_nearest_level(rate, level):
    assert nearest_level(float(rate), 50.0, 11) == level


def test_an_unknown_cost_moves_by_alpha():
    unknown = np.array([0.0, 0.4])

    learn_cost(unknown, 0, 0.4, 0.1)

    np.testing.assert_allclose(unknown, [0.04, 0.4])


@given(
    updates=st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 4), st.sampled_from([0.0, 0.4])), max_size=30
    )
)
def test_repaired_estimates_fall_with_replicas_and_rise_with_the_rate(updates):
    unknown = np.zeros(20)

    for size, level, cost in updates:
        learn_cost(unknown, size * 5 + level, cost, 0.1)
        repair(unknown, 4, 5, size, level)

    table = unknown.reshape(4, 5)
    assert (np.diff(table, axis=0) <= 0).all()
    assert (np.diff(table, axis=1) >= 0).all()


def test_the_papers_joint_plans_are_not_refused_and_a_fifth_operator_is():
    refuse_large_plans([5, 5, 5, 5], levels=52, policy="mdp")

    with pytest.raises(ParameterError, match=r"mdp with centralised = 1 .* give centralised = 0"):
        refuse_large_plans([5, 5, 5, 5, 5], levels=52, policy="mdp")


def test_more_than_a_million_states_are_refused():
    with pytest.raises(ParameterError, match=r"mdp-rl would need 2,000,000 states.*maxReplicas"):
        refuse_large_plans([200], levels=10_000, policy="mdp-rl")
