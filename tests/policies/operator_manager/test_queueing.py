import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from weir_policies import registry
from weir_policies.errors import StateError
from weir_policies.kernels.percentiles import gamma_quantile, normal_quantile
from weir_policies.model.cost import kind_of_change, price_per_hour
from weir_policies.model.node_types import Deployment, NodeType
from weir_policies.model.queueing import predict
from weir_policies.operator_manager.queueing import (
    CHEAPER,
    FOUND,
    NEXT_BEST,
    PRICE,
    SCORE,
    SELECTED,
    TIME,
    select_rows,
)
from weir_policies.policy import NEEDED, ChangeKind
from weir_policies.testing import (
    LARGE,
    SMALL,
    WIDE,
    a_model,
    a_transition,
    all_deployments,
    an_observation,
)


def build(**parameters):
    return registry.build("queueing", rng=np.random.default_rng(7), parameters=parameters)


def live(policy, *rates, deployment, **changes):
    """Let the policy see intervals of these rates, the last of which it then decides on."""
    seen = [
        an_observation(deployment=Deployment(deployment), rate=rate, **changes) for rate in rates
    ]
    for before, after in itertools.pairwise(seen):
        policy.learn(a_transition(before, after))
    return policy.decide(seen[-1])


def verdict(decision, counts):
    [found] = [c.verdict for c in decision.candidates if c.deployment == Deployment(counts)]
    return found


def test_the_target_is_the_cheapest_of_all_that_keep_the_budget():
    observation = an_observation(deployment=Deployment((0, 1, 0)), rate=600.0)
    model = observation.model
    everything = all_deployments(3, max_replicas=10)
    prediction = predict(model, everything, 600.0 * 1.1 * 1.1)  # headroom, then a restart's margin
    keeps = (prediction.response_time <= 0.05) & (prediction.utilisation <= 0.9)
    prices = [price_per_hour(Deployment(tuple(k)), model.node_types) for k in everything[keeps]]

    decision = build().decide(observation)

    assert price_per_hour(decision.target, model.node_types) == pytest.approx(min(prices))
    assert decision.target == Deployment((0, 0, 6))


def test_a_restart_that_is_needed_goes_to_what_some_growth_does_not_outgrow():
    observation = an_observation(deployment=Deployment((0, 1, 0)), rate=600.0)

    tight, lasting = build(margin=0.0).decide(observation), build(margin=0.4).decide(observation)

    assert tight.target == Deployment((0, 0, 5))
    assert lasting.target == Deployment((0, 0, 7))


def test_a_margin_that_nothing_has_is_no_reason_to_stay():
    observation = an_observation(deployment=Deployment((1, 0, 0)), rate=1200.0)

    decision = build(margin=5.0).decide(observation)

    assert decision.target == build(margin=0.0).decide(observation).target


def test_it_jumps_however_far_it_is():
    decision = build().decide(an_observation(deployment=Deployment((1, 0, 0)), rate=900.0))

    assert decision.target == Deployment((0, 0, 8))
    assert decision.urgency >= NEEDED
    assert "one restart" in decision.reason
    assert "cannot keep up with 990 records/s" in decision.reason


def test_what_is_expected_is_predicted_at_the_measured_rate():
    observation = an_observation(deployment=Deployment((0, 1, 0)), rate=600.0)

    expected = build().decide(observation).expectation

    prediction = predict(observation.model, np.array([[0, 0, 6]]), 600.0)
    assert expected.response_time == pytest.approx(prediction.response_time[0])
    assert expected.utilisation == pytest.approx(600 / 6 / 160)
    assert expected.cost_per_hour == pytest.approx(0.3)


def test_a_resize_is_taken_where_a_rescale_would_save_too_little():
    # One large node costs 0.05. Two wide ones (0.08) would do too, and the large is far cheaper;
    # at 0.075 it no longer saves a tenth.
    close = replace(LARGE, price=0.075)
    pair = an_observation(
        model=a_model(node_types=(SMALL, WIDE, close)), deployment=Deployment((2, 0, 0)), rate=110.0
    )

    decision = build().decide(pair)

    assert decision.target == Deployment((0, 2, 0))
    assert kind_of_change(pair.deployment, decision.target, pair.model.node_types) is (
        ChangeKind.RESIZE
    )
    assert "in place" in decision.reason
    assert verdict(decision, (0, 0, 1)) == "Rejected: saves too little for a restart"


