"""Every search, on a problem whose optimum is known."""

from __future__ import annotations

import numpy as np
import pytest

from weir_policies.application_manager.search.algorithms import build_search
from weir_policies.application_manager.search.protocol import (
    Limits,
    SurrogateName,
    Trial,
    TrialOutcome,
    rank,
)
from weir_policies.application_manager.search.space import Space
from weir_policies.model.dataflow import Dataflow, Edge

SPACE = Space(Dataflow(operators=("a", "b"), edges=(Edge(source="a", target="b"),)), 0.05)
LIMITS = Limits(violations=0.05, reconfigurations=0.1)
OPTIMUM = 2.0
START = np.full(3, 0.5)


def a_valley(trial):
    """Money is least at a corner that breaks the limit of violations; at the limit it is 2."""
    x, y, z = trial.coordinates
    offset = 0.1 if trial.fidelity < 1 else 0.0
    return TrialOutcome(
        money=1 + 4 * (1 - x) + 2 * (z - 0.7) ** 2 + offset,
        violations=0.05 * np.exp(4 * (x - 0.75)),
        reconfigurations=0.02 + 0.01 * y,
    )


def search_for(search, evaluations, batch=2):
    """Return the trials and outcomes of a search on the valley."""
    told, used = [], 0.0
    while used < evaluations and (trials := search.ask(batch)):
        for trial in trials:
            told.append((trial, a_valley(trial)))
            used += trial.fidelity
            search.tell(*told[-1])
    return told


def best_of(told):
    return min(
        (outcome for trial, outcome in told if trial.fidelity == 1),
        key=lambda outcome: rank(outcome, LIMITS),
    )


def a_search(name, *, seed=1, evaluations=25, surrogate: SurrogateName = "numpy", starts=(START,)):
    return build_search(
        name,
        surrogate=surrogate,
        space=SPACE,
        limits=LIMITS,
        starts=list(starts),
        evaluations=evaluations,
        rng=np.random.default_rng(seed),
    )


NAMES = ("joint", "alternating", "weights", "budgets", "random")


@pytest.mark.parametrize("name", NAMES)
def test_it_begins_with_what_is_in_force_and_never_leaves_the_cube(name):
    told = search_for(a_search(name), 12)

    assert np.array_equal(told[0][0].coordinates, START)
    assert told[0][0].fidelity == 1
    assert all(((t.coordinates >= 0) & (t.coordinates <= 1)).all() for t, _ in told)


@pytest.mark.parametrize("name", NAMES)
def test_equal_seeds_ask_for_equal_trials(name):
    once, again = (search_for(a_search(name), 12) for _ in range(2))

    assert [t.fidelity for t, _ in once] == [t.fidelity for t, _ in again]
    assert all(
        np.array_equal(a.coordinates, b.coordinates)
        for (a, _), (b, _) in zip(once, again, strict=True)
    )


@pytest.mark.parametrize(("name", "evaluations"), [("joint", 20), ("alternating", 80)])
def test_it_finds_the_cheapest_point_that_keeps_the_limits(name, evaluations):
    told = search_for(a_search(name, evaluations=evaluations), evaluations)

    best = best_of(told)
    assert best.keeps(LIMITS)
    assert best.money == pytest.approx(OPTIMUM, rel=0.05)


def test_the_joint_search_begins_short_and_ends_in_full():
    told = search_for(a_search("joint"), 25)

    lengths = [trial.fidelity for trial, _ in told]
    assert min(lengths[1:8]) < 1
    assert set(lengths[-3:]) == {1.0}


def test_a_good_warm_start_is_used():
    optimum = np.array([0.75, 0.5, 0.7])

    told = search_for(a_search("joint", evaluations=6, starts=(START, optimum)), 6)

    assert best_of(told).money < 2.3


@pytest.mark.parametrize(("name", "same"), [("weights", slice(2, None)), ("budgets", slice(0, 2))])
def test_half_of_the_alternation_leaves_the_other_half_alone_and_ends(name, same):
    told = search_for(a_search(name), 100)

    assert len(told) == 26
    assert all(np.array_equal(trial.coordinates[same], START[same]) for trial, _ in told)


def test_the_alternation_ends_when_a_round_improves_nothing():
    told = search_for(a_search("alternating"), 10_000)

    assert 50 < len(told) < 10_000
    assert (len(told) - 1) % 50 == 0


def test_a_later_phase_begins_with_the_best_of_the_former():
    told = search_for(a_search("alternating"), 51)
    best = min(told[:26], key=lambda each: rank(each[1], LIMITS))[0]

    weights_phase = [trial for trial, _ in told[26:]]
    assert all(np.array_equal(t.coordinates[2:], best.coordinates[2:]) for t in weights_phase)


def test_the_joint_search_finds_it_with_botorch_as_well():
    pytest.importorskip("botorch")

    told = search_for(a_search("joint", evaluations=8, surrogate="botorch"), 8)

    assert best_of(told).keeps(LIMITS)
    assert best_of(told).money < 3.0


def test_a_joint_search_that_finds_nothing_near_looks_elsewhere_as_well():
    search = a_search("joint", evaluations=50)
    told: list[Trial] = []

    while len(told) < 40:
        for trial in search.ask(2):
            is_start = bool((trial.coordinates == START).all())
            told.append(trial)
            search.tell(
                trial,
                TrialOutcome(money=1.0 if is_start else 2.0, violations=0.0, reconfigurations=0.0),
            )

    distances = [float(np.abs(trial.coordinates - START).max()) for trial in told[-12:]]
    assert min(distances) < 0.1 < 0.3 < max(distances)
