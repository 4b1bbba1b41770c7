"""The pieces that the 2018 systems share, against plain versions of them."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weir_policies.errors import ParameterError
from weir_policies.kernels.homogeneous import (
    HomogeneousPlan,
    count_transition,
    estimate_chain,
    fill_chain,
    learn_cost,
    list_moves,
    refuse_large_plans,
    repair,
    sweep,
)
from weir_policies.kernels.levels import nearest_level
from weir_policies.kernels.view import empty_view

GAMMA, MOVING = 0.9, 0.4


def a_plan(sizes=(1,), levels=1, **values):
    """Return a plan for operators of these sizes that has seen nothing."""
    moves = list_moves(sizes)
    [row] = HomogeneousPlan.allocate_rows(
        1,
        {
            "gamma": GAMMA,
            "node_types": 1,
            "axes": len(sizes),
            "levels": levels,
            "on_path": 0,
            "most_sizes": 0,
            "deployments": len(moves),
            "actions": moves.shape[1],
            "transitions": levels * levels,
            "states": len(moves) * levels,
            **values,
        },
    )
    own = HomogeneousPlan(row)
    own.sizes[:], own.moves[:] = sizes, moves
    fill_chain(own, np.eye(levels))
    return own


class Problem:
    """A random decision process, and the plan that a sweep works on."""

    def __init__(self, sizes, levels, seed):
        rng = np.random.default_rng(seed)
        self.own = a_plan(sizes, levels)
        self.chain = rng.dirichlet(np.ones(levels), size=levels) * (rng.random((levels, 1)) > 0.1)
        self.chain[self.chain.sum(axis=1) == 0, 0] = 1.0
        self.own.resources[:] = rng.random(self.own.resources.size)
        states = self.own.values.size
        self.own.unknown[:], self.own.values[:] = rng.random(states), rng.random(states)
        fill_chain(self.own, self.chain)


def sweep_plainly(problem):
    """Return Q of one sweep as the papers write it, `(d, a, l)`; `inf` where it cannot be."""
    own, levels = problem.own, len(problem.chain)
    deployments, actions = own.moves.shape
    values = own.values.reshape(deployments, levels)
    unknown = own.unknown.reshape(deployments, levels)
    q = np.full((deployments, actions, levels), np.inf)
    for here, action, level in np.ndindex(q.shape):
        after = own.moves[here, action]
        if after < 0:
            continue
        known = own.resources[after] + (MOVING if action else 0.0)
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
    view = empty_view(operators=1, node_types=1, max_replicas=1)
    view.model[0].weight_reconfiguration = MOVING
    before = problem.own.values.copy()
    plain = sweep_plainly(problem).min(axis=1).ravel()

    change = sweep(0, view, problem.own)

    np.testing.assert_allclose(problem.own.values, plain)
    assert change == pytest.approx(np.abs(plain - before).max())


def test_joint_moves_change_every_operator_by_one_at_most():
    moves = list_moves([5, 5, 5])

    assert moves.shape == (125, 27)
    np.testing.assert_array_equal(moves[:, 0], np.arange(125))
    assert (moves >= 0).sum() == 13**3  # 3 choices inside, 2 at either end, per operator
    assert set(moves[0][moves[0] >= 0]) == {0, 1, 5, 6, 25, 26, 30, 31}


def test_counting_a_path_estimates_its_chain():
    path = np.random.default_rng(3).integers(0, 5, 400)
    own = a_plan(levels=6)

    for before, after in pairwise(path):
        count_transition(own, int(before), int(after))

    counted = own.counted.reshape(6, 6)
    learned = (counted / own.left).T
    np.testing.assert_allclose(learned.sum(axis=1), 1)
    np.testing.assert_allclose(learned, estimate_chain(path, number=6), atol=0.02)
    assert learned[5, 5] == 1  # a level that was never seen stays
    assert all(counted[level, : own.first[level]].sum() == 0 for level in range(6))
    assert all(counted[level, own.last[level] + 1 :].sum() == 0 for level in range(6))


@pytest.mark.parametrize(("rate", "level"), [(0, 0), (24, 0), (26, 1), (475, 10), (9000, 10)])
def test_a_rate_belongs_to_the_nearest_level(rate, level):
    assert nearest_level(float(rate), 50.0, 11) == level


def test_an_unknown_cost_moves_by_alpha():
    own = a_plan(levels=2, alpha=0.1)
    own.unknown[:] = 0.0, 0.4

    learn_cost(own, 0, 0, 0.4)

    np.testing.assert_allclose(own.unknown, [0.04, 0.4])


@given(
    updates=st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 4), st.sampled_from([0.0, 0.4])), max_size=30
    )
)
def test_repaired_estimates_fall_with_replicas_and_rise_with_the_rate(updates):
    own = a_plan([4], levels=5, alpha=0.1)

    for size, level, cost in updates:
        learn_cost(own, size, level, cost)
        repair(own, size, level)

    table = own.unknown.reshape(4, 5)
    assert (np.diff(table, axis=0) <= 0).all()
    assert (np.diff(table, axis=1) >= 0).all()


def test_the_papers_joint_plans_are_not_refused_and_a_fifth_operator_is():
    refuse_large_plans([5, 5, 5, 5], levels=52, policy="mdp")

    with pytest.raises(ParameterError, match=r"mdp with centralised = 1 .* give centralised = 0"):
        refuse_large_plans([5, 5, 5, 5, 5], levels=52, policy="mdp")


def test_more_than_a_million_states_are_refused():
    with pytest.raises(ParameterError, match=r"mdp-rl would need 2,000,000 states.*maxReplicas"):
        refuse_large_plans([200], levels=10_000, policy="mdp-rl")