def test_a_rescale_is_taken_where_it_saves_enough():
    cheap = replace(LARGE, price=0.06)
    pair = an_observation(
        model=a_model(node_types=(SMALL, WIDE, cheap)), deployment=Deployment((2, 0, 0)), rate=110.0
    )

    assert build().decide(pair).target == Deployment((0, 0, 1))


def test_a_saving_waits_until_enough_intervals_were_seen():
    policy = build()
    calm = {"deployment": (0, 0, 5)}

    early = live(policy, 100.0, 100.0, **calm)
    later = live(policy, 100.0, 100.0, 100.0, **calm)

    assert early.target == Deployment((0, 0, 5))
    assert "only 1 of the 3 intervals" in early.reason
    assert later.target == Deployment((0, 0, 1))
    assert 0 < later.urgency < NEEDED


def test_a_saving_must_have_carried_the_largest_rate_of_late():
    just_now = live(build(), 100.0, 600.0, 100.0, 100.0, deployment=(0, 0, 5))
    long_ago = live(build(), 100.0, 600.0, 100.0, 100.0, 100.0, deployment=(0, 0, 5))

    assert just_now.target == Deployment((0, 0, 5))
    assert "nothing cheaper would at 726 records/s" in just_now.reason
    assert "highest recent rate" in verdict(just_now, (0, 0, 4))
    assert long_ago.target == Deployment((0, 0, 1))


def test_the_margin_keeps_a_deployment_that_would_only_just_do():
    # Two large nodes carry 288 records/s within the cap: 250 with the headroom, not 10 % more.
    rates = (250.0,) * 4

    with_margin = live(build(), *rates, deployment=(0, 0, 3))
    without = live(build(margin=0.0), *rates, deployment=(0, 0, 3))

    assert with_margin.target == Deployment((0, 0, 3))
    assert without.target == Deployment((0, 0, 2))


@pytest.mark.parametrize("rate", np.linspace(20, 900, 23))
def test_what_was_chosen_is_kept_at_the_same_rate(rate):
    policy = build()
    first = live(policy, rate, rate, rate, rate, deployment=(0, 1, 0))

    again = live(policy, rate, rate, deployment=first.target.counts)

    assert again.target == first.target


def test_a_backlog_is_worked_off_in_the_time_allowed():
    behind = an_observation(deployment=Deployment((0, 0, 1)), rate=50.0, backlog=12_000.0)

    fast, slow = build(catch_up=60).decide(behind), build(catch_up=600).decide(behind)

    # 12,000 records in 60 s are 200 records/s beside the 55 planned for.
    capacity = predict(behind.model, np.array([fast.target.counts]), 255.0)
    assert capacity.utilisation[0] <= 0.9
    assert slow.target.size < fast.target.size
    assert "backlog included" in fast.reason


def test_a_cap_that_the_rate_alone_exceeds_is_not_blamed_on_a_backlog():
    # 275 records/s keep the budget on two large nodes, 86 % busy.
    observation = an_observation(deployment=Deployment((0, 0, 2)), rate=250.0)

    decision = build(utilisation_cap=0.8).decide(observation)

    assert "at 275 records/s the present deployment would be 86 % busy" in decision.reason


def test_nothing_is_taken_from_a_saturated_operator_though_the_model_says_so():
    decision = live(build(), *(100.0,) * 5, deployment=(0, 0, 5), utilisation=(0.3,) * 4 + (0.96,))

    assert decision.target == Deployment((0, 0, 5))
    assert "a replica is 96 % busy" in decision.reason


def test_nothing_is_taken_while_the_backlog_grows():
    policy = build()
    seen = [
        an_observation(deployment=Deployment((0, 0, 5)), rate=100.0, backlog=backlog)
        for backlog in (0.0, 0.0, 0.0, 100.0, 300.0)
    ]
    for before, after in itertools.pairwise(seen):
        policy.learn(a_transition(before, after))

    growing, shrinking = policy.decide(seen[-1]), policy.decide(replace(seen[-1], backlog=50.0))

    assert growing.target == Deployment((0, 0, 5))
    assert "the backlog grew by 200 records" in growing.reason
    assert shrinking.target.size < 5


def test_nothing_is_taken_while_the_budget_is_missed_in_fact():
    decision = live(build(), *(100.0,) * 5, deployment=(0, 0, 5), response_time=0.2)

    assert decision.target == Deployment((0, 0, 5))
    assert "although 200 ms of a budget of 50 ms is measured" in decision.reason


