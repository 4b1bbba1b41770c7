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
