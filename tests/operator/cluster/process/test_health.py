"""Whether the controller lives: by what it does, not by whether it answers."""

from __future__ import annotations

import aiohttp
import pytest

from tests.operator.rescale.fakes import FakeClock
from weir_operator.api.objects import Key, Resource
from weir_operator.cluster.process.canary import BEAT, Canary
from weir_operator.cluster.process.health import (
    LOOK_EVERY,
    MAX_PASS_AGE,
    DeadControllerError,
    HealthServer,
    Pulse,
    find_fault,
    watch_over,
)
from weir_operator.errors import PermanentError, TemporaryError
from weir_operator.streamapp.loading import parse_manifest

KEY = Key("weir", "weir-canary")


def a_pulse(**changes):
    values = {"leads": True, "oldest_pass": 5.0, "oldest": "streams/trips", "watch_silence": 1.0}
    return Pulse(**{**values, **changes})


@pytest.mark.parametrize(
    ("pulse", "fault"),
    [
        (a_pulse(), ""),
        (a_pulse(oldest_pass=181.0), "The last pass over streams/trips was 181 s ago"),
        (a_pulse(watch_silence=200.0), "The watch has not shown a change"),
        (a_pulse(leads=False, oldest_pass=9999.0, watch_silence=9999.0), ""),
    ],
    ids=["it reconciles", "passes have stopped", "the watch is dead", "it stands by"],
)
def test_what_counts_as_dead(pulse, fault):
    found = find_fault(pulse)

    assert found.startswith(fault)
    assert bool(found) == bool(fault)


async def test_the_watchdog_ends_a_controller_whose_passes_have_stopped():
    clock = FakeClock()

    def pulse():
        return a_pulse(oldest_pass=clock.now() - 1000.0)

    with pytest.raises(DeadControllerError, match="streams/trips"):
        await watch_over(pulse, clock=clock)

    assert 0.0 < clock.now() - 1000.0 - MAX_PASS_AGE <= LOOK_EVERY


async def ask(port, path, accept="identity"):
    async with (
        aiohttp.ClientSession(headers={"Accept-Encoding": accept}) as session,
        session.get(f"http://127.0.0.1:{port}{path}") as response,
    ):
        return response.status, await response.text()


async def test_the_endpoints_tell_faults_by_their_status():
    pulse, unready = a_pulse(), "The watch has not started yet"
    server = HealthServer(
        pulse=lambda: pulse,
        find_unready=lambda: unready,
        metrics=lambda: b"up 1\n",
    )
    port = await server.start(0, "127.0.0.1")
    try:
        alive, waiting = await ask(port, "/healthz"), await ask(port, "/readyz")
        pulse, unready = a_pulse(watch_silence=999.0), ""
        dead, ready = await ask(port, "/healthz"), await ask(port, "/readyz")
        plain = await ask(port, "/metrics")
        compressed = await ask(port, "/metrics", accept="gzip")
    finally:
        await server.close()

    assert (alive[0], dead[0]) == (200, 503)
    assert (waiting, ready[0]) == ((503, "The watch has not started yet\n"), 200)
    assert plain == compressed == (200, "up 1\n")


@pytest.fixture
def canary(api, clock):
    return Canary(api, KEY, clock=clock)


def shown(api):
    return Resource.of(api.objects[KEY.path])


async def test_the_canary_is_a_stream_app_that_is_right(api, canary):
    await canary.beat()

    manifest = shown(api).manifest  # its name is refused to everybody else
    app = parse_manifest({**manifest, "metadata": {**manifest["metadata"], "name": "trips"}})
    assert app.spec.mode.value == "Off"
    assert shown(api).is_canary


async def test_the_canary_tells_people_who_list_it_what_it_is(api, canary):
    await canary.beat()
    await canary.beat()

    assert "canary" in api.objects[KEY.path]["status"]["lastAction"]
    assert [path for verb, path in api.calls if path.endswith("/status")] == [f"{KEY.path}/status"]


async def test_what_the_watch_shows_ends_the_silence(api, clock, canary):
    await canary.beat()
    clock.time += 50.0
    silence = canary.silence

    canary.hear(shown(api))

    assert silence == 50.0
    assert (canary.silence, canary.age) == (0.0, 0.0)


async def test_a_watch_that_shows_only_the_newest_of_several_writings_lives(api, clock, canary):
    for _ in range(3):
        await canary.beat()
        clock.time += 30.0

    canary.hear(shown(api))

    assert canary.silence == 0.0


async def test_a_watch_that_shows_an_old_writing_is_as_late_as_the_next_one(api, clock, canary):
    await canary.beat()
    old = shown(api)
    clock.time += 30.0
    await canary.beat()
    clock.time += 30.0

    canary.hear(old)

    assert canary.silence == 30.0


async def test_an_api_server_that_is_away_is_no_fault_of_the_watch(api, clock, canary):
    api.away = True

    with pytest.raises(TemporaryError):
        await canary.beat()

    clock.time += 999.0
    assert canary.silence == 0.0


async def test_a_stream_app_of_somebody_else_with_the_canarys_name_is_left_alone(api, canary):
    theirs = api.put(KEY.path, {"metadata": {"name": KEY.name}, "spec": {"mode": "Auto"}})

    with pytest.raises(PermanentError, match="weir/weir-canary"):
        await canary.beat()

    assert api.objects[KEY.path] == theirs
    assert canary.silence == 0.0


async def test_each_beat_is_a_writing_of_its_own(api, clock, canary):
    await canary.beat()
    first = shown(api).annotations[BEAT]
    clock.time += 30.0

    await canary.beat()

    assert shown(api).annotations[BEAT] != first
