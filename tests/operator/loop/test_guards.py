"""When scaling stands still, which direction stays allowed, and what is said of it."""

from datetime import UTC, datetime

import pytest

from weir_operator.loop.bounds import (
    Cause,
    Guard,
    ScalingDirection,
    direction_of,
    guards_at,
    refuse_change,
)
from weir_operator.loop.directives import Directives, Pause
from weir_operator.streamapp.managers import Allowed, Window
from weir_operator.streamapp.quantities import Duration
from weir_policies.model.node_types import Deployment, NodeType

TYPES = (
    NodeType(name="small/1", pool="small", speedup=1.0, price=0.04),
    NodeType(name="large/1", pool="large", speedup=2.0, price=0.07),
)


def at(text):
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def a_window(schedule="0 17 * * 1-5", duration="2h", allow=Allowed.SCALE_OUT):
    return Window(name="peak", schedule=schedule, duration=Duration(duration), allow=allow)


def a_guard(allows):
    return Guard(
        cause=Cause.PAUSE, name="weir.dev/paused", allows=allows, reason="somebody said so"
    )


@pytest.mark.parametrize(
    ("now", "end"),
    [
        ("2026-01-05 16:59:59", None),
        ("2026-01-05 17:00:00", "2026-01-05 19:00 UTC"),
        ("2026-01-05 18:59:59", "2026-01-05 19:00 UTC"),
        ("2026-01-05 19:00:00", None),
        ("2026-01-10 17:30:00", None),  # a Saturday
    ],
)
def test_a_blocked_period_is_open_from_its_schedule_for_its_duration(now, end):
    guards = guards_at(Directives(windows=(a_window(),)), at(now))

    assert [end in guard.reason for guard in guards] == ([] if end is None else [True])


def test_a_blocked_period_may_reach_over_midnight():
    window = a_window(schedule="0 23 * * *", duration="3h")

    [guard] = guards_at(Directives(windows=(window,)), at("2026-01-06 01:30:00"))

    assert "2026-01-06 02:00 UTC" in guard.reason


def test_a_pause_holds_until_its_time():
    pause = Pause(source="weir.dev/paused", allows=Allowed.NOTHING, until=at("2026-01-05 12:00:00"))
    directives = Directives(pauses=(pause,))

    [guard] = guards_at(directives, at("2026-01-05 11:59:59"))

    assert guard.cause is Cause.PAUSE
    assert "2026-01-05 12:00 UTC" in guard.reason
    assert guards_at(directives, at("2026-01-05 12:00:00")) == ()


@pytest.mark.parametrize(
    ("before", "after", "direction"),
    [
        ((1, 0), (2, 0), ScalingDirection.OUT),
        ((3, 0), (0, 1), ScalingDirection.IN),
        ((1, 0), (0, 1), ScalingDirection.OUT),
        ((2, 0), (0, 1), ScalingDirection.ACROSS),
    ],
)
def test_a_direction_is_a_matter_of_speed_and_not_of_replicas(before, after, direction):
    assert direction_of(Deployment(before), Deployment(after), TYPES) is direction


@pytest.mark.parametrize(
    ("allows", "direction", "denied"),
    [
        (Allowed.NOTHING, ScalingDirection.OUT, True),
        (Allowed.NOTHING, ScalingDirection.IN, True),
        (Allowed.SCALE_OUT, ScalingDirection.OUT, False),
        (Allowed.SCALE_OUT, ScalingDirection.IN, True),
        (Allowed.SCALE_OUT, ScalingDirection.ACROSS, True),
        (Allowed.SCALE_IN, ScalingDirection.IN, False),
        (Allowed.SCALE_IN, ScalingDirection.OUT, True),
    ],
)
def test_a_guard_denies_all_but_the_direction_that_it_allows(allows, direction, denied):
    refusal = refuse_change(direction, [a_guard(allows)])

    assert (refusal is not None) is denied


def test_two_guards_that_allow_different_directions_allow_none():
    guards = [a_guard(Allowed.SCALE_OUT), a_guard(Allowed.SCALE_IN)]

    assert refuse_change(ScalingDirection.OUT, guards) is not None
    assert refuse_change(ScalingDirection.IN, guards) is not None
