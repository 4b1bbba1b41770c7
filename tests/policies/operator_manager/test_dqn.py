from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest

from tests.policies.views import view_of
from weir_policies import registry
from weir_policies.deep.memory import draw_due, remember
from weir_policies.deep.network import to_arrays
from weir_policies.deep.parameters import DeepParameters
from weir_policies.deep.replay import Batch, draw_batch, empty_replay, push
from weir_policies.errors import MissingExtraError, StateError
from weir_policies.kernels.policy import fill_interval
from weir_policies.model.node_types import Deployment, NodeType
from weir_policies.operator_manager import dqn, dqn_pds
from weir_policies.policy import CostParts, CostWeights, Transition
from weir_policies.testing import a_model, an_observation

SLOW = NodeType(name="slow", pool="slow", speedup=1.0, price=1.0)
FAST = NodeType(name="fast", pool="fast", speedup=2.0, price=3.0)
MODEL = a_model(node_types=(SLOW, FAST), max_replicas=2, keyed=True)
"""100 records/s per replica of speedup 1; actions: stay, - slow, - fast, + slow, + fast."""
SETTINGS = {"levels": 4, "max_rate": 400}


def seen(counts, rate, **changes):
    return an_observation(
        model=MODEL,
        deployment=Deployment(counts),
        rate=rate,
        weights=CostWeights(violation=0.6, resources=0.2, reconfiguration=0.2),
        **changes,
    )


def an_interval(before, after, *, violation=0.0):
    moved = before.deployment != after.deployment
    return Transition(
        observation=before,
        proposed=after.deployment,
        enacted=after.deployment,
        cost=CostParts(violation=violation, resources=0.5, reconfiguration=float(moved)),
        next_observation=after,
    )


def prepared(name, view, **parameters):
    """Return an algorithm and a memory whose network answers 0 to everything."""
    algorithm = registry.define_deep(name, SETTINGS | parameters)
    assert algorithm is not None
    memory = algorithm.prepare(view, (np.random.default_rng(1),))
    weights, _ = to_arrays(memory.network)
    for layer in weights:
        layer[:] = 0
    return algorithm, memory


def answers_of(memory, outputs):
    """Let the network answer the same to everything."""
    _, biases = to_arrays(memory.network)
    biases[-1][0, 0] = outputs


def one_item(before, after, levels, *, action, cost):
    return Batch(
        before=np.array([[before]]),
        after=np.array([[after]]),
        level_before=np.array([[levels[0]]]),
        level_after=np.array([[levels[1]]]),
        actions=np.array([[action]]),
        costs=np.array([[cost]]),
    )


def test_the_buffer_overwrites_what_is_oldest():
    view = view_of(seen((1, 0), 50.0))
    _, memory = prepared("dqn", view, memory=3, batch=2)
    for rate in (50.0, 150.0, 250.0, 350.0):
        fill_interval(view, an_interval(seen((1, 0), rate), seen((1, 0), rate)))
        remember(memory, view, np.array([rate]))

    batch = draw_batch(memory.replay, 3, 3, memory.rngs)

    assert sorted(batch.level_before[0]) == [1, 2, 3]
    assert sorted(batch.costs[0]) == [150.0, 250.0, 350.0]


def test_an_interval_is_remembered_with_its_states_action_and_cost():
    view = view_of(seen((1, 0), 50.0))
    fill_interval(view, an_interval(seen((1, 0), 50.0), seen((1, 1), 350.0)))
    replay = empty_replay(runs=1, node_types=2, capacity=4)

    explained = push(view, replay, 0, np.array([100.0]), 4, np.array([0.3]))
    batch = draw_batch(replay, 1, 1, (np.random.default_rng(1),))

    assert explained
    assert [part[0, 0].tolist() for part in batch] == [[1, 0], [1, 1], 0, 3, 4, 0.3]


