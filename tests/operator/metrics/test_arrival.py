from __future__ import annotations

import math

import pytest

from weir_operator.metrics.rates import arrival_rates, pass_down
from weir_policies.model.dataflow import Dataflow, Edge

NAN = math.nan


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
