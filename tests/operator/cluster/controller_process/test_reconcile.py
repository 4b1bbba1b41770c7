"""A pass: what is done about a StreamApp, whatever was done before."""

from __future__ import annotations

import pytest

from weir_operator.cluster.objects import CANARY_LABEL, Resource
from weir_operator.cluster.reconcile import Move, choose_move


def a_resource(uid="u1", **meta):
    return Resource.of(
        {"metadata": {"namespace": "streams", "name": "trips", "uid": uid, **meta}, "spec": {}}
    )


GOING = {"deletionTimestamp": "2026-01-31T08:00:00Z"}


@pytest.mark.parametrize(
    ("wanted", "steered", "move"),
    [
        (a_resource(), None, Move.START),
        (a_resource(), a_resource(), Move.TELL),
        (a_resource(generation=2), a_resource(generation=1), Move.TELL),
        (a_resource("u2"), a_resource("u1"), Move.REPLACE),
        (a_resource(**GOING), a_resource(), Move.LEAVE),
        (a_resource(**GOING), None, Move.LEAVE),
        (a_resource(labels={CANARY_LABEL: "true"}), None, Move.LEAVE),
    ],
    ids=[
        "a new one is started",
        "one that is steered is told of",
        "a change is told of",
        "another object of the same name takes its place",
        "one that is being deleted is left to the deletion",
        "one that was deleted before it was seen is left to the deletion",
        "for a canary nothing is run",
    ],
)
def test_what_a_pass_does(wanted, steered, move):
    assert choose_move(wanted, steered) is move
