"""The experiment of the 2018 MDP paper, against what the paper says and what can be worked out."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.papers.reproduce_mdp18 import (
    CENTRALISED,
    MOVING,
    RESOURCES,
    SERVICE_RATES,
    SLOTS,
    TABLE_1,
    VIOLATED,
    Controller,
    describe,
    run_year,
    walk,
)

SHORT = 20_000
"""Slots."""


@pytest.fixture
def steady(tmp_path):
    """Return a trace of 3 tuples/s: too much for one replica, enough for two of any operator."""
    path = tmp_path / "steady.txt"
    path.write_text("3\n" * SHORT)
    return path


@pytest.mark.parametrize("row", TABLE_1)
def test_published_costs_are_made_of_the_published_counts(row):
    _, published = TABLE_1[row]

    cost = RESOURCES * published.instances / 15
    cost += MOVING * published.reconfigurations / SLOTS + VIOLATED * published.violations / SLOTS

    assert f"{cost:.3f}" == f"{published.cost:.3f}"


def test_the_bound_as_printed_cannot_be_kept():
    assert sum(1 / rate for rate in SERVICE_RATES[:3]) == pytest.approx(0.943, abs=1e-3)


@pytest.mark.parametrize(
    "controller",
    [
        Controller("mdp", CENTRALISED),
        Controller("mdp-rl", CENTRALISED | {"known": 1}),
        Controller("mdp-rl", CENTRALISED),
        Controller("mdp", {"max_utilisation": 0.7}),
        Controller("mdp-rl", {"max_utilisation": 0.7}),
    ],
    ids=str,
)
def test_at_a_steady_rate_every_controller_settles_at_the_fewest_replicas(controller, steady):
    year = run_year(describe(controller, 2, trace=steady, training=steady, levels=12))

    assert year.instances == pytest.approx(4, abs=0.05)
    assert year.reconfigurations < 200
    assert year.cost == pytest.approx(RESOURCES * 4 / 10, rel=0.05)
    assert year.so_far[-1] == pytest.approx(year.cost)


def test_the_same_seed_walks_the_same_path_along_the_chain():
    chain = np.array([[0.0, 1.0, 0.0], [0.5, 0.0, 0.5], [0.0, 1.0, 0.0]])

    path = walk(chain, 1, SHORT, seed=4)

    np.testing.assert_array_equal(path, walk(chain, 1, SHORT, seed=4))
    assert path[0] == 1
    assert (np.abs(np.diff(path)) == 1).all()
    assert (path == 0).mean() == pytest.approx(0.25, abs=0.01)
