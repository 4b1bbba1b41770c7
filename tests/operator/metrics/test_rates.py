from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weir_operator.metrics.rates import (
    UNKNOWN,
    arrival_rates,
    bound_of,
    counted_rise,
    counter_rise,
    is_poisoned,
    pass_down,
    quantile,
    settled_rise,
    slope,
)
from weir_operator.metrics.source import Series
from weir_policies.model.dataflow import Dataflow, Edge

NAN = math.nan


def a_series(*values: float) -> Series:
    """Sampled every 2 s."""
    times = tuple(2.0 * i for i in range(len(values)))
    return Series(name="x", labels={}, times=times, values=values)


@pytest.mark.parametrize("series", [None, a_series(), a_series(5), a_series(NAN, 5, NAN)])
def test_fewer_than_two_numbers_tell_no_rise(series):
    assert math.isnan(counter_rise(series).rate)
    assert math.isnan(settled_rise(series).rate)
    assert math.isnan(slope(series))


def test_samples_that_are_no_numbers_are_left_out_of_a_rise():
    rise = counter_rise(a_series(NAN, 10, math.inf, 30))

    assert rise.amount == 20
    assert rise.seconds == 4


def test_busy_time_that_is_set_back_is_no_restart():
    # Idle from the second sample on: Flink counts the idle time at the fourth.
    rise = settled_rise(a_series(1000, 3000, 5000, 1000))

    assert rise.amount == 0


@pytest.mark.parametrize(
    ("values", "poisoned"),
    [
        ((1, 2, 3), False),
        ((NAN, NAN, 3), False),
        ((NAN,), False),
        ((1, NAN, 3), True),
        ((NAN, 1, math.inf), True),
    ],
)
def test_nan_is_poison_only_after_a_number(values, poisoned):
    assert is_poisoned(a_series(*values)) is poisoned


@given(
    start=st.integers(1001, 10**6),
    steps=st.lists(st.integers(0, 1000), min_size=1, max_size=20),
    restart=st.integers(0, 20),
)
def test_a_restart_between_any_two_samples_loses_nothing_that_was_counted(start, steps, restart):
    values = [start]
    for i, step in enumerate(steps):
        values.append(step if i == restart else values[-1] + step)

    rise = counter_rise(a_series(*values))

    assert rise.amount == sum(steps)


def test_what_is_nearly_idle_is_not_taken_for_busy_between_two_counts_of_its_idle_time():
    # Flink counts an idle stretch every five seconds: until then, all of it looks busy.
    times = tuple(map(float, range(44)))
    values = tuple(200 + 1000 * (time % 5) for time in times)
    sawtooth = Series(name="x", labels={}, times=times, values=values)

    rise = counted_rise(sawtooth)

    assert rise.amount == 0
    assert counted_rise(a_series(1000, 2000)) is UNKNOWN


def test_what_is_busy_all_the_time_is_seen_so():
    rise = counted_rise(a_series(*(1000 * place for place in range(45))))

    assert rise.rate == pytest.approx(500)


def test_a_bucket_that_fell_behind_a_smaller_one_is_read_as_equal_to_it():
    # Replicas are scraped at different moments.
    assert quantile(0.5, {100.0: 60.0, 200.0: 58.0, math.inf: 100.0}) == pytest.approx(250 / 3)


@pytest.mark.parametrize(
    ("label", "bound"),
    [
        ("10", 10.0),
        ("10.0", 10.0),
        ("2_5", 2.5),
        ("_Inf", math.inf),
        ("+Inf", math.inf),
        ("Inf", math.inf),
    ],
)
def test_a_bound_is_read_as_flink_and_as_prometheus_write_it(label, bound):
    assert bound_of(label) == bound


def test_a_label_that_is_no_bound_is_not_taken_for_one():
    assert math.isnan(bound_of("fast"))
    assert math.isnan(bound_of(""))


def a_dataflow(**upstream: tuple[str, ...]) -> Dataflow:
    return Dataflow(
        operators=tuple(upstream),
        edges=tuple(
            Edge(source=feeder, target=name)
            for name, feeders in upstream.items()
            for feeder in feeders
        ),
    )


CHAIN = a_dataflow(gen=(), split=("gen",), out=("split",))


def arrivals(layout, *, processed, emitted, growth=NAN, back_pressure=0.0):
    return arrival_rates(
        layout,
        processed=processed,
        emitted=emitted,
        backlog_growth={
            name: growth if name in layout.sources else NAN for name in layout.operators
        },
        back_pressure=dict.fromkeys(layout.operators, back_pressure),
    )


