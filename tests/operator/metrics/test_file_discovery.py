"""A Prometheus server learns of every reporter that comes and goes."""

import asyncio
import contextlib
import json

from tests.operator.rescale.fakes import TurnTakingClock
from weir_operator.clock import wait_until
from weir_operator.errors import TemporaryError
from weir_operator.metrics.prometheus_server import keep_targets, render_targets


def test_targets_are_addresses_with_the_apps_name():
    text = render_targets(["http://127.0.0.1:2/metrics", "http://127.0.0.1:1"], "default/trips")

    assert json.loads(text) == [
        {"targets": ["127.0.0.1:1", "127.0.0.1:2"], "labels": {"weir_app": "default/trips"}}
    ]


async def test_the_file_follows_the_reporters_through_a_failure(tmp_path):
    path = tmp_path / "targets.json"
    clock = TurnTakingClock()
    answers = [["http://a:1"], TemporaryError("the runtime is busy"), ["http://a:1", "http://b:2"]]

    async def targets():
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def complete():
        return (path.exists() and "b:2" in path.read_text()) or None

    keeping = asyncio.create_task(keep_targets(path, targets, "app", clock=clock))
    found = await wait_until(complete, clock=clock, timeout=60.0)
    keeping.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await keeping

    assert found
