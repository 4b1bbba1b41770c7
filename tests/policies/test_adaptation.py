"""EDF's requests: which comes first, and which gives way to another."""

from __future__ import annotations

import pytest

from weir_policies.application_manager.adaptation import (
    Adaptation,
    AdaptationRequest,
    accept_all,
    drop_conflicts,
    prioritise,
    step_of,
)


def to_node(node, *, operator="rank", score=0.5, kind=Adaptation.MIGRATION):
    return AdaptationRequest(operator=operator, kind=kind, score=score, node=node)


def test_the_highest_score_comes_first_whatever_is_asked_for():
    requests = [step_of("a", 1, 0.2), step_of("b", -1, 0.9), to_node("n1", score=0.5)]

    ranked = prioritise(requests)

    assert [each.score for each in ranked] == [0.9, 0.5, 0.2]


def test_of_equal_scores_a_scale_out_comes_first_and_then_the_name_decides():
    requests = [step_of("c", -1, 0.5), to_node("n1"), step_of("b", 1, 0.5), step_of("a", 1, 0.5)]

    ranked = prioritise(requests)

    assert [each.operator for each in ranked] == ["a", "b", "rank", "c"]


def test_a_request_gives_way_to_a_higher_one_that_wants_its_node():
    out = to_node("n1", operator="count", score=0.7, kind=Adaptation.SCALE_OUT)
    move, other = to_node("n1", score=0.6), to_node("n2", score=0.1)

    assert accept_all([other, move, out]) == [out, other]


def test_requests_without_a_node_never_conflict():
    requests = [step_of("a", 1, 0.5), step_of("b", 1, 0.4), step_of("c", -1, 0.3)]

    assert drop_conflicts(requests) == requests


@pytest.mark.parametrize(("change", "kind"), [(1, Adaptation.SCALE_OUT), (-1, Adaptation.SCALE_IN)])
def test_a_step_changes_the_replicas_by_one(change, kind):
    request = step_of("a", change, 0.5)

    assert (request.kind, request.change) == (kind, change)


def test_a_migration_leaves_the_number_of_replicas():
    assert to_node("n1").change == 0
