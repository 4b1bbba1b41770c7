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
    ("fields", "reason"),
    [
        ({"deployment": {}}, "an impossible deployment"),
        ({"deployment": {"small/1": -1}}, "an impossible deployment"),
        ({"deployment": {"huge/9": 1}}, "an impossible deployment"),
        ({"arrived": -1.0}, "a negative or infinite rate"),
        ({"taken": math.inf}, "a negative or infinite rate"),
        ({"taken": 0.0}, "records out and none in"),
        ({"utilisation": (1.4,)}, "a utilisation outside [0, 1]"),
        (
            {"arrived": 0.0, "taken": 0.0, "given": 0.0, "utilisation": (0.9,)},
            "a busy operator without records",
        ),
        ({"response_time": -0.1}, "a negative or infinite response time"),
    ],
)
def test_a_sample_that_cannot_be_is_dropped_with_its_reason(fields, reason):
    samples = Samples(intervals=(an_interval(replace(SAMPLE, **fields)),))

    cleaned = clean(samples, a_structure(a_model()))

    assert cleaned.dropped == {reason: 1}
    assert cleaned.samples.intervals[0].operators == {}
    assert cleaned.sentence == f"Dropped 1 with {reason}"


def test_what_is_only_unknown_stays():
    unknown = replace(
        SAMPLE, arrived=math.nan, given=math.nan, response_time=math.nan, utilisation=(math.nan,)
    )

    cleaned = clean(Samples(intervals=(an_interval(unknown),)), a_structure(a_model()))

    assert cleaned.dropped == {}
    assert cleaned.sentence == ""
    assert cleaned.samples.intervals[0].operators["op"].taken == 30.0


@pytest.mark.parametrize(
    "fields", [{"mean": math.nan}, {"mean": 0.0}, {"variance": -1.0}, {"records": math.inf}]
)
def test_a_service_time_that_cannot_be_goes_alone(fields):
    bad = replace(SAMPLE.services[0], **fields)
    samples = Samples(intervals=(an_interval(replace(SAMPLE, services=(bad, *SAMPLE.services))),))

    cleaned = clean(samples, a_structure(a_model()))

    assert cleaned.samples.intervals[0].operators["op"].services == SAMPLE.services
    assert cleaned.dropped == {"an impossible service time": 1}


def test_a_replica_that_served_nothing_is_no_mistake():
    idle = ServiceMeasurement(node_type="small/1", records=0, mean=math.nan, variance=math.nan)
    samples = Samples(intervals=(an_interval(replace(SAMPLE, services=(idle,))),))

    cleaned = clean(samples, a_structure(a_model()))

    assert cleaned.dropped == {}


def test_intervals_come_in_order_and_each_time_once():
    times = (120.0, 60.0, 120.0, math.nan)

    cleaned = clean(
        Samples(intervals=tuple(an_interval(time=time) for time in times)), a_structure(a_model())
    )

    assert [each.time for each in cleaned.samples.intervals] == [60.0, 120.0]
    assert cleaned.dropped == {"no time or no length": 1, "the time of another": 1}


def test_an_unknown_operator_and_an_endless_change_are_dropped():
    change = ChangeSample(time=1.0, kind=ChangeKind.RESCALE, downtime=math.inf)
    samples = Samples(intervals=(an_interval(name="nobody"),), changes=(change,))

    cleaned = clean(samples, a_structure(a_model()))

    assert cleaned.dropped == {
        "an unknown operator": 1,
        "a change of negative or infinite length": 1,
    }
    assert cleaned.samples.changes == ()


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

    for kept in cleaned.samples.intervals[0].operators.values():
        assert set(kept.deployment) == {"small/1"}
        assert not any(rate < 0 for rate in (kept.arrived, kept.taken, kept.given))
        assert not kept.response_time <= 0
        assert all(each.mean > 0 and each.records > 0 for each in kept.services)
