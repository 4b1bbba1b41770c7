from __future__ import annotations

import itertools

import numpy as np
import pytest

from weir_policies import registry
from weir_policies.errors import ParameterError
from weir_policies.kernels.policy import unpack_array
from weir_policies.model.node_types import Deployment
from weir_policies.testing import a_transition, an_observation
from weir_rivals.daedalus import DaedalusMemory, find_recovery, fit_model

SETTLED = 10
"""Minutes after which it changes what is not needed at once."""


def build(**parameters):
    return registry.build("daedalus", rng=np.random.default_rng(7), parameters=parameters)


def see(count, rate, **changes):
    """Return an interval of wide replicas, each of which processes 100 records/s."""
    done = min(rate, 100.0 * count)
    fields = {"processed": done, "utilisation": (done / count / 100,) * count} | changes
    return an_observation(deployment=Deployment((0, count, 0)), rate=rate, **fields)


def live(policy, seen):
    """Let the policy see intervals of a minute; return its last decision."""
    for before, after in itertools.pairwise([seen[0], *seen]):
        policy.learn(a_transition(before, after))
    return policy.decide(seen[-1])


def a_memory(**fields):
    own = DaedalusMemory(DaedalusMemory.allocate_rows(1, {"sizes": 1} | fields)[0])
    own.steps = 15
    return own


def test_a_steady_rate_needs_the_smallest_capacity_above_it():
    decision = live(build(), [see(5, 250.0)] * (SETTLED + 1))

    assert decision.target == Deployment((0, 3, 0))
    assert "250 records/s are forecast for 15 min" in decision.reason


def test_a_rate_that_rises_is_met_in_advance():
    rising = [see(3, 100.0 + 10 * minute) for minute in range(20)]  # 290 at last, 300 are possible

    assert live(build(), rising).target == Deployment((0, 4, 0))


def test_a_forecast_that_fails_gives_way_to_a_line():
    jump = [see(8, 200.0)] * 20 + [see(8, 500.0)]

    decision = live(build(), jump)

    # The line through nine minutes at 200 and one at 500 rises to some 480 in ten minutes.
    assert "for 10 min" in decision.reason


def test_nothing_is_done_for_three_minutes_after_a_change():
    policy = build()
    live(policy, [see(5, 250.0)] * (SETTLED + 1))
    policy.learn(a_transition(see(5, 250.0), see(2, 250.0)))
    early = policy.decide(see(2, 250.0))
    for _ in range(2):
        policy.learn(a_transition(see(2, 250.0), see(2, 250.0)))

    assert early.target == Deployment((0, 2, 0))
    assert policy.decide(see(2, 250.0)).target == Deployment((0, 3, 0))


def test_within_ten_minutes_of_a_change_only_what_is_needed_at_once_is_changed():
    policy = build()
    live(policy, [see(3, 250.0)] * (SETTLED + 1))
    policy.learn(a_transition(see(3, 250.0), see(5, 250.0)))
    for _ in range(SETTLED - 2):
        policy.learn(a_transition(see(5, 250.0), see(5, 250.0)))

    before = policy.decide(see(5, 250.0))
    policy.learn(a_transition(see(5, 250.0), see(5, 250.0)))

    assert before.target == Deployment((0, 5, 0))
    assert policy.decide(see(5, 250.0)).target == Deployment((0, 3, 0))


def test_a_backlog_is_worked_off_in_ten_minutes():
    behind = [see(3, 250.0, processed=300.0, utilisation=(1.0,) * 3, backlog=80_000.0)]

    decision = live(build(), [see(3, 250.0)] * SETTLED + behind)

    # 80,000 and 40 s x 250 in 570 s are 158 records/s beyond the 250 that arrive.
    assert decision.target == Deployment((0, 5, 0))


def test_where_no_capacity_is_enough_it_takes_all_replicas():
    behind = [see(3, 950.0, backlog=1e6)] * SETTLED

    assert live(build(), behind).target == Deployment((0, 10, 0))


def test_the_capacity_is_where_the_regression_meets_a_full_replica():
    # A replica that needs 20 % for itself processes 125 records/s per busy share beyond that.
    policy = build()
    for minute in range(80):
        rate = 200.0 + 10 * (minute % 10)
        seen = see(4, rate, utilisation=(0.2 + rate / 4 / 125,) * 4)
        policy.learn(a_transition(seen, seen))

    # Full replicas process 100 records/s each. Throughput over busy share would say less.
    assert "4 replicas could process 400 records/s" in policy.decide(see(4, 290.0)).reason


def test_without_a_measured_interval_it_stays():
    decision = build().decide(see(5, 10.0))

    assert decision.target == Deployment((0, 5, 0))
    assert "not known yet" in decision.reason


def test_the_weights_of_an_autoregressive_process_are_found():
    rng = np.random.default_rng(3)
    noise = rng.normal(size=20_000)
    values = np.zeros_like(noise)
    for step in range(2, noise.size):
        values[step] = 0.5 * values[step - 1] - 0.3 * values[step - 2] + noise[step]
    own = a_memory(differences=values.size)
    for lag in range(6):
        own.products[lag] = values[lag:] @ values[: values.size - lag]

    fit_model(own)

    assert own.chosen[:2] == pytest.approx([0.5, -0.3], abs=0.03)
    assert own.chosen[2:] == pytest.approx([0, 0, 0], abs=0.03)


def test_recovering_takes_the_downtime_and_the_time_to_work_off_what_waits():
    own = a_memory(checkpoint=10.0)
    own.forecast[:] = 100.0

    # 10 s x 100 again, 30 s x 100 while it is stopped, 1000 before: 5000 at 50 records/s.
    assert find_recovery(own, 100.0, 1000.0, 150.0, 30.0, 60.0) == pytest.approx(130)
    assert find_recovery(own, 100.0, 1000.0, 100.0, 30.0, 60.0) == np.inf


def test_the_downtime_is_corrected_by_a_second_where_recovering_took_longer():
    policy = build(grace=0)
    live(policy, [see(5, 250.0)] * (SETTLED + 1))
    behind = see(3, 250.0, backlog=9000.0)
    policy.learn(a_transition(see(5, 250.0), behind))
    for _ in range(10):
        policy.learn(a_transition(behind, behind))
    done = see(3, 250.0)

    policy.learn(a_transition(behind, done))

    own = DaedalusMemory(unpack_array(policy.state_dict()["memory"])[0])
    assert (own.down_downtime, own.up_downtime) == (16, 30)


@pytest.mark.parametrize(
    "wrong",
    [{"target_recovery": 0}, {"grace": -1}, {"horizon": 0}, {"up_downtime": -1}],
    ids=str,
)
def test_parameters_out_of_range_are_refused(wrong):
    with pytest.raises(ParameterError, match=next(iter(wrong))):
        build(**wrong)
