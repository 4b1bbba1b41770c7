import gc
import json
import math
import zlib
from base64 import b64encode
from itertools import pairwise

import numpy as np
import pytest

from weir_policies import registry
from weir_policies.errors import StateError
from weir_policies.kernels.policy import KernelPolicy, pack_array, unpack_array
from weir_policies.kernels.table_storage import Workspaces
from weir_policies.operator_manager.planner.state import PlannerMemory, find_used
from weir_policies.policy import Decision
from weir_policies.testing import a_transition, an_observation


class Shelf:
    """A storage of ordinary arrays that counts its allocations."""

    def __init__(self):
        self.workspaces = Workspaces()
        self.allocations = []
        self.present = self.bytes = 0
        self.full = self.breaks = False

    def allocate(self, sizes):
        if self.full:
            raise MemoryError
        self.bytes += sum(sizes)
        allocation = ShelfAllocation(self, sizes)
        self.allocations.append(allocation)
        self.present += 1
        return allocation


class ShelfAllocation:
    def __init__(self, shelf, sizes):
        self._shelf = shelf
        self.arrays = [np.zeros(size, dtype=np.uint8) for size in sizes]
        self.asked = []

    def fill(self, contents):
        if self._shelf.breaks:
            raise MemoryError
        for array, content in zip(self.arrays, contents, strict=True):
            array[: content.size] = content

    def fetch_pages(self):
        self.asked.append("fetch_pages")

    def release_pages(self):
        self.asked.append("release_pages")

    def free(self):
        self._shelf.present -= 1
        self._shelf.bytes -= sum(array.nbytes for array in self.arrays)


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


def test_policies_that_share_a_workspace_do_not_see_each_other():
    shelf, policies, alone = Shelf(), [a_planner() for _ in range(3)], a_planner()
    for policy in policies:
        policy.keep_in(shelf)
    courses = [[an_observation(rate=rate, time=60.0 * place) for place in range(45)]
               for rate in (20, 300, 20)]  # fmt: skip

    decisions: list[list[Decision]] = [[], [], []]
    for place in range(45):
        for policy, course, decided in zip(policies, courses, decisions, strict=True):
            if place > 0:
                policy.learn(a_transition(course[place - 1], course[place]))
            decided.append(policy.decide(course[place]))

    assert decisions[0] == decisions[2] == live(alone, courses[0])
    assert policies[0].state_dict() == policies[2].state_dict() == alone.state_dict()


def test_what_a_policy_does_not_keep_may_be_anything():
    shelf, policy, alone = Shelf(), a_planner(), a_planner()
    policy.keep_in(shelf)
    observations = list(intervals(130))

    decisions, before = [], None
    for observation in observations:
        if before is not None:
            policy.learn(a_transition(before, observation))
        decisions.append(policy.decide(observation))
        spoil_rest(policy)
        before = observation

    assert decisions == live(alone, observations)


def spoil_rest(policy):
    """Overwrite the room to work in of a policy's memory."""
    row = policy._state.load()[0]
    fields = PlannerMemory.fields
    first, last = fields["link_to"], fields["of_point"]
    assert all(end <= first.offset or begin > last.offset for begin, end in find_used(row))
    row[first.offset : last.offset + last.words] = -1


def test_a_policy_without_room_for_more_goes_on_with_what_it_kept():
    shelf, policy = Shelf(), a_planner()
    policy.keep_in(shelf)
    observations = list(intervals(60))
    live(policy, observations[:15])
    kept = policy.state_dict()

    shelf.full = True
    with pytest.raises(MemoryError):
        live_on(policy, observations[14:])

    assert policy.state_dict()["shape"] == kept["shape"]
    shelf.full = False
    live_on(policy, observations[30:])


def test_a_policy_whose_new_place_cannot_be_written_gives_it_back():
    shelf, policy = Shelf(), a_planner()
    policy.keep_in(shelf)
    observations = list(intervals(60))
    live(policy, observations[:15])

    shelf.breaks = True
    with pytest.raises(MemoryError):
        live_on(policy, observations[14:])
    shelf.breaks = False

    assert shelf.present == 1
    live_on(policy, observations[30:])


def live_on(policy, observations):
    """Learn interval by interval."""
    for before, after in pairwise(observations):
        policy.learn(a_transition(before, after))


def test_a_policy_keeps_less_than_its_whole_memory():
    shelf, policy = Shelf(), a_planner()
    policy.keep_in(shelf)

    live(policy, intervals(45))

    assert policy._state is not None
    whole = policy._state.load().nbytes
    assert shelf.bytes < whole / 2
    policy = None
    gc.collect()
    assert shelf.bytes == 0


def test_a_policy_asks_before_it_writes_and_releases_its_pages_after_each_use():
    shelf, policy = Shelf(), a_planner()
    policy.keep_in(shelf)

    live(policy, intervals(2))

    assert shelf.allocations[0].asked == ["release_pages"] * 3


def test_a_policy_brings_its_tables_into_memory_when_it_is_about_to_decide():
    shelf, policy = Shelf(), a_planner()
    policy.keep_in(shelf)
    policy.fetch_tables()  # there are none yet
    live(policy, intervals(2))
    shelf.allocations[0].asked.clear()

    policy.fetch_tables()

    assert shelf.allocations[0].asked == ["fetch_pages"]


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


@pytest.mark.parametrize("damage", ["", "AAAA", b64encode(zlib.compress(b"abc")[:-2]).decode()])
def test_an_array_whose_bytes_are_damaged_is_refused(damage):
    packed = pack_array(np.ones((1, 2000))) | {"data": damage}

    with pytest.raises(StateError, match="compressed array"):
        unpack_array(packed)
