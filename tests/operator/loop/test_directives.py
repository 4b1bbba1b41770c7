"""What annotations and a manifest ask of the loops while they run."""

import pytest

from tests.operator.streamapp.builders import a_stream_app
from weir_operator.loop.directives import (
    Directives,
    carried_by_directives,
    directives_of,
    parse_pauses,
)
from weir_operator.streamapp.managers import Allowed
from weir_operator.streamapp.models import Mode

NOON = 1_767_268_800.0  # 2026-01-01T12:00:00Z


@pytest.mark.parametrize(
    ("annotation", "allows"),
    [
        ("weir.dev/paused", Allowed.NOTHING),
        ("weir.dev/paused-scale-in", Allowed.SCALE_OUT),
        ("weir.dev/paused-scale-out", Allowed.SCALE_IN),
    ],
)
def test_each_pause_annotation_leaves_the_other_direction_allowed(annotation, allows):
    [pause] = parse_pauses({annotation: "true"})

    assert pause.allows is allows
    assert pause.until is None
    assert pause.remark == ""


@pytest.mark.parametrize(
    "text", ["2026-01-01T12:00:00Z", "2026-01-01T13:00:00+01:00", "2026-01-01T12:00:00"]
)
def test_a_pause_may_end_at_a_time_which_is_utc_where_no_zone_is_written(text):
    [pause] = parse_pauses({"weir.dev/paused": text})

    assert pause.until == NOON


@pytest.mark.parametrize("text", ["", "false", "False"])
def test_a_pause_annotation_that_says_no_is_none(text):
    assert parse_pauses({"weir.dev/paused": text, "other.dev/paused": "true"}) == ()


def test_a_pause_that_cannot_be_read_pauses_and_says_what_to_correct():
    [pause] = parse_pauses({"weir.dev/paused": "tomorow"})

    assert pause.allows is Allowed.NOTHING
    assert pause.until is None
    assert "'tomorow'" in pause.remark


def test_a_manifest_says_mode_state_pauses_windows_and_reset():
    window = {"name": "peak", "schedule": "0 17 * * 1-5", "duration": "2h", "allow": "ScaleOut"}
    app = a_stream_app(mode="Advise", state="Suspended", windows=[window], resetNonce=3)

    found = directives_of(app)

    assert found.mode is Mode.ADVISE
    assert found.suspended
    assert [each.name for each in found.windows] == ["peak"]
    assert found.reset_nonce == 3
    assert Directives().suspended is False


def test_only_what_directives_carry_leaves_the_loops_as_they_are():
    before = a_stream_app().spec
    carried = a_stream_app(mode="Advise", resetNonce=1, fallback={"after": "5m"}).spec
    other = a_stream_app(mode="Advise", objective={"responseTime": "77ms"}).spec

    assert carried_by_directives(before, carried)
    assert not carried_by_directives(before, other)


@pytest.mark.parametrize("text", ["9999-12-31T23:59:59-12:00", "0001-01-01T00:00:00+12:00"])
def test_a_pause_until_a_time_that_no_calendar_has_is_one_that_cannot_be_read(text):
    [pause] = parse_pauses({"weir.dev/paused": text})

    assert pause.allows is Allowed.NOTHING
    assert pause.until is None
    assert text in pause.remark
