from __future__ import annotations

import itertools

import numpy as np
import pytest

from weir_policies import registry
from weir_policies.errors import ParameterError
from weir_policies.model.node_types import Deployment
from weir_policies.testing import a_model, a_transition, an_observation
from weir_rivals.conttune import ContTuneMemory, collect, fit, observe, predict


def build(**parameters):
    return registry.build("conttune", rng=np.random.default_rng(7), parameters=parameters)


def see(count, rate, *, each=100.0, **changes):
    """Return an interval of wide replicas, each of which processes so many records/s."""
    done = min(rate, each * count)
    fields = {"processed": done, "utilisation": (done / count / each,) * count} | changes
    return an_observation(deployment=Deployment((0, count, 0)), rate=rate, **fields)


def behind(count, rate, **changes):
    """Return an interval in which they cannot take in all."""
    return see(count, rate, backlog=60 * (rate - 100.0 * count), **changes)


def live(policy, seen):
    """Let the policy see intervals of a minute; return its last decision."""
    for before, after in itertools.pairwise([seen[0], *seen]):
        policy.learn(a_transition(before, after))
    return policy.decide(seen[-1])


def test_without_observations_it_decides_as_ds2():
    decision = build().decide(see(2, 150.0, processed=60.0, utilisation=(0.15, 0.15)))

    # 60 records/s in 30 % of a replica's time: 200 of each, so one carries 150.
    assert decision.target == Deployment((0, 1, 0))
    assert "too little was observed" in decision.reason


def test_an_operator_that_holds_back_others_gets_twice_as_many_at_first():
    once = live(build(), [behind(2, 900.0)])
    twice = live(build(), [behind(2, 900.0)] * 2)

    assert once.target == Deployment((0, 9, 0))  # as DS2 does
    assert twice.target == Deployment((0, 4, 0))
    assert "holds back those before it" in twice.reason


def test_it_gets_the_most_that_it_ever_had_where_that_is_more():
    policy = build()
    live(policy, [see(7, 500.0)] * 3)

    assert live(policy, [behind(2, 900.0)] * 2).target == Deployment((0, 7, 0))


def test_a_model_of_utilisation_above_one_means_that_it_holds_back_others():
    over = see(2, 900.0, processed=900.0, utilisation=(4.5, 4.5))

    assert live(build(), [over] * 2).target == Deployment((0, 4, 0))


def test_little_that_is_missing_begins_the_big_phase_as_well():
    assert live(build(), [behind(2, 203.0)] * 2).target == Deployment((0, 4, 0))


def test_a_backlog_that_is_worked_off_does_not():
    catching_up = see(2, 190.0, processed=200.0, utilisation=(1.0, 1.0), backlog=5000.0)

    assert live(build(), [catching_up] * 3).target == Deployment((0, 2, 0))


def test_what_was_learned_about_few_and_many_replicas_decides_between_them():
    # Replicas hinder each other: 2 process 200, 4 process 360, 8 process 560.
    policy = build()
    live(policy, [see(2, 150.0)] * 3)
    live(policy, [see(4, 300.0, each=90.0)] * 3)
    last = see(8, 350.0, each=70.0)

    decision = live(policy, [last] * 3)

    # At 70 each, DS2 would take five. The process knows that four are enough.
    assert decision.target == Deployment((0, 4, 0))
    assert "are thought to process" in decision.reason


def test_what_is_far_from_all_observations_is_left_to_ds2():
    policy = build()
    live(policy, [see(1, 90.0)] * 3)
    last = [see(10, 480.0)] * 3

    near = live(policy, last)
    strict = build(alpha=0)
    live(strict, [see(1, 90.0)] * 3)

    assert near.target == Deployment((0, 5, 0))
    assert live(strict, last).target == Deployment((0, 5, 0))
    assert "too little was observed" in strict.decide(last[-1]).reason


def test_only_the_last_observations_of_a_number_of_replicas_count():
    policy = build()
    live(policy, [see(4, 300.0, each=200.0)] * 5)

    decision = live(policy, [see(4, 300.0, each=100.0)] * 5)

    assert decision.target == Deployment((0, 3, 0))


def test_the_process_goes_through_its_points():
    own = ContTuneMemory(
        ContTuneMemory.allocate_rows(1, {"sizes": 30, "recent": 5, "room": 150})[0]
    )
    for size in (1, 4, 9, 15):
        observe(own, size, 100.0 * size**0.8)
    collect(own, 4)

    fit(own)

    for size in (1, 4, 9, 15):
        assert predict(own, size) == pytest.approx(100.0 * size**0.8, rel=0.02)
    assert 100.0 * 9**0.8 < predict(own, 12) < 100.0 * 15**0.8


def test_more_numbers_of_replicas_than_it_has_room_for_do_no_harm():
    policy = build()
    model = a_model(max_replicas=60)
    for count in range(1, 61):
        policy.learn(a_transition(*[see(count, 90.0 * count, model=model)] * 2))

    assert policy.decide(see(60, 4990.0, model=model)).target == Deployment((0, 50, 0))


def test_without_a_processed_record_it_stays():
    decision = build().decide(see(3, 50.0, processed=0.0, utilisation=(0.0,) * 3))

    assert decision.target == Deployment((0, 3, 0))
    assert "cannot be measured" in decision.reason


@pytest.mark.parametrize("wrong", [{"alpha": -1}, {"alpha": 0.5}, {"recent": 0}], ids=str)
def test_parameters_out_of_range_are_refused(wrong):
    with pytest.raises(ParameterError, match=next(iter(wrong))):
        build(**wrong)
