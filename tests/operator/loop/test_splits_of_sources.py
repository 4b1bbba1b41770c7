"""A source has no more replicas than its input has parts."""

import math
from dataclasses import replace

import numpy as np
import pytest

from tests.operator.loop.am_setting import TYPES, a_deployment
from tests.operator.metrics.builders import Load, a_layout_of, a_replica, a_window
from weir_operator.loop.decide import OperatorManager
from weir_operator.loop.proposals import (
    Proposal,
    cut_to_splits,
    describe_splits,
    find_binding,
)
from weir_operator.metrics import names
from weir_operator.metrics.measurement import measure
from weir_operator.metrics.source import Series, Window
from weir_policies import registry
from weir_policies.kernels.explaining import explain_rule
from weir_policies.model.node_types import Deployment
from weir_policies.model.sharing import predict_utilisation
from weir_policies.policy import ChangeKind, Expectation, Neighbourhood
from weir_policies.testing import LARGE, WIDE, a_decision, a_model, an_observation


def measure_source(*drained, partitions=(), **layout):
    """Measure a source with a replica for each of `drained`."""
    job = a_layout_of(
        *(a_replica(f"s{place}", "source", WIDE.name) for place in range(len(drained))),
        a_replica("k", "sink", WIDE.name),
        fed={"sink": "source"},
        drained=frozenset(f"s{place}" for place, ended in enumerate(drained) if ended),
        **layout,
    )
    window = a_window(job, {"source": Load(rate=10.0), "sink": Load(rate=10.0)})
    own = next(each.labels for each in window.series if each.labels.get("tm_id") == "s0")
    offsets = [
        Series(
            name=names.PARTITION_OFFSET,
            labels={**own, "topic": topic, "partition": partition},
            times=(window.end,),
            values=(7.0,),
        )
        for topic, partition in partitions
    ]
    whole = Window(start=window.start, end=window.end, series=(*window.series, *offsets))
    return measure(whole, job)


def a_source(*drained, **options):
    return measure_source(*drained, **options).operators["source"]


def a_manager():
    return OperatorManager(
        model=a_model(name="source"),
        given=[each.name for each in TYPES],
        policy=registry.build("queueing", rng=np.random.default_rng(1)),
        fixed=None,
    )


def observed(app, deployment):
    return a_manager().observe(
        replace(app, start=0.0, end=60.0, backlog=math.nan),
        (),
        deployment=deployment,
        budget=0.1,
        first=False,
    )


def test_partitions_of_all_topics_are_counted_once():
    given = [("a", "0"), ("a", "1"), ("b", "0"), ("a", "1")]

    assert a_source(False, False, partitions=given).splits == 3


def test_each_partition_is_told_with_its_reader_and_rate():
    app = measure_source(False, False, partitions=[("orders", "1"), ("orders", "0")])

    found = app.operators["source"].partitions

    assert [(each.name, each.reader) for each in found] == [("orders-0", "s0"), ("orders-1", "s0")]
    assert all(math.isnan(each.rate) for each in found)  # of one sample
    assert all(math.isnan(each.waiting) for each in found)


def test_a_source_that_does_not_tell_has_as_many_splits_as_subtasks_that_did_not_end():
    assert a_source(False, True, True).splits == 1
    assert math.isnan(a_source(False, False).splits)


def test_vertices_that_share_the_replicas_of_a_source_are_not_held_back():
    splits = a_source(False, partitions=[("a", "0")], entries={"source": frozenset({"v"})}).splits

    assert math.isnan(splits)


def test_no_pool_takes_more_replicas_than_there_are_partitions():
    app = measure_source(False, partitions=[("a", "0"), ("a", "1")])

    model = observed(app, a_deployment(1)).model

    assert {each.pool_limit for each in model.node_types} == {2}
    assert model.max_replicas == a_model().max_replicas


