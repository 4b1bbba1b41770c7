"""API server and models judge alike: a whole manifest with each of its fields bent in many ways.

Where they differed, a manifest would be stored that the controller then refuses, or an app that
runs on a laptop could not be applied.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.operator.streamapp.bent_specs import ODD, a_whole_spec, bent_specs
from weir_operator.errors import InvalidStreamAppError
from weir_operator.streamapp.loading import parse_manifest

pytestmark = pytest.mark.kubernetes_api

UNSEEN = (
    "at most the bound of the whole job",
    "a time zone in the database",
    "spec.windows[0].minReplicas",
    "spec.objective.maxCostPerHour",
)
"""Parts of refusals that no rule of the server can make: it would compare fields without a type,
know names of time zones, or compare lists with lists and prices, for which it has no time."""


def is_unseen(refusal: str) -> bool:
    """Return whether the server can see none of the mistakes."""
    mistakes = refusal.splitlines()
    return bool(mistakes) and all(any(part in each for part in UNSEEN) for each in mistakes)


SECTIONS = tuple(a_whole_spec())


def refusal_of(manifest: dict[str, Any]) -> str:
    """Return why the models refuse a manifest; empty where they take it."""
    try:
        parse_manifest(manifest)
    except InvalidStreamAppError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("section", SECTIONS)
async def test_what_one_refuses_the_other_refuses_too(kube, section):
    verdicts = []
    for what, spec in bent_specs(section):
        manifest = {
            "apiVersion": "weir.dev/v1alpha1",
            "kind": "StreamApp",
            "metadata": {"name": "trips"},
            "spec": spec,
        }
        answer = await kube.ask(
            "POST", f"{kube.stream_apps}?fieldValidation=Strict&dryRun=All", manifest
        )
        verdicts.append((what, answer, refusal_of(manifest)))

    assert len(verdicts) >= len(ODD)
    assert {
        what: refusal or answer.message
        for what, answer, refusal in verdicts
        if (answer.status == 201) != (refusal == "") and not is_unseen(refusal)
    } == {}


def test_the_whole_spec_is_right_and_has_every_section():
    spec = a_whole_spec()

    app = parse_manifest(
        {"apiVersion": "weir.dev/v1alpha1", "kind": "StreamApp",
         "metadata": {"name": "trips"}, "spec": spec}
    )  # fmt: skip

    assert {field.alias for field in type(app.spec).model_fields.values()} == set(SECTIONS)
