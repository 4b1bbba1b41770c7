"""Events: told once, counted after that, and never in floods."""

from __future__ import annotations

import pytest

from weir_operator.api.objects import Resource
from weir_operator.cluster.status.events import (
    BURST,
    BURST_OF_REASON,
    COUNT_EVERY,
    REFILL,
    REFILL_OF_REASON,
    EventPoster,
)
from weir_operator.loop.events import NORMAL, WARNINGS

EVENTS = "/api/v1/namespaces/streams/events"


@pytest.fixture
def poster(api, clock):
    return EventPoster(api, instance="pod-1", clock=clock)


REASONS = sorted(NORMAL | WARNINGS)


def an_app(name="trips"):
    return Resource.of(
        {"metadata": {"namespace": "streams", "name": name, "uid": f"uid-{name}"}, "spec": {}}
    )


def told(api):
    return [body for path, body in api.objects.items() if path.startswith(EVENTS)]


async def test_a_fact_becomes_an_event_about_the_app(api, poster):
    poster.post(an_app(), "RescaleDone", "match goes to large/1")

    await poster.flush()

    [event] = told(api)
    assert event["involvedObject"]["uid"] == "uid-trips"
    assert (event["type"], event["reason"], event["count"]) == ("Normal", "RescaleDone", 1)


async def test_the_same_fact_again_is_counted_and_not_told_again(api, clock, poster):
    for _ in range(10):
        poster.post(an_app(), "JobDown", "1 of 2 replicas report")
        clock.time += 1.0
    await poster.flush()
    clock.time += COUNT_EVERY
    poster.post(an_app(), "JobDown", "1 of 2 replicas report")

    await poster.flush()

    [event] = told(api)
    assert event["count"] == 11
    assert api.count("create") == 1
    assert api.count("patch") == 1


async def test_changes_there_and_back_that_differ_in_figures_alone_are_all_told(api, poster):
    there_and_back = ["Rescaled match 2 -> 3 in 22.5 s", "Rescaled match 3 -> 2 in 19.1 s"]
    for message in there_and_back:
        poster.post(an_app(), "RescaleDone", message)

    await poster.flush()

    assert [event["message"] for event in told(api)] == there_and_back


async def test_a_reason_whose_figures_never_rest_is_bounded_and_leaves_room_for_others(
    api, clock, poster
):
    hour = 3600
    for second in range(hour):
        poster.post(an_app(), "ChangeDidWorse", f"The response time is {second} ms")
        clock.time += 1.0
    poster.post(an_app(), "RescaleDone", "Rescaled match 2 -> 3 in 22.5 s")

    await poster.flush()

    reasons = [event["reason"] for event in told(api)]
    assert reasons.count("ChangeDidWorse") <= BURST_OF_REASON + hour / REFILL_OF_REASON
    assert reasons.count("RescaleDone") == 1


async def test_a_clock_that_is_set_back_silences_nobody(api, clock, poster):
    poster.post(an_app(), "RescaleDone", "Something")
    clock.set_by(-3600.0)

    for number in range(3):
        poster.post(an_app(), "RescaleDone", f"Something {number}")

    await poster.flush()
    assert len(told(api)) == 4


async def test_an_event_that_cannot_be_made_holds_up_no_other(api, poster, monkeypatch):
    create = api.create

    async def create_most(path, body):
        if body["reason"] == "NodeSlow":
            raise TypeError("not JSON")
        return await create(path, body)

    monkeypatch.setattr(api, "create", create_most)
    poster.post(an_app(), "NodeSlow", "Something that nobody can write")
    poster.post(an_app(), "RescaleDone", "match goes to large/1")

    await poster.flush()

    assert [event["reason"] for event in told(api)] == ["RescaleDone"]


async def test_an_app_that_tells_too_much_is_cut_off_and_others_are_not(api, clock, poster):
    for number in range(3 * BURST):
        poster.post(an_app(), REASONS[number], "Something")
    poster.post(an_app("other"), "RescaleDone", "Something")

    await poster.flush()

    names = [event["involvedObject"]["name"] for event in told(api)]
    assert (names.count("trips"), names.count("other")) == (BURST, 1)
    assert poster.dropped == 2 * BURST


async def test_after_a_while_an_app_may_tell_again(api, clock, poster):
    for number in range(2 * BURST):
        poster.post(an_app(), REASONS[number], "Something")
    clock.time += REFILL

    poster.post(an_app(), REASONS[-1], "Something")

    await poster.flush()
    assert REASONS[-1] in [event["reason"] for event in told(api)]


async def test_an_api_server_that_is_away_stops_nobody(api, poster):
    api.away = True
    poster.post(an_app(), "RescaleDone", "Something")

    await poster.flush()

    assert told(api) == []


async def test_an_event_that_the_api_server_has_forgotten_is_told_again(api, clock, poster):
    poster.post(an_app(), "RescaleDone", "Something")
    await poster.flush()
    api.objects.clear()
    clock.time += COUNT_EVERY
    poster.post(an_app(), "RescaleDone", "Something")

    await poster.flush()

    [event] = told(api)
    assert event["count"] == 2


async def test_a_long_message_is_cut_to_what_kubernetes_takes(api, poster):
    poster.post(an_app(), "RescaleDone", "x" * 5000)

    await poster.flush()

    assert len(told(api)[0]["message"]) == 1024


async def test_of_long_messages_only_what_is_shown_is_remembered(api, poster):
    for number in range(3):
        poster.post(an_app(), "InvalidSpec", f"{'x' * 1_000_000}{number}")

    await poster.flush()

    assert len(told(api)) == 1
