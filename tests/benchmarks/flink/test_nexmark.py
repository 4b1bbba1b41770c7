"""What Nexmark's benchmark makes of its runs."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.flink.nexmark import QueryOutcome, figures_of


def an_outcome(query: str = "q0", **fields: Any) -> QueryOutcome:
    given: dict[str, Any] = {"done": 3, "lost": 0, "wrong": 0, "compared": 100, "load": 1.0}
    return QueryOutcome(query=query, **given | fields)


@pytest.mark.parametrize(
    ("fields", "done", "exact"),
    [
        ({}, True, True),
        ({"done": 2}, False, True),
        ({"lost": 1}, True, False),
        ({"wrong": 1}, True, False),
        ({"compared": 0}, True, False),
    ],
    ids=["all is well", "a change failed", "a row is lost", "a row is wrong", "nothing to compare"],
)
def test_one_query_that_fails_fails_the_goal_of_all(fields, done, exact):
    outcomes = [an_outcome("q0"), an_outcome("q1", **fields)]

    figures = {each.figure: each for each in figures_of(outcomes)}

    assert figures["changes that succeeded"].holds is done
    assert figures["rows lost or wrong after the changes"].holds is exact
