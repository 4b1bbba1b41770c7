import numpy as np
import pytest

from benchmarks.policies.clairvoyant import least_cost
from tests.policies.views import planner_memory, view_of
from weir_policies.model.node_types import Deployment, NodeType
from weir_policies.operator_manager.planner.candidates import find_point
from weir_policies.operator_manager.planner.period import (
    choose_in_period,
    find_period,
    note_interval,
    plan_period,
)
from weir_policies.operator_manager.planner.state import LAGS
from weir_policies.testing import a_model, an_observation
from weir_simulator.run import simulate
from weir_simulator.state import AT_CHANGE, AT_TIME, RESTART

BOUND = 0.05


def a_memory():
    model = a_model(node_types=a_model().node_types[:1], max_replicas=4)
    return planner_memory(view_of(an_observation(model=model, deployment=Deployment((1,)))))


def period_of(rates, *, measured=None):
    """Return the period found in the rates; of intervals that were not measured nothing is told."""
    own = a_memory()
    for slot, rate in enumerate(rates):
        if measured is None or measured[slot]:
            note_interval(own, np.log(rate), 60.0 * slot, 60.0)
    return find_period(own)


def noise(slots, deviation=0.03, seed=1):
    return np.random.default_rng(seed).lognormal(0, deviation, slots)


def batches(slots, *, period=60.0, lasts=12, times=3.0):
    """Return a rate that is several times as high for the first minutes of each period."""
    rates = np.full(slots, 120.0)
    for begins in np.arange(20, slots, period):
        rates[round(begins) : round(begins) + lasts] *= times
    return rates * noise(slots)


@pytest.mark.parametrize("period", [7.0, 37.4, 60.0, 100.0, 433.0])
def test_the_period_of_batches_is_found_to_a_fraction_of_an_interval(period):
    rates = batches(4000, period=period, lasts=int(period / 5) + 1)

    assert period_of(rates) == pytest.approx(period, abs=0.1)


def test_a_period_is_found_when_it_was_seen_three_times():
    rates = batches(200)

    assert period_of(rates[:170]) == 0
    assert period_of(rates) == pytest.approx(60, abs=1)


def periods_at(rates, lengths):
    """Return the periods found after each of so many intervals."""
    own, found = a_memory(), []
    for slot, rate in enumerate(rates):
        note_interval(own, np.log(rate), 60.0 * slot, 60.0)
        if slot + 1 in lengths:
            found.append(find_period(own))
    return found


def test_while_a_period_becomes_known_no_shorter_one_is_found():
    found = periods_at(batches(190), range(170, 191))

    assert all(period == 0 or period == pytest.approx(60, abs=1) for period in found)
    assert found[-1] > 0


def test_a_period_longer_than_half_a_day_is_never_found():
    rates = 100 * (1 + 0.5 * np.sin(2 * np.pi * np.arange(3000) / 800))

    assert set(periods_at(rates, range(10, 3001, 10))) == {0.0}


def test_what_was_not_measured_does_not_move_the_period():
    rates = batches(3000)
    measured = np.random.default_rng(5).random(3000) > 0.1

    assert period_of(rates, measured=measured) == pytest.approx(60, abs=0.1)


def test_after_a_long_gap_it_begins_anew():
    own = a_memory()
    for slot, rate in enumerate(batches(1000)):
        note_interval(own, np.log(rate), 60.0 * slot, 60.0)

    note_interval(own, 0.0, 60.0 * (1000 + 2 * LAGS), 60.0)

    assert find_period(own) == 0
    assert own.slots == 1


def jumps(slots):
    rng = np.random.default_rng(4)
    levels = np.repeat(rng.choice([60.0, 110.0, 200.0, 300.0], slots), rng.integers(5, 80, slots))
    return levels[:slots] * noise(slots)


@pytest.mark.parametrize(
    "rates",
    [
        100 * noise(5000, 0.3),
        100 * np.exp(np.cumsum(np.random.default_rng(3).normal(0, 0.02, 5000))),
        jumps(5000),
        100 * (1 + 0.6 * np.sin(2 * np.pi * np.arange(5000) / 1440)) * noise(5000),
    ],
    ids=["noise", "a random walk", "jumps", "a day"],
)
def test_what_does_not_repeat_within_half_a_day_has_no_period(rates):
    found = [period_of(rates[:slots]) for slots in (500, 1500, 5000)]

    assert found == [0, 0, 0]


