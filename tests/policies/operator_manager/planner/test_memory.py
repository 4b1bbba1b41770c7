"""What planners keep of their operators, and the workspace of all of a process."""

import math

import numpy as np
import pytest

from weir_policies import registry
from weir_policies.kernels.policy import KernelPolicy
from weir_policies.kernels.view import OperatorView, empty_view, with_workspaces
from weir_policies.model.node_types import Deployment, NodeType
from weir_policies.operator_manager.planner.state import PlannerMemory
from weir_policies.testing import a_model, a_transition, an_observation

SIZES = tuple(
    NodeType(
        name=f"p{pool}/{size}", pool=f"p{pool}/{size}", speedup=speed, price=speed * (1 + pool / 50)
    )
    for pool in range(3)
    for size, speed in enumerate((0.3 + pool / 10, 0.7 + pool / 10))
)
MANY_POINTS = a_model(node_types=SIZES, max_replicas=40)


def a_planner():
    policy = registry.build("planner", rng=np.random.default_rng(1))
    assert isinstance(policy, KernelPolicy)
    return policy


def intervals(count, *, mean=100.0, **changes):
    for place in range(count):
        rate = mean * (1 + 0.5 * math.sin(place / 20))
        now = {"time": 60.0 * place, "time_of_week": place / 10_080}
        yield an_observation(rate=rate, **now, **changes)


def live(policy, observations, *, between=lambda: None):
    """Decide and learn interval by interval; return the decisions."""
    decisions, before = [], None
    for observation in observations:
        if before is not None:
            policy.learn(a_transition(before, observation))
            between()
        decisions.append(policy.decide(observation))
        between()
        before = observation
    return decisions


def shared_workspace():
    algorithm = registry.define("planner")
    assert algorithm is not None
    view = OperatorView.empty(1, 1, workspace_words=algorithm.workspace_words).view
    return view.workspace[0]


def test_what_others_leave_in_the_shared_workspace_means_nothing():
    policy, alone = a_planner(), a_planner()

    decisions = live(policy, intervals(130), between=lambda: shared_workspace()[1:].fill(-1))

    assert repr(decisions) == repr(live(alone, intervals(130)))
    assert policy.state_dict() == alone.state_dict()


def test_a_planner_of_a_controller_decides_as_one_of_a_simulation(monkeypatch):
    decisions = live(a_planner(), intervals(600))

    def with_own_workspace(node_types, max_replicas, *, workspace_words):
        view = empty_view(operators=1, node_types=node_types, max_replicas=max_replicas)
        return OperatorView(with_workspaces(view, workspace_words))

    monkeypatch.setattr(OperatorView, "empty", with_own_workspace)

    assert repr(live(a_planner(), intervals(600))) == repr(decisions)


@pytest.mark.parametrize(
    ("model", "mean", "points", "kib"),
    [(a_model(), 100.0, 5, 250), (MANY_POINTS, 800.0, 30, 400)],
    ids=["of few points", "of as many as there may be"],
)
def test_a_planner_takes_little_memory(model, mean, points, kib):
    policy = a_planner()

    two = Deployment((0, 2) + (0,) * (len(model.node_types) - 2))
    live(policy, intervals(500, mean=mean, model=model, deployment=two))

    assert policy._state is not None
    memory = policy._state.memory
    assert PlannerMemory(memory[0]).plans > 0
    assert PlannerMemory(memory[0]).front_used >= points
    pages = np.pad(memory.view(np.uint8)[0], (0, -memory.nbytes % 4096)).reshape(-1, 4096)
    assert pages.any(axis=1).sum() * 4 < kib