def test_drawn_intervals_are_different_and_only_those_that_are_held():
    replay = empty_replay(runs=2, node_types=2, capacity=100)
    replay.costs[:] = np.arange(100)

    batch = draw_batch(replay, 40, 32, (np.random.default_rng(1), np.random.default_rng(2)))

    assert [len(set(run)) for run in batch.costs.tolist()] == [32, 32]
    assert batch.costs.max() < 40
    assert batch.costs[0].tolist() != batch.costs[1].tolist()


def test_a_jump_that_no_action_explains_is_not_remembered():
    view = view_of(seen((1, 0), 50.0))
    _, memory = prepared("dqn", view)
    fill_interval(view, an_interval(seen((1, 0), 50.0), seen((0, 2), 50.0)))

    assert not remember(memory, view, np.array([0.1]))
    assert memory.learned == 0


def test_a_step_is_due_at_every_fifth_interval_once_a_batch_is_held():
    view = view_of(seen((1, 0), 50.0))
    algorithm, memory = prepared("dqn", view, batch=7)
    due = []
    for _ in range(20):
        fill_interval(view, an_interval(seen((1, 0), 50.0), seen((1, 0), 50.0)))
        remember(memory, view, np.array([0.1]))
        if draw_due(memory, algorithm.parameters) is not None:
            due.append(memory.learned)

    assert due == [10, 15, 20]


@pytest.mark.parametrize(("published", "least"), [(0, 0.5), (1, -3.0)])
def test_the_target_takes_the_valid_actions_only_unless_as_published(published, least):
    view = view_of(seen((1, 0), 50.0))
    _, memory = prepared("dqn", view, published=published)
    parameters = dqn.DqnParameters(published=published)
    answers_of(memory, [0.5, -3.0, -3.0, 0.6, 0.7])  # both removals lead to what cannot be
    batch = one_item((1, 1), (1, 0), (0, 0), action=2, cost=0.4)

    aims = dqn.find_aims(parameters, view, memory, batch)

    assert aims[0, 0] == pytest.approx(0.4 + 0.99 * least)


def test_dqn_learns_from_the_whole_cost():
    view = view_of(seen((1, 0), 50.0))
    algorithm, memory = prepared("dqn", view)
    fill_interval(view, an_interval(seen((1, 0), 50.0), seen((1, 1), 50.0), violation=1.0))

    algorithm.learn(view, memory)

    assert memory.replay.costs[0, 0] == pytest.approx(0.6 + 0.2 * 0.5 + 0.2)


def test_dqn_pds_learns_from_the_violation_alone():
    view = view_of(seen((1, 0), 50.0))
    algorithm, memory = prepared("dqn-pds", view)
    fill_interval(view, an_interval(seen((1, 0), 50.0), seen((1, 1), 50.0), violation=1.0))

    algorithm.learn(view, memory)

    assert memory.replay.costs[0, 0] == pytest.approx(0.6)


def test_what_dqn_pds_knows_of_an_action_is_its_resources_and_the_reconfiguration():
    view = view_of(seen((1, 0), 50.0))
    _, memory = prepared("dqn-pds", view)
    answers_of(memory, [0.25])

    scores = dqn_pds.score_actions(
        False, view, memory, np.array([[[1, 0]]]), np.zeros((1, 1), dtype=np.int64)
    )

    maximum = 2 * 3.0  # two replicas of the dearest type
    assert scores[0, 0].tolist() == pytest.approx(
        [
            0.25 + 0.2 * 1 / maximum,
            np.inf,
            np.inf,
            0.25 + 0.2 * 2 / maximum + 0.2,
            0.25 + 0.2 * 4 / maximum + 0.2,
        ]
    )


def test_dqn_pds_plus_adds_a_violation_where_the_model_expects_one_and_takes_it_from_the_aim():
    view = view_of(seen((1, 0), 50.0))
    _, memory = prepared("dqn-pds-plus", view)
    # 150 records/s, the middle of level 1, are too much for one slow replica, not for two.
    batch = one_item((1, 1), (1, 0), (1, 1), action=2, cost=0.6)
    plain, plus = (
        dqn_pds.score_actions(estimates, view, memory, batch.after, batch.level_after)[0, 0]
        for estimates in (False, True)
    )

    aims = dqn_pds.find_aims(DeepParameters(), True, view, memory, batch)

    valid = [0, 3, 4]
    assert (plus[valid] - plain[valid]).tolist() == pytest.approx([0.6, 0.0, 0.0])
    assert aims[0, 0] == pytest.approx(0.6 - 0.6 + 0.99 * plus.min())


