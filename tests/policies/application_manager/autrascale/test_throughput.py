"""The TO solver on jobs whose truth is known."""

import pytest

from benchmarks.papers.contention import word_count, yahoo
from weir_policies.application_manager.autrascale import throughput
from weir_policies.application_manager.autrascale.throughput import (
    ThroughputTrial,
    choose_best,
)
from weir_policies.application_manager.autrascale.values import Measurement


def search(truth, rate, *, start, cap=10, **options):
    state = throughput.begin(truth.measure(start, rate), truth.bounds)
    while not state.over:
        seen = truth.measure(state.target, rate)
        state = throughput.advance(state, seen, truth.bounds, cap=cap, **options)
    return state


def test_word_count_from_one_replica_each_ends_where_the_paper_does():
    found = search(word_count(), 350e3, start=(1, 1, 1, 1))

    assert found.target == (3, 4, 12, 10)
    assert len(found.tried) - 1 == 2
    assert not found.limited


def test_a_limit_outside_ends_the_search_with_the_leanest_of_the_fastest():
    found = search(yahoo(limit=34e3), 60e3, start=(1, 1, 1, 1, 1))

    assert found.limited
    assert len(found.tried) - 1 <= 4
    assert yahoo(limit=34e3).find_throughput(found.target) == pytest.approx(34e3, rel=0.02)


def test_ds2_goes_on_to_the_cap_where_something_outside_limits_it():
    found = search(yahoo(limit=34e3), 60e3, start=(1,) * 5, cap=9, stop_early=False)

    assert len(found.tried) - 1 == 9
    assert sum(found.target) > sum(search(yahoo(limit=34e3), 60e3, start=(1,) * 5).target)


def test_throughputs_within_two_per_cent_are_equal():
    lean, wide = ThroughputTrial(parallelism=(2, 3), throughput=99.0), ThroughputTrial(
        parallelism=(9, 9), throughput=100.0
    )  # fmt: skip
    slow = ThroughputTrial(parallelism=(1, 1), throughput=97.0)

    assert choose_best((slow, wide, lean)) == (2, 3)


def test_an_operator_that_did_nothing_keeps_its_replicas():
    idle = Measurement(
        parallelism=(2, 5),
        rate=100.0,
        throughput=0.0,
        demands=(100.0, 100.0),
        true_rates=(20.0, 0.0),
        latency=1.0,
    )

    assert throughput.count_needed(idle, (9, 9)) == (5, 5)


def test_nothing_is_asked_for_beyond_the_most():
    seen = word_count().measure((1, 1, 1, 1), 350e3)

    assert throughput.count_needed(seen, (2, 2, 2, 2)) == (2, 2, 2, 2)


@pytest.mark.parametrize("start", [(36, 32, 24, 20), (40, 40, 40, 40)])
def test_from_more_replicas_than_needed_it_goes_down_to_what_it_finds_from_below(start):
    truth = word_count()
    from_below = search(truth, 350e3, start=(1, 1, 1, 1)).target

    found = search(truth, 350e3, start=start)

    assert throughput.count_needed(truth.measure(start, 350e3), truth.bounds) >= (10, 10, 15, 12)
    assert sum(found.target) <= sum(from_below) + 2
    assert truth.find_throughput(found.target) >= 350e3
    assert not found.limited


def test_where_nothing_can_go_the_way_down_ends_at_once():
    found = search(word_count(), 350e3, start=(3, 4, 12, 10))

    assert found.target == (3, 4, 12, 10)
    assert len(found.tried) == 2
