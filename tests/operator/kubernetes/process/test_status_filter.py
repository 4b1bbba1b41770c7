"""kopf is not shown that only a status is new, unless it has still something to write."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from weir_operator.kubernetes.process.handlers import FINALIZER, HANDLED
from weir_operator.kubernetes.process.status_filter import StatusFilter

WRITTEN_BY_KOPF = {"finalizers": [FINALIZER], "annotations": {HANDLED: "{}"}}


@pytest.fixture
def statuses():
    return StatusFilter(finalizer=FINALIZER, handled=HANDLED)


def an_event(kind: str | None = "MODIFIED", *, version=1, **meta) -> Any:
    """Return an event of a StreamApp to which kopf has written all that it writes."""
    kept = {"name": "trips", "uid": "uid-1", "generation": 1, "resourceVersion": str(version)}
    return {"type": kind, "object": {"metadata": {**kept, **deepcopy(WRITTEN_BY_KOPF), **meta}}}


def test_a_new_status_alone_is_not_shown(statuses):
    listed = statuses.admits_event(an_event(None))
    written = an_event(version=2, managedFields=[{"manager": "weir", "subresource": "status"}])

    assert listed
    assert not statuses.admits_event(written)


@pytest.mark.parametrize(
    "meta",
    [
        {"generation": 2},
        {"annotations": {HANDLED: "{}", "weir.dev/paused": "true"}},
        {"labels": {"team": "rides"}},
        {"finalizers": [FINALIZER, "example.com/other"]},
        {"deletionTimestamp": "2026-01-02T03:04:05Z"},
    ],
    ids=["spec", "annotation", "label", "finalizer", "deletion"],
)
def test_what_people_change_is_shown(statuses, meta):
    statuses.admits_event(an_event(None))

    assert statuses.admits_event(an_event(version=2, **meta))


@pytest.mark.parametrize("missing", [{"finalizers": []}, {"annotations": {}}])
def test_each_version_is_shown_until_kopf_has_written_what_it_writes(statuses, missing):
    shown = [statuses.admits_event(an_event(version=each, **missing)) for each in range(3)]

    assert shown == [True, True, True]


def test_each_version_of_one_that_is_being_deleted_is_shown(statuses):
    deleting = {"deletionTimestamp": "2026-01-02T03:04:05Z"}

    shown = [statuses.admits_event(an_event(version=each, **deleting)) for each in range(3)]

    assert shown == [True, True, True]


def test_a_list_and_the_end_of_an_object_are_shown(statuses):
    statuses.admits_event(an_event(None))

    assert statuses.admits_event(an_event(None))
    assert statuses.admits_event(an_event("DELETED"))
    assert statuses.admits_event(an_event())