def test_a_saturated_operator_that_must_move_gets_no_less_capacity():
    # Service on small nodes alone takes 20 ms; with a budget of 15 ms one large node would do.
    crowded = {"deployment": (8, 0, 0), "budget": 0.015, "response_time": 0.01}

    calm = live(build(), *(50.0,) * 4, **crowded)
    strained = live(build(), *(50.0,) * 4, **crowded, utilisation=(0.97,) * 8)

    speed = [node_type.speedup for node_type in a_model().node_types]
    capacity = {
        name: sum(n * s for n, s in zip(decision.target, speed, strict=True))
        for name, decision in (("calm", calm), ("strained", strained))
    }
    assert capacity["calm"] < 4.0 <= capacity["strained"]


def test_an_impossible_budget_is_answered_with_the_least_possible_response_time():
    decision = build().decide(an_observation(rate=100.0, budget=0.004))

    assert "even without load a record takes 6.25 ms" in decision.reason
    assert decision.target.counts[:2] == (0, 0)
    assert decision.urgency >= NEEDED


def test_a_budget_that_is_impossible_at_this_rate_names_the_best_there_is():
    decision = build().decide(an_observation(rate=900.0, budget=0.008))

    best = predict(a_model(), np.array([[0, 0, 10]]), 990.0).response_time[0]
    assert decision.target == Deployment((0, 0, 10))
    assert f"the lowest possible is {best * 1000:.3g} ms" in decision.reason


def test_a_rate_beyond_all_capacity_gets_all_capacity():
    decision = build().decide(an_observation(rate=2000.0))

    assert decision.target == Deployment((0, 0, 10))
    assert "no deployment carries 2,200 records/s" in decision.reason
    assert decision.urgency == 1.0


def test_an_operator_that_has_all_there_is_stays():
    full = an_observation(deployment=Deployment((0, 0, 10)), rate=2000.0)

    decision = build().decide(full)

    assert decision.target == full.deployment
    assert decision.reason.startswith("Stays with 10 x large/1: no deployment carries")


def test_a_deployment_that_breaks_a_lowered_limit_is_left():
    lowered = an_observation(
        model=a_model(max_replicas=4), deployment=Deployment((0, 8, 0)), utilisation=(0.97,) * 8
    )

    decision = build().decide(lowered)

    assert decision.target.size <= 4
    assert "breaks a limit" in decision.reason


@pytest.mark.parametrize(
    "unknown",
    [
        {"backlog": math.nan},
        {"budget": math.nan},
        {"model": a_model(service_mean=math.nan)},
        {"model": a_model(service_scv=math.nan)},
    ],
    ids=["backlog", "budget", "service mean", "service scv"],
)
def test_what_the_model_needs_and_does_not_know_holds(unknown):
    changes = {"rate": 900.0, "utilisation": (0.9, 0.9)} | unknown

    decision = build().decide(an_observation(**changes))

    assert decision.target == Deployment((0, 2, 0))
    assert decision.reason.startswith("Holds: the ")


def test_unknown_intervals_are_not_learned_from():
    policy = build()
    good = an_observation(rate=100.0)
    policy.learn(a_transition(good, good))
    before = policy.state_dict()

    policy.learn(
        a_transition(
            an_observation(backlog=math.nan), an_observation(rate=math.nan, utilisation=(0.1, 0.1))
        )
    )

    assert policy.state_dict() == before


def test_a_percentile_needs_more_than_the_mean():
    observation = an_observation(deployment=Deployment((0, 0, 1)), rate=300.0)

    mean, tail = build().decide(observation), build(quantile=0.99).decide(observation)

    assert mean.target.size < tail.target.size
    prediction = predict(observation.model, np.array([tail.target.counts]), 330.0)
    response_time, variance = prediction.response_time[0], prediction.variance[0]
    assert gamma_quantile(response_time, variance, 0.99, normal_quantile(0.99)) <= 0.05
    three = replace(observation, deployment=Deployment((0, 0, 3)), utilisation=(0.7,) * 3)
    assert "budget of 50 ms at the 99th percentile" in build(quantile=0.99).decide(three).reason


