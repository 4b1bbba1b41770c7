"""Many watched namespaces keep no request waiting, and one that is refused disturbs no other."""

from __future__ import annotations

import asyncio
import time

from tests.operator.kubernetes.process.loopback import until
from weir_operator.kubernetes.process import running
from weir_operator.kubernetes.process.settings import ControllerSettings


async def test_a_controller_of_ten_namespaces_is_answered_at_once(server, tmp_path, monkeypatch):
    names = tuple(f"team-{number}" for number in range(10))
    took = []

    async def run_controller(settings, *, api, changes, **_):
        watching = asyncio.create_task(changes.watch())
        await until(lambda: len(server.watched) == 3 * len(names))
        began = time.monotonic()
        async with asyncio.timeout(9.0):  # less than a request waits for a connection
            for _ in range(20):
                await api.get("/api/v1/namespaces/team-0/pods/a")
        took.append(time.monotonic() - began)
        watching.cancel()
        await asyncio.wait({watching})

    monkeypatch.setattr(running, "run_controller", run_controller)
    monkeypatch.setattr(running, "collect_garbage_less_often", lambda: None)
    settings = ControllerSettings(
        identity="one", own_namespace="team-0", state=tmp_path, namespaces=names
    )

    await running.run_on_cluster(settings)

    assert took[0] < 5.0
