"""The words of a frontier: its prices, and why there are none."""

from tests.simulator.builders import a_frontier
from weir_simulator.reports import frontier


def test_a_bound_that_nothing_keeps_has_its_sentence():
    sentences = list(frontier.explain_gaps(a_frontier()))

    assert sentences == [
        "No deployment meets 20 ms in more than 88.00 % of the slots: "
        "even all replicas on the fastest node type do not."
    ]


def test_an_interval_is_shown_where_chance_has_a_part():
    by_chance = a_frontier(spread=0.1)
    certain = a_frontier()

    assert "±" in frontier.price(by_chance.at(0.1, 1.0))
    assert frontier.price(certain.at(0.1, 1.0)) == "2.00"
