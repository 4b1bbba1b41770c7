"""What is right is taken by a real API server."""

from __future__ import annotations

import pytest

from weir_operator.streamapp.testing import a_manifest

pytestmark = pytest.mark.kubernetes_api


async def test_the_short_form_is_taken(kube):
    answer = await kube.create(kube.stream_apps, a_manifest())

    assert answer.status == 201, answer.message
