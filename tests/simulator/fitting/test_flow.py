import math

import numpy as np
import pytest

from weir_policies.model.dataflow import Dataflow, Edge
from weir_simulator.fitting.flow import fit_flow, trace_arrivals
from weir_simulator.fitting.samples import IntervalSample, OperatorSample


def seen(*, end, seconds=60.0, **rates):
    """Return an interval; a rate is what arrived, was taken and was given out."""
    return IntervalSample(
        time=end,
        seconds=seconds,
        operators={
            name: OperatorSample(deployment={"t": 1}, arrived=rate, taken=rate, given=rate)
            for name, rate in rates.items()
        },
    )


def test_one_interval_per_slot_is_the_trace():
    intervals = [seen(end=60.0 * n, op=rate) for n, rate in enumerate([3.0, 5.0, 4.0], start=1)]

    trace = trace_arrivals(intervals, "op", slot=60.0)

    assert trace is not None
    assert trace.rates.tolist() == [3.0, 5.0, 4.0]
    assert trace.filled == 0


def test_a_gap_is_filled_along_a_line_and_counted():
    intervals = [seen(end=60.0, op=10.0), seen(end=240.0, op=40.0)]

    trace = trace_arrivals(intervals, "op", slot=60.0)

    assert trace is not None
    assert trace.rates == pytest.approx([10.0, 20.0, 30.0, 40.0])
    assert trace.filled == 2


def hours(first, last):
    """Return an interval an hour, between two hours."""
    return [seen(end=3600.0 * (hour + 1), seconds=3600.0, op=hour) for hour in range(first, last)]


@pytest.mark.parametrize(
    ("intervals", "begin", "size"),
    [
        (hours(0, 30) + hours(35, 60), 0, 60),
        (hours(0, 30) + hours(36, 60), 36, 24),
        (hours(0, 30) + hours(36, 59), 0, 30),
        (hours(0, 23) + hours(36, 40), 36, 4),
    ],
    ids=["five hours are joined", "six are not", "less than a day follows", "no part lasts a day"],
)
def test_a_long_hole_is_not_filled_and_the_last_part_that_lasts_a_day_is_the_trace(
    intervals, begin, size
):
    trace = trace_arrivals(intervals, "op", slot=3600.0)

    assert trace is not None
    assert trace.begin == 3600.0 * begin
    assert trace.rates == pytest.approx(np.arange(begin, begin + size))


@pytest.mark.parametrize("slot", [30.0, 60.0, 300.0])
def test_slots_of_another_length_carry_the_same_records(slot):
    rates = [3.0, 5.0, 4.0, 9.0, 1.0]
    intervals = [seen(end=60.0 * n, op=rate) for n, rate in enumerate(rates, start=1)]

    trace = trace_arrivals(intervals, "op", slot=slot)

    assert trace is not None
    assert trace.rates.sum() * slot == pytest.approx(sum(rates) * 60.0)


def test_ticks_that_come_late_begin_no_slot_of_their_own():
    ends = [60.4, 120.1, 181.0, 240.2]
    intervals = [seen(end=end, op=5.0) for end in ends]

    trace = trace_arrivals(intervals, "op", slot=60.0)

    assert trace is not None
    assert trace.rates == pytest.approx([5.0] * 4)


def test_arrivals_that_nobody_measured_are_no_trace():
    assert trace_arrivals([seen(end=60.0, op=math.nan)], "op", slot=60.0) is None


CHAIN = Dataflow(operators=("a", "b"), edges=(Edge(source="a", target="b"),))


def test_a_selectivity_comes_back_out_of_noise():
    rng = np.random.default_rng(1)
    intervals = [
        seen(end=60.0 * n, a=rate, b=rate * 0.4 * rng.lognormal(0, 0.1))
        for n, rate in enumerate(rng.uniform(50, 150, 300).tolist(), start=1)
    ]

    [edge] = fit_flow(intervals, CHAIN)[0].edges

    # The mean of the factor, not its median.
    assert edge.selectivity == pytest.approx(0.4 * math.exp(0.005), rel=0.02)


def test_an_operator_with_two_feeders_gets_what_each_gives_out():
    graph = Dataflow(
        operators=("a", "b", "c"),
        edges=(Edge(source="a", target="c"), Edge(source="b", target="c")),
    )
    interval = IntervalSample(
        time=60.0,
        seconds=60.0,
        operators={
            "a": OperatorSample(deployment={"t": 1}, arrived=10, taken=10, given=20),
            "b": OperatorSample(deployment={"t": 1}, arrived=10, taken=10, given=5),
            "c": OperatorSample(deployment={"t": 1}, arrived=25, taken=25),
        },
    )

    found, _ = fit_flow([interval], graph)

    assert [each.selectivity for each in found.edges] == [2.0, 0.5]
    assert found.spread_rates({"a": 10, "b": 10})["c"] == 25


def test_an_edge_on_which_nothing_was_seen_is_assumed():
    found, _ = fit_flow([seen(end=60.0, a=0.0, b=0.0)], CHAIN)

    assert found == CHAIN