def decisions(policy, count):
    here = seen((1, 1), 50.0)
    targets = []
    for _ in range(count):
        targets.append(policy.decide(here).target.counts)
        policy.learn(an_interval(here, here))
    return targets


def test_dqn_explores_at_first_and_then_hardly_ever():
    policy = registry.build(
        "dqn", rng=np.random.default_rng(2), parameters=SETTINGS | {"learning_rate": 0}
    )

    early, late = decisions(policy, 20), decisions(policy, 300)[200:]

    assert set(early) == {(1, 1), (0, 1), (1, 0)}
    assert max(late.count(target) for target in set(late)) >= 97


def test_dqn_pds_never_explores():
    policy = registry.build(
        "dqn-pds", rng=np.random.default_rng(2), parameters=SETTINGS | {"learning_rate": 0}
    )

    assert len(set(decisions(policy, 30))) == 1


@pytest.mark.parametrize("name", ["dqn", "dqn-pds", "dqn-pds-plus"])
def test_a_deployment_that_violations_follow_is_left(name):
    broad = SETTINGS | {"hidden_layers": 1, "hidden_ratio": 4}
    policy = registry.build(name, rng=np.random.default_rng(3), parameters=broad)
    here = seen((1, 0), 95.0)
    visited = []
    for _ in range(800):
        there = seen(policy.decide(here).target.counts, 95.0)
        violation = float(there.deployment.counts == (1, 0))
        policy.learn(an_interval(here, there, violation=violation))
        here = there
        visited.append(here.deployment.counts)

    assert visited[-200:].count((1, 0)) <= 4


@pytest.mark.parametrize("lost", [np.nan, -np.inf])
@pytest.mark.parametrize("name", ["dqn", "dqn-pds", "dqn-pds-plus"])
def test_a_network_that_diverged_begins_again_and_the_others_go_on(name, lost):
    one = view_of(seen((1, 0), 50.0))
    view = one._replace(**{name: np.repeat(row, 2, axis=0) for name, row in one._asdict().items()})
    algorithm = registry.define_deep(name, SETTINGS | {"batch": 2, "fit_every": 2})
    assert algorithm is not None
    memory = algorithm.prepare(view, (np.random.default_rng(1), np.random.default_rng(2)))
    weights, _ = to_arrays(memory.network)
    for layer in weights:
        layer[0] = lost
    sound = weights[1][1].copy()

    for _ in range(2):
        view.counts_before[:] = view.counts
        before: Any = view.before
        before[:] = view.seen
        algorithm.learn(view, memory)

    assert all(np.isfinite(layer).all() for layer in weights)
    assert weights[1][1] == pytest.approx(sound, abs=0.1)


def test_state_of_another_network_is_refused():
    small = registry.build("dqn-pds", rng=np.random.default_rng(2), parameters=SETTINGS)
    decisions(small, 3)
    deeper = registry.build(
        "dqn-pds", rng=np.random.default_rng(2), parameters=SETTINGS | {"encoding": "minimal"}
    )

    with pytest.raises(StateError, match=r"Expected a network of \(3, 2, 2, 2, 1\) neurons"):
        deeper.load_state_dict(small.state_dict())


def test_without_torch_the_extra_is_named(monkeypatch):
    def fail(name):
        raise ModuleNotFoundError("No module named 'torch'", name="torch")

    monkeypatch.setattr(importlib, "import_module", fail)

    with pytest.raises(MissingExtraError, match=r"policy dqn.*pip install 'weir-flink\[tune\]'"):
        registry.build("dqn", rng=np.random.default_rng(1))
