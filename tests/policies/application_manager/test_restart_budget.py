import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weir_policies.application_manager.restart_budget import (
    DAY,
    RestartBudget,
    RestartTokens,
)
from weir_policies.errors import ParameterError, StateError

HOUR = 3600.0
BUDGET = RestartBudget(size=3, refill_every=HOUR)


def take(tokens, times, budget=BUDGET):
    for now in times:
        tokens = tokens.take(budget, now)
    return tokens


def test_a_bucket_allows_a_burst_of_its_size_and_then_one_an_hour():
    empty = take(BUDGET.fill(0.0), [0.0, 1.0, 2.0])

    assert empty.available(BUDGET, 3.0) == 0
    assert empty.available(BUDGET, HOUR - 1) == 0
    assert empty.available(BUDGET, HOUR) == 1
    assert empty.available(BUDGET, 2 * HOUR) == 2
    assert empty.available(BUDGET, 99 * HOUR) == 3


def test_a_full_bucket_earns_nothing_in_advance():
    bucket = BUDGET.fill(0.0).refilled(BUDGET, 10.5 * HOUR)

    spent = take(bucket, [10.5 * HOUR])

    assert spent.available(BUDGET, 11.0 * HOUR) == 2
    assert spent.available(BUDGET, 11.5 * HOUR) == 3


def test_a_part_of_an_hour_is_not_lost_when_a_token_comes_back():
    empty = take(BUDGET.fill(0.0), [0.0, 0.0, 0.0])

    later = empty.refilled(BUDGET, 1.5 * HOUR)

    assert later.available(BUDGET, 2.0 * HOUR) == 2


def test_the_day_is_capped_whatever_the_bucket_holds():
    budget = RestartBudget(size=3, refill_every=HOUR, max_per_day=4)

    used = take(budget.fill(0.0), [0.0, HOUR, 2 * HOUR, 3 * HOUR], budget)

    assert used.available(budget, 20 * HOUR) == 0
    assert used.wait(budget, 20 * HOUR) == pytest.approx(4 * HOUR)
    assert used.available(budget, DAY) == 1


def test_the_wait_for_the_next_token_is_told():
    empty = take(BUDGET.fill(0.0), [0.0, 0.0, 0.0])

    assert empty.wait(BUDGET, 600.0) == pytest.approx(3000.0)
    assert BUDGET.fill(0.0).wait(BUDGET, 0.0) == math.inf


@given(
    steps=st.lists(st.floats(0, 5 * HOUR), max_size=40),
    cap=st.one_of(st.none(), st.integers(0, 8)),
)
def test_an_allowed_wait_is_over_when_it_says(steps, cap):
    budget = RestartBudget(size=2, refill_every=HOUR, max_per_day=cap)
    tokens, now = budget.fill(0.0), 0.0
    for step in steps:
        now += step
        if tokens.available(budget, now):
            tokens = tokens.take(budget, now)
    allowed, wait = tokens.available(budget, now), tokens.wait(budget, now)

    if wait < math.inf:
        assert tokens.available(budget, now + wait + 1e-3) > allowed
        assert tokens.available(budget, now + wait - 1e-3) <= allowed


def test_an_empty_bucket_gives_nothing():
    empty = take(BUDGET.fill(0.0), [0.0, 0.0, 0.0])

    with pytest.raises(ParameterError, match="empty restart budget"):
        empty.take(BUDGET, 1.0)


def test_a_clock_that_went_back_gives_no_tokens():
    empty = take(BUDGET.fill(10 * HOUR), [10 * HOUR] * 3)

    assert empty.available(BUDGET, 0.0) == 0


@pytest.mark.parametrize(
    "wrong", [{"size": 0}, {"refill_every": 0.0}, {"refill_every": math.nan}, {"max_per_day": -1}]
)
def test_a_budget_that_cannot_be_is_refused(wrong):
    with pytest.raises(ParameterError, match="Expected"):
        RestartBudget(**wrong)


def test_tokens_survive_storage_as_json():
    tokens = take(BUDGET.fill(0.1), [0.3])

    restored = RestartTokens.from_dict(json.loads(json.dumps(tokens.to_dict())))

    assert restored == tokens
    with pytest.raises(StateError, match="version 1"):
        RestartTokens.from_dict({"version": 2})