def test_too_many_deployments_to_list_are_no_obstacle():
    node_types = tuple(
        NodeType(name=f"t{n}", pool=f"p{n // 2}", speedup=1 + n / 5, price=0.04 + n / 100)
        for n in range(10)
    )
    model = a_model(node_types=node_types, max_replicas=20)
    here = Deployment((1, 0, 2, 0, 0, 0, 1, 0, 0, 3))

    decision = build().decide(an_observation(model=model, deployment=here, rate=2500.0))

    prediction = predict(model, np.array([decision.target.counts]), 2750.0)
    assert prediction.response_time[0] <= 0.05


def many_node_types(count):
    return tuple(
        NodeType(
            name=f"t{n}",
            pool=f"p{n // 8}",
            speedup=0.2 + 0.03 * n,
            price=0.01 + 0.013 * (37 * n % 101),
        )
        for n in range(count)
    )


@pytest.mark.parametrize("node_type", [0, 60, 127])
def test_of_however_many_deployments_the_target_is_the_one_that_was_chosen(node_type):
    model = a_model(node_types=many_node_types(128), max_replicas=10_000)
    counts = tuple(5000 if n == node_type else 0 for n in range(128))
    present = an_observation(model=model, deployment=Deployment(counts), rate=100.0, budget=1.0)

    decision = build(scale_in_window=5).decide(present)

    assert decision.target == Deployment(counts)  # nothing is taken away before five intervals
    assert verdict(decision, counts).startswith("Chosen")
    assert len({each.deployment for each in decision.candidates}) > NEXT_BEST


@given(data=st.data())
@settings(max_examples=25, deadline=None)
def test_where_mixes_are_too_many_the_best_of_each_node_type_wins(data):
    count, maximum = data.draw(st.integers(4, 12)), data.draw(st.integers(200, 600))
    numbers = data.draw(st.permutations(range(count)))
    node_types = tuple(
        NodeType(name=f"t{n}", pool=f"p{n}", speedup=0.5 + 0.37 * n, price=0.1 + 0.0713 * number)
        for n, number in enumerate(numbers)
    )
    model = a_model(node_types=node_types, max_replicas=maximum)
    rate = 10 ** data.draw(st.floats(2.0, 5.0))
    present = an_observation(
        model=model, deployment=Deployment((1,) + (0,) * (count - 1)), rate=rate, budget=0.05
    )
    alone = np.concatenate(
        [np.outer(np.arange(1, maximum + 1), np.eye(count, dtype=int)[n]) for n in range(count)]
    )
    prediction = predict(model, alone, rate * 1.1 * 1.1)
    fits = (prediction.response_time <= 0.05) & (prediction.utilisation <= 0.9)
    assume(fits.any())

    decision = build().decide(present)

    prices = np.array([each.price for each in node_types])
    if decision.target != present.deployment:  # what is near it may be a mix, and cheaper
        assert decision.target.counts @ prices <= (alone[fits] @ prices).min() + 1e-9


def test_state_of_another_version_is_refused():
    with pytest.raises(StateError, match=r"version \d+, got 2"):
        build().load_state_dict({"version": 2})


@given(
    judged=st.lists(
        st.tuples(
            st.integers(1, 6),
            st.sampled_from([1.0, 2.0, 3.0, math.inf]),
            st.sampled_from([1.0, 2.0, 3.0, math.inf, math.inf]),
        ),
        min_size=1,
        max_size=30,
    ),
    data=st.data(),
)
def test_shown_are_the_best_and_those_cheaper_that_no_other_beats(judged, data):
    found = np.zeros((len(judged), FOUND))
    found[:, [PRICE, TIME, SCORE]] = judged
    chosen = data.draw(st.integers(0, len(judged) - 1))
    present = data.draw(st.integers(-1, len(judged) - 1))
    best = sorted(range(len(judged)), key=lambda row: judged[row][2])[: NEXT_BEST + 1]
    cheaper = [
        row
        for row, (price, time, score) in enumerate(judged)
        if score == math.inf and price < judged[chosen][0] and time < math.inf
    ]
    unbeaten = [
        row
        for row in cheaper
        if not any(
            judged[other][:2] != judged[row][:2]
            and judged[other][0] <= judged[row][0]
            and judged[other][1] <= judged[row][1]
            for other in cheaper
        )
    ]
    selected = np.empty(SELECTED, dtype=np.int64)

    used = select_rows(found, chosen, present, selected)

    assert selected[:used].tolist() == [
        chosen,
        *[row for row in best if judged[row][2] < math.inf],
        *([present] if present >= 0 else []),
        *sorted(unbeaten, key=lambda row: -judged[row][0])[:CHEAPER],
    ]
