"""`ql` and `ql-fa`: hand-computed updates, exploring, and a problem that both learn."""

import math

import numpy as np
import pytest

from tests.policies.operator_manager.learner import LESS, MORE, SETTINGS, STAY, Learner, at, live
from weir_policies import registry
from weir_policies.kernels.policy import fill_present
from weir_policies.model.node_types import Deployment, NodeType
from weir_policies.operator_manager.q_learning import QLearningMemory
from weir_policies.operator_manager.q_learning_linear import find_tile, value_of
from weir_policies.operator_manager.q_learning_pds import PdsMemory
from weir_policies.testing import a_model, a_transition, an_observation


def test_an_update_moves_the_action_taken_to_its_cost_and_what_follows():
    learner = Learner("ql", QLearningMemory)
    learner.learn(at(150.0, 1), at(50.0, 2), violation=1.0, resources=0.5, reconfiguration=1.0)

    learner.learn(at(50.0, 2), at(150.0, 1), resources=0.5, reconfiguration=1.0)

    # Alpha is 1 at first: weights 0.6, 0.2, 0.2, and nothing is known of what follows.
    assert learner.value(1, 1, MORE) == pytest.approx(0.6 + 0.1 + 0.2)
    assert learner.value(0, 2, LESS) == pytest.approx(0.1 + 0.2)
    assert learner.value(1, 1, STAY) == 0.0


def test_what_follows_counts_by_its_best_valid_action():
    learner = Learner("ql", QLearningMemory, gamma=0.5)
    for replicas in (1, 2):  # staying and adding, all that is valid with one replica
        learner.learn(at(50.0, 1), at(350.0, replicas), resources=replicas / 1.0)

    learner.learn(at(250.0, 1), at(50.0, 1))

    assert learner.value(2, 1, STAY) == pytest.approx(0.5 * 0.2)


@pytest.mark.parametrize(("name", "fields"), [("ql", QLearningMemory), ("ql-pds", PdsMemory)])
def test_an_interval_of_unknown_cost_teaches_nothing(name, fields):
    learner = Learner(name, fields)

    learner.learn(at(100.0, 1), at(100.0, 1), violation=math.nan)

    assert not np.isnan(learner.own.values).any()


def test_the_learning_rate_falls_after_ten_updates():
    learner = Learner("ql", QLearningMemory, gamma=0.0)
    for _ in range(10):
        learner.learn(at(50.0, 1), at(50.0, 1), violation=1.0)

    learner.learn(at(50.0, 1), at(50.0, 1))

    assert learner.value(0, 1, STAY) == pytest.approx((1 - 0.98) * 0.6)


@pytest.mark.parametrize("name", ["ql", "ql-fa"])
def test_a_jump_that_no_action_explains_teaches_nothing(name):
    learner = Learner(name, QLearningMemory)

    learner.learn(at(50.0, 1), at(50.0, 3), violation=1.0)

    assert not learner.own.values.any()


@pytest.mark.parametrize("name", ["ql", "ql-fa"])
def test_the_first_number_drawn_decides_whether_the_second_chooses(name):
    learner = Learner(name, QLearningMemory, least_epsilon=0.2)
    for _ in range(200):
        learner.learn(at(50.0, 2), at(50.0, 2), violation=1.0)
    fill_present(learner.view, at(50.0, 2))

    explored = {learner.decide(0.1, drawn) for drawn in (0.0, 0.34, 0.67, 0.99)}
    greedy = {learner.decide(0.3, drawn) for drawn in (0.0, 0.34, 0.67, 0.99)}

    assert explored == {1, 2, 3}
    assert len(greedy) == 1


@pytest.mark.parametrize("drawn", [0.0, 0.25, 0.5, 0.75, 0.999])
def test_what_is_tried_at_random_is_never_out_of_bounds(drawn):
    learner = Learner("ql", QLearningMemory)  # epsilon is 1 before anything was learned
    fill_present(learner.view, at(50.0, 1))
    lowest = learner.decide(0.5, drawn)
    fill_present(learner.view, at(50.0, 4))

    highest = learner.decide(0.5, drawn)

    assert lowest in {1, 2}
    assert highest in {3, 4}


def test_ql_learns_how_many_replicas_a_steady_rate_needs():
    policy = registry.build(
        "ql",
        rng=np.random.default_rng(7),
        parameters={**SETTINGS, "least_epsilon": 0.0, "gamma": 0.9},
    )

    sizes = live(policy, [230.0] * 3000)

    assert sizes[-100:] == [3] * 100


def test_ql_fa_learns_that_too_few_replicas_are_dear():
    policy = registry.build(
        "ql-fa", rng=np.random.default_rng(7), parameters={**SETTINGS, "least_epsilon": 0.0}
    )

    sizes = live(policy, [230.0] * 3000)

    assert np.mean(np.array(sizes[-500:]) >= 3) > 0.9


def test_ql_fa_spreads_what_it_learned_over_neighbouring_levels():
    learner = Learner("ql-fa", QLearningMemory, levels=30, max_rate=3000.0)

    learner.learn(at(350.0, 2), at(350.0, 2), violation=1.0)

    here, beside, far = (
        value_of(0, learner.view, learner.own, 0, 0, 0, level) for level in (3, 4, 25)
    )
    assert here == pytest.approx(3 * 0.6)  # every one of the active weights takes the whole error
    assert 0 < beside < here
    assert far == 0


@pytest.mark.parametrize(
    ("level", "tile"), [(0, 0), (2, 0), (3, 1), (4, 1), (5, 2), (28, 13), (29, 14)]
)
def test_tiles_are_two_levels_wide(level, tile):
    assert find_tile(float(level), 0.0, 30.0, 15) == tile


@pytest.mark.parametrize(("level", "tile"), [(0, 0), (1, 0), (2, 1), (29, 14)])
def test_the_second_tiling_is_shifted_by_a_level(level, tile):
    assert find_tile(float(level), -1.0, 31.0, 15) == tile


def test_many_node_types_need_no_full_table():
    types = tuple(
        NodeType(name=f"t{each}", pool=f"t{each}", speedup=1.0 + each / 10, price=1.0)
        for each in range(10)
    )
    model = a_model(node_types=types, max_replicas=20)
    policy = registry.build("ql", rng=np.random.default_rng(7), parameters=SETTINGS)
    seen = an_observation(model=model, deployment=Deployment((1,) + (0,) * 9))

    policy.learn(a_transition(seen, seen))

    assert policy.decide(seen).reason