@pytest.mark.parametrize(
    ("out", "growth", "arrived"),
    [
        pytest.param(150, NAN, (50, 50, 150), id="no backlog: what was taken in"),
        pytest.param(150, 50, (100, 100, 300), id="growing: through the selectivities"),
        pytest.param(50, -20, (30, 30, 30), id="worked off: not counted"),
        pytest.param(50, -51, (0, 0, 0), id="shrinking faster than it is read: none"),
    ],
)
def test_the_growth_of_a_backlog_counts_as_arrivals_at_every_operator(out, growth, arrived):
    found = arrivals(
        CHAIN,
        processed={"gen": 50, "split": 50, "out": out},
        emitted={"gen": 50, "split": out, "out": 0},
        growth=growth,
    )

    assert tuple(found.values()) == arrived


@pytest.mark.parametrize(
    ("back_pressure", "growth", "arrived"),
    [
        pytest.param(0.35, NAN, 600, id="held back: what it reads while nothing blocks it"),
        pytest.param(0.05, NAN, 390, id="hardly held back: what it reads"),
        pytest.param(NAN, NAN, 390, id="not known: what it reads"),
        pytest.param(0.99, NAN, 780, id="always held back: at most twice what it reads"),
        pytest.param(0.99, 210, 600, id="held back with a backlog: the backlog says it"),
    ],
)
def test_a_source_that_is_held_back_has_unmet_demand(back_pressure, growth, arrived):
    rates = {"gen": 390, "split": 390, "out": 390}

    found = arrivals(
        CHAIN, processed=rates, emitted=rates, growth=growth, back_pressure=back_pressure
    )

    assert tuple(found.values()) == pytest.approx((arrived, arrived, arrived))


def test_a_backlog_that_vanishes_leaves_unknown_what_arrived_and_what_reaches_the_operators():
    found = arrivals(
        CHAIN,
        processed={"gen": 1000, "split": 1000, "out": 1000},
        emitted={"gen": 1000, "split": 1000, "out": 0},
        growth=-1500,
    )

    assert all(math.isnan(rate) for rate in found.values())


def test_a_side_output_is_measured_where_it_arrives():
    layout = a_dataflow(gen=(), main=("gen",), alerts=("gen",))

    found = arrivals(
        layout,
        processed={"gen": 100, "main": 100, "alerts": 5},
        emitted={"gen": 105, "main": 0, "alerts": 0},
        growth=100,
    )

    assert found == {"gen": 200, "main": 200, "alerts": 10}


def test_a_join_gets_what_all_its_feeders_give_out():
    layout = a_dataflow(left=(), right=(), join=("left", "right"))

    found = arrivals(
        layout,
        processed={"left": 10, "right": 30, "join": 40},
        emitted={"left": 10, "right": 30, "join": 0},
    )

    assert found["join"] == 40


@pytest.mark.parametrize("unknown", ["processed", "emitted"])
def test_an_unknown_rate_leaves_unknown_what_arrives_behind_it(unknown):
    rates = {"gen": 50.0, "split": 50.0, "out": 50.0}
    holed = rates | {"split": NAN}

    found = arrivals(
        CHAIN,
        processed=holed if unknown == "processed" else rates,
        emitted=holed if unknown == "emitted" else rates,
    )

    assert found["split"] == 50
    assert math.isnan(found["out"])


def test_a_feeder_that_is_blocked_altogether_tells_nothing_of_its_selectivity():
    found = arrivals(
        CHAIN,
        processed={"gen": 0, "split": 0, "out": 0},
        emitted={"gen": 0, "split": 0, "out": 0},
        growth=50,
    )

    assert found["gen"] == 50
    assert math.isnan(found["split"])


def test_what_waits_at_a_source_reaches_only_the_operators_behind_it_by_their_selectivities():
    layout = a_dataflow(a=(), b=(), of_a=("a",), of_b=("b",), join=("of_a", "of_b"))
    rates = {"a": 10, "b": 40, "of_a": 10, "of_b": 40, "join": 25}
    emitted = {"a": 10, "b": 40, "of_a": 5, "of_b": 20, "join": 0}

    waiting = pass_down({"a": 300.0, "b": 0.0}, layout, processed=rates, emitted=emitted)

    assert waiting == {"a": 300, "b": 0, "of_a": 300, "of_b": 0, "join": 150}


def test_how_much_will_arrive_is_unknown_behind_a_source_that_reports_no_backlog():
    layout = a_dataflow(a=(), b=(), of_a=("a",), join=("of_a", "b"))
    rates = {"a": 10, "b": 40, "of_a": 10, "join": 50}

    waiting = pass_down({"a": 300.0, "b": NAN}, layout, processed=rates, emitted=rates)

    assert waiting["of_a"] == 300
    assert math.isnan(waiting["join"])