@pytest.mark.parametrize(("readers", "share"), [(1, 1.0), (2, 4 / 7), (4, 2 / 7), (7, 1 / 7)])
def test_the_reader_with_the_most_partitions_is_the_busiest(readers, share):
    app = measure_source(False, partitions=[("a", str(number)) for number in range(7)])

    model = observed(app, a_deployment(1)).model

    counts = np.array([a_deployment(readers).counts])
    busy = predict_utilisation(replace(model, service_mean=0.01), counts, 50.0)
    assert busy[0] == pytest.approx(50 * 0.01 * share / TYPES[0].speedup)


def test_replicas_beyond_the_partitions_may_stay_until_they_are_removed():
    app = measure_source(False, partitions=[("a", "0")])

    model = observed(app, a_deployment(3)).model

    assert model.node_types[0].pool_limit == 3


def wanting(now, target):
    """Return the proposal to go from some replicas to others, slow and fast ones."""
    model = a_model(node_types=(WIDE, LARGE))
    seen = an_observation(model=model, deployment=Deployment(now))
    return Proposal(observation=seen, decision=explain_rule(seen, Deployment(target), "more"))


def test_a_target_beyond_the_partitions_is_cut_to_the_fastest_replicas_of_it():
    wish = wanting((1, 0), (3, 2))

    cut = cut_to_splits(wish, 3.0).decision

    assert cut.target == Deployment((1, 2))
    assert cut.expectation == cut.candidates[0].expectation
    assert cut.expectation != wish.decision.expectation
    assert [each.verdict for each in cut.candidates if each.deployment == Deployment((3, 2))] == [
        "Rejected: 5 replicas of a source with 3 splits (partitions); more replicas would have "
        "nothing to read"
    ]
    assert cut.reason.startswith(
        "Goes to 1 x small/1 + 2 x large/1 instead of 5 replicas of a source"
    )
    assert cut.urgency == wish.decision.urgency


@pytest.mark.parametrize(
    ("now", "target", "splits", "expected"),
    [
        pytest.param((1, 0), (3, 2), 5.0, (3, 2), id="as many as there are partitions"),
        pytest.param((1, 0), (3, 2), math.nan, (3, 2), id="partitions unknown"),
        pytest.param((2, 0), (4, 0), 2.0, (2, 0), id="nothing is left to add"),
        pytest.param((3, 0), (5, 0), 2.0, (3, 0), id="more run already: none is taken away"),
        pytest.param((3, 0), (0, 4), 2.0, (0, 3), id="more run already: faster ones may come"),
        pytest.param((0, 2), (5, 0), 3.0, (0, 2), id="a part would do less work than what runs"),
        pytest.param((3, 0), (2, 0), 1.0, (2, 0), id="fewer replicas are never cut"),
    ],
)
def test_what_is_left_of_a_target_beyond_the_partitions(now, target, splits, expected):
    wish = wanting(now, target)

    cut = cut_to_splits(wish, splits)

    assert cut.decision.target == Deployment(expected)
    assert (cut is wish) == (expected == target)
    if expected == now:
        assert cut.kind is ChangeKind.NOTHING
        assert cut.decision.reason.startswith("Stays instead of")
        assert cut.decision.urgency == 0


def test_a_source_that_is_short_at_its_partitions_says_so():
    expected = Expectation(response_time=math.nan, utilisation=1.4, cost_per_hour=1.0)
    short = Proposal(
        observation=an_observation(deployment=a_deployment(2)),
        decision=a_decision(a_deployment(2), expectation=expected),
    )

    clause = find_binding(short, Neighbourhood.ANY, 2.0)

    assert "because the source has 2 splits (partitions)" in clause


@pytest.mark.parametrize(
    ("splits", "words"), [(1.0, "1 split (partition);"), (2.0, "2 splits (partitions);")]
)
def test_one_split_is_said_as_one(splits, words):
    assert describe_splits(splits).startswith(words)
