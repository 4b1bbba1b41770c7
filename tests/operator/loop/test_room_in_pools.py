"""A proposal is cut to what the other operators leave of a pool."""

from dataclasses import replace

import pytest

from weir_operator.loop.proposals import Proposal, cut_all
from weir_policies.kernels.explaining import explain_rule
from weir_policies.model.node_types import Deployment
from weir_policies.policy import ChangeKind
from weir_policies.testing import LARGE, WIDE, a_model, an_observation

SMALL = replace(WIDE, pool_limit=8)
SMALL_AND_LARGE = (SMALL, LARGE)


def seeing(*counts, types=SMALL_AND_LARGE):
    return an_observation(model=a_model(node_types=types), deployment=Deployment(counts))


def wanting(seen, *target, urgency=1.0):
    decision = explain_rule(seen, Deployment(target), "more")
    return Proposal(observation=seen, decision=replace(decision, urgency=urgency))


def cut_one(now, target, others, splits=float("nan")):
    """Return what is left of a proposal where another operator holds some of its pools."""
    seen = seeing(*now)
    wishes = {"enrich": wanting(seen, *target)}
    observations = {"enrich": seen, "source": seeing(*others)}
    return cut_all(wishes, observations, {"enrich": splits})["enrich"]


@pytest.mark.parametrize(
    ("now", "target", "others", "expected"),
    [
        pytest.param((4, 0), (8, 0), (1, 0), (7, 0), id="three are free, four are wanted"),
        pytest.param((4, 0), (7, 0), (1, 0), (7, 0), id="as many as are free"),
        pytest.param((4, 0), (8, 0), (4, 0), (4, 0), id="the pool is full"),
        pytest.param((4, 0), (2, 0), (4, 0), (2, 0), id="fewer replicas need no room"),
        pytest.param((2, 0), (9, 1), (4, 0), (4, 1), id="another pool has no limit"),
        pytest.param(
            (0, 2), (8, 0), (7, 0), (0, 2), id="the part would do less work than what runs"
        ),
    ],
)
def test_a_target_is_cut_to_what_other_operators_leave(now, target, others, expected):
    cut = cut_one(now, target, others)

    assert cut.decision.target == Deployment(expected)
    assert (cut.kind is ChangeKind.NOTHING) == (expected == now)


def test_a_cut_says_what_was_wanted_and_how_much_room_there_is():
    cut = cut_one((4, 0), (8, 0), (1, 0)).decision

    assert cut.reason.startswith(
        "Goes to 7 x small/1 instead of 8 x small/1, as there is room for only 3 more of pool small"
    )
    assert cut.urgency == 1.0
    assert cut.expectation == cut.candidates[0].expectation


def test_the_most_urgent_operator_gets_its_part_of_the_room_first():
    first, second = seeing(2, 0), seeing(2, 0)
    wishes = {
        "early": wanting(first, 5, 0, urgency=0.5),
        "late": wanting(second, 5, 0, urgency=0.9),
    }

    cut = cut_all(wishes, {"early": first, "late": second}, {})

    assert list(cut) == ["early", "late"]
    assert cut["late"].decision.target == Deployment((5, 0))
    assert cut["early"].decision.target == Deployment((3, 0))


def test_a_source_is_cut_to_its_splits_and_then_to_the_room():
    assert cut_one((1, 0), (8, 0), (5, 0), splits=4.0).decision.target == Deployment((3, 0))


def test_a_pool_without_a_limit_cuts_nothing():
    unlimited = (WIDE, LARGE)
    seen = seeing(4, 0, types=unlimited)
    wish = wanting(seen, 9, 0)

    cut = cut_all({"enrich": wish}, {"enrich": seen, "source": seeing(50, 0, types=unlimited)}, {})

    assert cut["enrich"] is wish
