"""Requests that want the same place: the highest score is served first, as far as there is room."""

from weir_policies.application_manager.edf import Adaptation, AdaptationRequest, drop_conflicts


def asking(operator, score, kind=Adaptation.SCALE_OUT, **places):
    return AdaptationRequest(operator=operator, kind=kind, score=score, places=places)


def test_of_two_requests_for_one_node_the_one_with_the_higher_score_is_kept():
    low, high = asking("a", 0.3, node1=1), asking("b", 0.7, node1=1)

    assert drop_conflicts([low, high], {"node1": 1}) == [high]


def test_a_migration_and_a_scale_out_conflict_and_a_scale_in_conflicts_with_nobody():
    grow = asking("a", 0.6, node1=1)
    move = asking("b", 0.5, kind=Adaptation.MIGRATION, node1=1)
    shrink = asking("c", 0.1, kind=Adaptation.SCALE_IN)

    assert drop_conflicts([shrink, move, grow], {"node1": 1}) == [grow, shrink]


def test_requests_share_a_place_with_room_for_all_and_need_none_without_limit():
    pair = [asking("a", 0.9, pool=2), asking("b", 0.8, pool=1)]

    assert drop_conflicts(pair, {"pool": 3}) == pair
    assert drop_conflicts(pair, {}) == pair


def test_what_is_dropped_takes_no_room_from_those_behind_it():
    requests = [asking("a", 0.9, pool=3), asking("b", 0.8, pool=1)]

    assert drop_conflicts(requests, {"pool": 2}) == requests[1:]
