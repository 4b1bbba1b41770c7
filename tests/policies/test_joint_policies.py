"""Lohrmann and DRS, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from weir_policies import registry
from weir_policies.errors import ParameterError
from weir_policies.kernels.paths import flatten_paths, list_paths
from weir_policies.kernels.view import empty_view
from weir_policies.model.node_types import Deployment, NodeType
from weir_policies.testing import a_model, an_observation

ONE_TYPE = (NodeType(name="t", pool="p", speedup=1.0, price=1.0),)


def decide(name, rate, *, budget=0.05, replicas=2, service=0.01, **parameters):
    policy = registry.build(name, rng=np.random.default_rng(7), parameters=parameters)
    model = a_model(node_types=ONE_TYPE, service_mean=service, service_scv=1.0)
    deployment = Deployment((replicas,))
    return policy.decide(
        an_observation(model=model, deployment=deployment, rate=rate, budget=budget)
    ).target.size


def test_lohrmann_takes_the_fewest_replicas_whose_wait_keeps_the_budget():
    # W(p) = 0.01^2 l / (p - 0.01 l): at 150/s, 30 ms on 2 replicas, 10 ms on 3.
    assert decide("lohrmann-first", 150.0, budget=0.029) == 3
    assert decide("lohrmann-first", 90.0, budget=0.05, replicas=1) == 2
    assert decide("lohrmann-first", 50.0, budget=0.05) == 1


def test_lohrmann_gives_all_it_has_where_that_is_not_enough():
    assert decide("lohrmann-first", 2000.0) == 10


def test_lohrmann_doubles_what_is_saturated():
    assert decide("lohrmann-first", 395.0, replicas=3, budget=10.0) >= 6


def test_published_drs_takes_the_fewest_that_keep_up():
    assert decide("drs-first", 250.0, published=1) == 3
    assert decide("drs-first", 0.0, published=1) == 1


def test_drs_adds_until_the_sojourn_time_keeps_the_budget():
    # M/M/3 at load 2.5 waits 14 ms on top of 10 ms of service, M/M/4 waits 2.1 ms.
    assert decide("drs-first", 250.0, budget=0.025) == 3
    assert decide("drs-first", 250.0, budget=0.020) == 4


def test_drs_gives_all_it_has_where_nothing_keeps_the_budget():
    # A record takes 10 ms of service alone.
    assert decide("drs-first", 250.0, budget=0.005) == 10


def test_paths_of_a_fork_are_all_found():
    view = empty_view(operators=4, node_types=1, max_replicas=3, edges=4)
    view.edges[:] = [[0, 1], [0, 2], [1, 3], [2, 3]]

    paths = list_paths(view)

    assert sorted(paths) == [[0, 1, 3], [0, 2, 3]]
    assert flatten_paths(paths)[:2] == [2, 3]


def test_too_many_paths_are_refused_with_a_remedy():
    stages = 15
    view = empty_view(operators=2 * stages, node_types=1, max_replicas=3, edges=4 * (stages - 1))
    view.edges[:] = [
        [2 * stage + here, 2 * stage + 2 + there]
        for stage in range(stages - 1)
        for here in (0, 1)
        for there in (0, 1)
    ]

    with pytest.raises(ParameterError, match=r"10,000 paths.*decides per operator"):
        list_paths(view)
