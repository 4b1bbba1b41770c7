"""The world of the 2018 MDP paper, against what the paper says and what can be worked out."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.mdp18 import (
    MOVING,
    QUEUES,
    RESOURCES,
    SERVICE_RATES,
    SLOTS,
    VIOLATED,
    Controller,
    Form,
    Kind,
    Reading,
    judge_application,
    judge_utilisation,
    run_year,
    walk,
)
from benchmarks.reproduce_mdp18 import TABLE_1

STEADY = np.eye(12)


@pytest.mark.parametrize("row", TABLE_1)
def test_published_costs_are_made_of_the_published_counts(row):
    _, published = TABLE_1[row]

    cost = RESOURCES * published.instances / 15
    cost += MOVING * published.reconfigurations / SLOTS + VIOLATED * published.violations / SLOTS

    assert f"{cost:.3f}" == f"{published.cost:.3f}"


def test_the_bound_as_printed_cannot_be_kept():
    assert (1 / SERVICE_RATES[:3]).sum() == pytest.approx(0.943, abs=1e-3)
    assert judge_application(3, 52, Reading(Form.SUM, 0.65)).all()


def test_both_readings_call_nearly_the_same_states_violated():
    by_mean = judge_application(3, 52, Reading())
    by_queues = judge_application(3, 52, QUEUES)

    assert 0 < (by_mean != by_queues).mean() < 0.01


def test_a_deployments_number_has_the_first_operator_as_its_fastest_digit():
    violated = judge_application(2, 52, Reading())

    # Rate 5/s: operator 1 needs 2 replicas of 3.7/s, operator 2 needs 2 of 3.3/s.
    assert violated[0, 15]
    assert violated[4, 15]  # five of operator 1, one of operator 2: it is the second that is short
    assert violated[20, 15]
    assert not violated[24, 15]


def test_utilisation_is_judged_per_operator():
    violated = judge_utilisation(3, 52, 0.7)

    # Level 9 is 3/s: 0.405, 0.455 and 0.556 of two replicas, all of one.
    assert violated[:, 0, 9].all()
    assert not violated[:, 1, 9].any()


@pytest.mark.parametrize("kind", Kind)
@pytest.mark.parametrize("bound", [None, 0.7])
def test_at_a_steady_rate_every_controller_settles_at_the_fewest_replicas(kind, bound):
    path = np.full(SLOTS + 1, 9)

    year = run_year(Controller(kind, bound), path, STEADY, 2, Reading())

    # 3/s is too much for one replica of either operator, and two of each are enough.
    assert year.instances == pytest.approx(4, abs=0.01)
    assert year.reconfigurations < 200
    assert year.cost == pytest.approx(RESOURCES * 4 / 10, rel=0.01)
    assert year.so_far[-1] == pytest.approx(year.cost)


def test_unknown_costs_per_action_settle_there_as_well():
    path = np.full(SLOTS + 1, 9)
    controller = Controller(Kind.ALL_UNKNOWN, 0.7, per_action=True)

    year = run_year(controller, path, STEADY, 2, Reading())

    assert year.instances == pytest.approx(4, abs=0.01)


def test_the_same_seed_walks_the_same_path_along_the_chain():
    chain = np.array([[0.0, 1.0, 0.0], [0.5, 0.0, 0.5], [0.0, 1.0, 0.0]])

    path = walk(chain, 1, seed=4)

    np.testing.assert_array_equal(path, walk(chain, 1, seed=4))
    assert path[0] == 1
    assert (np.abs(np.diff(path)) == 1).all()
    assert (path == 0).mean() == pytest.approx(0.25, abs=0.01)
