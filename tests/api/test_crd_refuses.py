"""A manifest that cannot be right is refused by the API server, by Weir's schema and rules alone.

Weir itself refuses the same manifests, with better sentences (`test_bad_manifests`).
"""

from __future__ import annotations

import re

import pytest

from tests.operator.streamapp.bad_manifests import TABLE, Bad, a_flink
from tests.operator.streamapp.builders import a_manifest
from weir_operator.flink_keys import owned_keys

pytestmark = pytest.mark.kubernetes_api

REFUSED = [bad for bad in TABLE if bad.by_server]


def names_of(path: str) -> tuple[str, str]:
    """Return the section and the field of a path, without what the user made up."""
    plain = re.sub(r"\[[^\]]*\]", "", path)
    return ".".join(plain.split(".")[:2]), plain.rsplit(".", 1)[-1]


@pytest.mark.parametrize("bad", REFUSED, ids=lambda bad: bad.what)
async def test_a_mistake_is_refused_in_a_sentence_that_names_the_field(kube, bad: Bad):
    section, field = names_of(bad.path)

    answer = await kube.create(kube.stream_apps, a_manifest(**bad.spec))

    assert answer.status in (400, 422), answer.body
    assert section in answer.message
    assert field in answer.message


@pytest.mark.parametrize("key", [owned.replace("*", "anything") for owned in owned_keys()], ids=str)
async def test_a_key_of_flink_that_weir_owns_is_refused_by_name(kube, key):
    manifest = a_manifest(**a_flink(config={key: "mine"}))

    answer = await kube.create(kube.stream_apps, manifest)

    assert answer.status == 422
    assert re.search(f"expected .*, got {re.escape(key)}; ", answer.message)


async def test_a_name_that_no_pod_could_bear_is_refused(kube):
    manifest = a_manifest()
    manifest["metadata"]["name"] = "trips." + "x" * 60

    answer = await kube.create(kube.stream_apps, manifest)

    assert answer.status == 422
    assert "expected a name of at most 63 lower-case letters, digits and '-'" in answer.message


@pytest.mark.parametrize(
    ("written", "shown"), [(500, "500"), ("0ms", '"0ms"'), ("500", '"500"'), (True, "true")]
)
async def test_a_response_time_that_is_none_is_told_what_is_expected_in_words(kube, written, shown):
    answer = await kube.create(kube.stream_apps, a_manifest(objective={"responseTime": written}))

    assert (
        f"spec.objective.responseTime: Unsupported value: {shown}: supported values: "
        '"a duration from 1ms to 8760h, such as 200ms, 5s, 1m or 1h30m, or {bound: 500ms,'
        ' statistic: P95}"'
    ) in answer.message
    assert "less than or equal to" not in answer.message
    assert "should match" not in answer.message


@pytest.mark.parametrize(
    "bad", [bad for bad in TABLE if not bad.by_server], ids=lambda bad: bad.what
)
async def test_what_no_rule_can_see_is_left_to_the_controller(kube, bad: Bad):
    answer = await kube.create(kube.stream_apps, a_manifest(**bad.spec))

    assert answer.status == 201, answer.message
