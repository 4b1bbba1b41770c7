"""The words and the page of a bill."""

import dataclasses

import numpy as np
import pytest

from weir_simulator.bill.bill import Assumption, Bill, BillLine, OtherObjective, Range
from weir_simulator.reports.bill import COLUMNS, render_bill, rows, sentences

SLOTS = 4000


def a_line(name, low, value, high, *, over=0.02):
    return BillLine(
        name=name,
        cost=Range(value, low, high),
        over=Range(over, over, over),
        restarts=1.25,
        peak=8,
        prices=np.full(SLOTS, value),
        responses=np.full(SLOTS, 0.2),
        replicas=np.full(SLOTS, 8.0),
    )


def a_bill(would=(0.9, 1.0, 1.1), *, was=2.0, **changes):
    bill = Bill(
        job="trips",
        bound=0.5,
        statistic="mean",
        begin=1_790_000_000.0,
        slot=60.0,
        rates=np.full(SLOTS, 100.0),
        lines=(a_line("as it was", was, was, was, over=0.1), a_line("planner", *would)),
        refusals={"mdp": "it needs a table of 10 GB"},
        assumptions=(Assumption(assumed="a", otherwise="b", cost=1.5, over=0.3),),
        objectives=(OtherObjective(bound=0.25, cost=1.2, over=0.04),),
        error=0.031,
        blocks=12,
        notes=("Something was left out",),
    )
    return dataclasses.replace(bill, **changes)


@pytest.mark.parametrize(
    ("would", "sentence"),
    [
        ((0.9, 1.0, 1.1), "50% less than it cost, with 2.0% of the time over the objective "
                          "instead of 10.0%"),
        ((2.4, 2.6, 2.8), "30% more than it cost"),
        ((5.0, 6.0, 7.0), "3.0 times as much as it cost"),
        ((1.9, 2.1, 2.3), "as much as it cost, within the error"),
    ],
)  # fmt: skip
def test_the_verdict_is_no_more_certain_than_the_range(would, sentence):
    assert sentence in next(sentences(a_bill(would)))


def test_a_row_has_each_number_with_its_range():
    was, would = rows(a_bill(), between=" | ")

    assert was == ["as it was", "2.000", "1,460", "10.0%", "1.2", "8"]
    assert would[1:3] == ["1.000 | 0.900 to 1.100", "730 | 657 to 803"]
    assert len(was) == len(would) == len(COLUMNS)


def test_what_is_assumed_refused_and_left_out_is_said():
    text = "\n".join(sentences(a_bill()))

    assert "Assumed: a. If b: 1.500 per hour, 30.0% over the objective." in text
    assert "With 250 ms as the objective: 1.200 per hour, 4.0% over it." in text
    assert "mdp cannot scale this job: it needs a table of 10 GB" in text
    assert "Something was left out." in text
    assert "missed the work by at most 3.1%" in text


def test_the_page_holds_all_of_it_and_fetches_nothing():
    line = a_line("as it was", 2.0, 2.0, 2.0)
    responses = np.append(np.full(SLOTS - 2, 0.1), [np.nan, np.inf])
    bill = a_bill(
        lines=(dataclasses.replace(line, responses=responses), a_line("planner", 1, 1, 1))
    )

    page = render_bill(bill)

    for text in ("Estimate for trips", "Arrivals", "Deployment", "Other objectives", "2.8 days"):
        assert text in page
    assert 'src="http' not in page
