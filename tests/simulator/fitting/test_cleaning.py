import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.simulator.fitting.known_job import a_model, a_structure
from weir_policies.model.estimation import ServiceMeasurement
from weir_policies.policy import ChangeKind
from weir_simulator.fitting.cleaning import clean
from weir_simulator.fitting.samples import ChangeSample, IntervalSample, OperatorSample, Samples

SAMPLE = OperatorSample(
    deployment={"small/1": 1},
    arrived=30.0,
    taken=30.0,
    given=30.0,
    services=(ServiceMeasurement(node_type="small/1", records=1800, mean=0.02, variance=2e-4),),
    response_time=0.05,
    utilisation=(0.6,),
)


def an_interval(sample=SAMPLE, *, time=60.0, seconds=60.0, name="op"):
    return IntervalSample(time=time, seconds=seconds, operators={name: sample})


@pytest.mark.parametrize(
    "fields",
    [
        {"deployment": {}},
        {"deployment": {"small/1": -1}},
        {"deployment": {"huge/9": 1}},
        {"arrived": -1.0},
        {"taken": math.inf},
        {"taken": 0.0},
        {"utilisation": (1.4,)},
        {"arrived": 0.0, "taken": 0.0, "given": 0.0, "utilisation": (0.9,)},
        {"response_time": -0.1},
    ],
)
def test_a_sample_that_cannot_be_is_dropped(fields):
    samples = Samples(intervals=(an_interval(replace(SAMPLE, **fields)),))

    cleaned = clean(samples, a_structure(a_model()))

    assert cleaned.intervals[0].operators == {}


def test_what_is_only_unknown_stays():
    unknown = replace(
        SAMPLE, arrived=math.nan, given=math.nan, response_time=math.nan, utilisation=(math.nan,)
    )

    cleaned = clean(Samples(intervals=(an_interval(unknown),)), a_structure(a_model()))

    assert cleaned.intervals[0].operators["op"].taken == 30.0


@pytest.mark.parametrize(
    "fields",
    [{"mean": math.nan}, {"mean": 0.0}, {"variance": -1.0}, {"records": math.inf}, {"records": 0}],
)
def test_a_service_time_that_cannot_be_goes_alone(fields):
    bad = replace(SAMPLE.services[0], **fields)
    samples = Samples(intervals=(an_interval(replace(SAMPLE, services=(bad, *SAMPLE.services))),))

    cleaned = clean(samples, a_structure(a_model()))

    assert cleaned.intervals[0].operators["op"].services == SAMPLE.services


def test_intervals_come_in_order_and_each_time_once():
    times = (120.0, 60.0, 120.0, math.nan)

    cleaned = clean(
        Samples(intervals=tuple(an_interval(time=time) for time in times)), a_structure(a_model())
    )

    assert [each.time for each in cleaned.intervals] == [60.0, 120.0]


def test_an_unknown_operator_and_an_endless_change_are_dropped():
    change = ChangeSample(time=1.0, kind=ChangeKind.RESCALE, downtime=math.inf)
    samples = Samples(intervals=(an_interval(name="nobody"),), changes=(change,))

    cleaned = clean(samples, a_structure(a_model()))

    assert cleaned.intervals[0].operators == {}
    assert cleaned.changes == ()


anything = st.floats(allow_nan=True, allow_infinity=True)


@settings(max_examples=30)
@given(
    st.builds(
        OperatorSample,
        deployment=st.dictionaries(st.sampled_from(["small/1", "x"]), st.integers(-1, 3)),
        arrived=anything,
        taken=anything,
        given=anything,
        response_time=anything,
        utilisation=st.lists(anything, max_size=3).map(tuple),
        services=st.lists(
            st.builds(
                ServiceMeasurement,
                node_type=st.sampled_from(["small/1", "x"]),
                records=anything,
                mean=anything,
                variance=anything,
            ),
            max_size=3,
        ).map(tuple),
    )
)
def test_no_garbage_gets_through(sample):
    cleaned = clean(Samples(intervals=(an_interval(sample),)), a_structure(a_model()))

    for kept in cleaned.intervals[0].operators.values():
        assert set(kept.deployment) == {"small/1"}
        assert not any(rate < 0 for rate in (kept.arrived, kept.taken, kept.given))
        assert not kept.response_time <= 0
        assert all(each.mean > 0 and each.records > 0 for each in kept.services)
