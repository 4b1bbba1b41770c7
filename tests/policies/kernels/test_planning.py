from __future__ import annotations

import itertools

import numpy as np
import pytest

from tests.policies.views import view_of
from weir_policies import registry
from weir_policies.errors import ParameterError
from weir_policies.kernels.levels import LearningParameters
from weir_policies.kernels.planning import Plan, count_transition, find_best, new_plan, sweep
from weir_policies.kernels.ranking import count_deployments, list_deployments, number_of
from weir_policies.kernels.steps import choose_action
from weir_policies.model.node_types import Deployment, NodeType
from weir_policies.testing import a_model, an_observation

TYPES = (
    NodeType(name="slow", pool="slow", speedup=1.0, price=0.4),
    NodeType(name="fast", pool="fast", speedup=2.0, price=1.0),
)
LEVELS = 3
VIOLATES = {1: (1, 1, 1), 2: (0, 1, 1), 3: (0, 0, 1), 4: (0, 0, 0)}
"""Whether so much speed violates at each level."""


@pytest.mark.parametrize(("types", "most"), [(1, 1), (1, 9), (2, 4), (3, 5), (4, 3)])
def test_deployments_are_numbered_in_the_order_they_are_listed(types, most):
    listed = list_deployments(types, most)

    assert [number_of(counts, most) for counts in listed] == list(range(len(listed)))
    assert len(listed) == count_deployments(types, most)
    assert ((listed.sum(axis=1) >= 1) & (listed.sum(axis=1) <= most)).all()
    assert len({tuple(counts) for counts in listed}) == len(listed)


@pytest.mark.parametrize("name", ["value-iteration", "model-based"])
def test_more_than_a_million_states_are_refused_with_what_to_change(name):
    types = tuple(
        NodeType(name=f"t{each}", pool=f"t{each}", speedup=1.0, price=1.0) for each in range(10)
    )
    policy = registry.build(name, rng=np.random.default_rng(7))
    observation = an_observation(
        model=a_model(node_types=types), deployment=Deployment((1,) + (0,) * 9)
    )

    with pytest.raises(ParameterError, match=rf"{name}, got 5,542,650: .*node types.*levels"):
        policy.decide(observation)


def plan():
    """Return a plan of two node types and at most two replicas, with transitions counted."""
    model = a_model(node_types=TYPES, max_replicas=2)
    view = view_of(an_observation(model=model, deployment=Deployment((1, 0))))
    memory = new_plan(
        Plan,
        view,
        LearningParameters(levels=LEVELS, max_rate=50.0 * LEVELS, gamma=0.9),
        policy="plan",
        unseen_stay=True,
    )
    own = Plan(memory[0])
    for before, after, times in [(0, 1, 3), (1, 2, 1), (1, 0, 2), (2, 2, 4), (2, 0, 1)]:
        for _ in range(times):
            count_transition(own, before, after)
    deployments = list_deployments(2, 2)
    violations = [VIOLATES[int(counts @ [1, 2])] for counts in deployments]
    own.violations[:] = violations
    return view, own


def solve_slowly():
    """Return the least expected cost of every (deployment, level), by plain value iteration."""
    transitions = np.array([[1.0, 3, 0], [2, 1, 1], [1, 0, 5]])
    transitions /= transitions.sum(axis=1, keepdims=True)
    deployments = [tuple(map(int, counts)) for counts in list_deployments(2, 2)]
    values = {state: 0.0 for state in itertools.product(deployments, range(LEVELS))}
    after: dict[tuple[tuple[int, ...], int], float] = {}
    for _ in range(400):
        after = {
            (there, level): sum(
                transitions[level, following]
                * (
                    0.6 * VIOLATES[there[0] + 2 * there[1]][following]
                    + 0.9 * values[there, following]
                )
                for following in range(LEVELS)
            )
            for there, level in values
        }
        values = {
            (here, level): min(known(here, there) + after[there, level] for there in reach(here))
            for here, level in values
        }
    return deployments, after


def known(here, there):
    return 0.2 * (here != there) + 0.2 * (there[0] * 0.4 + there[1] * 1.0) / (2 * 1.0)


def reach(here):
    moves = [(0, 0), (-1, 0), (0, -1), (1, 0), (0, 1)]
    targets = [(here[0] + one, here[1] + other) for one, other in moves]
    return [there for there in targets if min(there) >= 0 and 1 <= sum(there) <= 2]


def test_sweeps_end_at_the_values_that_plain_value_iteration_finds():
    view, own = plan()
    deployments, expected = solve_slowly()

    changes = [sweep(0, view, own) for _ in range(300)]

    wanted = [[expected[there, level] for level in range(LEVELS)] for there in deployments]
    np.testing.assert_allclose(own.values, wanted, rtol=1e-9)
    assert changes[-1] < 1e-9 < changes[0]


@pytest.mark.parametrize("here", [(1, 0), (0, 1), (2, 0), (1, 1), (0, 2)])
@pytest.mark.parametrize("level", range(LEVELS))
def test_the_best_action_is_the_one_that_plain_value_iteration_takes(here, level):
    view, own = plan()
    _, expected = solve_slowly()
    for _ in range(300):
        sweep(0, view, own)
    view.counts[0] = here

    choose_action(0, view, find_best(0, view, own, level))

    costs = {there: known(here, there) + expected[there, level] for there in reach(here)}
    assert costs[tuple(view.target[0])] == pytest.approx(min(costs.values()))
