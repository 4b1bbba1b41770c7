"""A policy's tables may be kept elsewhere: what it learns and decides is the same."""

import gc
import json
import math

import numpy as np
import pytest

from weir_policies import registry
from weir_policies.errors import StateError
from weir_policies.kernels.policy import KernelPolicy, pack_array, unpack_array
from weir_policies.testing import a_transition, an_observation


class Shelf:
    """A storage of ordinary arrays that counts its allocations."""

    def __init__(self):
        self.allocations = []
        self.present = 0

    def allocate(self, sizes):
        allocation = ShelfAllocation(self, sizes)
        self.allocations.append(allocation)
        self.present += 1
        return allocation


class ShelfAllocation:
    def __init__(self, shelf, sizes):
        self._shelf = shelf
        self.arrays = [np.zeros(size, dtype=np.uint8) for size in sizes]
        self.asked = []

    def release_pages(self):
        self.asked.append("release_pages")

    def free(self):
        self._shelf.present -= 1


def a_planner():
    policy = registry.build("planner", rng=np.random.default_rng(1))
    assert isinstance(policy, KernelPolicy)
    return policy


def intervals(count):
    for place in range(count):
        rate = 100 * (1 + 0.5 * math.sin(place / 20))
        yield an_observation(rate=rate, time=60.0 * place, time_of_week=place / 10_080)


def live(policy, observations):
    """Decide and learn interval by interval; return the decisions."""
    decisions, before = [], None
    for observation in observations:
        if before is not None:
            policy.learn(a_transition(before, observation))
        decisions.append(policy.decide(observation))
        before = observation
    return decisions


def test_a_policy_in_a_room_decides_and_learns_as_one_in_memory():
    at_home, away = a_planner(), a_planner()
    away.keep_in(Shelf())

    decisions = [live(policy, intervals(45)) for policy in (at_home, away)]

    assert decisions[0] == decisions[1]
    assert at_home.state_dict() == away.state_dict()


def test_a_policy_moves_in_with_what_it_has_learned():
    stays, moves = a_planner(), a_planner()
    observations = list(intervals(50))
    for policy in (stays, moves):
        live(policy, observations[:25])

    moves.keep_in(Shelf())

    assert live(moves, observations[25:]) == live(stays, observations[25:])
    assert moves.state_dict() == stays.state_dict()


def test_a_policy_asks_before_it_writes_and_releases_its_pages_after_each_use():
    shelf, policy = Shelf(), a_planner()
    policy.keep_in(shelf)

    live(policy, intervals(2))

    assert shelf.allocations[0].asked == ["release_pages"] * 3


def test_a_policy_that_is_gone_leaves_its_place():
    shelf, policy = Shelf(), a_planner()
    policy.keep_in(shelf)
    policy.decide(an_observation())

    del policy
    gc.collect()

    assert shelf.present == 0


def test_a_policy_that_begins_again_leaves_its_old_place():
    shelf, policy = Shelf(), a_planner()
    untaught = policy.state_dict()
    policy.keep_in(shelf)
    policy.decide(an_observation())

    policy.load_state_dict(untaught)
    gc.collect()

    assert shelf.present == 0


@pytest.mark.parametrize("numbers", [0, 1, 511, 512, 513, 5000])
def test_an_array_comes_out_as_it_went_in(numbers):
    array = np.zeros((1, numbers))
    array[:, ::1500] = math.nan
    array[:, 1::1500] = -0.0

    unpacked = unpack_array(json.loads(json.dumps(pack_array(array))))

    assert unpacked.tobytes() == array.tobytes()
    assert unpacked.shape == array.shape


def test_an_array_whose_bytes_do_not_fill_its_pages_is_refused():
    packed = pack_array(np.ones((1, 2000))) | {"used": [[0, 4096]]}

    with pytest.raises(StateError, match=r"\[1, 2000\]"):
        unpack_array(packed)