TYPES = (
    NodeType(name="small", pool="small", speedup=1.0, price=1.0),
    NodeType(name="large", pool="large", speedup=2.0, price=2.5),
)


def prepared(counts):
    """Return a view of one operator with these replicas, and what a planner keeps of it."""
    model = a_model(node_types=TYPES, max_replicas=6, keyed=True)
    view = view_of(an_observation(model=model, deployment=Deployment(counts), budget=BOUND))
    return view, planner_memory(view)


def in_period(*, capacity, need):
    """Return a view of an operator off the front, and a planner that has planned a period.

    Args:
        capacity: Records/s that the present deployment carries.
        need: Records/s that arrive, as ever.
    """
    view, own = prepared((1, 1))
    assert find_point(own, view.counts[0]) < 0
    for slot in range(100):
        note_interval(own, np.log(need), 60.0 * slot, 60.0)
    own.period = 10.0
    own.capacity_outside = capacity
    view.seen[0].rate = view.seen[0].processed = need
    plan_period(0, view, own, 0.0)
    return view, own


def most_carried(own):
    return own.point_capacity[: own.front_used].max()


def test_a_deployment_off_the_front_that_costs_hardly_more_is_worth_no_restart():
    view, own = in_period(capacity=200.0, need=150.0)

    assert choose_in_period(0, view, own, -1) == -1


def test_a_deployment_off_the_front_that_carries_too_little_is_left():
    view, own = in_period(capacity=100.0, need=150.0)

    point = choose_in_period(0, view, own, -1)

    assert own.point_capacity[point] >= 150.0


def test_a_deployment_off_the_front_that_costs_much_more_is_left():
    view, own = in_period(capacity=200.0, need=150.0)
    view.price[0, :] *= 100

    assert choose_in_period(0, view, own, -1) >= 0


@pytest.mark.parametrize("enough", [True, False])
def test_where_no_point_carries_the_rate_one_goes_to_the_largest_unless_it_does_itself(enough):
    view, own = prepared((1, 1))
    need = 2 * most_carried(own)
    view, own = in_period(capacity=1.1 * need if enough else 0.9 * need, need=need)

    point = choose_in_period(0, view, own, -1)

    assert (point == -1) == enough
    assert enough or own.point_capacity[point] == most_carried(own)


def test_batches_every_hour_cost_little_more_than_with_the_future_known(experiment):
    made = experiment(batches(8000))

    cost = simulate(made, seed=1, policy="planner").average_cost

    assert cost <= 1.15 * least_cost(made)


def test_it_scales_out_before_each_batch_and_in_after_it(experiment):
    history = simulate(experiment(batches(8000)), seed=1, policy="planner", history=True).history

    last = history[-1200:]  # twenty batches
    assert (last[:, AT_TIME] > BOUND).sum() == 0
    assert (last[:, AT_CHANGE] == RESTART).sum() == pytest.approx(40, abs=2)


@pytest.mark.parametrize(("takes", "asks"), [(1.0, False), (3.0, True)])
def test_replicas_are_asked_for_as_many_intervals_before_a_batch_as_they_take(takes, asks):
    view, own = prepared((1, 0))
    rates = np.where(np.arange(602) % 30 < 10, 3.0, 1.0) * 0.7 * own.point_capacity[0]
    for slot, rate in enumerate(rates[:-4]):  # the next batch begins two intervals later
        note_interval(own, np.log(rate), 60.0 * slot, 60.0)
    own.period, own.change_takes = 30.0, takes
    view.seen[0].rate = view.seen[0].processed = rates[-5]
    plan_period(0, view, own, 0.0)
    here = find_point(own, view.counts[0])

    point = choose_in_period(0, view, own, here)

    assert (own.point_capacity[point] > own.point_capacity[here]) == asks


def test_replicas_that_take_minutes_are_there_when_a_batch_begins(experiment):
    made = experiment(batches(8000), provisioningDelay="3m", queues=True)

    history = simulate(made, seed=1, policy="planner", history=True).history

    last = history[-1200:]  # twenty batches
    assert (last[:, AT_TIME] > BOUND).sum() <= 2
