"""Which rule the planner follows, and what that costs where the plan is worth little."""

import numpy as np
import pytest

from weir_simulator.run import simulate
from weir_simulator.state import AT_REPLICAS


@pytest.fixture
def cost(experiment):
    """Return a function that tells what a policy costs on a trace."""
    return lambda rates, policy: simulate(experiment(rates), seed=1, policy=policy).average_cost


def spikes(seed, slots=10_000):
    rng = np.random.default_rng(seed)
    rates = np.full(slots, 150.0)
    for begin in rng.integers(0, slots - 60, slots // 400):
        rates[begin : begin + rng.integers(3, 40)] = rng.uniform(300, 600)
    return rates * rng.lognormal(0, 0.03, slots)


def waves(slots):
    minutes = np.arange(slots)
    noise = np.random.default_rng(2).lognormal(0, 0.03, slots)
    return 300 * (1 + 0.6 * np.sin(2 * np.pi * minutes / 1440)) * noise


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_spikes_at_random_cost_at_most_2_percent_more_than_with_queueing(cost, seed):
    rates = spikes(seed)

    assert cost(rates, "planner") <= 1.02 * cost(rates, "queueing")


@pytest.mark.parametrize("slots", [60, 180, 720])
def test_the_first_hours_cost_at_most_2_percent_more_than_with_queueing(cost, slots):
    rates = waves(slots)

    assert cost(rates, "planner") <= 1.02 * cost(rates, "queueing")


@pytest.fixture
def restarts(experiment):
    """Return a function that tells how many percent of the slots had a restart, in a world."""
    return lambda rates, policy, **world: (
        simulate(experiment(rates, **world), seed=1, policy=policy).reconfigurations
    )


def steps(slots, *, every=20):
    """Return a rate that falls to a half for `every` minutes, and comes back for as many."""
    low = np.arange(slots) // every % 2
    noise = np.random.default_rng(3).lognormal(0, 0.02, slots)
    return np.where(low, 250.0, 500.0) * noise


def test_where_restarts_bring_violations_a_short_fall_is_not_followed(restarts):
    rates = steps(180)

    free, dear = restarts(rates, "planner"), restarts(rates, "planner", downtime="25s")

    assert dear < 0.5 * free
    assert dear < 0.5 * restarts(rates, "queueing", downtime="25s")


def test_where_restarts_bring_violations_a_fall_that_lasts_is_followed(experiment):
    rates = np.where(np.arange(600) < 60, 800.0, 150.0)
    made = experiment(rates * np.random.default_rng(3).lognormal(0, 0.02, 600), downtime="25s")

    history = simulate(made, seed=1, policy="planner", history=True).history

    assert history[-1, AT_REPLICAS] < 0.5 * history[59, AT_REPLICAS]


def test_a_rhythm_that_was_learned_is_planned_for(cost):
    rates = waves(14 * 1440)

    assert cost(rates, "planner") < 0.97 * cost(rates, "queueing")


def test_a_plan_that_a_new_regime_makes_fail_is_left_again(cost):
    rhythm, noise = waves(10 * 1440), spikes(4, slots=10 * 1440)
    before, whole = cost(rhythm, "planner"), cost(np.concatenate([rhythm, noise]), "planner")

    since_then = 2 * whole - before  # both parts are equally long

    assert since_then <= 1.1 * cost(noise, "queueing")
