"""What memory does to service times, where it may be changed to, and what limits an operator."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weir_policies.model.estimation import (
    OperatorBelief,
    ServiceMeasurement,
    believe,
    estimate_work,
    update,
)
from weir_policies.model.memory import (
    Resource,
    StateMeasurement,
    WorkByMemory,
    WorkPoint,
    find_binding,
    fit_work,
    limit_memory,
)
from weir_policies.model.node_types import Deployment, NodeType, ReplicaMemory
from weir_policies.testing import a_model

AMOUNTS = (128, 256, 512)


def a_type(managed, *, heap=400, price=1.0, speedup=1.0):
    name = f"p-{managed}"
    return NodeType(
        name=f"{name}/1",
        pool=name,
        speedup=speedup,
        price=price,
        memory=ReplicaMemory(managed=managed, heap=heap),
    )


TYPES = tuple(a_type(managed) for managed in AMOUNTS)
MODEL = a_model(node_types=TYPES, max_replicas=4, service_mean=math.nan)
HERE = Deployment((0, 1, 0))


def points(*pairs):
    return [WorkPoint(memory=m, work=w, records=1000.0) for m, w in pairs]


def learn(belief, place, mean, *, miss_share=math.nan, heap=math.nan):
    counts = [0] * len(TYPES)
    counts[place] = 1
    return update(
        belief,
        MODEL,
        given=(),
        services=[
            ServiceMeasurement(
                node_type=TYPES[place].name, records=1000.0, mean=mean, variance=mean**2
            )
        ],
        deployment=Deployment(tuple(counts)),
        rate=math.nan,
        response_time=math.nan,
        state=StateMeasurement(miss_share=miss_share, heap=heap),
    )


@given(cpu=st.floats(1e-5, 1e-2), misses=st.floats(0, 10))
def test_the_fit_finds_what_the_points_were_made_of(cpu, misses):
    truth = WorkByMemory(cpu=cpu, misses=misses)

    fit = fit_work(points(*((m, truth.at(m)) for m in AMOUNTS)), math.nan)

    assert fit is not None
    assert fit.at(1024) == pytest.approx(truth.at(1024))


def test_work_that_grows_with_memory_is_noise_and_fitted_as_constant():
    fit = fit_work(points((128, 0.010), (256, 0.011)), math.nan)

    assert fit is not None
    assert fit.misses == 0
    assert fit.at(64) == fit.at(1024)


def test_work_that_falls_faster_than_misses_can_is_fitted_as_misses_alone():
    fit = fit_work(points((128, 0.010), (256, 0.002)), math.nan)

    assert fit is not None
    assert fit.cpu == 0
    assert 0.002 < fit.at(256) < fit.at(128) < 0.010


def test_with_one_amount_the_missed_reads_are_taken_for_the_share_of_work_that_misses_take():
    fit = fit_work(points((128, 0.010)), 0.4)

    assert fit is not None
    assert fit.at(128) == pytest.approx(0.010)
    assert fit.at(256) == pytest.approx(0.008)
    assert fit.at(64) == pytest.approx(0.014)


def test_with_one_amount_and_no_word_of_misses_nothing_is_known():
    assert fit_work(points((128, 0.010)), math.nan) is None


def test_a_memory_that_was_never_run_is_believed_to_be_as_fast_as_the_fit_says():
    belief = learn(learn(OperatorBelief(), 0, 0.012), 1, 0.008)

    model = believe(belief, MODEL, given=())

    slow, middle, fast = (each.speedup for each in model.node_types)
    assert middle / slow == pytest.approx(1.5)
    assert fast / slow == pytest.approx(2.0)  # 0.004 + 1.024 / 512


def test_a_memory_that_was_measured_keeps_what_was_measured():
    belief = OperatorBelief()
    for place, mean in enumerate((0.012, 0.008, 0.0075)):
        belief = learn(belief, place, mean)

    model = believe(belief, MODEL, given=())

    assert [0.012 / each.speedup for each in model.node_types] == pytest.approx(
        [0.012, 0.008, 0.0075]
    )


def test_the_belief_about_memory_survives_being_stored():
    belief = learn(OperatorBelief(), 0, 0.012, miss_share=0.3, heap=200.0)

    assert OperatorBelief.from_dict(belief.to_dict()) == belief


def test_replicas_with_more_memory_than_their_slots_use_teach_nothing():
    mixed = Deployment((1, 0, 1))
    services = [
        ServiceMeasurement(node_type=each.name, records=1000.0, mean=0.01, variance=math.nan)
        for each in (TYPES[0], TYPES[2])
    ]

    belief = update(
        OperatorBelief(), MODEL, given=(), services=services, deployment=mixed, rate=math.nan,
        response_time=math.nan,
    )  # fmt: skip

    assert set(belief.services) == {TYPES[0].name}


def test_a_fuller_heap_is_believed_at_once_and_an_emptier_one_slowly():
    belief = learn(OperatorBelief(), 0, 0.01, heap=100.0)

    assert learn(belief, 0, 0.01, heap=200.0).heap == 200.0
    assert 90.0 < learn(belief, 0, 0.01, heap=50.0).heap < 100.0
    assert learn(belief, 0, 0.01).heap == 100.0


def limits(
    types=TYPES,
    deployment=HERE,
    *,
    work: WorkByMemory | None = WorkByMemory(cpu=0.01, misses=0.0),  # noqa: B008  # frozen
    measured=(),
    heap=math.nan,
):
    limited = limit_memory(types, deployment, work=work, measured=measured, heap=heap)
    return [each.pool_limit for each in limited]


def test_memory_stays_while_nobody_knows_what_it_does():
    assert limits(work=None) == [0, None, 0]


def test_memory_changes_by_one_amount_or_to_one_that_was_measured():
    assert limits(deployment=Deployment((1, 0, 0))) == [None, None, 0]
    assert limits(deployment=Deployment((1, 0, 0)), measured=(512,)) == [None, None, None]


def test_no_memory_is_chosen_whose_heap_is_too_small_for_what_the_heap_holds():
    types = tuple(a_type(m, heap=2 * m) for m in AMOUNTS)

    assert limits(types, heap=127.0) == [None, None, None]
    assert limits(types, heap=129.0) == [0, None, None]


def test_more_memory_is_allowed_even_if_its_heap_is_still_too_small():
    types = tuple(a_type(m, heap=2 * m) for m in AMOUNTS)

    assert limits(types, heap=900.0) == [0, None, None]


def test_an_operator_without_a_choice_is_not_limited():
    types = tuple(replace(each, memory=None) for each in TYPES)

    assert limits(types, work=None) == [None, None, None]
    assert find_binding(types, HERE, heap=100.0) is None


@pytest.mark.parametrize(
    ("speedups", "heap", "expected"),
    [
        ((1.0, 1.0, 1.0), math.nan, Resource.CPU),
        ((0.5, 1.0, 1.5), math.nan, Resource.MEMORY),
        ((1.0, 1.0, 1.0), 390.0, Resource.HEAP),
        ((0.5, 1.0, 1.1), 390.0, Resource.CPU),
    ],
)
def test_the_resource_that_limits_is_the_one_that_does_more_for_the_money(speedups, heap, expected):
    types = [
        a_type(m, heap=heap_of, price=price, speedup=speed)
        for m, heap_of, price, speed in zip(
            AMOUNTS, (700, 800, 900), (1.0, 1.2, 1.4), speedups, strict=True
        )
    ]

    binding = find_binding(types, HERE, heap=heap)

    assert binding is not None
    assert binding.resource is expected


def test_work_is_fitted_over_all_node_types_of_an_amount():
    types = (TYPES[0], replace(TYPES[0], name="p-128/2", speedup=2.0), TYPES[1])
    model = replace(MODEL, node_types=types)
    belief = OperatorBelief()
    for each, mean, counts in zip(
        types, (0.012, 0.006, 0.008), ((1, 1, 0), (1, 1, 0), (0, 0, 1)), strict=True
    ):
        belief = update(
            belief,
            model,
            given=(),
            services=[
                ServiceMeasurement(
                    node_type=each.name, records=1000.0, mean=mean, variance=math.nan
                )
            ],
            deployment=Deployment(counts),
            rate=math.nan,
            response_time=math.nan,
        )

    work = estimate_work(belief, types)

    assert work is not None
    assert (work.at(128), work.at(256)) == pytest.approx((0.012, 0.008))
