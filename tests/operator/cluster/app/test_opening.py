"""A thousand StreamApps do not all tick in the same moment."""

from __future__ import annotations

import math

import pytest

from weir_operator.api.objects import Resource
from weir_operator.cluster.app.opening import phase_of
from weir_operator.loop.tick import find_first_window


def a_resource(number):
    uid = f"00000000-0000-4000-8000-{number:012d}"
    return Resource.of(
        {"metadata": {"namespace": "n", "name": f"a{number}", "uid": uid}, "spec": {}}
    )


def test_ticks_of_many_apps_are_spread_over_the_interval():
    phases = [phase_of(a_resource(number)) for number in range(1000)]

    in_each_second = [sum(int(60 * phase) == second for phase in phases) for second in range(60)]

    assert max(in_each_second) <= 3 * 1000 / 60


@pytest.mark.parametrize(
    ("now", "phase", "wait"),
    [(1000.0, None, 60.0), (1000.0, 0.5, 50.0), (1055.0, 0.5, 55.0), (1050.0, 0.5, 0.0)],
    ids=["without a place, an interval from now", "its next place", "past it", "just now"],
)
def test_when_the_first_tick_is_due(now, phase, wait):
    start, due = find_first_window(now, 60.0, phase, judged_until=-math.inf)

    assert (start, due) == (now + wait - 60.0, now + wait)


@pytest.mark.parametrize(
    ("interval", "judged_until", "window"),
    [
        (60.0, -math.inf, (1020.0, 1080.0)),
        (60.0, 1020.0, (1020.0, 1080.0)),
        (60.0, 1020.3, (1020.3, 1080.0)),
        (60.0, 500.0, (1020.0, 1080.0)),
        (120.0, 1020.0, (1020.0, 1080.0)),
        (600.0, 1020.0, (1020.0, 1200.0 + 600.0)),
        (30.0, 1020.0, (1020.0, 1050.0)),
        (20.0, 1030.0, (1030.0, 1040.0)),
        (20.0, 1030.5, (1030.5, 1060.0)),
        (20.0, 1001.0, (1001.0, 1040.0)),
    ],
    ids=[
        "the first ever: it began before the loops",
        "that which follows the last one",
        "after a tick that was late",
        "a whole one, however long ago the last one was",
        "what was not judged, of a longer one",
        "too little of a longer one is not judged: joined to the next",
        "a shorter one",
        "half of a shorter one",
        "less than half of a shorter one: joined to the next",
        "what nobody judged while the loops were made again",
    ],
)
def test_the_first_interval_leaves_out_what_was_judged_before(interval, judged_until, window):
    assert find_first_window(1031.0, interval, 0.0, judged_until=judged_until) == window
