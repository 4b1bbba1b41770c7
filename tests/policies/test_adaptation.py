"""EDF's requests: which comes first."""

from __future__ import annotations

import pytest

from weir_policies.application_manager.edf import (
    Adaptation,
    AdaptationRequest,
    prioritise,
    step_of,
)

AWAY = AdaptationRequest(operator="rank", kind=Adaptation.MIGRATION, score=0.5, replica="rank-1")


def test_the_highest_score_comes_first_whatever_is_asked_for():
    requests = [step_of("a", 1, 0.2), step_of("b", -1, 0.9), AWAY]

    ranked = prioritise(requests)

    assert [each.score for each in ranked] == [0.9, 0.5, 0.2]


def test_of_equal_scores_a_scale_out_comes_first_and_then_the_name_decides():
    requests = [step_of("c", -1, 0.5), AWAY, step_of("b", 1, 0.5), step_of("a", 1, 0.5)]

    ranked = prioritise(requests)

    assert [each.operator for each in ranked] == ["a", "b", "rank", "c"]


@pytest.mark.parametrize(("change", "kind"), [(1, Adaptation.SCALE_OUT), (-1, Adaptation.SCALE_IN)])
def test_a_step_changes_the_replicas_by_one(change, kind):
    request = step_of("a", change, 0.5)

    assert (request.kind, request.change) == (kind, change)


def test_a_migration_leaves_the_number_of_replicas():
    assert AWAY.change == 0
