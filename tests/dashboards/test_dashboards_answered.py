"""Every query of every dashboard is answered with numbers by a server that scrapes a controller."""

import asyncio
import time

import pytest

from dashboards.__main__ import FOLDER
from tests.dashboards.queries import Asked, has_data, read_queries

pytestmark = [pytest.mark.kubernetes_api, pytest.mark.prometheus]

PATIENCE = 150.0
"""Seconds for everything to have happened once; the limit only ends a test that fails."""
ASKED = [asked for path in sorted(FOLDER.glob("*.json")) for asked in read_queries(path)]


async def test_no_panel_is_without_data(watched):
    server, namespace = watched
    chosen = {
        "namespace": namespace,
        "app": "trips",
        "operator": "match",
        "__range": "2m",
        "__rate_interval": "15s",
    }
    open_ones = list(ASKED)

    deadline = time.monotonic() + PATIENCE
    while open_ones and time.monotonic() < deadline:
        await asyncio.sleep(1.0)
        open_ones = [each for each in open_ones if not await answered(server, each, chosen)]

    assert [(each.dashboard, each.place, each.expression) for each in open_ones] == []
    for unknown in (
        Asked(dashboard="", place="", expression="weir_no_such_metric"),
        Asked(dashboard="", place="", expression='weir_replicas{app="nobody"}', label="operator"),
        Asked(dashboard="", place="", expression="weir_operator_response_time_seconds * NaN"),
    ):
        assert not await answered(server, unknown, chosen)


async def answered(server, asked, chosen):
    return await asyncio.to_thread(has_data, server, asked, chosen)
